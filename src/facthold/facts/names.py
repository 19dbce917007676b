"""Names of subjects, relations and answers as people type them, and free prompts in which they stand among words."""

import datetime
import difflib
import numbers
import re
import unicodedata
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np

from facthold._util.errors import FactholdError, brief
from facthold.facts.table import FactTable

K = TypeVar("K", bound=Hashable)
SUGGESTED = 5  # names that an error suggests at most
NEAR = 50  # names whose likeness is measured exactly, after a quick look at all of them

# Characters of a free prompt at most: every word that is not known is compared with all names. And of a name, as one
# that is longer could never be asked for.
LONGEST = 10_000

# Characters that show nothing: by their category in Unicode (controls, zero-width ones, spaces), and fillers that
# count as letters or signs.
UNSEEN, FILLERS = ("Cc", "Cf", "Zs", "Zl", "Zp"), "\u034f\u115f\u1160\u2800\u3164\uffa0\ufe0e\ufe0f"


# What `fold` takes away: accents of these alphabets, but for letters that have a mark and are no other letter with one;
# and shapes of the same letter, by their names in Unicode.
ACCENTED, LETTERS = ("LATIN", "GREEK", "CYRILLIC"), frozenset("ЙйЇїЎўЃѓЌќ")
SHAPES = ("<wide>", "<narrow>", "<compat>", "<font>", "<noBreak>", "<initial>", "<medial>", "<final>", "<isolated>")
ACCENTS = frozenset(chr(c) for c in range(0x300, 0x370))  # of letters that have none composed with them


# What has one text that people would write for it; of other objects it may be an address in memory.
WRITTEN_PLAINLY = (
    bool, np.bool_, numbers.Real, Decimal, datetime.date, datetime.time, datetime.timedelta, np.datetime64,
)  # fmt: skip


class UnknownName(FactholdError):
    """A name that the table does not have, or that is not clear."""


def as_text(value: Any) -> str | None:
    """A value that came with a type as the text of a name: numbers, truth values and dates as they are written. What is
    missing (None, nan, NaT, pandas.NA) is empty; for what can be no name, None."""
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return None
    if isinstance(value, Iterable):  # a text is one too, of letters
        return str(value) if isinstance(value, str) else None
    try:
        missing = value is None or bool(value != value)
    except TypeError:  # pandas.NA is neither equal nor unequal
        missing = True
    if missing:
        return ""
    text = str(value)
    return (text.lower() if text in ("True", "False") else text) if isinstance(value, WRITTEN_PLAINLY) else None


def clean(name: str) -> str:
    """A name as files of facts have it: in Unicode's form NFC, without space around it."""
    return unicodedata.normalize("NFC", name.strip())


def blank(name: str) -> bool:
    """Whether nothing of a name can be seen, as of one that is empty or a zero-width space."""
    return all(c in FILLERS or unicodedata.category(c) in UNSEEN for c in name)


def seen(name: str) -> str:
    """What can be seen of a name: without characters that show nothing, and with one kind of space."""
    if name.isascii() and name.isprintable():
        return name
    spaced = (" " if c.isspace() else c for c in name)
    return "".join(c for c in spaced if c == " " or not blank(c)).strip()


def look_alike(names: Iterable[str]) -> list[list[str]]:
    """Names that differ by what cannot be seen alone."""
    known = list(names)
    return [[known[i] for i in group] for group in _grouped(map(seen, known)).values() if len(group) > 1]


def unfit(name: str) -> str:
    """What is wrong with a clean name; nothing for one that can be in a table."""
    if not name:
        return "is empty"
    if blank(name):
        return f"is empty: nothing of it can be seen ({', '.join(f'U+{ord(c):04X}' for c in dict.fromkeys(name[:3]))})"
    if len(name) > LONGEST:
        return f"is a name of {len(name)} characters; it may have at most {LONGEST}"
    if "\0" in name:
        return "has a NUL character in it; leave it out"
    half = any("\ud800" <= c <= "\udfff" for c in name)
    return "has half a character (a lone surrogate) in it; leave it out" if half else ""


def fold(name: str) -> str:
    """A name without case, accents and doubled spaces: 'Côte  d'Ivoire' and "cote d'ivoire" are one.

    Accents are those of Latin, Greek and Cyrillic letters that are no letters of their own: и and й are two, and so
    are か and が. Other ways to write the same letter (wide ones, ligatures) are that letter, but a small 2 above the
    line is no 2.
    """
    if not name.isascii():
        same = "".join(unicodedata.normalize("NFKD", c) if _another_shape(c) else c for c in name)
        name = "".join(map(_plain, unicodedata.normalize("NFC", same)))
    return " ".join(name.casefold().split())


@cache
def _another_shape(c: str) -> bool:
    """Whether a character is another one in another shape, such as a wide A; not what it is above or below a line."""
    return unicodedata.decomposition(c).partition(" ")[0] in SHAPES


@cache
def _plain(c: str) -> str:
    """A letter without its accents, where these are not part of it. A mark by itself is none that was composed."""
    if unicodedata.combining(c):
        return "" if c in ACCENTS else c
    parts = unicodedata.normalize("NFD", c)
    own = len(parts) == 1 or c in LETTERS or not unicodedata.name(parts[0], "").startswith(ACCENTED)
    return c if own else parts[0]


def words(text: str) -> tuple[str, ...]:
    """The words of a text, folded. Whatever is no letter and no digit only parts them, as _ and - do in names."""
    return tuple(re.findall(r"[^\W_]+", fold(text)))


@dataclass(frozen=True)
class Names:
    """The names of one kind of token, by number. A table without labels has the numbers for names."""

    what: str  # 'subject', 'relation' or 'answer'
    names: Sequence[str]

    @classmethod
    def of(cls, table: FactTable) -> "tuple[Names, Names, Names]":
        """Those of the subjects, the relations and the answers."""
        kinds = {"subjects": table.S, "relations": table.R, "answers": table.A}
        subjects, relations, answers = (
            cls(kind[:-1], [str(i) for i in range(n)] if table.labels is None else getattr(table.labels, kind))
            for kind, n in kinds.items()
        )
        return subjects, relations, answers

    def __getitem__(self, i: int | np.integer) -> str:
        return self.names[int(i)]

    def find(self, name: str) -> int:
        """The number of a name: as it stands, or else, where only one is meant, without case and accents."""
        i = self.get(name)
        if i is None:
            raise UnknownName(f"unknown {self.what} {brief(name)}; {self.hint(name)}")
        return i

    def hint(self, name: str) -> str:
        """What may have been meant by a name that is not there; where none is like it, which there are."""
        if near := self.near(name):
            return f"did you mean {', '.join(map(repr, near))}?"
        n = len(self.names)
        return f"the table has {', '.join(map(brief, self.names[:SUGGESTED]))}" + (
            f" and {n - SUGGESTED} more" if n > SUGGESTED else ""
        )

    def get(self, name: str) -> int | None:
        """As `find`; None for a name that is not there. One that is not clear is an error."""
        if (i := self.exact(name)) is not None:
            return i
        like = self._folded.get(fold(name), [])
        if len(like) > 1:  # then case alone may decide: zoë is Zoë and not Zoe
            lower = clean(name).casefold()
            like = [i for i in like if clean(self.names[i]).casefold() == lower] or like
        if len(like) > 1:
            meant = ", ".join(repr(self.names[i]) for i in like[:SUGGESTED])
            raise UnknownName(f"the {self.what} {name!r} is not clear: {meant}; write it as it stands in the table")
        return like[0] if like else None

    def meant(self, name: str) -> str | int:
        """The number of a name that is known and clear; else the name without case and accents. Two spellings of one
        name have one."""
        try:
            i = self.get(name)
        except UnknownName:
            return clean(name)
        return fold(name) if i is None else i

    def alike(self, name: str) -> list[str]:
        """The names that differ from this one by case, accents and spaces alone."""
        return [self.names[i] for i in self._folded.get(fold(name), []) if self.names[i] != clean(name)]

    def exact(self, name: str) -> int | None:
        """The number of the name as it stands; None where only case or accents are the same, or nothing is."""
        return self._numbers.get(clean(name))

    def near(self, name: str, n: int = SUGGESTED) -> list[str]:
        """The names that are most like this one. Shared pairs of letters say quickly which are worth a closer look."""
        pairs = _pairs(fold(name))
        likeness = {k: len(pairs & known) / (len(pairs) + len(known)) for k, known in self._letter_pairs.items()}
        alike = sorted(likeness, key=lambda known: -likeness[known])[:NEAR]
        close = difflib.get_close_matches(fold(name), alike, n=n, cutoff=0.6)
        return [self.names[self._folded[known][0]] for known in close]

    @cached_property
    def by_words(self) -> dict[tuple[str, ...], list[int]]:
        """The numbers of the names with these words."""
        return {key: numbers for key, numbers in _grouped(map(words, self.names)).items() if key}

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {unicodedata.normalize("NFC", name): i for i, name in enumerate(self.names)}

    @cached_property
    def _folded(self) -> dict[str, list[int]]:
        return _grouped(map(fold, self.names))

    @cached_property
    def _letter_pairs(self) -> dict[str, frozenset[str]]:
        return {name: _pairs(name) for name in self._folded}


@dataclass(frozen=True)
class Parsed:
    """A subject and a relation that were found in a free prompt, and its other words."""

    subject: int
    relation: int
    others: list[str]


class _Match(NamedTuple):
    """A name in a text: which of its words, and the name's number."""

    places: frozenset[int]
    number: int


def parse(text: str, subjects: Names, relations: Names) -> Parsed:
    """Find one subject and one relation in a free prompt. A name inside a longer one does not count."""
    if len(text) > LONGEST:
        raise UnknownName(f"a question of {len(text)} characters is too long; ask for one fact in at most {LONGEST}")
    in_text = words(text)
    of_s, of_r = (_as_typed(text, kind, _matches(in_text, kind)) for kind in (subjects, relations))
    longer = [match.places for match in (*of_s, *of_r)]
    of_s, of_r = ([f for f in kind if not any(f.places < places for places in longer)] for kind in (of_s, of_r))
    _demand(text, in_text, subjects, of_s, relations, of_r)
    _demand(text, in_text, relations, of_r, subjects, of_s)
    pairs = {(f.number, g.number) for f in of_s for g in of_r if f.places.isdisjoint(g.places)}
    if len(pairs) != 1:
        raise UnknownName(
            f"{text!r} is not clear: {_list(subjects, of_s)}, {_list(relations, of_r)}; ask for one of each"
        )
    ((s, r),) = pairs
    chosen = [f for f in of_s if f.number == s] + [g for g in of_r if g.number == r]
    taken = frozenset().union(*(match.places for match in chosen))
    return Parsed(s, r, [word for i, word in enumerate(in_text) if i not in taken])


def _matches(in_text: Sequence[str], names: Names) -> list[_Match]:
    longest = max(map(len, names.by_words), default=0)
    return [
        _Match(frozenset(range(start, end)), number)
        for start in range(len(in_text))
        for end in range(start + 1, min(start + longest, len(in_text)) + 1)
        for number in names.by_words.get(tuple(in_text[start:end]), [])
    ]


def _as_typed(text: str, names: Names, matches: list[_Match]) -> list[_Match]:
    """Of names that differ by case or accents alone, the one that is typed as it stands in the table, if there is."""
    typed, kept = clean(text), []
    for places in _grouped(match.places for match in matches).values():
        same = [matches[i] for i in places]
        kept += [match for match in same if clean(names[match.number]) in typed] or same
    return kept


def _demand(
    text: str, in_text: Sequence[str], names: Names, matches: list[_Match], others: Names, of_others: list[_Match]
) -> None:
    """Refuse a prompt without a name of this kind; say what else it has, and what may have been meant."""
    if matches:
        return
    free = [word for i, word in enumerate(in_text) if not any(i in match.places for match in of_others)]
    pairs = ((word, name) for word in free for name in names.near(word, 1))
    near = [(difflib.SequenceMatcher(None, word, fold(name)).ratio(), name) for word, name in pairs]
    hint = f"; did you mean {max(near)[1]!r}?" if near else "; write names of the table, with spaces around them"
    there = f" ({_list(others, of_others)} is there)" if of_others else f" and no {others.what}"
    raise UnknownName(f"no {names.what} found in {text!r}{there}{hint}")


def _list(names: Names, matches: list[_Match]) -> str:
    return f"{names.what} " + " and ".join(dict.fromkeys(repr(names[match.number]) for match in matches))


def _grouped(keys: Iterable[K]) -> dict[K, list[int]]:
    """Where each key stands."""
    groups: dict[K, list[int]] = {}
    for i, key in enumerate(keys):
        groups.setdefault(key, []).append(i)
    return groups


def _pairs(name: str) -> frozenset[str]:
    padded = f" {name} "
    return frozenset(padded[i : i + 2] for i in range(len(padded) - 1))

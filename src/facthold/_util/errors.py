"""Errors that a user can do something about: one clear line, no traceback."""

import difflib
import importlib
import math
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

T = TypeVar("T")
LONGEST = 60  # characters that an error shows of what it was given
MOST_NAMES, FEW_NAMES = 50, 12  # names that an error lists at most; where there are more, the nearest alone
LARGEST = 2**53  # of whole numbers: every number format has these exactly
CONTROLS = ("Cc", "Zl", "Zp")  # categories in Unicode of what does something, such as to ring or to end a line
DIRECTIONS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")  # what turns the letters after it around


class FactholdError(Exception):
    """What went wrong and what to do about it, in one line: ``except fh.FactholdError as error: print(error)``. The
    command line prints it and exits with 2."""


class FactholdWarning(UserWarning):
    """What a user should know and may leave as it is. The command line prints it as a line on standard error."""


class MissingPackage(FactholdError):
    """An optional package is not installed; the line says what to install."""


class TooLarge(FactholdError):
    """A model has more parameters than are allowed: ``n_params``, or with ``at_least`` so many or more."""

    def __init__(self, message: str, n_params: int, at_least: bool = False) -> None:
        super().__init__(message)
        self.n_params, self.at_least = n_params, at_least

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.n_params, self.at_least)


def optional(needed: str, *modules: str) -> list[Any]:
    """Modules of an optional package; where it is not installed, an error that says what is ``needed``."""
    try:
        return [importlib.import_module(module) for module in modules]
    except ImportError as error:
        raise MissingPackage(needed) from error


def check_positive(**sizes: int) -> None:
    """Refuse sizes that are zero or below, by name: ``check_positive(d=d, m=m)``."""
    for name, value in sizes.items():
        if value < 1:
            raise ValueError(f"{name}={value} must be at least 1")


def check_whole(**sizes: float) -> None:
    """Refuse sizes that are not whole numbers, by name."""
    for name, value in sizes.items():
        if not math.isfinite(value) or value != int(value):
            raise ValueError(f"{name}={value} must be a whole number")


def check_number(name: str, value: Any) -> None:
    """Refuse a number that nothing can mean: nan, infinities, and whole numbers that no machine has room for."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name}={value} must be a finite number")
    if isinstance(value, int) and abs(value) > LARGEST:
        raise ValueError(f"{name}={brief(value)} is too large; take a whole number of at most {LARGEST}")


def check_range(name: str, values: Any, size: int) -> None:
    """Refuse an array of numbers that are not all from 0 to size - 1."""
    if len(values) and not 0 <= values.min() <= values.max() < size:
        raise ValueError(f"{name} must lie between 0 and {size - 1}, not {values.min()} to {values.max()}")


def check_scheme(q: Any, p: Any, f: Any, M: int, d: int) -> None:
    """Refuse weights of tokens, one for each in each row of q, that no memory can have: those of a function of one's
    own."""
    check_whole(M=M, d=d)
    check_positive(M=M, d=d)
    if not q.shape[-1] == len(p) == len(f):
        raise ValueError(f"q has {q.shape[-1]} tokens, p {len(p)} and f {len(f)}; give each as many")
    for name, values in (("q", q), ("p", p)):
        if (wrong := values[~((values >= 0) & (values < math.inf))]).size:
            raise ValueError(f"{name}={wrong[0]:g} of a token must be 0 or more, and finite")
    check_range("f", f, M)


def unknown(what: str, name: str | Sequence[str], known: Iterable[str]) -> ValueError:
    """A misspelt name is an error that lists the names that exist, the nearest first; so are several."""
    names, strays = sorted(known), [name] if isinstance(name, str) or not isinstance(name, Sequence) else name
    near = [difflib.get_close_matches(one[:LONGEST], names, n=1) for one in strays if isinstance(one, str)]
    likely = " and ".join(dict.fromkeys(repr(one) for found in near for one in found))
    hint = f"did you mean {likely}? " if likely else ""
    few, more = names, ""
    if len(names) > MOST_NAMES:
        few = difflib.get_close_matches(str(strays[0])[:LONGEST], names, n=FEW_NAMES, cutoff=0.0)
        more = f" and {len(names) - len(few)} more"
    return ValueError(f"unknown {what} {', '.join(map(brief, strays))}; {hint}choose one of: {', '.join(few)}{more}")


def shorten(text: str, most: int = LONGEST) -> str:
    """A text that may be long, for a message: its beginning, to the end of a word where one ends nearby."""
    if len(text) <= most:
        return text
    cut = text[: most - 3]
    words = cut.rsplit(" ", 1)[0]
    return f"{words} ..." if len(cut) - len(words) < most // 5 and len(words) < len(cut) else f"{cut}..."


def printable(value: T) -> T:
    """A text with its control characters as Python writes them, so that a name neither rings, colours nor breaks a
    line; or all texts of a dataclass or a tuple so. For what is read on a terminal: CSV and JSON have names as they
    are."""
    made: Any = value
    if isinstance(value, str):
        made = value if value.isprintable() else "".join(map(_escaped, value))
    elif is_dataclass(value) and not isinstance(value, type):
        made = replace(value, **{f.name: printable(getattr(value, f.name)) for f in fields(value) if f.init})
    elif isinstance(value, tuple):
        made = tuple(printable(one) for one in value)
    return made


def _escaped(c: str) -> str:
    control = unicodedata.category(c) in CONTROLS or unicodedata.bidirectional(c) in DIRECTIONS
    return c.encode("unicode_escape").decode() if control else c


def brief(value: Any) -> str:
    """A value that may be long as Python writes it, for a message."""
    try:
        return shorten(repr(value))
    except (RecursionError, ValueError):  # lists within lists without end, or a number of thousands of digits
        return f"a very long {type(value).__name__}"


def with_article(name: str) -> str:
    """'a Problem', 'an MLPMemory': where a name begins with capitals, they are spoken one by one."""
    return f"{'an' if name[0].upper() in ('AEFHILMNORSX' if name[:2].isupper() else 'AEIO') else 'a'} {name}"


def check_one_of(what: str, name: str, known: Collection[str]) -> None:
    """Refuse a name that is not among the known ones."""
    if not isinstance(name, str) or name not in known:
        raise unknown(what, name, known)


def find(what: str, name: str, known: Mapping[str, T]) -> T:
    """The one with this name; a misspelt name is an error that lists those that exist."""
    check_one_of(what, name, known)
    return known[name]

"""The bigram model of a text: how often each character occurs, and which one follows which."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from facthold._util.arguments import checked
from facthold._util.errors import FactholdError, check_positive
from facthold._util.files import json_of, writing
from facthold.facts.contents import blocks_of

MOST_CHARACTERS = 1024  # different ones: tables of all pairs are kept, and every model has an embedding for each
SHIPPED = "shakespeare.json"  # of tiny Shakespeare; `facthold.context.shakespeare` makes it
CODES = 0x110000  # code points of Unicode
TRIGGERS = 5  # K of the slides' experiments
LEAST = 4  # tokens of a sequence of the bigram task


@dataclass(frozen=True)
class Bigrams:
    """Counts of a text. Rows are the characters in the order of their code points.

    ``fh.Bigrams.of_text("my.txt").pi_b`` are the probabilities of the next character.
    """

    characters: tuple[str, ...]
    unigrams: Int[np.ndarray, " N"]
    counts: Int[np.ndarray, "N N"]  # counts[i, j]: how often j follows i

    @property
    def N(self) -> int:
        return len(self.characters)

    @cached_property
    def pi_u(self) -> Float[np.ndarray, " N"]:
        """How frequent each character is."""
        return self.unigrams / self.unigrams.sum()

    @cached_property
    def pi_b(self) -> Float[np.ndarray, "N N"]:
        """The probability of the next character j after i. After one that only ends the text it is pi_u."""
        total = self.counts.sum(axis=1, keepdims=True)
        return np.where(total > 0, self.counts / np.maximum(total, 1), self.pi_u)

    def most_frequent(self, K: int) -> Int[np.ndarray, " K"]:
        """The K most frequent characters, the most frequent first."""
        return np.argsort(-self.unigrams, kind="stable")[:K]

    def index(self, characters: Iterable[str]) -> Int[np.ndarray, " K"]:
        """The rows of these characters."""
        rows = {character: i for i, character in enumerate(self.characters)}
        for character in characters:
            if character not in rows:
                raise FactholdError(f"{character!r} is not among the {self.N} characters of the text")
        return np.array([rows[character] for character in characters], np.int64)

    def check_triggers(self, K: int, T: int, triggers: str | None, random: bool) -> None:
        """Refuse triggers with which this text has no bigram task: see `facthold.context.sequences`."""
        check_positive(K=K, T=T)
        if triggers is not None:
            if random:
                raise ValueError(f"triggers={triggers!r} are the same in all sequences; leave out random=True")
            if not triggers or len(set(triggers)) < len(triggers):
                raise ValueError(f"triggers={triggers!r} must be different characters, at least one")
            if missing := [c for c in triggers if c not in self.characters]:
                such = "".join(self.characters[i] for i in self.most_frequent(min(K, self.N - 1)))
                raise FactholdError(
                    f"triggers={triggers!r}: {missing[0]!r} is not among the {self.N} characters of the text; "
                    f"take some of those, such as {such!r}"
                )
        if (K if triggers is None else len(triggers)) >= self.N:
            what = f"K={K} triggers" if triggers is None else f"triggers={triggers!r}"
            raise ValueError(f"{what} leave none of the {self.N} characters to stand between them")
        if T < LEAST:
            raise ValueError(f"T={T}: a trigger, its output and both again take {LEAST} tokens")

    @classmethod
    @checked
    def of_text(cls, path: str | Path) -> "Bigrams":
        """Count a file of text in UTF-8, of any length, a block at a time."""
        path = Path(path)
        rows = np.full(CODES, -1, np.int32)  # of each code point, in the order in which they appear
        unigrams, counts = np.zeros(MOST_CHARACTERS, np.int64), np.zeros(MOST_CHARACTERS**2, np.int64)
        codes: list[int] = []
        last = np.zeros(0, np.int64)
        for block in blocks_of(path):
            points = np.frombuffer(block.encode("utf-32-le"), np.uint32)
            new = np.unique(points[rows[points] < 0])
            if len(codes) + len(new) > MOST_CHARACTERS:
                raise FactholdError(
                    f"{path} has more than {MOST_CHARACTERS} different characters, and all pairs of them would be "
                    "counted; give a text with fewer"
                )
            rows[new] = len(codes) + np.arange(len(new))
            codes += new.tolist()
            z = rows[points].astype(np.int64)
            unigrams += np.bincount(z, minlength=MOST_CHARACTERS)
            z = np.concatenate([last, z])
            counts += np.bincount(z[:-1] * MOST_CHARACTERS + z[1:], minlength=MOST_CHARACTERS**2)
            last = z[-1:]
        if len(codes) < 2:
            what = "is empty" if not codes else f"has one character only, {chr(codes[0])!r}"
            raise FactholdError(f"{path} {what}; a bigram model needs a text with at least two different characters")
        order = np.argsort(codes)
        pairs = counts.reshape(MOST_CHARACTERS, MOST_CHARACTERS)[np.ix_(order, order)]
        return cls(tuple(chr(codes[i]) for i in order), unigrams[order], pairs)

    @classmethod
    def shipped(cls) -> "Bigrams":
        """Of tiny Shakespeare: 65 characters, 1,403 different pairs."""
        about = json.loads(resources.files(__package__).joinpath(SHIPPED).read_text(encoding="utf-8"))
        N = len(about["characters"])
        counts = np.zeros((N, N), np.int64)
        first, second, times = np.array(about["pairs"]).T
        counts[first, second] = times
        return cls(tuple(about["characters"]), np.array(about["unigrams"]), counts)

    def save(self, path: str | Path) -> None:
        """Write the counts as `shipped` reads them."""
        first, second = np.nonzero(self.counts)
        pairs = np.stack([first, second, self.counts[first, second]], axis=1).tolist()
        about = {"characters": "".join(self.characters), "unigrams": self.unigrams.tolist(), "pairs": pairs}
        with writing(path, json_of(next(iter(about)))) as stream:
            stream.write((json.dumps(about, separators=(",", ":")) + "\n").encode())

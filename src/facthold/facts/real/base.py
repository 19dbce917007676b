"""A source of real facts: an installed package that has them, and how they are told apart."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from facthold._util.errors import MissingPackage, check_one_of, check_positive
from facthold.facts.writing import Row


@dataclass(frozen=True)
class Source:
    """Facts under a name. Nothing of them is copied into facthold: they are read from a package when asked for."""

    name: str
    about: str
    subject: str  # what a subject is
    relations: tuple[str, ...]  # those with one answer to a subject
    packages: tuple[str, ...]
    extra: str  # the extra of facthold that installs the packages
    licence: str
    origin: str  # where the packages have their data from
    read: Callable[[], Iterable[tuple[str, str, Any]]]
    """Every fact of every relation; what is missing may come as None or empty."""
    several: tuple[str, ...] = ()
    """Relations in which a subject may have several answers: only there when they are named."""

    @property
    def installed(self) -> bool:
        return all(find_spec(package) for package in self.packages)

    @property
    def versions(self) -> str:
        """The packages with their versions, as they are installed."""
        return ", ".join(f"{package} {_version(package)}".rstrip() for package in self.packages)

    def check_installed(self) -> None:
        """Refuse to go on without the packages."""
        if not self.installed:
            missing = " and ".join(package for package in self.packages if not find_spec(package))
            raise MissingPackage(f"the facts of {self.name} need {missing}: pip install 'facthold[{self.extra}]'")

    def facts(self, relations: Sequence[str] | None = None) -> list[Row]:
        """The facts of these relations, by default of all with one answer; each once, in the source's order."""
        known = (*self.relations, *self.several)
        wanted = self.relations if relations is None else tuple(relations)
        for name in wanted:
            check_one_of(f"relation of {self.name}", name, known)
        self.check_installed()
        texts = ((s, r, "" if value is None else str(value).strip()) for s, r, value in self.read() if r in wanted)
        return list(dict.fromkeys(row for row in texts if row[2]))


def sample_subjects(rows: Sequence[Row], n: int, seed: int) -> list[Row]:
    """The facts of n subjects taken at random. A sample of more subjects has those of a smaller one in it."""
    check_positive(subjects=n)
    subjects = list(dict.fromkeys(s for s, _, _ in rows))
    if n > len(subjects):
        raise ValueError(f"subjects={n}: there are {len(subjects)}; take at most so many")
    # By hashes and not by a generator: a subject keeps its place when others come or go.
    chosen = set(sorted(subjects, key=lambda s: hashlib.sha256(f"{seed}\0{s}".encode()).digest())[:n])
    return [row for row in rows if row[0] in chosen]


def tally(rows: Sequence[Row]) -> dict[str, int]:
    """How many facts there are, and of what; ``several`` pairs (subject, relation) have more than one answer."""
    pairs = Counter((s, r) for s, r, _ in rows)
    return {
        "facts": len(rows),
        "subjects": len({s for s, _, _ in rows}),
        "relations": len({r for _, r, _ in rows}),
        "answers": len({a for _, _, a in rows}),
        "several": sum(n > 1 for n in pairs.values()),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""

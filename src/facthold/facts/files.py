"""Fact tables from files: CSV, TSV, JSON lines, Parquet, by the ending of the name."""

import math
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from facthold._util.errors import FactholdError, unknown
from facthold.facts.formats import COLUMNS, Record, format_of, shorten
from facthold.facts.prompts import check_distribution
from facthold.facts.table import ON_CONFLICT, FactTable
from facthold.facts.writing import Row, write_facts

__all__ = ["read_facts", "write_facts"]

SHOWN = 3
"""Conflicts that an error names."""


def read_facts(path: str | Path, on_conflict: str = "error") -> tuple[FactTable, Float[np.ndarray, " facts"] | None]:
    """The facts of a file with the columns subject, relation, answer, and p(s, r) where it has a column p.

    Tokens are numbered as they first appear, their names in Unicode's form NFC without space around them.
    A fact that stands there twice is kept once; its p is the sum. Where (s, r) has several answers,
    ``on_conflict`` says what is done: 'error' refuses, 'first' keeps the first, with 'all' each is right.
    p belongs to the question (s, r), so that it is summed over its answers, kept or not.
    """
    if on_conflict not in ON_CONFLICT:
        raise unknown("--on-conflict", on_conflict, ON_CONFLICT)
    path, unit = Path(path), format_of(Path(path)).unit
    rows: list[Row] = []
    first: dict[tuple[str, str], tuple[str, int]] = {}
    conflicts: dict[tuple[str, str], str] = {}
    p: dict[tuple[str, str], float] = {}
    for number, s, r, a, weight in _cleaned(path):
        before, line = first.setdefault((s, r), (a, number))
        if before != a and (s, r) not in conflicts:
            says = f"has the answer {_quoted(a)}, and {_quoted(before)} in {unit} {line}"
            conflicts[s, r] = f"{unit} {number}: the fact ({_quoted(s)}, {_quoted(r)}) {says}"
        if weight is not None:
            p[s, r] = p.get((s, r), 0.0) + weight
        rows.append((s, r, a))
    if not rows:
        raise FactholdError(f"{path} has a header and no facts; give a row subject, relation, answer for each")
    if conflicts and on_conflict == "error":
        raise _conflict(path, list(conflicts.values()))
    table = FactTable.from_rows(rows, on_conflict)
    if not p:
        return table, None
    try:
        return table, check_distribution(list(p.values()), table)
    except ValueError as error:
        raise FactholdError(f"{path}, column p: {error}") from error


def _cleaned(path: Path) -> Iterator[tuple[int, str, str, str, float | None]]:
    """The records of a file with names as they are compared, and with p as a number in all of them or in none."""
    kind, clean = format_of(path), _Names()
    weighted: bool | None = None
    for record in kind.records(path):
        number, s, r, a, p = record
        try:
            s, r, a = clean[s], clean[r], clean[a]
        except _Unfit as unfit:
            raise FactholdError(f"{path}, {kind.unit} {number}: {_whose(record, unfit)} {unfit.says}") from None
        if weighted is None:
            weighted = p is not None
        if weighted != (p is not None):
            raise FactholdError(f"{path}, {kind.unit} {number}: some facts have a p and others none; give each one")
        yield number, s, r, a, None if p is None else _probability(f"{path}, {kind.unit} {number}", p)


class _Unfit(Exception):
    """A text that cannot be a name."""

    def __init__(self, raw: str, says: str) -> None:
        super().__init__(says)
        self.raw, self.says = raw, says


class _Names(dict[str, str]):
    """Names by the text that stands in the file. Each text is looked at once, however often it occurs."""

    def __missing__(self, raw: str) -> str:
        name = unicodedata.normalize("NFC", raw.strip())
        if not name:
            raise _Unfit(raw, "is empty")
        if "\0" in name:
            raise _Unfit(raw, "has a NUL character in it; leave it out")
        if any("\ud800" <= c <= "\udfff" for c in name):
            raise _Unfit(raw, "has half a character (a lone surrogate) in it; write the whole")
        self[raw] = name
        return name


def _whose(record: Record, unfit: _Unfit) -> str:
    return "the " + COLUMNS[record[1:4].index(unfit.raw)]


def _conflict(path: Path, conflicts: Sequence[str]) -> FactholdError:
    others = len(conflicts) - SHOWN
    more = f"; {others} more such fact{'s' if others > 1 else ''}" if others > 0 else ""
    return FactholdError(
        f"{path}, {'; '.join(conflicts[:SHOWN])}{more}; keep one answer each, or take --on-conflict first "
        "(the first answer counts) or --on-conflict all (each of them is right)"
    )


def _quoted(name: str) -> str:
    return repr(shorten(name))


def _probability(where: str, cell: str) -> float:
    try:
        p = float(cell)
    except ValueError:
        says = f"{_quoted(cell)}, which is not a number" if cell.strip() else "empty"
        raise FactholdError(f"{where}: p is {says}") from None
    if not (math.isfinite(p) and p >= 0):
        raise FactholdError(f"{where}: p is {cell.strip()}; it must be 0 or more, and finite")
    return p

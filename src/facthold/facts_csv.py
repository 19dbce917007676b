"""Fact tables from CSV files: a header, then a line a fact."""

import csv
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Float

from facthold.errors import FactholdError
from facthold.facts import FactTable
from facthold.prompts import check_distribution

COLUMNS = ("subject", "relation", "answer")
PROBABILITY = "p"
Line = tuple[int, list[str]]
"""The number of a line in its file, and its cells."""


def read_facts(path: str | Path) -> tuple[FactTable, Float[np.ndarray, " facts"] | None]:
    """The facts of a CSV file with the columns subject, relation, answer, and p(s, r) where it has a column p.

    Tokens are numbered as they first appear. A fact that stands there twice is kept once; its p is the sum.
    """
    lines = _lines(Path(path))
    header = next(lines, None)
    if header is None:
        raise FactholdError(f"{path} is empty; the first line names the columns subject,relation,answer")
    names = _columns(path, *header)
    facts: dict[tuple[str, str], tuple[str, int, float]] = {}
    for number, cells in lines:
        where = f"{path}, line {number}"
        if len(cells) != len(names):
            raise FactholdError(f"{where}: {len(cells)} cells, where the header has {len(names)} columns")
        row = dict(zip(names, cells, strict=True))
        if empty := [name for name, cell in row.items() if not cell]:
            raise FactholdError(f"{where}: the {empty[0]} is empty")
        s, r, a = (row[name] for name in COLUMNS)
        before, line, p = facts.get((s, r), (a, number, 0.0))
        if before != a:
            raise FactholdError(
                f"{where}: the fact ({s!r}, {r!r}) has the answer {a!r}, and {before!r} in line {line}; keep one"
            )
        facts[s, r] = (a, line, p + (_probability(where, row[PROBABILITY]) if PROBABILITY in row else 0.0))
    if not facts:
        raise FactholdError(f"{path} has a header and no facts; write a line subject,relation,answer for each")
    table = FactTable.from_rows((s, r, a) for (s, r), (a, _, _) in facts.items())
    if PROBABILITY not in names:
        return table, None
    try:
        return table, check_distribution([p for _, _, p in facts.values()], table)
    except ValueError as error:
        raise FactholdError(f"{path}, column p: {error}") from error


def _lines(path: Path) -> Iterator[Line]:
    """The lines that are not blank, by their numbers, with the space around each cell dropped."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            for cells in reader:
                if any(cell.strip() for cell in cells) or len(cells) > 1:
                    yield reader.line_num, [cell.strip() for cell in cells]
    except FileNotFoundError:
        raise FactholdError(f"no such file of facts: {path}") from None
    except UnicodeDecodeError as error:
        raise FactholdError(
            f"{path} is not text in UTF-8; save it as CSV in the encoding UTF-8 ({error.reason})"
        ) from error
    except csv.Error as error:
        raise FactholdError(f"{path}, line {reader.line_num}: not CSV ({error})") from error
    except OSError as error:
        raise FactholdError(f"cannot read {path}: {error.strerror or error}") from error


def _columns(path: str | Path, number: int, header: list[str]) -> list[str]:
    """The names in the header, each known and there once."""
    known = [*COLUMNS, PROBABILITY]
    for name in COLUMNS:
        if name not in header:
            raise FactholdError(
                f"{path}, line {number}: no column {name!r} in the header {','.join(header)!r}; "
                "it needs subject,relation,answer and may have p"
            )
    for name in header:
        if name not in known:
            raise FactholdError(f"{path}, line {number}: unknown column {name!r}; the columns are {', '.join(known)}")
        if header.count(name) > 1:
            raise FactholdError(f"{path}, line {number}: the column {name!r} is there twice")
    return header


def _probability(where: str, cell: str) -> float:
    try:
        p = float(cell)
    except ValueError:
        raise FactholdError(f"{where}: p is {cell!r}, which is not a number") from None
    if not (math.isfinite(p) and p >= 0):
        raise FactholdError(f"{where}: p is {cell}; it must be 0 or more, and finite")
    return p

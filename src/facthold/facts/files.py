"""Facts from anywhere, files, frames, lists and dictionaries, as a table: all pass one check. And into files."""

import gzip
import io
import json
import math
import warnings
from collections.abc import Callable, Iterable, Sequence, Set
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from facthold._util.arguments import check_ordered, checked
from facthold._util.errors import FactholdError, FactholdWarning, brief, check_one_of, optional, shorten
from facthold._util.files import PARQUET, as_csv, json_of, packed, parquet_of, table_of, writing
from facthold.facts.contents import contents_of, is_packed
from facthold.facts.formats import COLUMNS, check_named, ending_of, endings, source_of
from facthold.facts.names import as_text, blank, clean, look_alike, unfit
from facthold.facts.problem import check_distribution
from facthold.facts.table import ON_CONFLICT, FactTable, Row

SHOWN = 3  # conflicts that an error names


@checked
def read_facts(facts: Any, on_conflict: str = "error") -> tuple[FactTable, Float[np.ndarray, " facts"] | None]:
    """A table of facts, and p(s, r) where they have a column p: ``table, p = fh.read_facts("countries.csv")``.

    ``facts`` is the path of a file (.csv, .tsv, .json, .jsonl, .ndjson, .parquet, or one of these and .gz), a frame of
    pandas, polars or pyarrow with the columns subject, relation and answer, a list of (subject, relation, answer), a
    dictionary {(subject, relation): answer}, or a `FactTable`. Numbers become their text; a value that is missing is
    refused.

    Tokens are numbered as they first appear, their names in Unicode's form NFC without space around them. A fact that
    stands there twice is kept once; its p is the sum. Where (s, r) has several answers, ``on_conflict`` says what is
    done: 'error' refuses, 'first' keeps the first, with 'all' each is right. p belongs to the question (s, r), so that
    it is summed over its answers, kept or not.
    """
    check_one_of("on_conflict", on_conflict, ON_CONFLICT)
    if isinstance(facts, FactTable):
        return facts, None
    source = source_of(facts)
    rows: list[Row] = []
    first: dict[tuple[str, str], tuple[str, int]] = {}
    conflicts: dict[tuple[str, str], str] = {}
    p: dict[tuple[str, str], float] = {}
    names: dict[str, str] = {}  # each text is looked at once, however often it occurs
    for number, *cells, weight in source.records:
        where = f"{source.name}, {source.unit} {number}"
        for column, cell in zip(COLUMNS, cells, strict=True):
            if cell not in names:
                names[cell] = clean(cell)
                if reason := unfit(names[cell]):
                    way = "; write it, or leave the row out" if blank(names[cell]) else ""
                    raise FactholdError(f"{where}: the {column} {reason}{way}")
        s, r, a = (names[cell] for cell in cells)
        if rows and (weight is None) != (not p):
            raise FactholdError(f"{where}: some facts have a p and others none; give each one")
        if weight is not None:
            p[s, r] = p.get((s, r), 0.0) + _probability(where, weight)
        before, line = first.setdefault((s, r), (a, number))
        if before != a and (s, r) not in conflicts:
            answers = f"has the answer {_quoted(a)}, and {_quoted(before)} in {source.unit} {line}"
            conflicts[s, r] = f"{source.unit} {number}: the fact ({_quoted(s)}, {_quoted(r)}) {answers}"
        rows.append((s, r, a))
    if not rows:
        raise FactholdError(f"{source.name} has no facts in it; give subject, relation and answer of each")
    if conflicts and on_conflict == "error":
        raise Conflict(source.name, list(conflicts.values()))
    table = FactTable.from_rows(rows, on_conflict)
    _warn_of_look_alikes(source.name, table)
    try:
        return table, check_distribution(list(p.values()), table) if p else None
    except ValueError as error:
        raise FactholdError(f"{source.name}, column p: {error}") from error


def _warn_of_look_alikes(name: str, table: FactTable) -> None:
    """Two names that look the same are mostly one that was copied from elsewhere: its facts are apart then."""
    for kind, names in vars(table.labels).items():
        alike = look_alike(names)
        for group in alike[:SHOWN]:
            they = " and ".join(shorten(ascii(one)) for one in group[:SHOWN])
            warnings.warn(
                f"{name}: the {kind} {they} differ by what cannot be seen alone; write them alike if they are one",
                FactholdWarning,
                stacklevel=4,
            )
        if (more := len(alike) - SHOWN) > 0:
            warnings.warn(f"{name}: {more} more such names among the {kind}", FactholdWarning, stacklevel=4)


class Conflict(FactholdError):
    """Several answers to a question."""

    def __init__(self, name: str, conflicts: Sequence[str]) -> None:
        others = len(conflicts) - SHOWN
        more = f"; {others} more such fact{'s' if others > 1 else ''}" if others > 0 else ""
        self.first = (
            f"{name}, {'; '.join(conflicts[:SHOWN])}{more}; keep one answer each, or take on_conflict='first' "
            "(the first answer counts)"
        )
        super().__init__(f"{self.first} or on_conflict='all' (each of them is right)")


def _quoted(name: str) -> str:
    return repr(shorten(name))


def _probability(where: str, cell: str) -> float:
    try:
        if "_" in cell:  # 0_0.5 is a number to Python alone
            raise ValueError
        p = float(cell)
    except ValueError:
        reason = f"{_quoted(cell)}, which is not a number" if cell.strip() else "empty"
        raise FactholdError(f"{where}: p is {reason}; write a number from 0 to 1") from None
    if not (math.isfinite(p) and p >= 0):
        raise FactholdError(f"{where}: p is {cell.strip()}; it must be 0 or more, and finite")
    return p


@checked
def write_facts(path: str | Path, facts: FactTable | Iterable[Row]) -> Path:
    """Write a table or rows (subject, relation, answer) in the format that the name says:
    ``fh.write_facts("countries.csv", table)``. A reader never meets the file half written."""
    check_ordered("facts", facts)
    path = Path(path)
    kind = kind_for(path)
    rows = facts.to_rows() if isinstance(facts, FactTable) else [_named(i, row) for i, row in enumerate(facts, 1)]
    if not rows:
        raise FactholdError(f"there are no facts to write to {path}")
    contents = WRITERS[ending_of(path, WRITERS) or ""](rows)
    with writing(path, kind) as stream:
        stream.write(gzip.compress(contents, mtime=0) if is_packed(path) else contents)  # the same facts, the same file
    return path


def holds_only(path: Path, rows: Iterable[Row]) -> bool:
    """Whether a file has nothing in it but some of these rows, as `write_facts` writes them."""
    try:
        there = [(s, r, a) for _, s, r, a, _ in source_of(path).records]
        return set(rows).issuperset(there) and contents_of(path) == WRITERS[ending_of(path, WRITERS) or ""](there)
    except FactholdError:  # it cannot be read, so that it is not what was written
        return False


def _named(number: int, row: Any) -> Row:
    """The names of a row as a table has them, so that what is written can be read."""
    names = [] if isinstance(row, str | Set) or not isinstance(row, Iterable) else [as_text(name) for name in row]
    texts = [name for name in names if name is not None and not blank(name)]
    if len(names) != len(COLUMNS) or len(texts) != len(COLUMNS):
        raise FactholdError(f"fact {number}, {brief(row)}, must be three names: subject, relation and answer")
    return texts[0], texts[1], texts[2]


def to_csv(rows: Iterable[Row], delimiter: str = ",") -> bytes:
    """Facts as a CSV file."""
    return as_csv([COLUMNS, *rows], delimiter).encode()


def kind_for(path: Path) -> str:
    """What a file of facts with this name is, for `check_output`. A name that says no format is refused."""
    check_named(path, WRITERS)
    ending = ending_of(path, WRITERS)
    if ending is None:
        raise FactholdError(f"{path}: facts are written to files whose names end in {endings(WRITERS)}")
    if ending == ".parquet":
        return packed(PARQUET) if is_packed(path) else parquet_of(COLUMNS)  # packed, its columns are not looked for
    kind = json_of(COLUMNS[0]) if "json" in ending else table_of(COLUMNS, "\t" if ending == ".tsv" else ",")
    return packed(kind) if is_packed(path) else kind


def _to_json(rows: Sequence[Row]) -> bytes:
    """A list with an object a line."""
    return b"[\n" + b",\n".join(_to_json_lines(rows).splitlines()) + b"\n]\n"


def _to_json_lines(rows: Sequence[Row]) -> bytes:
    lines = (json.dumps(dict(zip(COLUMNS, row, strict=True)), ensure_ascii=False) + "\n" for row in rows)
    return "".join(lines).encode()


def _to_parquet(rows: Sequence[Row]) -> bytes:
    pa, pq = optional("Parquet needs pyarrow: pip install 'facthold[parquet]'", "pyarrow", "pyarrow.parquet")
    columns = {name: pa.array([row[i] for row in rows], pa.string()) for i, name in enumerate(COLUMNS)}
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream)
    return stream.getvalue()


WRITERS: dict[str, Callable[[Sequence[Row]], bytes]] = {
    ".csv": to_csv, ".tsv": partial(to_csv, delimiter="\t"), ".json": _to_json, ".jsonl": _to_json_lines,
    ".ndjson": _to_json_lines, ".parquet": _to_parquet,
}  # fmt: skip

"""Stored results as tables for other tools: CSV and Parquet (and `Rows.to_pandas`).

One line for each result. The columns are ``key``, ``kind``, ``version``, then ``spec.*``, ``result.*`` and
``provenance.*``: those of all rows together, in the order in which they first appear.
"""

import csv
import dataclasses
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from facthold._util.errors import FactholdError
from facthold._util.files import writing
from facthold.lab.provenance import Provenance
from facthold.lab.store import Row, to_json


def to_csv(rows: Sequence[Row], to: str | Path | TextIO) -> None:
    """Write CSV to a file or an open text stream. What is nested stands as JSON; what a row lacks, empty."""
    if isinstance(to, str | Path):
        with writing(to) as binary, io.TextIOWrapper(binary, encoding="utf-8", newline="") as stream:
            return to_csv(rows, stream)
    table, writer = columns(rows), csv.writer(to, lineterminator="\n")
    writer.writerow(table)
    writer.writerows([_cell_text(value) for value in line] for line in zip(*table.values(), strict=True))


def to_parquet(rows: Sequence[Row], path: str | Path) -> None:
    """Write Parquet (needs pyarrow). Columns that mix numbers and text are text; what a row lacks is null."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise FactholdError("Parquet needs pyarrow: pip install 'facthold[parquet]'") from error
    types = {bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
    arrays = {}
    for name, values in columns(rows).items():
        kind = common_type(values)
        texts = values if kind in types else [None if v is None else _cell_text(v) for v in values]
        arrays[name] = pa.array(texts, types.get(kind, pa.string()))
    with writing(path) as stream:
        pq.write_table(pa.table(arrays), stream)


def columns(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Values by column; None where a row has no such field. Without rows: the columns that every row has."""
    own = ["key", "kind", "version"]
    spec = dict.fromkeys(f"spec.{name}" for row in rows for name in row.spec)
    result = dict.fromkeys(f"result.{name}" for row in rows for name in row.result)
    origin = [f"provenance.{field.name}" for field in dataclasses.fields(Provenance)]
    lines = [_flat(row) for row in rows]
    return {name: [line.get(name) for line in lines] for name in [*own, *spec, *result, *origin]}


def common_type(values: Sequence[Any]) -> type:
    """The type that holds all values that are there: bool, int (of 64 bits), float, str, else object."""
    kinds = {type(value) for value in values if value is not None}
    exact = 2**63 if kinds == {int} else 2**53  # a float holds no more digits: such integers stay as they are
    if any(type(value) is int and abs(value) >= exact for value in values):
        return object
    if kinds == {int, float}:
        return float
    return kinds.pop() if kinds in ({bool}, {int}, {float}, {str}) else object


def _flat(row: Row) -> dict[str, Any]:
    line: dict[str, Any] = {"key": row.key, "kind": row.kind, "version": row.version}
    line |= {f"spec.{name}": value for name, value in row.spec.items()}
    line |= {f"result.{name}": value for name, value in row.result.items()}
    return line | {f"provenance.{name}": value for name, value in dataclasses.asdict(row.provenance).items()}


def _cell_text(value: Any) -> str:
    """Numbers as Python writes them (floats come back to the last bit), true, false, JSON for the rest."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return to_json(value, "column") if isinstance(value, list | tuple | dict) else str(value)

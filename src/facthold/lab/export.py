"""Stored results as tables for other tools: CSV, Parquet, NumPy arrays.

One line a result. The columns are ``key``, ``kind``, ``version``, then ``spec.*``, ``result.*`` and
``provenance.*``: those of all rows together, in the order in which they first appear.
"""

import csv
import dataclasses
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from facthold._util.errors import FactholdError
from facthold._util.files import writing
from facthold.lab.provenance import Provenance
from facthold.lab.store import Row, to_json


@runtime_checkable
class TextStream(Protocol):
    """Whatever text can be written to: sys.stdout, an open file, io.StringIO."""

    def write(self, text: str, /) -> object: ...


def to_csv(rows: Sequence[Row], to: str | Path | TextStream) -> None:
    """Write CSV to a file or an open text stream. What is nested stands as JSON; what a row lacks, empty."""
    if not isinstance(to, str | Path):
        _write_csv(rows, to)
        return
    with writing(to) as binary, io.TextIOWrapper(binary, encoding="utf-8", newline="") as stream:
        _write_csv(rows, stream)


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


def to_arrays(rows: Sequence[Row]) -> dict[str, np.ndarray]:
    """Columns as arrays, one entry a row. A missing number is nan; lists, dicts and mixtures are objects."""
    arrays = {}
    for name, values in columns(rows).items():
        kind = common_type(values)
        if None in values and kind in (int, float):
            arrays[name] = np.array([np.nan if v is None else v for v in values], dtype=float)
        elif None in values or kind is object:
            arrays[name] = np.empty(len(values), dtype=object)
            arrays[name][:] = values
        else:
            arrays[name] = np.array(values, dtype=kind)
    return arrays


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


def _write_csv(rows: Sequence[Row], stream: TextStream) -> None:
    table = columns(rows)
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(table)
    writer.writerows([_cell_text(value) for value in line] for line in zip(*table.values(), strict=True))


def _cell_text(value: Any) -> str:
    """Numbers as Python writes them (floats come back to the last bit), true, false, JSON for the rest."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return to_json(value, "column") if isinstance(value, list | tuple | dict) else str(value)

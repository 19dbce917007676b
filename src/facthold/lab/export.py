"""Stored results as tables for other tools, a line for each: CSV and Parquet (and `Rows.to_pandas`)."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from facthold._util.errors import optional
from facthold._util.files import as_csv, parquet_of, table_of, writing
from facthold.lab.provenance import Provenance
from facthold.lab.store import Row, to_json


def to_csv(rows: Sequence[Row], to: str | Path | TextIO) -> None:
    """Write CSV to a file or an open text stream. What is nested stands as JSON; what a row lacks, empty."""
    table = columns(rows)
    text = as_csv([list(table), *(map(_cell_text, line) for line in zip(*table.values(), strict=True))])
    if not isinstance(to, str | Path):
        to.write(text)
        return
    with writing(to, table_of(list(table))) as stream:
        stream.write(text.encode())


def to_parquet(rows: Sequence[Row], path: str | Path) -> None:
    """Write Parquet (needs pyarrow). Columns that mix numbers and text are text; what a row lacks is null."""
    pa, pq = optional("Parquet needs pyarrow: pip install 'facthold[parquet]'", "pyarrow", "pyarrow.parquet")
    types = {bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
    arrays, table = {}, columns(rows)
    for name, values in table.items():
        kind = common_type(values)
        texts = values if kind in types else [None if v is None else _cell_text(v) for v in values]
        arrays[name] = pa.array(texts, types.get(kind, pa.string()))
    with writing(path, parquet_of(list(table))) as stream:
        pq.write_table(pa.table(arrays), stream)


def columns(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Values by column: those of all rows together, in the order in which they first appear; None where a row has no
    such field. Without rows: the columns that every row has."""
    table: dict[str, list[Any]] = {name: [getattr(row, name) for row in rows] for name in ("key", "kind", "version")}
    for part in ("spec", "result"):
        for name in dict.fromkeys(name for row in rows for name in getattr(row, part)):
            table[f"{part}.{name}"] = [getattr(row, part).get(name) for row in rows]
    for field in dataclasses.fields(Provenance):
        table[f"provenance.{field.name}"] = [getattr(row.provenance, field.name) for row in rows]
    return table


def common_type(values: Sequence[Any]) -> type:
    """The type that holds all values that are there: bool, int (of 64 bits), float, str, else object."""
    kinds = {type(value) for value in values if value is not None}
    exact = 2**63 if kinds == {int} else 2**53  # a float holds no more digits: such integers stay as they are
    if any(type(value) is int and abs(value) >= exact for value in values):
        return object
    if kinds == {int, float}:
        return float
    return kinds.pop() if kinds in ({bool}, {int}, {float}, {str}) else object


def _cell_text(value: Any) -> str:
    """Numbers as Python writes them (floats come back to the last bit), true, false, JSON for the rest."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return to_json(value, "column") if isinstance(value, list | tuple | dict) else str(value)

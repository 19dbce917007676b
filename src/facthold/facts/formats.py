"""The files that facts come in, as records of text: CSV, TSV, JSON lines, Parquet.

Columns beside subject, relation, answer and p are ignored, so that any file with these will do.
"""

import csv
import difflib
import io
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from facthold._util.errors import FactholdError, check_memory

COLUMNS = ("subject", "relation", "answer")
PROBABILITY = "p"
MEMORY_A_BYTE, MEMORY_A_ROW = 6, 600
"""Bytes of memory that a byte of a file takes while it is read, and a row of it: a short one is mostly objects."""
OTHER_KINDS = {
    b"PK\x03\x04": "a zip archive or a workbook; save the sheet as CSV in UTF-8",
    b"\x1f\x8b": "compressed with gzip; unpack it first",
    b"PAR1": "Parquet; give it a name that ends in .parquet",
    b"\xff\xfe": "text in UTF-16; save it in UTF-8, as by: iconv -f UTF-16 -t UTF-8",
    b"\xfe\xff": "text in UTF-16; save it in UTF-8, as by: iconv -f UTF-16 -t UTF-8",
}
"""What a file is by its first bytes, and what to do about it."""

Record = tuple[int, str, str, str, str | None]
"""The number of a record in its file, its subject, relation and answer as they stand there, and p or None."""


class Format(NamedTuple):
    """A kind of file, and how it is read."""

    records: Callable[[Path], Iterator[Record]]
    unit: str = "line"
    """What the numbers of the records count."""


def format_of(path: Path) -> Format:
    """The format that the name says. What has no name of its own, such as a pipe, is CSV."""
    ending = path.suffix.lower()
    if ending in FORMATS:
        return FORMATS[ending]
    if path.exists() and not path.is_file():
        return FORMATS[".csv"]
    raise FactholdError(f"{path}: facts are in files whose names end in {', '.join(FORMATS)}, not in {ending!r}")


def no_column(where: str, name: str, there: Sequence[str]) -> FactholdError:
    """The error for a column that is not there, with those that are."""
    if len(there) == 1 and (marks := [mark for mark in "\t;|," if mark in there[0]]):
        hint = f"; the cells seem to be separated by {marks[0]!r}: take commas for .csv and tabs for .tsv"
    elif near := difflib.get_close_matches(name, {n.lower(): n for n in there}, n=1):
        hint = f"; rename {next(n for n in there if n.lower() == near[0])!r} if that is meant"
    else:
        hint = "; it needs subject, relation and answer, and may have p"
    columns = shorten(", ".join(there), 200)
    return FactholdError(f"{where}: no column {name!r} among the columns {columns!r}{hint}")


def shorten(text: str, most: int = 60) -> str:
    """A text that may be long, for a message."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _separated(delimiter: str, path: Path) -> Iterator[Record]:
    """CSV and TSV: a header that names the columns, then a record a line, or several lines within quotes."""
    reader = csv.reader(io.StringIO(_text(path), newline=""), delimiter=delimiter, strict=True)
    places: list[int | None] | None = None
    header: list[str] = []
    start = 1
    try:
        for cells in reader:
            number, start = start, reader.line_num + 1
            if len(cells) < 2 and not "".join(cells).strip():
                continue  # a blank line
            if places is None:
                header = [cell.strip() for cell in cells]
                places = _places(f"{path}, line {number}", header)
                continue
            if len(cells) != len(header):
                raise FactholdError(
                    f"{path}, line {number}: {len(cells)} cells, where the header has {len(header)} columns"
                )
            s, r, a, p = (None if i is None else cells[i] for i in places)
            yield number, s or "", r or "", a or "", p
    except csv.Error as error:
        raise FactholdError(
            f"{path}, line {start}: not CSV ({error}); put a cell with quotes in it into quotes, and write each twice"
        ) from error
    if places is None:
        raise FactholdError(f"{path} is empty; the first line names the columns subject, relation, answer")


def _places(where: str, header: Sequence[str]) -> list[int | None]:
    """Where the header has our columns, p perhaps not."""
    for name in COLUMNS:
        if name not in header:
            raise no_column(where, name, header)
    for name in (*COLUMNS, PROBABILITY):
        if header.count(name) > 1:
            raise FactholdError(f"{where}: the column {name!r} is there twice")
    return [header.index(name) if name in header else None for name in (*COLUMNS, PROBABILITY)]


def _json_lines(path: Path) -> Iterator[Record]:
    """An object a line; numbers and booleans are the text that stands there, null is empty."""
    decode = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str).decode
    any_there = False
    for number, line in enumerate(_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            value = decode(line.strip())
        except (json.JSONDecodeError, RecursionError) as error:
            says = error.msg if isinstance(error, json.JSONDecodeError) else "too deeply nested"
            raise FactholdError(f"{where}: not JSON ({says}); write one object a line") from error
        if not isinstance(value, dict):
            raise FactholdError(f"{where}: {shorten(line)!r} is not an object; write {{'subject': ...}}, one a line")
        for name in COLUMNS:
            if name not in value:
                raise no_column(where, name, list(value))
        any_there = True
        s, r, a = (_as_text(where, name, value[name]) for name in COLUMNS)
        yield number, s, r, a, _as_text(where, PROBABILITY, value[PROBABILITY]) if PROBABILITY in value else None
    if not any_there:
        raise FactholdError(f"{path} is empty; write an object with subject, relation, answer a line")


def _parquet(path: Path) -> Iterator[Record]:
    """Columns of text, numbers or booleans, as other tools write them."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise FactholdError(f"{path} needs pyarrow to be read: pip install 'facthold[parquet]'") from error
    _check_readable(path)
    try:
        with pq.ParquetFile(path) as file:
            there = _places(str(path), file.schema_arrow.names)
            names = [name for name, i in zip((*COLUMNS, PROBABILITY), there, strict=True) if i is not None]
            groups = [file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups)]
            _check_fits(path, sum(groups), file.metadata.num_rows)
            number = 0
            for batch in file.iter_batches(columns=names):
                columns = [batch.column(name).to_pylist() for name in names]
                for values in zip(*columns, strict=True):
                    number += 1
                    where = f"{path}, row {number}"
                    s, r, a, *p = (_as_text(where, *pair) for pair in zip(names, values, strict=True))
                    yield number, s, r, a, p[0] if p else None
    except (pa.ArrowException, OSError) as error:
        raise FactholdError(f"{path} is not Parquet that can be read: {str(error).splitlines()[0]}") from error


def _as_text(where: str, name: str, value: Any) -> str:
    """A value that came with a type, as text."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            raise FactholdError(f"{where}: the {name} is bytes that are not UTF-8; write it as text") from None
    if isinstance(value, list | tuple | dict):
        says = shorten(repr(value))
        raise FactholdError(f"{where}: the {name} is nested, {says}; write one text or number, a row for each")
    return str(value)


def _text(path: Path) -> str:
    """The text of a file, in UTF-8, with or without a byte order mark."""
    _check_readable(path)
    try:
        _check_fits(path, path.stat().st_size)
        contents = path.read_bytes()
        _check_fits(path, len(contents), contents.count(b"\n"))
    except OSError as error:
        raise FactholdError(f"cannot read {path}: {error.strerror or error}; give another file of facts") from error
    for mark, kind in OTHER_KINDS.items():
        if contents.startswith(mark):
            raise FactholdError(f"{path} is {kind}")
    nul = contents.find(b"\0")
    if nul >= 0:
        line = contents.count(b"\n", 0, nul) + 1
        raise FactholdError(f"{path}, line {line}: a NUL byte, so this is no text; save the facts as text in UTF-8")
    try:
        return contents.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = contents.count(b"\n", 0, error.start) + 1
        raise FactholdError(
            f"{path}, line {line}: not text in UTF-8 (byte 0x{contents[error.start]:02x}); "
            "save it in UTF-8, as by: iconv -f LATIN1 -t UTF-8"
        ) from error


def _check_readable(path: Path) -> None:
    if path.is_dir():
        raise FactholdError(f"{path} is a folder; give a file of facts")
    if not path.exists():
        raise FactholdError(f"no such file of facts: {path}")


def _check_fits(path: Path, size: int, rows: int = 0) -> None:
    """Refuse a file that this machine cannot hold, before it is read, and again when its rows are known."""
    try:
        check_memory(f"reading {path}", MEMORY_A_BYTE * size + MEMORY_A_ROW * rows)
    except ValueError as error:
        raise FactholdError(f"{error}: keep fewer rows, or split the file") from None


FORMATS = {
    ".csv": Format(partial(_separated, ",")),
    ".tsv": Format(partial(_separated, "\t")),
    ".jsonl": Format(_json_lines),
    ".ndjson": Format(_json_lines),
    ".parquet": Format(_parquet, unit="row"),
}

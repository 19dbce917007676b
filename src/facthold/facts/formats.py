"""What facts come in, as records of text: CSV, TSV, JSON lines and Parquet; frames, lists and dictionaries."""

import csv
import difflib
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from facthold._util.errors import FactholdError, check_memory, optional

COLUMNS = ("subject", "relation", "answer")
PROBABILITY = "p"
# Bytes of memory that a byte of a file takes while it is read, and a row of it: a short one is mostly objects.
MEMORY_A_BYTE, MEMORY_A_ROW = 6, 600
OTHER_KINDS = {  # what a file is by its first bytes, and what to do about it
    b"PK\x03\x04": "a zip archive or a workbook; save the sheet as CSV in UTF-8",
    b"\x1f\x8b": "compressed with gzip; unpack it first",
    b"PAR1": "Parquet; give it a name that ends in .parquet",
    b"\xff\xfe": "text in UTF-16; save it in UTF-8, as by: iconv -f UTF-16 -t UTF-8",
    b"\xfe\xff": "text in UTF-16; save it in UTF-8, as by: iconv -f UTF-16 -t UTF-8",
}

Rows = Iterator[tuple[int, Sequence[Any]]]  # numbers, with subject, relation, answer and perhaps p as they stand there
Record = tuple[int, str, str, str, str | None]  # a number, subject, relation and answer as text, and p or None


class Source(NamedTuple):
    """Rows, and what errors call them."""

    name: str
    unit: str  # what their numbers count: lines or rows of a file from 1, rows in memory from 0 as Python does
    rows: Rows

    @property
    def records(self) -> Iterator[Record]:
        for number, values in self.rows:
            where = f"{self.name}, {self.unit} {number}"
            s, r, a, *p = (_as_text(where, *cell) for cell in zip((*COLUMNS, PROBABILITY), values, strict=False))
            yield number, s, r, a, p[0] if p else None


def source_of(facts: Any) -> Source:
    """The records of a file, a frame, a dictionary {(subject, relation): answer} or rows (subject, relation, answer).

    A frame is what has columns: pandas, polars and pyarrow are neither needed nor imported.
    """
    rows: Rows
    if isinstance(facts, str | os.PathLike):
        path = Path(facts)
        read = _reader(path)
        return Source(str(path), "row" if read is _parquet else "line", read(path))
    if isinstance(facts, Mapping):
        rows = enumerate((*_parts("facts, a key", 2, key), answer) for key, answer in facts.items())
    elif hasattr(facts, "columns"):
        rows = enumerate(_frame("facts", facts))
    elif isinstance(facts, Iterable):
        rows = ((number, _parts(f"facts, row {number}", 3, row)) for number, row in enumerate(facts))
    else:
        raise ValueError(
            f"facts={shorten(repr(facts))} must be a path, a frame, a dictionary {{(subject, relation): answer}} or a "
            "list of (subject, relation, answer)"
        )
    return Source("facts", "row", rows)


def _reader(path: Path) -> Callable[[Path], Rows]:
    """How the format is read that the name says. What has no name of its own, such as a pipe, is CSV."""
    ending = path.suffix.lower()
    if ending not in FORMATS and path.exists() and not path.is_file():
        ending = ".csv"
    if ending not in FORMATS:
        raise FactholdError(f"{path}: facts are in files whose names end in {', '.join(FORMATS)}, not in {ending!r}")
    return FORMATS[ending]


def _no_column(where: str, name: str, there: Sequence[str]) -> FactholdError:
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


def _places(where: str, header: Sequence[str]) -> list[int]:
    """Where the header has our columns, p perhaps not. Others are ignored."""
    for name in COLUMNS:
        if name not in header:
            raise _no_column(where, name, header)
    for name in (*COLUMNS, PROBABILITY):
        if header.count(name) > 1:
            raise FactholdError(f"{where}: the column {name!r} is there twice")
    return [header.index(name) for name in (*COLUMNS, PROBABILITY) if name in header]


def _separated(delimiter: str, path: Path) -> Rows:
    """CSV and TSV: a header that names the columns, then a row a line, or several lines within quotes."""
    reader = csv.reader(io.StringIO(_text(path), newline=""), delimiter=delimiter, strict=True)
    header: list[str] = []
    start = 1
    try:
        for cells in reader:
            number, start = start, reader.line_num + 1
            if len(cells) < 2 and not "".join(cells).strip():
                continue  # a blank line
            if not header:
                header = [cell.strip() for cell in cells]
                places = _places(f"{path}, line {number}", header)
                continue
            if len(cells) != len(header):
                raise FactholdError(
                    f"{path}, line {number}: {len(cells)} cells, where the header has {len(header)} columns"
                )
            yield number, [cells[i] for i in places]
    except csv.Error as error:
        raise FactholdError(
            f"{path}, line {start}: not CSV ({error}); put a cell with quotes in it into quotes, and write each twice"
        ) from error
    if not header:
        raise FactholdError(f"{path} is empty; the first line names the columns subject, relation, answer")


def _json_lines(path: Path) -> Rows:
    """An object a line; numbers and booleans are the text that stands there, null is empty."""
    decode = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str).decode
    lines = [(number, line) for number, line in enumerate(_text(path).split("\n"), start=1) if line.strip()]
    if not lines:
        raise FactholdError(f"{path} is empty; write an object with subject, relation, answer a line")
    for number, line in lines:
        where = f"{path}, line {number}"
        try:
            value = decode(line.strip())
        except (json.JSONDecodeError, RecursionError) as error:
            says = error.msg if isinstance(error, json.JSONDecodeError) else "too deeply nested"
            raise FactholdError(f"{where}: not JSON ({says}); write one object a line") from error
        if not isinstance(value, dict):
            raise FactholdError(f"{where}: {shorten(line)!r} is not an object; write {{'subject': ...}}, one a line")
        cells = list(value.values())
        yield number, [cells[i] for i in _places(where, list(value))]


def _parquet(path: Path) -> Rows:
    """Columns of text, numbers or booleans, as other tools write them."""
    needed = f"{path} needs pyarrow to be read: pip install 'facthold[parquet]'"
    pa, pq = optional(needed, "pyarrow", "pyarrow.parquet")
    _check_readable(path)
    try:
        with pq.ParquetFile(path) as file:
            columns = [file.schema_arrow.names[i] for i in _places(str(path), file.schema_arrow.names)]
            groups = [file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups)]
            _check_fits(path, sum(groups), file.metadata.num_rows)
            batches = (pa.Table.from_batches([batch]) for batch in file.iter_batches(columns=columns))
            yield from enumerate((row for batch in batches for row in _frame(str(path), batch)), start=1)
    except (pa.ArrowException, OSError) as error:
        raise FactholdError(f"{path} is not Parquet that can be read: {str(error).splitlines()[0]}") from error


def _frame(source: str, frame: Any) -> Iterator[tuple[Any, ...]]:
    """A frame by its columns: those of pyarrow have names apart, and each library its own word for a list."""
    header = [str(name) for name in getattr(frame, "column_names", frame.columns)]
    columns = [frame[header[i]] for i in _places(source, header)]
    lists = [column.to_pylist() if hasattr(column, "to_pylist") else column.to_list() for column in columns]
    return zip(*lists, strict=True)


def _parts(where: str, n: int, row: Any) -> tuple[Any, ...]:
    if isinstance(row, str | Mapping) or not isinstance(row, Iterable) or len(parts := tuple(row)) != n:
        raise FactholdError(f"{where} is {shorten(repr(row))}; write it as ({', '.join(COLUMNS[:n])})")
    return parts


def _as_text(where: str, name: str, value: Any) -> str:
    """A value that came with a type, as text. What is missing (None, nan, NaT, pandas.NA) is empty."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            raise FactholdError(f"{where}: the {name} is bytes that are not UTF-8; write it as text") from None
    if isinstance(value, Iterable):
        text = shorten(repr(value))
        raise FactholdError(f"{where}: the {name} is nested, {text}; write one text or number, a row for each")
    try:
        missing = value is None or bool(value != value)
    except TypeError:  # pandas.NA is neither equal nor unequal
        missing = True
    text = "" if missing else str(value)
    return text.lower() if text in ("True", "False") else text


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
    if (nul := contents.find(b"\0")) >= 0:
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


FORMATS: dict[str, Callable[[Path], Rows]] = {
    ".csv": partial(_separated, ","), ".tsv": partial(_separated, "\t"), ".jsonl": _json_lines, ".ndjson": _json_lines,
    ".parquet": _parquet,
}  # fmt: skip

"""What facts come in, as records of text: CSV, TSV, JSON, JSON lines and Parquet, each perhaps compressed by gzip;
frames, lists and dictionaries."""

import bisect
import csv
import difflib
import io
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from facthold._util.arguments import check_ordered, check_path
from facthold._util.errors import FactholdError, brief, optional, shorten, with_article
from facthold._util.files import GZIPPED
from facthold.facts.contents import check_fits, check_readable, contents_of, is_packed, text_of
from facthold.facts.names import as_text

STDIN = Path("/dev/stdin")  # after `<` it is the file itself
COLUMNS = ("subject", "relation", "answer")
QUESTION = COLUMNS[:2]  # what a file of questions needs
PROBABILITY = "p"
BESIDE = {COLUMNS: (PROBABILITY,), QUESTION: COLUMNS[2:]}  # what may stand beside the columns that are needed
WRITTEN = "write a list of objects with subject, relation and answer, or {subject: {relation: answer}}"

Rows = Iterator[tuple[int, Sequence[Any]]]  # numbers, with subject, relation, answer and perhaps p as they stand there
Columns = tuple[str, ...]  # `COLUMNS` or `QUESTION`
Reader = Callable[[Path, Columns], Rows]  # of a file, for these columns, and those `BESIDE` them
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
    check_path("facts", facts if isinstance(facts, str) else None)
    check_ordered("facts", facts)
    if isinstance(facts, str | os.PathLike):
        return _file(Path(facts), COLUMNS)
    if isinstance(facts, Mapping):
        rows = enumerate((*_parts("facts, a key", 2, key), answer) for key, answer in facts.items())
    elif hasattr(facts, "columns"):
        rows = enumerate(_frame("facts", facts, COLUMNS))
    elif isinstance(facts, Iterable) and not isinstance(facts, bytes | bytearray | memoryview):
        rows = ((number, _parts(f"facts, row {number}", 3, row)) for number, row in enumerate(facts))
    else:
        raise ValueError(
            f"facts={brief(facts)} must be a path, a frame, a dictionary {{(subject, relation): answer}} or a "
            "list of (subject, relation, answer)"
        )
    return Source("facts", "row", rows)


def questions_of(path: Path) -> Iterator[tuple[str, str, str]]:
    """The (subject, relation, answer) of each row of a file, which needs no answers: one that has none is empty."""
    name, unit, rows = _file(path, QUESTION)
    for number, values in rows:
        s, r, *a = (_as_text(f"{name}, {unit} {number}", *cell) for cell in zip(COLUMNS, values, strict=False))
        yield s, r, a[0] if a else ""


def ending_of(path: Path, known: Iterable[str]) -> str | None:
    """The ending that says the format of a file, without `GZIPPED`; None where it is none of the ``known`` ones."""
    *_, before, last = ("", "", *(suffix.lower() for suffix in path.suffixes))
    ending = before if last == GZIPPED else last
    return ending if ending in known else None


def endings(known: Iterable[str]) -> str:
    """The endings in words, for a message."""
    return f"{', '.join(known)}, or one of these and {GZIPPED}"


def check_named(path: Path, known: Iterable[str]) -> None:
    """Refuse a name that is an ending alone: it would be that of a hidden file, and says no format."""
    if ending_of(path, known) is None and ending_of(Path(f"facts{path.name}"), known) is not None:
        named = path.with_name(f"facts{path.name}")
        raise FactholdError(f"{path}: a name before the ending {path.name} is missing; write one, such as {named}")


def _file(path: Path, columns: Columns) -> Source:
    """The rows of a file in the format that the name says. What has no name of its own, such as a pipe, is CSV."""
    ending = ending_of(path, FORMATS)
    if ending is None and (path == STDIN or (path.exists() and not path.is_file() and not path.is_dir())):
        ending = ".csv"
    if ending is None:
        check_readable(path)
        check_named(path, FORMATS)
        raise FactholdError(
            f"{path}: facts are in files whose names end in {endings(FORMATS)}, not in {''.join(path.suffixes[-2:])!r}"
        )
    return Source(str(path), "row" if ending == ".parquet" else "line", FORMATS[ending](path, columns))


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


def _places(where: str, header: Sequence[str], columns: Columns) -> list[int]:
    """Where the header has these columns, and what may stand beside them. Others are ignored."""
    for name in columns:
        if name not in header:
            raise _no_column(where, name, header)
    wanted = (*columns, *BESIDE[columns])
    for name in wanted:
        if header.count(name) > 1:
            raise FactholdError(f"{where}: the column {name!r} is there twice; rename one of them")
    return [header.index(name) for name in wanted if name in header]


def _other_length(where: str, cells: int, columns: int, delimiter: str) -> FactholdError:
    """The error for a row that is shorter or longer than the header."""
    mark, s = "tab" if delimiter == "\t" else "comma", "" if cells == 1 else "s"
    way = f"put a cell that has a {mark} in it into quotes" if cells > columns else "write all cells of the row"
    return FactholdError(
        f"{where}: {cells} cell{s}, where the header has {columns} columns; {way}, or leave the row out"
    )


def _separated(delimiter: str, path: Path, columns: Columns) -> Rows:
    """CSV and TSV: a header that names the columns, then a row a line, or several lines within quotes."""
    text = text_of(path)
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # how long a name may be is for `names.unfit` to say
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    header: list[str] = []
    start = 1
    try:
        for cells in reader:
            number, start = start, reader.line_num + 1
            if len(cells) < 2 and not "".join(cells).strip():
                continue  # a blank line
            if not header:
                header = [cell.strip() for cell in cells]
                places = _places(f"{path}, line {number}", header, columns)
                continue
            if len(cells) != len(header):
                raise _other_length(f"{path}, line {number}", len(cells), len(header), delimiter)
            yield number, [cells[i] for i in places]
    except csv.Error as error:
        raise FactholdError(
            f"{path}, line {start}: not CSV ({error}); put a cell with quotes in it into quotes, and write each twice"
        ) from error
    if not header:
        raise FactholdError(f"{path} is empty; the first line names the columns subject, relation, answer")


class _Object(list[tuple[str, Any]]):
    """An object of JSON by its pairs: a name that stands there twice is seen."""


# Numbers are the text that stands there; nan is missing, as it is in a frame.
_DECODER = json.JSONDecoder(
    parse_int=str, parse_float=str, object_pairs_hook=_Object,
    parse_constant=lambda constant: None if constant == "NaN" else constant,
)  # fmt: skip
_SPACE = re.compile(r"[ \t\n\r]*")


class _Json:
    """The text of a file with JSON in it, read value by value, so that each has its line."""

    def __init__(self, path: Path) -> None:
        self.path, self.text = path, text_of(path)
        self.ends = [found.start() for found in re.finditer("\n", self.text)]

    def where(self, at: int) -> str:
        return f"{self.path}, line {self.line(at)}"

    def line(self, at: int) -> int:
        return bisect.bisect_left(self.ends, at) + 1

    def skip(self, at: int) -> int:
        """The next place that is no space."""
        found = _SPACE.match(self.text, at)
        assert found is not None
        return found.end()

    def value(self, at: int) -> tuple[Any, int]:
        """The value that begins here, and where it ends."""
        try:
            return _DECODER.raw_decode(self.text, at)
        except json.JSONDecodeError as error:
            raise self.broken(error.pos, error.msg) from error
        except RecursionError as error:
            raise self.broken(at, "too deeply nested") from error

    def broken(self, at: int, reason: str) -> FactholdError:
        return FactholdError(f"{self.where(at)}: not JSON ({reason}); {WRITTEN}")

    def members(self, at: int) -> Iterator[tuple[str | None, int, Any]]:
        """What the list or object that begins here has in it: a key or None, where a value begins, and the value. After
        the last one comes (None, the end, None)."""
        close, at = {"[": "]", "{": "}"}[self.text[at]], self.skip(at + 1)
        first = True
        while self.text[at : at + 1] != close or not first:
            key, start = None, at
            if close == "}":
                if self.text[at : at + 1] != '"':
                    raise self.broken(at, "a name in quotes is expected")
                key, at = self.value(at)
                at = self.skip(at)
                if self.text[at : at + 1] != ":":
                    raise self.broken(at, "':' is expected")
                start = at = self.skip(at + 1)
            value, at = self.value(at)
            yield key, start, value
            at, first = self.skip(at), False
            if self.text[at : at + 1] == close:
                break
            if self.text[at : at + 1] != ",":
                raise self.broken(at, f"',' or {close!r} is expected")
            at = self.skip(at + 1)
        yield None, at + 1, None


def _json(path: Path, columns: Columns) -> Rows:
    """A list of objects, a list of (subject, relation, answer), or {subject: {relation: answer}}."""
    json_text = _Json(path)
    at = json_text.skip(0)
    if at == len(json_text.text):
        raise FactholdError(f"{path} is empty; {WRITTEN}")
    if json_text.text[at] not in "[{":
        value, _ = json_text.value(at)
        raise FactholdError(f"{json_text.where(at)}: {brief(value)} is neither a list nor an object; {WRITTEN}")
    read = _listed if json_text.text[at] == "[" else _nested
    yield from read(json_text, at, columns)


def _checked_end(json_text: _Json, at: int) -> None:
    if (at := json_text.skip(at)) < len(json_text.text):
        lines = json_text.text[at] == "{"
        hint = "; one object a line has a name that ends in .jsonl" if lines else ""
        raise json_text.broken(at, f"more after its end{hint}")


def _listed(json_text: _Json, at: int, columns: Columns) -> Rows:
    members = list(json_text.members(at))
    _checked_end(json_text, members.pop()[1])
    for _, start, value in members:
        yield json_text.line(start), _of_json(json_text.where(start), value, columns)


def _nested(json_text: _Json, at: int, columns: Columns) -> Rows:
    members = list(json_text.members(at))
    end = members.pop()[1]
    if set(COLUMNS) <= {key for key, *_ in members}:  # columns of a frame, or one fact
        _checked_end(json_text, end)
        raise FactholdError(
            f"{json_text.where(at)}: an object of columns, or of one fact; write a list of objects, one for each fact "
            "(of a frame: to_json(orient='records'))"
        )
    _checked_end(json_text, end)
    for subject, start, value in members:
        if not isinstance(value, _Object):
            raise FactholdError(f"{json_text.where(start)}: {_shown(subject)} has {_shown(value)}; {WRITTEN}")
        *pairs, _ = json_text.members(start)
        for relation, place, answer in pairs:
            yield json_text.line(place), (subject, relation, answer)


def _of_json(where: str, value: Any, columns: Columns) -> Sequence[Any]:
    """Subject, relation, answer and perhaps p of an object or a list."""
    if isinstance(value, _Object):
        return [value[i][1] for i in _places(where, [name for name, _ in value], columns)]
    if isinstance(value, list) and len(columns) <= len(value) <= len(COLUMNS):
        return value
    raise FactholdError(f"{where}: {_shown(value)} is not an object with {', '.join(columns)}")


def _shown(value: Any) -> str:
    """A value of JSON for a message."""
    return brief(dict(value) if isinstance(value, _Object) else value)


def _json_lines(path: Path, columns: Columns) -> Rows:
    """An object a line."""
    lines = [(number, line) for number, line in enumerate(text_of(path).split("\n"), start=1) if line.strip()]
    if not lines:
        raise FactholdError(f"{path} is empty; write an object with subject, relation, answer a line")
    for number, line in lines:
        where = f"{path}, line {number}"
        try:
            value = _DECODER.decode(line.strip())
        except (json.JSONDecodeError, RecursionError) as error:
            says = error.msg if isinstance(error, json.JSONDecodeError) else "too deeply nested"
            raise FactholdError(f"{where}: not JSON ({says}); write one object a line") from error
        if not isinstance(value, _Object):
            raise FactholdError(f"{where}: {shorten(line)!r} is not an object; write {{'subject': ...}}, one a line")
        yield number, _of_json(where, value, columns)


def _parquet(path: Path, columns: Columns) -> Rows:
    """Columns of text, numbers or booleans, as other tools write them."""
    needed = f"{path} needs pyarrow to be read: pip install 'facthold[parquet]'"
    pa, pq = optional(needed, "pyarrow", "pyarrow.parquet")
    check_readable(path)
    try:
        with pq.ParquetFile(io.BytesIO(contents_of(path)) if is_packed(path) else path) as file:
            names = [file.schema_arrow.names[i] for i in _places(str(path), file.schema_arrow.names, columns)]
            groups = [file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups)]
            check_fits(path, sum(groups), file.metadata.num_rows)
            batches = (pa.Table.from_batches([batch]) for batch in file.iter_batches(columns=names))
            yield from enumerate((row for batch in batches for row in _frame(str(path), batch, columns)), start=1)
    except (pa.ArrowException, OSError) as error:
        raise FactholdError(f"{path} is not Parquet that can be read: {str(error).splitlines()[0]}") from error


def _frame(source: str, frame: Any, columns: Columns) -> Iterator[tuple[Any, ...]]:
    """A frame by its columns: those of pyarrow have names apart, and each library its own word for a list."""
    header = [str(name) for name in getattr(frame, "column_names", frame.columns)]
    ours = [frame[header[i]] for i in _places(source, header, columns)]
    lists = [column.to_pylist() if hasattr(column, "to_pylist") else column.to_list() for column in ours]
    return zip(*lists, strict=True)


def _parts(where: str, n: int, row: Any) -> tuple[Any, ...]:
    if isinstance(row, str | Mapping | Set) or not isinstance(row, Iterable) or len(parts := tuple(row)) != n:
        raise FactholdError(f"{where} is {brief(row)}; write it as ({', '.join(COLUMNS[:n])})")
    return parts


def _as_text(where: str, name: str, value: Any) -> str:
    """A value that came with a type, as text; what is missing is empty."""
    if (text := value if isinstance(value, str) else as_text(value)) is not None:
        return text
    if isinstance(value, bytes):
        raise FactholdError(f"{where}: the {name} is bytes that are not UTF-8; write it as text")
    if isinstance(value, Iterable):
        nested = f"is nested, {brief(value)}"
        raise FactholdError(f"{where}: the {name} {nested}; write one text or number, a row for each")
    raise FactholdError(f"{where}: the {name} is {with_article(type(value).__name__)}; write it as text or a number")


FORMATS: dict[str, Reader] = {
    ".csv": partial(_separated, ","), ".tsv": partial(_separated, "\t"), ".json": _json, ".jsonl": _json_lines,
    ".ndjson": _json_lines, ".parquet": _parquet,
}  # fmt: skip

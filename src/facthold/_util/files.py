"""Files: what is there is never lost to something of another kind, and a reader never meets one half written."""

import contextlib
import csv
import fcntl
import glob
import os
import re
import stat
import tempfile
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from facthold._util.errors import FactholdError

MODEL, STORE, PARQUET, GIF, PNG = "a model", "a store of results", "a Parquet file", "a GIF", "a PNG picture"
OF_FACTS, OF_TEXT, OF_MAP = f"{MODEL} of facts", f"{MODEL} of a text", f"{MODEL} of associations"
OF_EDITS, OF_TEACHING = f"{MODEL} of a language model's edits", f"{MODEL} of what a language model was taught"
SVG, PAGE, TEXT, GGUF = "an SVG picture", "a report", "text", "a language model"
TABLE, TABBED, JSON, FOLDER = "a table", "a tab-separated table", "JSON", "a folder"
EMPTY, OTHER = "empty", "a file that facthold does not write"
MAGIC = {b"SQLite format 3\0": STORE, b"PAR1": PARQUET, b"GIF8": GIF, b"\x89PNG": PNG, b"GGUF": GGUF}
STARTS = {"<?xml": SVG, "<svg": SVG}
ENDINGS = {  # that say what a file is, by how its kind begins; one that is none of them says nothing
    MODEL: (".safetensors",), STORE: (".sqlite", ".sqlite3", ".db"), PARQUET: (".parquet",), GIF: (".gif",),
    PNG: (".png",), SVG: (".svg",), PAGE: (".html", ".htm"), TABLE: (".csv",), TABBED: (".tsv",),
    JSON: (".json", ".jsonl", ".ndjson"), GGUF: (".gguf",),
}  # fmt: skip
FOREIGN = (".xlsx", ".xls", ".docx", ".pdf", ".zip")  # of kinds that nothing here is
GZIPPED = ".gz"  # after one of them
PACKED = ", packed by gzip"  # after a kind
GENERATOR = '<meta name="generator" content="facthold">'  # near the beginning of every page that facthold writes
OURS = re.compile(rb'\s*\{\s*"__metadata__"\s*:\s*\{\s*"(about|checksums)"')  # the header of a model, in safetensors
CLASS = re.compile(rb'\\"model\\":\s*\\"(\w+)')  # in it: of what class the model is
KINDS = {
    "Transformer": OF_FACTS,
    "CausalTransformer": OF_TEXT,
    "LmEdits": OF_EDITS,
    "LmTaught": OF_TEACHING,
}  # of models by their class; any other is a memory
FIRST_KEY = re.compile(r'[\[{\s]*"((?:[^"\\]|\\.)*)"\s*:')  # of JSON: of the object that it is, or of the first in it
OF_RUN = ("step", "loss", "relation_loss")  # more than what a log of anybody's training begins with
GROWING = (("key", "kind", "version"), OF_RUN)  # stored results, and what `watch` has seen
LOOKED = 4096  # bytes at the start of a file that say what it is
LONGEST_NAME = 200  # bytes: file systems take 255, and what is written beside it first has a longer name
ROOM = 1 << 18  # bytes that a disk must take before anything is computed for it

written: list[Path] = []  # the files that this process has put in their place
_unfinished: set[Path] = set()  # those that it is writing
_changing = threading.Lock()  # held while one of them comes or goes
GZIP = b"\x1f\x8b"  # what a file packed by gzip begins with


def table_of(columns: Sequence[str], delimiter: str = ",") -> str:
    """The kind of a CSV or TSV file: by its columns, of some the first ones, as the others differ."""
    return _of_columns(TABBED if delimiter == "\t" else TABLE, columns)


def parquet_of(columns: Sequence[str]) -> str:
    """The kind of a Parquet file, in the same way."""
    return _of_columns(PARQUET, columns)


def _of_columns(table: str, columns: Sequence[str]) -> str:
    for first in GROWING:
        if tuple(columns[: len(first)]) == first:
            return f"{table} that begins with the columns {', '.join(first)}"
    return f"{table} with the columns {', '.join(columns)}"


def json_of(first: str) -> str:
    """The kind of a JSON file: by the first key of it, or of the first object that it lists."""
    return f"{JSON} that begins with {first!r}"


def model_of(name: str) -> str:
    """The kind of a file with a model of the class with this name."""
    return KINDS.get(name, OF_MAP)


def packed(kind: str) -> str:
    """The kind of a file that gzip makes of one of this kind."""
    return f"{kind}{PACKED}"


def kind_of(path: Path) -> str:
    """What a file is, by its first bytes."""
    with path.open("rb") as stream:
        head = stream.read(LOOKED)
    if not head.startswith(GZIP):
        kind = _kind(head, path.stat().st_size)
        return _kind_of_parquet(path) if kind == PARQUET else kind
    try:
        return packed(_kind(zlib.decompressobj(wbits=31).decompress(head, LOOKED), LOOKED))
    except zlib.error:
        return OTHER


def _kind_of_parquet(path: Path) -> str:
    """By its columns, which stand at its end; without them where it cannot be read."""
    try:
        from pyarrow import parquet

        return parquet_of(parquet.read_schema(path).names)
    except (ImportError, OSError, ValueError):  # pyarrow's errors are of these kinds
        return PARQUET


def _kind(head: bytes, size: int) -> str:
    if not head:
        return EMPTY
    for magic, kind in MAGIC.items():
        if head.startswith(magic):
            return kind
    if OURS.match(head, 8) and int.from_bytes(head[:8], "little") < size:
        found = CLASS.search(head)
        return model_of(found[1].decode()) if found else MODEL
    try:
        text = head.decode("utf-8-sig" if len(head) < LOOKED else "utf-8", "strict" if len(head) < LOOKED else "ignore")
    except UnicodeDecodeError:
        return OTHER
    if "\0" in text:
        return OTHER
    text = text.lstrip("\ufeff")
    if not text:
        return EMPTY
    start = text.lstrip().lower()
    for beginning, kind in STARTS.items():
        if start.startswith(beginning):
            return kind
    if start.startswith(("<!doctype html", "<html")):
        return PAGE if GENERATOR in text else "a page that facthold did not write"
    if start.startswith(("{", "[")):
        key = FIRST_KEY.match(text)
        return json_of(key[1]) if key else JSON
    first = text.splitlines()[0]
    delimiter = "\t" if "\t" in first else ","
    columns = next(csv.reader([first], delimiter=delimiter), [])
    return table_of([name.strip() for name in columns], delimiter) if len(columns) > 1 else TEXT


def check_ending(path: Path, kind: str, argument: str = "output") -> None:
    """Refuse a name whose ending is that of another kind than what is written: whoever opens it would be misled."""
    expected = next((endings for start, endings in ENDINGS.items() if kind.startswith(start)), ())
    if kind.endswith(PACKED):
        expected = tuple(f"{ending}{GZIPPED}" for ending in expected)
    *_, before, last = ("", "", *(suffix.lower() for suffix in path.suffixes))
    if (before + last if last == GZIPPED else last) in expected:
        return
    if last in (GZIPPED, *FOREIGN) or any(last in endings for endings in ENDINGS.values()):
        way = f"that ends in {' or '.join(expected)}" if expected else "without that"
        raise FactholdError(f"{argument}={path} ends in {last}, and what is written is {kind}; give a name {way}")


def check_output(path: str | Path, kind: str) -> bool:
    """Whether a file of this kind would take the place of an older one. Refuses to write over anything else, into a
    folder that is not there (a name may be mistyped), and under the ending of another kind."""
    if str(path).endswith("/"):  # of a text: a `Path` has forgotten it
        raise FactholdError(f"output={path} would be a folder; give the name of a file")
    path = Path(path)
    if len(os.fsencode(path.name)) > LONGEST_NAME:
        raise FactholdError(
            f"cannot write {path.name[:20]}...: its name has more than {LONGEST_NAME} bytes; shorten it"
        )
    try:
        if path.is_dir():
            raise FactholdError(f"output={path} is a folder; give the name of a file")
        if not path.parent.is_dir():
            raise FactholdError(
                f"cannot write {path}: there is no folder {path.parent}; make it first, or check the name"
            )
        if not path.is_file():  # nothing there, or a pipe or a device
            target = path.resolve()  # raises where links go round in a circle
            if not target.parent.is_dir():
                raise FactholdError(f"cannot write {path}: it is a link to {target}, and there is no such folder")
            check_ending(path, kind)
            return False
        there = kind_of(path)
        if not os.access(path, os.W_OK):
            raise FactholdError(f"{path} is there already, and is not to be written to; give another name")
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FactholdError(f"cannot write {path}: {reason}; give another path") from error
    if there not in (kind, EMPTY) and not (there == MODEL and kind.startswith(MODEL)):  # of older versions: any model
        raise FactholdError(f"{path} is there already, and is {there}; {kind} would take its place: give another name")
    check_ending(path, kind)
    return True


def same_file(one: str | Path, other: str | Path) -> bool:
    """Whether two paths name one file, which may not be there yet. A text that is no path names none."""
    try:
        if os.path.exists(one) and os.path.exists(other):
            return os.path.samefile(one, other)
        return os.path.realpath(one) == os.path.realpath(other)
    except (OSError, ValueError):
        return False


def check_not_store(output: Path, store: Path | None) -> None:
    """Refuse an output that is the store too, also where neither is there yet."""
    if store is not None and same_file(output, store):
        raise FactholdError(f"output={output} is the store {store} too, and one would be lost; give another name")


def check_outputs(files: Mapping[Path, str], store: Path | None = None) -> list[Path]:
    """Which of these would take the place of older ones, by path and kind: see `check_output`. Folders may be new, and
    none of the files may be the store."""
    for path in files:
        check_not_store(path, store)
    for folder in {path.parent: None for path in files if not path.parent.exists()}:
        check_ending(folder, FOLDER)
    return [path for path, kind in files.items() if path.parent.exists() and check_output(path, kind)]


def check_room(folder: Path) -> None:
    """Raise the OSError of a folder that cannot be written, or whose disk is full: before computing, not after."""
    with tempfile.TemporaryFile(dir=folder) as trial:
        trial.write(bytes(ROOM))
        trial.flush()
        os.fsync(trial.fileno())


@contextlib.contextmanager
def writing(path: str | Path, kind: str) -> Iterator[IO[bytes]]:
    """Beside it first, then in its place. Pipes and devices, such as /dev/stdout, are written as they are."""
    check_output(path, kind)
    path = Path(path)
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as stream:
                yield stream
            return
        final = path.resolve()  # a link stays a link
        remove_remains(final)
        partial = final.with_name(f".{final.name}.{os.getpid()}-{threading.get_ident():x}.partial")
        try:
            with _begin(partial) as stream:
                if final.is_file():
                    os.fchmod(stream.fileno(), stat.S_IMODE(final.stat().st_mode))  # who may read it does not change
                yield stream
                stream.flush()
                os.fsync(stream.fileno())  # else a machine that loses its power could keep the name and not the bytes
                with _changing:
                    partial.replace(final)
                    written.append(path)
        finally:
            with _changing:
                partial.unlink(missing_ok=True)
                _unfinished.discard(partial)
    except OSError as error:
        raise FactholdError(f"cannot write {path}: {error.strerror or error}; give another path") from error


def _begin(partial: Path) -> IO[bytes]:
    """The file, locked for as long as it is open: by that others see that its writer lives, whatever machine it is on.
    One that was removed before it was locked is begun again."""
    with _changing:
        _unfinished.add(partial)
        while True:
            stream = partial.open("wb")
            with contextlib.suppress(OSError):  # a disk without locks: then nobody can take it for what a dead one left
                fcntl.flock(stream, fcntl.LOCK_EX)
            if partial.exists() and os.path.samestat(partial.stat(), os.fstat(stream.fileno())):
                return stream
            stream.close()


def remove_remains(final: Path) -> None:
    """Remove what processes left beside this file that were killed while they wrote it."""
    for partial in final.parent.glob(f".{glob.escape(final.name)}.*.partial"):
        with contextlib.suppress(OSError), partial.open("r+b") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)  # an error: its writer lives
            partial.unlink()


def abandon() -> None:
    """Before a process ends without waiting for its threads: none of them puts a file in its place from here on, and
    what they have begun is removed."""
    _changing.acquire(timeout=5.0)  # for good; longer only where a disk hangs
    for partial in _unfinished:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def as_csv(rows: Iterable[Iterable[Any]], delimiter: str = ",") -> str:
    """Rows as the text of a CSV file; the first is its header."""
    lines = _Lines()
    csv.writer(lines, delimiter=delimiter, lineterminator="\r\n").writerows(rows)
    return "".join(lines)


class _Lines(list[str]):
    """Rows that end in a newline alone. A writer that ends them so itself would leave a cell with \\r in it unquoted,
    and whoever reads it would begin a new row there."""

    def write(self, line: str) -> None:
        self.append(f"{line.removesuffix(chr(13) + chr(10))}\n")

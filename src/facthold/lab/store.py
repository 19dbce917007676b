"""The results of cells, in one SQLite file. Several processes may write to it.

Every finished cell is committed, and on the disk, before ``put`` returns: a run that was killed goes on from there.
The journal is SQLite's plain rollback journal and not its write-ahead log, so that the store is one file that can be
copied and that also works on network disks.
"""

import contextlib
import dataclasses
import errno
import json
import math
import os
import shlex
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from facthold._util.arguments import checked
from facthold._util.errors import FactholdError, optional, with_article
from facthold._util.files import STORE, check_ending, check_room
from facthold.lab.cells import Cell, Result, cell_of, key_of
from facthold.lab.provenance import Provenance, provenance

APPLICATION_ID = 0x66616374  # 'fact', in the header of the file: tells our databases from others
SCHEMA_VERSION = 1
BUSY_SECONDS = 60.0  # how long to wait for another process that is writing; a put takes milliseconds

SCHEMA = """
CREATE TABLE IF NOT EXISTS results (
  key TEXT PRIMARY KEY, kind TEXT NOT NULL, version INTEGER NOT NULL,
  spec TEXT NOT NULL, result TEXT NOT NULL,
  facthold TEXT NOT NULL, "commit" TEXT, date TEXT NOT NULL, platform TEXT NOT NULL, cpu TEXT NOT NULL,
  cores INTEGER NOT NULL, python TEXT NOT NULL, jax TEXT NOT NULL, seeds TEXT NOT NULL, seconds REAL NOT NULL
)"""
_ORIGIN = [field.name for field in dataclasses.fields(Provenance)]
_COLUMNS = ["key", "kind", "version", "spec", "result", *_ORIGIN]
_JSON = ("spec", "result", "seeds")  # read as bytes: what is not even text is found with the row that it stands in
_SELECT = "SELECT rowid, {} FROM results WHERE {} AND {}".format(
    ", ".join(f"CAST({name} AS BLOB)" if name in _JSON else f'"{name}"' for name in _COLUMNS),
    "(:kind IS NULL OR kind = :kind)",
    "(:keys IS NULL OR key IN (SELECT value FROM json_each(:keys)))",  # variables are limited in number
)
_INSERT = "INSERT OR REPLACE INTO results ({}) VALUES ({})".format(
    ", ".join(f'"{name}"' for name in _COLUMNS), ", ".join(f":{name}" for name in _COLUMNS)
)
_ELSEWHERE = "or give another store"
_OTHER_FILE = "give another store, or move it away"
_DAMAGED = f"it is damaged; take a copy of it from before, {_ELSEWHERE}, or move it away: all is then computed again"
_ADVICE = {
    0: _DAMAGED,  # of Python's own: what should be text is none
    sqlite3.SQLITE_NOTADB: f"it is not a database; {_OTHER_FILE}",
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_FULL: "the disk is full; free some space and run again, finished results are kept",
    sqlite3.SQLITE_READONLY: f"it cannot be written; make it and its folder writable, {_ELSEWHERE}",
    sqlite3.SQLITE_CANTOPEN: f"it or its folder cannot be opened; check the permissions, {_ELSEWHERE}",
    sqlite3.SQLITE_BUSY: f"another process keeps it locked; wait for it, {_ELSEWHERE}",
    sqlite3.SQLITE_IOERR: f"the disk does not answer as it should, or takes no more; check it, {_ELSEWHERE}",
}


@dataclasses.dataclass(frozen=True)
class Row(Mapping[str, Any]):
    """One stored result. As a mapping it has the kind, the spec and the result by name, as figures and claims read it;
    where a name stands in both, it is the result's."""

    key: str
    kind: str
    version: int
    spec: dict[str, Any]
    result: Result
    provenance: Provenance

    @property
    def cell(self) -> Cell:
        """The cell that was run, with its fields as typed attributes."""
        from facthold.lab.registry import kinds

        if self.kind not in kinds():
            raise FactholdError(f"no study defines cells of kind {self.kind!r}; they are of another version")
        return cell_of(self.kind, self.spec)

    def __getitem__(self, name: str) -> Any:
        if name in self.result:
            return self.result[name]
        return self.kind if name == "kind" else self.spec[name]

    def __iter__(self) -> Iterator[str]:
        return iter({"kind": None, **self.spec, **self.result})

    def __len__(self) -> int:
        return len({"kind", *self.spec, *self.result})


class Rows(list[Row]):
    """Stored results, in the order of their cells."""

    def to_pandas(self) -> Any:
        """A DataFrame with a line for each result: its key and kind, then spec.*, result.* and provenance.*."""
        from facthold.lab.export import columns

        (pandas,) = optional("a DataFrame needs pandas: pip install pandas", "pandas")
        return pandas.DataFrame(columns(self))


DEFAULT_STORE = "facthold-results.sqlite"


def default_store_path() -> Path:
    """$FACTHOLD_STORE, else facthold-results.sqlite in the current folder."""
    return Path(os.environ.get("FACTHOLD_STORE") or DEFAULT_STORE)


class Store(contextlib.AbstractContextManager["Store"]):
    """Results by the key of their cell: ``with fh.Store("results.sqlite") as store: store.rows("capacity")``.

    For the thread that opened it alone, and not across a fork. ``create=False`` only reads, and makes no file.
    """

    @checked
    def __init__(self, path: str | Path, *, create: bool = True, busy_seconds: float = BUSY_SECONDS) -> None:
        self.path = Path(path)
        self._check_path(create)
        if create:
            self._check_room()
        with self._one_line():
            # 'rw' and not 'ro': after a crash, the first reader too has to roll back what was half written
            uri = f"{self.path.absolute().as_uri()}?mode={'rwc' if create else 'rw'}"
            self._db = sqlite3.connect(uri, uri=True, timeout=busy_seconds, isolation_level=None)
        try:
            with self._one_line():
                self._db.execute("PRAGMA synchronous = FULL")
                self._db.execute(f"PRAGMA query_only = {not create}")
                # one transaction: of two processes that create the file, one waits here for the whole of it
                self._db.execute("BEGIN IMMEDIATE" if create else "BEGIN")
                self._check_owner(create)
                if create:  # it always writes, so that an unwritable store is found before any work
                    self._db.execute(SCHEMA)
                    self._db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                    self._db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
                self._db.execute("COMMIT")
        except BaseException:
            self._db.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._db.close()

    def __contains__(self, cell: Cell) -> bool:
        return not self.missing([cell])

    def get(self, cell: Cell) -> Result | None:
        """The stored result, or None."""
        rows = self.rows(keys=[cell.key])
        return rows[0].result if rows else None

    def put(self, cell: Cell, result: Result, seconds: float, *, origin: Provenance | None = None) -> Result:
        """Store a result for good, and return it as ``get`` will give it (lists for tuples and arrays).

        A key that is there already is replaced: the same spec has the same result, so it does not matter which of two
        processes comes last. Where the cell ran on another machine, ``origin`` is the provenance from there.
        """
        origin = origin or provenance(seconds, cell.spec)
        text = to_json(result, "result")
        row = {"key": cell.key, "kind": cell.kind, "version": cell.version, "spec": to_json(cell.spec, "spec")}
        row |= dataclasses.asdict(origin) | {"result": text, "seeds": json.dumps(origin.seeds)}
        with self._one_line():
            self._db.execute(_INSERT, row)  # outside a transaction: committed by itself
        return from_json(text)

    def missing(self, cells: Iterable[Cell]) -> list[Cell]:
        """The cells without a result, each once, in the order given."""
        stored = {key for (key,) in self.query("SELECT key FROM results")}
        return [cell for key, cell in {cell.key: cell for cell in cells}.items() if key not in stored]

    def rows(self, kind: str | None = None, *, keys: Sequence[str] | None = None) -> Rows:
        """All results, those of one kind, or those under ``keys`` that are there, in the order of kind and spec."""
        wanted = {"kind": kind, "keys": None if keys is None else json.dumps(list(keys))}
        with self._one_line():
            rows = [self._row(*values) for values in self._db.execute(_SELECT, wanted)]
        return Rows(sorted(rows, key=_order))

    def check(self) -> None:
        """Refuse a damaged store before anything is computed for it: every page and every row is looked at."""
        with self._one_line():
            (found,) = self._db.execute("PRAGMA integrity_check(1)").fetchone()
        if found != "ok":
            raise self._refuse(_DAMAGED)
        self.rows()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """The database, locked for this process to write: what is done to it is done as a whole or not at all."""
        with self._one_line():
            try:
                self._db.execute("BEGIN IMMEDIATE")
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of any table of the file."""
        with self._one_line():
            return self._db.execute(sql).fetchall()

    def _refuse(self, reason: str) -> FactholdError:
        return FactholdError(f"cannot use the store {self.path}: {reason}")

    def _check_path(self, create: bool) -> None:
        try:
            if self.path.is_dir():
                raise self._refuse("it is a folder; give a file")
            if self.path.exists() and not self.path.is_file():
                raise self._refuse("it is a device or a pipe, which keeps nothing; give a file")
            if create and not self.path.parent.is_dir():
                raise self._refuse(f"there is no folder {self.path.parent}; make it first, or check the name")
            if not create and not self.path.exists():
                raise self._refuse(f"there is no such file yet; compute something first, {_ELSEWHERE}")
            # one that is there is known by its first bytes; without any, it is as good as new
            if create and (not self.path.exists() or (self.path.is_file() and self.path.stat().st_size == 0)):
                check_ending(self.path, STORE, "store")
        except OSError as error:
            raise self._refuse(f"its folder: {error.strerror or error}; give another store") from error

    def _check_room(self) -> None:
        try:
            check_room(self.path.parent)
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
            reason = _ADVICE[sqlite3.SQLITE_FULL if full else sqlite3.SQLITE_READONLY]
            raise self._refuse(f"{reason} ({error.strerror})") from error

    def _row(self, number: int, key: str, kind: str, version: int, *values: Any) -> Row:
        """One row as it was read; refused where it is not JSON, or stands under the key of another cell."""
        fields = dict(zip(_COLUMNS[3:], values, strict=True))
        try:
            spec, result, seeds = (from_json(fields.pop(name)) for name in _JSON)
            if not isinstance(spec, dict) or not isinstance(result, dict):
                raise ValueError("it has values without names")
            if key_of(kind, version, spec) != key:
                raise ValueError("its key is not that of its spec")
            return Row(key, kind, version, spec, result, Provenance(**fields, seeds=tuple(seeds)))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            reason = "it is not JSON" if isinstance(error, json.JSONDecodeError | UnicodeDecodeError) else error
            delete = shlex.quote(f"DELETE FROM results WHERE rowid = {number}")
            raise self._refuse(
                f"row {number}, of kind {kind}, is damaged ({reason}); remove it, and it is computed again: "
                f"sqlite3 {shlex.quote(str(self.path))} {delete}"
            ) from error

    def _check_owner(self, create: bool) -> None:
        """Refuse databases of others and of other versions, without changing them."""
        (application,) = self._db.execute("PRAGMA application_id").fetchone()
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        empty = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        if empty and application == 0 and version == 0:
            if not create:
                raise self._refuse("it is empty; compute something first")
        elif application != APPLICATION_ID:
            raise self._refuse(f"it is not a database of facthold; {_OTHER_FILE}")
        elif version != SCHEMA_VERSION:
            age = "a newer" if version > SCHEMA_VERSION else "an older"
            formats = f"(format {version}, this one reads {SCHEMA_VERSION})"
            raise self._refuse(f"{age} facthold wrote it {formats}; {_OTHER_FILE}")

    @contextlib.contextmanager
    def _one_line(self) -> Iterator[None]:
        """Turn what SQLite reports into one line that says what to do; a caller's mistake stays as it is."""
        try:
            yield
        except sqlite3.ProgrammingError:
            raise
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte is the family of the error
            raise self._refuse(_ADVICE.get(code, f"{error}; {_OTHER_FILE}")) from error


def to_json(value: Any, name: str) -> str:
    """Valid JSON, in which nan, inf and -inf stand as {"$float": "nan"} and so on: a diverged run is an expected
    result, a bare NaN is no JSON, and null would not come back as a number."""
    return json.dumps(_plain(value, name), allow_nan=False, separators=(",", ":"))


def from_json(text: str | bytes) -> Any:
    """The inverse of ``to_json``."""
    if isinstance(text, bytes):
        text = text.decode()
    if "$float" not in text:
        return json.loads(text)  # several times as fast
    return json.loads(text, object_hook=lambda found: float(found["$float"]) if "$float" in found else found)


def _plain(value: Any, name: str) -> Any:
    """JSON values only: tuples, NumPy and JAX arrays become lists; anything else is refused, by its name."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(item, f"{name}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str) or key == "$float":
                raise ValueError(f"{name} has the key {key!r}; keys must be strings, and '$float' is reserved")
        return {key: _plain(item, f"{name}.{key}") for key, item in value.items()}
    raise ValueError(
        f"{name}={value!r} is {with_article(type(value).__name__)}; give numbers, strings, None, lists or dicts"
    )


def _order(row: Row) -> tuple[Any, ...]:
    """By kind, then version, then the spec's values, numbers as numbers: d=16 stands before d=128."""
    values = [(0, v, "") if isinstance(v, int | float) else (1, 0, json.dumps(v)) for v in row.spec.values()]
    return (row.kind, row.version, values)

"""How far a sweep is, and a note of it in the same file as its results: another terminal can look.

It is only ever news: a failure to write it is no failure of the sweep.
"""

import json
import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from facthold.lab.cells import Cell, Result
from facthold.lab.leases import BEAT, is_dead, is_gone, machine
from facthold.lab.pace import Pace
from facthold.lab.places import Place, Running
from facthold.lab.store import Store

NEWS = 1.0  # seconds between two notes where a cell has started or ended meanwhile; `BEAT` elsewhere
LATE = 0.25  # of what a cell has had, where it takes longer than it should: as much more is expected
PATIENCE = 1.0  # seconds that a note waits for another process that is writing; then it is left out


class Best(NamedTuple):
    """The most facts that were found at one shape, and the parameters of that model."""

    facts: float
    n_params: int | None


class Tally:
    """Counts what is finished, and says how long the rest will take."""

    def __init__(self, todo: Sequence[Cell], place: Place | None = None, pace: Pace | None = None) -> None:
        self.start = time.time()
        self.todo = {cell.key: cell for cell in todo}  # what is not finished yet
        self.n, self.done = len(todo), 0
        self.pace, self.place = pace or Pace(), place
        self.running: Sequence[Running] = ()
        self.found: dict[str, Best] = {}  # by shape, in the order in which the shapes were first found

    def finished(self, cell: Cell, result: Result, seconds: float) -> bool:
        """Count a cell; True where it holds more facts than was found at its shape before."""
        self.done += 1
        self.todo.pop(cell.key, None)
        self.pace.finished(cell, self.share * seconds)
        facts, best = result.get("facts"), self.found.get(cell.shape or "")
        if cell.shape is None or not isinstance(facts, int | float) or (best is not None and facts <= best.facts):
            return False
        self.found[cell.shape] = Best(facts, result.get("n_params"))
        return True

    @property
    def elapsed(self) -> float:
        return time.time() - self.start

    @property
    def share(self) -> float:
        """Of a lane, for each cell in flight."""
        return 1.0 if self.place is None else self.place.share(self.n)

    @property
    def left(self) -> float:
        """Seconds left: what the cells should take that are not finished, less what those in flight have had of it."""
        now, since = time.time(), {one.cell.key: one.since for one in self.running}
        rest = []
        for key, cell in self.todo.items():
            had = self.share * max(now - since[key], 0.0) if key in since else 0.0
            rest.append(max(self.pace.seconds(cell) - had, LATE * had))
        return self.place.estimate(rest) if self.place is not None else sum(rest)


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """One run of a driver, as it was last noted. Times are seconds since the epoch."""

    id: int
    title: str
    place: str
    state: str  # 'running', 'finished', 'interrupted' or 'failed', as the driver said itself
    reason: str | None  # why it failed
    started: float
    beat: float  # when it was last heard of
    done: int
    total: int
    stored: int  # cells that had been stored before, and are not in ``total``
    seconds_left: float  # as of the last beat
    running: Sequence[tuple[str, float]]  # label and start of the cells in flight
    found: dict[str, Best]
    machine: str | None  # where its process is, and which: as `leases` has them
    pid: int | None

    def state_now(self, now: float) -> str:
        """The state; 'dead' where the driver ended without a word."""
        dead = self.state == "running" and is_dead(self.machine, self.pid, self.beat, now)
        return "dead" if dead else self.state

    @property
    def gone(self) -> bool:
        """Whether its process is known to have ended."""
        return is_gone(self.machine, self.pid)

    def as_json(self, now: float) -> dict[str, Any]:
        return asdict(self) | {
            "state": self.state_now(now),
            "running": [{"cell": label, "since": since} for label, since in self.running],
            "found": {shape: best._asdict() for shape, best in self.found.items()},
        }


_COLUMNS = tuple(Sweep.__dataclass_fields__)
_LATER = ("machine", "pid")  # columns that the first stores do not have
_SCHEMA = f"CREATE TABLE IF NOT EXISTS sweeps (id INTEGER PRIMARY KEY, {', '.join(_COLUMNS[1:])})"
_NOTE = f"INSERT OR REPLACE INTO sweeps ({', '.join(_COLUMNS)}) VALUES ({', '.join(f':{name}' for name in _COLUMNS)})"


def sweeps(store: Store) -> list[Sweep]:
    """All that were noted, the latest first."""
    if not store.query("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'sweeps'"):
        return []  # the table came after the first stores
    noted, there = [], {name for _, name, *_ in store.query("PRAGMA table_info(sweeps)")}
    columns = ", ".join(f"NULL AS {name}" if name in _LATER and name not in there else name for name in _COLUMNS)
    for values in store.query(f"SELECT {columns} FROM sweeps ORDER BY id DESC"):
        row = dict(zip(_COLUMNS, values, strict=True))
        row["running"] = [(label, since) for label, since in json.loads(row["running"])]
        row["found"] = {shape: Best(*best) for shape, best in json.loads(row["found"]).items()}
        noted.append(Sweep(**row))
    return noted


class Recorder:
    """Notes how a sweep goes: at its start and end, and every few seconds between. Never fails."""

    def __init__(self, path: Path, title: str, place: str, tally: Tally, stored: int) -> None:
        self.path, self.title, self.place, self.tally, self.stored = path, title, place, tally, stored
        self.started = time.time()
        self._id: int | None = None
        self._last, self._news = 0.0, False

    def __enter__(self) -> "Recorder":
        self._write("running")
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.tally.running = ()
        if isinstance(error, Exception):
            self._write("failed", " ".join(str(error).split()) or type(error).__name__)
        else:
            self._write("finished" if error is None else "interrupted")

    def beat(self, running: Sequence[Running]) -> None:
        self._news |= running != self.tally.running
        self.tally.running = running
        if time.monotonic() - self._last >= (NEWS if self._news else BEAT):
            self._write("running")

    def _write(self, state: str, reason: str | None = None) -> None:
        self._last, self._news = time.monotonic(), False
        note = {
            "id": self._id, "title": self.title, "place": self.place, "state": state, "reason": reason,
            "started": self.started, "beat": time.time(), "stored": self.stored,
            "done": self.tally.done, "total": self.tally.n, "seconds_left": self.tally.left,
            "running": json.dumps([(one.cell.label, one.since) for one in self.tally.running]),
            "found": json.dumps(self.tally.found), "machine": machine(), "pid": os.getpid(),
        }  # fmt: skip
        # A connection of its own, made anew each time: none of its troubles can reach the results.
        with suppress(sqlite3.Error), closing(sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)) as db:
            db.execute(_SCHEMA)
            there = {name for _, name, *_ in db.execute("PRAGMA table_info(sweeps)")}
            for name in _LATER:
                if name not in there:
                    db.execute(f"ALTER TABLE sweeps ADD COLUMN {name}")
            self._id = db.execute(_NOTE, note).lastrowid  # the first note gets a number, and the next replace it

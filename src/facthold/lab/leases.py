"""Which process computes which cell: several may work on one store, and none of them does what another is doing.

A cell is leased before it is started, by a row beside the results; no lock is held while it computes. The lease ends
with the result, or with its owner: if that is dead, another process takes the cell.
"""

import hashlib
import json
import os
import platform
import time
import uuid
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from functools import cache
from pathlib import Path

from facthold._util.errors import FactholdError
from facthold.lab.cells import Cell
from facthold.lab.places import Line
from facthold.lab.store import Row, Store

BEAT = 3.0  # seconds between two signs of life
STALE = 30.0  # seconds without one after which a process is taken for dead
LOOKED = 256  # cells that one transaction looks at

_SCHEMA = """
CREATE TABLE IF NOT EXISTS leases (
  key TEXT PRIMARY KEY, owner TEXT NOT NULL, machine TEXT NOT NULL, pid INTEGER NOT NULL, beat REAL NOT NULL
)"""
_AMONG = "key IN (SELECT value FROM json_each(?))"


@cache
def machine() -> str:
    """A few letters for where process numbers mean the same: this machine since it was started, and this container. A
    hash, so that a store that is passed on names no host."""
    about = [platform.node()]
    with suppress(OSError):
        about += [Path("/proc/sys/kernel/random/boot_id").read_text(), os.readlink("/proc/self/ns/pid")]
    return hashlib.sha256("".join(about).encode()).hexdigest()[:12]


def is_gone(on: str | None, pid: int | None) -> bool:
    """Whether a process is known to have ended. Of one on another machine nothing is known."""
    if on != machine() or pid is None:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:  # it is another user's
        return False
    with suppress(OSError):  # a zombie has ended too
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] == "Z"
    return False


def is_dead(on: str | None, pid: int | None, beat: float, now: float) -> bool:
    """Whether a process that last gave a sign of life at ``beat`` is taken for dead."""
    return now - beat > STALE or is_gone(on, pid)


class Leases(Line, AbstractContextManager["Leases"]):
    """The cells that are not stored yet. Those that another process computes are left to it while there are others;
    then they are waited for."""

    def __init__(self, store: Store, cells: Sequence[Cell]) -> None:
        self._store, self._todo = store, {cell.key: cell for cell in cells}
        self._owner, self._beat = uuid.uuid4().hex, time.monotonic()
        self._elsewhere: list[Cell] = []
        self.held = 0  # cells that others compute, where nothing else is left

    def __enter__(self) -> "Leases":
        with self._store.transaction() as db:
            db.execute(_SCHEMA)
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(FactholdError), self._store.transaction() as db:  # else they end with this process
            db.execute("DELETE FROM leases WHERE owner = ?", (self._owner,))

    def __len__(self) -> int:
        return len(self._todo)

    def take(self, most: int) -> list[Cell]:
        taken: list[Cell] = []
        keys = list(self._todo)
        for i in range(0, len(keys), LOOKED):
            if len(taken) < most:
                taken += self._take(keys[i : i + LOOKED], most - len(taken))
        if most > 0:
            self.held = 0 if taken else len(self._todo)
        return taken

    def _take(self, keys: Sequence[str], most: int) -> list[Cell]:
        now = time.time()
        with self._store.transaction() as db:
            db.execute("DELETE FROM leases WHERE key IN (SELECT key FROM results)")
            stored = {key for (key,) in db.execute(f"SELECT key FROM results WHERE {_AMONG}", (json.dumps(keys),))}
            leases = db.execute(f"SELECT key, machine, pid, beat FROM leases WHERE {_AMONG}", (json.dumps(keys),))
            held = {key for key, on, pid, beat in leases if not is_dead(on, pid, beat, now)}
            free = [key for key in keys if key not in stored | held][:most]
            ours = [(key, self._owner, machine(), os.getpid(), now) for key in free]
            db.executemany("INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?, ?)", ours)
        self._elsewhere += [self._todo.pop(key) for key in keys if key in stored]
        return [self._todo.pop(key) for key in free]

    def beat(self) -> None:
        """Give a sign of life, every few seconds."""
        if time.monotonic() - self._beat > BEAT:
            self._beat = time.monotonic()
            with suppress(FactholdError), self._store.transaction() as db:  # a result that cannot be stored says more
                db.execute("UPDATE leases SET beat = ? WHERE owner = ?", (time.time(), self._owner))

    def found_elsewhere(self) -> list[tuple[Cell, Row]]:
        """The cells that other processes have finished since this was last asked, with their rows."""
        cells = {cell.key: cell for cell in self._elsewhere}
        self._elsewhere = []
        return [(cells[row.key], row) for row in self._store.rows(keys=list(cells))] if cells else []

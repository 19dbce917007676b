"""Cells that sleep, fail or kill the process that they run in. Worker processes import them by this name."""

import dataclasses
import os
import signal
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import facthold
from facthold._util.runtime import XLA_POOL, memory_maps
from facthold.lab.cells import Cell, Result
from facthold.train.lanes import shared_lanes

# what processes import that tests start: this folder, and the same facthold as here
IMPORTED = os.pathsep.join([str(Path(__file__).parent), str(Path(facthold.__file__).parents[1])])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sleeping(Cell):
    """Says in a file that it has started, sleeps, and finds n facts."""

    kind: ClassVar[str] = "sleeping"
    n: int
    seconds: float = 0.0
    log: str = ""

    @property
    def cost(self) -> float:
        return 1.0 + self.seconds

    @property
    def label(self) -> str:
        return f"sleeping {self.n}"

    @property
    def shape(self) -> str:
        return f"n%2={self.n % 2}"

    def run(self) -> Result:
        started(self.log, self.n)
        time.sleep(self.seconds)
        return {"n": self.n, "facts": self.n, "n_params": 10 * self.n}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Threads(Cell):
    """Over how many threads XLA spreads a program in its process; None: as many as there are cores."""

    kind: ClassVar[str] = "threads"
    n: int = 0

    def run(self) -> Result:
        return {"threads": os.environ.get(XLA_POOL), "cores": len(shared_lanes())}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Guessed(Cell):
    """Says what it costs, and is never run."""

    kind: ClassVar[str] = "guessed"
    group: str
    guess: float
    n: int

    @property
    def cost(self) -> float:
        return self.guess

    def run(self) -> Result:
        raise NotImplementedError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Deadly(Cell):
    """Kills its process, the first ``times`` times that it runs."""

    kind: ClassVar[str] = "deadly"
    times: int
    log: str

    @property
    def cost(self) -> float:
        return 100.0

    @property
    def label(self) -> str:
        return "deadly cell"

    def run(self) -> Result:
        started(self.log, -1)
        tries = sum(n == -1 for n, _ in starts(self.log))
        if tries <= self.times:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"tries": tries}


class Strange(Exception):
    """Cannot be pickled: its arguments are not its message."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} and {two}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Failing(Cell):
    kind: ClassVar[str] = "failing"
    strange: bool = False

    def run(self) -> Result:
        raise Strange("this", "that") if self.strange else ValueError("this cell cannot be computed")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compiling(Cell):
    """Compiles programs that no other cell shares, and says how many memory maps there are then."""

    kind: ClassVar[str] = "compiling"
    n: int
    programs: int = 8

    def run(self) -> Result:
        import numpy as np

        for i in range(self.programs):
            _compiled()(np.ones(1 + self.n * self.programs + i, np.float32))
        return {"maps": memory_maps()}


@cache
def _compiled() -> Callable[[Any], Any]:
    import jax

    return jax.jit(lambda x: 2 * x)


def started(log: str, n: int) -> None:
    if log:
        with open(log, "a") as file:  # one short line: appended as a whole
            file.write(f"{n} {os.getpid()}\n")


def starts(log: str | Path) -> list[tuple[int, int]]:
    """Which cell, in which process, in the order in which they started."""
    path = Path(log)
    return [(int(n), int(pid)) for n, pid in map(str.split, path.read_text().splitlines())] if path.exists() else []


def alive(pid: int) -> bool:
    """A zombie, which is dead and only waits to be counted, is not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


PATIENCE = 300.0  # seconds for what takes one on an idle machine: a busy one is no failure, and what hangs still ends


def until(condition) -> None:
    """Wait for something that will happen."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it has not happened in time"
        time.sleep(0.05)


class Quiet:
    """A listener that counts, and does something while cells compute."""

    def __init__(self, meanwhile=lambda: None) -> None:
        self.todo, self.stored, self.meanwhile, self.was_held = 0, 0, meanwhile, False
        self.done: list[Cell] = []

    def begin(self, tally, n_stored) -> None:
        self.todo, self.stored = tally.n, n_stored

    def waiting(self) -> None:
        self.meanwhile()

    def held(self, n) -> None:
        self.was_held = True

    def finished(self, cell, result, seconds) -> None:
        self.done.append(cell)

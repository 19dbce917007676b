"""Where cells run: what every place has in common, and the place that is there always, this process."""

import importlib
import pickle
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple

import facthold
from facthold._util.errors import FactholdError
from facthold._util.plugins import outside
from facthold._util.runtime import drop_programs
from facthold.lab.cells import Cell, Result
from facthold.lab.provenance import Provenance, provenance
from facthold.lab.store import from_json, to_json
from facthold.train.lanes import fix_lanes, shared_lanes

RETRIES = 3  # how often a cell is tried again whose worker process or node died
NAMED = 3  # how many of the cells that are given up are named
# What cells import when they run.
COMPUTING = ("jax", "equinox", "optax", "diffrax", "scipy.optimize", "scipy.special", "facthold.train.race")
WAIT = 0.5  # seconds that a place waits at most before it lets the driver speak: Ctrl-C is heard, progress moves


class Finished(NamedTuple):
    """A cell that is done, and where and when it was."""

    cell: Cell
    result: Result
    origin: Provenance


class Running(NamedTuple):
    """A cell in flight."""

    cell: Cell
    since: float  # seconds since the epoch


class Moment(NamedTuple):
    """What a place has to tell: the cells that finished since the last moment, and those in flight."""

    finished: Sequence[Finished]
    running: Sequence[Running]


class Line:
    """The cells that a place is to compute, in their order."""

    def __init__(self, cells: Iterable[Cell]) -> None:
        self._cells = deque(cells)

    def __len__(self) -> int:
        """How many there are still to come."""
        return len(self._cells)

    def take(self, most: int) -> list[Cell]:
        """Up to so many of them, to be started now. There may be none for the moment, though there are more to come."""
        return [self._cells.popleft() for _ in range(min(most, len(self._cells)))]


class Place(AbstractContextManager["Place"]):
    """Where cells run; the driver stores. It is entered before it computes; once it is left, nothing of it runs on."""

    label: str  # a few words for `facthold status`; no host and no path

    @property
    @abstractmethod
    def lanes(self) -> int:
        """How many cores compute."""

    @abstractmethod
    def compute(self, line: Line) -> Generator[Moment, None, None]:
        """Compute the cells of ``line``, taken when they can be started; a moment at least every `WAIT` seconds. The
        first exception of a cell ends it, after what is finished was told. Closing it ends it too."""

    @property
    def at_once(self) -> int:
        """How many cells run at a time: they share the lanes."""
        return self.lanes

    def share(self, cells: int) -> float:
        """Of a lane that each of so many cells has while it runs."""
        return min(1.0, self.lanes / max(1, min(self.at_once, cells)))

    def estimate(self, seconds: Sequence[float]) -> float:
        """Seconds that cells will take here, of which each takes so long on one lane: no less than the largest."""
        return max([sum(seconds) / self.lanes, *seconds])

    def __exit__(self, *_: object) -> None:
        """Most places have nothing to give back."""


class InProcess(Place):
    """In this process. One cell more than there are lanes runs at a time: while one waits for its last
    member, the lane that is free works for another."""

    label = "this process"

    @property
    def lanes(self) -> int:
        return len(shared_lanes())

    @property
    def at_once(self) -> int:
        return self.lanes + 1

    def compute(self, line: Line) -> Generator[Moment, None, None]:
        lanes = shared_lanes()
        running: dict[str, Running] = {}

        def work(cell: Cell) -> Finished:
            running[cell.key] = Running(cell, time.time())
            try:
                return finish(cell)
            finally:
                del running[cell.key]

        for name in COMPUTING:  # before threads do: two that import a package at once may meet half of it
            importlib.import_module(name)
        pool = ThreadPoolExecutor(self.at_once, thread_name_prefix="cell")
        waiting: set[Future[Finished]] = set()
        try:
            while line or waiting:
                # one more waits, so that no lane does
                waiting |= {pool.submit(work, cell) for cell in line.take(self.at_once + 1 - len(waiting))}
                if not waiting:
                    time.sleep(WAIT)
                done, waiting = wait(waiting, timeout=WAIT, return_when=FIRST_COMPLETED)
                yield Moment([one.result() for one in done if not one.exception()], list(running.values()))
                for one in done:
                    one.result()
        except BaseException:
            lanes.stop()
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def finish(cell: Cell) -> Finished:
    """Run a cell here. Wherever that is, the programs of cells before it do not use up the memory maps."""
    drop_programs()
    start = time.perf_counter()
    result = cell.run()
    return Finished(cell, result, provenance(time.perf_counter() - start, cell.spec))


@dataclass(frozen=True)
class Parcel:
    """A cell on its way to another process. It is opened there after the lanes are set up."""

    pickled: bytes
    key: str
    version: str

    @classmethod
    def of(cls, cell: Cell) -> "Parcel":
        return cls(pickle.dumps(cell), cell.key, facthold.__version__)

    def run(self) -> tuple[Result, Provenance]:
        """Run it with one lane; JSON values come back, which every driver can read."""
        fix_lanes(1)
        outside()  # the cell may be defined in a plug-in
        try:
            cell = pickle.loads(self.pickled)
        except (ImportError, AttributeError) as error:
            raise FactholdError(f"a worker cannot load a cell ({error}); install the same code there") from error
        if facthold.__version__ != self.version or cell.key != self.key:
            raise FactholdError(
                f"a worker has another version of facthold ({facthold.__version__}) than the driver ({self.version}), "
                "or other protocols; install the same there"
            )
        done = finish(cell)
        return from_json(to_json(done.result, "result")), done.origin


def given_up(lost: Sequence[Cell], why: str) -> FactholdError:
    """The error at the end of a run that finished all cells but these."""
    names = "; ".join(cell.label for cell in lost[:NAMED])
    more = f" and {len(lost) - NAMED} more" if len(lost) > NAMED else ""
    return FactholdError(
        f"given up after {RETRIES + 1} tries, because {why}: {names}{more}. "
        "All other cells are stored; if memory is short, take fewer workers or smaller sizes"
    )

"""Run the cells that the store does not have yet. Each result is stored the moment it is there."""

import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Protocol, runtime_checkable

from facthold.cells import Cell, Result
from facthold.sweep.store import Row, Store
from facthold.train.lanes import shared_lanes


@runtime_checkable
class Listener(Protocol):
    """Who wants to hear how far the run is. Costs are in the unit of `Cell.cost`."""

    def begin(self, todo: Sequence[Cell], n_stored: int) -> None: ...
    def waiting(self) -> None:
        """Called about twice a second while cells compute."""

    def finished(self, cell: Cell, result: Result, seconds: float) -> None: ...


def run_cells(cells: Sequence[Cell], store: Store, listener: Listener) -> list[Row]:
    """The rows of all ``cells``, in their order; computes those that are missing, the largest first.

    One cell more than there are lanes runs at a time: while one waits for its last member, the lane
    that is free works for another. Killed at any moment, a run loses the cells in flight and no others.
    """
    unique = {cell.key: cell for cell in cells}
    todo = sorted((cell for cell in unique.values() if cell not in store), key=lambda cell: -cell.cost)
    listener.begin(todo, len(unique) - len(todo))
    if todo:
        _compute(todo, store, listener)
    rows = {row.key: row for row in store.rows(keys=list(unique))}
    return [rows[cell.key] for cell in cells]


def _compute(todo: Sequence[Cell], store: Store, listener: Listener) -> None:
    lanes = shared_lanes()
    pool = ThreadPoolExecutor(len(lanes) + 1, thread_name_prefix="cell")
    try:
        waiting: dict[Future[tuple[Result, float]], Cell] = {pool.submit(_timed, cell): cell for cell in todo}
        while waiting:
            # A time-out, so that Ctrl-C is heard while cells compute.
            done, _ = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED)
            listener.waiting()
            for future in done:
                cell = waiting.pop(future)
                result, seconds = future.result()
                listener.finished(cell, store.put(cell, result, seconds), seconds)
    except BaseException:
        lanes.stop()
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _timed(cell: Cell) -> tuple[Result, float]:
    start = time.perf_counter()
    return cell.run(), time.perf_counter() - start

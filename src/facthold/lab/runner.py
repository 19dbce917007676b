"""Run the cells that the store does not have yet. Each result is stored the moment it is there."""

from collections.abc import Sequence
from contextlib import closing
from typing import Protocol, runtime_checkable

from facthold.lab.cells import Cell, Result
from facthold.lab.places import InProcess, Place
from facthold.lab.status import Recorder
from facthold.lab.store import Row, Store
from facthold.lab.tally import Tally


@runtime_checkable
class Listener(Protocol):
    """Who wants to hear how far the run is. Costs are in the unit of `Cell.cost`."""

    def begin(self, todo: Sequence[Cell], n_stored: int) -> None: ...
    def waiting(self) -> None:
        """Called about twice a second while cells compute."""

    def finished(self, cell: Cell, result: Result, seconds: float) -> None: ...


def run_cells(
    cells: Sequence[Cell], store: Store, listener: Listener, *, place: Place | None = None, title: str = "cells"
) -> list[Row]:
    """The rows of all ``cells``, in their order; computes those that are missing, the largest first.

    They run in ``place`` (default: this process), and this process alone writes to the store. Killed at any
    moment, a run loses the cells in flight and no others.
    """
    unique = {cell.key: cell for cell in cells}
    todo = sorted(store.missing(unique.values()), key=lambda cell: -cell.cost)
    n_stored = len(unique) - len(todo)
    if todo:
        with place or InProcess() as place:
            listener.begin(todo, n_stored)
            with Recorder(store.path, title, place.label, Tally(todo, place.lanes), n_stored) as record:
                _compute(todo, store, listener, place, record)
    else:
        listener.begin(todo, n_stored)
    rows = {row.key: row for row in store.rows(keys=list(unique))}
    return [rows[cell.key] for cell in cells]


def _compute(todo: Sequence[Cell], store: Store, listener: Listener, place: Place, record: Recorder) -> None:
    with closing(place.compute(todo)) as moments:
        for moment in moments:
            for done in moment.finished:
                seconds = done.origin.seconds
                result = store.put(done.cell, done.result, seconds, origin=done.origin)
                record.finished(done.cell, result)
                listener.finished(done.cell, result, seconds)
            record.beat(moment.running)
            listener.waiting()

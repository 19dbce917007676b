"""Run the cells that the store does not have yet. Each result is stored the moment it is there."""

from collections.abc import Sequence
from contextlib import closing

from facthold.lab.cells import Cell, Result, check_cells
from facthold.lab.places import InProcess, Place
from facthold.lab.status import Recorder, Tally
from facthold.lab.store import Rows, Store


class Listener:
    """Hears how far the run is; this one says nothing."""

    def begin(self, todo: Sequence[Cell], n_stored: int) -> None: ...
    def waiting(self) -> None: ...  # about twice a second while cells compute
    def finished(self, cell: Cell, result: Result, seconds: float) -> None: ...


def run_cells(
    cells: Sequence[Cell], store: Store, listener: Listener | None = None, *, place: Place | None = None,
    title: str = "cells",
) -> Rows:  # fmt: skip
    """The rows of all ``cells``, in their order; computes those that are missing in ``place`` (default: this process),
    the largest first. Killed at any moment, a run loses the cells in flight and no others."""
    listener = listener or Listener()
    unique = {cell.key: cell for cell in cells}
    todo = sorted(store.missing(unique.values()), key=lambda cell: -cell.cost)
    check_cells(todo)
    n_stored = len(unique) - len(todo)
    if todo:
        with place or InProcess() as place:
            listener.begin(todo, n_stored)
            record = Recorder(store.path, title, place.label, Tally(todo, place.lanes), n_stored)
            with record, closing(place.compute(todo)) as moments:
                for moment in moments:
                    for done in moment.finished:
                        result = store.put(done.cell, done.result, done.origin.seconds, origin=done.origin)
                        record.tally.finished(done.cell, result)
                        listener.finished(done.cell, result, done.origin.seconds)
                    record.beat(moment.running)
                    listener.waiting()
    else:
        listener.begin(todo, n_stored)
    rows = {row.key: row for row in store.rows(keys=list(unique))}
    return Rows(rows[cell.key] for cell in cells)

"""Run the cells that the store does not have yet. Each result is stored the moment it is there."""

from collections.abc import Sequence
from contextlib import closing

from facthold.lab.cells import Cell, Result, check_cells
from facthold.lab.leases import Leases
from facthold.lab.pace import stored_pace
from facthold.lab.places import InProcess, Place
from facthold.lab.status import Recorder, Tally
from facthold.lab.store import Rows, Store


class Listener:
    """Hears how far the run is; this one says nothing."""

    def begin(self, tally: Tally, n_stored: int) -> None: ...  # the run keeps the tally
    def waiting(self) -> None: ...  # about twice a second while cells compute
    def held(self, n: int) -> None: ...  # nothing is left but so many cells, which other processes compute
    def finished(self, cell: Cell, result: Result, seconds: float) -> None: ...


def run_cells(
    cells: Sequence[Cell], store: Store, listener: Listener | None = None, *, place: Place | None = None,
    title: str = "cells",
) -> Rows:  # fmt: skip
    """The rows of all ``cells``, in their order; computes those that are missing in ``place`` (default: this process),
    in the order of `Pace.order`. Killed at any moment, a run loses the cells in flight and no others. A cell that
    another process computes is left to it, and a store that is damaged is refused before anything is computed."""
    listener = listener or Listener()
    unique = {cell.key: cell for cell in cells}
    todo = store.missing(unique.values())
    check_cells(todo)
    n_stored = len(unique) - len(todo)
    if todo:
        store.check()
        with place or InProcess() as place:
            pace = stored_pace(store, todo, place)
            todo = pace.order(todo)
            tally = Tally(todo, place, pace)
            listener.begin(tally, n_stored)
            record = Recorder(store.path, title, place.label, tally, n_stored)

            def note(cell: Cell, result: Result, seconds: float) -> None:
                tally.finished(cell, result, seconds)
                listener.finished(cell, result, seconds)

            with record, Leases(store, todo) as line, closing(place.compute(line)) as moments:
                for moment in moments:
                    for done in moment.finished:
                        result = store.put(done.cell, done.result, done.origin.seconds, origin=done.origin)
                        note(done.cell, result, done.origin.seconds)
                    for cell, row in line.found_elsewhere():
                        note(cell, row.result, row.provenance.seconds)
                    line.beat()
                    record.beat(moment.running)
                    if line.held and not moment.running:
                        listener.held(line.held)
                    listener.waiting()
                for cell, row in line.found_elsewhere():
                    note(cell, row.result, row.provenance.seconds)
    else:
        listener.begin(Tally(todo), n_stored)
    rows = {row.key: row for row in store.rows(keys=list(unique))}
    return Rows(rows[cell.key] for cell in cells)

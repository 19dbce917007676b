"""Cells that commands compute: where they run, and lines or a bar that say how far they are."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from facthold.cli.app import heed
from facthold.cli.printing import count, messages
from facthold.lab.api import AnyStore, opened
from facthold.lab.cells import Cell, Result
from facthold.lab.cluster import RayCluster
from facthold.lab.places import InProcess, Place
from facthold.lab.report import duration
from facthold.lab.runner import Listener, run_cells
from facthold.lab.status import Best, Tally
from facthold.lab.store import Rows
from facthold.lab.workers import Workers

SILENCE = 30.0  # seconds after which a run without a terminal says that it is still going
BAR = (
    SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f}%"),
    TimeElapsedColumn(), TextColumn("{task.fields[left]}"),
)  # fmt: skip


def find_place(workers: int | None, ray: str | None) -> Place:
    """Where --workers and --ray say that cells run; without them, in this process."""
    if workers is not None and ray is not None:
        raise ValueError("take one of --workers and --ray: cells run in local processes or on a cluster")
    if ray is not None:
        return RayCluster(ray)
    return InProcess() if workers is None else Workers(workers)


def compute_cells(title: str, cells: Sequence[Cell], store: AnyStore, place: Place) -> Rows:
    """The rows of these cells, computed where they are not stored, with a bar or lines that say how far it is."""
    with opened(store, cells=cells) as kept, CellProgress(title, place) as progress:
        return run_cells(cells, kept, progress, place=place, title=title)


class CellProgress(Listener, AbstractContextManager["CellProgress"]):
    """Says how far a run is."""

    def __init__(self, title: str, place: Place | None = None) -> None:
        self.title, self.place = title, place or InProcess()
        self.tally = Tally([])
        self.bar: Progress | None = None

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()
        if self.tally.found:
            self._say("facts found:")
        for line in facts_found(self.tally.found):
            self._say(f"  {line}")

    def begin(self, todo: Sequence[Cell], n_stored: int) -> None:
        stored = f", {n_stored} already stored" if n_stored else ""
        self._say(f"{self.title}: {count(len(todo), 'cell')} to compute{stored}")
        self.tally = Tally(todo, self.place.lanes)
        if todo and messages.is_terminal:
            self.bar = Progress(*BAR, console=messages)
            self.task = self.bar.add_task(self.title, total=1.0, left="")
            self.bar.start()

    def waiting(self) -> None:
        heed()
        elapsed, left = self.tally.elapsed, self.tally.left
        if self.bar is not None:
            share = elapsed / (elapsed + left) if elapsed + left else 1.0
            title = f"{self.title} {self._cells}"
            self.bar.update(self.task, completed=share, description=title, left=f"about {duration(left)} left")
        elif time.monotonic() - self.spoke > SILENCE:
            self._say(f"[{self._cells}] computing; about {duration(left)} left")

    def finished(self, cell: Cell, result: Result, seconds: float) -> None:
        more = self.tally.finished(cell, result)
        line = f"[{self._cells}] {cell.label}: {outcome(result)} ({duration(seconds)})"
        self._say(line if self.bar is not None else f"{line}; about {duration(self.tally.left)} left")
        if more and cell.shape is not None:
            self._say(f"  most so far at {next(facts_found({cell.shape: self.tally.found[cell.shape]}))}")

    @property
    def _cells(self) -> str:
        return f"{self.tally.done}/{self.tally.n}"

    def _say(self, line: str) -> None:
        self.spoke = time.monotonic()
        messages.print(line, markup=False)


def facts_found(found: Mapping[str, Best]) -> Iterator[str]:
    """A line for each shape: 'alpha=1 beta=4 H=8: 1521 facts, 49152 parameters'."""
    for shape, best in found.items():
        parameters = f", {count(best.n_params, 'parameter')}" if best.n_params is not None else ""
        yield f"{shape}: {best.facts:.6g} facts{parameters}"


def outcome(result: Result) -> str:
    """A result in a few words. Where facts are counted, N is the number of subjects S."""
    if "N" not in result:
        return "done"
    if result["N"] is None:
        return str(result["status"])
    facts = f", {result['facts']:.6g} facts" if result.get("facts") is not None else ""
    return f"{'S' if facts else 'N'} = {result['N']:.4g} ({result['N_min']} to {result['N_max']}){facts}"

"""Cells that commands compute: where they run, and lines or a bar that say how far they are."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from facthold._util.commands import command, duration
from facthold.cli.ending import heed
from facthold.cli.printing import count, filled, messages
from facthold.lab.api import AnyStore, opened
from facthold.lab.cells import Cell, Result
from facthold.lab.cluster import RayCluster
from facthold.lab.places import InProcess, Place
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
    with opened(store, cells=cells) as kept, CellProgress(title, kept.path) as progress:
        return run_cells(cells, kept, progress, place=place, title=title)


class CellProgress(Listener, AbstractContextManager["CellProgress"]):
    """Says how far a run is."""

    def __init__(self, title: str, store: Path | None = None) -> None:
        self.title, self.tally, self.stored = title, Tally([]), 0
        self.status = command("status", store=store)
        self.shown: dict[str, Best] = {}  # the most facts of each shape that were told
        self.bar: Progress | None = None
        self.waits = False  # whether it has been said that nothing is left but to wait

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self.bar is not None:
            self.bar.stop()
        if self.tally.found:
            self._say("facts found:")
        for line in facts_found(self.tally.found):
            self._say(f"  {line}")
        if isinstance(error, KeyboardInterrupt) and self.tally.n:
            error.add_note(self._kept())

    def _kept(self) -> str:
        """What is left of a run that was stopped."""
        stored, total = self.stored + self.tally.done, count(self.stored + self.tally.n, "cell")
        if not stored:
            return f"none of {total} was finished, so that the same command begins again"
        return f"{stored} of {total} stored, and the same command goes on after them"

    def begin(self, tally: Tally, n_stored: int) -> None:
        self.tally = tally
        stored = f", {n_stored} already stored" if n_stored else ""
        self.stored = n_stored
        left = f"; about {duration(tally.left)}" if tally.n else ""
        self._say(f"{self.title}: {count(tally.n, 'cell')} to compute{stored}{left}")
        if tally.n and messages.is_terminal:
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

    def held(self, n: int) -> None:
        if not self.waits:
            self._say(f"waiting for {count(n, 'cell')} that another process computes: see {self.status}")
        self.waits = True

    def finished(self, cell: Cell, result: Result, seconds: float) -> None:
        self.waits = False
        line = f"[{self._cells}] {cell.label}: {outcome(result)} ({duration(seconds)})"
        self._say(line if self.bar is not None else f"{line}; about {duration(self.tally.left)} left")
        best = self.tally.found.get(cell.shape or "")
        if cell.shape is not None and best is not None and best != self.shown.get(cell.shape):
            self.shown[cell.shape] = best
            self._say(f"  most so far at {next(facts_found({cell.shape: best}))}")

    @property
    def _cells(self) -> str:
        return f"{self.tally.done}/{self.tally.n}"

    def _say(self, line: str) -> None:
        self.spoke = time.monotonic()
        messages.print(filled(line), markup=False)


def facts_found(found: Mapping[str, Best]) -> Iterator[str]:
    """A line for each shape: 'alpha=1 beta=4 H=8: 1,521 facts at the accuracy asked for, 49,152 parameters'; a mean
    over seeds is rounded. The facts are those of the table, of which that share is recalled."""
    for shape, best in found.items():
        parameters = f", {count(f'{best.n_params:,.0f}', 'parameter')}" if best.n_params is not None else ""
        yield f"{shape}: {count(f'{best.facts:,.0f}', 'fact')} at the accuracy asked for{parameters}"


def outcome(result: Result) -> str:
    """A result in a few words. Where facts are counted, N is the number of subjects S."""
    if "N" not in result:
        return "done"
    if result["N"] is None:
        return str(result["status"])
    facts = f", {count(format(result['facts'], '.6g'), 'fact')}" if result.get("facts") is not None else ""
    spread = "" if len(result.get("per_seed", ())) == 1 else f" ({result['N_min']} to {result['N_max']})"
    return f"{'S' if facts else 'N'} = {result['N']:.4g}{spread}{facts}"

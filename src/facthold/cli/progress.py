"""How far a run is: a bar with the time left on a terminal, plain lines elsewhere. Always on standard error."""

import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from facthold.cells import Cell, Result
from facthold.report import duration

messages = Console(stderr=True, highlight=False, soft_wrap=True)


class CellProgress:
    """A `Listener` of the runner. The share done is weighed by the cells' cost."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.bar: Progress | None = None

    def __enter__(self) -> "CellProgress":
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def begin(self, todo: Sequence[Cell], n_stored: int) -> None:
        self.start, self.n, self.done = time.monotonic(), len(todo), 0
        self.total, self.spent = sum(cell.cost for cell in todo), 0.0
        stored = f", {n_stored} already stored" if n_stored else ""
        messages.print(f"{self.title}: {len(todo)} cells to compute{stored}")
        if todo and messages.is_terminal:
            self.bar = Progress(
                SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f}%"),
                TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), console=messages,
            )  # fmt: skip
            self.task = self.bar.add_task(self.title, total=self.total)
            self.bar.start()

    def finished(self, cell: Cell, result: Result, seconds: float) -> None:
        self.done += 1
        self.spent += cell.cost
        line = f"{cell.label}: {outcome(result)} ({duration(seconds)})"
        if self.bar is not None:
            self.bar.console.print(line)
            self.bar.update(self.task, advance=cell.cost)
            return
        elapsed = time.monotonic() - self.start
        left = elapsed * (self.total / self.spent - 1)
        messages.print(f"[{self.done}/{self.n}] {line}; about {duration(left)} left", markup=False)
        sys.stderr.flush()


def outcome(result: Result) -> str:
    """A result in a few words."""
    if "N" in result:
        if result["N"] is None:
            return str(result["status"])
        return f"N = {result['N']:.4g} ({result['N_min']} to {result['N_max']})"
    return "done"

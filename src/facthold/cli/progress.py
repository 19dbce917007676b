"""How far a run is: a bar with the time left on a terminal, plain lines elsewhere. Always on standard error."""

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from facthold.cells import Cell, Result
from facthold.report import duration

messages = Console(stderr=True, highlight=False, soft_wrap=True)

interrupted = threading.Event()
"""Set by Ctrl-C."""

SILENCE = 30.0
"""Seconds after which a run without a terminal says that it is still going."""


class CellProgress:
    """A `Listener` of the runner. The share done is weighed by the cells' cost, a guess at their seconds."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.bar: Progress | None = None

    def __enter__(self) -> "CellProgress":
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def begin(self, todo: Sequence[Cell], n_stored: int) -> None:
        self.start = self.spoke = time.monotonic()
        self.n, self.done = len(todo), 0
        self.total, self.spent = sum(cell.cost for cell in todo), 0.0
        stored = f", {n_stored} already stored" if n_stored else ""
        messages.print(f"{self.title}: {len(todo)} cells to compute{stored}")
        if todo and messages.is_terminal:
            self.bar = Progress(
                SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f}%"),
                TimeElapsedColumn(), TextColumn("{task.fields[left]}"), console=messages,
            )  # fmt: skip
            self.task = self.bar.add_task(self.title, total=1.0, left="")
            self.bar.start()

    @property
    def left(self) -> float:
        """Seconds left: the guess, corrected by how fast the finished cells went."""
        elapsed = time.monotonic() - self.start
        if not self.spent:
            return max(self.total - elapsed, 0.1 * elapsed)
        return elapsed * (self.total / self.spent - 1) if self.spent < self.total else 0.0

    def waiting(self) -> None:
        if interrupted.is_set():  # a KeyboardInterrupt can get lost, if it meets the wrong line of a library
            raise KeyboardInterrupt
        elapsed, left = time.monotonic() - self.start, self.left
        if self.bar is not None:
            self.bar.update(self.task, completed=elapsed / (elapsed + left), left=f"about {duration(left)} left")
        elif time.monotonic() - self.spoke > SILENCE:
            self._say(f"[{self.done}/{self.n}] computing; about {duration(left)} left")

    def finished(self, cell: Cell, result: Result, seconds: float) -> None:
        self.done += 1
        self.spent += cell.cost
        line = f"{cell.label}: {outcome(result)} ({duration(seconds)})"
        if self.bar is not None:
            self.bar.console.print(line, markup=False)
        else:
            self._say(f"[{self.done}/{self.n}] {line}; about {duration(self.left)} left")

    def _say(self, line: str) -> None:
        self.spoke = time.monotonic()
        messages.print(line, markup=False)
        sys.stderr.flush()


@contextmanager
def working(what: str) -> Iterator[None]:
    """Say what is being done: a spinner on a terminal, one line elsewhere."""
    if messages.is_terminal:
        with messages.status(what):
            yield
    else:
        messages.print(what, markup=False)
        yield


def outcome(result: Result) -> str:
    """A result in a few words."""
    if "N" in result:
        if result["N"] is None:
            return str(result["status"])
        return f"N = {result['N']:.4g} ({result['N_min']} to {result['N_max']})"
    return "done"

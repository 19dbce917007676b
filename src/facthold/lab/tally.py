"""How far a sweep is: cells done, time left, and the facts found so far."""

import time
from collections.abc import Sequence
from typing import NamedTuple

from facthold.lab.cells import Cell, Result


class Best(NamedTuple):
    """The most facts that were found at one shape, and the parameters of that model."""

    facts: float
    n_params: int | None


class Tally:
    """Counts what is finished. The share done is weighed by the cells' cost, a guess at their seconds."""

    def __init__(self, todo: Sequence[Cell], lanes: int = 1) -> None:
        self.start = time.monotonic()
        self.n, self.done = len(todo), 0
        self.total, self.spent = sum(cell.cost for cell in todo), 0.0
        self.lanes = lanes
        self.found: dict[str, Best] = {}
        """By shape, in the order in which the shapes were first found."""

    def finished(self, cell: Cell, result: Result) -> bool:
        """Count a cell; True where it holds more facts than was found at its shape before."""
        self.done += 1
        self.spent += cell.cost
        facts, best = result.get("facts"), self.found.get(cell.shape or "")
        if cell.shape is None or not isinstance(facts, int | float) or (best is not None and facts <= best.facts):
            return False
        self.found[cell.shape] = Best(facts, result.get("n_params"))
        return True

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.start

    @property
    def left(self) -> float:
        """Seconds left: the guess, corrected by how fast the finished cells went."""
        elapsed = self.elapsed
        if not self.spent:
            return max(self.total / self.lanes - elapsed, 0.1 * elapsed)
        return elapsed * (self.total / self.spent - 1) if self.spent < self.total else 0.0

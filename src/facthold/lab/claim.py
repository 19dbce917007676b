"""One way to state a claim: where it stands, what it predicts, which cells measure it, and who judges.

Like a figure, a claim names cells and reads rows: what is stored is judged again without computing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from facthold.lab.cells import Cell
from facthold.lab.figure import Values

Verdict = Literal["holds", "fails", "not run"]


@dataclass(frozen=True)
class Judgement:
    """What was predicted, what was measured, and whether they agree."""

    predicted: str
    measured: str
    error: str
    """How sure the measurement is: a standard error, an interval, or 'exact'."""
    holds: bool


@dataclass(frozen=True)
class Claim:
    """A statement that can turn out wrong."""

    id: str
    place: str
    """Where it stands: a theorem, a figure, a slide, or beyond."""
    statement: str
    cells: Callable[[str], list[Cell]]
    """The cells that a preset needs."""
    judge: Callable[[Sequence[Values]], Judgement]

    def report(self, rows: Sequence[Values] | None) -> Mapping[str, Any]:
        """The claim as a line of `facthold verify --json`; without rows it was not run."""
        line = {"id": self.id, "place": self.place, "statement": self.statement}
        if rows is None:
            return line | {"predicted": None, "measured": None, "error": None, "verdict": "not run"}
        verdict = self.judge(rows)
        return line | {
            "predicted": verdict.predicted, "measured": verdict.measured, "error": verdict.error,
            "verdict": "holds" if verdict.holds else "fails",
        }  # fmt: skip

"""One way to state a claim: where it stands, what it predicts, which cells measure it, and who judges their rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from facthold._util.errors import check_one_of
from facthold.lab.cells import Cell
from facthold.lab.figure import PRESETS, Values

Verdict = Literal["holds", "fails", "not run"]


@dataclass(frozen=True)
class Judgement:
    """What was predicted, what was measured, and whether they agree."""

    predicted: str
    measured: str
    error: str  # how sure the measurement is: a standard error, an interval, or 'exact'
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

    def __post_init__(self) -> None:
        """A preset that does not exist is refused for every claim alike."""
        cells = self.cells

        def checked(preset: str) -> list[Cell]:
            check_one_of("preset", preset, PRESETS)
            return cells(preset)

        object.__setattr__(self, "cells", checked)

    def report(self, rows: Sequence[Values] | None) -> "Judged":
        """The verdict on these rows; without rows it was not run."""
        if rows is None:
            return Judged(self.id, self.place, self.statement)
        judgement = self.judge(rows)
        verdict: Verdict = "holds" if judgement.holds else "fails"
        parts = (judgement.predicted, judgement.measured, judgement.error)
        return Judged(self.id, self.place, self.statement, *parts, verdict)


@dataclass(frozen=True)
class Judged:
    """A claim, and what came out: a line of `facthold verify`."""

    id: str
    place: str
    statement: str
    predicted: str | None = None
    measured: str | None = None
    error: str | None = None
    verdict: Verdict = "not run"

    @property
    def holds(self) -> bool:
        return self.verdict == "holds"

    def as_json(self) -> Mapping[str, Any]:
        return dict(vars(self))

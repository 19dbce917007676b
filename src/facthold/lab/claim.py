"""One way to state a claim: where it stands, what it predicts, which cells measure it, and who judges their rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from facthold._util.errors import check_one_of
from facthold.lab.cells import Cell
from facthold.lab.figure import PRESETS, SMOKE, Values

Verdict = Literal["holds", "drifts", "not decided", "fails", "runs", "not run"]
MEANINGS: Mapping[Verdict, str] = {
    "holds": "the interval contains what is stated, and nothing beyond the tolerance that is stated with it",
    "drifts": "holds at these sizes: within the tolerance, but measurably off what is stated, by what is given",
    "not decided": "the interval reaches beyond the tolerance: more seeds or sizes would tell",
    "fails": "the interval excludes what is stated, tolerance and all",
    "runs": "everything ran, which decides nothing: the sizes of preset smoke are too small for a verdict",
    "not run": "some cells are not stored",
}
"""From the best to the worst. A wider interval never turns what fails or is not decided into what holds or drifts."""
Interval = tuple[float, float]
ROUNDING = 1e-9  # of an interval's ends: what is exact is not to drift by its last digit


@dataclass(frozen=True)
class Judgement:
    """What was predicted, what was measured, and how they agree."""

    predicted: str
    measured: str
    error: str  # how sure the measurement is: a standard error, an interval, or 'exact'
    verdict: Verdict | bool  # of what is exact: whether it holds
    drift: str = ""  # how what was measured moves with size
    next: str = ""  # what the next size, or more seeds, would decide

    def __post_init__(self) -> None:
        if not isinstance(self.verdict, str):
            object.__setattr__(self, "verdict", "holds" if self.verdict else "fails")

    @property
    def holds(self) -> bool:
        return self.verdict == "holds"


def near(interval: Interval, stated: float | Interval, tolerance: float) -> Verdict:
    """Of 'it is ``stated``, or in this range, within ``tolerance``', by the interval of what was measured."""
    low, high = interval
    first, last = stated if isinstance(stated, tuple) else (stated, stated)
    if not (low <= last + tolerance and high >= first - tolerance):  # so that a nan fails
        return "fails"
    if low < first - tolerance or high > last + tolerance:
        return "not decided"
    return "holds" if low - ROUNDING <= last and high + ROUNDING >= first else "drifts"


def at_least(interval: Interval, bound: float) -> Verdict:
    """Of 'it is ``bound`` or more'."""
    low, high = interval
    return "holds" if low >= bound else "not decided" if high >= bound else "fails"


def at_most(interval: Interval, bound: float) -> Verdict:
    """Of 'it is ``bound`` or less'."""
    low, high = interval
    return at_least((-high, -low), -bound)


def worst(*verdicts: Verdict | bool) -> Verdict:
    """The verdict on a claim of several parts."""
    words = ["fails" if v is False else "holds" if v is True else v for v in verdicts]
    return max(words, key=list(MEANINGS).index)


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
    changed: str = ""
    """What of its law, its sizes or its tolerances was changed after results had been seen, and why."""
    at_any_size: str = ""
    """Why preset smoke, too, decides it: an identity, a bound, an exact moment. Nothing said: it only runs there."""

    def __post_init__(self) -> None:
        """A preset that does not exist is refused for every claim alike."""
        cells = self.cells

        def checked(preset: str) -> list[Cell]:
            check_one_of("preset", preset, PRESETS)
            return cells(preset)

        object.__setattr__(self, "cells", checked)

    def decided_at(self, preset: str) -> bool:
        """Whether the sizes of a preset can support a verdict."""
        return preset != SMOKE or bool(self.at_any_size)

    def report(self, rows: Sequence[Values] | None, preset: str) -> "Judged":
        """The verdict on these rows of a preset; without rows it was not run."""
        if rows is None:
            return Judged(self.id, self.place, self.statement, self.changed)
        found = vars(self.judge(rows))
        judged = Judged(self.id, self.place, self.statement, self.changed, **found, judgement=found["verdict"])
        return judged if self.decided_at(preset) else replace(judged, verdict="runs")


@dataclass(frozen=True)
class Judged:
    """A claim, and what came out: a line of `facthold verify`."""

    id: str
    place: str
    statement: str
    changed: str = ""
    predicted: str | None = None
    measured: str | None = None
    error: str | None = None
    verdict: Verdict = "not run"
    drift: str = ""
    next: str = ""
    judgement: Verdict = "not run"  # what the rows say by themselves, also where their sizes support no verdict

    @property
    def holds(self) -> bool:
        return self.verdict == "holds"

    def as_json(self) -> Mapping[str, Any]:
        return dict(vars(self))

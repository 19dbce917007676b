"""What several claims share: presets, exponents and the words for them."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from facthold._util.errors import unknown
from facthold.lab.claim import Judgement
from facthold.lab.figure import Values
from facthold.measure.scaling import Fit, fit_exponent
from facthold.theory.bounds import Number

TOLERANCE = 0.12
"""How far a measured exponent may lie from the predicted one."""
CONSTANT_TOLERANCE = 0.25
"""How far a fitted constant may lie from the authors' guide line, as a share of it."""
STANDARD_ERRORS = 4.0
"""How far a measured mean may lie from an exact prediction: beyond it once in 16,000 by chance."""

T = TypeVar("T")
Measure = Callable[[Values], Number]


def at_preset(presets: Mapping[str, T], preset: str) -> T:
    """The grid of a preset; where there is none called 'paper', the quick one serves for it too."""
    if preset == "paper":
        return presets.get("paper", presets["quick"])
    if preset not in presets:
        raise unknown("preset", preset, {*presets, "paper"})
    return presets[preset]


def not_found(rows: Sequence[Values]) -> str | None:
    """Which capacities were not found, in words; None where all were."""
    absent = [f"{r['status']} at d={r['d']}" + (f" m={r['m']}" if r["m"] else "") for r in rows if r["N"] is None]
    return "no capacity: " + ", ".join(absent) if absent else None


def judge_exponent(
    predicted: str, rows: Sequence[Values], x: Measure, y: Measure, more: Callable[[], str] | None = None
) -> Judgement:
    """Does y grow as x: is the slope of log y against log x 1, within `TOLERANCE`? ``more`` is said with it."""
    absent = not_found(rows)
    if absent:
        return Judgement(predicted, absent, "no fit", False)
    fit = fit_exponent(predicted, [x(r) for r in rows], [y(r) for r in rows])
    said = f"exponent {fit.slope:.3f}" + (f"; {more()}" if more else "")
    return Judgement(predicted, said, interval(fit), abs(fit.slope - 1) <= TOLERANCE)


def both(first: Judgement, second: Judgement) -> Judgement:
    """Two parts of one claim: it holds where both do."""
    return Judgement(
        f"{first.predicted}; {second.predicted}",
        f"{first.measured}; {second.measured}",
        f"{first.error}; {second.error}",
        first.holds and second.holds,
    )


def interval(fit: Fit) -> str:
    return f"95% [{fit.interval[0]:.3f}, {fit.interval[1]:.3f}], {fit.n} sizes"


def ends(rows: Sequence[Values], size: Measure, value: Measure) -> tuple[Number, Number]:
    """The value at the smallest and at the largest size."""
    ordered = sorted(rows, key=size)
    return value(ordered[0]), value(ordered[-1])

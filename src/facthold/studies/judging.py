"""What several figures and claims share: presets, fits, and the words for them."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from statistics import NormalDist, fmean
from typing import Any, TypeVar

import numpy as np

from facthold._util.errors import unknown
from facthold.lab import Judgement, Values, Verdict, near, worst
from facthold.lab.claim import Interval
from facthold.measure.capacity import FOUND
from facthold.measure.scaling import Fit, fit_constant, fit_exponent
from facthold.theory.bounds import Number

TOLERANCE = 0.12  # how far a measured exponent may lie from the predicted one
LAW_EXPONENT = 0.05  # the same for a law without free constants: over a decade of sizes it is a drift of 12%
LAW_TOLERANCE = 0.1  # how far what is measured may lie from a law without free constants, as a share of it
CONSTANT_TOLERANCE = 0.25  # how far a fitted constant may lie from the authors' guide line, as a share of it
FRESH = 100  # seeds from here on are for judging alone
CHANCE = 0.05  # how often some mean of a claim lies beyond its interval by chance

T = TypeVar("T")
Measure = Callable[[Values], Number]
by_d: Measure = itemgetter("d")
n_params: Measure = itemgetter("n_params")
capacity: Measure = itemgetter("N")
facts: Measure = itemgetter("facts")


def at_preset(presets: Mapping[str, T], preset: str) -> T:
    """The grid of a preset; where there is none called 'paper', the quick one serves for it too."""
    if preset == "paper":
        return presets.get("paper", presets["quick"])
    if preset not in presets:
        raise unknown("preset", preset, {*presets, "paper"})
    return presets[preset]


def seeds_at(preset: str, n: int, first: int = 0) -> tuple[int, ...]:
    """n seeds; two at preset smoke."""
    return tuple(range(first, first + (2 if preset == "smoke" else n)))


def fresh_seeds(preset: str, n: int) -> tuple[int, ...]:
    """n seeds that took no part where a law, sizes or constants were chosen; smoke, which decides nothing, has two."""
    return seeds_at(preset, n, 0 if preset == "smoke" else FRESH)


def exponent(name: str, x: Sequence[Number], y: Sequence[Number]) -> list[Fit]:
    """The exponent of y against x; nothing where there are fewer than three sizes."""
    return [fit_exponent(name, x, y)] if len(set(x)) > 2 else []


def constant(name: str, x: Sequence[Number], y: Sequence[Number]) -> list[Fit]:
    """The constant of y = constant x; nothing where there are fewer than two points."""
    return [fit_constant(name, x, y)] if len(x) > 1 else []


def columns(rows: Sequence[Values], x: Measure, y: Measure) -> tuple[list[Number], list[Number]]:
    """Two measures of all rows, as fits take them."""
    return [x(r) for r in rows], [y(r) for r in rows]


def grouped(rows: Sequence[Values], name: Callable[[Values], T]) -> dict[T, list[Values]]:
    """The rows by a name of theirs, in the order of the names."""
    return {value: list(group) for value, group in groupby(sorted(rows, key=name), key=name)}  # type: ignore[arg-type]


def not_found(rows: Sequence[Values], name: str = "N", at: Sequence[str] = ("d", "m")) -> str | None:
    """Which capacities, or other sizes by name, were not found, and at which sizes; None where all were."""
    absent = [f"{r['status']} at " + " ".join(f"{x}={r[x]}" for x in at if r[x]) for r in rows if r[name] is None]
    return f"no {'capacity' if name == 'N' else name}: " + ", ".join(absent) if absent else None


def by_seed(rows: Sequence[Values], *, between: bool = False) -> list[Values]:
    """A row for each seed of a search, with its own capacity: a fit over all has an honest interval.

    Over means a fit has a point for each size, and calls what is spread from seed to seed a law that bends. A search
    ends between an N that was stored and one that was not; ``between``: halfway, for laws that take N as a real number.
    """

    def alone(seed: Mapping[str, Any]) -> dict[str, Any]:
        if seed["status"] != FOUND:  # a ceiling is no capacity
            return {"N": None, "status": seed["status"]}
        return {"N": (seed["stored"] + seed["refused"]) / 2 if between else seed["stored"], "status": FOUND}

    return [{**r, "seed": seed["seed"], **alone(seed)} for r in rows for seed in r["per_seed"]]


Mean = tuple[float, float]  # of independent values: the mean and its standard error; a row keeps it as a list


def mean_and_error(values: Sequence[float] | np.ndarray) -> Mean:
    """Of one value alone the error has no bound that is known."""
    if len(values) < 2:
        return float(np.mean(values)), float("inf")
    return float(np.mean(values)), float(np.std(values, ddof=1)) / len(values) ** 0.5


def around(mean: float, error: float, of: int) -> Interval:
    """The interval around one of the ``of`` means of a claim, such that all have theirs right in 95% of all cases."""
    half = error * NormalDist().inv_cdf(1 - CHANCE / (2 * of))
    return mean - half, mean + half


def judge_means(predicted: str, found: Sequence[tuple[str, Mean, float, float]]) -> Judgement:
    """Are these means, each with a name, what exact computations say: stated, within a tolerance?"""
    n = len(found)
    verdicts = [near(around(*measured, n), stated, tolerance) for _, measured, stated, tolerance in found]
    words = [f"{measured[0]:.4g} for {stated:.4g} at {name}" for name, measured, stated, _ in found]
    off = max(abs(mean - stated) / error if error else 0.0 for _, (mean, error), stated, _ in found)
    drift = ", ".join(text for text, verdict in zip(words, verdicts, strict=True) if verdict == "drifts")
    error = f"at most {off:.1f} standard errors off; 95% of all {n} together: {around(0, 1, n)[1]:.1f}"
    then = f"with four times the draws what stays off would be {2 * off:.1f} standard errors off" if drift else ""
    return Judgement(predicted, "; ".join(words), error, worst(*verdicts), drift, then)


def judge_mean(name: str, measured: Mean, stated: float, tolerance: float, of: int) -> Judgement:
    """Is a mean over independent draws, one of several that are judged, what an exact computation says?"""
    mean, error = measured
    low, high = interval = around(mean, error, of)
    verdict = near(interval, stated, tolerance)
    return Judgement(
        f"{name} {stated:.4g} within {tolerance:g}", f"{name} {mean:.4f}", f"[{low:.4f}, {high:.4f}]", verdict,
        f"{name} {mean - stated:+.2g} off" if verdict == "drifts" else "",
    )  # fmt: skip


def judge_exponent(
    predicted: str, rows: Sequence[Values], x: Measure, y: Measure = capacity, tolerance: float = TOLERANCE,
    shared: Callable[[Values], Hashable] | None = None,
) -> Judgement:  # fmt: skip
    """Does y grow as x: is the slope of log y against log x 1, within the tolerance? ``shared``: what rows that are not
    independent of each other have in common."""
    absent = not_found(rows)
    if absent:
        return Judgement(predicted, absent, "no fit", False)
    fit = fit_exponent(predicted, *columns(rows, x, y), shared=_names(rows, shared))
    verdict = near(fit.interval, 1.0, tolerance)
    drift, then = drifting(rows, x, y, fit)
    return Judgement(predicted, f"exponent {fit.slope:.3f}", interval(fit), verdict, drift, then)


def drifting(rows: Sequence[Values], x: Measure, y: Measure, fit: Fit) -> tuple[str, str]:
    """How y / x moves from the smallest size to the largest, as means of their rows; what y is at twice that."""
    low, high = ends(rows, x, x)
    first, last = (fmean(y(r) / x(r) for r in rows if x(r) == end) for end in (low, high))
    law, on = 2 * high * last, 2 * high * last * 2 ** (fit.slope - 1)
    drift = f"measured / law {first:.3g} at {low:.4g} to {last:.3g} at {high:.4g}"
    return drift, f"at {2 * high:.4g}: {law:.4g} by the law, {on:.4g} if the drift goes on"


def judge_law(
    predicted: str, rows: Sequence[Values], law: Measure, tolerance: float = LAW_TOLERANCE, y: Measure = capacity,
    shared: Callable[[Values], Hashable] | None = None,
) -> Judgement:  # fmt: skip
    """Is y what a law without free constants says: does it grow so, and is the constant 1?"""
    grows = judge_exponent(f"{predicted} within {LAW_EXPONENT}", rows, law, y, LAW_EXPONENT, shared)
    return grows if not_found(rows) else all_of(grows, judge_constant(rows, law, y, 1.0, tolerance, shared=shared))


def _names(rows: Sequence[Values], shared: Callable[[Values], Hashable] | None) -> list[Hashable]:
    return [] if shared is None else [shared(r) for r in rows]


def judge_constant(
    rows: Sequence[Values], x: Measure, y: Measure, stated: float, tolerance: float, name: str = "measured / law",
    shared: Callable[[Values], Hashable] | None = None,
) -> Judgement:  # fmt: skip
    """Is y / x the stated constant, within a share of it?"""
    fit = fit_constant(name, *columns(rows, x, y), shared=_names(rows, shared))
    error = f"95% [{fit.interval[0]:.3f}, {fit.interval[1]:.3f}]"
    words = f"{name} = {stated:g} within {tolerance:.0%}"
    verdict, off = near(fit.interval, stated, tolerance * stated), f"{name} {fit.constant / stated - 1:+.1%} off"
    return Judgement(words, f"{name} {fit.constant:.3f}", error, verdict, off if verdict == "drifts" else "")


def also(part: Judgement, measured: str, error: str = "", verdict: Verdict | bool = True) -> Judgement:
    """A judgement with more that was measured; the verdict is the worse one."""
    error = "; ".join(filter(None, (part.error, error)))
    return replace(part, measured=f"{part.measured}; {measured}", error=error, verdict=worst(part.verdict, verdict))


def all_of(*parts: Judgement) -> Judgement:
    """The parts of one claim: its verdict is the worst of theirs."""
    names = ("predicted", "measured", "error", "drift", "next")
    words = {name: "; ".join(filter(None, (getattr(part, name) for part in parts))) for name in names}
    return Judgement(**words, verdict=worst(*(part.verdict for part in parts)))


def interval(fit: Fit) -> str:
    return f"95% [{fit.interval[0]:.3f}, {fit.interval[1]:.3f}], {fit.n} points"


def ends(rows: Sequence[Values], size: Measure, value: Measure) -> tuple[Number, Number]:
    """The value at the smallest and at the largest size."""
    ordered = sorted(rows, key=size)
    return value(ordered[0]), value(ordered[-1])

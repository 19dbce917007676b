"""Scaling laws for models that are too small: corollary 1's exponent, and that nothing is below theorem 7."""

import math
from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter
from statistics import fmean

from facthold.lab import Cell, Claim, Judgement, Values, Verdict, at_least, cells_of, near, worst
from facthold.lab.claim import MEANINGS, Interval
from facthold.measure.scaling import fit_constant, mean_interval
from facthold.recipes import memory_recipe, memory_recipes
from facthold.recipes.base import LINEAR
from facthold.studies.judging import TOLERANCE, all_of, grouped
from facthold.studies.zipf.losses import MemoryLoss, ZipfFacts
from facthold.studies.zipf.zipf import Curve, curves, measured
from facthold.theory.limits import least_loss


def stored_cells(preset: str) -> list[Cell]:
    """Those memories of the figure that store the most frequent associations."""
    return [cell for cell in cells_of("zipf")(preset) if isinstance(cell, MemoryLoss) and cell.recipe.loads]


def bound_cells(preset: str) -> list[Cell]:
    """Those of the figure, but of models that are trained the smallest and the largest alone: they take minutes."""
    cells = cells_of("zipf")(preset)
    trained = [c for c in cells if isinstance(c, ZipfFacts) or (isinstance(c, MemoryLoss) and c.is_trained)]
    kinds = grouped([{"cell": c, "kind": _kind(c)} for c in trained], itemgetter("kind")).values()
    ends = [r["cell"] for rows in kinds for r in sorted(rows, key=lambda r: r["cell"].d)[:: max(1, len(rows) - 1)]]
    return [c for c in cells if c not in trained or c in ends]


def _kind(cell: Cell) -> tuple[float, ...]:
    return (cell.alpha_s, cell.alpha_r, cell.taught) if isinstance(cell, ZipfFacts) else ()


def judge_stored(rows: Sequence[Values]) -> Judgement:
    """Is each exponent, by its interval, that of B = c k (MLPs), or between it and that of B = c k ln k (outer
    products, whose margins are blurred by all that they store), within the tolerance? The paper has O~(B) for both.
    """
    stored = [name for name, recipe in memory_recipes().items() if recipe.loads]
    predicted = (
        "exponent as of B = c k, k stored, for MLPs; between it and B = c k ln k for outer products; "
        f"within {TOLERANCE:g} (alpha - 1)"
    )
    parts = [_exponent(predicted, curve) for curve in curves(rows) if curve.name in stored and curve.has_slope]
    if not parts:
        return Judgement(predicted, "fewer than three sizes", "no fit", False)
    return replace(all_of(*parts), predicted=predicted)


def _exponent(predicted: str, curve: Curve) -> Judgement:
    """One curve. k ~ B^e gives a loss of B^(e (1 - alpha)): an exponent of k that is off by the tolerance moves that
    of the loss by (alpha - 1) times as much, which is what the tolerance is a share of."""
    fit, most = curve.slope, TOLERANCE * abs(curve.law.exponent)
    laws = (False, True) if memory_recipe(curve.name).family == LINEAR else (False,)
    exponents = [curve.expected_slope(logarithm=logarithm).slope for logarithm in laws]
    low, high = min(exponents), max(exponents)
    wasted = [fmean(seed["waste"] for seed in size) for size in grouped(curve.seeds, itemgetter("n_params")).values()]
    expected = " to ".join(f"{exponent:.3f}" for exponent in sorted(exponents))
    measured = f"{curve.name} {curve.law.text}: {fit.slope:.3f} for {expected}"
    drift = f"{curve.name} {curve.law.text}: bits used / least bits {wasted[0]:.3g} to {wasted[-1]:.3g}"
    error = f"[{fit.interval[0]:.3f}, {fit.interval[1]:.3f}]"
    return Judgement(predicted, measured, error, near(fit.interval, (low, high), most), drift)


def judge_bound(rows: Sequence[Values]) -> Judgement:
    """The mean over seeds, at each size and precision, against theorem 7; it is about averages over maps.

    Below the bound with the whole interval the theorem is broken; with a part of it, or with one seed alone, that is
    not decided. (Of hundreds of means some would lie below by chance if they were at the bound. None is near it.)
    """
    predicted = "loss >= theorem 7 at the bits used"
    ratios = []
    for model in (one for row in rows for one in measured(row)):
        for points in zip(*(seed["points"] for seed in model.seeds), strict=True):
            least = least_loss(points[0]["bits"], model.law.outputs, model.law.p)
            ratios += [_over([p["loss"] for p in points], least)] if least > 0 else []  # no loss is below 0
    if not ratios:
        verdict: Verdict = "not decided" if rows else "fails"
        return Judgement(predicted, "nothing was measured where the bound is above 0", "no loss", verdict)
    verdicts = [at_least(interval, 1.0) for _, interval in ratios]
    counts = ", ".join(f"{n} {word}" for word in MEANINGS if (n := verdicts.count(word)))
    return Judgement(
        predicted, f"smallest loss / bound {min(ratios)[0]:.2f}; means over seeds: {counts}",
        f"95% of each by Student; the lowest end is {min(low for _, (low, _) in ratios):.2f} of the bound",
        worst(*verdicts),
    )  # fmt: skip


def _over(losses: Sequence[float], least: float) -> tuple[float, Interval]:
    """The mean loss over the bound, and its interval.

    Losses of few seeds differ by factors, so that the lower end is that of their geometric mean, which is below the
    mean (Jensen). The upper end is the larger of both.
    """
    if len(losses) < 2:
        return losses[0] / least, (0.0, math.inf)
    low, high = fit_constant("loss / bound", [least] * len(losses), losses).interval
    return fmean(losses) / least, (low, max(high, mean_interval(losses)[1] / least))


CLAIMS = (
    Claim(
        "memories-scaling-law", "corollary 1",
        "A memory that stores the k most frequent associations loses as B^(1-alpha), up to the logarithm of O~(B). At "
        "these sizes MLPs have the exponent of B = c k, outer products one between B = c k and B = c k ln k.",
        stored_cells, judge_stored, "That MLPs need no logarithm had been seen before it was stated.",
    ),
    Claim(
        "nothing-below-theorem-7", "theorem 7; beyond: facts with p(s, r)",
        "No memory and no transformer of B bits loses less than theorem 7 allows, on average over maps, for power laws "
        "in x and in (s, r).",
        bound_cells, judge_bound, at_any_size="a bound for every number of bits",
    ),
)  # fmt: skip

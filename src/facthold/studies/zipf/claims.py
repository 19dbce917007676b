"""Scaling laws for models that are too small: corollary 1's exponent, and that nothing is below theorem 7."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from facthold.lab import Cell, Claim, Judgement, Values, cells_of
from facthold.recipes import memory_recipes
from facthold.studies.judging import STANDARD_ERRORS
from facthold.studies.zipf.losses import MemoryLoss
from facthold.studies.zipf.zipf import Curve, curves, measured
from facthold.theory.limits import least_loss


def stored_cells(preset: str) -> list[Cell]:
    """Those memories of the figure that store the most frequent associations."""
    return [cell for cell in cells_of("zipf")(preset) if isinstance(cell, MemoryLoss) and cell.recipe.loads]


def judge_stored(rows: Sequence[Values]) -> Judgement:
    """Is each exponent between that of B = c k and that of B = c k ln k, within its own 95% interval?"""
    stored = [name for name, recipe in memory_recipes().items() if recipe.loads]
    predicted = "between B = c k and B = c k ln k, k stored"
    verdicts = [_exponent(curve) for curve in curves(rows) if curve.name in stored and curve.has_slope]
    if not verdicts:
        return Judgement(predicted, "fewer than three sizes", "no fit", False)
    right = sum(holds for holds, _, _ in verdicts)
    exponents = f"{right} of {len(verdicts)}: " + "; ".join(text for _, text, _ in verdicts)
    error = f"95% half-widths up to {max(half for _, _, half in verdicts):.3f}"
    return Judgement(predicted, exponents, error, right == len(verdicts))


def _exponent(curve: Curve) -> tuple[bool, str, float]:
    """Whether it holds, in words, and half the width of the interval."""
    fit = curve.slope
    low, high = sorted(curve.expected_slope(logarithm=logarithm).slope for logarithm in (False, True))
    half = (fit.interval[1] - fit.interval[0]) / 2
    holds = low - half <= fit.slope <= high + half
    text = f"{curve.name} {curve.law.text}: {fit.slope:.3f} for {low:.3f} to {high:.3f}" + ("" if holds else " (not)")
    return holds, text, half


def judge_bound(rows: Sequence[Values]) -> Judgement:
    """The mean over seeds, at each size and precision, against theorem 7; it is about averages over maps."""
    predicted = "loss >= theorem 7 at the bits used"
    ratios, excess = [], []
    for model in (one for row in rows for one in measured(row)):
        for points in zip(*(seed["points"] for seed in model.seeds), strict=True):
            losses, least = [p["loss"] for p in points], least_loss(points[0]["bits"], model.law.outputs, model.law.p)
            error = stdev(losses) / math.sqrt(len(losses)) if len(losses) > 1 else 0.0
            excess.append(fmean(losses) - least + STANDARD_ERRORS * error)
            ratios += [fmean(losses) / least] if least > 0 else []
    if not excess:
        return Judgement(predicted, "nothing was measured", "no loss", False)
    least_ratio = f"smallest loss / bound {min(ratios):.2f}" if ratios else "the bound is 0 everywhere"
    return Judgement(
        predicted, f"{least_ratio}, {len(excess)} means over seeds",
        f"{STANDARD_ERRORS:g} standard errors of each mean", min(excess) >= 0,
    )  # fmt: skip


CLAIMS = (
    Claim(
        "memories-scaling-law", "corollary 1",
        "A memory that stores the most frequent associations loses as B^(1-alpha), up to the logarithm of O~(B).",
        stored_cells, judge_stored,
    ),
    Claim(
        "nothing-below-theorem-7", "theorem 7; beyond: facts with p(s, r)",
        "No memory and no transformer of B bits loses less than theorem 7 allows, for power laws in x and in (s, r).",
        cells_of("zipf"), judge_bound,
    ),
)  # fmt: skip

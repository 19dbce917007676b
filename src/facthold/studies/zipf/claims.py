"""Scaling laws for models that are too small: corollary 1's exponent, and that nothing is below theorem 7."""

import math
from collections.abc import Iterator, Sequence
from statistics import fmean, stdev

from facthold.lab.cells import Cell
from facthold.lab.claim import Claim, Judgement
from facthold.lab.figure import Values
from facthold.measure.scaling import fit_exponent
from facthold.studies.figures import figure
from facthold.studies.judging import STANDARD_ERRORS
from facthold.studies.zipf.memory_loss import SHARES
from facthold.studies.zipf.zipf import Curve, expected, memory_cells, memory_curves, slope
from facthold.theory.bounds import Number
from facthold.theory.limits import least_loss, power_law
from facthold.theory.limits_zipf import product_law

FIGURE = "zipf"


def stored_cells(preset: str) -> list[Cell]:
    """Those memories of the figure that store the most frequent associations."""
    return [cell for cell in memory_cells(figure(FIGURE).grid(preset)) if cell.spec["method"] in SHARES]


def bound_cells(preset: str) -> list[Cell]:
    """All models of the figure."""
    wanted = figure(FIGURE)
    return wanted.cells(wanted.grid(preset))


def judge_stored(rows: Sequence[Values]) -> Judgement:
    """Is each exponent between that of B = c k and that of B = c k ln k, within its own 95% interval?

    Both are computed at the measured bits and for the true N: a finite tail bends a power law, and is no deviation.
    """
    curves = [c for c in memory_curves(rows) if c.name in SHARES and len(set(c.sizes)) > 2]
    predicted = "between B = c k and B = c k ln k, k stored"
    if not curves:
        return Judgement(predicted, "fewer than three sizes", "no fit", False)
    verdicts = [_exponent(curve) for curve in curves]
    right = sum(holds for holds, _, _ in verdicts)
    said = [text for _, text, _ in verdicts]
    return Judgement(
        predicted, f"{right} of {len(verdicts)}: " + "; ".join(said), f"95% half-widths up to "
        f"{max(half for _, _, half in verdicts):.3f}", right == len(verdicts),
    )  # fmt: skip


def _exponent(curve: Curve) -> tuple[bool, str, float]:
    """Whether it holds, in words, and half the width of the interval."""
    fit = slope(curve)
    low, high = sorted(
        fit_exponent("expected", curve.bits, expected(curve, logarithm)).slope for logarithm in (False, True)
    )
    half = (fit.interval[1] - fit.interval[0]) / 2
    holds = low - half <= fit.slope <= high + half
    text = f"{curve.name} {curve.law}: {fit.slope:.3f} for {low:.3f} to {high:.3f}" + ("" if holds else " (not)")
    return holds, text, half


def judge_bound(rows: Sequence[Values]) -> Judgement:
    """The mean over seeds, at each size and precision, against theorem 7; it is about averages over maps."""
    predicted = "loss >= theorem 7 at the bits used"
    measured = list(_measured(rows))
    if not measured:
        return Judgement(predicted, "nothing was measured", "no loss", False)
    ratios, excess = [], []
    for losses, least in measured:
        error = stdev(losses) / math.sqrt(len(losses)) if len(losses) > 1 else 0.0
        excess.append(fmean(losses) - least + STANDARD_ERRORS * error)
        if least > 0:
            ratios.append(fmean(losses) / least)
    least_ratio = f"smallest loss / bound {min(ratios):.2f}" if ratios else "the bound is 0 everywhere"
    return Judgement(
        predicted, f"{least_ratio}, {len(measured)} means over seeds",
        f"{STANDARD_ERRORS:g} standard errors of each mean", min(excess) >= 0,
    )  # fmt: skip


def _measured(rows: Sequence[Values]) -> Iterator[tuple[list[float], Number]]:
    """Losses over seeds, and the least loss, of each model at each precision."""
    for r in rows:
        if "curves" in r:
            laws = [(c["per_seed"], r["M"], power_law(r["N"], c["alpha"])) for c in r["curves"]]
        else:
            laws = [(r["per_seed"], r["D"], product_law(r["S"], r["R"], r["alpha_s"], r["alpha_r"]))]
        for per_seed, outputs, law in laws:
            sound = [one["points"] for one in per_seed if one["loss"] is not None]
            for points in zip(*sound, strict=True):
                yield [point["loss"] for point in points], least_loss(points[0]["bits"], outputs, law)


CLAIMS = (
    Claim(
        "memories-scaling-law",
        "corollary 1",
        "A memory that stores the most frequent associations loses as B^(1-alpha), up to the logarithm of O~(B).",
        stored_cells,
        judge_stored,
    ),
    Claim(
        "nothing-below-theorem-7",
        "theorem 7; beyond: facts with p(s, r)",
        "No memory and no transformer of B bits loses less than theorem 7 allows, for power laws in x and in (s, r).",
        bound_cells,
        judge_bound,
    ),
)

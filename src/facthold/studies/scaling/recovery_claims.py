"""Muon's recovery law: its exponents, the numbers that theory gives at finite size, what batches limit, and the other
optimisers beside it."""

import math
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

from facthold.lab import Cell, Claim, Judgement, Values, at_least, near, worst
from facthold.lab.claim import Interval
from facthold.measure.scaling import fit_exponent, fit_line, mean_interval
from facthold.studies.judging import LAW_TOLERANCE, TOLERANCE, all_of, at_preset
from facthold.studies.scaling.recovery import (
    MUON,
    PRESETS,
    RESIDUALS,
    SGD,
    SIGN,
    SOFTMAX,
    THRESHOLD,
    WORDS,
    batch_cells,
    by_step,
    law_cells,
    measured,
    other_cells,
    predicted,
    stated,
)  # fmt: skip
from facthold.theory.recovery import exponent

LIMITED = 0.95  # of the items that a batch shows are recalled, as theory has it: there the batch is the limit
FIRST_TIMES, TIMES = 4.0, 2.0  # as many items as SGD or sign descent after one step, and after the last

Fitted = tuple[float, Interval]
Judge = Callable[[Sequence[Values]], Judgement]


def powers(rows: Sequence[Values]) -> list[float]:
    return sorted({r["alpha"] for r in rows}, reverse=True)


def steps_of(rows: Sequence[Values]) -> range:
    return range(1, 1 + max(r["steps"] for r in rows))


def nothing(rows: Sequence[Values]) -> str | None:
    """Where no item at all was recalled after some step: it has no logarithm, and leaving it out would be a choice."""
    where = [f"d={r['d']} seed={r['seed']}" for r in measured(rows) if 0 in r["recalled"]]
    return f"nothing is recalled at {', '.join(where)}" if where else None


def judged(judge: Judge, stated: str) -> Judge:
    """A judge for rows in which something is recalled."""

    def judge_all(rows: Sequence[Values]) -> Judgement:
        words = nothing(rows)
        return Judgement(stated, words, "no fit", False) if words else judge(rows)

    return judge_all


def _words(found: Sequence[Fitted]) -> tuple[str, str]:
    return ", ".join(f"{x:.2f}" for x, _ in found), ", ".join(f"[{low:.2f}, {high:.2f}]" for _, (low, high) in found)


def judge_law(rows: Sequence[Values]) -> Judgement:
    """The bare exponents. Beside them those that theory gives for these sizes and for the largest it was asked for."""
    parts = []
    for alpha in powers(rows):
        laws = [exponent(MUON, alpha, t) for t in steps_of(rows)]
        for residual in RESIDUALS:
            found: list[Fitted] = []
            for t in steps_of(rows):
                points = by_step(rows, t, alpha=alpha, optimiser=MUON, residual=residual)
                fit = fit_exponent(f"t = {t}", *zip(*points, strict=True))
                found.append((fit.slope, fit.interval))
            verdicts = [near(interval, law, TOLERANCE) for (_, interval), law in zip(found, laws, strict=True)]
            values, error = _words(found)
            name = f"{WORDS[MUON, residual]}, alpha = {alpha:g}"
            off = [f"t = {t}" for t, verdict in enumerate(verdicts, 1) if verdict != "holds"]
            parts.append(
                Judgement(
                    f"{name}: d^{', '.join(f'{a:.2f}' for a in laws)} after {', '.join(map(str, steps_of(rows)))} "
                    f"steps, within {TOLERANCE:g}",
                    f"{name}: {values}", error, worst(*verdicts), f"{name}: off at {', '.join(off)}" if off else "",
                )
            )  # fmt: skip
    far = [_far(rows, alpha) for alpha in powers(rows)]
    whole = all_of(*parts)
    return Judgement(
        whole.predicted, whole.measured, whole.error, whole.verdict, whole.drift,
        f"theory at finite size has, over the measured sizes and then beyond them: {'; '.join(far)}",
    )  # fmt: skip


def _far(rows: Sequence[Values], alpha: float) -> str:
    """Exponents of what theory predicts, over the sizes that were measured and from there to the largest."""
    said = sorted((r for r in predicted(rows).values() if r["alpha"] == alpha and not r["batch"]), key=lambda r: r["d"])
    largest = max(r["d"] for r in measured(rows, alpha=alpha))
    words = []
    for t in steps_of(rows):
        inside = [(r["d"], r["muon"][t - 1]) for r in said if r["d"] <= largest]
        first, last = ((r["d"], r["muon"][t - 1]) for r in (next(r for r in said if r["d"] == largest), said[-1]))
        here = fit_exponent("predicted", *zip(*inside, strict=True)).slope
        words.append(f"{here:.2f} then {_slope(first, last):.2f}" if last[0] > first[0] else f"{here:.2f}")
    return f"{', '.join(words)} (alpha = {alpha:g})"


def _slope(first: tuple[int, float], last: tuple[int, float]) -> float:
    return math.log(last[1] / first[1]) / math.log(last[0] / first[0])


def judge_numbers(rows: Sequence[Values]) -> Judgement:
    """Measured over predicted, as a mean over sizes and seeds, and whether it grows: for thresholded gradients after
    each step, and for exact Muon after the first, before which the two are the same but for the mean of all outputs.
    """
    said, parts = predicted(rows), []
    for alpha in powers(rows):
        for residual, steps in ((THRESHOLD, steps_of(rows)), (SOFTMAX, range(1, 2))):
            ours = measured(rows, alpha=alpha, residual=residual, optimiser=MUON, batch=0)
            ratios: list[Fitted] = []
            grows: list[Fitted] = []
            for t in steps:
                ratio = [r["recalled"][t - 1] / said[stated(r)]["muon"][t - 1] for r in ours]
                ratios.append((fmean(ratio), mean_interval(ratio)))
                grows.append(fit_line("measured / predicted", [math.log(r["d"]) for r in ours], ratio))
            verdicts = [near(interval, 1.0, LAW_TOLERANCE) for _, interval in ratios]
            verdicts += [near(interval, 0.0, TOLERANCE) for _, interval in grows]
            (values, error), (slopes, slope_error) = _words(ratios), _words(grows)
            name = f"{WORDS[MUON, residual]}, alpha = {alpha:g}"
            found = f"{name}: {values}, growing by {slopes} with each e-fold of d"
            parts.append(
                Judgement(
                    f"{name}: measured / predicted 1 within {LAW_TOLERANCE:.0%}, growing by 0 with each e-fold of d "
                    f"within {TOLERANCE:g}, after {', '.join(map(str, steps))} steps",
                    found, f"{error}, {slope_error}", worst(*verdicts), found if "drifts" in verdicts else "",
                )
            )  # fmt: skip
    return all_of(*parts)


def judge_batch(rows: Sequence[Values]) -> Judgement:
    """For each power: what is recalled over what theory has at every B; the exponent where the batch is the limit; and
    at the largest batch as many as from all of the data."""
    said, parts = predicted(rows), []
    for alpha in powers(rows):
        ours = measured(rows, alpha=alpha, optimiser=MUON)
        drawn = [r for r in ours if r["batch"]]
        name = f"alpha = {alpha:g}"
        ratio = [r["recalled"][0] / said[stated(r)]["muon"][0] for r in drawn]
        low, high = whole = mean_interval(ratio)
        limited = [r for r in drawn if said[stated(r)]["muon"][0] >= LIMITED * said[stated(r)]["seen"]]
        largest = max(r["batch"] for r in drawn)
        all_there = {r["seed"]: r["recalled"][0] for r in ours if not r["batch"]}
        end = mean_interval([r["recalled"][0] / all_there[r["seed"]] for r in drawn if r["batch"] == largest])
        words = f"{name}: measured / predicted {fmean(ratio):.3f}"
        error = f"95% [{low:.3f}, {high:.3f}]"
        verdict = worst(near(whole, 1.0, LAW_TOLERANCE), near(end, 1.0, LAW_TOLERANCE))
        stays = f"at B = {largest} {fmean(end):.3f} of what all data recall"
        if len({r["batch"] for r in limited}) > 2:
            fit = fit_exponent("in B", [r["batch"] for r in limited], _first(limited))
            verdict = worst(verdict, near(fit.interval, 1 / alpha, TOLERANCE))
            words += f", B^{fit.slope:.3f} up to B = {max(r['batch'] for r in limited)}"
            error += f", exponent [{fit.interval[0]:.3f}, {fit.interval[1]:.3f}]"
        else:
            verdict = worst(verdict, "not decided")
            words += f", fewer than three batches of which {LIMITED:.0%} would be recalled"
        parts.append(
            Judgement(
                f"{name}: as predicted within {LAW_TOLERANCE:.0%}, B^{1 / alpha:.3f} within {TOLERANCE:g} while "
                "nearly all that is seen is recalled, and then as many as from all data",
                f"{words}, {stays}", f"{error}, [{end[0]:.3f}, {end[1]:.3f}]", verdict,
                f"{words}, {stays}" if verdict == "drifts" else "",
            )
        )  # fmt: skip
    return all_of(*parts)


def _first(rows: Sequence[Values]) -> list[float]:
    return [r["recalled"][0] for r in rows]


def judge_others(rows: Sequence[Values]) -> Judgement:
    """Exponents after each step, and how many times as many Muon recalls after the first and after the last."""
    alpha, parts = powers(rows)[0], []
    for name in (SIGN, SGD):
        found: list[Fitted] = []
        for t in steps_of(rows):
            points = by_step(rows, t, alpha=alpha, optimiser=name, residual=SOFTMAX)
            fit = fit_exponent(f"{name} {t}", *zip(*points, strict=True))
            found.append((fit.slope, fit.interval))
        laws = [exponent(name, alpha, t) for t in steps_of(rows)]
        verdicts = [near(interval, law, TOLERANCE) for (_, interval), law in zip(found, laws, strict=True)]
        values, error = _words(found)
        words = WORDS[name, SOFTMAX]
        parts.append(
            Judgement(
                f"{words}: d^{', '.join(f'{a:.2f}' for a in laws)} after {', '.join(map(str, steps_of(rows)))} steps, "
                f"within {TOLERANCE:g}",
                f"{words}: {values}", error, worst(*verdicts),
            )
        )  # fmt: skip
        parts += [_more(rows, name, alpha, t, times) for t, times in ((1, FIRST_TIMES), (steps_of(rows)[-1], TIMES))]
    return all_of(*parts)


def _more(rows: Sequence[Values], name: str, alpha: float, t: int, times: float) -> Judgement:
    at: dict[str, Any] = {"alpha": alpha, "residual": SOFTMAX, "batch": 0}
    d = max(r["d"] for r in measured(rows, optimiser=name, **at))
    one, other = (
        {r["seed"]: r["recalled"][t - 1] for r in measured(rows, optimiser=optimiser, d=d, **at)}
        for optimiser in (MUON, name)
    )
    ratios = [one[seed] / other[seed] for seed in sorted(one.keys() & other.keys())]
    low, high = found = mean_interval(ratios)
    return Judgement(
        f"Muon {times:g} times as many or more after {t} at d = {d}", f"{fmean(ratios):.1f} times",
        f"[{low:.1f}, {high:.1f}]", at_least(found, times),
    )  # fmt: skip


def _cells(make: Any) -> Any:
    return lambda preset: make(at_preset(PRESETS, preset))


def _beside(grid: Any) -> list[Cell]:
    """Other optimisers, and Muon where they are."""
    ours = [c for c in law_cells(grid) if c.spec.get("residual") == SOFTMAX and c.spec["d"] in grid.others_d]
    return [*other_cells(grid), *(c for c in ours if c.spec["alpha"] == grid.alphas[0])]


PLACE = "arXiv 2603.26554"
TUNED = (
    "The length of steps on the whole loss, 2 nats, was chosen after numbers for 1 to 100 nats had been seen on other "
    "seeds: at 4 and more, exact Muon forgets in later steps (docs/muon.md)."
)
CLAIMS = (
    Claim(
        "muon-recovery", PLACE,
        "After t steps on a power law alpha, Muon recalls about d^(2 - (1 - 1/(2 alpha))^t) items: proved for "
        "thresholded gradients, conjectured for exact Muon.",
        _cells(law_cells), judged(judge_law, "items recalled as stated"), TUNED,
    ),
    Claim(
        "muon-numbers", PLACE + ", beyond",
        "The number of items that Muon recalls after each step, at finite size and without a free constant, from the "
        "resolvent of its gradient: for thresholded gradients after every step, for exact Muon after the first.",
        _cells(law_cells), judged(judge_numbers, "items recalled as stated"),
        "At first exact Muon was held against these numbers after later steps too, and seen to be off after the third: "
        "theory leaves out what depends on the length of its steps. A first theory drew all rivals of an item; "
        "independent maxima gave the same to 1%. Seeds were added at d of 48 and below, where "
        "four of them had left alpha = 1.5 not decided.",
    ),
    Claim(
        "muon-batch", PLACE,
        "One step of Muon from a batch of B items recalls nearly all that the batch shows, about B^(1/alpha) items, "
        "until it recalls as many as from all of the data.",
        _cells(batch_cells), judged(judge_batch, "items recalled as stated"),
    ),
    Claim(
        "recovery-of-others", PLACE + ", beyond",
        "One step of SGD or of sign descent recalls about d^(1/alpha) items, far fewer than Muon; after t steps sign "
        "descent d^(2 - 2 (1 - 1/(2 alpha))^t), and SGD with steps of one length still d^(1/alpha).",
        _cells(_beside), judged(judge_others, "items recalled as stated"),
    ),
)  # fmt: skip

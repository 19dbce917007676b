"""Claims on imbalance and small capacity (slides): large steps are right sooner; what more optimisation forgets.

Predictions come from `theory.imbalance` and `theory.plane`; measured are steps of gradient descent on W.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from facthold.lab import Cell, Claim, Judgement, Values, at_least, near
from facthold.measure.scaling import fit_constant, mean_interval, share_interval
from facthold.studies.judging import all_of, at_preset, fresh_seeds
from facthold.studies.scaling.oscillation_cells import PairRuns
from facthold.studies.scaling.oscillation_claims import FINE, PAIRS, PLACE, ROUNDING, SEEDS, drawn, each_pair
from facthold.studies.scaling.oscillations import PRESETS, crowds
from facthold.theory.imbalance import Particles

DRAWS = 2000  # added to the seeds, so that the pairs are others than those of the oscillations
SMALL = (0.25,)  # a step size at which descent is nearly flow
FLOW_WITHIN = 0.05  # of the flow's time
LONG = 20  # steps that the flow predicts: fewer are no test of a time
ALIKE = 0.8  # a correlation from here on is large
MOST = 0.5  # of pairs
FORGOTTEN = 0.01  # less than this probability is not worth a claim


def sooner_cells(preset: str) -> list[Cell]:
    small = preset == "smoke"
    cells: list[Cell] = []
    for seed in fresh_seeds(preset, SEEDS):
        pairs = drawn(seed + DRAWS, at_preset(PAIRS, preset), (0.4, 0.95), (0.75, 0.95))
        cells += [
            PairRuns(**pairs, step_sizes=SMALL, steps=512 if small else 4096),
            PairRuns(**pairs, step_sizes=FINE, steps=128 if small else 512),
        ]
    return cells


def judge_sooner(rows: Sequence[Values]) -> Judgement:
    """Small steps take the flow's time, the largest as many steps as a perceptron; and the step sizes that raise the
    loss are compared with those that do not, each at its best."""
    pairs = list(each_pair(rows))
    if any((r["first_right"] < 0).any() or not r["first_right"].all() for _, r in pairs):
        return Judgement("all is right at some step", "not in all runs", "exact", False)
    times = [
        (law.flow_time, float(r["pace"][0] * (r["first_right"][0] - 0.5)))  # it came between two steps
        for law, r in pairs if len(r["pace"]) == 1 and law.flow_time / r["pace"][0] >= LONG
    ]  # fmt: skip
    many = [(law, r) for law, r in pairs if len(r["pace"]) > 1]
    rising = [(r, int((r["rises"] > 0).argmax())) for _, r in many if (r["rises"] > 0).any() and r["rises"][0] == 0]
    if len(times) < 2 or not many or len(rising) < len(many):
        return Judgement("sooner with large steps", "not all of it was measured", "no interval", False)
    return all_of(_of_flow(times), _of_perceptron(many), *_of_best(rising))


def _of_flow(times: Sequence[tuple[float, float]]) -> Judgement:
    fit = fit_constant("steps / flow", [said for said, _ in times], [seen for _, seen in times])
    verdict = near(fit.interval, 1.0, FLOW_WITHIN)
    return Judgement(
        f"at step size {SMALL[0]:g} time until all is right / that of gradient flow 1 within {FLOW_WITHIN:g}",
        f"measured / flow {fit.constant:.4f}", f"95% [{fit.interval[0]:.4f}, {fit.interval[1]:.4f}], {fit.n} pairs",
        verdict, f"{fit.constant - 1:+.2%} off" if verdict == "drifts" else "",
    )  # fmt: skip


def _of_perceptron(many: Sequence[tuple[Particles, dict[str, Any]]]) -> Judgement:
    """What comes first there also stays."""
    same = sum(
        law.perceptron_steps == r["first_right"][-1] == r["last_wrong"][-1] + 1 for law, r in many
    )  # fmt: skip
    words = f"at step size {FINE[-1]:g} all is right, and stays so, after as many steps as a perceptron takes"
    return Judgement(words, f"the same number in {same} of {len(many)} pairs", "exact", same == len(many))


def _of_best(rising: Sequence[tuple[dict[str, Any], int]]) -> list[Judgement]:
    first = [(r["first_right"][:k], r["first_right"][k:], r["correlation"]) for r, k in rising]
    falls = sum(bool((np.diff(calm) <= 0).all()) for calm, _, _ in first)
    best = np.array([(calm.min(), fast.min(), fast[-1]) for calm, fast, _ in first], float)
    alike = np.array([c >= ALIKE for _, _, c in first])
    n, later = len(first), int((best[:, 1] > best[:, 0]).sum())
    speed = np.log(best[:, 0] / best[:, 1])
    low, high = interval = mean_interval(speed.tolist())
    last = np.log(best[:, 0] / best[:, 2])
    return [
        Judgement(
            "of step sizes that raise no loss a larger one is never later", f"so in {falls} of {n} pairs", "exact",
            falls == n,
        ),
        Judgement(
            "the best one that raises it is never later than the best one that does not, and sooner on average",
            f"later in {later} of {n} pairs, {np.exp(speed.mean()):.2f} times as fast in the geometric mean (the "
            f"largest of all: later in {np.mean(last < 0):.0%}, {np.exp(last.mean()):.2f} times)",
            f"[{np.exp(low):.2f}, {np.exp(high):.2f}]", at_least(interval, 0.0) if not later else False,
        ),
        _of_alike(speed[alike]),
    ]  # fmt: skip


def _of_alike(speed: np.ndarray) -> Judgement:
    words = f"and sooner in most pairs with correlations of {ALIKE:g} or more"
    if not len(speed):
        return Judgement(words, "there are none", "no interval", "not decided")
    low, high = share = share_interval(int((speed > 0).sum()), len(speed))
    found = f"in {np.mean(speed > 0):.0%} of {len(speed)}, {np.exp(speed.mean()):.2f} times as fast"
    return Judgement(words, found, f"[{low:.2f}, {high:.2f}]", at_least(share, MOST))


def forgetting_cells(preset: str) -> list[Cell]:
    return crowds(at_preset(PRESETS, preset))


def judge_forgetting(rows: Sequence[Values]) -> Judgement:
    """Of draws that no w has right: the end of descent is the least cross entropy, and less is right there than the
    best memory has. Of the others: all stays right."""
    parts = []
    for r in rows:
        crowded, at = ~np.array(r["separable"]), f"N={r['N']}:"
        if crowded.sum() > 1:
            parts += _of_crowd(r, crowded, at)
        if (~crowded).any():
            last = np.array(r["masses_best"])[~crowded, -1]
            kept, n = int((last > 1 - ROUNDING).sum()), len(last)
            words = f"{at} kept in {kept} of {n} draws"
            parts.append(Judgement(f"{at} where all can be right it stays so", words, "exact", kept == n))
    return all_of(*parts)


def _of_crowd(r: Values, crowded: np.ndarray, at: str) -> list[Judgement]:
    most, solved = (np.array(r[name], float)[crowded] for name in ("most", "solved"))
    best, zero = (np.array(r[name])[crowded] for name in ("masses_best", "masses_zero"))
    n, ends = int(crowded.sum()), [int((np.abs(m[:, -1] - solved) < ROUNDING).sum()) for m in (best, zero)]
    lost, again = most - best[:, -1], np.array(r["best_zero"])[crowded] - zero[:, -1]
    low, high = interval = mean_interval(lost.tolist())
    share = share_interval(int((again > ROUNDING).sum()), n)
    return [
        Judgement(
            f"{at} descent ends with what is right at the least cross entropy, solved for",
            f"{at} so in {ends[0]} of {n} draws from the best memory, in {ends[1]} from zero", "exact", min(ends) == n,
        ),
        Judgement(
            f"{at} more than {FORGOTTEN:g} of what the best memory has right is forgotten",
            f"{at} {lost.mean():.3f}, from {most.mean():.3f} to {best[:, -1].mean():.3f} (some in "
            f"{np.mean(lost > ROUNDING):.0%} of draws; from zero {np.mean(again > ROUNDING):.0%} lose again what they "
            f"had, the mean going from {zero[:, 1].mean():.3f} after one step to {zero[:, -1].mean():.3f})",
            f"[{low:.3f}, {high:.3f}]; from zero [{share[0]:.2f}, {share[1]:.2f}]", at_least(interval, FORGOTTEN),
        ),
    ]  # fmt: skip


CLAIMS = (
    Claim(
        "large-steps-sooner", PLACE,
        "Two tokens with correlations from 0.4 and a frequency of 3/4 or more: with small steps all is right after the "
        "time of gradient flow, with very large ones after as many steps as a perceptron takes. Some step size that "
        "raises the loss is as soon as every one that does not, and sooner for most pairs that are much alike.",
        sooner_cells, judge_sooner,
        changed="On other draws frequencies began at 1/2: below about 0.7 the largest steps are later than moderate "
        "ones in a fourth of the pairs in conflict. First it was compared with the step size 2 / sharpness alone, "
        "which flattered large steps; and half a step was not taken off. It is judged on fresh draws.",
    ),
    Claim(
        "forgetting", PLACE,
        "N tokens in d = 2 with z mod 2 and frequencies 1/z: where no w has all right, gradient descent ends at the "
        "least cross entropy from any start, and less is right there than the best memory has: the rest is forgotten.",
        forgetting_cells, judge_forgetting,
        changed="On other draws it was seen that from zero the mean over draws does not fall: what is judged is the "
        "start from the best memory, like that of the public code. What is lost from zero is given beside it. That "
        "more than 0.01 is asked for, and not only more than nothing, was set when these draws were known.",
    ),
)  # fmt: skip

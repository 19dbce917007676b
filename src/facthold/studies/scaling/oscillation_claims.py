"""Claims on imbalance (slides): margins grow as ln t, and from which step size on the loss oscillates.

What is predicted comes from `theory.imbalance`, which knows margins and overlaps and no memory; what is measured are
steps of gradient descent on W. Pairs of tokens are drawn, some for each seed, so that none was looked at before.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from facthold.lab import Cell, Claim, Judgement, Values, near
from facthold.measure.scaling import fit_line
from facthold.studies.judging import LAW_EXPONENT, all_of, at_preset, fresh_seeds
from facthold.studies.scaling.oscillation_cells import PACE, OrthogonalMargins, PairRuns, frequencies_of
from facthold.theory.imbalance import Particles, margin_bounds

PLACE = "slides: imbalance and small capacity"
ROUNDING = 1e-9  # of margins, as a share of them
EDGE = 1e-6  # step sizes nearer to a predicted one than this share of it are not asked
ORTHOGONAL = {
    "smoke": (1000, ((4, 4),)), "quick": (100_000, ((2, 2), (4, 4), (8, 3))),
    "paper": (1_000_000, ((2, 2), (4, 4), (8, 3), (16, 16))),
}  # fmt: skip
"""Steps, and (N, M)."""
STEP_SIZES = (0.1, 1.0, 10.0, 100.0)
WAITED = 100  # times the height of the first margin: then growth has begun, and ln t is what is left
CONSTANT = 0.05  # how far a margin may be from ln(a t) then
PAIRS = {"smoke": 6, "quick": 40, "paper": 100}  # of each seed
SEEDS = 5
FINE = tuple(round(2 ** (k / 4), 6) for k in range(4, 57))  # 2 to 16,384: from below every safe step size


def drawn(seed: int, n: int, correlations: tuple[float, float], frequencies: tuple[float, float]) -> dict[str, Any]:
    """n pairs of tokens, uniform in correlation and frequency."""
    u = np.random.Generator(np.random.Philox(key=seed)).random((2, n))
    ends = (correlations, frequencies)
    both = [[round(low + (high - low) * x, 4) for x in row] for row, (low, high) in zip(u.tolist(), ends, strict=True)]
    return {"correlations": tuple(both[0]), "frequencies": tuple(both[1])}


def each_pair(rows: Sequence[Values]) -> Iterator[tuple[Particles, dict[str, Any]]]:
    """Every pair of every row, with its own part of what was measured, by rising step size."""
    names = ("first_right", "last_wrong", "first_rise", "rises")
    for r in rows:
        order = np.argsort(r["step_sizes"])
        pace = PACE * np.array(r["step_sizes"])[order]
        for i, (c, f) in enumerate(zip(r["correlations"], r["frequencies"], strict=True)):
            own = {name: np.array(r[name][i])[order] for name in names}
            yield Particles.pair(c, f), own | {"correlation": c, "pace": pace, "steps": r["steps"]}


def margin_cells(preset: str) -> list[Cell]:
    steps, sizes = at_preset(ORTHOGONAL, preset)
    return [OrthogonalMargins(N=N, M=M, step_sizes=STEP_SIZES, steps=steps) for N, M in sizes]


def judge_margins(rows: Sequence[Values]) -> Judgement:
    """Between the bounds at all steps, tokens and step sizes; where growth has begun, slope and constant of ln t."""
    outside, n, slopes, off = 0, 0, [], []
    for r in rows:
        t, p = np.array(r["times"], float), frequencies_of(r["N"])
        for eta, margins in zip(r["step_sizes"], r["margins"], strict=True):
            for z in range(r["N"]):
                pace, m = eta * float(p[z]) * r["M"], np.array(margins)[:, z]
                low, high = margin_bounds(pace, r["M"], t)
                outside += int((~((m >= low * (1 - ROUNDING)) & (m <= high * (1 + ROUNDING)))).sum())
                n += len(m)
                late = (t >= t[-1] / 10) & (pace * t > WAITED * np.exp(pace / r["M"]))
                if late.sum() > 3:
                    slopes.append(fit_line("margins", np.log(t[late]).tolist(), m[late].tolist())[0])
                    off.append(float(m[-1] - np.log(pace * t[-1])))
    words = "at all steps each margin lies between that of the flow and a bound above it"
    bounds = Judgement(words, f"{outside} of {n} margins lie outside", "exact", outside == 0)
    if not slopes:
        none = Judgement("slope 1 in ln t", "no margin has begun to grow as ln t", "no slope", "not decided")
        return all_of(bounds, none)
    slope = _all_near("slope in ln t", slopes, 1.0, LAW_EXPONENT)
    return all_of(bounds, slope, _all_near("margin - ln(eta p M t)", off, 0.0, CONSTANT))


def _all_near(name: str, values: Sequence[float], stated: float, within: float) -> Judgement:
    """Nothing is drawn, so that all of them have to be near, and their range is the interval."""
    low, high = min(values), max(values)
    verdict, words = near((low, high), stated, within), f"{name} {low:.4f} to {high:.4f}"
    drift = f"{words} for {stated:g}" if verdict == "drifts" else ""
    return Judgement(
        f"{name} {stated:g} within {within:g}", words, f"all {len(values)} that have begun", verdict, drift
    )


def rising_cells(preset: str) -> list[Cell]:
    steps = 64 if preset == "smoke" else 256
    return [
        PairRuns(**drawn(seed, at_preset(PAIRS, preset), (-0.95, 0.97), (0.5, 0.95)), step_sizes=FINE, steps=steps)
        for seed in fresh_seeds(preset, SEEDS)
    ]


QUESTIONS = {
    "safe": "up to step size 2 / (sharpness at the start) no step raises the loss",
    "apart": "with correlations of zero or less no step does, at any step size",
    "first": "the first step does exactly above the step size at which its loss is that of the start",
    "some": "some step does where the recursion of the two margins has one",
}


def judge_rising(rows: Sequence[Values]) -> Judgement:
    """Each question of every run; and where the smallest step size that raises the loss lies, of pairs in conflict."""
    wrong, asked = dict.fromkeys(QUESTIONS, 0), dict.fromkeys(QUESTIONS, 0)
    ratios, between = [], 0
    for law, r in each_pair(rows):
        pace, rose, safe, rising = r["pace"], r["rises"] > 0, law.safe_pace, law.rising_pace
        clear = np.abs(pace / rising - 1) > EDGE
        answers = {
            "safe": (pace <= safe, ~rose), "apart": (np.full(len(pace), r["correlation"] <= 0), ~rose),
            "first": (clear, (r["first_rise"] == 1) == (pace > rising)),
            "some": (clear, rose == law.rises(pace, r["steps"])),
        }  # fmt: skip
        for name, (where, right) in answers.items():
            asked[name] += int(where.sum())
            wrong[name] += int((where & ~right).sum())
        if pace[0] <= safe and rising < pace[-1]:
            k = int(rose.argmax()) if rose.any() else len(pace)
            between += bool(0 < k < len(pace) and pace[k] > safe and pace[k - 1] <= rising)
            ratios += [float(pace[k] / safe)] if k < len(pace) else []
    parts = [
        Judgement(f"{name}: {said}", f"{name}: {wrong[name]} of {asked[name]} runs otherwise", "exact",
                  bool(asked[name]) and not wrong[name])
        for name, said in QUESTIONS.items()
    ]  # fmt: skip
    n = sum(law.rising_pace < r["pace"][-1] and r["pace"][0] <= law.safe_pace for law, r in each_pair(rows))
    middle = f", at {np.median(ratios):.2f} times the lower one in the middle" if ratios else ""
    return all_of(
        *parts,
        Judgement(
            "the smallest step size that raises it lies between the first and the third, where there is a third",
            f"it does for {between} of {n} pairs{middle}", f"step sizes are a factor {FINE[1] / FINE[0]:.2f} apart",
            0 < between == n,
        ),
    )  # fmt: skip


CLAIMS = (
    Claim(
        "logarithmic-margins", PLACE,
        "With orthonormal embeddings margins grow as ln t at any step size: exp(m) + (M - 1) m grows by eta p_z M per "
        "step or a little more, after a first step to eta p_z; large steps only wait until ln t catches up.",
        margin_cells, judge_margins,
    ),
    Claim(
        "oscillations", PLACE,
        "Two tokens with different outputs: no step raises the loss up to the step size 2 / (sharpness at the start), "
        "and the first step does above a larger one, where the embeddings are so alike that it is wrong for the rarer "
        "token. In between the recursion of two margins tells. With correlations of zero or less no step size does.",
        rising_cells, judge_rising,
    ),
)  # fmt: skip

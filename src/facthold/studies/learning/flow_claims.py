"""What gradient flow conserves, and where it goes (appendix D): lemmas 4 to 7, theorems 5 and 6."""

import itertools
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from facthold.dynamics import STARTS
from facthold.lab import Cell, Values
from facthold.studies.judging import at_preset
from facthold.studies.learning.base import ALPHA, Measured, Rows, claimed
from facthold.studies.learning.flows import Comparison, Flow, Sequential

DRIFT = 1e-6  # of what is conserved, as a share of the largest W_KQ^2: 100 times the solver's tolerance
ROUNDING = 1e-9  # slack where two sides are equal at t = 0
DELTA = 1e-3  # the loss of theorem 5
EPSILON = 0.1  # how near to p*(. | r) predictions must come in theorem 6.

TABLES = {  # (table, S, R, D): figure 5's size, and one with more relations than subjects
    "smoke": (("balanced", 4, 2, 2), ("random", 4, 2, 2)),
    "quick": (("balanced", 16, 4, 8), ("random", 16, 4, 8), ("random", 8, 16, 4)),
}
THEOREM_6: dict[str, Any] = {"S": 32, "R": 2, "D": 2, "T": 4, "n_noise": 128}  # S >= 8R sqrt(2D), |N| >= 8R sqrt(2D) T


def _flows(preset: str, starts: Sequence[str] = ("balanced",), t_end: float = 1000.0, **more: Any) -> list[Cell]:
    """Every table of the preset from each of these starts."""
    flow = partial[Any](Flow, T=32, n_noise=20, log_alpha=ALPHA, t_end=t_end, **more)
    tables = at_preset(TABLES, preset)
    return [flow(table=kind, S=S, R=R, D=D, start=start) for kind, S, R, D in tables for start in starts]


def _where(row: Values) -> str:
    return f"{row['start']} start, {row['table']} S={row['S']} R={row['R']} D={row['D']}"


@claimed(
    "flow-conserves", "lemma 4",
    "Gradient flow conserves W_KQ(z)^2 - sum_a W_OV(a, z)^2 for every token; and, beyond the lemma, sum_a W_OV(a, z).",
    lambda preset: _flows(preset, STARTS), f"no drift: below {DRIFT:g} of the largest W_KQ^2",
)  # fmt: skip
def conserved(rows: Rows) -> Measured:
    worst, mean = max(rows, key=lambda r: r["drift"]), max(r["sum_drift"] for r in rows)
    measured = f"{worst['drift']:.1e} at most ({_where(worst)}); the sum of W_OV over a drifts {mean:.1e}"
    return measured, f"float64, {len(rows)} flows", max(worst["drift"], mean) <= DRIFT


@claimed(
    "attention-stays", "corollary 3",
    "W_KQ(z) stays at or above alpha from assumption 2's start. From the all-equal start of figure 5 the proof "
    "says nothing, as W_KQ^2 - sum W_OV^2 is negative; it holds there too, as the mean of W_OV(., z) never moves.",
    lambda preset: _flows(preset, STARTS),
    "W_KQ / alpha >= 1 from the balanced start; also from the all-equal one; not from any start",
)  # fmt: skip
def positive(rows: Rows) -> Measured:
    """The random start shows that the bound can fail."""
    least = {s: min(r["least_ratio"] for r in rows if r["start"] == s) for s in STARTS}
    measured = ", ".join(f"{start} {ratio:.9g}" for start, ratio in least.items())
    holds = min(least["balanced"], least["equal"]) >= 1 - ROUNDING and least["random"] < 1 - ROUNDING
    return f"smallest W_KQ / alpha: {measured}", f"float64, {len(rows)} flows", holds


@claimed(
    "weights-grow-slowly", "lemma 5",
    "W_KQ of subjects stays below exp(2 p(s) t), of noise below exp(2 T t / |N|), times alpha sqrt(|A| + 1).",
    lambda preset: [*_flows(preset), Flow(**THEOREM_6, log_alpha=ALPHA, t_end=1000.0)],
    "log W_KQ never above the bounds",
)  # fmt: skip
def slow(rows: Rows) -> Measured:
    excess = max(max(r["excess"].values()) for r in rows)
    used = ", ".join(f"{kind} {max(r['used'][kind] for r in rows):.3f}" for kind in ("subject", "noise"))
    holds = excess <= ROUNDING
    measured = f"never above them; largest share of the allowed growth: {used}" if holds else f"{excess:.1e} above"
    return measured, f"float64, {len(rows)} flows", holds


@claimed(
    "loss-vanishes", "theorem 5", "Gradient flow from assumption 2's start brings the loss below any delta.",
    lambda preset: _flows(preset, t_end=20_000.0, spacing="log", points=600), f"loss below {DELTA:g}",
)  # fmt: skip
def convergence(rows: Rows) -> Measured:
    losses = "; ".join(f"{r['last_loss']:.1e} ({_where(r)})" for r in rows)
    return f"at t = {rows[0]['t_end']:g}: {losses}", "float64", all(r["last_loss"] < DELTA for r in rows)


def sequential_cells(preset: str) -> list[Cell]:
    """In the smoke preset alpha is found for one table, and the proof's T* left out."""
    cell = partial[Any](Sequential, **THEOREM_6, epsilon=EPSILON)
    return at_preset({"smoke": [cell(proof=False)], "quick": [cell(), cell(table="random", proof=False)]}, preset)


@claimed(
    "sequential-learning", "theorem 6",
    "From a small enough start all predictions come within epsilon of p*(. | r) while subjects and noise are still "
    "below sqrt(alpha) (S = 32, R = 2, D = 2, T = 4, 128 noise tokens).", sequential_cells,
    f"from some alpha down: subjects and noise below sqrt(alpha) up to T*, every prediction within {EPSILON:g}",
)  # fmt: skip
def sequential(rows: Rows) -> Measured:
    """By T* = the first time at which every prediction is near, from some alpha of the ladder on for all smaller ones,
    1e-30 among them; and by the proof's own T* where the flow was followed up to it."""
    measured, holds = [], True
    for r in rows:
        holds &= r["S"] >= r["subjects_wanted"] and r["n_noise"] >= r["noise_wanted"]
        good = list(itertools.takewhile(lambda own: own["time"] is not None and own["above"] <= 0, reversed(r["own"])))
        if not good or good[-1]["log_alpha"] < math.log(1e-30):
            failure = next((o["failure"] for o in r["own"] if o.get("failure")), "not both statements hold")
            return f"{r['table']} table: {failure} at alpha = 1e-30 or below", "none", False
        largest, smallest = good[-1], good[0]
        measured.append(
            f"{r['table']} table: from alpha = exp({largest['log_alpha']:g}) (T* = {largest['time']:.3g}, weights "
            f"exp({largest['above']:.2g}) sqrt(alpha) at most) to exp({smallest['log_alpha']:g}) (T* = "
            f"{smallest['time']:.3g}, exp({smallest['above']:.3g}))"
        )
        if (proof := r["proof"]) is not None:
            measured.append(_by_proof(proof))
            holds &= not proof["failure"] and proof["theorem_time"] is not None and proof["above"] <= 0
    return "; ".join(measured), "float64, logarithmic coordinates", holds


def _by_proof(proof: Values) -> str:
    """What was seen up to the proof's own T*."""
    if proof["failure"]:
        return proof["failure"]
    near = "never near" if proof["theorem_time"] is None else f"near from {proof['theorem_time']:.3g} on"
    return (
        f"by the proof alpha = exp({proof['log_alpha']:.3g}), T* = {proof['T_star']:.3g}, {near}, "
        f"weights exp({proof['above']:.3g}) sqrt(alpha) at most"
    )


@claimed(
    "relations-learnt", "lemma 6",
    "While subjects and noise are small, relations are learnt by the time T* of the lemma's formula.",
    lambda preset: [Sequential(**THEOREM_6, epsilon=EPSILON)],
    "sum_r p(r)^2 ||p*(. | r) - E p-hat||^2 <= eps_min^2 at some t <= T*", lambda rows: rows[0]["proof"]["failure"],
)  # fmt: skip
def relations_learnt(rows: Rows) -> Measured:
    proof = rows[0]["proof"]
    t, T_star = proof["lemma_time"], proof["T_star"]
    when = f"at t = {t:.4g}" if t is not None else "never"
    small = max(proof["above"], proof["EOS_above"])  # the lemma assumes it; for EOS, which it forgets, too
    measured = f"{when}, T* = {T_star:.4g}, eps_min = {proof['eps_min']:g}; all but relations exp({small:.3g}) alpha_sm"
    return measured, "float64", t is not None and t <= T_star and small <= 0


@claimed(
    "comparison", "lemma 7",
    "Solutions of z' <= A z + B z^2 stay below, and of z' >= A z - B z^2 above, the solution of the equation.",
    lambda preset: [Comparison(draws=at_preset({"smoke": 20, "quick": 200}, preset))],
    "log z never beyond its bounds, and on them without slack",
)  # fmt: skip
def comparison(rows: Rows) -> Measured:
    (r,) = rows
    beyond = max(r["upper"], r["lower"])
    measured = f"{beyond:.1e} beyond at most; {r['tight']:.1e} from them without slack"
    # the solver's tolerance is 1e-11 per step; without slack its errors add up over thousands of steps
    return measured, f"float64, {r['draws']} draws", beyond <= 1e-9 and r["tight"] <= 1e-7

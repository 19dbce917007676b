"""The stages of learning (figure 5) and what the reduced equations say of them, judged on the figures' own cells."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from facthold.dynamics.stages import BAND, CONVERGED
from facthold.lab.cells import Cell
from facthold.lab.claim import Claim, Judgement
from facthold.lab.figure import Values
from facthold.studies.figures import figure
from facthold.studies.learning import fig5, stages
from facthold.studies.learning.descents import LossCurve
from facthold.studies.learning.flows import Flow

NEAR_ZERO = 0.05
"""The relation-only loss in the plateau, in nats, as a mean over it; it begins at ln R."""
LEARNT = 0.05
"""The loss of the softmax head at the end: it is still falling, and does not reach `CONVERGED` in these steps."""
WITHIN = 0.15
"""How far a predicted length of the plateau may lie from the measured one."""


def fig5_cells(preset: str) -> list[Cell]:
    return figure("fig5").cells(figure("fig5").grid(preset))


def judge_linear(rows: Sequence[Values]) -> Judgement:
    row, *_ = fig5.panes(rows)
    assert row is not None  # a claim is judged on all of its cells
    start, level, R = row["levels"]["start"], row["levels"]["relation"], row["R"]
    predicted = (
        f"begins at {start:.3f}; rests within {BAND:.0%} of {level:.3f} for twice the fall into it, relation-only loss "
        f"below {NEAR_ZERO:g} there; ends below {CONVERGED:g}"
    )
    found, rest = row["stages"], row["stages"]["relation"]
    if words := _unrested([row]):
        return Judgement(predicted, words, "one seed", False)
    in_rest = _in_rest(row, "relation_loss")
    ratio = found["hallucination"] / rest["drop"]
    steps = [f"{x / row['lr']:.0f}" for x in (found["left"], rest["begins"], rest["ends"])]
    measured = (
        f"begins at {row['first_loss']:.4f}, leaves at step {steps[0]}, rests from {steps[1]} to {steps[2]} "
        f"({ratio:.2f} times the fall), relation-only {in_rest:.4f} (ln R = {math.log(R):.2f}), ends at "
        f"{row['last_loss']:.4f}"
    )
    holds = (
        abs(row["first_loss"] - start) < 1e-4 and ratio >= 2 and in_rest < NEAR_ZERO and row["last_loss"] < CONVERGED
    )
    return Judgement(predicted, measured, f"sampling {row['loss_error']:.1e}; one seed", holds)


def judge_softmax(rows: Sequence[Values]) -> Judgement:
    *_, softmax = fig5.panes(rows)
    level, R = softmax[0]["levels"]["relation"], softmax[0]["R"]
    predicted = (
        f"every seed rests at {level:.3f}, relation-only loss below {NEAR_ZERO:g} there and subject-only within "
        f"{NEAR_ZERO:g} of ln D, and ends below {LEARNT:g}"
    )
    if words := _unrested(softmax):
        return Judgement(predicted, words, "none", False)
    known = [_in_rest(r, "relation_loss") for r in softmax]
    unknown = [_in_rest(r, "subject_loss") for r in softmax]
    ends = [r["last_loss"] for r in softmax]
    rests = ", ".join(f"{r['stages']['hallucination'] / r['lr']:.0f}" for r in softmax)
    measured = (
        f"rests for {rests} steps, relation-only {max(known):.3f} at most (ln R = {math.log(R):.2f}), subject-only "
        f"{min(unknown):.3f} at least; ends at {', '.join(f'{x:.3f}' for x in ends)}"
    )
    holds = max(known) < NEAR_ZERO and min(unknown) > level - NEAR_ZERO and max(ends) < LEARNT
    return Judgement(predicted, measured, f"{len(softmax)} seeds", holds)


def _in_rest(row: Values, name: str) -> float:
    """The mean of a loss over the rest at the relation's level."""
    rest, t = row["stages"]["relation"], np.array(row["curves"]["t"])
    return float(np.array(row["curves"][name])[(t >= rest["begins"]) & (t <= rest["ends"])].mean())


def _unrested(rows: Sequence[Values]) -> str | None:
    """Which curves do not rest at the relation's level and leave it, and why; None where all do."""
    words = [
        f"S={r['S']} R={r['R']} D={r['D']} alpha={math.exp(r['log_alpha']):.0e}: "
        + (r["stages"]["problem"] or "no rest at the level of the relation")
        for r in rows if r["stages"]["hallucination"] is None
    ]  # fmt: skip
    return "; ".join(words) or None


def plateau_cells(preset: str) -> list[Cell]:
    return stages.plateau_cells(figure("stages").grid(preset))


def judge_plateau(rows: Sequence[Values]) -> Judgement:
    predicted = (
        f"when the loss leaves its start, and the length of the plateau, within {WITHIN:.0%}, for balanced tables"
    )
    pairs = stages.pairs(rows)
    if words := _unrested([r for pair in pairs for r in pair]):
        return Judgement(predicted, words, "none", False)
    off = {
        name: [p["stages"][name] / r["stages"][name] - 1 for r, p in pairs] for name in ("left", "hallucination")
    }  # fmt: skip
    lengths = [r["stages"]["hallucination"] for r, _ in pairs]
    measured = (
        f"leaving off by {min(off['left']):+.1%} to {max(off['left']):+.1%}, plateaus of {min(lengths):.0f} to "
        f"{max(lengths):.0f} by {min(off['hallucination']):+.1%} to {max(off['hallucination']):+.1%}"
    )
    settings = len({stages.setting(r) for r, _ in pairs})
    worst = max(abs(x) for values in off.values() for x in values)
    return Judgement(predicted, measured, f"{settings} settings, one seed each", worst <= WITHIN)


def _flow_cells(preset: str, table: str) -> list[Cell]:
    drawn = figure("stages")
    return [c for c in drawn.cells(drawn.grid(preset)) if isinstance(c, Flow) and c.table == table]


def judge_order(rows: Sequence[Values]) -> Judgement:
    """By which kind of token leaves the origin first, and, where the curve rests, by the level at which it does."""
    predicted = "relations first where S^2 (R - 1) > R^2 (D - 1), subjects where it is less, together where it is equal"
    if failure := next((r["failure"] for r in rows if r["failure"]), None):
        return Judgement(predicted, failure, "none", False)
    wrong, rests = [], {"relation": 0, "subject": 0}
    for r in rows:
        rule = np.sign(r["S"] ** 2 * (r["R"] - 1) - r["R"] ** 2 * (r["D"] - 1))
        ahead = r["left"]["subject"] - r["left"]["relation"]
        seen = 0 if abs(ahead) < 1e-6 * r["left"]["relation"] else np.sign(ahead)
        resting = r["stages"]["resting"]
        if resting is not None:
            rests[resting] += 1
        if seen != rule or (resting is not None and rule != (1 if resting == "relation" else -1)):
            wrong.append(f"S={r['S']} R={r['R']}")
    counted = ", ".join(f"{n} rest at the {kind}'s level" for kind, n in rests.items())
    measured = (
        f"{counted}, {len(rows) - sum(rests.values())} at neither; against the rule: {', '.join(wrong) or 'none'}"
    )
    return Judgement(predicted, measured, f"{len(rows)} flows", not wrong and min(rests.values()) > 0)


def judge_marginal(rows: Sequence[Values]) -> Judgement:
    predicted = (
        "EOS leaves the origin before relations where ||p*(.) - p_0|| > p(r) ||p*(. | r) - p_0||: S < R (D - 1), on "
        "average"
    )
    if failure := next((r["failure"] for r in rows if r["failure"]), None):
        return Judgement(predicted, failure, "none", False)
    first, wrong = [], []
    for r in sorted(rows, key=lambda r: r["S"]):
        eos, relation = r["left"]["EOS"], r["left"]["relation"]
        earlier = eos is not None and (relation is None or eos < relation)
        if earlier:
            first.append(str(r["S"]))
        if earlier != (r["rates"]["EOS"] > r["rates"]["relation"]):
            wrong.append(str(r["S"]))
    measured = f"EOS first at S = {', '.join(first) or 'none'} (R (D - 1) = {rows[0]['R'] * (rows[0]['D'] - 1)})"
    said = f"{len(rows)} random tables; against the rule: {', '.join(wrong) or 'none'}"
    return Judgement(predicted, measured, said, not wrong)


def adam_cells(preset: str) -> list[Cell]:
    """Figure 5's table and start, by steps of three lengths."""
    drawn = figure("fig5").grid(preset)
    at: dict[str, Any] = {"S": drawn.S, "R": drawn.R, "D": drawn.D, "T": drawn.T, "n_noise": drawn.n_noise}
    curve = partial(LossCurve, **at, log_alpha=math.log(drawn.alpha), optimiser="adam", noise="even", batch=0)
    return [curve(lr=lr, steps=drawn.steps // 2) for lr in ((1e-2,) if preset == "smoke" else (1e-3, 3e-3, 1e-2))]


def judge_adam(rows: Sequence[Values]) -> Judgement:
    predicted = f"no rest at the level of the relation, and a loss below {CONVERGED:g} at the end"
    rests = [r["stages"]["resting"] or "neither" for r in rows]
    ends = ", ".join(f"{r['last_loss']:.1e}" for r in rows)
    measured = f"rests at {', '.join(rests)}; ends at {ends}"
    holds = all(r["stages"]["resting"] is None and r["last_loss"] < CONVERGED for r in rows)
    return Judgement(predicted, measured, f"step lengths {', '.join(str(r['lr']) for r in rows)}", holds)


CLAIMS = (
    Claim(
        "hallucination",
        "figure 5, left",
        "Linear attention first predicts every answer alike, then by the relation alone, then the fact.",
        fig5_cells,
        judge_linear,
    ),
    Claim(
        "hallucination-softmax",
        "figure 5, right",
        "A softmax head with random embeddings hallucinates by the relation before it learns the facts.",
        fig5_cells,
        judge_softmax,
    ),
    Claim(
        "plateau-length",
        "beyond",
        "The reduced equations, with no free constant, give when gradient descent leaves its start and how long it "
        "hallucinates.",
        plateau_cells,
        judge_plateau,
    ),
    Claim(
        "what-comes-first",
        "beyond: section 5, remarks",
        "Without S >> R: relations are learnt first as long as S^2 (R - 1) > R^2 (D - 1), else subjects.",
        lambda preset: _flow_cells(preset, "balanced"),
        judge_order,
    ),
    Claim(
        "marginal-first",
        "beyond: lemmas 5 and 6",
        "In tables with unequal answer counts EOS learns p*(a), which no bound of the proofs covers; for S below "
        "about R (D - 1) it does so before relations are learnt.",
        lambda preset: _flow_cells(preset, "random"),
        judge_marginal,
    ),
    Claim(
        "adam-learns-both",
        "beyond",
        "Adam on linear attention learns relations and subjects together: it does not hallucinate (figure 5's table "
        "and start, population loss).",
        adam_cells,
        judge_adam,
    ),
)  # fmt: skip

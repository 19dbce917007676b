"""The stages of learning (figure 5) and what the reduced equations say of them, judged on the figures' own cells."""

import math
from collections import Counter
from typing import Any

import numpy as np

from facthold.dynamics.stages import BAND, CONVERGED
from facthold.lab import Cell, Claim, Judgement, cells_of
from facthold.studies.learning import fig5, stages
from facthold.studies.learning.base import (
    LossCurve,
    Measured,
    Rows,
    claimed,
    in_plateau,
    pairs,
    panes,
    setting,
    without_plateau,
)

NEAR_ZERO = 0.05  # the relation-only loss in the plateau, in nats, as a mean over it; it begins at ln R
LEARNT = 0.05  # the loss at which the softmax head ends: it is still falling, and does not reach `CONVERGED`
WITHIN = 0.15  # how far a predicted length of the plateau may lie from the measured one


def judge_linear(rows: Rows) -> Judgement:
    row, *_ = panes(rows)
    assert row is not None  # a claim is judged on all of its cells
    start, level = row["levels"]["start"], row["levels"]["relation"]
    predicted = (
        f"begins at {start:.3f}; rests within {BAND:.0%} of {level:.3f} for twice the fall into it, relation-only loss "
        f"below {NEAR_ZERO:g} there; ends below {CONVERGED:g}"
    )
    if words := without_plateau([row]):
        return Judgement(predicted, words, "one seed", False)
    times, rest = row["stages"], row["stages"]["relation"]
    known, ratio = in_plateau(row, "relation_loss"), times["hallucination"] / rest["drop"]
    left, begins, ends = (f"{x / row['lr']:.0f}" for x in (times["left"], rest["begins"], rest["ends"]))
    measured = (
        f"begins at {row['first_loss']:.4f}, leaves at step {left}, rests from {begins} to {ends} ({ratio:.2f} times "
        f"the fall), relation-only {known:.4f} (ln R = {math.log(row['R']):.2f}), ends at {row['last_loss']:.4f}"
    )
    near = abs(row["first_loss"] - start) < 1e-4 and known < NEAR_ZERO and row["last_loss"] < CONVERGED
    return Judgement(predicted, measured, f"sampling {row['loss_error']:.1e}; one seed", near and ratio >= 2)


def judge_softmax(rows: Rows) -> Judgement:
    *_, softmax = panes(rows)
    level, R = softmax[0]["levels"]["relation"], softmax[0]["R"]
    predicted = (
        f"every seed rests at {level:.3f}, relation-only loss below {NEAR_ZERO:g} there and subject-only within "
        f"{NEAR_ZERO:g} of ln D, and ends below {LEARNT:g}"
    )
    if words := without_plateau(softmax):
        return Judgement(predicted, words, "none", False)
    known = max(in_plateau(r, "relation_loss") for r in softmax)
    unknown = min(in_plateau(r, "subject_loss") for r in softmax)
    ends = [r["last_loss"] for r in softmax]
    rests = ", ".join(f"{r['stages']['hallucination'] / r['lr']:.0f}" for r in softmax)
    measured = (
        f"rests for {rests} steps, relation-only {known:.3f} at most (ln R = {math.log(R):.2f}), subject-only "
        f"{unknown:.3f} at least; ends at {', '.join(f'{x:.3f}' for x in ends)}"
    )
    holds = known < NEAR_ZERO and unknown > level - NEAR_ZERO and max(ends) < LEARNT
    return Judgement(predicted, measured, f"{len(softmax)} seeds", holds)


HALLUCINATION = (
    Claim(
        "hallucination", "figure 5, left",
        "Linear attention first predicts all answers with equal probability, then by the relation alone, then the "
        "fact.",
        cells_of("fig5"), judge_linear,
    ),
    Claim(
        "hallucination-softmax", "figure 5, right",
        "A softmax head with random embeddings hallucinates by the relation before it learns the facts.",
        cells_of("fig5"), judge_softmax,
    ),
)  # fmt: skip


@claimed(
    "plateau-length", "beyond",
    "The reduced equations, with no free constant, predict when gradient descent leaves its start and how long it "
    "hallucinates.",
    lambda preset: stages.plateau_cells(stages.FIGURE.grid(preset)),
    f"when the loss leaves its start, and the length of the plateau, within {WITHIN:.0%}, for balanced tables",
    lambda rows: without_plateau([r for pair in pairs(rows) for r in pair]),
)  # fmt: skip
def plateau_length(rows: Rows) -> Measured:
    both = pairs(rows)
    off = {name: [p["stages"][name] / r["stages"][name] - 1 for r, p in both] for name in ("left", "hallucination")}
    left, length = (f"{min(errors):+.1%} to {max(errors):+.1%}" for errors in off.values())
    lengths = [r["stages"]["hallucination"] for r, _ in both]
    measured = f"leaving off by {left}, plateaus of {min(lengths):.0f} to {max(lengths):.0f} by {length}"
    settings = len({setting(r) for r, _ in both})
    worst = max(abs(x) for errors in off.values() for x in errors)
    return measured, f"{settings} settings, one seed each", worst <= WITHIN


@claimed(
    "what-comes-first", "beyond: section 5, remarks",
    "Without S >> R: relations are learnt first as long as S^2 (R - 1) > R^2 (D - 1), else subjects.",
    lambda preset: stages.order_cells(stages.FIGURE.grid(preset)),
    "relations first where S^2 (R - 1) > R^2 (D - 1), subjects where it is less, together where it is equal",
)  # fmt: skip
def order(rows: Rows) -> Measured:
    """By which kind of token leaves the origin first, and, where the curve rests, by the level at which it does."""
    wrong, rests = [], Counter(r["stages"]["resting"] for r in rows)
    for r in rows:
        rule = np.sign(r["S"] ** 2 * (r["R"] - 1) - r["R"] ** 2 * (r["D"] - 1))
        ahead = r["left"]["subject"] - r["left"]["relation"]
        seen = 0 if abs(ahead) < 1e-6 * r["left"]["relation"] else np.sign(ahead)
        rests_as = {"relation": 1, "subject": -1}.get(r["stages"]["resting"], rule)
        if seen != rule or rests_as != rule:
            wrong.append(f"S={r['S']} R={r['R']}")
    counted = ", ".join(f"{rests[kind]} rest at the {kind}'s level" for kind in ("relation", "subject"))
    measured = f"{counted}, {rests[None]} at neither; against the rule: {', '.join(wrong) or 'none'}"
    return measured, f"{len(rows)} flows", not wrong and min(rests["relation"], rests["subject"]) > 0


@claimed(
    "marginal-first", "beyond: lemmas 5 and 6",
    "In tables with unequal answer counts EOS learns p*(a), which no bound of the proofs covers; for S below about "
    "R (D - 1) it does so before relations are learnt.",
    lambda preset: stages.marginal_cells(stages.FIGURE.grid(preset)),
    "EOS leaves the origin before relations where ||p*(.) - p_0|| > p(r) ||p*(. | r) - p_0||: S < R (D - 1), on "
    "average",
)  # fmt: skip
def marginal(rows: Rows) -> Measured:
    first, wrong = [], []
    for r in sorted(rows, key=lambda r: r["S"]):
        eos, relation = r["left"]["EOS"], r["left"]["relation"]
        earlier = eos is not None and (relation is None or eos < relation)
        if earlier:
            first.append(str(r["S"]))
        if earlier != (r["rates"]["EOS"] > r["rates"]["relation"]):
            wrong.append(str(r["S"]))
    measured = f"EOS first at S = {', '.join(first) or 'none'} (R (D - 1) = {rows[0]['R'] * (rows[0]['D'] - 1)})"
    tables = f"{len(rows)} random tables; against the rule: {', '.join(wrong) or 'none'}"
    return measured, tables, not wrong


def adam_cells(preset: str) -> list[Cell]:
    """Figure 5's table and start, at three learning rates."""
    grid = fig5.FIGURE.grid(preset)
    adam: dict[str, Any] = {"optimiser": "adam", "noise": "even", "batch": 0, "steps": grid.steps // 2, "d": 0}
    rates = (1e-2,) if preset == "smoke" else (1e-3, 3e-3, 1e-2)
    return [LossCurve.of(grid, log_alpha=math.log(grid.alpha), lr=lr, **adam) for lr in rates]


@claimed(
    "adam-learns-both", "beyond",
    "Adam on linear attention learns relations and subjects together: it does not hallucinate (figure 5's table "
    "and start, population loss).",
    adam_cells, f"no rest at the level of the relation, and a loss below {CONVERGED:g} at the end",
)  # fmt: skip
def adam(rows: Rows) -> Measured:
    rests = ", ".join(r["stages"]["resting"] or "neither" for r in rows)
    ends = ", ".join(f"{r['last_loss']:.1e}" for r in rows)
    holds = all(r["stages"]["resting"] is None and r["last_loss"] < CONVERGED for r in rows)
    rates = ", ".join(str(r["lr"]) for r in rows)
    return f"rests at {rests}; ends at {ends}", f"learning rates {rates}", holds

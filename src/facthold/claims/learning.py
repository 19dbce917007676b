"""The stages of learning (figure 5) and what the reduced equations say of them, judged on the figures' own cells."""

import math
from collections.abc import Sequence

import numpy as np

from facthold.cells import Cell
from facthold.claims.base import Claim, Judgement
from facthold.dynamics.stages import BAND, CONVERGED
from facthold.experiments.flows import Flow
from facthold.figures import fig5, figure, stages
from facthold.figures.base import Values

NEAR_ZERO = 0.05
"""The relation-only loss in the plateau, in nats, as a mean over it; it begins at ln R."""
WITHIN = 0.15
"""How far a predicted length of the plateau may lie from the measured one."""


def fig5_cells(preset: str) -> list[Cell]:
    return figure("fig5").cells(figure("fig5").grid(preset))


def judge_linear(rows: Sequence[Values]) -> Judgement:
    row, *_ = fig5.panes(rows)
    start, level, R = row["levels"]["start"], row["levels"]["relation"], row["R"]
    predicted = (
        f"begins at {start:.3f}; rests within {BAND:.0%} of {level:.3f} for twice the fall into it, relation-only loss "
        f"below {NEAR_ZERO:g} there; ends below {CONVERGED:g}"
    )
    found, rest = row["stages"], row["stages"]["relation"]
    if found["problem"] or found["hallucination"] is None:
        return Judgement(predicted, found["problem"] or "no rest at the relation's level", "one seed", False)
    t, only = np.array(row["curves"]["t"]), np.array(row["curves"]["relation_loss"])
    in_rest = float(only[(t >= rest["begins"]) & (t <= rest["ends"])].mean())
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
    predicted = "every seed rests at the relation's level, and leaves it"
    said = [
        f"{r['stages']['hallucination'] / r['lr']:.0f} steps" if r["stages"]["hallucination"] else "no rest"
        for r in softmax
    ]
    measured = f"rests for {', '.join(said)}; ends at " + ", ".join(f"{r['last_loss']:.3f}" for r in softmax)
    holds = all(r["stages"]["hallucination"] and r["last_loss"] < r["levels"]["relation"] / 2 for r in softmax)
    return Judgement(predicted, measured, f"{len(softmax)} seeds", holds)


def plateau_cells(preset: str) -> list[Cell]:
    return stages.plateau_cells(figure("stages").grid(preset))


def judge_plateau(rows: Sequence[Values]) -> Judgement:
    predicted = f"the length of the plateau within {WITHIN:.0%}, for balanced tables"
    pairs = stages.pairs(rows)
    absent = [
        f"S={r['S']} R={r['R']} D={r['D']}"
        for r, p in pairs
        if not (r["stages"]["hallucination"] and p["stages"]["hallucination"])
    ]
    if absent:
        return Judgement(predicted, "no rest at " + ", ".join(absent), "none", False)
    off = [p["stages"]["hallucination"] / r["stages"]["hallucination"] - 1 for r, p in pairs]
    lengths = [r["stages"]["hallucination"] for r, _ in pairs]
    settings = len({stages.setting(r) for r, _ in pairs})
    measured = f"off by {min(off):+.1%} to {max(off):+.1%}; plateaus of {min(lengths):.0f} to {max(lengths):.0f}"
    return Judgement(predicted, measured, f"{settings} settings, one seed each", max(map(abs, off)) <= WITHIN)


def order_cells(preset: str) -> list[Cell]:
    drawn = figure("stages")
    return [c for c in drawn.cells(drawn.grid(preset)) if isinstance(c, Flow) and c.table == "balanced"]


def judge_order(rows: Sequence[Values]) -> Judgement:
    """Where the curve rests at a level, it must be that of the kind with the larger rate."""
    predicted = "relations first where S^2 (R - 1) > R^2 (D - 1), subjects first where it is less"
    wrong, rests = [], {"relation": 0, "subject": 0}
    for r in rows:
        resting = r["stages"]["resting"]
        if resting is None:
            continue
        rests[resting] += 1
        first = r["S"] ** 2 * (r["R"] - 1) - r["R"] ** 2 * (r["D"] - 1)
        if (first > 0) != (resting == "relation"):
            wrong.append(f"S={r['S']} R={r['R']}")
    counted = ", ".join(f"{n} rest at the {kind}'s level" for kind, n in rests.items())
    measured = (
        f"{counted}, {len(rows) - sum(rests.values())} at neither; against the rule: {', '.join(wrong) or 'none'}"
    )
    return Judgement(predicted, measured, f"{len(rows)} flows", not wrong and min(rests.values()) > 0)


def marginal_cells(preset: str) -> list[Cell]:
    drawn = figure("stages")
    return [c for c in drawn.cells(drawn.grid(preset)) if isinstance(c, Flow) and c.table == "random"]


def judge_marginal(rows: Sequence[Values]) -> Judgement:
    predicted = "EOS leaves the origin before relations where ||p*(.) - p_0|| > p(r) ||p*(. | r) - p_0||, about S < R D"
    first, wrong = [], []
    for r in sorted(rows, key=lambda r: r["S"]):
        eos, relation = r["left"]["EOS"], r["left"]["relation"]
        earlier = eos is not None and (relation is None or eos < relation)
        if earlier:
            first.append(str(r["S"]))
        if earlier != (r["rates"]["EOS"] > r["rates"]["relation"]):
            wrong.append(str(r["S"]))
    measured = f"EOS first at S = {', '.join(first) or 'none'} (R D = {rows[0]['R'] * rows[0]['D']})"
    return Judgement(
        predicted, measured, f"{len(rows)} random tables; against the rule: {', '.join(wrong) or 'none'}", not wrong
    )


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
        "The reduced equations, with no free constant, give how long gradient descent hallucinates.",
        plateau_cells,
        judge_plateau,
    ),
    Claim(
        "what-comes-first",
        "beyond: section 5, remarks",
        "Without S >> R: relations are learnt first as long as S^2 (R - 1) > R^2 (D - 1), else subjects.",
        order_cells,
        judge_order,
    ),
    Claim(
        "marginal-first",
        "beyond: lemmas 5 and 6",
        "In tables with unequal answer counts EOS learns p*(a), which no bound of the proofs covers; for S below about "
        "R D it does so before relations are learnt.",
        marginal_cells,
        judge_marginal,
    ),
)  # fmt: skip

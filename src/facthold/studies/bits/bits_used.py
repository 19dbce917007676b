"""What the cells on bits share: the fewest bits of one model at each goal, beside the fewest that any model needs."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from facthold.measure.quantise import LADDER, Model, Recall, judged_bits

GOALS = (0.99, 1.0)
ALL, WRITTEN = "all", "written"
"""Counts: every weight, or only those that depend on the facts; see `measure.quantise`."""


def bits_used(
    model: Model, recall: Recall, facts: int, bound: Callable[[int], float], *, fixed: Collection[str] = (),
    goals: Sequence[float] = GOALS, ladder: Sequence[int] = LADDER,
) -> tuple[list[dict[str, Any]], int]:  # fmt: skip
    """One row for each goal that some grid reaches, and each count; and how many models on grids were asked.

    ``bound(wrong)`` are the bits that no model does without that gets all but ``wrong`` of the ``facts`` right. Where
    no weight is fixed both counts are the same, and there is one row.
    """
    rows: list[dict[str, Any]] = []
    tried = 0
    for count, left_out in ((ALL, ()), (WRITTEN, tuple(fixed))):
        if count == WRITTEN and not left_out:
            continue
        for goal in goals:
            found = judged_bits(model, recall, goal, fixed=left_out, ladder=ladder)
            tried += found.tried
            q = found.quantised
            if q is not None:
                measured = bits_row(goal, q.bits, found.recall, facts, bound, q.n_weights)
                levels = {name: grid.levels for name, grid in q.grids.items()}
                scales = next(iter(q.grids.values())).scales
                rows.append(measured | {"count": count, "scales": scales, "levels": levels, "scale_bits": q.scale_bits})
    return rows, tried


def bits_row(
    goal: float, bits: float, recall: float, facts: int, bound: Callable[[int], float], n_weights: int
) -> dict[str, Any]:
    """What figures and accounts read of one model with so many bits."""
    least = bound(round((1 - recall) * facts))
    return {
        "goal": goal, "count": ALL, "bits": bits, "recall": recall, "bound": least, "efficiency": least / bits,
        "bits_per_fact": bits / facts, "bits_per_weight": bits / n_weights, "bound_per_weight": least / n_weights,
        "n_weights": n_weights,
    }  # fmt: skip


def summarised(points: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The best row of all points for each goal and count, and how many models were made or asked to find it."""
    rows = [row | {key: point[key] for key in ("facts", "seed")} for point in points for row in point["used"]]
    best: dict[tuple[float, str], dict[str, Any]] = {}
    for row in rows:
        key = (row["goal"], row["count"])
        if key not in best or row["efficiency"] > best[key]["efficiency"]:
            best[key] = row
    return {"best": list(best.values()), "tried": sum(point["tried"] for point in points), "points": list(points)}

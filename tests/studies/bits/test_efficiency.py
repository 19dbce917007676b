"""The figures efficiency and moves, and the claim, on made-up rows."""

from collections.abc import Sequence
from typing import Any

import pytest

from facthold.lab.registry import cells_of, claim, figure
from facthold.recipes import memory_recipes
from facthold.studies.bits.efficiency import PLAIN, ranking
from facthold.studies.bits.memory_bits import ALL, best, of_seeds, peak


def test_the_figure_covers_five_recipes_at_three_sizes_each() -> None:
    cells = cells_of("efficiency")("quick")
    sizes: dict[Any, set[Any]] = {}
    for cell in cells:
        spec = cell.spec
        name = (spec.get("method") or spec.get("model"), spec.get("levels"), spec.get("reading"))
        sizes.setdefault(name, set()).add((spec["d"], spec.get("m"), spec.get("S")))
    assert sum(len(measured) >= 3 for measured in sizes.values()) >= 5
    methods = {name for name, *_ in sizes}
    left_out = {"train:mlp-code", "separated", *(name for name, recipe in memory_recipes().items() if recipe.weighted)}
    assert set(memory_recipes()) - left_out <= methods


def found(seeds: dict[int, list[tuple[int, float]]], goal: float = 0.99, weights: int = 1000) -> list[dict[str, Any]]:
    """Points of a result: (facts, efficiency) of the models of each seed; an efficiency of 0 is a failure."""
    return [
        {"seed": seed, "facts": facts, "used": [
            {"goal": goal, "count": ALL, "efficiency": e, "bound": e * weights, "bound_per_weight": e,
             "bits_per_weight": 1.0, "n_weights": weights, "bits": float(weights)}] if e else []}
        for seed, models in seeds.items() for facts, e in models
    ]  # fmt: skip


def memory(method: str, efficiency: float, reading: str = "argmax", **more: Any) -> dict[str, Any]:
    """A row of one seed, whose search went on beyond its best model."""
    points = found({0: [(20, efficiency), (30, 0.0)]})
    return {
        "kind": "memory-bits",
        "method": method,
        "reading": reading,
        "d": 8,
        "loads": [1.0],
        "points": points,
        **more,
    }


def test_ranking_reads_the_best_points() -> None:
    rows = [memory("quantised", 0.01), memory("one-bit", 0.6), memory("one-bit", 0.5), memory("ridge-readout", 0.0)]
    assert ranking(rows) == [("one-bit", 0.6, 2), (PLAIN, 0.01, 1)]
    assert best(rows[3]) is None
    *_, times, most = figure("efficiency").says(rows)
    assert "60 times" in times
    assert most.endswith("at their best efficiency: 0.60, one-bit, d=8")
    assert figure("efficiency").says([]) == []


def test_the_middle_seed_counts_and_no_ceiling_does() -> None:
    row = memory("one-bit", 0.5)
    three = found({0: [(10, 0.4), (20, 0.0)], 1: [(10, 0.6), (20, 0.0)], 2: [(10, 0.5), (20, 0.0)]})
    assert best(row | {"points": three})["efficiency"] == 0.5  # type: ignore[index]
    at_end = found({0: [(10, 0.4), (20, 0.5)], 1: [(10, 0.6), (20, 0.0)]})
    assert [p and p["efficiency"] for p in of_seeds(row | {"points": at_end})] == [None, 0.6]
    assert best(row | {"points": at_end}) is None  # half of the seeds have none


def test_a_search_finds_the_largest_value_wherever_it_starts() -> None:
    def hill(N: int) -> float:
        return N / 100 if N <= 137 else 0.0

    for start in ((100, 120), (130, 140), (200, 300), (20,), (137,)):
        values = peak(hill, start, 0.01, most=1000)
        assert max(values, key=lambda N: values[N]) >= 136
        assert max(values) > 137  # something above it was refused
    smooth = peak(lambda N: 1 / (1 + (N / 60 - 1) ** 2), (10, 20), 0.02, most=1000)
    assert abs(max(smooth, key=lambda N: smooth[N]) - 60) <= 1


def test_a_search_ends_at_its_bounds() -> None:
    assert max(peak(lambda N: float(N), (10,), 0.01, most=50)) == 50
    assert min(peak(lambda N: 0.0, (10,), 0.01, most=50)) == 2
    assert min(peak(lambda N: 1.0 / N, (10,), 0.01, most=50)) == 2


def claim_rows(
    ours: Sequence[float] = (0.655, 0.66, 0.665), plain: float = 0.011, N: int = 168, outer: int = 1512, above: int = 9
) -> list[dict[str, Any]]:
    """Rows of d = 256: of the one-bit memory with these bits per weight, and of the outer product."""

    def row(method: str, reading: str, efficiencies: Sequence[float], facts: int) -> dict[str, Any]:
        points = found({seed: [(facts, e), (facts + above, 0.0)] for seed, e in enumerate(efficiencies)})
        return memory(method, 1.0, reading, d=256, points=points)

    share = [plain * f for f in (0.98, 1.0, 1.02)]
    return [
        row("one-bit", "signs", ours, N), row("quantised", "argmax", share, outer),
        row("outer-product", "argmax", [0.1] * 3, 1000), row("outer-product", "signs", [0.05] * 3, 20),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "holds"),
        ({"ours": (0.55, 0.555, 0.56)}, "fails"),  # fewer bits than stated
        ({"ours": (0.84, 0.845, 0.85)}, "fails"),  # more than a binary perceptron can hold
        ({"ours": (0.6, 0.66, 0.72)}, "not decided"),
        ({"plain": 0.08}, "fails"),  # not ten times
        ({"outer": 168}, "fails"),  # as many associations per weight: one task
        ({"outer": 15120}, "fails"),
        ({"above": 0}, "fails"),  # the best N is the largest that was tried
    ],
)
def test_the_claim_judges_each_of_its_numbers(changes: dict[str, Any], verdict: str) -> None:
    assert claim("efficiency").judge(claim_rows(**changes)).verdict == verdict


def test_the_claim_needs_what_it_compares_with_and_more_than_one_seed() -> None:
    judge, rows = claim("efficiency").judge, claim_rows()
    assert judge(rows[1:]).verdict == "fails"
    assert judge([rows[0], *rows[2:]]).verdict == "fails"
    alone = [r | {"points": [p for p in r["points"] if p["seed"] == 0]} for r in rows]
    assert judge(alone).verdict == "not decided"


def test_lines_of_the_figure_moves_differ_in_one_thing() -> None:
    def row(efficiency: float, **changed: Any) -> dict[str, Any]:
        middle = {"model": "trained", "S": 16, "R": 16, "D": 8, "alpha": 1.0, "beta": 4.0, "levels": 0}
        return {"kind": "fact-bits", **middle, **changed, "points": found({0: [(256, efficiency)]})}

    rows = [row(0.04), row(0.01, D=2), row(0.03, S=64, R=4), row(0.02, beta=1.0), row(0.05, levels=7)]
    lines = figure("moves").says(rows)
    assert lines == [
        "trained, answers D: 2: 1.0%, 8: 4.0%",
        "trained, S : R: 16 : 16: 4.0%, 64 : 4: 3.0%",
        "trained, alpha = Hd_h/d, beta = m/d: 1, 1: 2.0%, 1, 4: 4.0%",
        "trained, levels in training: 7: 5.0%, rounded afterwards: 4.0%",
    ]

"""Claims on memories: each judge can say no, on rows that follow its law and on rows that do not."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from facthold.lab.figure import PRESETS
from facthold.lab.registry import cells_of, claim, claims
from facthold.studies.memories.capacity import Capacity
from facthold.theory import bounds
from facthold.theory.bounds import LINEAR_CONSTANT, MLP_CONSTANT, MLP_FIXED_CONSTANT, guide, margin_variance

Row = dict[str, Any]
FIGURES = ("linear-trained-growth", "mlp-trained-growth", "fixed-outputs-growth")
"""Judged on the cells of figures 1 and 6."""


def _row(cell: Any, result: Mapping[str, Any]) -> Row:
    return {"kind": cell.kind, **cell.spec, **result}


def _law(row: Row) -> float:
    """What a capacity should be, for the row's cell."""
    d, m = row["d"], row["m"]
    if row["method"].startswith("train:"):
        if row["map"] == "mod":
            return 2.0 * d
        return (
            m * d / MLP_FIXED_CONSTANT
            if row["M"]
            else guide(m * d, MLP_CONSTANT)
            if m
            else guide(d**2, LINEAR_CONSTANT)
        )
    if row["map"] == "mod":
        return bounds.two_outputs(d, row["goal"])
    return bounds.half_exact(d) if row["recall"] == "exact" else bounds.half_recall(d, m)


def _capacity_rows(id: str, bend: Callable[[float, Row], float] = lambda N, row: N) -> list[Row]:
    """Rows of a claim's quick cells whose capacities follow the law, bent by ``bend``; nothing is computed."""
    rows = []
    for cell in claim(id).cells("quick"):
        row = _row(cell, {"status": "found", "N_sd": 0.0})
        rows.append(row | {"N": bend(_law(row), row)})
    return rows


GROWTH = [id for id in claims() if any(isinstance(cell, Capacity) for cell in claim(id).cells("quick"))]


def test_trained_claims_share_the_cells_of_the_figures() -> None:
    for preset in PRESETS:
        drawn = {cell.key for name in ("fig1", "fig6") for cell in cells_of(name)(preset)}
        claimed = {cell.key for id in FIGURES for cell in claim(id).cells(preset)}
        assert claimed == drawn


@pytest.mark.parametrize("id", GROWTH)
def test_growth_by_the_law_holds(id: str) -> None:
    judged = claim(id).judge(_capacity_rows(id))
    assert judged.holds, judged


@pytest.mark.parametrize("id", GROWTH)
@pytest.mark.parametrize("power", [0.5, 1.5])
def test_growth_by_another_power_fails(id: str, power: float) -> None:
    """d^3 where it should be d^2, d where it should be d^2, and so on."""
    assert not claim(id).judge(_capacity_rows(id, lambda N, row: N**power)).holds


@pytest.mark.parametrize("id", GROWTH)
def test_a_search_that_found_nothing_fails(id: str) -> None:
    rows = _capacity_rows(id)
    rows[-1] |= {"N": None, "status": "search ceiling"}
    judged = claim(id).judge(rows)
    assert not judged.holds
    assert "search ceiling" in judged.measured


@pytest.mark.parametrize("id", ["two-outputs-outer-product", "exact-recall"])
@pytest.mark.parametrize("part", [0, 1])
def test_either_part_of_a_claim_can_fail(id: str, part: int) -> None:
    def linear(row: Row) -> bool:
        return row["map"] == "mod" or row["recall"] == "exact"

    rows = _capacity_rows(id, lambda N, row: N**1.3 if linear(row) == bool(part) else N)
    assert not claim(id).judge(rows).holds


def test_cover_is_judged_on_its_constant_too() -> None:
    """Half of 2d has the right exponent, and is many standard errors away."""
    judged = claim("two-outputs-trained").judge(_capacity_rows("two-outputs-trained", lambda N, row: N / 2))
    assert not judged.holds
    assert "exponent 1.000" in judged.measured


@pytest.mark.parametrize("id", FIGURES)
@pytest.mark.parametrize("share", [0.5, 2.0])
def test_growth_by_the_law_of_another_size_fails(id: str, share: float) -> None:
    """As if each memory had half or twice its parameters: exponent 1, and a constant far from the guide line."""

    def resized(N: float, row: Row) -> float:
        return _law(row | ({"m": row["m"] * share} if row["m"] else {"d": row["d"] * share**0.5}))

    judged = claim(id).judge(_capacity_rows(id, resized))
    assert not judged.holds
    assert "exponent 1.0" in judged.measured


def test_two_outputs_are_judged_at_99_percent_too() -> None:
    rows = _capacity_rows("two-outputs-outer-product", lambda N, row: 2 * N if row["goal"] == 0.99 else N)
    assert not claim("two-outputs-outer-product").judge(rows).holds


@pytest.mark.parametrize(("id", "sharing"), [("margin-in-image", 1), ("margin-outside-image", 0)])
def test_margins_fail_by_one_wrong_moment(id: str, sharing: int) -> None:
    def rows(mean: float, sharing: int) -> list[Row]:
        errors = {"mean_error": 0.001, "variance_error": 0.001}
        return [
            _row(cell, {"mean": mean, "variance": margin_variance(cell.spec["N"], cell.spec["d"], sharing), **errors})
            for cell in claim(id).cells("quick")
        ]

    judge = claim(id).judge
    assert judge(rows(1.003, sharing)).holds
    assert not judge(rows(1.005, sharing)).holds
    assert not judge(rows(1.0, 1 - sharing)).holds


def test_one_hot_fails_where_more_or_fewer_are_recalled() -> None:
    def rows(at_d: int, above: int, bound: int) -> list[Row]:
        counts = {4: {"outer_product": [at_d], "reached": [4], "bound": [4]}}
        counts[5] = {"outer_product": [above], "reached": [4], "bound": [bound]}
        return [{"d": 4, "N": N, **count} for N, count in counts.items()]

    judge = claim("one-hot").judge
    assert judge(rows(4, 4, 4)).holds
    assert judge(rows(4, 3, 4)).holds
    assert not judge(rows(3, 3, 4)).holds
    assert not judge(rows(4, 5, 4)).holds
    assert not judge(rows(4, 4, 5)).holds
    assert not judge(rows(4, 4, 4)[:1]).holds


def test_gradient_step_fails_above_rounding() -> None:
    row = {"difference": 1e-15, "rounding": 1e-14, "largest": 1.0}
    assert claim("gradient-step").judge([row]).holds
    assert not claim("gradient-step").judge([row, row | {"difference": 1e-7}]).holds


def test_rounding_fails_on_a_lost_margin_a_large_change_or_an_empty_condition() -> None:
    d, step = 64, 1 / 513
    row = {
        "N": 8, "d": d, "least_before": [0.6, 0.7], "least_after": [0.5, 0.6], "change": [0.1, 0.1],
        "step": [step, step], "bits": [13.0, 13.0], "used_bits": [8, 8],
    }  # fmt: skip
    judge = claim("rounding").judge
    assert judge([row]).holds
    assert not judge([row | {"least_after": [0.5, -0.1]}]).holds
    assert not judge([row | {"change": [0.1, 2 * d * step * 1.01]}]).holds
    assert not judge([row | {"least_before": [0.4, 0.3]}]).holds
    assert judge([row | {"least_before": [0.6, 0.4], "least_after": [0.5, -0.1]}]).holds


def test_layerwise_is_judged_by_the_smallest_width_that_holds_all() -> None:
    def rows(**wrong: list[int]) -> list[Row]:
        common = {"N": 256, "d": 32, "seeds": [0, 1]}
        return [common | {"m": int(m[1:]), "wrong": w, "params_per_fact": int(m[1:]) / 4} for m, w in wrong.items()]

    judge = claim("layerwise").judge
    held = judge(rows(m64=[0, 0], m48=[0, 0], m32=[0, 1]))
    assert held.holds
    assert held.measured == "12.00 at m=48 (m=32: 1 wrong)"
    assert not judge(rows(m64=[0, 0], m48=[1, 0])).holds
    assert not judge(rows(m48=[1, 0])).holds

"""Claims: each runs from cells to verdict, and each judge can say no."""

import dataclasses
import functools
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from facthold.lab.cells import Cell
from facthold.studies.claims import CLAIMS, claim
from facthold.studies.constructions.built_size import BuiltSize
from facthold.studies.figures import PRESETS, figure
from facthold.studies.judging import at_preset
from facthold.studies.memories.capacity import Capacity
from facthold.studies.transformers.claims import FACTS_A_PARAMETER
from facthold.theory import noise
from facthold.theory.bounds import guide_linear, guide_mlp, guide_mlp_fixed, margin_variance

Row = dict[str, Any]
TRAINED = ("linear-trained-growth", "mlp-trained-growth", "fixed-outputs-growth", "two-outputs-trained")
FACTS = "facts-growth"
"""Its smoke cells are those of figure 4, which the tests of the figures compute."""
BUILT = "built-against-trained"
"""Some of its cells are too. Both are judged on made-up rows."""
AT_ANY_SIZE = (
    "margin-in-image",
    "margin-outside-image",
    "gradient-step",
    "rounding",
    "one-hot",
    "layerwise",
    "all-facts",
    "efficiency",
    "nothing-below-theorem-7",
    "flow-conserves",
    "weights-grow-slowly",
    "loss-vanishes",
    "sequential-learning",
    "relations-learnt",
    "comparison",
    "marginal-first",
)
"""Identities, bounds and exact moments: they hold at smoke sizes too. The others are laws of growth."""


def _row(cell: Any, result: Mapping[str, Any]) -> Row:
    return {"kind": cell.kind, **cell.spec, **result}


def _law(row: Row) -> float:
    """What a capacity should be, for the row's cell."""
    d, m = row["d"], row["m"]
    if row["method"].startswith("train:"):
        if row["map"] == "mod":
            return 2.0 * d
        return guide_mlp_fixed(m, d) if row["M"] else guide_mlp(m, d) if m else guide_linear(d)
    if row["map"] == "mod":
        return noise.two_outputs(d, row["goal"])
    return noise.half_exact(d) if row["recall"] == "exact" else noise.half_recall(d, m)


def _capacity_rows(id: str, bend: Callable[[float, Row], float] = lambda N, row: N) -> list[Row]:
    """Rows of a claim's quick cells whose capacities follow the law, bent by ``bend``; nothing is computed."""
    rows = []
    for cell in CLAIMS[id].cells("quick"):
        row = _row(cell, {"status": "found", "N_sd": 0.0})
        rows.append(row | {"N": bend(_law(row), row)})
    return rows


GROWTH = [id for id in CLAIMS if any(isinstance(cell, Capacity) for cell in CLAIMS[id].cells("quick"))]


def test_registry_is_well_formed() -> None:
    assert len(CLAIMS) >= 12
    for id, c in CLAIMS.items():
        assert id == c.id
        assert c.place
        assert c.statement.endswith((".", ".)"))
        assert claim(id) is c
        for preset in PRESETS:
            cells = c.cells(preset)
            assert cells
            assert len({cell.key for cell in cells}) == len(cells)
        with pytest.raises(ValueError, match="preset"):
            c.cells("fast")
    with pytest.raises(ValueError, match="did you mean 'layerwise'"):
        claim("layerwize")


def test_a_claim_without_rows_was_not_run() -> None:
    for c in CLAIMS.values():
        assert c.report(None)["verdict"] == "not run"


def test_trained_claims_share_the_cells_of_the_figures() -> None:
    for preset in PRESETS:
        drawn = {cell.key for name in ("fig1", "fig6") for cell in figure(name).cells(figure(name).grid(preset))}
        claimed = {cell.key for id in TRAINED[:3] for cell in CLAIMS[id].cells(preset)}
        assert claimed == drawn


@pytest.mark.parametrize("id", [id for id in CLAIMS if id not in (*TRAINED, FACTS, BUILT)])
def test_smoke_runs_from_cells_to_verdict(id: str) -> None:
    _check_report(id)


@pytest.mark.slow
@pytest.mark.parametrize("id", TRAINED)
def test_smoke_of_training_runs_from_cells_to_verdict(id: str) -> None:
    _check_report(id)


def _facts(bend: Callable[[float], float] = lambda n: 0.1 * n) -> list[Row]:
    """Rows of figure 4's quick cells with so many facts at n parameters; nothing is computed."""
    cells: list[Any] = CLAIMS[FACTS].cells("quick")
    found = [{"status": "found", "N": bend(c.n_params) ** 0.5, "facts": bend(c.n_params)} for c in cells]
    return [_row(c, f | {"n_params": c.n_params, "m": c.m}) for c, f in zip(cells, found, strict=True)]


def test_facts_in_proportion_to_parameters_hold_and_other_laws_fail() -> None:
    low, high = FACTS_A_PARAMETER
    judge = CLAIMS[FACTS].judge
    assert judge(_facts()).holds
    assert not judge(_facts(lambda n: 0.9 * low * n)).holds
    assert not judge(_facts(lambda n: 1.1 * high * n)).holds
    assert not judge(_facts(lambda n: 0.1 * 5000 * (n / 5000) ** 0.8)).holds
    assert not judge(_facts(lambda n: 0.1 * 5000 * (n / 5000) ** 1.2)).holds
    missing = _facts()
    missing[0] |= {"status": "search floor", "N": None, "facts": None}
    report = CLAIMS[FACTS].report(missing)
    assert report["verdict"] == "fails"
    assert "search floor" in report["measured"]


@functools.cache
def _run(cell: Cell) -> Row:
    """Claims share cells, as they do in the store."""
    return _row(cell, cell.run())


def _coarse(cell: Cell) -> Cell:
    """A search of one seed that ends at a factor of 1.5: enough to see that a claim runs, not that it holds."""
    return dataclasses.replace(cell, seeds=(0,), tolerance=0.5) if isinstance(cell, Capacity | BuiltSize) else cell


def _check_report(id: str) -> None:
    rows = [_run(_coarse(cell)) for cell in CLAIMS[id].cells("smoke")]
    report = CLAIMS[id].report(json.loads(json.dumps(rows)))
    assert report["verdict"] in (("holds",) if id in AT_ANY_SIZE else ("holds", "fails")), report
    assert list(json.loads(json.dumps(report))) == [
        "id", "place", "statement", "predicted", "measured", "error", "verdict",
    ]  # fmt: skip
    assert all(isinstance(value, str) and value for value in report.values())


@pytest.mark.parametrize("id", GROWTH)
def test_growth_by_the_law_holds(id: str) -> None:
    judged = CLAIMS[id].judge(_capacity_rows(id))
    assert judged.holds, judged


@pytest.mark.parametrize("id", GROWTH)
@pytest.mark.parametrize("power", [0.5, 1.5])
def test_growth_by_another_power_fails(id: str, power: float) -> None:
    """d^3 where it should be d^2, d where it should be d^2, and so on."""
    assert not CLAIMS[id].judge(_capacity_rows(id, lambda N, row: N**power)).holds


@pytest.mark.parametrize("id", GROWTH)
def test_a_search_that_found_nothing_fails(id: str) -> None:
    rows = _capacity_rows(id)
    rows[-1] |= {"N": None, "status": "search ceiling"}
    judged = CLAIMS[id].judge(rows)
    assert not judged.holds
    assert "search ceiling" in judged.measured


@pytest.mark.parametrize("id", ["two-outputs-outer-product", "exact-recall"])
@pytest.mark.parametrize("part", [0, 1])
def test_either_part_of_a_claim_can_fail(id: str, part: int) -> None:
    def linear(row: Row) -> bool:
        return row["map"] == "mod" or row["recall"] == "exact"

    rows = _capacity_rows(id, lambda N, row: N**1.3 if linear(row) == bool(part) else N)
    assert not CLAIMS[id].judge(rows).holds


def test_cover_is_judged_on_its_constant_too() -> None:
    """Half of 2d has the right exponent, and is many standard errors away."""
    judged = CLAIMS["two-outputs-trained"].judge(_capacity_rows("two-outputs-trained", lambda N, row: N / 2))
    assert not judged.holds
    assert "exponent 1.000" in judged.measured


@pytest.mark.parametrize("id", TRAINED[:3])
@pytest.mark.parametrize("share", [0.5, 2.0])
def test_growth_by_the_law_of_another_size_fails(id: str, share: float) -> None:
    """As if each memory had half or twice its parameters: exponent 1, and a constant far from the guide line."""

    def resized(N: float, row: Row) -> float:
        return _law(row | ({"m": row["m"] * share} if row["m"] else {"d": row["d"] * share**0.5}))

    judged = CLAIMS[id].judge(_capacity_rows(id, resized))
    assert not judged.holds
    assert "exponent 1.0" in judged.measured


def test_two_outputs_are_judged_at_99_percent_too() -> None:
    rows = _capacity_rows("two-outputs-outer-product", lambda N, row: 2 * N if row["goal"] == 0.99 else N)
    assert not CLAIMS["two-outputs-outer-product"].judge(rows).holds


@pytest.mark.parametrize(("id", "sharing"), [("margin-in-image", 1), ("margin-outside-image", 0)])
def test_margins_fail_by_one_wrong_moment(id: str, sharing: int) -> None:
    def rows(mean: float, sharing: int) -> list[Row]:
        errors = {"mean_error": 0.001, "variance_error": 0.001}
        return [
            _row(cell, {"mean": mean, "variance": margin_variance(cell.spec["N"], cell.spec["d"], sharing), **errors})
            for cell in CLAIMS[id].cells("quick")
        ]

    judge = CLAIMS[id].judge
    assert judge(rows(1.003, sharing)).holds
    assert not judge(rows(1.005, sharing)).holds
    assert not judge(rows(1.0, 1 - sharing)).holds


def test_one_hot_fails_where_more_or_fewer_are_recalled() -> None:
    def rows(at_d: int, above: int, bound: int) -> list[Row]:
        counts = {4: {"outer_product": [at_d], "reached": [4], "bound": [4]}}
        counts[5] = {"outer_product": [above], "reached": [4], "bound": [bound]}
        return [{"d": 4, "N": N, **count} for N, count in counts.items()]

    judge = CLAIMS["one-hot"].judge
    assert judge(rows(4, 4, 4)).holds
    assert judge(rows(4, 3, 4)).holds
    assert not judge(rows(3, 3, 4)).holds
    assert not judge(rows(4, 5, 4)).holds
    assert not judge(rows(4, 4, 5)).holds
    assert not judge(rows(4, 4, 4)[:1]).holds


def test_gradient_step_fails_above_rounding() -> None:
    row = {"difference": 1e-15, "rounding": 1e-14, "largest": 1.0}
    assert CLAIMS["gradient-step"].judge([row]).holds
    assert not CLAIMS["gradient-step"].judge([row, row | {"difference": 1e-7}]).holds


def test_rounding_fails_on_a_lost_margin_a_large_change_or_an_empty_condition() -> None:
    d, step = 64, 1 / 513
    row = {
        "N": 8, "d": d, "least_before": [0.6, 0.7], "least_after": [0.5, 0.6], "change": [0.1, 0.1],
        "step": [step, step], "bits": [13.0, 13.0], "used_bits": [8, 8],
    }  # fmt: skip
    judge = CLAIMS["rounding"].judge
    assert judge([row]).holds
    assert not judge([row | {"least_after": [0.5, -0.1]}]).holds
    assert not judge([row | {"change": [0.1, 2 * d * step * 1.01]}]).holds
    assert not judge([row | {"least_before": [0.4, 0.3]}]).holds
    assert judge([row | {"least_before": [0.6, 0.4], "least_after": [0.5, -0.1]}]).holds


def test_layerwise_is_judged_by_the_smallest_width_that_holds_all() -> None:
    def rows(**wrong: list[int]) -> list[Row]:
        common = {"N": 256, "d": 32, "seeds": [0, 1]}
        return [common | {"m": int(m[1:]), "wrong": w, "params_per_fact": int(m[1:]) / 4} for m, w in wrong.items()]

    judge = CLAIMS["layerwise"].judge
    held = judge(rows(m64=[0, 0], m48=[0, 0], m32=[0, 1]))
    assert held.holds
    assert held.measured == "12.00 at m=48 (m=32: 1 wrong)"
    assert not judge(rows(m64=[0, 0], m48=[1, 0])).holds
    assert not judge(rows(m48=[1, 0])).holds


def test_paper_falls_back_to_quick() -> None:
    assert at_preset({"quick": 1}, "paper") == 1
    assert at_preset({"quick": 1, "paper": 2}, "paper") == 2
    with pytest.raises(ValueError, match="unknown preset"):
        at_preset({"quick": 1}, "large")

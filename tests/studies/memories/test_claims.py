"""Claims on memories: each judge can say no, on rows that follow its law and on rows that do not."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from facthold.lab.figure import PRESETS
from facthold.lab.registry import cells_of, claim, claims
from facthold.studies.memories import degrees
from facthold.studies.memories.capacity import Capacity
from facthold.theory import bounds, noise
from facthold.theory.bounds import LINEAR_CONSTANT, MLP_CONSTANT, MLP_FIXED_CONSTANT, guide, margin_variance

Row = dict[str, Any]
FIGURES = ("linear-trained-growth", "mlp-trained-growth", "fixed-outputs-growth")
"""Judged on the cells of figures 1 and 6."""
NOISE = (0.98, 0.99, 1.0, 1.01, 1.02)  # what seeds find, in the place of the law's N
WILD = (0.05, 0.3, 1.0, 3.0, 20.0)  # noise that hides everything; its geometric mean is 1


def _row(cell: Any, result: Mapping[str, Any]) -> Row:
    return {"kind": cell.kind, **cell.spec, **result}


def _law(row: Row) -> float:
    """What a capacity should be, for the row's cell."""
    d, m = row["d"], row["m"]
    if row["kind"] == "kernel-capacity":
        return degrees.law(row)
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
    return noise.half_exact(d) if row["recall"] == "exact" else noise.half_recall(noise.low_rank(d, m))


def _rows(
    id: str, bend: Callable[[float, Row], float] = lambda N, row: N, spread: tuple[float, ...] = NOISE
) -> list[Row]:
    """Rows of a claim's quick cells whose capacities follow the law, bent by ``bend``; nothing is computed."""
    rows = []
    for cell in claim(id).cells("quick"):
        row = _row(cell, {"status": "found"})
        # seeds in another order at each size, so that their spread is no trend
        around = [spread[(i + len(rows)) % len(spread)] * bend(_law(row), row) for i in range(len(spread))]
        seeds = [{"seed": i, "status": "found", "stored": N, "refused": N} for i, N in enumerate(around)]
        rows.append(row | {"N": sum(around) / len(around), "per_seed": seeds})
    return rows


def _verdict(id: str, *bent: Any, **options: Any) -> str:
    return claim(id).judge(_rows(id, *bent, **options)).verdict


OTHER = ("separability", "sharp-threshold")  # ratios of capacities; searches of another kind, which has its own tests
GROWTH = [
    id for id in claims() if id not in OTHER and any(isinstance(cell, Capacity) for cell in claim(id).cells("quick"))
]


def test_trained_claims_share_the_cells_of_the_figures() -> None:
    for preset in PRESETS:
        drawn = {cell.key for name in ("fig1", "fig6") for cell in cells_of(name)(preset)}
        claimed = {cell.key for id in FIGURES for cell in claim(id).cells(preset)}
        assert claimed == drawn


@pytest.mark.parametrize("id", GROWTH)
def test_growth_by_the_law_holds(id: str) -> None:
    judged = claim(id).judge(_rows(id))
    assert judged.holds, judged


@pytest.mark.parametrize("id", GROWTH)
@pytest.mark.parametrize("factor", [0.1, 0.5, 2.0, 3.0])
def test_another_constant_fails(id: str, factor: float) -> None:
    """The exponent is right, and the constant that is stated is not what was measured."""
    assert _verdict(id, lambda N, row: factor * N) == "fails"


@pytest.mark.parametrize("id", GROWTH)
@pytest.mark.parametrize("power", [0.5, 0.8, 1.2, 1.5])
def test_growth_by_another_power_fails(id: str, power: float) -> None:
    """d^3 where it should be d^2, d where it should be d^2, and so on; the constant is right in the middle."""
    middle = [math.log(_law(row)) for row in _rows(id)]
    centre = sum(middle) / len(middle)
    assert _verdict(id, lambda N, row: math.exp(centre + power * (math.log(N) - centre))) == "fails"


@pytest.mark.parametrize("id", GROWTH)
def test_a_small_drift_is_not_what_is_stated(id: str) -> None:
    """3% off, and seeds that agree to a part in a thousand: within the tolerance, and said to be off."""
    assert _verdict(id, lambda N, row: 1.03 * N, spread=(0.999, 1.0, 1.001)) == "drifts"


@pytest.mark.parametrize("id", GROWTH)
def test_noise_that_hides_everything_decides_nothing(id: str) -> None:
    assert _verdict(id, spread=WILD) == "not decided"


@pytest.mark.parametrize("id", GROWTH)
def test_a_search_that_found_nothing_fails(id: str) -> None:
    """A ceiling is stored as the largest N that was tried, and is no capacity: of one seed as of all."""
    rows = _rows(id)
    rows[-1] |= {"N": None, "status": "search ceiling"}
    rows[-1]["per_seed"][0] |= {"status": "search ceiling", "refused": None}
    judged = claim(id).judge(rows)
    assert judged.verdict == "fails"
    assert "search ceiling" in judged.measured


@pytest.mark.parametrize(
    ("id", "part"),
    [
        ("exact-recall", lambda row: row["recall"] == "exact"),
        ("mlp-memory-growth", lambda row: row["method"] == degrees.TANGENT),
        ("mlp-memory-degree", lambda row: degrees.degree(row) == 3),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_either_part_of_a_claim_can_fail(id: str, part: Callable[[Row], bool], turned: bool) -> None:
    assert _verdict(id, lambda N, row: 2 * N if part(row) != turned else N) == "fails"


def test_a_higher_degree_must_hold_more() -> None:
    """Both degrees as degree 1 is."""

    def same(N: float, row: Row) -> float:
        return degrees.law(row | {"k": 1 if row["method"] == degrees.FEATURES else 0})

    assert _verdict("mlp-memory-degree", same) == "fails"


@pytest.mark.parametrize("id", FIGURES)
@pytest.mark.parametrize("share", [0.5, 2.0])
def test_growth_by_the_law_of_another_size_fails(id: str, share: float) -> None:
    """As if each memory had half or twice its parameters: exponent 1, and a constant far from the guide line."""

    def resized(N: float, row: Row) -> float:
        return _law(row | ({"m": row["m"] * share} if row["m"] else {"d": row["d"] * share**0.5}))

    judged = claim(id).judge(_rows(id, resized))
    assert judged.verdict == "fails"
    assert "exponent 1.0" in judged.measured


@pytest.mark.parametrize("id", FIGURES)
def test_an_exponent_of_nine_tenths_is_not_one(id: str) -> None:
    """Narrow about 0.9, with the guide line's constant in the middle: it drifts, and its drift is given."""

    def size(row: Row) -> float:
        return (row["m"] or row["d"]) * row["d"]

    sizes = [size(row) for row in _rows(id)]
    middle = math.exp(sum(map(math.log, sizes)) / len(sizes))

    def bent(N: float, row: Row) -> float:
        share = (size(row) / middle) ** -0.09  # of the parameters, as if the others held nothing
        return _law(row | ({"m": row["m"] * share} if row["m"] else {"d": row["d"] * share**0.5}))

    judged = claim(id).judge(_rows(id, bent))
    assert judged.verdict == "drifts", judged
    assert judged.drift
    assert judged.next


def _two_outputs(factor: float = 1.0, spread: float = 0.01) -> str:
    """Shares as if the memory held so many times the N of the law."""
    rows = []
    for cell in claim("two-outputs-outer-product").cells("quick"):
        right = bounds.two_outputs_share(1 + (cell.N - 1) / factor, cell.d)
        wrong = [cell.N * (1 - right + s * spread) for s in (-1, 1)] * 200
        rows.append(_row(cell, {"wrong": wrong}))
    return claim("two-outputs-outer-product").judge(rows).verdict


def test_two_outputs_are_judged_by_the_share_at_the_laws_n() -> None:
    assert _two_outputs() == "holds"
    assert _two_outputs(0.1) == _two_outputs(0.7) == _two_outputs(1.4) == _two_outputs(3.0) == "fails"
    assert _two_outputs(0.97, spread=1e-4) == "drifts"
    assert _two_outputs(spread=0.2) == "not decided"


@pytest.mark.parametrize("wrong", [0, 2, 4])
def test_each_size_of_two_outputs_counts(wrong: int) -> None:
    cells = claim("two-outputs-outer-product").cells("quick")
    shares = [bounds.two_outputs_share(cell.N, cell.d) - 0.1 * (i == wrong) for i, cell in enumerate(cells)]
    rows = [
        _row(cell, {"wrong": [cell.N * (1 - share + s) for s in (-1e-3, 1e-3)] * 9})
        for cell, share in zip(cells, shares, strict=True)
    ]
    assert claim("two-outputs-outer-product").judge(rows).verdict == "fails"


@pytest.mark.parametrize(("id", "sharing"), [("margin-in-image", 1), ("margin-outside-image", 0), ("mlp-margins", 1)])
def test_margins_fail_by_one_wrong_moment(id: str, sharing: int) -> None:
    def verdict(mean: float = 1.0, sharing: int = sharing, error: float = 1e-3, factor: float = 1.0) -> str:
        rows = []
        for cell in claim(id).cells("quick"):
            exact = factor * margin_variance(cell.N, cell.d, sharing)
            if id == "mlp-margins" and sharing:  # else the variance of the outer product, without noise of neurons
                exact = factor * noise.margin_variance(cell.N, degrees.noise_of(cell.spec))
            errors = {"mean_error": error, "variance_error": error * exact}
            rows.append(_row(cell, {"mean": mean, "variance": exact, **errors}))
        return claim(id).judge(rows).verdict

    assert verdict(mean=1.002) == "holds"
    assert verdict(mean=1.01) == "drifts"
    assert verdict(mean=1.1) == verdict(sharing=1 - sharing) == verdict(factor=1.1) == verdict(factor=10.0) == "fails"
    assert verdict(error=0.1) == "not decided"


def test_gradient_step_fails_above_rounding() -> None:
    row = {"difference": 1e-15, "rounding": 1e-14, "largest": 1.0}
    assert claim("gradient-step").judge([row]).holds
    assert not claim("gradient-step").judge([row, row | {"difference": 1e-7}]).holds


def _rounding(moved: float = 1.0, recall: float = 0.0, spread: float = 1e-3, **change: Any) -> str:
    """Margins that move by so many times the prediction, and recall that is so much above it."""
    rows = []
    for cell in claim("rounding").cells("quick"):
        stated = noise.recall(cell.N, noise.low_rank(cell.d).rounded(cell.step)) + recall
        around = [1 - spread, 1 + spread] * 20
        found = {"least_before": [0.6] * 40, "least_after": [0.5] * 40, "used_bits": [3] * 40, "bits": [9.0] * 40}
        found |= {"step": cell.step, "moved": [s * moved * cell.step / 12**0.5 for s in around]}
        rows.append(_row(cell, found | {"recalled": [stated + s - 1 for s in around]} | change))
    return claim("rounding").judge(rows).verdict


def test_rounding_is_judged_on_both_sides_of_what_it_predicts() -> None:
    assert _rounding() == "holds"
    assert _rounding(moved=0.1) == _rounding(moved=0.9) == _rounding(moved=1.1) == _rounding(moved=2.0) == "fails"
    assert _rounding(recall=-0.05) == _rounding(recall=0.05) == "fails"
    assert _rounding(moved=1.02) == _rounding(recall=0.01) == "drifts"
    assert _rounding(spread=0.3) == "not decided"


def test_rounding_fails_on_a_lost_margin_or_an_empty_condition() -> None:
    assert _rounding(least_after=[0.5] * 39 + [-0.1]) == "fails"
    assert _rounding(least_before=[0.4] * 40) == "fails"
    assert _rounding(least_before=[0.6] * 39 + [0.4], least_after=[0.5] * 39 + [-0.1]) == "holds"


def test_layerwise_is_judged_by_the_smallest_width_that_holds_all() -> None:
    def rows(**wrong: list[int]) -> list[Row]:
        common = {"N": 256, "d": 32, "seeds": [0, 1]}
        return [common | {"m": int(m[1:]), "wrong": w, "params_per_fact": int(m[1:]) / 4} for m, w in wrong.items()]

    judge = claim("layerwise").judge
    held = judge(rows(m48=[0, 0], m32=[0, 0], m24=[0, 1]))
    assert held.holds
    assert held.measured == "8.00 at m=32 (m=24: 1 wrong)"
    assert not judge(rows(m48=[0, 0], m32=[1, 0])).holds
    assert not judge(rows(m32=[1, 0])).holds


def _separable(closed: float = 0.85, solved: float = 1.0, noise: float = 0.005) -> list[Row]:
    """Capacities at 99% of 100 or so, and these shares of them at 100%."""
    rows = []
    for cell in claim("separability").cells("quick"):
        share = 1.0 if cell.goal < 1 else closed if cell.method == "outer-product" else solved  # type: ignore[attr-defined]
        found = [100.0 * share * math.exp(noise * (i % 3 - 1)) for i in cell.seeds]  # type: ignore[attr-defined]
        seeds = [{"seed": i, "status": "found", "stored": N, "refused": N} for i, N in enumerate(found)]
        rows.append(_row(cell, {"status": "found", "N": found[0], "per_seed": seeds}))
        noise = -noise
    return rows


def test_separability_asks_for_as_many_where_solved_and_for_fewer_in_closed_form() -> None:
    judge = claim("separability").judge
    assert judge(_separable()).verdict == "holds"
    assert judge(_separable(closed=1.0)).verdict == "fails"
    assert judge(_separable(solved=0.8)).verdict == "fails"
    assert judge(_separable(noise=0.5)).verdict == "not decided"
    lost = _separable()
    lost[-1]["per_seed"][0]["status"] = "search ceiling"
    assert judge(lost).verdict == "fails"

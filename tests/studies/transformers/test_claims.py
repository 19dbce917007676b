"""The judges of figures 4, 7, 8 and 9, on made-up searches: each says no to what it does not claim."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from facthold.lab.claim import Judgement
from facthold.lab.registry import claim
from facthold.studies.transformers.claims import searches
from facthold.studies.transformers.fact_capacity import FactCapacity
from facthold.studies.transformers.heatmap import FactWidth

Row = dict[str, Any]
GROWS = ("facts-growth", "facts-heads", "facts-own-answers", "facts-few-relations")
CENTRE = 3000  # parameters at which laws with another exponent have 0.12 facts per parameter


def steady(n: float) -> float:
    return 0.12 * n


def bent(slope: float) -> Callable[[float], float]:
    return lambda n: 0.12 * CENTRE * (n / CENTRE) ** slope


def searched(cell: FactCapacity, stored: list[int], width: int = 1) -> Row:
    """A row of this cell whose seeds have stored so many S, and not ``width`` more."""
    per_seed = [
        {"seed": seed, "status": "found", "stored": S, "refused": S + width, "probes": []}
        for seed, S in zip(cell.seeds, stored, strict=True)
    ]
    found = {"status": "found", "N": np.mean(stored), "n_params": cell.n_params, "m": cell.sizes.m, "kind": cell.kind}
    return {**cell.spec, **found, "per_seed": per_seed}


def rows(id: str, law: Callable[[float], float] = steady, noise: float = 0.0, theirs: float = 1.0) -> list[Row]:
    """The claim's cells at preset quick with so many facts at n parameters, some seeds above and some below by
    ``noise``; those judged by the authors' rule have ``theirs`` as many."""
    cells: list[Any] = claim(id).cells("quick")
    rng, made = np.random.default_rng(1), []
    for cell in cells:
        facts = (
            law(cell.n_params)
            * (theirs if cell.rule == "authors" else 1.0)
            * np.exp(noise * rng.normal(size=len(cell.seeds)))
        )
        # Tables a hundred times as long and as wide, so that whole numbers S are no noise of their own.
        S = np.sqrt(1e4 * facts) if cell.growth == "S=R" else (1e4 * facts) ** (2 / 3)
        made.append(searched(cell, [round(s) for s in S]) | {"n_params": 10_000 * cell.n_params})
    return made


def judged(id: str, made: list[Row]) -> Judgement:
    return claim(id).judge(made)


@pytest.mark.parametrize("id", GROWS)
def test_facts_in_proportion_hold_at_any_constant_and_other_exponents_fail(id: str) -> None:
    assert judged(id, rows(id, noise=0.05)).verdict == "holds"
    assert judged(id, rows(id, lambda n: 0.1 * steady(n), noise=0.05)).verdict == "holds"  # the constant: another claim
    assert judged(id, rows(id, bent(0.93))).verdict == "drifts"
    for slope in (0.5, 0.75, 1.25, 2.0):
        assert judged(id, rows(id, bent(slope), noise=0.02)).verdict == "fails"
    assert judged(id, rows(id, noise=1.0)).verdict in ("not decided", "fails")
    assert judged(id, rows(id, bent(0.85), noise=0.2)).verdict in ("not decided", "fails")


def test_shapes_may_hold_more_or_less_and_still_grow_alike() -> None:
    """A shape with half the facts at all sizes moves no exponent; one that stops to grow does."""
    made = rows("facts-growth", noise=0.02)
    lower = [r | half(r) if r["beta"] == 0.5 else r for r in made]
    assert judged("facts-growth", lower).verdict == "holds"
    assert "alpha=2 beta=0.5" in judged("facts-growth", lower).drift
    stuck = [r | half(r) if r["d"] in (24, 32) else r for r in made]
    assert judged("facts-growth", stuck).verdict == "fails"


def half(r: Row) -> Row:
    """The same searches with half the facts."""
    less = [{**s, "stored": round(s["stored"] / math.sqrt(2))} for s in r["per_seed"]]
    return {"per_seed": [s | {"refused": s["stored"] + 1} for s in less]}


def test_noise_never_helps() -> None:
    words = ["holds", "drifts", "not decided", "fails"]
    for slope in (1.0, 0.93, 0.8):
        verdicts = [judged("facts-growth", rows("facts-growth", bent(slope), noise)).verdict for noise in (0, 0.6, 1.2)]
        assert words.index(verdicts[-1]) >= words.index("not decided")


@pytest.mark.parametrize(
    ("per_parameter", "noise", "verdict"),
    [(0.15, 0.05, "holds"), (0.131, 0.05, "drifts"), (0.1, 0.05, "fails"), (0.015, 0.05, "fails"),
     (0.45, 0.05, "fails"), (0.2, 0.02, "fails"), (0.13, 1.0, "not decided")],
)  # fmt: skip
def test_a_constant_that_is_stated_is_judged(per_parameter: float, noise: float, verdict: str) -> None:
    """0.15 within 25% over all shapes."""
    made = rows("facts-per-parameter", lambda n: per_parameter * n, noise)
    assert judged("facts-per-parameter", made).verdict == verdict


def test_the_number_of_the_authors_code_is_judged_at_its_own_size() -> None:
    """On all its seeds, and from below; the seeds that were added count for nothing else."""
    made = rows("facts-per-parameter", lambda n: (0.12 if n == 3072 else 0.15) * n, noise=0.02)
    assert len([r for r in made if (r["alpha"], r["beta"], r["d"]) == (1, 4, 16)]) == 2
    judgement = judged("facts-per-parameter", made)
    assert judgement.verdict in ("holds", "drifts")
    assert "24 searches" in judgement.error
    assert "7 searches" in judgement.error
    assert judged("facts-per-parameter", made[::-1]) == judgement
    made = rows("facts-per-parameter", lambda n: (0.08 if n == 3072 else 0.15) * n, noise=0.02)
    assert judged("facts-per-parameter", made).verdict == "fails"


def test_two_rules_that_agree_hold_and_one_that_stores_more_fails() -> None:
    assert judged("authors-rule", rows("authors-rule", noise=0.0)).verdict == "holds"
    assert judged("authors-rule", rows("authors-rule", theirs=1.05)).verdict == "drifts"
    for theirs in (0.1, 0.8, 1.25, 3.0):
        assert judged("authors-rule", rows("authors-rule", theirs=theirs)).verdict == "fails"
    assert judged("authors-rule", rows("authors-rule", noise=0.5)).verdict == "not decided"


def test_the_same_brackets_by_both_rules_decide_only_where_they_are_narrow() -> None:
    """A coarser search never passes more easily."""
    cells: list[Any] = claim("authors-rule").cells("quick")
    verdicts = [judged("authors-rule", [searched(c, [14] * 3, width) for c in cells]).verdict for width in (1, 2, 4, 9)]
    assert verdicts == ["holds", "holds", "not decided", "not decided"]


def test_the_rules_are_compared_on_the_same_searches() -> None:
    cells: list[Any] = claim("authors-rule").cells("quick")
    ours, theirs = ([c for c in cells if (c.rule == "authors") is so] for so in (False, True))
    assert len(ours) == len(theirs) == 3
    assert {c.key for c in ours} <= {c.key for c in claim("facts-growth").cells("quick")}  # nothing more to compute
    for one, other in zip(ours, theirs, strict=True):
        differ = {name for name in one.spec if one.spec[name] != other.spec[name]}
        assert differ == {"rule", "training"}
        assert {name for name in other.training.spec if other.training.spec[name] != one.training.spec.get(name)} == {
            "rule"
        }


@pytest.mark.parametrize("id", [*GROWS, "facts-per-parameter", "authors-rule"])
def test_a_search_that_ended_at_a_bound_is_no_capacity(id: str) -> None:
    made = rows(id)
    made[0]["per_seed"][1] |= {"status": "search ceiling", "refused": None}
    judgement = judged(id, made)
    assert judgement.verdict == "fails"
    assert "search ceiling" in judgement.measured


def test_facts_of_a_search_are_in_the_middle_of_what_may_be_the_largest() -> None:
    cell = FactCapacity(alpha=1.0, beta=4.0, d=16, seeds=(0,))
    assert searches([searched(cell, [18])])[0]["facts"] == pytest.approx(18**2)  # neighbours: as the authors count
    assert searches([searched(cell, [20], width=3)])[0]["facts"] == pytest.approx(20 * 22)
    few = FactCapacity(alpha=1.0, beta=4.0, d=16, seeds=(0,), growth="S=R^2")
    assert searches([searched(few, [50])])[0]["facts"] == pytest.approx(50 * 7)


def borders(rate: float, noise: float = 0.0, total: float = 2e5) -> list[Row]:
    """The claim's searches, where an attention parameter stands in for ``rate`` MLP parameters."""
    rng, made = np.random.default_rng(2), []
    for cell in claim("attention-for-mlp").cells("quick"):
        assert isinstance(cell, FactWidth)
        attention = 64 * 4 * cell.H * cell.d * cell.d_h  # larger, so that whole widths are no noise of their own
        m = round((total - rate * attention + noise * rng.normal()) / (2 * cell.d))
        found = {"status": "found", "size": m, "probes": [[2 * m, 1.0], [m - 1, 0.9], [m, 1.0]]}
        made.append({**cell.spec, **found, "attention_params": attention})
    return made


def test_a_trade_at_par_holds_and_others_fail() -> None:
    judge = claim("attention-for-mlp").judge
    assert judge(borders(1.0, noise=3000.0)).verdict == "holds"
    assert judge(borders(0.75, noise=1000.0)).verdict == "drifts"
    for rate in (-0.5, 0.0, 0.1, 0.3, 1.7):
        assert judge(borders(rate, noise=1000.0, total=4e5)).verdict == "fails"
    assert judge(borders(1.0, noise=60_000.0, total=4e5)).verdict == "not decided"
    missing = borders(1.0)
    missing[0] |= {"status": "search ceiling", "size": None}
    assert judge(missing).verdict == "fails"
    assert "search ceiling" in judge(missing).measured


def floors(few: list[float], many: list[float]) -> list[Row]:
    made = []
    for cell, accuracy in zip(claim("attention-floor").cells("quick"), few + many, strict=True):
        made.append({**cell.spec, "accuracy": accuracy, "attention_params": 512, "mlp_params": 5120})
    return made


def test_few_heads_must_all_fall_short_and_many_reach_on_average() -> None:
    judge = claim("attention-floor").judge
    short, enough = [0.8, 0.81, 0.82, 0.8], [0.992, 0.996, 1.0, 0.995]
    assert judge(floors(short, enough)).verdict == "holds"
    assert judge(floors([0.8, 0.99, 0.82, 0.8], enough)).verdict == "fails"
    assert judge(floors(short, [0.9, 0.91, 0.9, 0.92])).verdict == "fails"
    assert judge(floors(short, [0.95, 0.996, 1.0, 0.995])).verdict == "not decided"
    assert "H=8 d_h=1: 0.992, 0.996, 1.000, 0.995" in judge(floors(short, enough)).measured
    cells: list[Any] = claim("attention-floor").cells("quick")
    assert len({c.sizes.n_params for c in cells}) == 1
    assert all(4 * c.H * c.d_h == c.S + c.R for c in cells)


def test_the_claims_on_the_heat_map_are_judged_on_other_seeds_than_chose_them() -> None:
    for id, seeds in (("attention-for-mlp", {10, 11, 12, 13, 14, 15}), ("attention-floor", {4, 5, 6, 7})):
        cells: list[Any] = claim(id).cells("quick")
        assert {cell.seed for cell in cells} == seeds


def test_the_smallest_width_of_a_tiny_transformer_is_enough_and_less_is_not() -> None:
    cell = FactWidth(S=4, R=4, D=2, d=8, H=4, d_h=2, guess=4, protocol="transformer-smoke")
    found = cell.run()
    probes = dict(map(tuple, found["probes"]))
    assert found["status"] in ("found", "search floor")
    if found["status"] == "found":
        assert probes[found["size"]] >= 0.99
        attention, mlp = 4 * 4 * 8 * 2, 2 * 8 * found["size"]
        assert (found["attention_params"], found["mlp_params"], found["n_params"]) == (attention, mlp, attention + mlp)
        assert max(m for m in probes if m < found["size"]) * 1.25 + 1 >= found["size"]
    assert cell.spec["training"]["goal"] == 0.99

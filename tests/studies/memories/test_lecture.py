"""The lecture's memories: each judge on rows that follow what is stated, on broken ones, and on noise."""

import math
from typing import Any

import numpy as np
import pytest

from facthold.lab.registry import claim
from facthold.studies.memories.lecture import (
    GradientMemory,
    PairCapacity,
    PairMargins,
    StepRecall,
    WeightedScores,
    Xor,
    _separable,
    grid_pairs,
    joint,
    judge_mean,
    judge_pairs,
    judge_scores,
    judge_step,
    pair_problem,
)
from facthold.theory.bounds import guide
from facthold.theory.weighted import pair_kernels

Row = dict[str, Any]


def row(cell: Any, **result: Any) -> Row:
    return {"kind": cell.kind, **cell.spec, **result}


def scores(slope: float = 1.0, noise: float = 1.0, error: float = 1e-3, *, step: bool = False) -> list[Row]:
    cell = WeightedScores(N=6, M=8, d=8, n_draws=9, step=step)
    return [row(cell, slope=[slope, error], noise=[noise, error])]


def test_an_exact_mean_needs_its_tolerance() -> None:
    assert judge_mean("x", [1.001, 0.001], 1.0, 0.05).verdict == "holds"
    assert judge_mean("x", [1.01, 0.001], 1.0, 0.05).verdict == "drifts"
    assert judge_mean("x", [1.01, 0.1], 1.0, 0.05).verdict == "not decided"
    assert judge_mean("x", [1.2, 0.001], 1.0, 0.05).verdict == "fails"


def test_weighted_scores_are_judged_by_mean_and_variance() -> None:
    assert judge_scores(scores()).verdict == "holds"
    assert judge_scores(scores(slope=0.9)).verdict == "fails"  # a weight that is not what it should be
    assert judge_scores(scores(noise=2.0)).verdict == "fails"  # 1/d where it should be 1/d^2
    assert judge_scores(scores(error=0.1)).verdict == "not decided"


@pytest.mark.parametrize("step", [False, True])
def test_the_cell_sees_a_wrong_weight(step: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights that are half as large halve the slope: what is measured is the construction."""
    cell = WeightedScores(N=6, M=8, d=8, n_draws=300, step=step)
    before = cell.run()
    from facthold.construct import linear

    true = linear.weighted
    monkeypatch.setattr(linear, "weighted", lambda E, U, alpha: true(E, U, alpha / 2))
    after = cell.run()
    assert before["slope"][0] == pytest.approx(1, abs=6 * before["slope"][1])
    assert after["slope"][0] == pytest.approx(before["slope"][0] / 2, rel=1e-4)
    assert judge_scores([row(cell, **after)]).verdict == "fails"


def test_the_joint_distribution_has_several_answers() -> None:
    p = joint(12, 7)
    assert p.sum() == pytest.approx(1)
    assert set((p > 0).sum(axis=1)) == {1, 2}
    assert p.sum(axis=1)[0] == pytest.approx(2 * p.sum(axis=1)[1])


def step_rows(**changes: Any) -> list[Row]:
    identity = {"start": 0.01, "anywhere": 0.01, "noisy": 0.01}
    near, half = [0.999, 1.0, 0.998, 1.0], [0.52, 0.51, 0.53, 0.52]
    given = {"N": [near, near], "half": [half, half]} | {k: v for k, v in changes.items() if k not in identity}
    return [
        row(GradientMemory(N=8, M=6, d=4, T=2), **identity | {k: v for k, v in changes.items() if k in identity}),
        *scores(step=True, **given.get("scores", {})),
        *(
            row(StepRecall(N=N, d=32, seeds=(0, 1, 2, 3)), step=given[name][0], outer_product=given[name][1])
            for N, name in ((32, "N"), (105, "half"))
        ),
    ]


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "holds"),
        ({"start": 2.0}, "fails"),
        ({"anywhere": 1e9}, "fails"),
        ({"noisy": 1e9}, "fails"),
        ({"scores": {"slope": 0.5}}, "fails"),
        ({"N": [[0.9, 0.91, 0.9, 0.9], [1.0] * 4]}, "fails"),
        ({"N": [[0.9, 1.0, 1.0, 0.95], [1.0] * 4]}, "not decided"),
        ({"half": [[0.3, 0.31, 0.3, 0.3], [0.5, 0.51, 0.5, 0.5]]}, "fails"),
        ({"half": [[0.3, 0.7, 0.5, 0.5], [0.5, 0.5, 0.5, 0.5]]}, "not decided"),
    ],
)
def test_gradient_memories_are_judged_part_by_part(changes: Row, verdict: str) -> None:
    assert judge_step(step_rows(**changes)).verdict == verdict


def test_gradient_memories_need_all_parts() -> None:
    rows = step_rows()
    for i in range(2):
        assert judge_step(rows[:i] + rows[i + 1 :]).verdict == "fails"


@pytest.mark.parametrize("fault", ["sign", "centre"])
def test_the_identities_see_a_wrong_step(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from facthold.construct import linear

    cell, true = GradientMemory(N=8, M=6, d=4, T=2), linear.weighted
    faults = {
        "sign": lambda E, U, p, eta=1.0: true(E, U, -(p - p.mean(axis=1, keepdims=True))),
        "centre": lambda E, U, p, eta=1.0: true(E, U, p),
    }
    assert all(share <= 1 for share in cell.run().values())
    monkeypatch.setattr(linear, "gradient_step", faults[fault])
    assert cell.run()["start"] > 1e6


def pair_rows(*, linear: float = 0.5, mlp: float | None = None, error: float = 1e-3, power: float = 1.0,
              noise: float = 0.01, xor: tuple[int, int] = (3, 4)) -> list[Row]:  # fmt: skip
    own, shared = (pair_kernels(16)[name][1] for name in ("all", "one"))
    mlp_margin = own - shared if mlp is None else mlp
    rows = [
        row(PairMargins(d=16, m=8, seeds=(0,)), linear=[linear, error], mlp=[mlp_margin, error]),
        row(Xor(d=16, m=8, seeds=(0, 1)), linear=[xor[0]] * 2, mlp=[xor[1]] * 2),
    ]
    for i, m in enumerate((16, 32, 64, 128, 256)):
        cell = PairCapacity(method="convex-readout", d=16, m=m, seeds=(0, 1))
        N = guide((2 * m * 16) ** power, 0.6)
        per_seed = [{"stored": N * math.exp(s * noise * (-1) ** i)} for s in (-1, 1)]
        rows.append(row(cell, N=N, status="found", n_params=cell.n_params, per_seed=per_seed))
    return rows


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "holds"),
        ({"linear": 1.0}, "fails"),
        ({"mlp": 0.5}, "fails"),  # degree 1 where 2 was asked for
        ({"error": 0.1}, "not decided"),
        ({"xor": (4, 4)}, "fails"),
        ({"xor": (3, 3)}, "fails"),
        ({"power": 0.5}, "fails"),
        ({"power": 1.5}, "fails"),
        ({"noise": 0.8}, "not decided"),
    ],
)
def test_two_inputs_are_judged_part_by_part(changes: Row, verdict: str) -> None:
    assert judge_pairs(pair_rows(**changes)).verdict == verdict


def test_two_inputs_need_all_parts_and_no_ceiling() -> None:
    rows = pair_rows()
    assert judge_pairs(rows[1:]).verdict == "fails"
    assert judge_pairs(rows[:2]).verdict == "fails"
    assert judge_pairs([*rows[:-1], rows[-1] | {"N": None, "status": "search ceiling"}]).verdict == "fails"


def test_pairs_fill_squares() -> None:
    for k in (1, 2, 5):
        pairs = grid_pairs(k * k)
        assert {tuple(pair) for pair in pairs.tolist()} == {(i, j) for i in range(k) for j in range(k)}
    assert (grid_pairs(7) == grid_pairs(20)[:7]).all()  # a search compares nested problems


def test_no_linear_memory_has_xor_and_signs_that_are_linear_are_found() -> None:
    x = np.asarray(pair_problem(4, 0, 12).E, np.float64)
    both = grid_pairs(4)
    xor, first = (1.0 - 2 * (both.sum(axis=1) % 2))[:, None], (1.0 - 2 * both[:, 0])[:, None]
    assert not _separable(xor * x)
    assert _separable((xor * x)[:3])
    assert _separable(first * x)


def test_claims_are_the_lecture_s() -> None:
    for id in ("weighted-memory", "gradient-memory", "two-inputs"):
        assert claim(id).place == "slides"

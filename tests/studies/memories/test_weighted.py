"""Weighted and gradient memories: each judge on rows that follow what is stated, on broken ones, and on noise."""

from typing import Any

import pytest

from facthold.lab.registry import claim
from facthold.studies.memories.weighted import (
    GradientMemory,
    StepRecall,
    WeightedScores,
    joint,
    judge_scores,
    judge_step,
)

Row = dict[str, Any]


def row(cell: Any, **result: Any) -> Row:
    return {"kind": cell.kind, **cell.spec, **result}


def scores(slope: float = 1.0, noise: float = 1.0, error: float = 1e-3, *, step: bool = False) -> list[Row]:
    cell = WeightedScores(N=6, M=8, d=8, n_draws=9, step=step)
    return [row(cell, slope=[slope, error], noise=[noise, error])]


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


def test_claims_are_the_lecture_s() -> None:
    for id in ("weighted-memory", "gradient-memory", "two-inputs"):
        assert claim(id).place == "slides"

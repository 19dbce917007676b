"""Two inputs at once: the judge on rows that follow what is stated, on broken ones, and on noise."""

import math
from typing import Any

import numpy as np
import pytest

from facthold.studies.memories.pairs import (
    PairCapacity,
    PairMargins,
    Xor,
    _separable,
    grid_pairs,
    judge_pairs,
    pair_problem,
)
from facthold.theory.bounds import guide
from facthold.theory.weighted import pair_kernels

Row = dict[str, Any]


def row(cell: Any, **result: Any) -> Row:
    return {"kind": cell.kind, **cell.spec, **result}


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
        each = {"status": "found", "refused": 2 * N}
        per_seed = [each | {"seed": s, "stored": N * math.exp(s * noise * (-1) ** i)} for s in (-1, 1)]
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
    rows[-1]["per_seed"][0]["status"] = "search ceiling"
    assert judge_pairs(rows).verdict == "fails"


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

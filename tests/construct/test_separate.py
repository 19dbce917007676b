"""Separation by any linear memory: what is decided against linear programming, and each proof by itself."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import linprog

from facthold.construct import separate as module
from facthold.construct.separate import INSEPARABLE, NO_MARGIN, SEPARATED, UNDECIDED, Separator, separate, separated
from facthold.measure.recall import accuracy
from facthold.memory.associations import Problem, seeded_problem


def constraints(problem: Problem) -> np.ndarray:
    """All a_xy = (u_f(x) - u_y) e_x^T, flat, with y != f(x)."""
    E, U, targets = problem.host(np.float64)
    f = np.asarray(problem.f)
    pairs = ((x, y) for x, y in itertools.product(range(problem.N), range(problem.M)) if y != f[x])
    return np.array([np.outer(targets[x] - U[y], E[x]).ravel() for x, y in pairs])


def feasible(problem: Problem) -> bool:
    A = constraints(problem)
    return linprog(np.zeros(A.shape[1]), -A, -np.ones(len(A)), bounds=(None, None)).status == 0


@pytest.mark.parametrize(
    ("d", "sizes", "M"), [(3, range(3, 11), None), (4, range(6, 13), None), (4, range(6, 17, 2), 3)]
)
def test_decisions_are_those_of_linear_programming(d: int, sizes: range, M: int | None) -> None:
    decided = 0
    for N, seed in itertools.product(sizes, (0, 1)):
        problem = seeded_problem(N, seed, d, M, map="mod" if M else "identity")
        status = separate(problem).status
        assert status in (SEPARATED, INSEPARABLE, UNDECIDED)
        if status != UNDECIDED:
            decided += 1
            assert (status == SEPARATED) == feasible(problem), (N, seed)
    assert decided >= 0.9 * 2 * len(sizes)


def test_a_separating_matrix_recalls_all() -> None:
    problem = seeded_problem(55, 0, 16)
    found = separate(problem)
    assert found.status == SEPARATED
    margins = constraints(problem) @ found.W.ravel()
    assert margins.min() > 0
    assert found.margin * np.linalg.norm(found.W) * 2 == pytest.approx(margins.min(), rel=1e-6)
    assert found.recalled == 1
    assert found.bound >= found.margin  # what bounds every margin bounds this one
    assert accuracy(separated(problem), problem) == 1


def test_a_certificate_can_be_made_exact() -> None:
    """The violations at the end are a combination that nearly vanishes. A change of them that is smaller than each of
    the larger ones makes it vanish: Gordan's theorem then says that there is no W."""
    problem = seeded_problem(40, 0, 8)
    found = separate(problem)
    assert found.status == INSEPARABLE
    assert found.bound <= NO_MARGIN
    A = constraints(problem)
    violation = np.maximum(0, 1 - A @ found.W.ravel())
    used = violation > 1e-3
    change = -np.linalg.lstsq(A[used].T, A.T @ violation, rcond=None)[0]
    exact = violation.copy()
    exact[used] += change
    assert exact.min() >= 0
    assert np.linalg.norm(A.T @ exact) < 1e-12 * exact.sum()


def test_no_matrix_has_a_margin_above_the_bound() -> None:
    problem = seeded_problem(60, 1, 16)
    found, A = separate(problem, products=30), constraints(problem)
    assert found.status == UNDECIDED
    better = separate(problem)
    assert better.status == SEPARATED
    unit = A / np.linalg.norm(A, axis=1, keepdims=True)
    assert (unit @ better.W.ravel()).min() / np.linalg.norm(better.W) <= found.bound


@pytest.mark.parametrize("block", [1 << 21, 50])
def test_pairs_and_sums_are_those_of_all_scores(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", block)
    monkeypatch.setattr(module, "GATHERED", block)
    problem = seeded_problem(12, 0, 5, 7, map="mod")
    W = 2 * np.random.default_rng(0).standard_normal((5, 5))
    on, A = Separator(problem), constraints(problem)
    pairs, violation = on.pairs(W), 1 - A @ W.ravel()
    active = violation > 0
    assert_allclose(pairs.violation, violation[active], rtol=1e-9)
    assert pairs.least == pytest.approx(1 - violation.max())
    assert_allclose(on.combined(pairs).ravel(), violation[active] @ A[active], atol=1e-9)
    assert_allclose(on.lengths(pairs), np.linalg.norm(A[active], axis=1), rtol=1e-9)
    G = on.combined(pairs)
    P, n = on.step(pairs, G, 1e-4, 200)
    assert n > 1
    H = A[active].T @ A[active]
    assert np.linalg.norm(H @ P.ravel() - G.ravel()) < 1e-3 * np.linalg.norm(G)


def test_few_products_decide_nothing_near_the_threshold() -> None:
    assert separate(seeded_problem(67, 1, 16), products=0).status == UNDECIDED
    assert separate(seeded_problem(4, 0, 16), products=0).status == SEPARATED  # the outer product does


def test_a_start_that_separates_needs_no_step() -> None:
    problem = seeded_problem(55, 0, 16)
    again = separate(problem, separate(problem).W)
    assert (again.status, again.steps) == (SEPARATED, 0)


def test_what_is_separable_stays_so_with_fewer() -> None:
    """Of one seed, the associations of N are among those of N + 1."""
    found = separate(seeded_problem(60, 0, 16))
    fewer = separate(seeded_problem(50, 0, 16), found.W)
    assert found.status == fewer.status == SEPARATED
    assert fewer.steps == 0

"""Two outputs in the plane: against many directions, a linear program, another solver, and three tokens by hand."""

import numpy as np
import pytest
from scipy.optimize import brentq, linprog, minimize

from facthold.theory.plane import best_direction, least_cross_entropy, mass, separable


def drawn(seed: int, N: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(seed).standard_normal((N, 2))
    p = 1 / np.arange(1.0, N + 1)
    return x / np.linalg.norm(x, axis=1, keepdims=True), p / p.sum()


@pytest.mark.parametrize("N", [1, 3, 30])
def test_no_direction_has_more_right(N: int) -> None:
    turns = np.linspace(0, 2 * np.pi, 20_001)
    for seed in range(10):
        x, p = drawn(seed, N)
        w = best_direction(x, p)
        assert np.linalg.norm(w) == pytest.approx(1)
        tried = ((x @ np.stack([np.cos(turns), np.sin(turns)]) > 0) * p[:, None]).sum(axis=0)
        assert mass(w, x, p) == pytest.approx(tried.max())


def test_separable_is_what_a_linear_program_says() -> None:
    said = []
    for seed in range(40):
        x, _ = drawn(seed, 3)
        said.append(separable(x))
        assert said[-1] == (linprog(np.zeros(2), -x, -np.ones(3), bounds=(-1e6, 1e6)).status == 0)
    assert {*said} == {True, False}


def test_the_minimum_is_that_of_another_solver() -> None:
    for seed in range(10):
        x, p = drawn(seed, 30)
        w = least_cross_entropy(x, p)
        found = minimize(lambda w, x=x, p=p: p @ np.logaddexp(0, -(x @ w)), np.zeros(2), tol=1e-12)
        np.testing.assert_allclose(w, found.x, atol=1e-4)
        assert np.abs((p / (1 + np.exp(x @ w))) @ x).max() < 1e-11


def test_three_tokens_by_hand() -> None:
    """Where beta_z > 0 have sum beta_z x_z = 0, the pulls p_z sigma(-m_z) are kappa beta_z at the minimum, with
    sum beta_z m_z = 0: one equation for kappa. So z is right where kappa beta_z < p_z / 2."""
    tried = 0
    for seed in range(40):
        x, p = drawn(seed, 3)
        if separable(x):
            continue
        beta = np.abs(np.linalg.svd(x.T)[2][-1])
        kappa = brentq(
            lambda k, p=p, beta=beta: beta @ np.log(p / (k * beta) - 1), 1e-12, (p / beta).min() * (1 - 1e-12)
        )
        w = least_cross_entropy(x, p)
        np.testing.assert_allclose(x @ w, np.log(p / (kappa * beta) - 1), rtol=1e-6, atol=1e-8)
        assert mass(w, x, p) == pytest.approx(p[kappa * beta < p / 2].sum())
        assert mass(best_direction(x, p), x, p) == pytest.approx(9 / 11)  # all but the rarest
        tried += 1
    assert tried > 4


def test_there_is_no_minimum_where_all_can_be_right() -> None:
    with pytest.raises(ValueError, match="there is no minimum"):
        least_cross_entropy(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0.5, 0.5]))

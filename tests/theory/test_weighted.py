"""Moments of the lecture's memories: against the sum term by term, the margins of theorem 1, and draws."""

import numpy as np
import pytest

from facthold.theory.bounds import score_variance
from facthold.theory.weighted import pair_kernels, weighted_variance


def sphere(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    rows = rng.standard_normal((n, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_variances_are_those_of_the_terms() -> None:
    """One factor 1/d for each side on which a term differs."""
    rng, d = np.random.default_rng(0), 7
    alpha = rng.normal(size=(4, 5))
    variance = weighted_variance(alpha, d)
    for z, y in np.ndindex(alpha.shape):
        terms = [alpha[i, j] ** 2 * d ** -float((i != z) + (j != y)) for i, j in np.ndindex(alpha.shape)]
        assert variance[z, y] == pytest.approx(sum(terms) - alpha[z, y] ** 2)


def test_equal_weights_are_theorem_1() -> None:
    """A wrong output that belongs to another input, f*(x) = x."""
    assert weighted_variance(np.eye(9), 16)[0, 1] == pytest.approx(score_variance(9, 16))


@pytest.mark.parametrize("d", [8, 32])
def test_pair_kernels_against_draws(d: int) -> None:
    rng, n = np.random.default_rng(d), 100_000
    e, e_1, e_2 = (sphere(rng, n, d) for _ in range(3))
    x, shares = (e + e_1) / 2**0.5, (e + e_2) / 2**0.5
    norm = np.linalg.norm(x, axis=1)
    for name, other in (("all", x), ("one", shares)):
        inner = (x * other).sum(axis=1)
        degree_2 = inner**2 / norm + norm * ((other**2).sum(axis=1) - 1)
        for kernel, exact in zip((inner, degree_2), pair_kernels(d)[name], strict=True):
            assert abs(kernel.mean() - exact) < 4 * kernel.std() / n**0.5


def test_the_degree_2_kernel_is_that_of_relu() -> None:
    """E[relu(w^T x) h_2(w^T y)] / c_2 over w, for inputs that are not of unit length."""
    rng, n = np.random.default_rng(1), 400_000
    x, y = np.array([1.1, 0.2, 0.0]), np.array([0.3, 0.9, 0.4])
    w = rng.standard_normal((n, 3))
    drawn = np.maximum(w @ x, 0) * ((w @ y) ** 2 - 1) / 2**0.5 / (1 / (2 * np.pi**0.5))
    norm = np.linalg.norm(x)
    exact = (x @ y) ** 2 / norm + norm * (y @ y - 1)
    assert abs(drawn.mean() - exact) < 4 * drawn.std() / n**0.5

"""Capacities from the noise on scores: against exact counts, draws and limits."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import comb

from facthold.theory import bounds


@pytest.mark.parametrize("d", [2, 5, 16])
def test_cover_moments_are_those_of_covers_count(d: int) -> None:
    N = np.arange(1, 40 * d)
    separable = np.array([2.0 ** (1 - n) * sum(comb(n - 1, k) for k in range(d)) for n in N])
    mean = separable.sum()  # E[N*] = sum of P(N* >= N)
    variance = ((2 * N - 1) * separable).sum() - mean**2
    assert_allclose(bounds.cover(d), (mean, math.sqrt(variance)), rtol=1e-9)


def test_level_is_the_median_of_a_maximum() -> None:
    draws = np.random.default_rng(0).standard_normal((4000, 30)).max(axis=1)
    share = (draws < bounds.level(30)).mean()
    assert abs(share - 0.5) < 4 * 0.5 / math.sqrt(4000)
    assert_allclose(bounds.level(1, 0.99), 2.3263478740408408, rtol=1e-9)


@pytest.mark.parametrize("m", [0, 24])
def test_score_variance_against_draws(m: int) -> None:
    """The score of output 1 at input 0, over independent embeddings (and v_i); terms of order 1/(m d) are left out."""
    N, d, n = 6, 48, 4000
    generator = np.random.default_rng(1)
    E, U = (rows / np.linalg.norm(rows, axis=-1, keepdims=True) for rows in generator.standard_normal((2, n, N, d)))
    V = generator.standard_normal((n, m, d)) if m else None
    seen = E[:, 0] if V is None else np.einsum("nmd,nm->nd", V, np.einsum("nmd,nd->nm", V, E[:, 0])) / m
    scores = np.einsum("nzd,nd,nze,ne->n", U, U[:, 1], E, seen, optimize=True)
    error = scores.var() * math.sqrt(((scores**4).mean() / scores.var() ** 2 - 1) / n)
    left_out = 4 / (m * d) if m else 0.0
    assert abs(scores.var() - bounds.score_variance(N, d, m)) < 4 * error + left_out


def test_laws_have_the_theorems_growth() -> None:
    """2 N ln N = d^2, and at rank m = d half of it: z(n)^2 / (2 ln n) tends to 1, slowly."""
    d = 10**7
    N = bounds.half_recall(d)
    assert_allclose(N * bounds.level(N - 1) ** 2, d**2, rtol=1e-3)
    assert_allclose(2 * N * math.log(N) / d**2, 1, rtol=0.15)
    low = bounds.half_recall(d, d)
    assert_allclose(low * bounds.level(low - 1) ** 2, d**2 / 2, rtol=1e-3)
    assert_allclose(bounds.two_outputs(d) / d, 0.18478, rtol=1e-3)
    assert 2 * math.log(d) * bounds.half_exact(d) / d < 1.25


def test_laws_refuse_what_has_no_meaning() -> None:
    with pytest.raises(ValueError, match="share=1"):
        bounds.level(3, 1.0)
    with pytest.raises(ValueError, match="d=0"):
        bounds.half_recall(0)

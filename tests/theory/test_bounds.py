"""Predictions against brute force, Monte Carlo and their own inverses."""

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from facthold.theory.bounds import (
    LINEAR_CONSTANT,
    MLP_CONSTANT,
    bits_injective,
    bits_uniform,
    capacity_in_bits,
    guide,
    guide_constant,
    margin_variance,
)


@pytest.mark.parametrize("N", range(5))
@pytest.mark.parametrize("M", [4, 5, 6])
def test_bits_tell_apart_all_maps(N: int, M: int) -> None:
    assert_allclose(bits_injective(N, M), math.log2(sum(1 for _ in itertools.permutations(range(M), N))), atol=1e-12)
    assert_allclose(bits_uniform(N, M), math.log2(sum(1 for _ in itertools.product(range(M), repeat=N))), atol=1e-12)


def test_injective_maps_of_large_sizes() -> None:
    N = 10**6
    assert_allclose(bits_injective(N, N), sum(np.log2(np.arange(1, N + 1))), rtol=1e-10)
    assert bits_injective(N, 2 * N) < bits_uniform(N, 2 * N)


@pytest.mark.parametrize("M", [2, 3, 10])
def test_bits_at_an_accuracy_against_blahut_arimoto(M: int) -> None:
    """The rate-distortion function by its definition: least mutual information at this error share."""
    slope = 2.5
    joint = np.exp(-slope * (1 - np.eye(M)))  # the optimal channel of a uniform source at this slope: symmetric
    channel = joint / joint.sum(axis=1, keepdims=True)
    information = np.mean(np.sum(channel * np.log2(channel * M), axis=1))
    assert_allclose(bits_uniform(7, M, accuracy=float(channel[0, 0])), 7 * information, rtol=1e-12)


def test_bits_vanish_at_chance_and_grow_with_accuracy() -> None:
    assert bits_uniform(10, 4, accuracy=0.25) == bits_uniform(10, 4, accuracy=0.0) == 0
    assert bits_uniform(10, 1) == 0
    grid = [bits_uniform(10, 4, accuracy=a) for a in np.linspace(0.25, 1, 20).tolist()]
    assert (np.diff(grid) > 0).all()
    assert grid[-1] == pytest.approx(20)


@pytest.mark.parametrize("B", [0.0, 0.5, 6.92, 100.0, 12345.6])
def test_capacity_is_the_largest_that_fits(B: float) -> None:
    for bits in (lambda N: bits_injective(N, N), lambda N: bits_uniform(N, 32), lambda N: N + 1.0):
        brute = max((N for N in range(1, 13000) if bits(N) <= B), default=0)
        assert capacity_in_bits(bits, B) == brute


SHARING = {  # f* and y for x = 0, with the number of z != x whose output is f*(x) or y
    "in the image": ([0, 1, 2, 3, 4, 5], 1, 1),
    "outside the image": ([0, 1, 2, 3, 4, 5], 6, 0),
    "mod 2": ([0, 1, 0, 1, 0, 1], 1, 5),
}


@pytest.mark.parametrize("case", SHARING)
def test_margin_moments_against_monte_carlo(case: str) -> None:
    f, y, sharing = SHARING[case]
    n, N, M, d = 40_000, 6, 7, 5
    rng = np.random.default_rng(0)
    E, U = rng.standard_normal((n, N, d)), rng.standard_normal((n, M, d))
    E, U = (rows / np.linalg.norm(rows, axis=2, keepdims=True) for rows in (E, U))
    a = np.einsum("nd,nzd->nz", U[:, f[0]] - U[:, y], U[:, f])
    b = np.einsum("nd,nzd->nz", E[:, 0], E)
    gamma = np.sum(a * b, axis=1)
    assert abs(gamma.mean() - 1) < 4 * gamma.std() / math.sqrt(n)
    variance = gamma.var()
    sem = math.sqrt((np.mean((gamma - gamma.mean()) ** 4) - variance**2) / n)
    assert abs(variance - margin_variance(N, d, sharing)) < 4 * sem


def test_margin_variance_is_the_papers() -> None:
    for N, d in [(2, 3), (100, 16)]:
        assert margin_variance(N, d) == pytest.approx(2 / d + 1 / d**2 + 2 * (N - 2) / d**2)
        assert margin_variance(N, d, sharing=0) == pytest.approx(1 / d + 2 * (N - 1) / d**2)


def test_guide_lines_pass_through_their_sizes() -> None:
    for d in (8, 64):
        for constant, size in ((LINEAR_CONSTANT, d**2), (MLP_CONSTANT, 4 * d**2)):
            N = guide(size, constant)
            assert constant * N * math.log(N) == pytest.approx(size)
        assert guide_constant(guide(d**2, 0.7), d**2) == pytest.approx(0.7)
    assert guide(0, 1) == 1  # N ln N = 0 at N = 1


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="N=5: an injective map"):
        bits_injective(5, 4)
    with pytest.raises(ValueError, match="accuracy=2"):
        bits_uniform(5, 4, accuracy=2.0)
    with pytest.raises(ValueError, match="M=0"):
        bits_uniform(5, 0)
    with pytest.raises(ValueError, match="B=inf"):
        capacity_in_bits(float, math.inf)
    with pytest.raises(ValueError, match="sharing=6"):
        margin_variance(6, 3, sharing=6)
    with pytest.raises(ValueError, match="constant=0"):
        guide(1, 0)
    with pytest.raises(ValueError, match="N=1"):
        guide_constant(1, 10)

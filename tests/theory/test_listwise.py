"""The law of the listwise criterion against oracles."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import nnls

from facthold.theory import listwise
from facthold.theory.sharp import active_rivals, projection_squared


def test_a_tail_of_one_is_the_largest_rival() -> None:
    g = np.random.default_rng(0).standard_normal((30, 12))
    ours = listwise.tail_distance_squared(g[:, 0], g[:, 1:], 1)
    assert ours == pytest.approx([projection_squared(row) for row in g], abs=1e-7)


@pytest.mark.parametrize("k", [2, 3])
def test_distance_is_that_to_the_polar_of_all_tails(k: int) -> None:
    """The answer is above the mean of the k largest if it is above that of every k rivals."""
    m, generator = 6, np.random.default_rng(k)
    subsets = list(itertools.combinations(range(m), k))
    polar = np.zeros((m + 1, len(subsets)))
    polar[0] = -1
    for i, subset in enumerate(subsets):
        polar[1 + np.array(subset), i] = 1 / k
    for _ in range(20):
        g = generator.standard_normal(m + 1)
        ours = listwise.tail_distance_squared(g[:1], g[None, 1:], k)[0]
        assert ours == pytest.approx(g @ g - nnls(polar, g)[1] ** 2, abs=1e-7)


def test_constant_is_the_mean_square_below_the_tail() -> None:
    g = np.sort(np.random.default_rng(1).standard_normal(400_000))
    h = listwise.tail_mean(0.1)
    assert h == pytest.approx(g[-40_000:].mean(), abs=0.01)
    squares = np.maximum(0, h - g) ** 2
    assert listwise.listwise_constant(0.1) == pytest.approx(squares.mean(), abs=4 * squares.std() / math.sqrt(len(g)))


def test_draws_have_the_means_that_are_known() -> None:
    one = listwise.tail_rivals(20, 1, 2000, np.random.default_rng(2))
    assert one.mean == pytest.approx(active_rivals(20), abs=4 * one.error)
    many = listwise.tail_rivals(4001, 400, 200, np.random.default_rng(3))
    assert many.mean == pytest.approx(listwise.listwise_constant(0.1), rel=0.03)


def test_the_threshold_solves_the_law() -> None:
    N, error = listwise.listwise_separable(16, 0.1, 400, 0)
    again = listwise.tail_rivals(round(N), listwise.tail_size(0.1, round(N) - 1), 2000, np.random.default_rng(9))
    assert N * again.mean == pytest.approx(256, abs=4 * 256 * math.hypot(error / N, again.error / again.mean) + 6)


def test_a_share_is_below_one() -> None:
    with pytest.raises(ValueError, match="share=1"):
        listwise.tail_mean(1)
    assert listwise.tail_size(0.1, 3) == 1

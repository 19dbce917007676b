"""The law of the listwise criterion against oracles."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import nnls

from facthold.theory import listwise
from facthold.theory.sharp import active_rivals, projection_squared, sphere_draw, sphere_rivals


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
    d, (N, error) = 16, listwise.listwise_separable(16, 0.1, 300, 0)
    k = listwise.tail_size(0.1, round(N) - 1)
    ideal = listwise.tail_rivals(round(N), k, 2000, np.random.default_rng(9))
    part = listwise.sphere_share(d, round(N), k, 600, np.random.default_rng(8))
    off = math.hypot(error / N, ideal.error / ideal.mean, part.error / part.mean)
    assert N * ideal.mean * part.mean == pytest.approx(d * d, rel=4 * off + 0.03)


def test_a_share_is_below_one() -> None:
    with pytest.raises(ValueError, match="share=1"):
        listwise.tail_mean(1)
    assert listwise.tail_size(0.1, 3) == 1


def test_finite_dimensions_have_the_distance_to_all_tails() -> None:
    """The generators that are added are enough: the same as with one for every two rivals."""
    generator = np.random.default_rng(4)
    for _ in range(10):
        U, h, _ = sphere_draw(5, 7, generator)
        polar = np.array([(U[i] + U[j]) / 2 - U[0] for i, j in itertools.combinations(range(1, 7), 2)]).T
        ours = listwise._sphere_distance_squared(U, h, 2)
        assert ours == pytest.approx(h @ h - nnls(polar, h)[1] ** 2, abs=1e-7)


def test_a_tail_of_one_is_the_law_of_the_largest_rival_at_finite_d() -> None:
    d, N = 8, 20
    share = listwise.sphere_share(d, N, 1, 600, np.random.default_rng(5))
    other = sphere_rivals(d, N, 1000, np.random.default_rng(6))
    error = math.hypot(share.error, other.error / active_rivals(N))
    assert share.mean == pytest.approx(other.mean / active_rivals(N), abs=4 * error)


def test_scores_of_the_sphere_become_normal() -> None:
    generator = np.random.default_rng(7)
    g = np.concatenate([sphere_draw(4, 5, generator)[2] for _ in range(4000)])
    assert abs(g.mean()) < 4 / math.sqrt(len(g))
    assert (g**2).mean() == pytest.approx(1, abs=0.1)

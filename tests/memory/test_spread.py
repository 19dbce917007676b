"""Embeddings that are spread evenly: orthonormal while they fit, tight frames beyond, none nearer than random ones."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

from facthold.facts.problem import factual_recall
from facthold.facts.table import random_table
from facthold.measure.overlaps import overlaps
from facthold.memory.embeddings import embed
from facthold.memory.spread import MOST, spread_rows
from facthold.theory.bounds import welch

KEY = jax.random.key(5)
SIZES = [(9, 8), (20, 16), (64, 16), (128, 6), (200, 24)]


@pytest.mark.parametrize(("n", "d"), [(1, 1), (3, 5), (8, 8)])
def test_rows_that_fit_are_orthonormal(n: int, d: int) -> None:
    rows = spread_rows(n, d, np.random.default_rng(1))
    assert_allclose(rows @ rows.T, np.eye(n), atol=1e-12)


@pytest.mark.parametrize(("n", "d"), SIZES)
def test_more_rows_are_a_tight_frame_and_meet_the_bound_of_welch(n: int, d: int) -> None:
    rows = spread_rows(n, d, np.random.default_rng(2))
    assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-12)
    assert_allclose(rows.T @ rows, n / d * np.eye(d), atol=2e-3 * n / d)
    squares = ((rows @ rows.T) ** 2).sum()
    assert squares >= n**2 / d * (1 - 1e-12)
    assert squares == pytest.approx(n**2 / d, rel=1e-5)
    assert overlaps(rows).mean == pytest.approx(d * welch(n, d), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(("n", "d"), SIZES)
def test_no_two_are_as_near_as_among_random_rows(n: int, d: int) -> None:
    """Welch's bound is below the largest overlap of any rows; random ones are far from it."""
    for seed in range(3):
        even = overlaps(spread_rows(n, d, np.random.default_rng(seed))).largest
        random = overlaps(np.random.default_rng(seed).standard_normal((n, d))).largest
        assert np.sqrt(welch(n, d)) <= even < 0.85 * random


def test_a_simplex_is_found() -> None:
    """d + 1 rows can have the same overlap, 1/d, with each other: Welch's bound for the largest is met."""
    assert overlaps(spread_rows(9, 8, np.random.default_rng(0))).largest == pytest.approx(1 / 8, rel=0.02)


@pytest.mark.parametrize(("n", "d"), [(2, 1), (5, 1)])
def test_one_dimension_has_two_directions(n: int, d: int) -> None:
    assert_allclose(np.abs(spread_rows(n, d, np.random.default_rng(0))), 1)


def test_they_have_a_name_and_depend_on_the_key() -> None:
    first, again, other = (np.asarray(embed("spread", 12, 5, key=k)) for k in (KEY, KEY, jax.random.key(6)))
    assert_allclose(first, again)
    assert np.abs(first - other).max() > 0.1
    with pytest.raises(ValueError, match=f"n={MOST + 1} rows are too many to spread"):
        embed("spread", MOST + 1, 2, key=KEY)


def test_all_tokens_of_a_prompt_are_spread_together() -> None:
    """Those of each kind by itself would not know of the others."""
    problem = factual_recall(random_table(6, 3, 2, key=KEY), 8, key=KEY, embeddings="spread", n_noise=4)
    n = len(problem.phi)
    assert overlaps(problem.phi).mean == pytest.approx(8 * welch(n, 8), rel=1e-3)
    assert problem.drawing is None


@pytest.mark.parametrize(("n", "d", "least"), [(1, 4, 0.0), (4, 4, 0.0), (5, 4, 1 / 16), (2, 1, 1.0)])
def test_the_bound_of_welch_by_hand(n: int, d: int, least: float) -> None:
    assert welch(n, d) == pytest.approx(least)
    with pytest.raises(ValueError, match="d=0"):
        welch(3, 0)


def test_random_rows_have_overlaps_of_one_over_d() -> None:
    X = np.random.default_rng(3).standard_normal((400, 16)) * np.arange(1, 401)[:, None]  # lengths do not count
    found = overlaps(X)
    assert found.mean == pytest.approx(1.0, abs=4 * np.sqrt(2 / (400 * 399 / 2)))
    assert (found.n, found.d) == (400, 16)
    assert np.isnan(overlaps(X[:1]).mean)
    assert np.isnan(overlaps(np.full((3, 2), np.nan)).largest)

"""Embeddings: norms, nesting and independence."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from facthold.construct.mlp import inner_product_moment
from facthold.memory.embeddings import embed

KEY = jax.random.key(3)


def test_sphere_has_unit_rows() -> None:
    norms = np.linalg.norm(np.asarray(embed("sphere", 500, 24, key=KEY), np.float64), axis=1)
    assert_allclose(norms, 1, atol=24 * np.finfo(np.float32).eps)


@pytest.mark.parametrize("kind", ["sphere", "gaussian"])
def test_a_longer_table_begins_with_the_shorter_one(kind: str) -> None:
    assert_array_equal(embed(kind, 40, 7, key=KEY)[:13], embed(kind, 13, 7, key=KEY))


@pytest.mark.parametrize("kind", ["sphere", "gaussian"])
def test_other_keys_give_other_rows(kind: str) -> None:
    rows = [np.asarray(embed(kind, 10, 7, key=k)) for k in (KEY, *jax.random.split(KEY))]
    assert not any(np.isin(a, b).any() for a, b in [(rows[0], rows[1]), (rows[0], rows[2]), (rows[1], rows[2])])


def test_gaussian_rows_have_squared_norm_one_on_average() -> None:
    n, d = 4000, 16
    squared = np.square(np.asarray(embed("gaussian", n, d, key=KEY))).sum(axis=1)  # chi-squared(d) / d
    assert abs(squared.mean() - 1) < 4 * np.sqrt(2 / d / n)
    spread = squared.std() / np.sqrt(n)
    assert abs(squared.mean() - 1) < 4 * spread
    fourth = np.mean((squared - 1) ** 4)
    assert abs(squared.var() - 2 / d) < 4 * np.sqrt((fourth - squared.var() ** 2) / n)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_inner_products_on_the_sphere(p: int) -> None:
    """The exact moment against a Monte Carlo, and lemma 12's bound above it."""
    n, d = 20_000, 10
    u, v = (np.asarray(embed("sphere", n, d, key=k)) for k in jax.random.split(KEY))
    powers = np.sum(u * v, axis=1) ** (2 * p)
    assert abs(powers.mean() - inner_product_moment(d, p)) < 4 * powers.std() / np.sqrt(n)
    assert inner_product_moment(d, p) <= (2 * p) ** p * d**-p


@pytest.mark.parametrize("d", [1, 2, 64])
def test_lemma_12_holds_at_every_degree(d: int) -> None:
    for p in range(12):
        assert inner_product_moment(d, p) <= (2 * p) ** p * float(d) ** -p


def test_orthogonal_rows() -> None:
    rows = embed("orthogonal", 3, 5, key=KEY)
    assert_array_equal(rows @ rows.T, jnp.eye(3))
    with pytest.raises(ValueError, match="n=6 orthogonal rows do not fit in d=5"):
        embed("orthogonal", 6, 5, key=KEY)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="did you mean 'sphere'"):
        embed("spheer", 3, 3, key=KEY)
    with pytest.raises(ValueError, match="n=0"):
        embed("sphere", 0, 3, key=KEY)
    with pytest.raises(ValueError, match="d=0"):
        embed("gaussian", 3, 0, key=KEY)

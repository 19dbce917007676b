"""Directions without size: signs, and polar factors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from facthold.train.directions import polar, polar_factor, signs
from facthold.train.engine import _optimiser
from facthold.train.protocols import Protocol


@pytest.mark.parametrize("shape", [(5, 5), (4, 7), (7, 4)])
def test_a_polar_factor_is_orthogonal_and_the_nearest(shape: tuple[int, int]) -> None:
    G = jax.random.normal(jax.random.key(0), shape)
    P = polar_factor(G)
    gram = P @ P.T if shape[0] <= shape[1] else P.T @ P
    np.testing.assert_allclose(gram, np.eye(min(shape)), atol=1e-5)
    np.testing.assert_allclose((P * G).sum(), np.linalg.svd(G, compute_uv=False).sum(), rtol=1e-5)  # the nuclear norm


def test_what_rounding_made_of_0_stays_0() -> None:
    u, v = jnp.arange(1.0, 5.0), jnp.arange(2.0, 5.0)
    P = polar_factor(jnp.outer(u, v) * 1e-9)
    np.testing.assert_allclose(P, np.outer(u, v) / np.linalg.norm(u) / np.linalg.norm(v), atol=1e-6)
    assert not polar_factor(jnp.zeros((3, 3))).any()
    assert not polar_factor(jnp.zeros(3)).any()


def test_a_vector_is_divided_by_its_length() -> None:
    np.testing.assert_allclose(polar_factor(jnp.array([3.0, 4.0])), [0.6, 0.8], rtol=1e-6)


def test_every_array_of_a_tree_has_its_own_direction() -> None:
    tree = {"matrix": jnp.diag(jnp.array([2.0, -3.0])), "vector": jnp.array([0.0, -5.0])}
    for make, matrix in ((signs, [[1, 0], [0, -1]]), (polar, [[1, 0], [0, -1]])):
        made = make()
        update, state = made.update(tree, made.init(tree))
        np.testing.assert_allclose(update["matrix"], matrix, atol=1e-6)
        np.testing.assert_allclose(update["vector"], [0, -1], atol=1e-6)
        assert state == made.init(tree)


@pytest.mark.parametrize("name", ["sign", "muon"])
def test_the_engine_knows_them(name: str) -> None:
    optimiser = _optimiser(Protocol("x", "a test", name, lr=1.0, steps=1, check_every=1))
    update, _ = optimiser.update(jnp.diag(jnp.array([2.0, -3.0])), optimiser.init(jnp.zeros((2, 2))))
    np.testing.assert_allclose(update, [[1, 0], [0, -1]], atol=1e-6)

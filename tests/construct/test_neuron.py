"""Neurons of its own: on at one fact, off at all others."""

import jax
import numpy as np
import pytest

from facthold.construct.neuron import Bump, bump, winning, with_bump
from facthold.models.transformer import Transformer


@pytest.mark.parametrize("n", [1, 2, 40, 400])
def test_a_point_is_parted_from_random_others_by_one_neuron(n: int) -> None:
    """In 30 dimensions each of some hundred random points is a corner of their hull."""
    x = np.random.default_rng(n).standard_normal((n, 30))
    for row in range(min(n, 20)):
        found = bump(x, np.array([row]), np.delete(np.arange(n), row))
        assert found is not None
        assert len(found.b) == 1
        assert found(x)[row] == pytest.approx(1)
        assert (np.delete(found(x), row) == 0).all()


def test_a_point_among_the_others_gets_a_tent() -> None:
    """In 3 dimensions most of 60 points lie inside the hull of the others: no threshold has one alone on its side."""
    x = np.random.default_rng(0).standard_normal((60, 3))
    tents = 0
    for row in range(60):
        found = bump(x, np.array([row]), np.delete(np.arange(60), row))
        if found is None:  # another point stands too near to it on the one direction that is tried
            continue
        tents += len(found.b) == 4
        values = found(x)
        assert values[row] == pytest.approx(1)
        assert np.abs(np.delete(values, row)).max() < 1e-9 * (1 + np.abs(x @ found.w).max())
    assert tents > 20


def test_several_prompts_of_one_fact_are_all_on() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 20))
    x = np.concatenate([x, x[[7]] + 0.05 * rng.standard_normal((5, 20))])
    edited = np.array([7, *range(60, 65)])
    found = bump(x, edited, np.setdiff1d(np.arange(len(x)), edited))
    assert found is not None
    assert found(x)[edited].min() == pytest.approx(1)
    assert (np.delete(found(x), edited) == 0).all()


def test_the_same_point_twice_is_not_parted() -> None:
    x = np.random.default_rng(0).standard_normal((50, 4))
    x[1] = x[0]
    assert bump(x, np.array([0]), np.arange(1, 50)) is None


def test_winning_is_by_mu_and_no_more() -> None:
    rng = np.random.default_rng(0)
    U, F = rng.standard_normal((30, 8)), rng.standard_normal((5, 8))
    U /= np.linalg.norm(U, axis=1, keepdims=True)
    scores = (F + winning(F, U, 3, 2.0)) @ U.T
    margins = scores[:, 3] - np.delete(scores, 3, axis=1).max(axis=1)
    assert margins.min() == pytest.approx(2.0)


def test_idle_neurons_are_used_before_more_are_added() -> None:
    model = Transformer.init(4, 2, 2, 3, key=jax.random.key(0), bias=True)
    one, v = Bump(np.arange(4.0), np.array([-1.0]), np.ones(1)), np.ones(4)
    used, added = with_bump(model, one, v, np.array([1])), with_bump(model, one, v, None)
    assert (used.m, added.m) == (3, 4)
    np.testing.assert_array_equal(used.mlp.W[1], one.w)
    np.testing.assert_array_equal(np.asarray(used.mlp.V)[[0, 2]], np.asarray(model.mlp.V)[[0, 2]])
    np.testing.assert_array_equal(added.mlp.V[:3], model.mlp.V)
    assert added.mlp.b[3] == -1.0


def test_attention_alone_gets_an_mlp() -> None:
    model = Transformer.init(4, 2, 2, key=jax.random.key(0))
    assert with_bump(model, Bump(np.ones(4), np.zeros(1), np.ones(1)), np.ones(4), None).m == 1

"""A neuron of its own: on at one fact, off at all others."""

import jax
import numpy as np
import pytest

from facthold.knowledge.neuron import Neuron, idle, parting_neuron, with_neuron
from facthold.models.transformer import Transformer


@pytest.mark.parametrize("n", [1, 2, 40, 400])
def test_a_point_is_parted_from_random_others(n: int) -> None:
    """In 30 dimensions each of some hundred random points is a corner of their hull."""
    x = np.random.default_rng(n).standard_normal((n, 30))
    for row in range(min(n, 20)):
        neuron = parting_neuron(x, np.array([row]), np.delete(np.arange(n), row))
        assert neuron is not None
        z = x @ neuron.w + neuron.b
        assert z[row] >= neuron.least * (1 - 1e-9) > 0
        assert (np.delete(z, row) < 0).all()


def test_several_prompts_of_one_fact_are_all_on() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 20))
    x = np.concatenate([x, x[[7]] + 0.05 * rng.standard_normal((5, 20))])
    edited = np.array([7, *range(60, 65)])
    neuron = parting_neuron(x, edited, np.setdiff1d(np.arange(len(x)), edited))
    assert neuron is not None
    z = x @ neuron.w + neuron.b
    assert (z[edited] > 0).all()
    assert (np.delete(z, edited) < 0).all()


def test_a_point_inside_of_the_others_is_not_parted() -> None:
    """The mean of all others: no linear threshold has it alone on one side."""
    x = np.random.default_rng(0).standard_normal((50, 4))
    x = np.concatenate([x, x.mean(axis=0, keepdims=True)])
    assert parting_neuron(x, np.array([50]), np.arange(50)) is None


def test_an_idle_neuron_is_used_before_one_is_added() -> None:
    hidden = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 1.0]])
    assert idle(hidden) == 1
    assert idle(hidden[:, [0, 2]]) is None
    model = Transformer.init(4, 2, 2, 3, key=jax.random.key(0), bias=True)
    neuron, v = Neuron(np.arange(4.0), -1.0, 1.0), np.ones(4)
    used, added = with_neuron(model, neuron, v, 1), with_neuron(model, neuron, v, None)
    assert (used.m, added.m) == (3, 4)
    np.testing.assert_array_equal(used.mlp.W[1], neuron.w)
    np.testing.assert_array_equal(np.asarray(used.mlp.V)[[0, 2]], np.asarray(model.mlp.V)[[0, 2]])
    np.testing.assert_array_equal(added.mlp.V[:3], model.mlp.V)
    assert added.mlp.b[3] == -1.0


def test_attention_alone_gets_an_mlp_of_one_neuron() -> None:
    model = Transformer.init(4, 2, 2, key=jax.random.key(0))
    assert with_neuron(model, Neuron(np.ones(4), 0.0, 1.0), np.ones(4), None).m == 1

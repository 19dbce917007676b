"""The transformer for sequences: the equations as they stand, and the ways around work that is not needed."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from facthold._util.keys import derive
from facthold.construct.induction import untrained
from facthold.models.causal import CausalTransformer, Layer, split
from facthold.models.memory import LinearMemory, MLPMemory


def small(T: int = 13, *, ff: bool = False, **wish: bool) -> tuple[CausalTransformer, jax.Array]:
    model = untrained(N=7, T=T, d=16, key=derive("causal", T), **wish)
    if ff:
        layers = (eqx.tree_at(lambda la: la.F, model.layers[0], LinearMemory.init(16, key=derive("F1")),
                              is_leaf=lambda x: x is None),
                  eqx.tree_at(lambda la: la.F, model.layers[1], MLPMemory.init(16, 32, key=derive("F2")),
                              is_leaf=lambda x: x is None))  # fmt: skip
        model = eqx.tree_at(lambda m: m.layers, model, layers)
    return model, jax.random.randint(derive("tokens", T), (3, T), 0, 7)


def by_equations(model: CausalTransformer, tokens: np.ndarray) -> np.ndarray:
    """One position at a time, in float64, from the slides."""
    E, P, U = (np.asarray(x, np.float64) for x in (model.E, model.P, model.U))
    x = E[tokens] + P[: len(tokens)]
    for layer in model.layers:
        W_KQ, W_OV = np.asarray(layer.W_KQ, np.float64), np.asarray(layer.W_OV, np.float64)
        after = np.zeros_like(x)
        for t in range(len(x)):
            scores = np.array([x[t] @ W_KQ @ x[s] for s in range(t + 1)])
            if layer.scaled:
                scores /= np.sqrt(x.shape[1])
            beta = np.exp(scores - scores.max())
            beta /= beta.sum()
            added = W_OV @ sum(beta[s] * x[s] for s in range(t + 1))
            after[t] = x[t] + (0 if layer.silent_first and t == 0 else added)
            if isinstance(layer.F, LinearMemory):
                after[t] += np.asarray(layer.F.W, np.float64) @ after[t]
            elif layer.F is not None:
                W, V = np.asarray(layer.F.W, np.float64), np.asarray(layer.F.V, np.float64)
                after[t] += V.T @ np.maximum(W @ after[t], 0)
        x = after
    return x @ U.T


@pytest.mark.parametrize("T", [2, 5, 13, 24])
@pytest.mark.parametrize("wish", [{}, {"scaled": True}, {"silent_first": True}, {"ff": True}, {"unit": False}])
def test_logits_are_those_of_the_equations(T: int, wish: dict[str, bool]) -> None:
    model, tokens = small(T, **wish)
    expected = np.stack([by_equations(model, np.asarray(z)) for z in tokens])
    np.testing.assert_allclose(np.asarray(model(tokens)), expected, rtol=2e-4, atol=2e-4 * np.abs(expected).max())


@pytest.mark.parametrize("wish", [{}, {"silent_first": True}, {"ff": True}])
def test_some_positions_have_the_logits_that_they_have_among_all(wish: dict[str, bool]) -> None:
    model, tokens = small(20, **wish)
    at = jnp.asarray([[0, 3, 19], [1, 1, 7], [18, 0, 2]])
    some = np.take_along_axis(np.asarray(model(tokens)), np.asarray(at)[..., None], axis=1)
    np.testing.assert_allclose(np.asarray(model(tokens, at)), some, rtol=1e-5, atol=1e-5)


def test_nothing_depends_on_what_comes_later() -> None:
    model, tokens = small(12, ff=True)
    changed = tokens.at[:, 7:].set((tokens[:, 7:] + 1) % 7)
    np.testing.assert_array_equal(np.asarray(model(tokens))[:, :7], np.asarray(model(changed))[:, :7])


def test_attention_sums_to_one_over_the_past() -> None:
    model, tokens = small(9)
    for beta in model.attention(tokens[0]):
        np.testing.assert_allclose(np.asarray(beta).sum(axis=-1), 1, rtol=1e-5)
        assert (np.triu(np.asarray(beta), 1) == 0).all()


def test_splitting_keeps_every_part_once() -> None:
    model, tokens = small(8, ff=True)
    trained, fixed = split(model, ("W_KQ^1", "W_OV^2", "F^2", "embeddings"))
    assert trained.layers[0].W_OV is None
    assert fixed.layers[0].W_KQ is None
    assert trained.layers[1].F.W is not None
    assert fixed.layers[1].F.W is None
    assert trained.E is not None
    np.testing.assert_array_equal(np.asarray(eqx.combine(trained, fixed)(tokens)), np.asarray(model(tokens)))


def test_one_layer_is_a_model_too() -> None:
    model = untrained(N=5, T=6, d=8, key=derive("one"), layers=1)
    assert model(jnp.zeros((2, 6), jnp.int32)).shape == (2, 6, 5)
    assert isinstance(model.layers[0], Layer)

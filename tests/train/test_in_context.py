"""Training on the bigram task."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from facthold._util.keys import derive
from facthold.construct.induction import induction_head, untrained
from facthold.context.bigrams import Bigrams
from facthold.context.sequences import BigramTask, Sequences
from facthold.models.causal import split
from facthold.models.generic import GenericTransformer
from facthold.models.memory import LinearMemory
from facthold.train import in_context
from facthold.train.engine import Member, fit
from facthold.train.in_context import PredictInContext
from facthold.train.protocols import Protocol

DATA = BigramTask.of(Bigrams.shipped(), K=3, T=24)
ALL = ("W_KQ^1", "W_OV^1", "F^1", "W_KQ^2", "W_OV^2", "embeddings")


def start(layers: int = 2) -> object:
    model = untrained(65, 24, 16, key=derive("start"), layers=layers)
    F = LinearMemory.init(16, key=derive("F"))
    return eqx.tree_at(lambda m: m.layers[0].F, model, F, is_leaf=lambda x: x is None)


def plain(model: object, tokens: jax.Array) -> jax.Array:
    """All positions, all at once, without a mask of blocks and without tables."""
    x = model.E[tokens] + model.P[: tokens.shape[1]]
    past = jnp.tril(jnp.ones((tokens.shape[1],) * 2, bool))
    for layer in model.layers:
        scores = jnp.einsum("ntd,nsd->nts", x @ layer.W_KQ, x)
        x = x + jax.nn.softmax(jnp.where(past, scores, -jnp.inf)) @ x @ layer.W_OV.T
        x = x if layer.F is None else x + layer.F(x)
    return x @ model.U.T


@pytest.mark.parametrize("trained", [("W_KQ^1",), ("W_OV^1", "F^1"), ("W_KQ^2", "W_OV^2"), ("embeddings",), ALL])
@pytest.mark.parametrize("everywhere", [False, True])
def test_the_loss_and_its_gradient_are_those_of_all_positions_at_once(
    trained: tuple[str, ...], everywhere: bool
) -> None:
    model, fixed = split(start(), trained)
    task = PredictInContext.of(DATA, fixed, batch=6, everywhere=everywhere)
    key = derive("step")
    k_data, k_pick = jax.random.split(key)
    tokens, at, targets, weights = task.asked(DATA.draw(6, key=k_data), key=k_pick)

    def slow(model: object) -> jax.Array:
        logits = jnp.take_along_axis(plain(eqx.combine(model, fixed), tokens), at[..., None], axis=1)
        return in_context.cross_entropy(logits, targets, weights)

    both = [eqx.filter_value_and_grad(loss)(model) for loss in (lambda m: task.loss(m, key=key), slow)]
    values, gradients = zip(*both, strict=True)
    assert float(values[0]) == pytest.approx(float(values[1]), rel=1e-5)
    for ours, theirs in zip(*map(jax.tree.leaves, gradients), strict=True):
        scale = float(jnp.abs(theirs).max())
        assert scale > 0
        np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), atol=2e-5 * scale)


def test_one_layer_has_the_logits_of_all_positions_at_once() -> None:
    model, fixed = split(start(1), ("W_KQ^1", "W_OV^1"))
    task = PredictInContext.of(DATA, fixed, batch=4)
    tokens, at, *_ = task.asked(DATA.draw(4, key=derive("one")), key=derive("pick"))
    logits = jnp.take_along_axis(plain(eqx.combine(model, fixed), tokens), at[..., None], axis=1)
    np.testing.assert_allclose(
        np.asarray(eqx.combine(model, fixed)(tokens, at)), np.asarray(logits), rtol=1e-4, atol=1e-5
    )


def test_what_is_asked_are_outputs_that_the_context_tells_and_all_of_them_where_there_is_room() -> None:
    task = PredictInContext.of(DATA, None, batch=40)
    sequences = DATA.draw(40, key=derive("asked"))
    tokens, at, targets, weights = map(np.asarray, task.asked(sequences, key=derive("pick")))
    counted = np.asarray(sequences.counted)
    room = at.shape[1]
    for i in range(40):
        chosen = at[i][weights[i] > 0]
        assert counted[i, chosen + 1].all()
        assert len(set(chosen)) == len(chosen) == min(counted[i].sum(), room)
        assert (targets[i] == tokens[i, at[i] + 1]).all()
    assert weights.sum() == pytest.approx(1, rel=1e-5)


def test_where_outputs_are_more_than_there_is_room_for_the_choice_is_random() -> None:
    task = PredictInContext.of(DATA, None, batch=1)
    cycle = Sequences(jnp.zeros((1, 24), jnp.int32), jnp.ones((1, 24), bool), jnp.ones((1, 24), jnp.int32))
    chosen = {tuple(np.asarray(task.asked(cycle, key=derive("pick", i))[1])[0]) for i in range(8)}
    assert len(chosen) > 1


def test_accuracy_is_the_share_of_outputs_that_win_over_all_tokens() -> None:
    model = induction_head(65, 24, 256, np.asarray(DATA.fixed), key=derive("built"))
    task = PredictInContext.of(DATA, model, looked=64)
    none = jax.tree.map(lambda _: None, model)
    assert float(task.accuracy(none, key=derive("look"))) > 0.95
    broken = eqx.tree_at(lambda m: m.layers[1].W_OV, model, -model.layers[1].W_OV)
    assert float(PredictInContext.of(DATA, broken, looked=64).accuracy(none, key=derive("look"))) < 0.1


@pytest.mark.slow
def test_training_makes_an_induction_head() -> None:
    model, fixed = split(untrained(65, 24, 64, key=derive("train")), ("W_KQ^1", "W_KQ^2", "W_OV^2"))
    protocol = Protocol("test", "test", "adam", lr=0.03, steps=300, check_every=50, goal=1.0, futility=None, decay=True)
    (run,) = fit([Member(model, PredictInContext.of(DATA, fixed), derive("run"))], protocol)
    assert run.best > 0.8
    assert run.seen["W_OV^2"][-1] > 0.9
    assert run.seen["W_KQ^2"][-1] == 1.0


def test_a_usual_transformer_is_trained_by_the_same_task() -> None:
    model = GenericTransformer.init(65, 24, 16, H=2, key=derive("generic"))
    task = PredictInContext.of(DATA, jax.tree.map(lambda _: None, model), batch=4, everywhere=True)
    loss, gradient = eqx.filter_value_and_grad(lambda m: task.loss(m, key=derive("step")))(model)
    assert float(loss) == pytest.approx(np.log(65), abs=1.0)
    assert all(float(jnp.abs(leaf).max()) > 0 for leaf in jax.tree.leaves(gradient))
    with pytest.raises(ValueError, match="H=3 heads do not share d=16"):
        GenericTransformer.init(65, 24, 16, H=3, key=derive("generic"))


def test_nothing_of_a_usual_transformer_depends_on_what_comes_later() -> None:
    model = GenericTransformer.init(9, 12, 16, key=derive("generic"))
    tokens = jax.random.randint(derive("tokens"), (2, 12), 0, 9)
    changed = tokens.at[:, 6:].set((tokens[:, 6:] + 1) % 9)
    np.testing.assert_allclose(np.asarray(model(tokens))[:, :6], np.asarray(model(changed))[:, :6], atol=1e-6)
    for beta in model.attention(tokens):
        np.testing.assert_allclose(np.asarray(beta).sum(axis=-1), 1, rtol=1e-5)

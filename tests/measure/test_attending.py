"""Where heads look, and what a model says in the end: by hand, by loops, and for models whose attention is known."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from facthold._util.keys import derive
from facthold.construct.induction import induction_head, untrained
from facthold.context.bigrams import Bigrams
from facthold.context.sequences import BigramTask, Sequences
from facthold.measure.attending import looks, maps, recalled_in_context, shown, unambiguous
from facthold.measure.truncate import truncate
from facthold.models.causal import CausalTransformer
from facthold.models.generic import GenericTransformer
from facthold.models.memory import MLPMemory

MEASURES = ("p_right", "p_noise", "margin", "accuracy", "looks", "looks_evenly")
TASK = BigramTask.of(Bigrams.shipped(), K=3, T=24)
TRIGGERS = np.asarray(TASK.fixed)
ONE = BigramTask.of(Bigrams.shipped(), K=1, T=24)  # with one trigger: the noisy task, asked without noise


def test_what_tells_an_output_are_the_positions_after_earlier_occurrences() -> None:
    tokens = jnp.array([[7, 3, 7, 3, 5, 7, 3]])  # 7 is a trigger with output 3
    outputs = jnp.array([[False, True, False, True, False, False, True]])
    before = jnp.array([[0, 0, 0, 1, 0, 0, 2]])
    told = np.asarray(Sequences(tokens, outputs, before).told)[0]
    assert [(t, s) for t, s in np.argwhere(told).tolist()] == [(2, 1), (5, 1), (5, 3)]


def test_what_is_told_is_the_output() -> None:
    """Of each trigger from its second occurrence on, and of nothing else: by brute force."""
    sequences = TASK.draw(30, key=derive("told"))
    tokens, counted, told = (np.asarray(x) for x in (sequences.tokens, sequences.counted, sequences.told))
    for n, t, s in np.argwhere(told):
        assert tokens[n, s] == tokens[n, t + 1]
        assert tokens[n, s - 1] == tokens[n, t]
        assert 0 < s <= t
    asks = np.zeros_like(counted)
    asks[:, :-1] = counted[:, 1:]
    np.testing.assert_array_equal(told.any(axis=2), asks)


def test_even_attention_has_even_shares() -> None:
    model = untrained(65, 24, 16, key=derive("even"))
    flat = jax.tree.map(jnp.zeros_like, model)
    first, second = looks(flat, TASK, 64, key=derive("looks"))
    assert float(first.previous) == pytest.approx(np.mean([1 / (t + 1) for t in range(1, 24)]), rel=1e-5)
    assert float(second.told) == pytest.approx(float(second.evenly), rel=1e-5)


def test_an_induction_head_looks_where_it_should() -> None:
    model = induction_head(65, 24, 256, TRIGGERS, key=derive("built"))
    first, second = looks(model, TASK, 16, key=derive("looks"))
    assert float(first.previous) > 0.95
    assert float(first.needed) > 0.95
    assert float(second.told) > 0.95 > 2 * float(second.evenly)


def test_of_several_heads_the_one_that_looks_there_most() -> None:
    model = GenericTransformer.init(65, 24, 16, H=4, key=derive("generic"))
    first, _ = looks(model, TASK, 8, key=derive("looks"))
    tokens = TASK.draw(8, key=derive("looks")).tokens
    heads = [np.diagonal(np.asarray(beta), offset=-1, axis1=1, axis2=2).mean() for beta in
             np.moveaxis(np.asarray(model.attention(tokens)[0]), 1, 0)]  # fmt: skip
    assert float(first.previous) == pytest.approx(max(heads), rel=1e-4)


def test_a_map_is_the_attention_up_to_each_token() -> None:
    model = induction_head(65, 24, 64, TRIGGERS, key=derive("built"))
    sequence = shown(TASK, 10, key=derive("shown"))
    layers = maps(model, sequence, 10)
    for kept, beta in zip(layers, model.attention(sequence.tokens[0]), strict=True):
        assert [len(row) for row in kept] == list(range(1, 11))
        for t, row in enumerate(kept):
            np.testing.assert_allclose(row, np.asarray(beta)[t, : t + 1], atol=6e-4)
            assert sum(row) == pytest.approx(1, abs=0.01)


def test_the_sequence_that_is_shown_has_something_to_show() -> None:
    sequence = shown(TASK, 20, key=derive("shown"))
    assert np.asarray(sequence.counted)[0, :20].any()


def with_noise_in_its_memory(size: float) -> CausalTransformer:
    """An induction head whose last memory writes the noise token after the trigger, by one neuron of it."""
    d, (trigger,) = 256, np.asarray(ONE.fixed)
    model = induction_head(ONE.N, ONE.T, d, np.array([trigger]), key=derive("head"))
    W = jnp.zeros((4 * d, d)).at[0].set(model.E[trigger])
    V = jnp.zeros((4 * d, d)).at[0].set(size * model.U[ONE.noise_token])
    sharper = eqx.tree_at(lambda m: m.layers[1].W_OV, model, 8 * model.layers[1].W_OV)
    return eqx.tree_at(lambda m: m.layers[1].F, sharper, MLPMemory(W, V), is_leaf=lambda x: x is None)


def measured(model: CausalTransformer, n: int = 48) -> dict[str, float]:
    sequences = ONE.draw(n, key=derive("asked"))
    sums, counted = recalled_in_context(model, sequences, unambiguous(sequences, ONE), ONE.noise_token)
    return {name: float(total.sum() / counted.sum()) for name, total in sums.items()}


def test_what_is_measured_is_what_a_loop_over_positions_measures() -> None:
    model, sequences = with_noise_in_its_memory(9.0), ONE.draw(12, key=derive("loop"))
    kept = unambiguous(sequences, ONE)
    found, counted = recalled_in_context(model, sequences, kept, ONE.noise_token)
    assert set(found) == set(MEASURES)
    tokens, _, before = map(np.asarray, sequences)
    logits, tau, (trigger,) = np.asarray(model(sequences.tokens)), int(ONE.noise_token), np.asarray(ONE.fixed)
    n = 0
    for i in range(12):
        beta, sums = np.asarray(model.attention(sequences.tokens[i])[1]), dict.fromkeys(MEASURES, 0.0)
        for t in range(ONE.T - 1):
            if not (kept[i] and tokens[i, t] == trigger and before[i, t + 1] > 0):
                continue
            n += 1
            p = np.exp(logits[i, t] - logits[i, t].max())
            p /= p.sum()
            after = [s for s in range(1, t + 1) if tokens[i, s - 1] == trigger]
            right = tokens[i, t + 1]
            values = (p[right], p[tau], logits[i, t, right] - logits[i, t, tau], logits[i, t].argmax() == right,
                      beta[t, after].sum(), len(after) / (t + 1))  # fmt: skip
            for name, value in zip(MEASURES, values, strict=True):
                sums[name] += value
        for name in MEASURES:
            assert float(found[name][i]) == pytest.approx(sums[name], abs=1e-4), name
    assert int(counted.sum()) == n > 20


def test_without_a_memory_that_holds_the_noise_the_right_output_comes_back() -> None:
    """Planted: the answer must be that of the head alone, and attention must not move."""
    model = with_noise_in_its_memory(32.0)
    full, cut = measured(model), measured(truncate(model, {"F^2": 0}).model)
    assert full["p_noise"] > 0.9 > 0.1 > full["p_right"]
    assert cut["p_right"] > 0.9 > 0.1 > cut["p_noise"]
    assert cut["margin"] > 0 > full["margin"]
    assert cut["looks"] == pytest.approx(full["looks"], abs=1e-6)
    assert cut["looks"] > 0.9 > 0.5 > cut["looks_evenly"]
    attention = measured(truncate(model, {"W_KQ^2": 0}).model)
    assert attention["looks"] == pytest.approx(attention["looks_evenly"], abs=1e-5)


def test_sequences_in_which_right_and_noise_cannot_be_told_apart_are_left_out() -> None:
    (trigger,), tau = np.asarray(ONE.fixed), int(ONE.noise_token)
    other = next(i for i in range(ONE.N) if i not in (trigger, tau))
    tokens = jnp.array([[trigger, out, trigger, out] for out in (other, tau, trigger)])
    outputs = jnp.array([[False, True, False, True]] * 3)
    sequences = Sequences(tokens, outputs, jnp.zeros((3, 4), jnp.int32))
    assert unambiguous(sequences, ONE).tolist() == [1, 0, 0]


def test_of_one_trigger_both_measures_have_the_same_shares() -> None:
    """The last layer's attention to outputs so far is that to what the context tells, where sequences are the same."""
    model, key = with_noise_in_its_memory(9.0), derive("same")
    sequences = ONE.draw(16, key=key)
    sums, counted = recalled_in_context(model, sequences, jnp.ones(16), ONE.noise_token)
    last = looks(model, ONE, 16, key=key)[-1]
    assert float(sums["looks"].sum() / counted.sum()) == pytest.approx(float(last.told), rel=1e-5)
    assert float(sums["looks_evenly"].sum() / counted.sum()) == pytest.approx(float(last.evenly), rel=1e-5)

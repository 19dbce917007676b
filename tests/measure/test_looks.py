"""Where heads look: what is told by which position, by hand and for models whose attention is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from facthold._util.keys import derive
from facthold.construct.induction import induction_head, untrained
from facthold.context.bigrams import Bigrams
from facthold.context.sequences import BigramTask, Sequences
from facthold.measure.looks import looks, maps, shown
from facthold.models.generic import GenericTransformer

TASK = BigramTask.of(Bigrams.shipped(), K=3, T=24)
TRIGGERS = np.asarray(TASK.fixed)


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

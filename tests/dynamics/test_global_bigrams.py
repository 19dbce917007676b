"""One gradient step for a global bigram: its sequences, its gradient, and how often it recalls, by counting."""

import jax.numpy as jnp
import numpy as np
import pytest

from facthold._util.keys import derive
from facthold.dynamics import READERS
from facthold.dynamics.global_bigrams import TAU, TRIGGER, logits, one_step, read, recall, sequences, whole
from facthold.theory.samples import recall_after, shared


def test_sequences_are_as_the_setting_says() -> None:
    n, N, T = 4000, 9, 6
    tokens, labels = (np.asarray(x) for x in sequences(n, N, T, 0.3, key=derive("bigram")))
    assert (tokens[:, -1] == TRIGGER).all()
    assert (tokens[:, :-1] != TRIGGER).all()
    counts = np.bincount(labels, minlength=N)
    assert abs(counts[TAU] - 0.3 * n) < 4 * (0.21 * n) ** 0.5
    other = 0.7 * n / (N - 1)
    assert np.abs(np.delete(counts, TAU) - other).max() < 4 * other**0.5
    context = np.bincount(tokens[:, :-1].ravel(), minlength=N)[1:]
    assert np.abs(context - n * (T - 1) / (N - 1)).max() < 4 * (n * (T - 1) / (N - 1)) ** 0.5


@pytest.mark.parametrize("reader", READERS)
def test_one_step_is_the_sum_of_outer_products(reader: str) -> None:
    """W = 1/n sum_i (1{y_i} - 1/N) x_i^T over the samples that are counted, x_i the mean of one-hot vectors."""
    N, T, n = 7, 4, 10
    tokens, labels = sequences(n, N, T, 0.5, key=derive("sum"))
    seen = read(reader, tokens)
    assert seen.shape == (n, {"feed-forward": 1, "attention": T - 1, "attention to all": T}[reader])
    counted = jnp.arange(n) < 6
    W = one_step(seen, labels, counted.astype(jnp.float32), N)
    x = np.eye(N)[np.asarray(seen)].mean(axis=1)
    expected = (np.eye(N)[np.asarray(labels)] - 1 / N)[:6].T @ x[:6] / 6
    np.testing.assert_allclose(np.asarray(W).T, expected, atol=1e-6)
    np.testing.assert_allclose(np.asarray(logits(W, seen)), x @ expected.T, atol=1e-6)


@pytest.mark.parametrize(
    ("reader", "n", "N"), [("feed-forward", 5, 40), ("attention", 40, 80), ("attention to all", 8, 128)]
)
def test_recall_is_what_counting_says(reader: str, n: int, N: int) -> None:
    T, sets = 5, 8000
    found = recall(reader, n, N, T, 0.5, sets=sets, prompts=1, key=derive("recall", reader))
    stated = recall_after(n, 0.5, N, shared(reader, N, T))
    assert 0.5 < stated < 0.99
    alike = 0 if reader == "feed-forward" else 6 / N * 0.1  # two tokens of a prompt are one, which changes it by less
    assert abs(found - stated) < 4 * (stated * (1 - stated) / sets) ** 0.5 + alike


def test_equal_scores_are_equal_whatever_rounding_makes_of_them() -> None:
    scores = jnp.array([[0.1, 0.3, 0.3 + 1e-7], [0.0, 0.2, 0.1]])
    np.testing.assert_array_equal(np.asarray(whole(scores, jnp.asarray(10))), [[0, 2, 2], [0, 2, 1]])


def test_a_reader_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="feed-forward, attention"):
        recall("mlp", 4, 8, 3, 0.5, sets=2, prompts=1, key=derive("none"))

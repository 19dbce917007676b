"""Three gradient steps, and the lemma on gradients with noisy inputs that they rest on."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from facthold._util.keys import derive
from facthold.dynamics.three_steps import Head, Setting, Steps, accuracy, gradient, sequences, three_steps
from facthold.memory.embeddings import embed

STEPS = Steps(1e3, 1e4, 1e5)


def test_sequences_are_as_the_setting_says() -> None:
    tokens, answers = (np.asarray(x) for x in sequences(2000, 9, jnp.full((12, 12), 1 / 12), key=derive("sequences")))
    q = tokens[:, -1]
    occurs = tokens == q[:, None]
    assert (occurs.sum(axis=1) == 2).all()
    first = occurs.argmax(axis=1)
    assert (tokens[np.arange(2000), first + 1] == answers).all()
    assert (answers != q).all()
    assert set(first) == set(range(7))
    for values, n in ((q, 12), (first, 7)):
        counts = np.bincount(values, minlength=n)
        assert np.abs(counts - 2000 / n).max() < 5 * np.sqrt(2000 / n)


def test_logits_are_those_of_the_equations() -> None:
    fixed = Setting.random(6, 5, 8, key=derive("setting"))
    W = [np.asarray(jax.random.normal(derive("W", i), (8, 8))) for i in range(3)]
    head = Head(*map(jnp.asarray, W))
    z = np.array([3, 0, 5, 1, 3])
    E, P, U, W_OV_1 = (np.asarray(x, np.float64) for x in fixed)
    scores = []
    for s in range(5):
        looks = np.exp([P[s] @ W[0] @ P[r] for r in range(s + 1)])
        a = W_OV_1 @ sum(w * E[z[r]] for r, w in enumerate(looks / looks.sum()))
        scores.append(E[z[-1]] @ W[1] @ a)
    beta = np.exp(scores) / np.exp(scores).sum()
    expected = U @ W[2] @ sum(b * E[z[s]] for s, b in enumerate(beta))
    np.testing.assert_allclose(np.asarray(head.logits(fixed, jnp.asarray(z)[None]))[0], expected, rtol=1e-4, atol=1e-4)


def test_each_step_recovers_its_memory() -> None:
    fixed = Setting.one_hot(32, 10)
    head = three_steps(fixed, STEPS, 20_000, key=derive("steps", 0))
    assert all(float(share) >= 0.95 for share in head.probes(fixed).values()), head.probes(fixed)
    assert accuracy(head, fixed, 1000, key=derive("asked")) > 5 / 32


@pytest.mark.parametrize("missing", ["W_OV_2", "W_KQ_2"])
def test_a_later_memory_needs_the_ones_before_it(missing: str) -> None:
    fixed = Setting.one_hot(32, 10)
    head = three_steps(fixed, STEPS._replace(**{missing: 0.0}), 4000, key=derive("steps", 1))
    assert float(head.probes(fixed)["W_KQ^1"]) == 0.0


def test_the_gradient_with_noisy_inputs_is_the_sum_of_the_lemma() -> None:
    """grad L = sum_k p(y = k) u_k (mu^_k - mu_k)^T, for any W, with x any vector."""
    d, N, n = 12, 7, 400
    x, y = jax.random.normal(derive("x"), (n, d)), jax.random.randint(derive("y"), (n,), 0, N)
    U, W = embed("gaussian", N, d, key=derive("U")), jax.random.normal(derive("W"), (d, d))

    def loss(W: jax.Array) -> jax.Array:
        return optax.softmax_cross_entropy_with_integer_labels(x @ W.T @ U.T, y).mean()

    p_hat = np.asarray(jax.nn.softmax(x @ W.T @ U.T), np.float64)
    X, found = np.asarray(x, np.float64), np.zeros((d, d))
    for k in range(N):
        p = (np.asarray(y) == k).mean()
        mu, mu_hat = X[np.asarray(y) == k].mean(axis=0), (p_hat[:, k] / p) @ X / n
        found += p * np.outer(np.asarray(U)[k], mu_hat - mu)
    np.testing.assert_allclose(np.asarray(jax.grad(loss)(W)), found, atol=1e-5)


@pytest.mark.parametrize("N", [4, 16, 64])
def test_one_step_on_noisy_inputs_has_the_rate_of_the_example(N: int) -> None:
    """x = e_y + p_t: u_k^T W_1 (e_y + p_t) = eta / N (1{y = k} - 1 / N), exactly where embeddings are orthonormal."""
    T, eta = 5, 2.0
    E, P, U = jnp.eye(N, N + T), jnp.eye(T, N + T, N), jnp.eye(N, N + T)
    y, t = (jnp.asarray(i.ravel()) for i in np.meshgrid(np.arange(N), np.arange(T), indexing="ij"))
    x = E[y] + P[t]

    def loss(W: jax.Array) -> jax.Array:
        return optax.softmax_cross_entropy_with_integer_labels(x @ W.T @ U.T, y).mean()

    W_1 = -eta * jax.grad(loss)(jnp.zeros((N + T, N + T)))
    logits = np.asarray(x @ W_1.T @ U.T)
    np.testing.assert_allclose(logits, eta / N * (np.eye(N)[np.asarray(y)] - 1 / N), atol=1e-6)


def test_gradients_of_blocks_add_up() -> None:
    fixed = Setting.one_hot(8, 6)
    tokens, answers = sequences(64, 6, jnp.full((8, 8), 1 / 8), key=derive("blocks"))
    head = eqx.tree_at(lambda h: h.W_OV_2, Head.zeros(fixed), jnp.eye(8))
    whole = gradient(head, fixed, tokens, answers).W_KQ_2
    halves = [gradient(head, fixed, tokens[i : i + 32], answers[i : i + 32]).W_KQ_2 for i in (0, 32)]
    np.testing.assert_allclose(np.asarray(whole), np.asarray(sum(halves)) / 2, atol=1e-6)


def test_other_tokens_follow_the_bigrams_given_that_they_are_not_the_trigger() -> None:
    N, T, n = 5, 12, 20_000
    pi = np.random.default_rng(0).dirichlet(np.ones(N), size=N)
    tokens, _ = (np.asarray(x) for x in sequences(n, T, jnp.asarray(pi, jnp.float32), key=derive("bigrams")))
    q = tokens[:, -1]
    first = (tokens == q[:, None]).argmax(axis=1)
    for trigger in range(N):
        rows = tokens[(q == trigger) & (first > 2)]  # tokens 1 and 2 are free there, and so is 0
        for z in set(range(N)) - {trigger}:
            after = rows[rows[:, 1] == z, 2]
            expected = np.where(np.arange(N) == trigger, 0.0, pi[z])
            expected /= expected.sum()
            counts = np.bincount(after, minlength=N)
            assert (np.abs(counts - len(after) * expected) <= 4.5 * np.sqrt(len(after) * expected + 1e-9)).all()


def test_accuracy_is_asked_on_the_bigrams_that_are_given() -> None:
    """Even attention that copies says the most frequent token: where all others are token 0, it is right on those
    outputs alone that are 0."""
    fixed = Setting.one_hot(12, 8)
    head = Head(jnp.zeros((8, 8)), jnp.zeros((12, 12)), jnp.eye(12))
    pi = jnp.full((12, 12), 1e-6).at[:, 0].set(1.0)
    tokens, answers = (np.asarray(x) for x in sequences(4000, 8, pi, key=derive("often")))
    asked = tokens[:, -1] != 0
    found = accuracy(head, fixed, 4000, key=derive("often"), pi=pi)
    least, most = (answers[asked] == 0).sum() / 4000, ((answers == 0) | ~asked).mean()
    assert 0.06 < least <= found <= most < 0.2

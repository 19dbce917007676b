"""One layer of section 5: linear attention as matrices and in its own coordinates, a softmax head on both views."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float
from numpy.testing import assert_allclose, assert_array_equal

from facthold.facts.prompts import Prompts
from facthold.facts.table import random_table
from facthold.models.one_head import LinearAttention, SoftmaxHead

TABLE = random_table(5, 3, 2, key=jax.random.key(0))
T, N_NOISE, N = 9, 4, 24
TOKENS = TABLE.S + TABLE.R + N_NOISE + 1
V = TOKENS + TABLE.A


class LinearAttentionMatrices(eqx.Module):
    """F_lin(X) = W_OV X^T X W_KQ x_T as it stands in equation 13, for embedded sequences."""

    W_OV: Float[Array, "d d"]
    W_KQ: Float[Array, "d d"]

    def __call__(self, X: Float[Array, "n T d"]) -> Float[Array, "n d"]:
        scores = jnp.einsum("ntd,de,ne->nt", X, self.W_KQ, X[:, -1])
        return jnp.einsum("nt,ntd,ed->ne", scores, X, self.W_OV)

    @classmethod
    def of(cls, model: LinearAttention, phi: Float[Array, "V d"]) -> "LinearAttentionMatrices":
        """Matrices that act as ``model`` does, for orthonormal phi: the tokens of a prompt, EOS last, then answers."""
        tokens, answers = phi[: len(model.W_KQ)], phi[len(model.W_KQ) :]
        return cls(answers.T @ model.W_OV @ tokens, jnp.outer(model.W_KQ @ tokens, tokens[-1]))

    def reduced(self, phi: Float[Array, "V d"], A: int) -> LinearAttention:
        """W_OV(a, z) and W_KQ(z), for any phi whose last A rows are the answers'."""
        tokens, answers = phi[:-A], phi[-A:]
        return LinearAttention(answers @ self.W_OV @ tokens.T, tokens @ self.W_KQ @ tokens[-1])


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    """Identities are checked to the rounding of float64."""
    with jax.enable_x64(True):
        yield


def orthonormal(kind: str) -> Array:
    """V orthonormal rows: one-hot, rotated in their own space, or in a space of more dimensions than tokens."""
    if kind == "one-hot":
        return jnp.eye(V)
    d = {"rotated": V, "wider": V + 7}[kind]
    Q, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(d, d)))
    return jnp.asarray(Q[:V])


@cache
def drawn() -> tuple[Array, Array, Array]:
    """Prompts as sequences and as counts, and their answers."""
    prompts, key = Prompts.of(TABLE, T=T, n_noise=N_NOISE), jax.random.key(3)
    facts = np.random.default_rng(2).integers(0, len(TABLE), N)
    views = eqx.filter_jit(lambda p, f: (p.sequences(f, key=key), p.counts(f, key=key)))
    sequences, counts = views(prompts, jnp.asarray(facts, jnp.int32))
    return sequences, counts.astype(float), jnp.asarray(TABLE.answers[facts])


def random_model(seed: int = 4) -> LinearAttention:
    rng = np.random.default_rng(seed)
    return LinearAttention(jnp.asarray(rng.normal(size=(TABLE.A, TOKENS))), jnp.asarray(rng.normal(size=TOKENS)))


def random_matrices(d: int, seed: int = 5) -> LinearAttentionMatrices:
    """Matrices whose every entry is something, also those that no prompt ever meets."""
    rng = np.random.default_rng(seed)
    return LinearAttentionMatrices(*(jnp.asarray(rng.normal(size=(d, d)) / np.sqrt(d)) for _ in range(2)))


def cross_entropy(logits: Array, answers: Array) -> Array:
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), answers[:, None], axis=1).mean()


each_phi = pytest.mark.parametrize("kind", ["one-hot", "rotated", "wider"])


def test_the_logits_are_sums_over_tokens() -> None:
    """phi(a)^T F_lin = sum_t W_OV(a, z_t) W_KQ(z_t), token by token (appendix D.1)."""
    model = random_model()
    sequences, counts, _ = drawn()
    W_OV, W_KQ = np.asarray(model.W_OV), np.asarray(model.W_KQ)
    expected = [[sum(W_OV[a, z] * W_KQ[z] for z in row) for a in range(TABLE.A)] for row in np.asarray(sequences)]
    assert_allclose(model.logits(counts), expected, rtol=1e-12, atol=1e-12)
    assert_allclose(model.Theta, W_OV * W_KQ[None, :], rtol=1e-15)


@each_phi
def test_matrices_and_coordinates_give_the_same_logits(kind: str) -> None:
    phi = orthonormal(kind)
    sequences, counts, _ = drawn()
    assert_array_equal(jax.nn.one_hot(sequences, TOKENS).sum(axis=1), counts)
    for matrices, model in (
        (LinearAttentionMatrices.of(random_model(), phi), random_model()),
        (random_matrices(phi.shape[1]), random_matrices(phi.shape[1]).reduced(phi, TABLE.A)),
    ):
        logits = matrices(phi[sequences]) @ phi[TOKENS:].T
        assert np.std(np.asarray(logits)) > 0.1
        assert_allclose(model.logits(counts), logits, rtol=1e-11, atol=1e-11)


@each_phi
def test_coordinates_survive_the_way_to_matrices_and_back(kind: str) -> None:
    phi, model = orthonormal(kind), random_model()
    back = LinearAttentionMatrices.of(model, phi).reduced(phi, TABLE.A)
    assert_allclose(back.W_OV, model.W_OV, rtol=1e-12, atol=1e-12)
    assert_allclose(back.W_KQ, model.W_KQ, rtol=1e-12, atol=1e-12)


@jax.jit
def of_matrices(matrices: LinearAttentionMatrices, phi: Array, sequences: Array, answers: Array) -> Array:
    return cross_entropy(matrices(phi[sequences]) @ phi[TOKENS:].T, answers)


@jax.jit
def of_coordinates(model: LinearAttention, counts: Array, answers: Array) -> Array:
    return cross_entropy(model.logits(counts), answers)


def step(weights: Any, gradient: Any) -> Any:
    return jax.tree.map(lambda w, g: w - 0.7 * g, weights, gradient)


@each_phi
def test_a_gradient_step_on_the_matrices_is_one_on_the_coordinates(kind: str) -> None:
    """'By isometry' (section 5): reduced after a step and stepped after reducing are the same, and what prompts do not
    meet gets no gradient at all."""
    phi, (sequences, counts, answers) = orthonormal(kind), drawn()
    matrices = random_matrices(phi.shape[1])
    model = matrices.reduced(phi, TABLE.A)
    loss, gradient = jax.value_and_grad(of_matrices)(matrices, phi, sequences, answers)
    expected, reduced_gradient = jax.value_and_grad(of_coordinates)(model, counts, answers)
    assert_allclose(loss, expected, rtol=1e-12)

    stepped, coordinates = step(matrices, gradient).reduced(phi, TABLE.A), step(model, reduced_gradient)
    assert np.abs(np.asarray(coordinates.W_KQ - model.W_KQ)).max() > 1e-3
    assert_allclose(stepped.W_OV, coordinates.W_OV, rtol=1e-10, atol=1e-12)
    assert_allclose(stepped.W_KQ, coordinates.W_KQ, rtol=1e-10, atol=1e-12)

    embedded = LinearAttentionMatrices.of(reduced_gradient, phi)
    assert_allclose(gradient.W_OV, embedded.W_OV, atol=1e-12)
    assert_allclose(gradient.W_KQ, embedded.W_KQ, atol=1e-12)


def test_without_orthonormal_embeddings_the_coordinates_move_otherwise() -> None:
    """The logits of any embeddings are sums over tokens. What needs an isometry is the step."""
    phi, (sequences, counts, answers) = orthonormal("rotated") + 0.1 * orthonormal("one-hot"), drawn()
    matrices = random_matrices(V)
    model = matrices.reduced(phi, TABLE.A)
    assert_allclose(model.logits(counts), matrices(phi[sequences]) @ phi[TOKENS:].T, rtol=1e-11, atol=1e-11)
    stepped = step(matrices, jax.grad(of_matrices)(matrices, phi, sequences, answers)).reduced(phi, TABLE.A)
    coordinates = step(model, jax.grad(of_coordinates)(model, counts, answers))
    moved = np.abs(np.asarray(coordinates.W_OV - model.W_OV)).max()
    assert np.abs(np.asarray(stepped.W_OV - coordinates.W_OV)).max() > 0.01 * moved


def head(d: int, score: float, seed: int = 6) -> tuple[SoftmaxHead, Array]:
    """A head whose scores spread by about ``score`` nats, and embeddings of all tokens on the sphere."""
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=(V, d))
    phi /= np.linalg.norm(phi, axis=1, keepdims=True)
    W_OV, W_KQ = rng.normal(size=(2, d, d))
    return SoftmaxHead(jnp.asarray(W_OV), jnp.asarray(score * W_KQ)), jnp.asarray(phi)


@jax.jit
def by_sequences(model: SoftmaxHead, phi: Array, sequences: Array) -> Array:
    return model(phi[sequences]) @ phi[TOKENS:].T


@jax.jit
def by_counts(model: SoftmaxHead, phi: Array, counts: Array) -> Array:
    return model.logits(counts, phi[:TOKENS], phi[TOKENS - 1], phi[TOKENS:])


@pytest.mark.parametrize("score", [0.0, 1.0, 30.0, 1e3, 1e6])
def test_a_softmax_head_sees_sequences_and_counts_alike(score: float) -> None:
    """Also where scores differ by far more than exp holds: the tables over the vocabulary must not lose a prompt. And
    so do the gradients."""
    model, phi = head(12, score)
    sequences, counts, answers = drawn()
    # A score of 1e6 is only known to 1e6 eps, and the softmax passes that on.
    rounding = 1e-12 + 10 * score * np.finfo(float).eps
    assert_allclose(by_counts(model, phi, counts), by_sequences(model, phi, sequences), rtol=rounding, atol=rounding)

    ours = jax.grad(lambda m: cross_entropy(by_counts(m, phi, counts), answers))(model)
    expected = jax.grad(lambda m: cross_entropy(by_sequences(m, phi, sequences), answers))(model)
    assert np.abs(np.asarray(expected.W_OV)).max() > 1e-3
    assert_allclose(ours.W_OV, expected.W_OV, atol=100 * rounding)
    assert_allclose(ours.W_KQ, expected.W_KQ, atol=100 * rounding)


def test_a_head_of_zeros_attends_to_all_alike_and_is_no_saddle() -> None:
    """W_OV has a gradient at once, and W_KQ none before it: unlike linear attention's, this start can be left."""
    model, (_, phi) = SoftmaxHead.zeros(12), head(12, 1.0)
    assert len(model.W_OV) == 12
    sequences, counts, answers = drawn()
    assert_array_equal(by_sequences(model, phi, sequences), 0.0)
    assert_array_equal(by_counts(model, phi, counts), 0.0)
    gradient = jax.grad(lambda m: cross_entropy(by_counts(m, phi, counts), answers))(model)
    assert np.abs(np.asarray(gradient.W_OV)).max() > 1e-3
    assert_array_equal(gradient.W_KQ, 0.0)
    even = SoftmaxHead(jnp.eye(12), jnp.zeros((12, 12)))
    assert_allclose(even(phi[sequences]), counts @ phi[:TOKENS] / T, atol=1e-14)


def test_a_head_of_no_dimension_is_refused() -> None:
    with pytest.raises(ValueError, match="d=0 must be at least 1"):
        SoftmaxHead.zeros(0)

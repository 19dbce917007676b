"""Memories by convex solves: least squares and cross entropy against oracles, and what each width stores."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from facthold.construct.readout import (
    FLIP_PRICE,
    MARGIN,
    _flip_prices,
    _frozen_gates_loss,
    convex,
    layerwise,
    ridge,
    whiten,
)
from facthold.construct.solve import Wanted, enough_for_margin
from facthold.memory.activations import RELU, Activation, Polynomial
from facthold.memory.associations import Problem, random_problem, seeded_problem
from facthold.memory.embeddings import host_generator
from facthold.models.memory import MLPMemory

KEY = jax.random.key(17)
CONSTRUCTIONS = (ridge, convex, layerwise)
FLOAT32 = float(np.finfo(np.float32).eps)


def scores(memory: MLPMemory, problem: Problem) -> np.ndarray:
    """relu(E W^T) V U^T, (N, M), in float64 and without JAX."""
    E, U, W, V = (np.asarray(a, np.float64) for a in (problem.E, problem.U, memory.W, memory.V))
    return np.maximum(E @ W.T, 0) @ V @ U.T


def n_wrong(memory: MLPMemory, problem: Problem) -> int:
    return int((scores(memory, problem).argmax(axis=1) != np.asarray(problem.f)).sum())


def mean_cross_entropy(logits: np.ndarray, problem: Problem) -> float:
    return float((logsumexp(logits, axis=1) - logits[np.arange(problem.N), np.asarray(problem.f)]).mean())


@pytest.mark.parametrize("sigma", [RELU, Polynomial((0.5, 1.0, -0.8))])
def test_ridge_is_least_squares_of_the_scores(sigma: Activation) -> None:
    """(H V U^T).ravel() = kron(H, U) V.ravel(): plain least squares onto the one-hot rows, in float64."""
    m = 5
    problem = random_problem(14, 4, 9, map="mod", key=KEY)
    memory = ridge(problem, m, key=KEY, sigma=sigma, ridge=1e-13)
    E, U, _ = (a.astype(np.float64) for a in problem.host())
    W = host_generator(KEY).standard_normal((m, problem.d))
    H, one_hot = np.asarray(sigma(E @ W.T), np.float64), np.eye(problem.M)[np.asarray(problem.f)]
    V = np.linalg.lstsq(np.kron(H, U), one_hot.ravel(), rcond=None)[0].reshape(m, problem.d)
    assert_allclose(memory.W, W, rtol=FLOAT32)
    assert_allclose(memory.V, V, rtol=FLOAT32, atol=1e-9)  # the ridge moves V by 1e-13 * cond(H^T H) or so


def test_more_ridge_gives_a_smaller_readout() -> None:
    problem = random_problem(30, 8, key=KEY)
    norms = [float(jnp.linalg.norm(ridge(problem, 12, key=KEY, ridge=r).V @ problem.U.T)) for r in (1e-6, 1e-2, 1, 100)]
    assert norms == sorted(norms, reverse=True)
    assert norms[-1] < 0.1 * norms[0]


def test_flip_prices_are_the_double_sum() -> None:
    """mean_y max(0, <v_i, u_y - u_f(x)>) by all N x M x m differences; several inputs share an output."""
    rng = np.random.default_rng(0)
    U, V, f = rng.standard_normal((7, 4)), rng.standard_normal((6, 4)), np.arange(20) % 5
    T = U[f]
    differences = (U @ V.T)[None, :, :] - (T @ V.T)[:, None, :]
    expected = FLIP_PRICE * np.maximum(differences, 0).mean(axis=1)
    assert_allclose(_flip_prices(V, U, T), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("rows", "columns", "rank"), [(20, 6, 6), (20, 6, 3), (5, 9, 5), (12, 8, 1)])
def test_whitened_columns_are_orthonormal_and_span_what_there_is(rows: int, columns: int, rank: int) -> None:
    rng = np.random.default_rng(rank)
    X = rng.standard_normal((rows, rank)) @ rng.standard_normal((rank, columns))
    white, R = whiten(X)
    assert white.shape == (rows, rank)
    assert_allclose(white, X @ R, rtol=1e-12)
    assert_allclose(white.T @ white, rows * np.eye(rank), atol=1e-10 * rows)
    assert_allclose(white @ (white.T @ X) / rows, X, atol=1e-10 * np.abs(X).max())


def test_convex_stores_what_is_separable_with_the_margin_it_promises() -> None:
    """With rank(H) = N some V has F(e_x) = u_f(x), whose score 1 beats all others: separable for certain."""
    problem = random_problem(40, 8, key=KEY)
    memory = convex(problem, 60, key=KEY)
    assert np.linalg.matrix_rank(np.maximum(np.asarray(problem.E) @ np.asarray(memory.W).T, 0)) == problem.N
    logits = scores(memory, problem)
    assert n_wrong(memory, problem) == 0
    assert mean_cross_entropy(logits, problem) <= enough_for_margin(MARGIN, problem.N) * (1 + 1e-3)  # float32 weights
    right = logits[np.arange(problem.N), np.asarray(problem.f)]
    rivals = np.where(np.arange(problem.M) == np.asarray(problem.f)[:, None], -np.inf, logits)
    assert (right - rivals.max(axis=1)).min() >= MARGIN * (1 - 1e-3)


def test_no_scale_of_the_ridge_readout_has_less_cross_entropy_than_convex() -> None:
    """Not separable, so that the least cross entropy is reached and not only approached."""
    problem = random_problem(64, 16, key=KEY)
    by_ridge, by_convex = ridge(problem, 12, key=KEY), convex(problem, 12, key=KEY)
    assert_array_equal(by_ridge.W, by_convex.W)
    assert n_wrong(by_convex, problem) > 0
    least = mean_cross_entropy(scores(by_convex, problem), problem)
    scaled = [mean_cross_entropy(c * scores(by_ridge, problem), problem) for c in np.geomspace(1e-2, 1e4, 61)]
    assert least <= min(scaled)


def test_no_direction_lowers_the_cross_entropy_of_convex() -> None:
    """The gradient H^T (p - y) U / N is that of a minimum, next to its size at V = 0."""
    problem = random_problem(64, 16, key=KEY)
    memory = convex(problem, 12, key=KEY, max_iterations=2000)
    E, U, _ = (a.astype(np.float64) for a in problem.host())
    H, one_hot = np.maximum(E @ np.asarray(memory.W, np.float64).T, 0), np.eye(problem.M)[np.asarray(problem.f)]

    def gradient(logits: np.ndarray) -> float:
        p = np.exp(logits - logsumexp(logits, axis=1, keepdims=True))
        return float(np.abs(H.T @ (p - one_hot) @ U).max())

    logits = scores(memory, problem)
    assert gradient(logits) < 100 * FLOAT32 * np.abs(logits).max() * gradient(0 * logits)


def test_the_frozen_gates_loss_is_that_of_the_memory_until_a_gate_flips_and_is_convex() -> None:
    rng = np.random.default_rng(1)
    problem = random_problem(20, 6, 7, map="mod", key=KEY)
    E, U, T = (a.astype(np.float64) for a in problem.host())
    W, V = rng.standard_normal((5, 6)), rng.standard_normal((5, 6))
    gates = (E @ W.T > 0).astype(float)
    answers = Wanted(np.asarray(problem.f), np.ones(20, bool), np.ones(7, bool))
    with jax.enable_x64(True):

        def loss(W: np.ndarray) -> float:
            arrays = (jnp.asarray(a) for a in (U, E, gates, _flip_prices(V, U, T), V))
            return float(_frozen_gates_loss(jnp.asarray(W), answers, *arrays))

        for scale in (0.5, 1.0, 2.0):  # flips no gate
            logits = np.maximum(E @ (scale * W).T, 0) @ V @ U.T
            assert loss(scale * W) == pytest.approx(mean_cross_entropy(logits, problem), rel=1e-12)
        for _ in range(50):
            A, B = rng.standard_normal((2, 5, 6))
            assert loss((A + B) / 2) <= (loss(A) + loss(B)) / 2 + 1e-12


@pytest.mark.parametrize("seed", range(4))
def test_layerwise_stores_all_at_a_width_where_convex_does_not(seed: int) -> None:
    """64 facts at d = 16: all of them at m = 24, and at half of that far more than on random features."""
    problem, key = random_problem(64, 16, key=jax.random.key(seed)), jax.random.key(100 + seed)
    assert n_wrong(layerwise(problem, 24, key=key), problem) == 0
    assert n_wrong(layerwise(problem, 12, key=key), problem) < n_wrong(convex(problem, 12, key=key), problem)


def test_layerwise_stores_all_where_its_start_does_not_and_neither_do_free_flips() -> None:
    """Each of the two solves is needed at this width, and so is the price of a gate that flips."""
    for seed in (100, 101):
        problem = seeded_problem(128, seed, 16)
        assert n_wrong(layerwise(problem, 32, key=jax.random.key(seed - 100)), problem) == 0


def test_the_ridge_of_the_recipe_is_small() -> None:
    """With a ridge of one mean square 85% are recalled here."""
    problem = seeded_problem(60, 0, 16)
    assert n_wrong(ridge(problem, 64, key=jax.random.key(0)), problem) == 0


@pytest.mark.parametrize("build", [convex, layerwise])
def test_maps_that_share_outputs_are_stored(build: Callable[..., MLPMemory]) -> None:
    problem = random_problem(64, 16, 8, map="mod", key=KEY)
    assert n_wrong(build(problem, 24, key=KEY), problem) == 0


@pytest.mark.parametrize("build", CONSTRUCTIONS)
def test_results_are_float32_memories_that_the_key_alone_decides(build: Callable[..., MLPMemory]) -> None:
    problem = random_problem(20, 8, 6, map="mod", key=KEY)
    memory, again = build(problem, 10, key=KEY), build(problem, 10, key=KEY)
    other = build(problem, 10, key=jax.random.key(18))
    assert isinstance(memory, MLPMemory)
    assert memory.b is None
    for name in ("W", "V"):
        ours = getattr(memory, name)
        assert (ours.shape, ours.dtype) == ((10, 8), jnp.float32)
        assert np.isfinite(ours).all()
        assert_array_equal(ours, getattr(again, name))
        assert not np.array_equal(ours, getattr(other, name))


@pytest.mark.parametrize("build", CONSTRUCTIONS)
@pytest.mark.parametrize("m", [0, -3])
def test_a_memory_without_neurons_is_refused(build: Callable[..., MLPMemory], m: int) -> None:
    with pytest.raises(ValueError, match=f"m={m}"):
        build(random_problem(8, 4, key=KEY), m, key=KEY)

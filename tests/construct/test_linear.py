"""Linear constructions: each is a gradient step that is really taken here."""

import math
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from facthold.construct.linear import gradient_step, low_rank, outer_product, quantised, weighted
from facthold.construct.mlp import hermite_features
from facthold.measure.recall import accuracy, margins, smallest_margins
from facthold.memory.associations import Problem, random_problem, sum_problem
from facthold.models.memory import LinearMemory

KEY = jax.random.key(7)


@pytest.fixture
def x64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def wide(problem: Problem) -> Problem:
    """The same problem in float64."""
    return Problem(jnp.asarray(problem.E, jnp.float64), jnp.asarray(problem.U, jnp.float64), problem.f)


def test_outer_product_is_a_sum_of_outer_products() -> None:
    problem = random_problem(12, 5, M=9, map="uniform", key=KEY)
    E, U = np.asarray(problem.E), np.asarray(problem.U)
    oracle = sum(np.outer(U[y], E[x]) for x, y in enumerate(problem.f.tolist()))
    assert_allclose(outer_product(problem).W, oracle, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("x64")
def test_outer_product_is_one_step_on_the_correlation_loss() -> None:
    problem = wide(random_problem(30, 8, M=20, map="uniform", key=KEY))

    def loss(W):
        return -sum(problem.U[problem.f[x]] @ W @ problem.E[x] for x in range(problem.N))

    step = -jax.grad(loss)(jnp.zeros((8, 8)))
    assert_allclose(outer_product(problem).W, step, rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("x64")
def test_low_rank_is_one_step_on_one_factor() -> None:
    """Theorem 1's remark: W = U V^T, V fixed at its Gaussian initialisation, one step on U from zero."""
    problem, m = wide(random_problem(30, 8, key=KEY)), 5
    memory = low_rank(problem, m, key=KEY)
    V = memory.W_2.T

    def loss(U):
        return -jnp.sum(problem.targets * (problem.E @ (U @ V.T).T))

    step = -jax.grad(loss)(jnp.zeros((8, m))) / m
    assert_allclose(memory.W_1.T, step, rtol=1e-12, atol=1e-12)
    assert np.linalg.matrix_rank(memory.W_1.T @ memory.W_2) == m


def test_low_rank_is_the_outer_product_on_average() -> None:
    problem = random_problem(10, 6, key=KEY)
    keys = jax.random.split(KEY, 500)
    gamma = np.array(jax.vmap(lambda key: margins(low_rank(problem, 3, key=key), problem)[0, 1])(keys))
    exact = margins(outer_product(problem), problem)[0, 1]
    assert abs(gamma.mean() - exact) < 4 * gamma.std() / math.sqrt(len(keys))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("eta", [1.0, 3.5])
def test_gradients_as_memories(eta: float) -> None:
    """One step from W = 0 on the population cross entropy, for any p(z, y)."""
    problem = wide(random_problem(14, 6, M=9, map="uniform", key=KEY))
    E, U = problem.E, problem.U
    p = jnp.asarray(np.random.default_rng(0).dirichlet(np.full(14 * 9, 0.3)).reshape(14, 9))

    def loss(W):
        return jnp.sum(p * -jax.nn.log_softmax(E @ W.T @ U.T))

    updates, _ = (sgd := optax.sgd(eta)).update(jax.grad(loss)(jnp.zeros((6, 6))), sgd.init(jnp.zeros((6, 6))))
    assert_allclose(gradient_step(E, U, p, eta=eta).W, updates, rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("x64")
def test_gradient_memory_of_a_map() -> None:
    """The slides' example, z uniform and y = f*(z): weights eta/N (1{f*(z) = k} - 1/M)."""
    problem, eta = wide(random_problem(12, 6, M=5, map="mod", key=KEY)), 2.0
    at_target = jax.nn.one_hot(problem.f, 5)
    expected = weighted(problem.E, problem.U, eta / 12 * (at_target - 1 / 5))
    assert_allclose(gradient_step(problem.E, problem.U, at_target / 12, eta=eta).W, expected.W, atol=1e-14)


def test_gradient_step_refuses_what_is_no_distribution() -> None:
    problem = random_problem(4, 3, key=KEY)
    for p in (jnp.full((4, 4), 1 / 8), jnp.asarray([[1.5, -0.5, 0, 0]] + [[0.0] * 4] * 3)):
        with pytest.raises(ValueError, match="joint distribution"):
            gradient_step(problem.E, problem.U, p)


def test_weights_are_the_scores_for_orthogonal_embeddings() -> None:
    problem = random_problem(6, 6, M=4, map="mod", key=KEY, embeddings="orthogonal")
    alpha = jax.random.normal(KEY, (6, 4))
    assert_array_equal(weighted(problem.E, problem.U, alpha).logits(problem.E, problem.U), alpha)


def test_orthogonal_embeddings_hold_as_many_as_they_have_dimensions_and_no_more() -> None:
    """Section 3.1: N = d of orthogonal embeddings, whatever the map; a further input has nothing of its own."""
    problem = random_problem(24, 24, map="identity", key=KEY, embeddings="orthogonal")
    assert accuracy(outer_product(problem), problem) == 1.0
    again = Problem(*(jnp.concatenate([x, x[:1]]) for x in (problem.E, problem.U)), jnp.arange(25))
    assert accuracy(outer_product(again), again) == 23 / 25  # the first and its copy are one input, and a tie


def test_outer_product_is_weighted_by_the_map() -> None:
    problem = random_problem(20, 6, M=7, map="uniform", key=KEY)
    alpha = jax.nn.one_hot(problem.f, 7)
    assert_allclose(weighted(problem.E, problem.U, alpha).W, outer_product(problem).W, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("step", [None, 0.3, 1e-3])
def test_corollary_2_bounds_the_change_of_every_score(step: float | None) -> None:
    problem = random_problem(40, 12, key=KEY)
    result, W = quantised(problem, step), outer_product(problem).W
    E, U, change = (np.asarray(a, np.float64) for a in (problem.E, problem.U, result.memory.W - W))
    rounding = 12 * np.finfo(np.float32).eps * np.abs(W).max()
    assert np.abs(change).max() <= result.step / 2 + rounding
    assert np.abs(U @ change @ E.T).max() <= 12 * (result.step / 2 + rounding)  # half the paper's d epsilon


def test_a_margin_of_one_half_survives_quantisation() -> None:
    problem = random_problem(30, 24, key=KEY)
    before, result = smallest_margins(outer_product(problem), problem), quantised(problem)
    after = smallest_margins(result.memory, problem)
    assert 24 * result.step < 1 / 8
    assert (before >= 0.5).any()
    # two scores change by d step / 2 each; 1e-5 is for the scores' own rounding in float32
    assert (after > before - 1 / 8 - 1e-5).all()


def test_quantised_bits() -> None:
    problem = random_problem(30, 16, key=KEY)
    result = quantised(problem)
    assert result.bits_per_weight == pytest.approx(math.log2(16 * 30 * 16), abs=1e-6)  # the paper's 16 N d
    levels = np.rint(np.asarray(result.memory.W, np.float64) / result.step)
    assert_allclose(levels * result.step, result.memory.W, rtol=1e-6)
    assert levels.max() - levels.min() < 2**result.used_bits_per_weight <= 2 * (levels.max() - levels.min() + 1)
    assert result.used_bits_per_weight < result.bits_per_weight


def test_any_linear_memory_can_be_quantised() -> None:
    problem = random_problem(8, 4, key=KEY)
    memory = LinearMemory(jnp.asarray([[0.0, 0.24, 0.26, -1.0]] * 4))
    result = quantised(problem, 0.5, memory=memory)
    assert_array_equal(result.memory.W[0], [0, 0, 0.5, -1])
    assert result.used_bits_per_weight == 2  # -2, -1, 0 and 1 times the step
    with pytest.raises(ValueError, match="step=0"):
        quantised(problem, 0.0)


def test_pairs_of_inputs_are_stored() -> None:
    """Every pair of two vocabularies has an output of its own: 25 pairs in the embeddings of 10 tokens."""
    tokens, pairs = jnp.eye(10, 25), jnp.asarray([(a, b) for a in range(5) for b in range(5)])
    problem = sum_problem(tokens[:5], tokens[5:], pairs, jnp.eye(25), jnp.arange(25))
    memory = outer_product(problem)
    assert accuracy(memory, problem) == 1
    # pairs with one token in common overlap by 1/2: the other's output scores as much
    assert_allclose(smallest_margins(memory, problem), 1 / 2, atol=1e-5)


def test_xor_of_two_inputs_takes_a_neuron() -> None:
    """A linear memory is additive in the two inputs, so that its four margins on xor sum to zero."""
    tokens, pairs = jnp.eye(4), jnp.asarray([(0, 0), (0, 1), (1, 0), (1, 1)])
    problem = sum_problem(tokens[:2], tokens[2:], pairs, jnp.eye(2, 4), jnp.asarray([0, 1, 1, 0]))
    for memory in (outer_product(problem), LinearMemory.init(4, key=KEY)):
        assert_allclose(jnp.sum(smallest_margins(memory, problem)), 0, atol=1e-5)
        assert accuracy(memory, problem) < 1
    # overlaps of 1, 1/2, 1/2 and 0 make margins of 1 - 1/4 - 1/4 + 0 in the limit of many neurons
    memory = hermite_features(problem, 20_000, 2, key=KEY)
    assert accuracy(memory, problem) == 1

"""MLP constructions: formulas, the tangent limit, expectations over neurons, and the convex solver."""

import math
from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from facthold.construct.mlp import (
    convex_tangent,
    hermite_features,
    pair_neurons,
    solve_tangent,
    tangent,
    tangent_directions,
    tangent_kernel,
)
from facthold.construct.solve import Wanted, cross_entropy, enough_for_margin, minimise
from facthold.measure.recall import accuracy, margins, smallest_margins
from facthold.memory.activations import RELU, Activation, Polynomial, hermite
from facthold.memory.associations import Problem, random_problem
from facthold.models.memory import MLPMemory

KEY = jax.random.key(13)
SIGNED = Polynomial((0.5, 1.0, -0.8, 0.6, -0.4))


@pytest.fixture
def x64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def normal(seed: int, *shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape))


def small(M: int = 9) -> Problem:
    problem = random_problem(9, 6, M=M, map="identity" if M >= 9 else "mod", key=KEY)
    return jax.tree.map(lambda a: a.astype(float) if jnp.issubdtype(a.dtype, jnp.floating) else a, problem)


@pytest.mark.usefixtures("x64")
def test_hermite_readout_is_its_formula() -> None:
    problem, k = small(M=4), 2
    memory = hermite_features(problem, 5, k, key=KEY, sigma=SIGNED)
    for i in range(5):
        terms = [hermite(k, memory.W[i] @ problem.E[x]) * problem.U[problem.f[x]] for x in range(problem.N)]
        assert_allclose(memory.V[i], sum(terms) / (5 * SIGNED.coefficient(k)), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("sigma", "k"), [(RELU, 1), (RELU, 2), (RELU, 4), (SIGNED, 2), (SIGNED, 3)])
def test_hermite_features_hold_a_power_of_the_overlap(sigma: Activation, k: int) -> None:
    """Equation 3: the margin's mean over neurons, which are independent: their spread is the error."""
    problem, m, x, y = small(), 200_000, 0, 1
    memory = hermite_features(problem, m, k, key=KEY, sigma=sigma)
    direction = problem.U[problem.f[x]] - problem.U[y]
    each = np.asarray(m * memory.features(problem.E[x]) * (memory.V @ direction))
    expected = (problem.targets @ direction) @ (problem.E @ problem.E[x]) ** k
    assert abs(each.mean() - expected) < 4 * each.std() / math.sqrt(m)


def test_hermite_features_recall_with_many_neurons() -> None:
    problem = random_problem(40, 32, key=KEY)
    assert accuracy(hermite_features(problem, 4096, 2, key=KEY), problem) == 1


@pytest.mark.parametrize(("m", "k"), [(8, 1), (4096, 2)])
def test_degree_grows_with_the_number_of_neurons(m: int, k: int) -> None:
    """With few neurons their noise rules, and degree 1 has the least; with many, the kernel's own."""
    problem = random_problem(10, 16, key=KEY)
    chosen = hermite_features(problem, m, key=KEY)
    assert_array_equal(chosen.V, hermite_features(problem, m, k, key=KEY).V)


@pytest.mark.parametrize("k", [-1, 0, 3, 5])
def test_degrees_that_relu_lacks_are_refused(k: int) -> None:
    with pytest.raises(ValueError, match=rf"k={k}.*choose one of \[1, 2, 4, 6, 8\]"):
        hermite_features(small(), 8, k, key=KEY)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("sigma", [RELU, SIGNED], ids=["relu", "polynomial"])
def test_tangent_is_the_derivative_along_q(sigma: Activation) -> None:
    problem, (W, V, Q) = small(), normal(0, 3, 7, 6)
    mlp = MLPMemory(W, V, sigma=sigma)
    _, oracle = jax.jvp(lambda W: eqx.tree_at(lambda mlp: mlp.W, mlp, W)(problem.E), (W,), (Q,))
    assert_allclose(tangent(problem.E, W, V, Q, sigma), oracle, rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("x64")
def test_pairs_converge_to_the_tangent_at_second_order() -> None:
    problem, (W, V, Q) = small(), normal(0, 3, 7, 6)
    exact = tangent(problem.E, W, V, Q, SIGNED)
    errors = [jnp.abs(pair_neurons(W, V, Q, SIGNED, eps)(problem.E) - exact).max() for eps in (1e-2, 5e-3, 2.5e-3)]
    # halving epsilon quarters the error, up to the next term, of relative order epsilon^2
    assert_allclose(np.log2(np.divide(errors[:-1], errors[1:])), 2, atol=0.01)


@pytest.mark.usefixtures("x64")
def test_relu_pairs_are_exact_where_no_kink_is_crossed() -> None:
    problem, (W, V, Q) = small(), normal(0, 3, 7, 6)
    epsilon = float(0.99 * jnp.min(jnp.abs(problem.E @ W.T) / jnp.abs(problem.E @ Q.T)))
    memory = pair_neurons(W, V, Q, RELU, epsilon)
    assert_allclose(memory(problem.E), tangent(problem.E, W, V, Q), rtol=1e-10, atol=1e-10)


@pytest.mark.usefixtures("x64")
def test_rescaling_alone_does_not_reach_the_tangent() -> None:
    """The proof's W - W_0 <- epsilon (W - W_0), V <- V / epsilon leaves V^T sigma(W_0 z) / epsilon behind."""
    problem, (W, V, Q), epsilon = small(), normal(0, 3, 7, 6), 1e-6
    rescaled = MLPMemory(W + epsilon * Q, V / epsilon, sigma=SIGNED)(problem.E)
    left_over = MLPMemory(W, V, sigma=SIGNED)(problem.E) / epsilon
    assert_allclose(rescaled - left_over, tangent(problem.E, W, V, Q, SIGNED), rtol=1e-3, atol=1e-3)
    assert jnp.abs(left_over).max() > 1e3 * jnp.abs(tangent(problem.E, W, V, Q, SIGNED)).max()


@pytest.mark.usefixtures("x64")
def test_tangent_directions_are_their_formula() -> None:
    problem, (W, V), k = small(M=4), normal(0, 2, 5, 6), 2
    Q = tangent_directions(problem, W, V, k, SIGNED)
    C = math.sqrt(k + 1) * SIGNED.coefficient(k + 1)
    for i in range(5):
        terms = [hermite(k, e @ W[i]) * (V[i] @ u) * e for e, u in zip(problem.E, problem.targets, strict=True)]
        assert_allclose(Q[i], sum(terms) / (5 * C), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("sigma", "k"), [(RELU, 0), (RELU, 1), (SIGNED, 1), (SIGNED, 2)])
def test_tangent_kernel_holds_a_power_of_the_overlap(sigma: Activation, k: int) -> None:
    """The proof's expectation of the margin, with C = sqrt(k+1) c_{k+1} in the place of its c_{k+1}."""
    problem, m, x, y = small(), 200_000, 0, 1
    W, V = normal(1, 2, m, 6).astype(problem.E.dtype)
    Q = tangent_directions(problem, W, V, k, sigma)
    direction = problem.U[problem.f[x]] - problem.U[y]
    each = np.asarray(m * (V @ direction) * sigma.derivative(W @ problem.E[x]) * (Q @ problem.E[x]))
    expected = (problem.targets @ direction) @ (problem.E @ problem.E[x]) ** (k + 1)
    assert abs(each.mean() - expected) < 4 * each.std() / math.sqrt(m)


def test_tangent_kernel_as_real_weights() -> None:
    problem = random_problem(24, 32, key=KEY)
    memory = tangent_kernel(problem, 4096, 1, key=KEY)
    assert memory.n_params == 2 * 4096 * 32
    assert accuracy(memory, problem) == 1
    first, second = jnp.split(memory.V, 2)
    assert_array_equal(first, -second)


def test_tangent_kernel_chooses_a_degree_that_relu_has() -> None:
    problem = random_problem(10, 16, key=KEY)
    for m, k in [(8, 0), (1024, 1)]:
        assert_array_equal(tangent_kernel(problem, m, key=KEY).W, tangent_kernel(problem, m, k, key=KEY).W)


def test_wrong_tangent_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"k=2: 'relu' has c_3 = 0.*choose one of \[0, 1, 3, 5, 7\]"):
        tangent_kernel(small(), 8, 2, key=KEY)
    with pytest.raises(ValueError, match="m=7 neurons do not come in pairs"):
        tangent_kernel(small(), 7, 0, key=KEY)
    with pytest.raises(ValueError, match="m=7 neurons do not come in pairs"):
        convex_tangent(small(), 7, key=KEY)
    with pytest.raises(ValueError, match="epsilon=0"):
        pair_neurons(*jnp.ones((3, 4, 8)), RELU, 0.0)
    with pytest.raises(ValueError, match="no Hermite component"):
        hermite_features(small(), 8, key=KEY, sigma=Polynomial((1.0,)))


@pytest.mark.usefixtures("x64")
def test_convex_tangent_meets_its_margin() -> None:
    problem = random_problem(60, 12, key=KEY)
    W, V = normal(0, 2, 48, 12).astype(problem.E.dtype)
    solution = solve_tangent(problem, W, V, margin=2.0)
    scores = tangent(problem.E.astype(float), W.astype(float), V.astype(float), jnp.asarray(solution)) @ problem.U.T
    gamma = np.array(jnp.take_along_axis(scores, problem.f[:, None], axis=1) - scores)
    gamma[np.arange(60), np.asarray(problem.f)] = np.inf
    assert gamma.min() >= 2.0 - 1e-5  # float32 data


def test_convex_tangent_stores_more_than_the_closed_form() -> None:
    """At one size and on the same neurons: the closed form is one candidate of the convex problem."""
    problem, m = random_problem(100, 16, key=KEY), 128
    convex, closed = convex_tangent(problem, m, key=KEY), tangent_kernel(problem, m, key=KEY)
    assert accuracy(closed, problem) < accuracy(convex, problem) == 1
    assert (smallest_margins(convex, problem) > 0).all()
    assert convex.n_params == 2 * m * 16


def test_convex_tangent_finds_the_minimum_of_what_it_cannot_store() -> None:
    """Too many associations: the gradient vanishes, and no scale of theorem 2's Q is better."""
    problem = random_problem(80, 6, key=KEY)
    W, V = normal(0, 2, 8, 6).astype(problem.E.dtype)
    solution = solve_tangent(problem, W, V)

    def loss(Q):
        scores = tangent(problem.E, W, V, Q) @ problem.U.T
        return optax.softmax_cross_entropy_with_integer_labels(scores, problem.f).mean()

    gradient = jax.grad(loss)(jnp.asarray(solution, jnp.float32))
    start = jax.grad(loss)(jnp.zeros_like(W))
    assert jnp.abs(gradient).max() < 1e-4 * jnp.abs(start).max()  # taken in float32
    closed = tangent_directions(problem, W, V, 0)
    assert float(loss(solution)) < min(float(loss(scale * closed)) for scale in (0.0, 0.1, 1.0, 10.0))


def test_solver_on_a_quadratic_of_any_shape() -> None:
    A, b = np.diag([1.0, 10.0, 100.0]), np.arange(6.0).reshape(3, 2)
    solution = minimise(quadratic, np.zeros((3, 2)), (A, b))
    assert solution.dtype == np.float64
    assert_allclose(solution, np.linalg.solve(A, b), atol=1e-8)  # the gradient's tolerance over the least eigenvalue


def quadratic(x, A, b):
    return 0.5 * jnp.sum(x * (A @ x)) - jnp.sum(b * x)


def test_where_the_solver_ends() -> None:
    """At the solution, after so many steps, at a loss that is enough, or where no step helps."""
    A, b = np.diag([1.0, 10.0, 100.0]), np.ones((3, 1))
    solved = np.linalg.solve(A, b)
    least, cut, enough = (
        float(quadratic(minimise(quadratic, np.zeros((3, 1)), (A, b), **end), A, b))
        for end in ({}, {"max_iterations": 1}, {"enough": -0.1})
    )
    assert least == pytest.approx(float(quadratic(solved, A, b)))
    assert least < cut < 0
    assert least < enough <= -0.1
    assert_array_equal(minimise(quadratic, solved, (A, b)), solved)
    assert_array_equal(minimise(not_finite, np.zeros(2)), np.zeros(2))


def not_finite(x):
    return jnp.sum(x) / 0.0 * 0.0


def test_enough_for_margin_is_sharp() -> None:
    """One row that just has the margin against one other output, and N - 1 without loss, reach it."""
    N, margin = 5, 1.5
    logits = jnp.asarray([[margin, 0.0]] + [[1e3, 0.0]] * (N - 1))
    answers = Wanted(np.zeros(N, int), np.ones(N, bool), np.ones(logits.shape[1], bool))
    assert float(cross_entropy(logits, answers)) == pytest.approx(enough_for_margin(margin, N), rel=1e-5)


def test_polynomial_memories_meet_assumption_3() -> None:
    problem = random_problem(16, 24, key=KEY)
    sigma = Polynomial((1.0,) * 4)
    for memory in (
        hermite_features(problem, 8192, 2, key=KEY, sigma=sigma),
        tangent_kernel(problem, 8192, 2, key=KEY, sigma=sigma),  # k even, as in the proof
    ):
        assert memory.sigma == sigma
        assert float(jnp.mean(margins(memory, problem))) > 0
        assert accuracy(memory, problem) == 1

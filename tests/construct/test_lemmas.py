"""The lemmas that the transformer constructions stand on: exact moments, stated frequencies, the Hermite tensors.

Lemma 12 is tested with the embeddings, lemma 15 with the activations.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from numpy.testing import assert_allclose

from facthold._util.keys import fold
from facthold.construct.attention import (
    gaps,
    hebbian_keys,
    partition,
    projected_memory,
    separating_keys,
    sphere_without_EOS,
)
from facthold.construct.attention_mlp import SCALE, hermite_tensor_memory, tensor_contraction, two_subspaces
from facthold.facts.problem import FactualRecall
from facthold.facts.table import FactTable, random_table
from facthold.memory.activations import Activation, Polynomial, hermite

KEY = jax.random.key(17)
DOUBLE = float(np.finfo(float).eps)
SHARING = FactTable.from_matrix(np.array([[0, 1], [1, 2], [3, 3]], np.int32))
"""Subject 0 has the answers 0 and 1, subject 1 has 1 and 2, and 3 is neither's."""
SIGNED = Polynomial((0.5, 1.0, -0.8, 0.6, -0.4))


@pytest.fixture
def x64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def on_the_sphere(table: FactTable, d: int, seed: int, n_noise: int = 4) -> FactualRecall:
    phi = np.random.default_rng(seed).standard_normal((table.S + table.R + n_noise + 1 + table.A, d))
    return FactualRecall(table, phi / np.linalg.norm(phi, axis=1, keepdims=True), T=8)


def agrees(samples: np.ndarray, mean: float) -> bool:
    """Within four standard errors, estimated from the samples."""
    return bool(abs(samples.mean() - mean) < 4 * samples.std() / math.sqrt(len(samples)))


def test_lemma_1_noise_of_the_scores() -> None:
    """gamma of a token in V_h, of EOS and of one outside: mean zero, and the variance with the term of EOS/2.

    Inner products of distinct unit vectors are uncorrelated and have the second moment 1/d; the proof leaves out
    <phi(z), phi(EOS)> / 2, which adds 1/(4d) where z is not EOS.
    """
    d, tokens = 16, np.array([0, 1, 2])
    scores = []
    for seed in range(3000):
        problem = on_the_sphere(SHARING, d, seed)
        (v,) = hebbian_keys(problem, [tokens])
        scores.append(problem.phi[[0, problem.EOS, 4]] @ v - [1.0, 0.5, 0.0])
    n = len(tokens)
    for gamma, variance in zip(np.array(scores).T, [(n - 0.75) / d, n / d, (n + 0.25) / d], strict=True):
        assert agrees(gamma, 0.0)
        assert agrees(gamma**2, variance)


def ordered(table: FactTable, d: int, seed: int, tokens: np.ndarray) -> bool:
    """<v, phi(z)> > <v, phi(EOS)> + 1/4 > <v, phi(z')> + 1/2: both gaps are above 1/4."""
    problem = on_the_sphere(table, d, seed, n_noise=16)
    return bool(gaps(problem, hebbian_keys(problem, [tokens]), [tokens])[0] > 0.25)


def test_lemma_1_order_of_the_scores() -> None:
    """Each gamma is sub-Gaussian with proxy (|V_h| + 1/4) / d, and the order holds where none exceeds 1/8: by a union
    over the tokens it fails with probability delta at most for this d. At d = |V_h| the gammas have size 1."""
    table, tokens, delta, seeds = random_table(8, 8, 4, key=KEY), np.arange(4), 0.1, 40
    n_tokens = on_the_sphere(table, 4, 0, n_noise=16).n_tokens
    d = math.ceil(2 * 8**2 * (len(tokens) + 0.25) * math.log(2 * n_tokens / delta))
    assert sum(ordered(table, d, seed, tokens) for seed in range(seeds)) >= (1 - delta) * seeds
    assert not any(ordered(table, len(tokens), seed, tokens) for seed in range(seeds))


def test_separating_keys_do_lemma_1_at_a_far_smaller_d() -> None:
    problem = on_the_sphere(random_table(8, 8, 4, key=KEY), 24, 0, n_noise=16)
    subsets = partition(problem, 2)
    assert gaps(problem, hebbian_keys(problem, subsets), subsets).min() < 0
    v = separating_keys(problem, subsets)
    # at a gradient of 1e-8 or less, sum_j h_j (1 - h_j) = <v, gradient> for the missing parts h_j of the gaps
    assert gaps(problem, v, subsets).min() >= 1 - 1e-7 * np.abs(v).sum()


def memory_scores(d: int, d_h: int, seed: int) -> tuple[FactualRecall, np.ndarray]:
    """phi(y)^T W phi(z) of lemma 2 for z = 0, 1 (in V_h) and EOS, and all tokens y."""
    problem, tokens = on_the_sphere(SHARING, d, seed), np.array([0, 1])
    (w,) = sphere_without_EOS(problem, 1, d_h, key=fold(KEY, seed))
    W_O = projected_memory(problem, tokens, w)
    return problem, (problem.phi @ W_O.T) @ (w @ problem.phi[[*tokens, problem.EOS]].T)


def second_moment(d: int, d_h: int, a: int, z: int = 0) -> float:
    """E (phi(a)^T W phi(z))^2, exactly: the terms of the sum over z' and a' are uncorrelated.

    With P the projection off phi(EOS), w_i has E w w^T = P / (d-1) and E w^4 = 3 Sym(P^2) / ((d-1)(d+1)).
    """
    total = 0.0
    for other in (0, 1):
        across = d * (d + 1) / ((d + 2) * (d - 1)) if other == z else 1 / (d - 1)  # of w_i with w_j
        same = 3 * d / (d + 2) if other == z else 1.0  # of w_i with itself
        answers = SHARING.A_s(other)
        total += ((d_h - 1) * across + same) / d_h * sum(1.0 if b == a else 1 / d for b in answers)
    return total


def test_lemma_2_moments() -> None:
    """The mean is 1 for a in A_z, not (d-1)/d as in the proof, and 0 for all others. A head on EOS adds nothing."""
    d, d_h = 8, 6
    scores = []
    for seed in range(2000):
        problem, gamma = memory_scores(d, d_h, seed)
        assert np.abs(gamma[:, 2]).max() < 4 * d * d * DOUBLE  # sums of d terms, up to d times A_z's four answers
        scores.append(gamma[problem.n_tokens :, 0])
    for a, gamma in enumerate(np.array(scores).T):
        assert agrees(gamma, float(a in SHARING.A_s(0))), a
        assert agrees(gamma**2, second_moment(d, d_h, a)), a
    assert not agrees(np.array(scores)[:, 0], (d - 1) / d)


def test_lemma_2_bound() -> None:
    """|phi(y)^T W phi(z) - 1(y in A_z)| <= 1/5 for all y at once; sizes at which 1/5 is 3 standard deviations."""
    d, d_h, delta, seeds = 2048, 1024, 0.1, 10
    wanted = np.zeros((3, SHARING.A))
    for z in (0, 1):
        wanted[z, list(SHARING.A_s(z))] = 1
        assert all(3 * math.sqrt(second_moment(d, d_h, a, z) - wanted[z, a]) < 1 / 5 for a in range(SHARING.A))

    def holds(d_h: int, seed: int) -> bool:
        problem, gamma = memory_scores(d, d_h, seed)
        gamma[problem.n_tokens :] -= wanted.T
        return bool(np.abs(gamma[:, :2]).max() <= 1 / 5)

    assert sum(holds(d_h, seed) for seed in range(seeds)) >= (1 - delta) * seeds
    assert not any(holds(4, seed) for seed in range(seeds))


def nested(f: Callable[[Array], Array], k: int) -> Callable[[Array], Array]:
    for _ in range(k):
        f = jax.jacfwd(f)
    return f


@partial(jax.jit, static_argnums=0)
def hermite_tensors(k: int, X: Array) -> Array:
    """Definition 1: He_k = (-1)^k grad^k mu / mu, at each row."""

    def mu(x: Array) -> Array:
        return jnp.exp(-0.5 * x @ x)

    return jax.vmap(lambda x: (-1) ** k * nested(mu, k)(x) / mu(x))(X)


def contract(tensors: np.ndarray, vectors: list[np.ndarray]) -> np.ndarray:
    for v in vectors:
        tensors = tensors @ v
    return tensors


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_lemma_16_contraction(k: int) -> None:
    """With definition 1 it is sqrt(k!) h_k, for which the lemma has h_k; a vector of any length comes to its power."""
    W, x = np.random.default_rng(k).standard_normal((2, 3, 5))
    tensors = np.asarray(hermite_tensors(k, W))
    for v in x:
        unit = v / np.linalg.norm(v)
        expected = math.sqrt(math.factorial(k)) * hermite(k, W @ unit)
        assert_allclose(contract(tensors, [unit] * k), expected, rtol=1e-11, atol=1e-11)
        assert_allclose(contract(tensors, [v] * k), tensor_contraction(W, v[None], k)[0], rtol=1e-11, atol=1e-10)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("k", [1, 2, 3])
def test_lemma_16_stein(k: int) -> None:
    nodes, weights = np.polynomial.hermite_e.hermegauss(6)  # exact up to degree 11
    x = np.stack(np.meshgrid(nodes, nodes), axis=-1).reshape(-1, 2)
    mass = np.outer(weights, weights).ravel() / weights.sum() ** 2

    def f(x: Array) -> Array:
        return x[0] ** 3 * x[1] - 2 * x[0] * x[1] ** 2 + x[1] + 0.5 * x[0] ** 2

    left = np.tensordot(mass * f(x.T), hermite_tensors(k, x), 1)
    assert_allclose(left, np.tensordot(mass, jax.jit(jax.vmap(nested(f, k)))(x), 1), rtol=1e-11, atol=1e-11)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(("p", "k"), [(1, 1), (1, 2), (2, 1), (3, 1), (2, 2)])
def test_lemma_3_parts_of_the_tensor_multiply(p: int, k: int) -> None:
    """<He_{p+k}(w), s'^p x r'^k> is a product, as s' and r' are orthogonal."""
    problem = on_the_sphere(SHARING, 5, 0)
    P, Q = two_subspaces(problem, key=KEY)
    s, r = problem.phi[:1] @ P.T @ P, problem.phi[4:5] @ Q.T @ Q
    W = np.random.default_rng(1).standard_normal((3, 5))
    product = (tensor_contraction(W, s, p) * tensor_contraction(W, r, k))[0]
    tensors = np.asarray(hermite_tensors(p + k, W))
    assert_allclose(product, contract(tensors, [s[0]] * p + [r[0]] * k), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    ("p", "k", "sigma"), [(1, 1, None), (2, 1, None), (1, 1, SIGNED), (3, 1, SIGNED)], ids=["11", "21", "11+", "31-"]
)
def test_lemma_3_mean_over_neurons(p: int, k: int, sigma: Activation | None) -> None:
    """The kernel of the proof, for fixed embeddings: exactly <s, s'>^p <r, r'>^k, times E sigma^(p+k) along the way."""
    problem, m, n = on_the_sphere(SHARING, 9, 3), 100_000, p + k
    sigma = Polynomial((0.0,) * n + (1.0,)) if sigma is None else sigma
    P, Q = two_subspaces(problem, key=KEY)
    memory = hermite_tensor_memory(problem, P, Q, m, p, k, sigma, key=KEY)
    S, R = problem.phi[:3] @ P.T @ P, problem.phi[3:5] @ Q.T @ Q
    x, direction = S[0] + R[0], problem.phi[problem.n_tokens] - problem.phi[problem.n_tokens + 2]
    each = m * sigma(np.asarray(memory.W) @ x) * (np.asarray(memory.V) @ direction)
    table, rho = problem.table, float(np.linalg.norm(x))
    z, mass = np.polynomial.hermite_e.hermegauss(20)
    along = mass @ (sigma(rho * z) * hermite(n, z)) / mass.sum() / (sigma.coefficient(n) * rho**n)
    kernel = (S @ S[0])[table.subjects] ** p * (R @ R[0])[table.relations] ** k
    expected = SCALE * 2**n * along * kernel @ (problem.phi[problem.n_tokens + table.answers] @ direction)
    assert agrees(each, float(expected))


def test_lemma_3_mean_margin() -> None:
    """Over embeddings too: 4 E|s'|^2 E|r'|^2 times SCALE, which is SCALE (1 - 1/d)^2 for odd d."""
    d, m, margins = 9, 1500, []
    for seed in range(600):
        problem, key = on_the_sphere(SHARING, d, seed), fold(KEY, seed)
        P, Q = two_subspaces(problem, key=key)
        memory = hermite_tensor_memory(problem, P, Q, m, 1, 1, Polynomial((0.0, 0.0, 1.0)), key=key)
        x = problem.phi[0] @ P.T @ P + problem.phi[3] @ Q.T @ Q
        F = memory.sigma(np.asarray(memory.W) @ x) @ np.asarray(memory.V)
        margins.append(F @ (problem.phi[problem.n_tokens] - problem.phi[problem.n_tokens + 2]))
    assert agrees(np.array(margins), SCALE * (1 - 1 / d) ** 2)

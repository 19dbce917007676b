"""MLP memories without training (section 3.2, theorems 2 and 9, appendix B).

Both constructions hold one kernel, <e_x, e_z>^p up to the noise of m random neurons. Both divide by the
kernel's Hermite coefficient: the paper leaves it out, or takes it to be positive. So the margin's mean is
1, as for the linear memory, and a negative coefficient needs no case of its own.
"""

import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from facthold._util.draws import normal
from facthold._util.errors import check_positive
from facthold._util.padding import pad_rows, padded
from facthold.construct.solve import Wanted, cross_entropy, least_cross_entropy
from facthold.memory.activations import RELU, Activation, hermite
from facthold.memory.associations import Problem
from facthold.models.memory import MLPMemory

Rows = Float[Array, "m d"]

MAX_DEGREE = 8  # degrees k that are looked at when none is given; higher ones need far more neurons than fit anywhere


def hermite_features(
    problem: Problem, m: int, k: int | None = None, *, key: PRNGKeyArray, sigma: Activation = RELU
) -> MLPMemory:
    """v_i = 1/(m c_k) sum_x u_{f*(x)} h_k(<w_i, e_x>) with w_i ~ N(0, I_d) (theorem 2, proof sketch).

    Then F(e_x) is about sum_z u_{f*(z)} <e_x, e_z>^k (equation 3, which leaves out c_k). Where no k is
    given, it is the degree with the least noise for unit embeddings. The kernel of an even k has a positive
    mean, which only an injective map spreads evenly over its outputs; take an odd k for other maps.
    """
    check_positive(m=m)
    degrees = [j for j in range(1, MAX_DEGREE + 1) if sigma.coefficient(j)]
    if k is None:
        k = _least({j: _noise(sigma, sigma.coefficient(j), problem.d, j, m) for j in degrees}, sigma)
    c_k = sigma.coefficient(k) if k >= 1 else 0.0
    if not c_k:
        raise ValueError(f"k={k}: {sigma.name!r} holds no <e_x, e_z>^k, as c_{k} = 0 or k < 1; choose one of {degrees}")
    W = normal(key, (m, problem.d), problem.E.dtype)
    E, _, targets = problem.host()
    V = jnp.asarray(hermite(k, E @ np.asarray(W).T).T @ targets / m)
    return MLPMemory(W, V / c_k, sigma=sigma)


def tangent_kernel(
    problem: Problem, m: int, k: int | None = None, *, key: PRNGKeyArray, sigma: Activation = RELU
) -> MLPMemory:
    """The memory of theorems 2 and 9, F(z) = sum_i v_i sigma'(<w_i, z>) <q_i, z>, as weights of a real MLP.

    Departs: the m real neurons are m/2 pairs (``pair_neurons``), so that half as many w_i are independent.
    The proof takes k even; then e_z and -e_z cancel, whatever the map. An odd k asks for an injective map,
    and is all that ReLU has beyond k = 0: its c_{k+1} is zero for even k >= 2. Where no k is given, it is
    the one with the least noise for unit embeddings.
    """
    degrees = [j for j in range(MAX_DEGREE + 1) if sigma.coefficient(j + 1)]
    if k is None:
        noise = {j: _noise(sigma.derivative, _tangent_coefficient(sigma, j), problem.d, j + 1, m // 2) for j in degrees}
        k = _least(noise, sigma)
    if k < 0 or not sigma.coefficient(k + 1):
        raise ValueError(f"k={k}: {sigma.name!r} has c_{k + 1} = 0, or k < 0; choose one of {degrees}")
    W, V = _tangent_neurons(problem, m, key)
    Q = tangent_directions(problem, W, V, k, sigma)
    return _nearest_pairs(problem.E, W, V, Q, sigma)


def convex_tangent(problem: Problem, m: int, *, key: PRNGKeyArray, sigma: Activation = RELU) -> MLPMemory:
    """The best tangent memory on m/2 random pairs: the cross entropy is convex in Q (end of section 3.2).

    Ends early where every association surely has a margin of 1.
    """
    W, V = _tangent_neurons(problem, m, key)
    Q = jnp.asarray(solve_tangent(problem, W, V, sigma), problem.E.dtype)
    return _nearest_pairs(problem.E, W, V, Q, sigma)


@eqx.filter_jit
def tangent(x: Float[Array, "*n d"], W: Rows, V: Rows, Q: Rows, sigma: Activation = RELU) -> Float[Array, "*n d"]:
    """F_NTK(x) = sum_i v_i sigma'(<w_i, x>) <q_i, x>, exactly (proof of theorem 2)."""
    return (sigma.derivative(x @ W.T) * (x @ Q.T)) @ V


def tangent_directions(problem: Problem, W: Rows, V: Rows, k: int, sigma: Activation = RELU) -> Rows:
    """Rows q_i = 1/(m C) sum_z h_k(<e_z, w_i>) <v_i, u_{f*(z)}> e_z (proof of theorem 2).

    C = sqrt(k+1) c_{k+1} is the coefficient of sigma' at degree k, as h_j' = sqrt(j) h_{j-1}. It is the
    expectation of the margin without 1/C, for which the proof has c_{k+1}.
    """
    E, _, targets = problem.host()
    weights = hermite(k, E @ np.asarray(W).T) * (targets @ np.asarray(V).T)
    return jnp.asarray(weights.T @ E / (len(W) * _tangent_coefficient(sigma, k)))


def pair_neurons(W: Rows, V: Rows, Q: Rows, sigma: Activation, epsilon: float) -> MLPMemory:
    """Neurons w_i +- epsilon q_i with readouts +- v_i / (2 epsilon): the tangent F as a real MLP.

    Each pair is a central difference: it meets the tangent up to epsilon^2. The rescaling in the proof of
    theorem 2 alone does not: V^T sigma(W z) / epsilon remains, and only neurons of opposite v cancel it.
    """
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise ValueError(f"epsilon={epsilon} must be positive; 1e-4 / |Q e_x| is a good size in float32")
    v = V / (2 * epsilon)
    return MLPMemory(jnp.concatenate([W + epsilon * Q, W - epsilon * Q]), jnp.concatenate([v, -v]), sigma=sigma)


def solve_tangent(problem: Problem, W: Rows, V: Rows, sigma: Activation = RELU, *, margin: float = 1.0) -> np.ndarray:
    """The Q of least cross entropy for these W and V."""
    E = pad_rows(problem.E, padded(problem.N))
    rows = E, sigma.derivative(E @ np.asarray(W).T)
    return least_cross_entropy(_tangent_loss, np.zeros(W.shape), problem.U, problem.f, rows, V, margin=margin)


def _tangent_loss(Q: Array, answers: Wanted, U: Array, E: Array, gates: Array, V: Array) -> Array:
    return cross_entropy(((gates * (E @ Q.T)) @ V) @ U.T, answers)


def inner_product_moment(d: int, p: int) -> float:
    """E <u, v>^(2p) for u, v uniform on the unit sphere: (2p-1)!! / (d (d+2) ... (d+2p-2)).

    Lemma 12 bounds it by (2p)^p d^-p.
    """
    return math.prod(((2 * j + 1) / (d + 2 * j) for j in range(p)), start=1.0)


def _noise(activation: Callable[[Array], Array], coefficient: float, d: int, p: int, m: int) -> float:
    """E K(e_x, e_z)^2 for x != z, up to factors that no degree changes.

    The kernel <e_x, e_z>^p itself, and what m random neurons add: E[activation^2] / (coefficient^2 m) for
    embeddings that are nearly orthogonal.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(64)
    power = float(weights @ np.asarray(activation(jnp.asarray(nodes))) ** 2 / weights.sum())
    return inner_product_moment(d, p) + power / (coefficient**2 * max(m, 1))


def _least(noise: dict[int, float], sigma: Activation) -> int:
    if not noise:
        raise ValueError(f"sigma={sigma.name!r} has no Hermite component that holds associations; take 'relu'")
    return min(noise, key=noise.__getitem__)


def _tangent_coefficient(sigma: Activation, k: int) -> float:
    return math.sqrt(k + 1) * sigma.coefficient(k + 1)


def _tangent_neurons(problem: Problem, m: int, key: PRNGKeyArray) -> tuple[Array, Array]:
    """W and V of the m/2 pairs, standard Gaussian."""
    check_positive(m=m)
    if m % 2:
        raise ValueError(f"m={m} neurons do not come in pairs; take m={m + 1}")
    k_W, k_V = jax.random.split(key)
    shape, dtype = (m // 2, problem.d), problem.E.dtype
    return jax.random.normal(k_W, shape, dtype), jax.random.normal(k_V, shape, dtype)


def _nearest_pairs(E: Float[Array, "N d"], W: Rows, V: Rows, Q: Rows, sigma: Activation) -> MLPMemory:
    """Pairs of the epsilon that comes nearest to the tangent at the inputs.

    A large step errs by the curvature of sigma or by the kinks that it crosses, a small one by rounding.
    Where they balance depends on sigma: at eps^(1/3) for a smooth one, near eps^(2/3) for ReLU.
    """
    # The size of <q_i, e_x>; that of <w_i, e_x> is about 1.
    size = float(np.sqrt(np.mean((np.asarray(E) @ np.asarray(Q).T) ** 2))) or 1.0
    E = jnp.asarray(pad_rows(E, padded(len(E))))  # at a zero row both F and the tangent are zero
    steps = [float(jnp.finfo(E.dtype).eps) ** power / size for power in (1 / 4, 1 / 3, 1 / 2, 2 / 3, 3 / 4)]
    pairs = [pair_neurons(W, V, Q, sigma, step) for step in steps]
    return min(pairs, key=lambda memory: float(_squared_error(memory, E, W, V, Q)))


@eqx.filter_jit
def _squared_error(memory: MLPMemory, E: Array, W: Array, V: Array, Q: Array) -> Array:
    return jnp.sum((memory(E) - tangent(E, W, V, Q, memory.sigma)) ** 2)

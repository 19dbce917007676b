"""Beyond the paper: MLP memories by convex solves, at most one per layer, with no gradient through both.

``ridge`` and ``convex`` solve for the readout V on random features. ``layerwise`` solves for W first. All
work in float64 and return float32 weights, in the type that training returns.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from facthold._util.errors import check_positive
from facthold.construct.solve import Wanted, cross_entropy, least_cross_entropy, minimise, ridged
from facthold.memory.activations import RELU, Activation
from facthold.memory.associations import Problem
from facthold.memory.embeddings import host_generator
from facthold.models.memory import LinearMemory, MLPMemory

MARGIN = 7.0  # a solve ends where every association surely has this margin: each then has probability 0.999 or more
RIDGE = 1e-6  # ridge, as a share of the features' mean square: the least that keeps the solve stable
START_SCALE = 3.0  # standard deviation of the scores that the first layer's solve starts from
FIRST_ITERATIONS, ITERATIONS = 40, 300  # steps of the first layer's solve at most, and of the readout's
FLIP_PRICE = 0.3
"""Price of a gate that flips, as a share of the harm that it does to a mean rival. Chosen on ten seeds at
N = 256, d = 32, and left alone since."""

Matrix = Float[np.ndarray, "_ _"]


def ridge(problem: Problem, m: int, *, key: PRNGKeyArray, sigma: Activation = RELU, ridge: float = RIDGE) -> MLPMemory:
    """V by least squares of the scores onto the one-hot targets, on random Gaussian features."""
    E, U, T = problem.host(np.float64)
    W = _gaussian(m, problem.d, key)
    return _memory(W, ridge_readout(sigma(E @ W.T), U, T, ridge), sigma)


def convex(problem: Problem, m: int, *, key: PRNGKeyArray, max_iterations: int = ITERATIONS) -> MLPMemory:
    """V of least cross entropy on random Gaussian features: one convex solve."""
    E, U, _ = problem.host(np.float64)
    W = _gaussian(m, problem.d, key)
    return _memory(W, _convex_readout(RELU(E @ W.T), U, problem, max_iterations), RELU)


def layerwise(problem: Problem, m: int, *, key: PRNGKeyArray) -> MLPMemory:
    """A ReLU memory by one convex solve per layer: W with frozen gates and a fixed readout, then V.

    1. Start: neurons of norm sqrt(d) that read random directions of the least-squares prediction of u_f(x) from e_x,
       and the ridge readout on them.
    2. With the gates frozen at those of the start, F is linear in W and its cross entropy convex. A gate
       that flips would break this, so flips are charged for, by a convex penalty. A few steps suffice.
    3. V of least cross entropy on the features sigma(W e), with their true gates.
    """
    E, U, T = problem.host(np.float64)
    W = _gaussian(m, problem.d, key) @ np.linalg.lstsq(E, T, rcond=None)[0].T
    W = W * np.sqrt(problem.d) / np.linalg.norm(W, axis=1, keepdims=True)
    H = RELU(E @ W.T)
    V = ridge_readout(H, U, T, RIDGE)
    V *= START_SCALE / np.std(H @ V @ U.T)
    white, unwhiten = whiten(E)
    start = W @ np.linalg.pinv(unwhiten).T
    rows = white, (H > 0).astype(float), _flip_prices(V, U, T)
    first = least_cross_entropy(_frozen_gates_loss, start, U, problem.f, rows, V, margin=MARGIN, steps=FIRST_ITERATIONS)
    W = first @ unwhiten.T
    return _memory(W, _convex_readout(RELU(E @ W.T), U, problem), RELU)


def ridge_readout(H: Matrix, U: Matrix, T: Matrix, ridge: float) -> Matrix:
    """V = (H^T H + ridge)^-1 H^T T (U^T U)^-1: least squares of the scores H V U^T onto one-hot rows."""
    return np.linalg.solve(ridged(H.T @ H, ridge), H.T @ T) @ np.linalg.pinv(U.T @ U)


def _convex_readout(H: Matrix, U: Matrix, problem: Problem, max_iterations: int = ITERATIONS) -> Matrix:
    """V of least cross entropy. Features and outputs are whitened: L-BFGS then needs tens of steps."""
    (white_H, unwhiten_H), (white_U, unwhiten_U) = whiten(H), whiten(U)
    start = np.zeros((white_H.shape[1], white_U.shape[1]))
    A = least_cross_entropy(_readout_loss, start, white_U, problem.f, (white_H,), margin=MARGIN, steps=max_iterations)
    return unwhiten_H @ A @ unwhiten_U.T


def _readout_loss(A: Array, answers: Wanted, U: Array, H: Array) -> Array:
    return cross_entropy(H @ A @ U.T, answers)


def _frozen_gates_loss(W: Array, answers: Wanted, U: Array, E: Array, gates: Array, prices: Array, V: Array) -> Array:
    """Cross entropy with the gates of the start, where each flip lowers the target's score by its price.

    max(z, 0) - gate z is convex in W, not negative, and zero exactly where the gate has not flipped.
    """
    Z = E @ W.T
    kept = gates * Z
    charge = (prices * (jax.nn.relu(Z) - kept)).sum(axis=1)
    rivals = jnp.arange(U.shape[0]) != answers.f[:, None]
    return cross_entropy(kept @ V @ U.T + charge[:, None] * rivals, answers)


def _flip_prices(V: Matrix, U: Matrix, T: Matrix) -> Matrix:
    """FLIP_PRICE * mean_y max(0, <v_i, u_y - u_f(x)>): what unwanted activation of neuron i does to x, (N, m).

    The means come from sorted scores and their sums from above, not from N x M x m differences.
    """
    ours, all_scores = T @ V.T, np.sort(U @ V.T, axis=0)
    sums_above = np.vstack([np.cumsum(all_scores[::-1], axis=0)[::-1], np.zeros(V.shape[0])])
    below = np.stack([np.searchsorted(s, o, side="right") for s, o in zip(all_scores.T, ours.T, strict=True)], axis=1)
    above = np.take_along_axis(sums_above, below, axis=0) - (len(U) - below) * ours
    return FLIP_PRICE * above / len(U)


def whiten(X: Matrix) -> tuple[Matrix, Matrix]:
    """X R with orthonormal columns times sqrt(rows), and R; directions that X does not have are left out."""
    _, s, Vt = np.linalg.svd(X, full_matrices=False)
    kept = s > 1e-10 * s[0]
    R = Vt[kept].T / s[kept] * np.sqrt(len(X))
    return X @ R, R


def _gaussian(m: int, d: int, key: PRNGKeyArray) -> Matrix:
    check_positive(m=m)
    return host_generator(key).standard_normal((m, d))


def _memory(W: Any, V: Any, sigma: Activation) -> MLPMemory:
    return MLPMemory(jnp.asarray(W, jnp.float32), jnp.asarray(V, jnp.float32), sigma=sigma)


def best_linear(problem: Problem, p: Float[np.ndarray, " N"], *, max_iterations: int = 200) -> LinearMemory:
    """W of the least sum_x p(x) cross entropy: convex, so no linear memory of 32 bits per weight does better."""
    E, U, _ = problem.host(np.float64)
    (white, unwhiten), (outputs, back) = whiten(E), whiten(U)
    start = np.zeros((white.shape[1], outputs.shape[1]))
    args = (white, outputs, np.asarray(problem.f), p / p.sum())
    A = minimise(_weighted_loss, start, args, max_iterations=max_iterations, tolerance=1e-6)
    return LinearMemory(jnp.asarray((unwhiten @ A @ back.T).T, jnp.float32))


def _weighted_loss(A: Array, E: Array, U: Array, f: Int[Array, " N"], p: Array) -> Array:
    scores = E @ A @ U.T
    return (p * (jax.nn.logsumexp(scores, axis=1) - jnp.take_along_axis(scores, f[:, None], axis=1)[:, 0])).sum()

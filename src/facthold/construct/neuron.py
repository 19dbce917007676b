"""Neurons of its own for one fact: an edit that touches no other, for the price of 2 d parameters per neuron.

Mostly one is enough: its direction w keeps the largest distance from what the MLP reads at the other facts, and its
threshold lies half way to the nearest of them. A fact that lies among the others, in their convex hull, gets a *tent*:
four neurons along one w, whose ramps add up to a bump. Both are v times a function of w x, and nothing is trained.
"""

from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import nnls

from facthold.construct.solve import ridged
from facthold.memory.activations import RELU
from facthold.models.memory import MLPMemory
from facthold.models.transformer import Transformer

INSIDE = 1e-10  # a residual below this is rounding: the fact lies among the others
NARROWEST = 1e-3  # width of a tent's ramps at least, where the fact is 1 from the mean of the others: far above float32
TRIED = 64  # directions that are tried for a tent
STABLE = 1e-9  # of the mean variance, added to each: directions in which no fact differs

Inputs = Float[np.ndarray, "n d"]
Rows = Int[np.ndarray, " _"]


@dataclass(frozen=True, eq=False)
class Bump:
    """sum_i sign_i relu(w x + b_i): 1 or more at the edited prompts, zero at all others."""

    w: Float[np.ndarray, " d"]
    b: Float[np.ndarray, " k"]
    signs: Float[np.ndarray, " k"]

    def __call__(self, x: Inputs) -> Float[np.ndarray, " n"]:
        return RELU((x @ self.w)[:, None] + self.b) @ self.signs


def bump(x: Inputs, edited: Rows, others: Rows) -> Bump | None:
    """The fewest neurons that are on at the rows ``edited`` of x and off at ``others``; None where none were found."""
    if not len(others):
        own = x[edited].mean(axis=0)
        w = own / max(own @ own, 1e-300)
        return _scaled(w, np.zeros(1), np.ones(1), float((x[edited] @ w).min()))
    return _one(x, edited, others) or _tent(x, edited, others)


def _one(x: Inputs, edited: Rows, others: Rows) -> Bump | None:
    """One neuron. The shortest w with w (x - x_j) >= 1 for all j is Lawson and Hanson's least distance problem: the
    residual of one non-negative least squares has it, unless the fact lies among the others."""
    own = x[edited].mean(axis=0)
    scale = np.maximum((x[others] - own).std(axis=0), 1e-12)
    z = np.unique((own - x[others]) / scale, axis=0)  # a prompt's noise seldom changes what attention writes
    rows = np.vstack([z.T, np.ones(len(z))])
    short = rows @ nnls(rows, np.append(np.zeros(len(own)), 1.0), maxiter=50 * max(rows.shape))[0]
    short[-1] -= 1
    if -short[-1] < INSIDE:
        return None
    w = short[:-1] / -short[-1] / scale
    highest, lowest = (x[others] @ w).max(), (x[edited] @ w).min()
    threshold = (lowest + highest) / 2
    return _scaled(w, np.array([-threshold]), np.ones(1), float(lowest - threshold))


def _tent(x: Inputs, edited: Rows, others: Rows) -> Bump | None:
    """Four neurons along Fisher's direction, C^-1 (x - mean), on which few of the others come near the fact; or along
    one of some that are near to it, if the ramps can be wider there."""
    mean = x[others].mean(axis=0)
    apart, ahead = x[others] - mean, x[edited].mean(axis=0) - mean
    C = ridged(apart.T @ apart / len(others), STABLE)
    beside = np.random.default_rng(0).standard_normal((TRIED, len(others))) @ apart / np.sqrt(len(others))
    beside[0] = 0
    W = np.linalg.solve(C, (ahead + beside).T).T
    reach = W @ ahead
    W = W[reach > 0] / reach[reach > 0, None]
    if not len(W):  # the fact is where the mean of the others is
        return None
    own, theirs = x[edited] @ W.T, x[others] @ W.T
    low, high = own.min(axis=0), own.max(axis=0)
    free = np.maximum(low - theirs, theirs - high).min(axis=0) / 2  # negative where one of them is in between
    best = int(free.argmax())
    corners = np.array([low[best] - free[best], low[best], high[best], high[best] + free[best]])
    return _scaled(W[best], -corners, np.array([1.0, -1.0, -1.0, 1.0]), float(free[best]), NARROWEST)


def _scaled(w: np.ndarray, b: np.ndarray, signs: np.ndarray, height: float, least: float = 0.0) -> Bump | None:
    """The bump of this height at the edited prompts, scaled to 1; None where it is too flat to be computed."""
    if not (np.isfinite(w).all() and height > least):
        return None
    return Bump(w / height, b / height, signs)


def winning(F: Inputs, U: Float[np.ndarray, "M d"], wins: int, mu: float) -> Float[np.ndarray, " d"]:
    """The shortest multiple of u_wins that, added to F, lets it win by mu over every other output in all prompts."""
    U = U.astype(np.float64)
    u, others = U[wins], np.arange(len(U)) != wins
    behind = mu + (F @ U[others].T) - (F @ u)[:, None]
    gain = (u - U[others]) @ u
    return max(0.0, float((behind / np.maximum(gain, 1e-3 * (u @ u))).max(initial=0.0))) * u


def with_bump(model: Transformer, neurons: Bump, v: Float[np.ndarray, " d"], at: Rows | None) -> Transformer:
    """The model with these neurons, in the places ``at`` of idle ones or as more of them."""
    mlp, d = model.mlp, model.d
    W, V = (np.zeros((0, d)), np.zeros((0, d))) if mlp is None else (np.array(mlp.W), np.array(mlp.V))
    b = np.zeros(len(W)) if mlp is None or mlp.b is None else np.array(mlp.b)
    rows, readouts = np.tile(neurons.w, (len(neurons.b), 1)), np.outer(neurons.signs, v)
    if at is None:
        W, V, b = np.vstack([W, rows]), np.vstack([V, readouts]), np.append(b, neurons.b)
    else:
        W[at], V[at], b[at] = rows, readouts, neurons.b
    w, out, bias = (jnp.asarray(a, jnp.float32) for a in (W, V, b))
    return replace(model, mlp=MLPMemory(w, out, bias, RELU if mlp is None else mlp.sigma))

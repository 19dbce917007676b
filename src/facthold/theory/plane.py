"""Two outputs in the plane (slides: small capacity): which w has the most right, and where gradient descent must end.

With x_z = e_z or -e_z by the right output, z is right where w^T x_z > 0: the direction of w alone decides. Where no w
has everything right the population cross entropy has one minimum, and gradient descent with small steps ends there from
any start; what is right at that minimum need not be the most that can be.
"""

import numpy as np
from jaxtyping import Float
from scipy.special import expit

MOST_ITERATIONS = 200
FLAT = 1e-12  # a gradient that is this small is zero


def mass(w: Float[np.ndarray, " 2"], x: Float[np.ndarray, "N 2"], p: Float[np.ndarray, " N"]) -> float:
    """The probability of what is right."""
    return float(p[x @ w > 0].sum())


def best_direction(x: Float[np.ndarray, "N 2"], p: Float[np.ndarray, " N"]) -> Float[np.ndarray, " 2"]:
    """A unit vector with the largest mass: the middle of the widest among the best arcs. What is right changes only at
    the 2 N directions that are orthogonal to some x_z."""
    edges = np.sort(
        np.concatenate([np.arctan2(x[:, 1], x[:, 0]) + turn for turn in (np.pi / 2, -np.pi / 2)]) % (2 * np.pi)
    )
    widths = np.diff(edges, append=edges[0] + 2 * np.pi)
    middles = edges + widths / 2
    directions = np.stack([np.cos(middles), np.sin(middles)], axis=1)
    masses = ((x @ directions.T > 0) * p[:, None]).sum(axis=0)
    best = np.flatnonzero((masses > masses.max() - 1e-12) & (widths > 0))
    return directions[best[widths[best].argmax()]]


def separable(x: Float[np.ndarray, "N 2"]) -> bool:
    """Whether some w has everything right."""
    n = len(x)
    return mass(best_direction(x, np.full(n, 1 / n)), x, np.ones(n)) == n


def least_cross_entropy(x: Float[np.ndarray, "N 2"], p: Float[np.ndarray, " N"]) -> Float[np.ndarray, " 2"]:
    """The w that minimises sum_z p_z ln(1 + exp(-w^T x_z)), by Newton's method with halved steps."""
    if separable(x):
        raise ValueError("there is no minimum where some w has everything right: the loss falls to zero at infinity")
    w = np.zeros(2)
    for _ in range(MOST_ITERATIONS):
        m = x @ w
        gradient = -(p * expit(-m)) @ x
        if np.abs(gradient).max() < FLAT:
            break
        step = np.linalg.solve((p * expit(m) * expit(-m) * x.T) @ x, gradient)
        while _loss(w - step, x, p) > _loss(w, x, p) and np.abs(step).max() > FLAT:
            step = step / 2
        w = w - step
    return w


def _loss(w: np.ndarray, x: np.ndarray, p: np.ndarray) -> float:
    return float(p @ np.logaddexp(0, -(x @ w)))

"""Scores of weighted memories (slides), exactly: W = sum_zy alpha_zy u_y e_z^T with all embeddings on the sphere.

u_y^T W e_z = sum_z'y' alpha_z'y' (u_y^T u_y') (e_z^T e_z') has mean alpha_zy: the term of (z, y) itself is alpha_zy,
and all others have mean 0. These are uncorrelated, with variance alpha^2 / d where they share z or y, and
alpha^2 / d^2 where they share neither.
"""

import math

import numpy as np
from jaxtyping import Float


def weighted_variance(alpha: Float[np.ndarray, "N M"], d: int) -> Float[np.ndarray, "N M"]:
    """Var(u_y^T W e_z) for every z and y."""
    squares = alpha**2
    by_input, by_output = squares.sum(axis=1, keepdims=True), squares.sum(axis=0, keepdims=True)
    sharing = by_input + by_output - 2 * squares
    return sharing / d + (squares.sum() - sharing - squares) / d**2


def pair_kernels(d: int) -> dict[str, tuple[float, float]]:
    """Mean kernels of two inputs at once, x = (e_z1 + e'_z2) / sqrt(2), by what both pairs share: one of their inputs,
    or ``all``. First of the linear memory, <x, x'>; then of a ReLU memory of degree 2 (`construct.mlp`).

    For that one K(x, x') = <x, x'>^2 / |x| + |x| (|x'|^2 - 1): E[relu(w^T x) h_2(w^T x')] / c_2 for w ~ N(0, I). With
    t = e^T e', of mean 0 and density (1 - t^2)^((d-3)/2), |x|^2 = 1 + t; a pair that shares e has |x'|^2 - 1 of mean 0
    and <x, x'> = (1 + e^T e'' + e'^T e + e'^T e'') / 2: given x the mean of its square is ((1 + t)^2 + |x|^2 2/d) / 4.
    """
    nodes, weights = np.polynomial.legendre.leggauss(400)
    density = weights * (1 - nodes**2) ** ((d - 3) / 2)
    t, p = nodes, density / density.sum()
    norm = np.sqrt(1 + t)
    own, shared = 2 * norm**3 - norm, ((1 + t) ** 2 + 2 * (1 + t) / d) / 4 / norm
    return {"all": (1.0, math.fsum(p * own)), "one": (0.5, math.fsum(p * shared))}

"""How many associations a linear memory can hold if each answer is only to be above the mean of its largest rivals.

The geometry of `theory.sharp` with another cone for each input: {g_1 >= the mean of the k largest of g_2, ..., g_N}.
The threshold is N Delta_k(N) = d^2, where Delta_k is the mean squared distance of a Gaussian vector to it. With k a
share of N, many rivals make up the mean for large N, and moving them costs nothing beside moving the answer's own score
up to the mean h of the tail: Delta_k tends to E[max(0, h - g)^2], a constant. There is no logarithm.
"""

import math

import numpy as np
from jaxtyping import Float
from scipy.optimize import nnls
from scipy.special import ndtr, ndtri

from facthold.theory.sharp import Rivals, sphere_draw

HALVINGS = 32  # of an interval, to some 1e-9 of it
MOST_TAILS = 200  # some ten are enough
ROUNDS = 4  # from a guess at the threshold to itself; each has a twentieth of the error before


def tail_size(share: float, rivals: float) -> int:
    """How many rivals are the tail: at least one."""
    return max(1, round(share * rivals))


def tail_mean(share: float) -> float:
    """h: the mean of the largest ``share`` of many normal numbers."""
    if not 0 < share < 1:
        raise ValueError(f"share={share} must lie between 0 and 1")
    return math.exp(-(ndtri(share) ** 2) / 2) / math.sqrt(2 * math.pi) / share


def listwise_constant(share: float) -> float:
    """d^2 / N at the threshold, for large N: E[max(0, h - g)^2]."""
    return _mean_square(tail_mean(share))


def _mean_square(h: float) -> float:
    return float((h * h + 1) * ndtr(h) + h * math.exp(-h * h / 2) / math.sqrt(2 * math.pi))


def tail_distance_squared(own: Float[np.ndarray, " n"], rivals: Float[np.ndarray, "n m"], k: int) -> np.ndarray:
    """dist^2 of each (own, rivals) to {own >= mean of the k largest rivals}.

    The nearest point has own + mu and rivals - mu p, where p = clip((rivals - tau) / mu, 0, 1/k) sums to 1; mu is the
    least at which the cone is reached, and the distance is mu^2 (1 + |p|^2).
    """

    def weights(mu: np.ndarray) -> np.ndarray:
        low, high = rivals.min(axis=1) - mu, rivals.max(axis=1)
        for _ in range(HALVINGS):
            tau = (low + high) / 2
            above = np.clip((rivals - tau[:, None]) / mu[:, None], 0, 1 / k).sum(axis=1) > 1
            low, high = np.where(above, tau, low), np.where(above, high, tau)
        p: np.ndarray = np.clip((rivals - low[:, None]) / mu[:, None], 0, 1 / k)
        return p / p.sum(axis=1, keepdims=True)

    tail = np.sort(rivals, axis=1)[:, -k:].mean(axis=1)
    low, high = np.full(len(own), 1e-12), np.maximum(tail - own, 1e-12)  # own alone moved up is always enough
    for _ in range(HALVINGS):
        mu = (low + high) / 2
        p = weights(mu)
        reached = own + mu >= (p * (rivals - mu[:, None] * p)).sum(axis=1)
        low, high = np.where(reached, low, mu), np.where(reached, mu, high)
    p = weights(high)
    return np.where(own >= tail, 0.0, high**2 * (1 + (p**2).sum(axis=1)))


def tail_rivals(N: int, k: int, n_draws: int, generator: np.random.Generator) -> Rivals:
    """Delta_k(N), drawn, with max(0, h - g_1)^2 at a fixed h, whose mean is known, as a control variate."""
    own, rivals = generator.standard_normal(n_draws), generator.standard_normal((n_draws, N - 1))
    kept = min(N - 1, 4 * k + 20)  # others are far below those that move
    rivals = np.partition(rivals, N - 1 - kept, axis=1)[:, N - 1 - kept :]
    h = float(np.sort(rivals, axis=1)[:, -k:].mean())
    exact, known = tail_distance_squared(own, rivals, k), np.maximum(0, h - own) ** 2
    left = exact - np.cov(exact, known)[0, 1] / known.var(ddof=1) * (known - _mean_square(h))
    return Rivals(float(left.mean()), float(left.std(ddof=1) / math.sqrt(n_draws)))


def sphere_share(d: int, N: int, k: int, n_draws: int, generator: np.random.Generator) -> Rivals:
    """What Delta_k(N) is multiplied by at finite d, as `sharp.sphere_rivals` has it for the largest rival."""
    exact, scores = np.empty(n_draws), np.empty((n_draws, N))
    for i in range(n_draws):
        U, h, scores[i] = sphere_draw(d, N, generator)
        exact[i] = _sphere_distance_squared(U, h, k)
    ideal = tail_distance_squared(scores[:, 0], scores[:, 1:], k)
    share = exact.mean() / ideal.mean()
    error = (exact - share * ideal).std(ddof=1) / math.sqrt(n_draws) / ideal.mean()
    return Rivals(float(share), float(error))


def _sphere_distance_squared(U: Float[np.ndarray, "N d"], h: Float[np.ndarray, " d"], k: int) -> float:
    """dist^2(h, {w: u_1^T w >= the mean of the k largest u_y^T w}). The polar has a generator for every k rivals: those
    that the nearest point so far violates most are added, until there is none."""
    polar, w, length = np.empty((len(h), 0)), h, 0.0
    for _ in range(MOST_TAILS):
        rivals = U[1:] @ w
        tail = np.argpartition(rivals, len(rivals) - k)[len(rivals) - k :]
        if rivals[tail].mean() <= U[0] @ w + 1e-9:
            break
        polar = np.column_stack([polar, U[1:][tail].mean(axis=0) - U[0]])
        weights, rest = nnls(polar, h)
        w, length = h - polar @ weights, h @ h - rest**2
    return float(length)


def listwise_separable(d: int, share: float, n_draws: int, seed: int) -> Rivals:
    """N at the threshold, with what finite d changes, and the error of the draws, which are the same in each round."""
    N = d * d / listwise_constant(share)
    for _ in range(ROUNDS):
        whole = max(3, round(N))
        k = tail_size(share, whole - 1)
        delta = tail_rivals(whole, k, n_draws, np.random.default_rng(seed))
        N = d * d / delta.mean
    part = sphere_share(d, whole, k, n_draws, np.random.default_rng(seed + 1))
    error = math.hypot(delta.error / delta.mean, part.error / part.mean)
    return Rivals(N / part.mean, N / part.mean * error)

"""Recall at finite size, from the noise on the scores alone: no constant is fitted.

The memories of theorems 1, 2 and 9 answer F(e_x) = sum_z K(x, z) u_z for f*(z) = z, with a kernel K that is 1 at z = x
and noise elsewhere. `bounds` has what this becomes for large sizes: a wrong score is Gaussian, and N V z(N)^2 = 1. At
the sizes of a laptop this is up to a tenth off. Here is what it leaves out: F(e_x) is one vector of d dimensions for
all rivals, its length and K(x, x) differ from input to input, u_y lies on a sphere and not in a Gaussian cloud, and
u_y is itself a part of F(e_x), with an even kernel on the average too. What is still left out is of relative order 1/d
or 1/N.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from facthold.theory import bounds

Function = Callable[[np.ndarray], np.ndarray]
NODES = {"target": 15, "length": 7, "rival": 15, "kernel": 9}  # of the integral over each Gaussian; half as many do
INNER = 48  # nodes of the integrals over the sphere


@dataclass(frozen=True)
class Noise:
    """Variances of the parts of a wrong score u_y^T F(e_x), over independent embeddings on the sphere and neurons."""

    d: float  # whole for embeddings on a sphere
    kernel: float  # what each bystander z adds: E<e_x, e_z>^(2p) / d, the kernel itself
    neurons: float  # and the noise of m random neurons or directions
    own: float  # second moment of K(x, y): what the rival's own association adds
    target: float  # what z = x adds beyond 1/d
    spread: float  # of K(x, x), whose mean is 1
    p: int = 1  # degree of the kernel: where it is even, K(x, y) has a positive mean and is skew

    @property
    def bystander(self) -> float:
        return self.kernel + self.neurons

    def rival(self, x: np.ndarray) -> np.ndarray:
        """K(x, y) as a function of a standard Gaussian: its mean, variance and skewness (Cornish and Fisher)."""
        first, second, third = (moment(self.d, n * self.p) for n in (1, 2, 3))
        deviation = math.sqrt(self.own - first**2)
        skewness = (third - 3 * second * first + 2 * first**3) / deviation**3
        return first + deviation * (x + skewness / 6 * (x**2 - 1))

    def rounded(self, step: float) -> "Noise":
        """The same with weights of a linear memory rounded to multiples of ``step``: errors of variance step^2 / 12."""
        return replace(self, target=self.target + step**2 / 12)


def low_rank(d: float, m: int = 0) -> Noise:
    """Theorem 1 at rank m; m = 0 is the outer product."""
    by_rank = (d - 1) / (m * d) if m else 0.0
    return Noise(d, 1 / d**2, by_rank / d, 1 / d + by_rank, 0.0, 2 / m if m else 0.0)


def hermite_features(d: int, m: int, k: int, sigma: Function) -> Noise:
    """Theorem 2, sketch: K(x, z) = 1/(m c_k) sum_i h_k(<w_i, e_z>) sigma(<w_i, e_x>)."""
    c_k = _coefficients(sigma)[k]
    pair, same = _squares(d, k, sigma, c_k, power=0)
    kernel = (1 - 1 / m) * moment(d, 2 * k)
    return Noise(d, kernel / d, pair / (m * d), kernel + pair / m, 0.0, (same - 1) / m, k)


def tangent_kernel(d: int, m: int, k: int, slope: Function) -> Noise:
    """Theorem 9: K(x, z) = <e_x, e_z> 1/(n C) sum_i v_i v_i^T h_k(<w_i, e_z>) sigma'(<w_i, e_x>), with n = m/2 pairs.

    ``slope`` is sigma', and C its Hermite coefficient at k. Each v_i v_i^T is a matrix: it also turns the target's
    own u_x into noise, and the noise of a bystander is that of <v, u_y> <v, u_z>, of second moment 1 + 2/d.
    """
    n, C = m // 2, _coefficients(slope)[k]
    pair, same = _squares(d, k, slope, C, power=2)
    kernel = (1 - 1 / n) * moment(d, 2 * k + 2)
    neurons, target = ((1 + 2 / d) * square / n for square in (pair, same))
    return Noise(d, kernel / d, neurons, kernel + 3 * pair / n, target, (3 * same - 1) / n, k + 1)


def moment(d: float, p: int) -> float:
    """E <e, e'>^p for two directions in d dimensions: (p-1)!! / (d (d+2) ... (d+p-2)), zero for odd p (lemma 12)."""
    return 0.0 if p % 2 else math.prod((2 * j + 1) / (d + 2 * j) for j in range(p // 2))


def margin_variance(N: int, noise: Noise) -> float:
    """Var(gamma_xy) for y = f*(z) of another input: exact where the kernel is odd in e_z. Its mean is 1.

    The terms of different z are uncorrelated then. a = u_x - u_y has E (a^T u_z)^2 = 1 + 1/d for z in {x, y} and 2/d
    for the others. In theorem 9 a neuron's <v, a>^2 <v, u_z>^2 is |a|^2 + 2 (a^T u_z)^2 on average: 4 + 2/d, or
    2 + 4/d.
    """
    d, kernel = noise.d, noise.d * noise.kernel
    x, y = (1 + 1 / d) * (1 + noise.spread), (1 + 1 / d) * noise.own
    if noise.target:
        same = noise.target / (1 + 2 / d)  # E[sigma'^2 h_k^2] / (n C^2), and noise.spread is 3 same - 1/n
        x = (1 + 1 / d) * (1 + noise.spread - 3 * same) + (4 + 2 / d) * same
        y = (1 + 1 / d) * kernel + (noise.own - kernel) + noise.neurons
    return x + y + 2 * (N - 2) * noise.bystander - 1


def recall(N: float, noise: Noise) -> float:
    """The expected share of N associations that the arg max gets right.

    F(e_x) = k u_x + r with k = K(x, x), and r a Gaussian vector. Its part along u_x moves the target's score, k + c;
    with what is left it has the length |F|. A rival's u_y leans towards r by its own part of it, K(x, y): so that
    t = <u_y, F> / |F| has the density (1 - t^2)^((d-3)/2) exp(lean t) on [-1, 1]. All N - 1 rivals must stay
    below the target.
    """
    d = noise.d
    (c, w_c), (q, w_q), (b, w_b), (g, w_g) = (_normal(n, axis) for axis, n in enumerate(NODES.values()))
    k = _chi_squared(g, 2 / noise.spread) if noise.spread else np.ones((1, 1, 1, 1))
    by = noise.kernel * k**2 + noise.neurons * k  # both grow where many neurons answer to e_x
    variance = (N - 2) * by + noise.target * k
    score = k + c * np.sqrt(variance)
    rest = variance * (d - 1) * _chi_squared(q, d - 1)
    length = np.sqrt(score**2 + rest)
    along = (c * np.sqrt(variance) * score + rest) / length  # r^T F / |F|
    lean = noise.rival(b) * np.sqrt(by / noise.bystander) * along / variance
    below = (_share_below(score / length, lean, d) * w_b).sum(axis=2, keepdims=True)
    return float((w_c * w_q * (w_g if noise.spread else 1.0) * below ** (N - 1)).sum())


@cache
def half_recall(noise: Noise, share: float = 0.5) -> float:
    """The N of which half are recalled, or another share."""
    from scipy.optimize import brentq

    excess = lambda log_N: recall(math.exp(log_N), noise) - share  # noqa: E731
    low = high = math.log(max(8.0, 0.1 / noise.bystander))  # N V z(N)^2 = 1, and z^2 is about 10
    while excess(high) > 0:
        high += 0.5
    while excess(low) < 0:
        if low < math.log(4):
            raise ValueError(f"{noise}: too much noise for {share:.0%} of four associations")
        low -= 0.5
    return math.exp(brentq(excess, low, high, xtol=1e-3))


def _share_below(top: np.ndarray, lean: np.ndarray, d: float) -> np.ndarray:
    """P(t < top) under a density proportional to (1 - t^2)^((d-3)/2) exp(lean t) on [-1, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(INNER)
    top, lean = (values[..., None] for values in np.broadcast_arrays(top, lean))

    def integral(low: np.ndarray | float, high: np.ndarray | float) -> np.ndarray:
        t = low + (high - low) * (nodes + 1) / 2
        return ((high - low) * np.exp((d - 3) / 2 * np.log1p(-(t**2)) + lean * t - abs(lean)) * weights).sum(axis=-1)

    below, above = integral(-1.0, top), integral(top, 1.0)
    return below / (below + above)


def _normal(n: int, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of a standard Gaussian, along one axis of four."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n)
    shape = [n if i == axis else 1 for i in range(4)]
    return nodes.reshape(shape), (weights / weights.sum()).reshape(shape)


def _chi_squared(x: np.ndarray, freedom: float) -> np.ndarray:
    """chi^2 / freedom as a function of a standard Gaussian (Wilson and Hilferty), kept above zero."""
    return np.maximum(1 - 2 / (9 * freedom) + x * math.sqrt(2 / (9 * freedom)), 1e-3) ** 3


GRID = (np.arange(48_000) + 0.5) / 2000 - 12  # midpoints, so that a kink at zero lies between two
DENSITY = np.exp(-(GRID**2) / 2) / np.exp(-(GRID**2) / 2).sum()


def _hermite(k: int) -> np.ndarray:
    """h_k on the grid, orthonormal under N(0, 1)."""
    return np.polynomial.hermite_e.hermeval(GRID, [0.0] * k + [1 / math.sqrt(math.factorial(k))])


def _coefficients(function: Function, n: int = 9) -> list[float]:
    """The Hermite coefficients c_0, ..., c_(n-1) of a function."""
    return [float(_hermite(j) * function(GRID) @ DENSITY) for j in range(n)]


def _squares(d: int, k: int, function: Function, c: float, power: int) -> tuple[float, float]:
    """E[h_k(g)^2 function(g')^2 t^power] / c^2 over t = <e_x, e_z> and Gaussians g, g' of correlation t; and at t = 1.

    By Mehler's formula the expectation given t is the sum of a_j b_j t^j over the coefficients of both squares.
    """
    a, b = _coefficients(lambda x: _hermite(k) ** 2), _coefficients(lambda x: function(x) ** 2)
    pair = sum(a_j * b_j * moment(d, j + power) for j, (a_j, b_j) in enumerate(zip(a, b, strict=True)))
    return pair / c**2, float((_hermite(k) * function(GRID)) ** 2 @ DENSITY) / c**2


DRAWS = 1000  # of the overlaps of one input with the others: they leave an error of about 0.6% of N


@cache
def half_exact(d: int) -> float:
    """The N of which the outer product recalls half in every sign, with embeddings in {-1, +1}^d / sqrt(d), d even.

    A coordinate of W e_x has the sign of its target where 1 + S > 0, S = sum_z +-<e_z, e_x> over the N - 1 others.
    Given the overlaps the d coordinates are independent and S lives on a lattice: its distribution is exact, from its
    characteristic function, the product of cos(theta <e_z, e_x>). Over the overlaps, binomial ones, it is an average
    of draws. A sum of exactly zero has no sign.
    """
    near = bounds.half_exact(d)
    least, most = max(2, round(near / 2)), round(2 * near)
    # times 2/d; a row for each of the others
    overlaps = d // 2 - np.random.Generator(np.random.Philox(0)).binomial(d, 0.5, (most, DRAWS, 1))
    end = min(np.pi, 32 / math.sqrt(least * d))  # of the integral: the sum's standard deviation is sqrt(N d) / 2
    nodes, weights = np.polynomial.legendre.leggauss(64)
    theta, weights = end * (nodes + 1) / 2, end * weights / (4 * np.pi)
    wave = np.cos(theta / 2 * overlaps[: least - 1]).prod(axis=0)
    shares, total = [], overlaps[: least - 1].sum(axis=0)
    for N in range(least, most):
        # between the largest sum that loses the sign, -d/2 or one less, and the next: sums are all even or all odd
        y = 1 - d // 2 - (total + d // 2) % 2
        lost = 0.5 + (wave * np.sin(theta / 2 * y) / np.sin(theta / 2)) @ weights
        shares.append(((1 - lost) ** d).mean())
        wave, total = wave * np.cos(theta / 2 * overlaps[N - 1]), total + overlaps[N - 1]
    return float(np.interp(0.5, shares[::-1], range(most - 1, least - 1, -1)))

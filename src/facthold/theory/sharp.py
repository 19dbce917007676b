"""How many associations *any* linear memory can recall: a law without free constants, from the geometry of cones.

The scores s_xy = u_y^T W e_x of all W are a subspace of R^(N x N), of dimension d^2. W recalls all N associations
f*(x) = x if its scores lie in the cone C = {s_xx >= s_xy for all x and y}. A random subspace of dimension d^2 meets a
cone C if d^2 is above N^2 - delta(C) = delta(polar of C), and misses it below, up to a width that is small beside it
(Amelunxen, Lotz, McCoy, Tropp 2014); here delta is the statistical dimension, E dist^2(g, C) for its polar and Gaussian
g. C is a product of N cones, one for each input, so that the threshold is

    N Delta(N) = d^2,    Delta(N) = E dist^2(g, {g_1 >= g_2, ..., g_N})   for g ~ N(0, I_N).

The law idealises: the scores of all W are a product of two random subspaces and not one at random. What that changes at
finite d is `sphere_rivals`.

Delta in closed form: the nearest point to g replaces g_1 and the k rivals that are active by their mean t, and leaves
the others, all below t. The polar has N - 1 independent generators, so that Delta is the mean number of active rivals,

    Delta(N) = sum_k k v_k,    v_k = binom(N - 1, k) q_k E[Phi(t)^(N-1-k)],    t ~ N(0, 1/(k+1)),

where q_k is the probability that k of k + 1 normal numbers lie above the mean of all: their differences from the mean
are independent of it. For large N the maximum must be met, Delta ~ 2 ln N, and the threshold is d^2 = 2 N ln N.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq, nnls
from scipy.special import betainc, gammaln, log_ndtr, logsumexp, ndtri, wofz

LIMIT = 2.0  # of Delta(N) / ln N, and so of d^2 / (N ln N)
MOST_ACTIVE = 250  # rivals; on average N = 10^9 has 32 of them, and 10^30 has 125
REACH, NODES = 14.0, 2801  # of the trapezoidal rule, which is exact to rounding for such smooth integrands


@lru_cache(maxsize=1)
def _log_above_mean() -> Float[np.ndarray, " k"]:
    """ln q_k for k = 0, ..., `MOST_ACTIVE`.

    The k differences have covariance 1[i=j] - 1/(k+1), that of independent normals with a common imaginary shift:
    q_k = E[Phi(i z / sqrt(k+1))^k]. With w = i z / sqrt(k+1), and the path moved to Re w = -sqrt(k) where nothing
    cancels, it is sqrt((k+1) / 2 pi) times the integral of exp(w^2/2) (exp(w^2/2) Phi(w))^k along the path.
    """
    k = np.arange(MOST_ACTIVE + 1)[:, None]
    y, step = np.linspace(-REACH, REACH, NODES, retstep=True)
    w = -np.sqrt(k) + 1j * y
    log_terms = w**2 / 2 + k * np.log(wofz(-1j * w / math.sqrt(2)) / 2)
    largest = log_terms.real.max(axis=1, keepdims=True)
    total = np.exp(log_terms - largest).real.sum(axis=1)
    return np.log(total * step) + largest[:, 0] + np.log((k[:, 0] + 1) / (2 * math.pi)) / 2


def above_mean(k: int) -> float:
    """q_k: the probability that k of k + 1 independent normal numbers lie above the mean of all."""
    return math.exp(_log_above_mean()[k])


@lru_cache(maxsize=1024)
def _active(N: float) -> tuple[np.ndarray, np.ndarray]:
    """The numbers k of active rivals, and their probabilities v_k; N may lie between whole numbers."""
    most = min(MOST_ACTIVE, math.ceil(N) - 1, 30 + math.ceil(6 * math.log(N)))  # three times the mean and more
    k = np.arange(most + 1)
    t, step = np.linspace(-REACH, REACH, NODES, retstep=True)
    others = (N - 1 - k)[:, None] * log_ndtr(t) - (k[:, None] + 1) * t**2 / 2
    mean = logsumexp(others, axis=1) + math.log(step) + np.log((k + 1) / (2 * math.pi)) / 2
    choices = np.concatenate([[0.0], np.cumsum(np.log(N - k[1:]))]) - gammaln(k + 1)  # binom(N - 1, k), for huge N too
    return k, np.exp(choices + _log_above_mean()[k] + mean)


def active_shares(N: float) -> Float[np.ndarray, " k"]:
    """v_k for k = 0, 1, ...: the probability that k of N - 1 rivals are active."""
    return _active(N)[1]


def active_rivals(N: float) -> float:
    """Delta(N), for N of 2 or more."""
    if not N >= 2:
        raise ValueError(f"N={N}: there is no rival to be above; take N >= 2")
    k, v = _active(N)
    return float(k @ v)


def separable(d: float) -> float:
    """The N up to which a linear memory recalls all N associations, by the law: N Delta(N) = d^2."""
    if d < 2:
        raise ValueError(f"d={d}: the law is for two dimensions or more")
    excess = lambda log_N: math.exp(log_N) * active_rivals(math.exp(log_N)) - d * d  # noqa: E731
    return math.exp(brentq(excess, math.log(2.0), 2 * math.log(d) + 1, xtol=1e-10))


class Rivals(NamedTuple):
    """A mean over draws and its standard error."""

    mean: float
    error: float


def sphere_draw(
    d: int, N: int, generator: np.random.Generator
) -> tuple[Float[np.ndarray, "N d"], Float[np.ndarray, " d"], Float[np.ndarray, " N"]]:
    """N points u_y of the sphere, h ~ N(0, I_d), and what the scores u_y^T h would be if they were independent normals:
    each moved to its place in the normal law, and all multiplied by |h| / sqrt(d), of mean square 1."""
    U = generator.standard_normal((N, d))
    U /= np.linalg.norm(U, axis=1, keepdims=True)
    h = generator.standard_normal(d)
    length = float(np.linalg.norm(h))
    cosine = U @ (h / length)
    tail = betainc((d - 1) / 2, 0.5, 1 - cosine**2) / 2  # beyond this cosine, for a point of the sphere
    return U, h, np.sign(cosine) * -ndtri(tail) * length / math.sqrt(d)


def sphere_rivals(d: int, N: int, n_draws: int, generator: np.random.Generator) -> Rivals:
    """Delta at finite d: E dist^2(h, {w: u_1^T w >= u_y^T w for all y}), h ~ N(0, I_d), u_1, ..., u_N on the sphere.

    The law takes the N scores of an input for independent. They are those of one vector W e_x of R^d, where rivals have
    inner products of order 1/sqrt(d): projected there, the cone is nearer, by a share of order Delta / d. Drawn, with
    what the same scores give in the law (of known mean, `active_rivals`) as a control variate.
    """
    exact, ideal = np.empty(n_draws), np.empty(n_draws)
    for i in range(n_draws):
        U, h, g = sphere_draw(d, N, generator)
        # the polar is generated by u_y - u_1: what is nearest to h in it has the length of the projection
        exact[i] = h @ h - nnls((U[1:] - U[0]).T, h)[1] ** 2
        ideal[i] = projection_squared(g)
    slope = np.cov(exact, ideal)[0, 1] / ideal.var(ddof=1)
    left = exact - slope * (ideal - active_rivals(N))
    return Rivals(float(left.mean()), float(left.std(ddof=1) / math.sqrt(n_draws)))


def projection_squared(g: Float[np.ndarray, " N"]) -> float:
    """dist^2(g, {g_1 >= g_2, ..., g_N}): the least (g_1 - t)^2 + sum_j max(0, g_j - t)^2."""
    rivals = -np.sort(-g[1:])
    means = (g[0] + np.cumsum(rivals)) / np.arange(2, len(g) + 1)  # t, if so many rivals are active
    k = int((rivals > np.concatenate([g[:1], means[:-1]])).sum())
    level = means[k - 1] if k else g[0]
    return float((g[0] - level) ** 2 + ((rivals[:k] - level) ** 2).sum())

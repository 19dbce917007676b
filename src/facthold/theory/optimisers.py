"""The scheme that SGD on the cross entropy realises where embeddings are orthogonal, or d is far above N.

Tokens then do not see each other. By symmetry all rivals of a token have the same score, and its margin q, which is
its weight in the scheme (`measure.realised`), grows by

    lr c M / (e^q + M - 1)

in a step whose batch has a share c of this token. So one step from zero is q = lr c: the share in the batch, p for a
large one. With batch one c is 0 or 1: after a step of lr >> 1 the exponential lets nothing more in, and q is lr for all
that was seen, whatever its frequency; with small steps q grows as the counts, and then as their logarithm.
"""

import math
from functools import cache

import numpy as np
from jaxtyping import Float
from scipy.special import gammaln

MOST = 1 << 17  # sightings that are counted one by one
FAR = 12  # standard deviations beyond which nothing is left, and one more for small means


def grown(q: float, share: float, lr: float, M: int) -> float:
    """q after one step whose batch has this share of the token."""
    return q + lr * share * M / (math.exp(min(q, 700.0)) + M - 1)


@cache
def after_seen(most: int, lr: float, M: int) -> tuple[float, ...]:
    """q after a token was seen 0, 1, ..., ``most`` times, with batch one."""
    if most > MOST:
        raise ValueError(f"most={most} sightings are more than the {MOST} that are counted one by one")
    found = [0.0]
    for _ in range(most):
        found.append(grown(found[-1], 1.0, lr, M))
    return tuple(found)


def mean_scheme(p: Float[np.ndarray, " N"], n: int, lr: float, M: int) -> Float[np.ndarray, " N"]:
    """The expected q after n samples with batch one: how often each token is seen is binomial."""
    q = np.array(after_seen(n, lr, M))
    return np.array([_binomial_mean(q, n, float(one)) for one in p])


def _binomial_mean(q: Float[np.ndarray, " n"], n: int, p: float) -> float:
    """The mean of q at a binomial number, over all that lie within FAR of its mean."""
    half = FAR * (1 + math.sqrt(n * p * (1 - p)))
    k = np.arange(max(0, math.floor(n * p - half)), min(n, math.ceil(n * p + half)) + 1)
    log_choose = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    shares = np.exp(log_choose + k * math.log(p) + (n - k) * math.log1p(-p))
    return float(shares @ q[k])


def power(q: Float[np.ndarray, "*runs N"], p: Float[np.ndarray, " N"]) -> Float[np.ndarray, "*runs"]:
    """rho of the q ~ p^rho that fits best in logarithms; nan where some q is not positive. 1 for q = p, 0 for q = 1."""
    x = np.log(p) - np.log(p).mean()
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(np.where(q > 0, q, np.nan)) @ x / (x @ x))

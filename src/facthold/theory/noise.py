"""Capacities of closed-form memories from the noise on their scores: the finite-size form of the theorems.

The score of a wrong output is close to a centred Gaussian whose variance is known (`score_variance`). So the number
of associations at which a given share is recalled follows with its constant and its logarithm, where the
theorems say "up to poly log". The laws are made for *half* recall where that is above chance: the noise
on the target's own score is symmetric and drops out there. At 99% it takes a share of the margin, which vanishes
slowly with size, and N ln N grows faster than the number of weights at sizes that can be measured.
Like `bounds`, this module imports no model.
"""

import math

from scipy.special import ndtri

from facthold._util.errors import check_positive
from facthold.theory.bounds import Number


def level(n: Number, share: Number = 0.5) -> float:
    """z(n): n independent standard Gaussians all stay below it with probability ``share``; z^2 is about 2 ln n."""
    if not (n > 0 and 0 < share < 1):
        raise ValueError(f"n={n} must be positive and share={share} strictly between 0 and 1")
    return -float(ndtri(-math.expm1(math.log(share) / n)))


def score_variance(N: Number, d: int, m: int = 0) -> float:
    """Variance of a wrong output's score u_y^T W e_x in theorem 1, injective map; m = 0 means full rank.

    The score is sum_z (u_y^T u_z)(e_z^T P e_x), P = I or 1/m sum_i v_i v_i^T. A bystander z gives 1/d times
    Var(e_z^T P e_x) = 1/d + 1/m; z = x gives 1/d; z = y gives 1/d + 1/m. (Terms of order 1/(m d) in the
    last two, and 1/(m d^2) in the first, are left out.)
    """
    by_rank = 1 / m if m else 0.0
    return (N - 2) / d * (1 / d + by_rank) + 2 / d + by_rank


def half_recall(d: int, m: int = 0) -> float:
    """The N of which theorem 1's memory recalls half: score_variance(N) z(N - 1)^2 = 1.

    For large sizes 2 N ln N = d^2 at full rank, and 2 N ln N = m d / (1 + m/d) at rank m.
    """
    from scipy.optimize import brentq  # a quarter of a second, which `facthold list` need not wait for

    check_positive(d=d)
    excess = lambda N: score_variance(N, d, m) * level(N - 1) ** 2 - 1  # noqa: E731
    above = 4.0
    while excess(above) < 0:
        above *= 2
    return float(brentq(excess, 2.0, above))


def half_exact(d: int) -> float:
    """The N of which the outer product recalls half in every sign: d / z(d)^2, about d / (2 ln d).

    A coordinate of W e_x is +-1/sqrt(d) plus noise of variance (N - 1)/d^2; all d must keep their sign.
    """
    return 1 + d / level(d) ** 2


def two_outputs(d: int, share: float = 0.99) -> float:
    """The N of which the outer product recalls ``share`` with two outputs: d / z^2, 0.185 d at 99%.

    The margin is (1 - u_0^T u_1) (1 + sum_{z != x} +-e_z^T e_x): both outputs ride on the same d-dimensional
    noise, of variance (N - 1)/d, and not on independent ones.
    """
    return 1 + d / level(1, share) ** 2


def cover(d: int) -> tuple[float, float]:
    """Mean and standard deviation of the N up to which random points split in two by a hyperplane: 2d, sqrt(2d).

    By Cover's count N points are separable with probability 2^(1-N) sum_{k<d} binom(N-1, k): that fewer than d
    of N - 1 fair coins fall heads. So the largest separable N is the number of coins up to the d-th head.
    """
    return 2.0 * d, math.sqrt(2 * d)

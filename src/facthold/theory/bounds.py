"""What theory predicts: numbers from sizes alone.

Capacities of closed-form memories follow from the noise on their scores, with their constants and logarithms, where the
theorems say "up to poly log": the score of a wrong output is close to a centred Gaussian of known variance
(`score_variance`). The laws are made for *half* recall where that is above chance: the noise on the target's own score
is symmetric and drops out there. At 99% it takes a share of the margin, which vanishes slowly with size, and N ln N
grows faster than the number of weights at sizes that can be measured.
"""

import math
from collections.abc import Callable

from scipy.special import lambertw, ndtr, ndtri

from facthold._util.errors import check_positive

Number = int | float

LINEAR_CONSTANT = 1.3  # guide line of figure 1, left: 1.3 N ln N = d^2 for trained linear memories
MLP_CONSTANT = 0.35  # guide line of figure 1, right: 0.35 N ln N = m d for trained MLP memories
MLP_FIXED_CONSTANT = 1.2  # guide line of figure 6: 1.2 N = m d for trained MLP memories with 32 outputs
FACTS_A_PARAMETER = 0.15  # figure 4, left: facts = 0.15 parameters


def bits_injective(N: int, M: int) -> float:
    """log2(M! / (M-N)!): bits that tell apart all injective maps from [N] to [M]."""
    if not 0 <= N <= M:
        raise ValueError(f"N={N}: an injective map needs 0 <= N <= M, and M={M}")
    return (math.lgamma(M + 1) - math.lgamma(M - N + 1)) / math.log(2)


def bits_uniform(N: int, M: int, accuracy: Number = 1.0) -> float:
    """Bits to store a uniformly random map from [N] to [M]: N log2 M at full accuracy (theorem 7).

    Below it, the rate-distortion function of a uniform source under Hamming distortion: with an error
    share e = 1 - accuracy, each association needs log2 M - h(e) - e log2(M - 1) bits, and none at chance.
    """
    if N < 0 or M < 1:
        raise ValueError(f"N={N} and M={M}: take N >= 0 and M >= 1")
    if not 0 <= accuracy <= 1:
        raise ValueError(f"accuracy={accuracy} must lie in [0, 1]")
    if accuracy <= 1 / M:
        return 0.0
    e = 1 - accuracy
    spared = -accuracy * math.log2(accuracy) + (e * math.log2((M - 1) / e) if e else 0.0)
    return N * (math.log2(M) - spared)


def welch(n: int, d: int) -> float:
    """The least mean of the squared inner products of n different unit vectors in d dimensions (Welch, 1974).

    The sum over all n^2 pairs is at least n^2 / d, and n of them are 1. Random vectors on the sphere have 1 / d.
    """
    check_positive(n=n, d=d)
    return max(0.0, (n - d) / (d * (n - 1))) if n > 1 else 0.0


def capacity_in_bits(bits: Callable[[int], float], B: Number) -> int:
    """The largest N with ``bits(N) <= B``, for bits that grow without bound in N.

    >>> capacity_in_bits(lambda N: bits_injective(N, N), 6.92)  # 5! = 120 maps, 2^6.907
    5
    """
    if not (math.isfinite(B) and B >= 0):
        raise ValueError(f"B={B} must be a finite number of bits, zero or more")
    return largest(lambda N: bits(N) <= B)


def largest(holds: Callable[[int], bool], most: Number = math.inf) -> int:
    """The k up to which a condition holds, from 0 on; a power of two above ``most`` / 2 where it holds beyond."""
    low, above = 0, 1
    while holds(above):
        low, above = above, 2 * above
        if above > most:
            return low
    while above - low > 1:
        middle = (low + above) // 2
        low, above = (middle, above) if holds(middle) else (low, middle)
    return low


def margin_variance(N: int, d: int, sharing: int = 1) -> float:
    """Var(gamma_xy) for the outer product on spherical embeddings (proof of theorem 1), for any map; its mean is 1.

    ``sharing`` counts the z != x with f*(z) in {f*(x), y}: 1 for an injective map with y in its image,
    which is the paper's 2/d + 1/d^2 + 2(N-2)/d^2; 0 with y outside of it, where it is 1/d + 2(N-1)/d^2.

    gamma_xy = sum_z a_z b_z with a_z = (u_{f*(x)} - u_y)^T u_{f*(z)} and b_z = e_z^T e_x. The b_z of z != x
    are independent of each other given e_x, and of all a_z, with mean 0 and variance 1/d: so the terms are
    uncorrelated. E[a_z^2] is 1 + 1/d where u_{f*(z)} is one of the two (z = x among them), else
    E|u_{f*(x)} - u_y|^2 / d = 2/d. The sum of squares is
    (1 + 1/d) + sharing (1 + 1/d) / d + (N - 1 - sharing) (2/d) / d, of which 1 is the squared mean.
    """
    if not 0 <= sharing <= N - 1:
        raise ValueError(f"sharing={sharing} must lie in [0, N-1] = [0, {N - 1}]")
    return 1 / d + sharing * (1 + 1 / d) / d + 2 * (N - 1 - sharing) / d**2


def guide(size: Number, constant: Number) -> float:
    """The N >= 1 with constant N ln N = size: N = exp(w) with w exp(w) = size / constant."""
    if size < 0 or constant <= 0:
        raise ValueError(f"size={size} and constant={constant}: take size >= 0 and constant > 0")
    return math.exp(float(lambertw(size / constant).real))


def guide_constant(N: Number, size: Number) -> float:
    """The constant whose guide line passes through N at this size: size / (N ln N)."""
    if N <= 1:
        raise ValueError(f"N={N} must be above 1: N ln N is not positive there")
    return size / (N * math.log(N))


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


def two_outputs_share(N: Number, d: int) -> float:
    """The share of N that the outer product recalls with two outputs: the inverse of `two_outputs`."""
    return float(ndtr(math.sqrt(d / (N - 1))))


def cover(d: int) -> tuple[float, float]:
    """Mean and standard deviation of the N up to which random points split in two by a hyperplane: 2d, sqrt(2d).

    By Cover's count N points are separable with probability 2^(1-N) sum_{k<d} binom(N-1, k): that fewer than d
    of N - 1 fair coins fall heads. So the largest separable N is the number of coins up to the d-th head.
    """
    return 2.0 * d, math.sqrt(2 * d)

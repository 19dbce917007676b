"""What theory predicts: numbers from sizes alone.

This module imports no model, so that no prediction can leak into what it judges.
"""

import math
from collections.abc import Callable

from scipy.special import lambertw

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


def capacity_in_bits(bits: Callable[[int], float], B: Number) -> int:
    """The largest N with ``bits(N) <= B``, for bits that grow without bound in N.

    >>> capacity_in_bits(lambda N: bits_injective(N, N), 6.92)  # 5! = 120 maps, 2^6.907
    5
    """
    if not (math.isfinite(B) and B >= 0):
        raise ValueError(f"B={B} must be a finite number of bits, zero or more")
    above = 1
    while bits(above) <= B:
        above *= 2
    low = above // 2  # bits(low) <= B < bits(above)
    while above - low > 1:
        middle = (low + above) // 2
        low, above = (middle, above) if bits(middle) <= B else (low, middle)
    return low


def margin_mean() -> float:
    """E[gamma_xy] = 1 for the outer product on spherical embeddings (proof of theorem 1)."""
    return 1.0


def margin_variance(N: int, d: int, sharing: int = 1) -> float:
    """Var(gamma_xy) for the outer product on spherical embeddings (proof of theorem 1), for any map.

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


def guide_mlp_fixed(m: Number, d: Number) -> float:
    """N on the guide line of figure 6: with M fixed there is no logarithm."""
    return m * d / MLP_FIXED_CONSTANT


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

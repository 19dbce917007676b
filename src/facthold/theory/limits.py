"""What no memory can do: the least loss at a number of bits, and the bits that a loss needs (section 6, appendix E.1).

Everything is in bits, losses too. Each bound is an average over maps f* drawn uniformly at random, and says nothing
about one given map (``docs/limits.md``). Sizes may be as large as 1e30 and may be written so, as floats.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import bernoulli

from facthold.theory.bounds import Number, largest

LARGEST = 10**60  # sizes above it are refused: products of a few of them must stay numbers
MOST = 10**300  # associations that are counted for a loss
STEEPEST = 100.0  # exponent of a power law at most: above, all but the first association are as good as never asked for
DIRECT = 32  # so many terms of a power sum are added one by one before Euler and Maclaurin take over
CORRECTIONS = bernoulli(16)[2::2] / np.array([math.factorial(n) for n in range(2, 17, 2)])
"""B_2k / (2k)!, k = 1, ..., 8, of their formula."""


def size(name: str, value: Number, least: int = 0, most: int = LARGEST) -> int:
    """A whole number from an int or a float, or an error with the argument's name."""
    if not least <= value <= most or int(value) != value:
        raise ValueError(f"{name}={value} must be a whole number from {least} to {most:.0e}")
    return int(value)


def amount(name: str, value: Number) -> float:
    """A number of bits: zero or more, infinite if need be."""
    if not value >= 0:
        raise ValueError(f"{name}={value} must be a number of bits, zero or more")
    return float(value)


@dataclass(frozen=True)
class Frequencies:
    """p(1) >= p(2) >= ..., by what is left of it: ``tail(k)`` = sum of p(x) over x > k."""

    N: Number  # associations that are asked for at all; infinite for some power laws
    tail: Callable[[int], float]


Given = Frequencies | Sequence[float] | np.ndarray  # or p(x) itself, in any order


def frequencies(p: Sequence[float] | np.ndarray) -> Frequencies:
    """Any p(x), in any order: theorem 7 takes the most frequent ones first."""
    p = np.sort(np.asarray(p, float).ravel())
    if not len(p) or not (p[0] >= 0 and math.isclose(p.sum(), 1, rel_tol=1e-6)):
        given = f"p has {len(p)} entries with sum {p.sum():g}"
        raise ValueError(f"{given}; it must be a distribution: none negative, sum 1")
    tails = np.concatenate([[0.0], np.cumsum(p)])[::-1]  # rare ones added first: small tails lose no digits
    return Frequencies(int((p > 0).sum()), lambda k: float(tails[min(k, len(p))]))


def power_law(N: Number, alpha: Number) -> Frequencies:
    """p(x) = x^-alpha / Z for x = 1, ..., N (corollary 1), in no memory for any N; infinite N needs alpha > 1.

    alpha = 0 is the uniform distribution, alpha = 1 is Zipf's law. Corollary 1 asks for alpha > 1, theorem 7 does not.
    """
    last = N if math.isinf(N) and N > 0 else size("N", N, 1)
    Z = power_sum(alpha, 1, last)
    return Frequencies(last, lambda k: power_sum(alpha, k + 1, last) / Z)


def least_loss(B: Number, M: Number, p: Given) -> float:
    """Theorem 7 as its proof gives it: the least expected loss, in bits, of a learner that writes B bits down.

    It is the least of sum_x p(x) (log2 M - I_x) over 0 <= I_x <= log2 M with sum_x I_x <= B (equation 22): log2 M bits
    for each of the most frequent associations and the rest for the next one.
    Holds on average over f*: [N] -> [M] uniform at random, for any p(x) that is fixed before f* is drawn.
    """
    p, bits, stored = _stored(B, M, p)
    if stored is None:
        return 0.0
    k = math.floor(stored)
    part = stored - k
    return bits * ((1 - part) * p.tail(k) + part * p.tail(k + 1))


def least_loss_whole(B: Number, M: Number, p: Given) -> float:
    """Theorem 7's last line: log2 M sum over x > ceil(B / log2 M) of p(x). Weaker than `least_loss`, tables as there.

    This is the proof's. The statement's sum starts one too early, at x = ceil(B / log M) (``docs/limits.md``).
    """
    p, bits, stored = _stored(B, M, p)
    return 0.0 if stored is None else bits * p.tail(math.ceil(stored))


def bits_for_loss(loss: Number, M: Number, p: Given) -> float:
    """The least B with `least_loss` <= loss, both in bits: no learner with fewer bits has this loss on average."""
    p, bits = _given(M, p)
    left = math.inf if bits == 0 else amount("loss", loss) / bits
    if left >= p.tail(0):
        return 0.0
    if left == 0:
        return p.N * bits
    k = largest(lambda k: p.tail(k) > left, most=MOST)
    if 2 * k > MOST:
        return bits * k  # more than a float can count, and a lower bound still
    above, below = p.tail(k), p.tail(k + 1)  # below <= left < above
    return bits * (k + (above - left) / (above - below))


@dataclass(frozen=True)
class PowerLaw:
    """Corollary 1 with its constant: loss >= constant * B^exponent for B from ``first`` to ``last``, all in bits."""

    constant: float
    exponent: float
    first: float
    last: float
    limit: float  # what least_loss / B^exponent tends to for N infinite and B large


def corollary_1(M: Number, alpha: Number, N: Number = math.inf) -> PowerLaw:
    """Corollary 1, loss >= c B^(1 - alpha), with c. Holds as theorem 7 does, for p(x) = x^-alpha / Z and alpha > 1.

    With b = log2 M: sum_{x>k} x^-alpha >= ((k + 1)^(1-alpha) - (N + 1)^(1-alpha)) / (alpha - 1), which is convex in k:
    `least_loss` is above it at k = B / b too. From B = b on, k + 1 <= 2k. Up to B = b (N - 1) / 2,
    (N + 1)^(1-alpha) <= (2 (k + 1))^(1-alpha). And Z <= zeta(alpha). The paper's corollary names no range.
    """
    b = math.log2(size("M", M, 2))
    if not 1 < alpha <= STEEPEST:
        raise ValueError(f"alpha={alpha} must be above 1 and at most {STEEPEST:g}; take least_loss for other exponents")
    last = N if math.isinf(N) and N > 0 else size("N", N, 3)
    limit = b**alpha / ((alpha - 1) * power_sum(alpha, 1, math.inf))
    kept = 1.0 if last == math.inf else -math.expm1((1 - alpha) * math.log(2))
    return PowerLaw(limit * 2 ** (1 - alpha) * kept, 1 - float(alpha), b, b * (last - 1) / 2, limit)


def power_sum(alpha: Number, first: int, last: Number) -> float:
    """sum of x^-alpha over first <= x <= last, to rounding, at once for any sizes; 0 where there is no such x.

    Euler and Maclaurin: the sum over a <= x < b of f(x) is the integral from a to b, and `_end(a)` - `_end(b)`.
    """
    if not 0 <= alpha <= STEEPEST:
        raise ValueError(f"alpha={alpha} must lie in [0, {STEEPEST:g}]")
    if last == math.inf and alpha <= 1:
        raise ValueError(f"alpha={alpha} with infinite N: x^-alpha has no finite sum; take alpha > 1 or a finite N")
    a = max(first, DIRECT + math.ceil(alpha))  # from here on f is smooth enough
    if last < a + DIRECT:
        return math.fsum(float(x) ** -alpha for x in range(first, int(last) + 1))
    total = math.fsum(float(x) ** -alpha for x in range(first, a)) + _end(alpha, a)
    if last == math.inf:
        return total + float(a) ** (1 - alpha) / (alpha - 1)
    b = int(last) + 1
    ratio = math.log1p((b - a) / a)
    powers = ratio if alpha == 1 else math.expm1((1 - alpha) * ratio) / (1 - alpha)
    return total + float(a) ** (1 - alpha) * powers - _end(alpha, b)


def _end(alpha: Number, x: int) -> float:
    """f(x)/2 - sum_k B_2k / (2k)! f^(2k-1)(x), for f(x) = x^-alpha."""
    f = float(x) ** -alpha
    term, total = f * alpha / x, f / 2  # the term is - f'(x)
    for k, correction in enumerate(CORRECTIONS):
        total += float(correction) * term
        term *= (alpha + 2 * k + 1) / x * (alpha + 2 * k + 2) / x
    return total


def _given(M: Number, p: Given) -> tuple[Frequencies, float]:
    return p if isinstance(p, Frequencies) else frequencies(p), math.log2(size("M", M, 1))


def _stored(B: Number, M: Number, p: Given) -> tuple[Frequencies, float, float | None]:
    """p, log2 M, and B / log2 M, the associations that B bits hold; None where they hold all."""
    (p, bits), B = _given(M, p), amount("B", B)
    return p, bits, B / bits if bits and p.N * bits > B else None

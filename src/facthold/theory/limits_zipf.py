"""Scaling laws for facts: the least loss where subjects and relations are asked for with p(s, r) = p(s) p(r).

Section 7 asks for a scaling-law lower bound for factual recall. Theorem 7 holds for any p that is fixed before the
table is drawn, and given the blocks of answers a table of facts is a map from S R pairs to D answers (`limits_facts`).
So `limits.least_loss(B, D, product_law(...))` is such a bound, and it is exact: what is here is its p, its shape
(`facts_law`), and a closed form below it (`facts_loss`). Blocks that the learner does not know can only cost more, so
the bounds hold for hidden answer sets too; how much more at a loss above zero is open (no bound here). All is in bits.

Derivation. Let p(s) = s^-a / zeta(a) over infinitely many subjects, a > 1, and p(r) be anything over R relations. The
n_r subjects of relation r that are stored leave p(r) sum_{s > n_r} s^-a, about p(r) n_r^(1-a) / (a-1). The best memory
stores all pairs with p(s, r) above a level, n_r = c p(r)^(1/a), so k = sum n_r = c A with A = sum_r p(r)^(1/a), and

    log2 D * A^a k^(1-a) / ((a-1) zeta(a)),        k = B / log2 D,

is the loss. The exponent is corollary 1's, 1 - a, whatever p(r) is, and A^a = 2^((a-1) H) with Renyi's entropy H of
order 1/a of the relations: they count as 2^H relations that are all alike. (R for uniform p(r).) For p(r) ~ r^-b over
infinitely many relations A is finite for b > a. For b < a the two change places, and for a = b the pairs with
s r <= x are x ln x + ..., so that a logarithm comes in.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from facthold.theory.bounds import Number
from facthold.theory.limits import STEEPEST, Frequencies, amount, power_law, power_sum, size

ROWS = 1 << 22
"""Rows of a product that are looked at one by one at most."""


def product_law(S: Number, R: Number, alpha_s: Number, alpha_r: Number) -> Frequencies:
    """p(s, r) ~ s^-alpha_s r^-alpha_r for s <= S, r <= R, sorted, without S R numbers; sizes infinite if alpha > 1.

    The k most frequent pairs have s^alpha_s r^alpha_r <= t for some t. In row r they are the first
    (t r^-alpha_r)^(1/alpha_s), so that a count is a sum over the rows that have any; t is found by bisection, and pairs
    that rounding puts on the wrong side of it are as frequent as those at t, to rounding.
    """
    subjects, relations = power_law(S, alpha_s), power_law(R, alpha_r)
    if alpha_s == 0 or alpha_r == 0:
        return _repeated(subjects, relations.N) if alpha_r == 0 else _repeated(relations, subjects.N)
    pairs = _Pairs(subjects.N, relations.N, float(alpha_s), float(alpha_r))
    return Frequencies(subjects.N * relations.N, pairs.tail)


def _repeated(p: Frequencies, times: Number) -> Frequencies:
    """Each of p's associations split evenly into so many."""
    if math.isinf(times):
        raise ValueError("alpha=0 with an infinite size: no distribution is uniform there; take a finite S and R")
    copies = int(times)

    def tail(k: int) -> float:
        whole, more = divmod(k, copies)
        return p.tail(whole) - (more / copies * (p.tail(whole) - p.tail(whole + 1)) if more else 0.0)

    return Frequencies(p.N * copies, tail)


@dataclass(frozen=True)
class _Pairs:
    """Pairs (s, r) by log(s^a r^b)."""

    S: Number
    R: Number
    a: float
    b: float

    def tail(self, k: int) -> float:
        """What is left of p(s, r) without the k most frequent pairs."""
        if k >= self.S * self.R:
            return 0.0
        if k <= 0:
            return 1.0
        low, high = 0.0, 1.0
        while self._below(high)[0].sum() < k:
            low, high = high, high + 1  # by steps and not by doubling: a level far too high has too many rows
        while (middle := (low + high) / 2) not in (low, high):
            low, high = (middle, high) if self._below(middle)[0].sum() < k else (low, middle)
        n, swapped = self._below(low)  # fewer than k; all others up to k are at this level
        long, short, a, b = (self.R, self.S, self.b, self.a) if swapped else (self.S, self.R, self.a, self.b)
        each = {int(m): power_sum(a, int(m) + 1, long) for m in np.unique(n)}
        rows = np.arange(1.0, len(n) + 1) ** -b
        left = math.fsum(rows * np.array([each[int(m)] for m in n]))
        left += power_sum(b, len(n) + 1, short) * power_sum(a, 1, long)
        left -= (k - float(n.sum())) * math.exp(-high)
        return max(0.0, left / (power_sum(a, 1, long) * power_sum(b, 1, short)))

    def _below(self, t: float) -> tuple[np.ndarray, bool]:
        """How many pairs of each row that has any are at most t; and whether rows are subjects, the fewer ones."""
        subjects, relations = (_first(self.S, t / self.a), _first(self.R, t / self.b))
        swapped = subjects < relations
        rows = int(min(subjects, relations))
        if rows > ROWS:
            raise ValueError(f"S={self.S} and R={self.R}: {rows} rows have a part; take a smaller S, R or k")
        long, a, b = (self.R, self.b, self.a) if swapped else (self.S, self.a, self.b)
        log_n = (t - b * np.log(np.arange(1.0, rows + 1))) / a
        with np.errstate(over="ignore"):
            return np.minimum(np.floor(np.exp(np.maximum(log_n, 0.0))), float(long)), swapped


def _first(N: Number, log_x: float) -> float:
    """floor(x), at least 1 and at most N."""
    return min(float(N), math.floor(math.exp(max(log_x, 0.0)))) if log_x < 700 else float(N)


@dataclass(frozen=True)
class FactsLaw:
    """least_loss ~ limit * B^exponent * (ln k)^logarithm, k = B / log2 D, for B large while S (or R) is not reached."""

    exponent: float
    limit: float
    logarithm: float
    """alpha where both exponents are the same and both sizes infinite; else 0."""
    effective: float
    """2^H, H Renyi's entropy of order 1/alpha of the other side: as many relations, all alike, would do the same."""


def facts_law(D: Number, alpha_s: Number, alpha_r: Number, S: Number = math.inf, R: Number = math.inf) -> FactsLaw:
    """The exponent and the constant of `least_loss` with `product_law`, as derived above.

    One side must be infinite; its exponent, above 1, is the law's. Where both are infinite, that of the smaller
    exponent is. A finite size far above what is stored counts as infinite.
    """
    bits = math.log2(size("D", D, 2))
    if not (math.isinf(S) or math.isinf(R)):
        raise ValueError(f"S={S} and R={R}: a power law needs one of them infinite; take least_loss for finite sizes")
    sides = [(float(alpha_s), S, float(alpha_r), R), (float(alpha_r), R, float(alpha_s), S)]
    a, _, b, other = min((side for side in sides if math.isinf(side[1])), key=lambda side: side[0])
    if not 1 < a <= STEEPEST:
        raise ValueError(f"alpha={a:g} of the infinite side must be above 1 and at most {STEEPEST:g}")
    zeta = power_sum(a, 1, math.inf)
    if math.isinf(other) and a == b:
        return FactsLaw(1 - a, bits**a / ((a - 1) * zeta**2), a, math.inf)
    Z, A = power_sum(b, 1, other), power_sum(b / a, 1, other)
    return FactsLaw(1 - a, bits**a * A**a / (Z * (a - 1) * zeta), 0.0, (A**a / Z) ** (1 / (a - 1)))


def facts_loss(B: Number, D: Number, alpha: Number, p_r: Sequence[float] | np.ndarray, S: Number = math.inf) -> float:
    """A closed form that no learner of B bits is below, for any p(r) over R relations and p(s) ~ s^-alpha, alpha > 1:

        log2 D * (A^alpha (k + R)^(1-alpha) - (S+1)^(1-alpha)) / ((alpha - 1) zeta(alpha)),        k = B / log2 D.

    Ours; corollary 1 for facts, at every B. In a row, sum_{n < s <= S} s^-alpha is at least
    ((n+1)^(1-alpha) - (S+1)^(1-alpha)) / (alpha-1), and Z <= zeta(alpha). Of all n_r > -1 with
    sum_r (n_r + 1) = k + R those with n_r + 1 ~ p(r)^(1/alpha) leave the least. The form is convex in k, and so below
    `least_loss` between whole k too.
    """
    bits, k = math.log2(size("D", D, 2)), amount("B", B) / math.log2(size("D", D, 2))
    if not 1 < alpha <= STEEPEST:
        raise ValueError(f"alpha={alpha} must be above 1 and at most {STEEPEST:g}; take least_loss for other exponents")
    p = np.asarray(p_r, float)
    if p.ndim != 1 or not len(p) or not (p.min() >= 0 and math.isclose(p.sum(), 1, rel_tol=1e-6)):
        raise ValueError(f"p_r with {p.size} entries and sum {p.sum():g} must be a distribution: none negative, sum 1")
    p = p[p > 0]
    A = float((p ** (1 / alpha)).sum())
    beyond = 0.0 if math.isinf(S) else (size("S", S, 1) + 1.0) ** (1 - alpha)
    left = A**alpha * (k + len(p)) ** (1 - alpha) - beyond
    return bits * max(0.0, left) / ((alpha - 1) * power_sum(alpha, 1, math.inf))

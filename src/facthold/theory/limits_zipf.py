"""How often each fact is asked for where p(s, r) = p(s) p(r) are power laws: what `limits.least_loss` needs.

Section 7 asks for a scaling-law lower bound for factual recall. Theorem 7 holds for any p that is fixed before the
table is drawn, and given the blocks of answers a table of facts is a map from S R pairs to D answers (`limits_facts`).
So `limits.least_loss(B, D, product_law(...))` is such a bound, and it is exact. Blocks that the learner does not know
can only cost more, so the bound holds for hidden answer sets too. ``docs/limits.md`` derives its closed forms, and the
tests compare them with it.
"""

import math
from dataclasses import dataclass

import numpy as np

from facthold.theory.bounds import Number
from facthold.theory.limits import Frequencies, power_law, power_sum

ROWS = 1 << 22  # rows of a product that are looked at one by one at most


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

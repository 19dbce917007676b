"""The bits that a table of facts needs (section 6, appendix E.2), whatever the model. In bits throughout, as `limits`.

Tables have *known blocks* (section 4.4, `facts.table.random_table`: relation r answers from its own block of D answers,
and the learner knows the blocks), or *hidden answer sets* (theorem 8: drawn from |V| >= 2 R D tokens, and they count
too). They need different bits: ``docs/limits.md``.

Where facts are not asked equally often, `limits.least_loss(B, D, product_law(...))` is the scaling-law lower bound that
section 7 asks for, and it is exact: given the blocks, a table is a map from S R pairs to D answers.
"""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import betaln, gammaln, logsumexp

from facthold.theory.bounds import Number, bits_uniform
from facthold.theory.limits import Frequencies, amount, power_law, power_sum, size

CHERNOFF = math.sqrt(8)  # a C for which lemma 9 is proved; the paper only says that there is one (see `facts_bits`)
MOST_ANSWERS = 1 << 1000  # to choose from, where tables are counted: all sign vectors of a memory read by signs
TERMS = 1 << 17  # up to so many wrong answers `tables_within` adds all terms
ROWS = 1 << 22  # rows of a product that are looked at one by one at most
Sides = tuple[tuple[Number, float], tuple[Number, float]]  # (R, alpha_r), (S, alpha_s)

KINDS: dict[str, str | None] = {
    "random": None,
    "uniform": None,
    "balanced": "no bound: its answers come equally often, so that it is one of fewer tables than random ones",
    "injective": "no bound: its outputs are all different, so that it is one of fewer maps than random ones",
    **dict.fromkeys(("identity", "mod", "floor"), "no bound: there is only one such map"),
}


def no_bound(kind: str) -> str | None:
    """Why `counting_bound` says nothing about tables (or maps: S = N, R = 1, D = M) of this kind; None where it holds.

    Names that are not in `KINDS` are files and real sources: tables that were given, not drawn.
    """
    return KINDS.get(kind, f"no bound: {kind} is one given table, not drawn at random")


def known_blocks_bits(S: Number, R: Number, D: Number, accuracy: Number = 1.0) -> float:
    """S R log2 D: bits for a random table with known blocks (lemma 10 at zero loss, or theorem 7 with M = D).

    With ``accuracy`` below 1, the rate-distortion function. It holds for hidden answer sets too, but they need more.
    """
    return bits_uniform(size("S", S, 1) * size("R", R, 1), size("D", D, 1), accuracy)


def known_blocks_bits_for_loss(S: Number, R: Number, D: Number, loss: Number) -> float:
    """S R (log2 D - loss), for a loss in bits: lemma 10 added up, p(s, r) uniform. Tables as `known_blocks_bits`.

    For any other p(s, r) take `limits.bits_for_loss` with M = D: lemma 10 is theorem 7's equation 22 with M = D.
    """
    return size("S", S, 1) * size("R", R, 1) * max(0.0, math.log2(size("D", D, 1)) - amount("loss", loss))


@dataclass(frozen=True)
class FactsBound:
    """Theorem 8, and its terms, in bits."""

    bits: float | None  # facts + answers - lower_order - forgiven, 0 where that is negative; None: no bound
    reason: str  # why there is no bound, or on what it rests
    facts: float = 0.0  # S R log2 D
    answers: float = 0.0  # R D log2(|V| / D)
    lower_order: float = 0.0  # epsilon_lot of the proof
    forgiven: float = 0.0  # ((1 + eta) R D + R S) L: what a loss above zero saves


def facts_bits(S: Number, R: Number, D: Number, V: Number, loss: Number = 0.0, C: Number = CHERNOFF) -> FactsBound:
    """Theorem 8 with all terms of its proof, for a mean loss (bits per fact) at uniform p(s, r).

    Holds on average over tables with hidden answer sets, where |V| >= 2RD and eta <= 1; for no table of section 4.4.
    eta = C sqrt(D/S ln(2 D^2 log2 |V|)) has a constant that the proof leaves open; C = sqrt(8) will do, by Chernoff's
    bound (``docs/limits.md``). C = 0 leaves eta out: what remains for S/D without end, and no bound at a finite size.
    The bound has slack: where its last terms outweigh the answers, `known_blocks_bits_for_loss` is the better one.
    """
    S, R, D, V = (size(name, value, 1) for name, value in {"S": S, "R": R, "D": D, "V": V}.items())
    loss = amount("loss", loss)
    if not 0 <= C < math.inf:
        raise ValueError(f"C={C} must be zero (eta left out) or a positive number")
    if V < 2 * R * D:
        return FactsBound(None, f"no bound: theorem 8 needs |V| >= 2RD = {2 * R * D:.6g}, and V={V:.6g}")
    level = D * math.log(2 * D**2 * math.log2(V))
    eta = C * math.sqrt(level / S)
    if eta > 1:
        needed = f"S >= C^2 D ln(2 D^2 log2 |V|) = {C**2 * level:.6g}"
        return FactsBound(None, f"no bound: theorem 8 needs {needed} at C = {C:.3g}, and S={S:.6g}")
    facts, answers = S * R * math.log2(D), R * D * math.log2(V / D)
    lower_order = 2 * R * D * (math.log2(V) + D + R * D) / V + eta * R * D + R
    forgiven = ((1 + eta) * R * D + R * S) * loss
    reason = "theorem 8" if C >= CHERNOFF else f"not proved: C = {C:.3g} is below sqrt(8)"
    bits = max(0.0, facts + answers - lower_order - forgiven)
    return FactsBound(bits, reason, facts, answers, lower_order, forgiven)


def table_entropy(S: int, R: int, D: int, V: int) -> float:
    """H(a*) of a table with hidden answer sets, exactly: the fewest bits for zero loss, since predictions that are
    certain and right give a* away.

    A table with k_r different answers of relation r could have come from any sets that hold them: with K = sum k_r,
    (V - K)! / ((V - RD)! prod (D - k_r)!) of them. So H is S R log2 D and the entropy of the sets, less the mean
    logarithm of that number.
    """
    S, R, D, V = (size(name, value, 1) for name, value in {"S": S, "R": R, "D": D, "V": V}.items())
    if V < R * D:
        raise ValueError(f"V={V} has no {R} disjoint sets of {D}; take V >= {R * D}")
    distinct = np.eye(1, D + 1)[0]  # P(k different answers among those drawn so far)
    for _ in range(S):
        drawn = distinct * np.arange(D + 1) / D
        drawn[1:] += distinct[:-1] * (1 - np.arange(D) / D)
        distinct = drawn
    together = np.ones(1)
    for _ in range(R):
        together = np.convolve(together, distinct)
    sets = gammaln(V + 1) - R * gammaln(D + 1) - gammaln(V - R * D + 1)
    could = together @ gammaln(V - np.arange(len(together)) + 1.0) - gammaln(V - R * D + 1)
    could -= R * (distinct @ gammaln(D - np.arange(D + 1) + 1.0))
    return float(S * R * math.log2(D) + (sets - could) / math.log(2))


def allowed_errors(share: Number, facts: Number) -> int:
    """The wrong answers that a recall of at least ``share`` allows, whatever its rounding as a float."""
    return math.floor((1 - share) * facts + 1e-9 * max(1.0, float(facts)))


def counting_bound(S: Number, R: Number, D: Number, wrong: Number = 0) -> float:
    """log2(number of tables) - log2(number of tables within ``wrong`` errors of one), known blocks; never negative.

    For all but a share 2^-slack of random tables, bits used + log2(variants and seeds tried) + slack >= counting_bound.
    Only for tables that `no_bound` has no reason against.
    """
    facts, D = size("S", S, 1) * size("R", R, 1), size("D", D, 1, MOST_ANSWERS)
    return max(0.0, facts * math.log2(D) - tables_within(facts, D, wrong))


def tables_within(facts: Number, D: Number, wrong: Number) -> float:
    """log2 of sum_{j <= wrong} binom(facts, j) (D - 1)^j: the tables that differ from one in at most ``wrong`` facts.

    To rounding up to `TERMS` wrong answers. Above, at most a little too much, which is safe in a lower bound: each term
    is at most rho = wrong / ((facts - wrong + 1)(D - 1)) times the next one, so their sum at most 1 / (1 - rho) times
    the last one, and never above all tables.
    """
    facts, D, wrong = size("facts", facts, 1), size("D", D, 1, MOST_ANSWERS), size("wrong", wrong)
    if wrong > facts:
        raise ValueError(f"wrong={wrong} must be at most the number of facts, {facts}")
    every = facts * math.log2(D)
    if D == 1 or wrong == facts:
        return every
    if wrong <= TERMS:
        j = np.arange(wrong + 1.0)
        terms = log2_binomial(facts, j) + j * math.log2(D - 1)
        return min(every, float(logsumexp(terms * math.log(2)) / math.log(2)))
    rho = wrong / ((facts - wrong + 1) * (D - 1))
    if rho >= 1:
        return every
    return min(every, float(log2_binomial(facts, wrong)) + wrong * math.log2(D - 1) - math.log2(1 - rho))


def log2_binomial(n: Number, k: Number | np.ndarray) -> np.ndarray:
    """log2 binom(n, k), for n far above k too, where a difference of log n! has no digits left."""
    k = np.asarray(k, float)
    return np.asarray(-(np.log1p(float(n)) + betaln(n - k + 1.0, k + 1.0)) / math.log(2))


def product_law(S: Number, R: Number, alpha_s: Number, alpha_r: Number) -> Frequencies:
    """p(s, r) ~ s^-alpha_s r^-alpha_r for s <= S, r <= R, sorted, without S R numbers; sizes infinite if alpha > 1.

    The k most frequent pairs have s^alpha_s r^alpha_r <= t for some t. In row r they are the first
    (t r^-alpha_r)^(1/alpha_s), so that a count is a sum over the rows that have any; t is found by bisection, and pairs
    that rounding puts on the wrong side of it are as frequent as those at t, to rounding.
    """
    subjects, relations = power_law(S, alpha_s), power_law(R, alpha_r)
    if alpha_s == 0 or alpha_r == 0:
        return _repeated(subjects, relations.N) if alpha_r == 0 else _repeated(relations, subjects.N)
    sides = (relations.N, float(alpha_r)), (subjects.N, float(alpha_s))
    return Frequencies(subjects.N * relations.N, partial(_tail, sides))


def _repeated(p: Frequencies, times: Number) -> Frequencies:
    """Each of p's associations split evenly into so many."""
    if math.isinf(times):
        raise ValueError("alpha=0 with an infinite size: no distribution is uniform there; take a finite S and R")
    copies = int(times)

    def tail(k: int) -> float:
        whole, more = divmod(k, copies)
        return p.tail(whole) - (more / copies * (p.tail(whole) - p.tail(whole + 1)) if more else 0.0)

    return Frequencies(p.N * copies, tail)


def _tail(sides: Sides, k: int) -> float:
    """What is left of p(s, r) without the k most frequent pairs."""
    if k >= sides[0][0] * sides[1][0]:
        return 0.0
    if k <= 0:
        return 1.0
    low, high = 0.0, 1.0
    while _below(sides, high)[0].sum() < k:
        low, high = high, high + 1  # by steps and not by doubling: a level far too high has too many rows
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if _below(sides, middle)[0].sum() < k else (low, middle)
    n, ((short, b), (long, a)) = _below(sides, low)  # fewer than k; all others up to k are at this level
    each = {int(m): power_sum(a, int(m) + 1, long) for m in np.unique(n)}
    rows = np.arange(1.0, len(n) + 1) ** -b
    left = math.fsum(rows * np.array([each[int(m)] for m in n]))
    left += power_sum(b, len(n) + 1, short) * power_sum(a, 1, long)
    left -= (k - float(n.sum())) * math.exp(-high)
    return max(0.0, left / (power_sum(a, 1, long) * power_sum(b, 1, short)))


def _below(sides: Sides, t: float) -> tuple[np.ndarray, Sides]:
    """How many pairs of each row that has any have log(s^alpha_s r^alpha_r) <= t; and the sides, that of the rows (the
    one with fewer) first."""
    by_rows = sorted(sides, key=lambda side: _first(side[0], t / side[1]))
    (short, b), (long, a) = by_rows
    rows = int(_first(short, t / b))
    if rows > ROWS:
        R, S = (size for size, _ in sides)
        raise ValueError(f"S={S} and R={R}: {rows} rows have a part; take a smaller S, R or k")
    log_n = (t - b * np.log(np.arange(1.0, rows + 1))) / a
    with np.errstate(over="ignore"):
        return np.minimum(np.floor(np.exp(np.maximum(log_n, 0.0))), float(long)), (by_rows[0], by_rows[1])


def _first(N: Number, log_x: float) -> float:
    """floor(x), at least 1 and at most N."""
    return min(float(N), math.floor(math.exp(max(log_x, 0.0)))) if log_x < 700 else float(N)

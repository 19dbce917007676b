"""The bits that a table of facts needs (section 6, appendix E.2), whatever the model. In bits throughout, as `limits`.

Two ways to draw a table, and they need different bits:

- *known blocks* (section 4.4, `facts.table.random_table`): relation r answers from its own block of D answers, and the
  learner knows the blocks. Only the S R choices within them count, log2 D each.
- *hidden answer sets* (theorem 8): the R answer sets are themselves drawn from |V| >= 2 R D tokens, and count too. In
  a table of section 4.4 there is nothing to draw (and |V| < 2 R D): theorem 8's second term is not for it.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betaln, logsumexp

from facthold.theory.bounds import Number, bits_uniform
from facthold.theory.limits import amount, size

CHERNOFF = math.sqrt(8)
"""A constant C for which lemma 9 is proved; the paper only says that there is one (see `facts_bits`)."""
MOST_ANSWERS = 1 << 1000
"""Answers that tables may choose from where they are counted: all sign vectors of a memory that is read by signs."""
TERMS = 1 << 17  # up to so many wrong answers `tables_within` adds all terms

KINDS = {
    "random": None,
    "uniform": None,
    "balanced": "no bound: its answers come equally often, so that it is one of fewer tables than random ones",
    "injective": "no bound: its outputs are all different, so that it is one of fewer maps than random ones",
    "identity": "no bound: there is only one such map",
    "mod": "no bound: there is only one such map",
    "floor": "no bound: there is only one such map",
}


def no_bound(kind: str) -> str | None:
    """Why `counting_bound` says nothing about tables (or maps) of this kind; None where it holds.

    It holds for 'random' tables, and with S = N, R = 1 and D = M for 'uniform' maps. All other names are files and real
    sources: tables that were given, not drawn.
    """
    return KINDS.get(kind, f"no bound: {kind} is one given table, not drawn at random")


def known_blocks_bits(S: Number, R: Number, D: Number, accuracy: Number = 1.0) -> float:
    """S R log2 D: bits for a random table with known blocks (lemma 10 at zero loss, or theorem 7 with M = D).

    With ``accuracy`` below 1, the rate-distortion function: fewer bits have no such accuracy on average over tables.
    It holds for hidden answer sets too, where it is not all that is needed.
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
    eta = C sqrt(D/S ln(2 D^2 log2 |V|)) has a constant that the proof leaves open. C = sqrt(8) will do: by Chernoff's
    bound an answer has fewer than (1 - t) S/D subjects with probability at most exp(-t^2 S / 2D), and one of the D
    answers at most D times that. It is the proof's delta = 1 / (2 D log2 |V|) at t = sqrt(2 D/S ln(D/delta)) = eta/2.
    C = 0 leaves eta out. That is what remains for S/D without end, and no bound at a finite size.
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


def allowed_errors(share: Number, facts: Number) -> int:
    """The wrong answers that a recall of at least ``share`` allows, whatever its rounding as a float."""
    return math.floor((1 - share) * facts + 1e-9 * max(1.0, float(facts)))


def counting_bound(S: Number, R: Number, D: Number, wrong: Number = 0) -> float:
    """log2(number of tables) - log2(number of tables within ``wrong`` errors of one), known blocks; never negative.

    A model with given answers serves no more tables than that. So for all but a share 2^-slack of random tables,
    bits used + log2(variants and seeds tried) + slack >= counting_bound. Only for tables that `no_bound` has no
    reason against.
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

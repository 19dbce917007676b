"""Information bounds against brute force over all learners, numerical integration, and joint distributions in full."""

import itertools
import math
import re
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.optimize import linprog
from scipy.special import gamma, gammaln, zeta

from facthold.facts.table import TABLES
from facthold.memory import MAPS
from facthold.theory import limits_facts
from facthold.theory.limits import (
    bits_for_loss,
    corollary_1,
    frequencies,
    least_loss,
    least_loss_whole,
    power_law,
    power_sum,
)
from facthold.theory.limits_facts import (
    CHERNOFF,
    KINDS,
    counting_bound,
    facts_bits,
    known_blocks_bits,
    known_blocks_bits_for_loss,
    log2_binomial,
    no_bound,
    tables_within,
)

ROUNDING = 1e-9
"""Bits by which sums of a few thousand logarithms may be off."""


# Theorem 7: every learner of a tiny problem. ---------------------------------------------------------------------


def entropy(weights: np.ndarray) -> float:
    share = weights[weights > 0] / weights.sum()
    return float(-(share * np.log2(share)).sum())


def loss_of_cells(cells: np.ndarray, maps: np.ndarray, M: int, p: np.ndarray) -> float:
    """Expected loss when the message is the map's cell: the best predictor is the marginal of each cell."""
    total = 0.0
    for cell in set(cells.tolist()):
        members = maps[cells == cell]
        total += len(members) * sum(p[x] * entropy(np.bincount(members[:, x], minlength=M)) for x in range(len(p)))
    return total / len(maps)


def partitions(n: int, K: int) -> Iterator[tuple[int, ...]]:
    """All ways to put n things into at most K cells without names."""
    if n == 0:
        yield ()
        return
    for rest in partitions(n - 1, K):
        for cell in range(min(K, max(rest, default=-1) + 2)):
            yield (*rest, cell)


def best_learner(N: int, M: int, K: int, p: np.ndarray) -> float:
    """The least loss with K messages: for given predictors the best encoder is a partition of the maps."""
    maps = np.array(list(itertools.product(range(M), repeat=N)))
    return min(loss_of_cells(np.array(cells), maps, M, p) for cells in partitions(len(maps), K))


def alternating_learner(N: int, M: int, K: int, p: np.ndarray, starts: int) -> float:
    """Where there are too many partitions: improve encoder and predictors in turn, from many starts."""
    maps, rng, best = np.array(list(itertools.product(range(M), repeat=N))), np.random.default_rng(0), math.inf
    for _ in range(starts):
        cells = rng.integers(0, K, len(maps))
        for _ in range(20):
            counts = np.array(
                [[np.bincount(maps[cells == c][:, x], minlength=M) for x in range(N)] for c in range(K)], float
            )
            predicted = (counts + 1e-12) / (counts + 1e-12).sum(2, keepdims=True)
            costs = -sum(p[x] * np.log2(predicted[:, x, :][:, maps[:, x]]) for x in range(N))
            cells = costs.argmin(0)
        best = min(best, loss_of_cells(cells, maps, M, p))
    return best


TINY = [(1, 2), (2, 2), (1, 3), (1, 4), (3, 2), (2, 3)]
SKEWED = {1: [1.0], 2: [0.7, 0.3], 3: [0.5, 0.3, 0.2]}


@pytest.mark.parametrize(("N", "M"), TINY)
@pytest.mark.parametrize("K", [1, 2, 3, 4])
@pytest.mark.parametrize("skewed", [True, False])
def test_no_learner_beats_theorem_7(N: int, M: int, K: int, skewed: bool) -> None:
    p = np.array(SKEWED[N]) if skewed else np.full(N, 1 / N)
    B, best = math.log2(K), best_learner(N, M, K, p)
    assert best >= least_loss(B, M, p) - ROUNDING
    assert least_loss(B, M, p) >= least_loss_whole(B, M, p) - ROUNDING
    if math.log(K, M) == round(math.log(K, M)):  # B = k log2 M: the k most frequent can be written down, and no better
        assert_allclose(best, least_loss(B, M, p), atol=ROUNDING)
        assert_allclose(least_loss_whole(B, M, p), least_loss(B, M, p), atol=ROUNDING)


@pytest.mark.parametrize("K", [2, 3, 4])
def test_no_learner_found_beats_theorem_7(K: int) -> None:
    p = np.array([0.6, 0.25, 0.15])
    found = alternating_learner(3, 3, K, p, starts=100)
    assert found >= least_loss(math.log2(K), 3, p) - ROUNDING
    if K == 3:
        assert_allclose(found, least_loss(math.log2(3), 3, p), atol=1e-6)  # starts near enough to find it


@pytest.mark.parametrize(("N", "M"), [(2, 2), (3, 2), (2, 3)])
@pytest.mark.parametrize("K", [2, 3])
def test_theorem_7_as_stated_fails(N: int, M: int, K: int) -> None:
    """The statement's sum starts at ceil(B / log M): real learners of one bit and more beat it."""
    p = np.array(SKEWED[N])
    stated = math.log2(M) * p[max(math.ceil(math.log(K, M) - 1e-12) - 1, 0) :].sum()
    assert best_learner(N, M, K, p) < stated - 0.01


def test_least_loss_is_the_linear_program() -> None:
    """The minimum of sum p(x) (log2 M - I_x), by a solver."""
    rng = np.random.default_rng(0)
    for M, B in [(2, 0.0), (3, 1.3), (7, 5.0), (7, 11.5), (7, 40.0), (1, 3.0)]:
        p = rng.dirichlet(np.ones(6))
        program = linprog(-p, A_ub=np.ones((1, 6)), b_ub=[B], bounds=[(0, math.log2(M))] * 6)
        assert_allclose(least_loss(B, M, p), math.log2(M) + program.fun, atol=ROUNDING)


def test_least_loss_falls_and_is_convex() -> None:
    p, M = power_law(50, 1.3), 10
    losses = np.array([least_loss(B, M, p) for B in np.linspace(0, 50 * math.log2(M), 400).tolist()])
    assert losses[0] == pytest.approx(math.log2(M))
    assert losses[-1] == pytest.approx(0, abs=ROUNDING)
    assert (np.diff(losses) < 0).all()
    assert (np.diff(losses, 2) > -ROUNDING).all()
    assert least_loss(math.inf, M, p) == least_loss(1e9, M, p) == 0


@pytest.mark.parametrize("p", [[0.4, 0.1, 0.3, 0.2], [0.5, 0.5, 0.0], [1.0]])
@pytest.mark.parametrize("M", [2, 5, 1000])
def test_bits_for_a_loss_is_the_inverse(p: list[float], M: int) -> None:
    asked = frequencies(p).N
    for B in np.linspace(0, asked * math.log2(M), 23).tolist():
        assert_allclose(bits_for_loss(least_loss(B, M, p), M, p), B, atol=1e-6)
    assert bits_for_loss(0, M, p) == asked * math.log2(M)
    assert bits_for_loss(math.log2(M), M, p) == bits_for_loss(math.inf, M, p) == 0
    assert bits_for_loss(0, 1, p) == 0  # one output: nothing to know


# Corollary 1. ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0, 1.0 + 1e-9, 1.5, 4.0, 60.0])
def test_power_sums_against_addition(alpha: float) -> None:
    for first, last in [(1, 1), (1, 70), (5, 4), (1, 30_000), (20_000, 20_100), (90, 30_000)]:
        direct = math.fsum(float(x) ** -alpha for x in range(first, last + 1))
        assert_allclose(power_sum(alpha, first, last), direct, rtol=1e-13)


@pytest.mark.parametrize("alpha", [1.01, 1.5, 2.0, 7.0])
def test_power_sums_against_hurwitz(alpha: float) -> None:
    for first in (1, 2, 40, 10**5):
        assert_allclose(power_sum(alpha, first, math.inf), zeta(alpha, first), rtol=1e-13)


@pytest.mark.parametrize(("alpha", "N"), [(0.7, 10**4), (1.0, 10**6), (1.5, 10**6), (2.5, math.inf)])
def test_power_law_against_numerical_integration(alpha: float, N: float) -> None:
    """x^-alpha is 1 / Gamma(alpha) times the integral of t^(alpha-1) e^(-xt): the sum over x is geometric under it."""

    def integrated(k: int) -> float:
        def inside(u: float) -> float:  # t = e^u
            t = math.exp(u)
            rows = 1.0 if math.isinf(N) else -math.expm1(-(N - k) * t)
            return t**alpha * math.exp(-(k + 1) * t) * rows / -math.expm1(-t)

        return quad(inside, -60, 8, limit=500, epsabs=0, epsrel=1e-11)[0] / gamma(alpha)

    M = 50
    for k in (0, 3, 700):
        expected = math.log2(M) * integrated(k) / integrated(0)
        assert_allclose(least_loss(k * math.log2(M), M, power_law(N, alpha)), expected, rtol=1e-8)


def test_power_law_is_any_p_of_that_shape() -> None:
    p = np.arange(1, 41.0) ** -1.7
    shuffled = np.random.default_rng(0).permutation(p / p.sum())
    for B in (0.0, 3.3, 50.0, 119.0):
        assert_allclose(least_loss(B, 8, shuffled), least_loss(B, 8, power_law(40, 1.7)), rtol=1e-12)
    for loss in (0.0, 1e-3, 0.5, 2.9):
        assert_allclose(bits_for_loss(loss, 8, shuffled), bits_for_loss(loss, 8, power_law(40, 1.7)), rtol=1e-9)


@pytest.mark.parametrize("alpha", [1.2, 1.5, 3.0])
def test_corollary_1(alpha: float) -> None:
    """The exponent, its limit, and the constant over its whole range, for infinite and finite N."""
    M = 100
    law, p = corollary_1(M, alpha), power_law(math.inf, alpha)
    B = np.logspace(6, 9, 7)
    losses = [least_loss(b, M, p) for b in B.tolist()]
    assert_allclose(np.diff(np.log(losses)) / np.diff(np.log(B)), 1 - alpha, atol=alpha * math.log2(M) / B[0])
    assert_allclose(losses[-1] / B[-1] ** law.exponent, law.limit, rtol=alpha * math.log2(M) / B[-1])
    for N in (3, 20, 10**6, math.inf):
        law, p = corollary_1(M, alpha, N), power_law(N, alpha)
        for b in np.geomspace(law.first, min(law.last, 1e12), 60).tolist():
            assert least_loss(b, M, p) >= law.constant * b**law.exponent


def test_corollary_1_needs_its_range() -> None:
    """For N finite the loss is 0 from N log2 M on, and B^(1 - alpha) is not."""
    assert least_loss(20 * math.log2(100), 100, power_law(20, 1.5)) == pytest.approx(0, abs=ROUNDING)
    law = corollary_1(100, 1.5, 20)
    assert law.constant * (20 * math.log2(100)) ** law.exponent > 0.01


# Lemmas 8 to 11 and theorem 8: joint distributions in full. ------------------------------------------------------


def information(joint: np.ndarray) -> float:
    """I(X; Y) in bits, from the joint distribution of X (rows) and Y (columns)."""
    return entropy(joint.sum(1)) + entropy(joint.sum(0)) - entropy(joint.ravel())


def merged(labels: list, rows: np.ndarray) -> np.ndarray:
    """The joint distribution with rows of equal label added up."""
    places = {label: i for i, label in enumerate(dict.fromkeys(labels))}
    out = np.zeros((len(places), rows.shape[1]))
    np.add.at(out, [places[label] for label in labels], rows)
    return out


def answer_sets(V: int, R: int, D: int) -> list[tuple[tuple[int, ...], ...]]:
    """All (A_1, ..., A_R), disjoint, D of V tokens each."""
    if R == 0:
        return [()]
    return [
        (*rest, chosen)
        for rest in answer_sets(V, R - 1, D)
        for chosen in itertools.combinations([v for v in range(V) if all(v not in used for used in rest)], D)
    ]


def channels(n: int, K: int) -> dict[str, np.ndarray]:
    """Joint distributions of n equally likely states and K messages, from hardly any information to much."""
    rng = np.random.default_rng(n + K)
    soft, sharp = rng.dirichlet(np.ones(K), n), rng.dirichlet(np.full(K, 0.05), n)
    return {"soft": soft / n, "sharp": sharp / n, "sure": np.eye(K)[rng.integers(0, K, n)] / n, "all": np.eye(n) / n}


def test_lemma_11() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        joint = rng.dirichlet(np.full(24, 0.3)).reshape(2, 3, 4)  # X, Y, Z
        both = information(joint.reshape(6, 4))
        parts = information(joint.sum(1)) + information(joint.sum(0)) - information(joint.sum(2))
        assert both >= parts - ROUNDING
    same = np.zeros((2, 2, 2))
    same[0, 0, 0] = same[1, 1, 1] = 0.5  # X = Y = Z: equality, 1 = 1 + 1 - 1
    assert information(same.reshape(4, 2)) == pytest.approx(information(same.sum(1)) * 2 - information(same.sum(2)))


@pytest.mark.parametrize(("V", "R", "D"), [(4, 2, 1), (6, 3, 1), (8, 2, 2), (4, 1, 2)])
def test_lemma_8(V: int, R: int, D: int) -> None:
    states = answer_sets(V, R, D)
    correction = 2 * R**2 * D**2 / V
    for name, joint in channels(len(states), 5).items():
        together = information(joint)
        alone = sum(information(merged([state[r] for state in states], joint)) for r in range(R))
        assert together >= alone - correction - ROUNDING
        if name == "all" and R > 1:
            assert together < alone - ROUNDING  # some correction is needed


def covered(n: int, k: int, D: int) -> float:
    """The probability that n draws from D answers have k distinct ones."""
    counts = sum((-1) ** i * math.comb(k, i) * (k - i) ** n for i in range(k + 1))
    return math.comb(D, k) * counts / D**n


def lemma_9(S: int, D: int, V: int, loss: float, C: float = CHERNOFF) -> float:
    """The right-hand side of lemma 9, which is theorem 8's for one relation, the facts taken off."""
    eta = C * math.sqrt(D / S * math.log(2 * D**2 * math.log2(V)))
    assert eta <= 1
    small = 2 * D * math.log2(V) / V + 2 * D**2 / V + eta * D + 1
    return -(1 + eta) * D * loss + D * math.log2(V / D) - small


@pytest.mark.parametrize(("D", "V"), [(1, 8), (2, 64), (3, 1000), (8, 10**6)])
@pytest.mark.parametrize("erased", [0.0, 0.01, 0.2, 0.9])
def test_lemma_9_for_predictions_that_are_right_or_empty(D: int, V: int, erased: float) -> None:
    """f(s) is certain of a*(s), or says nothing: a loss of erased * log2 V, and A known up to the missing answers."""
    S = math.ceil(CHERNOFF**2 * D * math.log(2 * D**2 * math.log2(V)))
    known = 0.0
    for n in range(S + 1):
        shown = math.comb(S, n) * (1 - erased) ** n * erased ** (S - n)
        for k in range(min(n, D) + 1):
            known += shown * covered(n, k, D) * math.log2(math.comb(V, D) / math.comb(V - k, D - k))
    assert known >= lemma_9(S, D, V, erased * math.log2(V)) - ROUNDING


@pytest.mark.parametrize("K", [1, 3, 28])
def test_lemma_9_for_learners_that_know_the_set_alone(K: int) -> None:
    """Messages about A only: the loss follows from the marginals of each message."""
    V, D, S = 8, 2, 60
    sets = list(itertools.combinations(range(V), D))
    for joint in channels(len(sets), K).values():
        tokens = np.array(
            [
                [joint[i, c] / D if v in A else 0 for c in range(joint.shape[1])]
                for i, A in enumerate(sets)
                for v in range(V)
            ]
        )
        marginal = tokens.reshape(len(sets), V, -1).sum(0)  # a*(s) and the message
        loss = entropy(marginal.ravel()) - entropy(marginal.sum(0))  # best predictor, for every s
        assert information(joint) >= lemma_9(S, D, V, loss) - ROUNDING


def test_lemma_9_without_its_constant_fails() -> None:
    """S = 2, D = 2, all known: with probability 1/2 one answer of A was never seen."""
    V, D, S = 1000, 2, 2
    known = math.log2(math.comb(V, D)) - covered(S, 1, D) * math.log2(V - 1)
    assert known < lemma_9(S, D, V, 0.0, C=0) - 1
    left_out = facts_bits(S, 1, D, V, C=0)
    assert left_out.bits > zero_loss_exact(S, 1, D, V) + 1
    assert "not proved" in left_out.reason
    assert facts_bits(S, 1, D, V).bits is None


def tables(V: int, R: int, D: int, S: int) -> list[tuple[tuple, tuple]]:
    """All (answer sets, a*), equally likely; a* by relation, then subject."""
    return [
        (A, a)
        for A in answer_sets(V, R, D)
        for a in itertools.product(*(itertools.product(A_r, repeat=S) for A_r in A))
    ]


@pytest.mark.parametrize(("V", "R", "D", "S"), [(4, 1, 2, 2), (4, 2, 2, 2), (5, 2, 1, 2), (5, 2, 2, 1)])
@pytest.mark.parametrize("channel", ["soft", "sharp", "sure"])
def test_lemma_10_and_the_chain_of_theorem_8(V: int, R: int, D: int, S: int, channel: str) -> None:
    """Each step on a random learner with 4 messages and its own, not always best, predictions."""
    K, drawn = 4, tables(V, R, D, S)
    joint, rng = channels(len(drawn), K)[channel], np.random.default_rng(V)
    predicted = rng.dirichlet(np.full(V, 0.5), (K, R, S))
    total_loss, single, by_all = 0.0, 0.0, 0.0
    for r, s in itertools.product(range(R), range(S)):
        own, whole = {}, {}
        for (A, a), row in zip(drawn, joint, strict=True):
            own.setdefault(A[r], []).append((a[r][s], row))
            whole.setdefault(A, []).append((a[r][s], row))
        loss = -sum(row @ np.log2(predicted[:, r, s, a[r][s]]) for (_, a), row in zip(drawn, joint, strict=True))
        given, given_all = (
            sum(
                sum(row.sum() for _, row in group)
                * information(merged([a for a, _ in group], np.array([row for _, row in group])))
                for group in groups.values()
            )
            for groups in (own, whole)
        )
        assert given >= math.log2(D) - loss - ROUNDING  # lemma 10
        assert given_all >= given - ROUNDING  # the proof says equal
        total_loss, single, by_all = total_loss + loss, single + given, by_all + given_all
    sets = information(merged([A for A, _ in drawn], joint))
    assert information(joint) >= sets + by_all - ROUNDING
    assert math.log2(K) >= information(joint) - ROUNDING
    assert math.log2(K) >= known_blocks_bits_for_loss(S, R, D, total_loss / (S * R)) - ROUNDING


def test_the_proof_of_theorem_8_has_an_equality_that_is_none() -> None:
    """I(a(s,r); f | A_1..A_R) may exceed I(a(s,r); f | A_r): here f hides a(s, 1) behind a bit of A_2."""
    states = [(low, hidden) for low in (0, 1) for hidden in (0, 1)]  # a's bit, the bit of A_2; A_1 itself is fixed
    joint = np.array([np.eye(2)[low ^ hidden] for low, hidden in states]) / 4
    assert information(merged([low for low, _ in states], joint)) == pytest.approx(0)
    by_hidden = [information(joint[[i for i, (_, h) in enumerate(states) if h == hidden]] * 2) for hidden in (0, 1)]
    assert np.mean(by_hidden) == pytest.approx(1)


def zero_loss_exact(S: int, R: int, D: int, V: int) -> float:
    """H(a*), by enumeration, or for one relation by the number of distinct answers."""
    if R > 1:
        drawn = [a for _, a in tables(V, R, D, S)]
        return entropy(merged(drawn, np.ones((len(drawn), 1))).ravel())
    missing = sum(covered(S, k, D) * math.log2(math.comb(V - k, D - k)) for k in range(1, min(S, D) + 1))
    return S * math.log2(D) + math.log2(math.comb(V, D)) - missing


def zero_loss_bits(S: float, R: float, D: float, V: float) -> float:
    """Bits for zero loss, with no constant left open and no condition on S (docs/limits.md): the entropy of the table
    and of the answer sets, less that of answers that no subject has."""
    sets = log2_binomial(V, R * D) + (gammaln(R * D + 1.0) - R * gammaln(D + 1.0)) / math.log(2)
    missed = D * math.exp(S * math.log1p(-1 / D)) if D > 1 else 0.0
    return float(S * R * math.log2(D) + sets - R * log2_binomial(V - D + missed, missed))


@pytest.mark.parametrize(("S", "R", "D", "V"), [(1, 2, 2, 5), (2, 2, 2, 4), (3, 2, 2, 6), (2, 3, 1, 6), (5, 1, 3, 9)])
def test_zero_loss_bits_against_the_entropy_of_tables(S: int, R: int, D: int, V: int) -> None:
    exact = zero_loss_exact(S, R, D, V)
    assert known_blocks_bits(S, R, D) < zero_loss_bits(S, R, D, V) < exact + ROUNDING
    if D == 1:
        assert zero_loss_bits(S, R, D, V) == pytest.approx(exact)


def test_zero_loss_bits_tend_to_the_entropy() -> None:
    for D, V in [(2, 40), (10, 1000)]:
        gaps = [zero_loss_exact(S, 1, D, V) - zero_loss_bits(S, 1, D, V) for S in (D, 4 * D, 50 * D)]
        assert all(gap > -ROUNDING for gap in gaps)
        assert gaps[2] < 1e-6


@pytest.mark.parametrize("R", [1, 2, 30])
@pytest.mark.parametrize("D", [1, 2, 50])
@pytest.mark.parametrize("spare", [2, 100, 10**7])
def test_theorem_8_is_below_what_zero_loss_needs(R: int, D: int, spare: int) -> None:
    V = spare * R * D
    S = math.ceil(CHERNOFF**2 * D * math.log(2 * D**2 * math.log2(V)))
    for subjects in (S, 100 * S):
        bound = facts_bits(subjects, R, D, V)
        assert bound.bits <= zero_loss_bits(subjects, R, D, V)
        assert bound.bits == pytest.approx(max(0, bound.facts + bound.answers - bound.lower_order))
        assert bound.facts == pytest.approx(known_blocks_bits(subjects, R, D))
        # The sets are disjoint: at |V| = 2RD this costs each answer 1 - ln 2 nats at most, all that c has to cover.
        exact_answers = zero_loss_bits(subjects, R, D, V) - bound.facts
        assert exact_answers > bound.answers - (1 / math.log(2) - 1) * R * D - 1e-9 * bound.facts
        one = facts_bits(subjects, 1, D, V)
        assert one.answers - one.lower_order == pytest.approx(lemma_9(subjects, D, V, 0.0) - 2 * D**2 / V)
    assert facts_bits(S - 1, R, D, V).bits is None
    assert "S >=" in facts_bits(S - 1, R, D, V).reason


def test_theorem_8_terms_vanish_and_losses_forgive() -> None:
    R, D = 5, 20
    shares = [(b := facts_bits(10**n, R, D, 10**n)).lower_order / b.answers for n in (4, 6, 9, 15)]
    assert (np.diff(shares) < 0).all()
    assert shares[-1] < 0.01
    bits = [facts_bits(10**5, R, D, 10**5, loss=loss).bits for loss in (0.0, 0.1, 1.0, 4.0, 100.0, math.inf)]
    assert (np.diff(bits)[:-1] < 0).all()
    assert bits[-1] == 0
    with_C, without = facts_bits(10**5, R, D, 10**5), facts_bits(10**5, R, D, 10**5, C=0)
    eta = CHERNOFF * math.sqrt(D / 10**5 * math.log(2 * D**2 * math.log2(10**5)))
    assert without.bits - with_C.bits == pytest.approx(eta * R * D)


def test_theorem_8_is_not_for_section_4_4() -> None:
    """The whole vocabulary there is S + R + RD + noise + EOS; with RD large it is below 2RD."""
    S, R, D = 32, 32, 32
    bound = facts_bits(S, R, D, S + R + R * D + (S + R) + 1)
    assert bound.bits is None
    assert "2RD = 2048" in bound.reason


# Counting. -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("S", "R", "D"), [(2, 2, 2), (3, 2, 3), (5, 1, 4), (4, 2, 1)])
def test_counting_bound_against_enumeration(S: int, R: int, D: int) -> None:
    all_tables = np.array(list(itertools.product(range(D), repeat=S * R)))
    errors = (all_tables != 0).sum(1)
    for wrong in range(S * R + 1):
        served = (errors <= wrong).sum()
        assert_allclose(counting_bound(S, R, D, wrong), math.log2(len(all_tables) / served), atol=ROUNDING)


@pytest.mark.parametrize(("facts", "D", "wrong"), [(10**6, 7, 5), (1000, 2, 300), (3000, 100, 900), (10**9, 3, 40)])
def test_tables_within_against_whole_numbers(facts: int, D: int, wrong: int) -> None:
    exact = math.log2(sum(math.comb(facts, j) * (D - 1) ** j for j in range(wrong + 1)))
    assert_allclose(tables_within(facts, D, wrong), exact, rtol=1e-10)


def test_tables_within_many_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The geometric sum is above the exact one, by little away from chance, and never above all tables."""
    cases = [(5000, D, wrong) for D in (2, 10) for wrong in (1, 50, 1000, 2400, 2600, 4600, 5000)]
    exact = [tables_within(*case) for case in cases]
    monkeypatch.setattr(limits_facts, "TERMS", 0)
    for case, expected in zip(cases, exact, strict=True):
        facts, D, wrong = case
        assert expected - ROUNDING <= tables_within(*case) <= facts * math.log2(D) + ROUNDING
        if wrong <= 0.8 * facts * (D - 1) / D:
            assert tables_within(*case) < expected + 0.1


@pytest.mark.parametrize("accuracy", [0.99, 0.9, 0.5])
def test_counting_is_rate_distortion_for_large_tables(accuracy: float) -> None:
    for S in (10**4, 10**12):
        bits = counting_bound(S, 10, 16, round((1 - accuracy) * 10 * S))
        assert_allclose(bits, known_blocks_bits(S, 10, 16, accuracy), rtol=20 / S)
        assert counting_bound(S, 10, 16) == pytest.approx(40 * S)


def test_log2_binomial_keeps_its_digits() -> None:
    for n, k in [(10**30, 5), (10**12, 3), (10**6, 1000), (40, 20), (7, 0), (7, 7)]:
        assert_allclose(log2_binomial(n, k), math.log2(math.comb(n, k)), rtol=1e-9, atol=ROUNDING)


def test_every_kind_of_table_and_map_says_whether_there_is_a_bound() -> None:
    assert set(KINDS) == set(TABLES) | set(MAPS)
    assert [kind for kind in (*KINDS, "file", "countries") if no_bound(kind) is None] == ["random", "uniform"]
    assert no_bound("countries") == "no bound: countries is one given table, not drawn at random"


# Sizes. ----------------------------------------------------------------------------------------------------------


def test_absurd_sizes_work() -> None:
    p = power_law(1e30, 1.2)
    assert 0 < least_loss(1e30, 1e30, p) < math.log2(1e30)
    assert_allclose(bits_for_loss(least_loss(1e20, 1e30, p), 1e30, p), 1e20, rtol=1e-9)
    assert bits_for_loss(0, 2, p) == 1e30
    assert least_loss(1e300, 2, power_law(math.inf, 1.1)) < 1e-29
    assert bits_for_loss(1e-9, 2, power_law(math.inf, 1.0001)) > 1e299
    assert known_blocks_bits(1e30, 1e30, 1e30) == pytest.approx(1e60 * math.log2(1e30))
    assert facts_bits(1e30, 20, 100, 1e30).bits == pytest.approx(1e30 * 20 * math.log2(100))
    assert counting_bound(1e30, 1, 100, 1e28) == pytest.approx(known_blocks_bits(1e30, 1, 100, 0.99))
    assert least_loss(1e30, 10, power_law(1e30, 0)) == pytest.approx(math.log2(10) - 1)  # uniform: B / N less


@pytest.mark.parametrize("bad", [0, -1, 2.5, math.nan, math.inf, 1e61])
def test_bad_sizes_are_refused(bad: float) -> None:
    for name, call in {
        "M": lambda: least_loss(1, bad, [1.0]),
        "S": lambda: known_blocks_bits(bad, 2, 2),
        "R": lambda: facts_bits(2, bad, 2, 10),
        "D": lambda: known_blocks_bits(2, 2, bad),
        "V": lambda: facts_bits(2, 2, 2, bad),
    }.items():
        with pytest.raises(ValueError, match=re.escape(f"{name}={bad} must be a whole number")):
            call()


def test_counted_answers_may_be_all_sign_vectors() -> None:
    assert counting_bound(3, 1, 2**256) == 3 * 256
    for bad in (0, -1, 2.5, math.nan, 2**1001):
        with pytest.raises(ValueError, match=re.escape(f"D={bad} must be a whole number")):
            counting_bound(2, 2, bad)


def test_wrong_arguments_are_refused() -> None:
    for bad in (-1, math.nan):
        with pytest.raises(ValueError, match=f"B={bad}"):
            least_loss(bad, 2, [1.0])
        with pytest.raises(ValueError, match=f"loss={bad}"):
            bits_for_loss(bad, 2, [1.0])
        with pytest.raises(ValueError, match=f"C={bad}"):
            facts_bits(100, 1, 1, 100, C=bad)
    for p in ([], [0.5, 0.6], [1.5, -0.5], [math.nan, 1.0]):
        with pytest.raises(ValueError, match="must be a distribution"):
            frequencies(p)
    with pytest.raises(ValueError, match="infinite N"):
        power_law(math.inf, 1.0)
    with pytest.raises(ValueError, match=r"alpha=-0\.1"):
        power_law(10, -0.1)
    with pytest.raises(ValueError, match="alpha=1 "):
        corollary_1(10, 1)
    with pytest.raises(ValueError, match="wrong=5 must be at most"):
        counting_bound(2, 2, 2, 5)
    with pytest.raises(ValueError, match=r"wrong=0\.5"):
        counting_bound(2, 2, 2, 0.5)
    with pytest.raises(ValueError, match=r"accuracy=1\.5"):
        known_blocks_bits(2, 2, 2, 1.5)

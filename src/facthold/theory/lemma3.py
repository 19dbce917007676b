"""The noise on the margins of lemma 3's MLP, and the width that it asks for: numbers from sizes alone.

The score of an output y for the fact f is sum_f' K(f, f') <phi(y), phi(a*(f'))>, with the kernel of m neurons

    K(f, f') = 2^n / (m sqrt(n!)) sum_i h_n(<w_i, s + r>) <He_n(w_i), s'^p x r'^k>,    n = p + k.

Where the paper bounds its moments by 2^(4q), they are these. (1) Over the neurons its variance is c / m times
E[h_n(u)^2 g^2], with c = 2^n / binom(n, p), u and v standard Gaussians, and g = 1 for another subject and relation,
h_p((u + v) / sqrt 2) for the same subject, h_k((u - v) / sqrt 2) for the same relation, and the product of both, less
its squared mean, for f itself. For p = k = 1: 2, 6, 6 and 15. (2) Its mean over the neurons, 2^n <s, s'>^p <r, r'>^k,
stays at any m: its variance over the embeddings are moments of the sphere. Other answers add (1) and (2) times 1/d, and
so the m d that theorem 4 asks for: c S R / d for each of the two scores of a margin. Terms of order 1/(m d) beside
these are left out.
"""

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial.hermite_e import hermegauss, hermeval
from scipy.special import betainc

from facthold._util.errors import check_positive

NODES = 40  # of the Gaussian quadratures: exact for polynomials of degree 79, and p + k is at most 19
FEWER = 16  # where three of them are nested, of what is smooth
MOST_WIDTH = 1e12  # beyond it only what does not shrink with m is left


class Table(NamedTuple):
    """A balanced table, or a share of one, and the MLP that is to hold it."""

    S: int
    R: int
    D: int
    d: int
    p: int = 1  # degrees of the Hermite tensor in s and in r
    k: int = 1
    share: float = 1.0  # of S x R, the same of each relation

    @property
    def answers(self) -> float:
        """Answers of a relation that some fact has."""
        return min(self.D, self.share * self.S)

    @property
    def C(self) -> float:
        """C(a), the facts that an answer serves."""
        return self.share * self.S / self.answers


class PerNeuron(NamedTuple):
    """m times the variance of K(f, f') over the neurons, by what f' shares with f."""

    neither: float
    subject: float
    relation: float
    both: float
    swing: float  # the part of ``both`` that is in the square of all other noise too: Var(h_n^2)


class Variance(NamedTuple):
    """Of a score, by how its parts differ between facts: with the factors A of their embeddings and q of their
    neurons."""

    neurons: float  # times q A: what shrinks with m
    neither: float  # times A: the kernel's mean for facts with another subject and relation
    shared: float  # times A^1.5: for facts that share one of them
    own: float  # times A^2: for the fact itself

    def plus(self, other: "Variance", times: float = 1.0) -> "Variance":
        return Variance(*(x + times * y for x, y in zip(self, other, strict=True)))

    def at(self, A: np.ndarray, q: np.ndarray, spread: float) -> np.ndarray:
        """Of facts with these factors; A^j is divided by its mean, where log A has the variance ``spread``."""
        powers = ((self.neither, 1.0), (self.shared, 1.5), (self.own, 2.0))
        return self.neurons * A * q + sum(x * A**j * math.exp(-j * (j - 1) * spread / 2) for x, j in powers)


class Noise(NamedTuple):
    """Of the scores of one fact. The answer's is mean A q and what ``target`` adds, with two factors of mean 1: A for
    the norms (2 |s'|^2)^p (2 |r'|^2)^k of the fact, q for the mean of h_n^2 over the neurons. Both are in the square of
    the noise too: a fact with a small score has small rivals."""

    mean: float  # the answer's score
    norms: float  # variance of A
    swing: float  # variance of q
    target: Variance  # of the answer's score beside these factors
    near: Variance  # of the score of another answer of the same relation
    far: Variance  # of the score of an answer of another relation
    other: Variance  # of the score of a token that answers nothing

    @property
    def answer(self) -> float:
        """The variance of the answer's score."""
        return self.mean**2 * (self.norms + self.swing) + sum(self.target)

    @property
    def margin(self) -> float:
        """Var(gamma) for an answer of another relation, as nearly all rivals are."""
        return self.answer + sum(self.far)


@cache
def per_neuron(p: int, k: int) -> PerNeuron:
    check_positive(p=p, k=k)
    n, (x, mass) = p + k, hermegauss(NODES)
    u, v = np.meshgrid(x, x, indexing="ij")
    weights = np.outer(mass, mass) / mass.sum() ** 2
    c = 2**n / math.comb(n, p)
    h_n, h_p, h_k = (_hermite(j, y) ** 2 for j, y in ((n, u), (p, (u + v) / 2**0.5), (k, (u - v) / 2**0.5)))
    mean = lambda values: float((weights * values).sum())  # noqa: E731
    return PerNeuron(c, c * mean(h_n * h_p), c * mean(h_n * h_k), c * mean(h_n * h_p * h_k) - 1, mean(h_n**2) - 1)


def _hermite(k: int, x: np.ndarray) -> np.ndarray:
    return hermeval(x, [0] * k + [1]) / math.sqrt(math.factorial(k))


def noise(table: Table, m: float) -> Noise:
    """The noise of m neurons that hold a table; m may be infinite."""
    S, R, _, d, p, k, share = table
    half, by = (d - 1) // 2, per_neuron(p, k)
    norm = lambda j: 2**j * math.prod((half / 2 + i) / (d / 2 + i) for i in range(j))  # noqa: E731  E (2 |s'|^2)^j
    cosine = lambda j: math.prod((2 * i + 1) / (half + 2 * i) for i in range(j))  # noqa: E731  E cos^2j of two s'
    mean = norm(p) * norm(k)
    s_own, r_own = norm(2 * p), norm(2 * k)
    s_other, r_other = norm(p) ** 2 * cosine(p), norm(k) ** 2 * cosine(k)
    neither = Variance(by.neither / m, s_other * r_other, 0, 0)
    subject = Variance(by.subject / m, 0, s_own * r_other, 0)
    relation = Variance(by.relation / m, 0, s_other * r_own, 0)
    nothing = Variance(0, 0, 0, 0)
    facts = nothing.plus(neither, (S - 1) * (R - 1)).plus(subject, R - 1).plus(relation, S - 1)
    bystanders = nothing.plus(facts, share / d)
    other = bystanders.plus(Variance(by.both / m, 0, 0, s_own * r_own), 1 / d)
    return Noise(
        mean=mean, norms=s_own * r_own / mean**2 - 1, swing=by.swing / m,
        target=bystanders.plus(relation, table.C - 1).plus(Variance((by.both - by.swing) / m, 0, 0, 0)),
        near=other.plus(relation, table.C),
        far=other.plus(subject, table.C / S).plus(neither, table.C * (S - 1) / S), other=other,
    )  # fmt: skip


def recall(table: Table, m: float) -> float:
    """The share of facts that m neurons recall, for noise on the answer's score that is Gaussian, and factors A and q
    whose logarithms are.

    Rivals: the table's answers and 2 (S + R) + 1 tokens that answer nothing; answers that no fact has are among these.
    """
    of = noise(table, m)
    x, mass = hermegauss(FEWER)
    mass = mass / mass.sum()
    of_A, of_q = math.log1p(of.norms), math.log1p(of.swing)
    A = np.exp(math.sqrt(of_A) * x - of_A / 2)[:, None, None]
    q = np.exp(math.sqrt(of_q) * x - of_q / 2)[:, None]
    score = of.mean * A * q + np.sqrt(of.target.at(A, q, of_A)) * x
    unused = table.R * (table.D - table.answers)
    rivals = (
        (table.answers - 1, of.near), ((table.R - 1) * table.answers, of.far),
        (2 * (table.S + table.R) + 1 + unused, of.other),
    )  # fmt: skip
    below = sum(n * _log_below(score / np.sqrt(variance.at(A, q, of_A)), table.d) for n, variance in rivals)
    return float(np.einsum("aqt,a,q,t->", np.exp(below), mass, mass, mass))


def _log_below(z: np.ndarray, d: int) -> np.ndarray:
    """The logarithm of the share of directions on the sphere whose first coordinate is below z / sqrt(d).

    The score of a rival is |F| times a cosine: its tail is thinner than a Gaussian's, which matters among thousands.
    """
    beyond = betainc((d - 1) / 2, 0.5, np.clip(1 - z**2 / d, 0, 1)) / 2
    return np.log(np.maximum(np.where(z > 0, 1 - beyond, beyond), np.finfo(float).tiny))


@cache
def width(table: Table, goal: float = 0.99) -> float:
    """The m at which the share ``goal`` is recalled; infinite where no m is enough, as the kernel's own noise stays."""
    from scipy.optimize import brentq

    short = lambda log_m: recall(table, math.exp(log_m)) - goal  # noqa: E731
    if short(math.log(MOST_WIDTH)) < 0:
        return math.inf
    return math.exp(brentq(short, 0.0, math.log(MOST_WIDTH)))


def half_of_noise(d: int, p: int, k: int) -> Table:
    """The smallest square table, an answer for each fact, where c S R / (m d) is half of the noise that shrinks with m:
    from here on m d grows as S R."""
    low, high = 1, 2
    table = lambda S: Table(S, S, S, d, p, k)  # noqa: E731
    while share_of_facts(table(high)) < 0.5:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if share_of_facts(table(middle)) >= 0.5 else (middle, high)
    return table(high)


def share_of_facts(table: Table) -> float:
    """How much of a margin's noise that shrinks with m is c S R / (m d) of each score, and not of its own answer."""
    all_of_it = noise(table, 1.0).margin - noise(table, math.inf).margin
    S, R, d = table.S, table.R, table.d
    return 2 * table.share * (S - 1) * (R - 1) * per_neuron(table.p, table.k).neither / d / all_of_it

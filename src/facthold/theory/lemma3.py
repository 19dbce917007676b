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
from scipy.special import log_ndtr

from facthold._util.errors import check_positive

NODES = 40  # of the Gaussian quadratures: exact for polynomials of degree 79, and p + k is at most 19
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


class Noise(NamedTuple):
    """Of the scores of one fact. Facts differ in a factor A of mean 1, their neurons' mean square: it multiplies the
    answer's score, and the square of all noise beside it."""

    mean: float  # the answer's score
    swing: float  # variance of A
    target: float  # variance of the answer's score beside A
    near: float  # variance of the score of another answer of the same relation
    far: float  # variance of the score of an answer of another relation
    other: float  # variance of the score of a token that answers nothing

    @property
    def margin(self) -> float:
        """Var(gamma) for an answer of another relation, as nearly all rivals are."""
        return self.mean**2 * self.swing + self.target + self.far


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
    neither = by.neither / m + s_other * r_other
    subject = by.subject / m + s_own * r_other
    relation = by.relation / m + s_other * r_own
    bystanders = share * ((S - 1) * (R - 1) * neither + (R - 1) * subject + (S - 1) * relation) / d
    other = bystanders + (s_own * r_own + by.both / m) / d
    return Noise(
        mean=mean, swing=s_own * r_own / mean**2 - 1 + by.swing / m,
        target=(by.both - by.swing) / m + (table.C - 1) * relation + bystanders,
        near=other + table.C * relation, far=other + table.C * (subject + (S - 1) * neither) / S, other=other,
    )  # fmt: skip


def recall(table: Table, m: float) -> float:
    """The share of facts that m neurons recall, for Gaussian noise, and a factor A with a Gaussian logarithm.

    Rivals: the table's answers and 2 (S + R) + 1 tokens that answer nothing; answers that no fact has are among these.
    """
    of = noise(table, m)
    z, mass = hermegauss(NODES)
    mass = mass / mass.sum()
    spread = math.log1p(of.swing)
    score = of.mean * np.exp((math.sqrt(spread) * z - spread / 2) / 2)[:, None] + math.sqrt(of.target) * z
    unused = table.R * (table.D - table.answers)
    rivals = (
        (table.answers - 1, of.near), ((table.R - 1) * table.answers, of.far),
        (2 * (table.S + table.R) + 1 + unused, of.other),
    )  # fmt: skip
    below = sum(n * log_ndtr(score / math.sqrt(variance)) for n, variance in rivals)
    return float(mass @ np.exp(below) @ mass)


def width(table: Table, goal: float = 0.99) -> float:
    """The m at which the share ``goal`` is recalled; infinite where no m is enough, as the kernel's own noise stays."""
    from scipy.optimize import brentq

    short = lambda log_m: recall(table, math.exp(log_m)) - goal  # noqa: E731
    if short(math.log(MOST_WIDTH)) < 0:
        return math.inf
    return math.exp(brentq(short, 0.0, math.log(MOST_WIDTH)))


def share_of_facts(table: Table) -> float:
    """How much of a margin's noise that shrinks with m is c S R / (m d) of each score, and not of its own answer."""
    all_of_it = noise(table, 1.0).margin - noise(table, math.inf).margin
    S, R, d = table.S, table.R, table.d
    return 2 * table.share * (S - 1) * (R - 1) * per_neuron(table.p, table.k).neither / d / all_of_it

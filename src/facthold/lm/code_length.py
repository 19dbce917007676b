"""Bits of a table that a model's scores save: a reader who knows which answers a relation has, and how often each of
them comes, is told whose they are, once with the scores and once without.

Without them every assignment of the answers to the subjects is as likely as any other: log2(n! / prod n_a!) bits. With
them each answer takes -log2 of its probability. By Kraft's inequality scores that know nothing of the assignment save k
bits with a probability of 2^-k at most, so that what is saved is in what the scores come from, on average over tables.
This is strict of predictions as they are, and of best answers. Of those that are fitted it is so for each half of the
facts where the other half is known: for both together it is an estimate, and three numbers per half are not counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.optimize import minimize
from scipy.special import gammaln, log_softmax

LETTERS = 3  # that two words begin with alike, where one may be read off the other
RIDGE = 0.05  # of a fit, in nats, towards what knows nothing: facts that are told apart without an error have no other
NOTHING = np.array([0.0, 0.0, 1.0])  # weights of a fit that knows how often answers come, and nothing else


def alike(subject: str, answer: str) -> bool:
    """Whether a word of the answer begins as a word of the subject does: Polish, of Poland, needs no knowledge."""
    one, other = ({word[:LETTERS] for word in name.casefold().split()} for name in (subject, answer))
    return any(len(word) == LETTERS for word in one & other)


@dataclass(frozen=True, eq=False)
class Table:
    """Facts of one relation. Of a group, such as countries of one region, it is known which answers are in it."""

    f: Int[np.ndarray, "n"]  # the answer of each fact, from 0
    groups: Int[np.ndarray, "n"]
    K: int  # answers

    @property
    def counts(self) -> Int[np.ndarray, "n K"]:
        """How often each answer comes in the group of each fact."""
        found = np.zeros((int(self.groups.max(initial=0)) + 1, self.K), int)
        np.add.at(found, (self.groups, self.f), 1)
        return found[self.groups]

    @property
    def assignment(self) -> Float[np.ndarray, "n"]:
        """Each fact's share of log2(n! / prod n_a!), the bits without scores; facts with equal answers share alike."""
        counts = self.counts
        n, own = counts.sum(1), counts[np.arange(len(self.f)), self.f]
        return np.asarray((gammaln(n + 1) / n - gammaln(own + 1) / own) / np.log(2))

    def shuffled(self) -> "Table":
        """The same answers in every group, each with the next subject: nobody knows these."""
        f = self.f.copy()
        for group in np.unique(self.groups):
            f[self.groups == group] = np.roll(self.f[self.groups == group], 1)
        return Table(f, self.groups, self.K)

    def part(self, which: Bool[np.ndarray, "n"]) -> "Table":
        return Table(self.f[which], self.groups[which], self.K)


def plain_bits(table: Table, scores: Float[np.ndarray, "n K"]) -> Float[np.ndarray, "n"]:
    """-log2 p of each answer among those of its group, with scores as logits; nothing is fitted."""
    return _code(table, np.where(table.counts > 0, scores, -np.inf))


def fitted_bits(
    table: Table, scores: Float[np.ndarray, "n K"], half: Bool[np.ndarray, "n"], *, own: bool = False
) -> Float[np.ndarray, "n"]:
    """-log2 p of each answer, where p is proportional to n_a^c exp(a z - b mean z): scores at a temperature, less what
    they say of any subject, times how often the answer comes. The three numbers are fitted on the other half of the
    facts; with ``own`` on the same half, which is to choose by and not to judge by."""
    allowed, found = table.counts > 0, np.empty(len(table.f))
    spread = scores[allowed].std() or 1.0
    z = (scores - scores.mean(1, keepdims=True)) / spread
    for side in (False, True):
        judged = half == side
        fitting = judged if own else ~judged
        mean = z[fitting].mean(0) if fitting.any() else np.zeros(table.K)
        features = np.stack([z, np.broadcast_to(mean, z.shape), np.log(np.maximum(table.counts, 1))], axis=2)
        weights = _fit(features[fitting], allowed[fitting], table.f[fitting])
        logits = np.where(allowed, features @ weights, -np.inf)
        found[judged] = _code(table.part(judged), logits[judged])
    return found


def _code(table: Table, logits: Float[np.ndarray, "n K"]) -> Float[np.ndarray, "n"]:
    if not len(table.f):
        return np.empty(0)
    return np.asarray(-log_softmax(logits, axis=1)[np.arange(len(table.f)), table.f] / np.log(2))


def _fit(features: np.ndarray, allowed: np.ndarray, f: np.ndarray) -> Float[np.ndarray, "3"]:
    """The weights of the largest likelihood, with a weak pull towards `NOTHING`."""
    rows = np.arange(len(f))

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        pull = weights - NOTHING
        total, slope = RIDGE * pull @ pull, 2 * RIDGE * pull
        if len(f):
            log_p = log_softmax(np.where(allowed, features @ weights, -np.inf), axis=1)
            total -= log_p[rows, f].sum()
            slope = slope + np.einsum("nk,nkj->j", np.exp(log_p), features) - features[rows, f].sum(0)
        return float(total), slope

    return np.asarray(minimize(loss, NOTHING, jac=True, method="L-BFGS-B").x)


@dataclass(frozen=True, eq=False)
class Recall:
    """What the best answers alone save: the wrong ones are listed, and then assigned."""

    right: Bool[np.ndarray, "n"]
    shares: Float[np.ndarray, "n"]  # bits that each fact saves, the list of wrong ones left out

    @property
    def bits(self) -> float:
        return float(self.shares.sum() - listing(len(self.right), (~self.right).sum()))


def recall_bits(table: Table, scores: Float[np.ndarray, "n K"]) -> Recall:
    """log2(n! / prod n_a!), less the same of the wrong facts alone, less the list of these: a constant answer saves
    nothing, as what it gets right is as long in the list. It is what Fano's inequality counts, without its slack."""
    right = np.where(table.counts > 0, scores, -np.inf).argmax(1) == table.f
    shares = table.assignment
    shares[~right] -= table.part(~right).assignment
    return Recall(right, shares)


def listing(n: float | np.ndarray, wrong: float | np.ndarray) -> np.ndarray:
    """log2 of the number of ways in which so many of n facts are wrong, and of the numbers that it may be."""
    n, wrong = np.asarray(n, float), np.asarray(wrong, float)
    ways = gammaln(n + 1) - gammaln(wrong + 1) - gammaln(n - wrong + 1)
    return np.asarray(ways / np.log(2) + np.log2(n + 1))


def numbered(names: Sequence[str]) -> tuple[Int[np.ndarray, "n"], list[str]]:
    """Names as numbers from 0, in the order in which they first come, and the names."""
    found = {name: i for i, name in enumerate(dict.fromkeys(names))}
    return np.array([found[name] for name in names], int), list(found)

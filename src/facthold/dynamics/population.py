"""The population of prompts as a weighted list of token counts: exact where it can be, and it says which.

Three ways to the same expectation E over z_{1:T}:

- *pooled*: one prompt a fact, all noise in one column. Exact at any T and any number of noise tokens, for weights that
  are the same for every noise token. Gradient flow from such weights keeps them so, since noise tokens are drawn alike.
- *enumerated*: every multiset of noise with its probability. Exact for all weights, and possible for small T alone.
- *sampled*: prompts with noise drawn once. `Population.error` states what that leaves open.
"""

import math
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray
from scipy.special import gammaln

from facthold._util.errors import check_memory, check_positive, unknown
from facthold.facts.prompts import check_distribution, check_length, uniform
from facthold.facts.table import FactTable
from facthold.memory.embeddings import host_generator

WAYS = ("pooled", "enumerated", "sampled")
MOST_PROMPTS = 1 << 20
"""Prompts that are enumerated or sampled at most."""
KINDS = ("subject", "relation", "noise", "EOS")


@dataclass(frozen=True, eq=False)
class Population:
    """Prompts with their probabilities. Columns: subjects, relations, noise, EOS."""

    table: FactTable
    counts: Float[np.ndarray, "n tokens"]
    weights: Float[np.ndarray, " n"]
    facts: Int[np.ndarray, " n"]
    """The row of the table that each prompt asks for."""
    T: int
    n_noise: int
    way: str

    @property
    def mobility(self) -> Float[np.ndarray, " tokens"]:
        """By what a gradient is multiplied: a pooled column gathers the gradients of all noise tokens, and each of
        them moves by its own share."""
        alone = np.ones(self.counts.shape[1])
        alone[self.columns("noise")] = 1 / self.n_noise if self.way == "pooled" else 1.0
        return alone

    def columns(self, kind: str) -> slice:
        """The columns of one kind of token."""
        S, R, last = self.table.S, self.table.R, self.counts.shape[1] - 1
        return dict(zip(KINDS, (slice(S), slice(S, S + R), slice(S + R, last), slice(last, None)), strict=True))[kind]

    @property
    def answers(self) -> Int[np.ndarray, " n"]:
        return self.table.answers[self.facts]

    def given(self, kind: str) -> Float[np.ndarray, "n A"]:
        """p*(a | r) or p*(a | s), as ``kind`` says, for the relation or the subject of each prompt."""
        of = {"relation": self.table.relations, "subject": self.table.subjects}[kind]
        p = np.bincount(self.facts, self.weights, minlength=len(self.table))
        return self.table.given(kind, p)[of[self.facts]]

    def error(self, losses: Float[np.ndarray, " n"]) -> float:
        """The standard error of the mean loss that sampling leaves: 0 where the population is exact.

        Facts are taken in their right shares and noise is drawn for each, so that only the spread within a fact counts.
        """
        if self.way != "sampled":
            return 0.0
        shares = np.bincount(self.facts, self.weights)
        n, mean = np.bincount(self.facts), np.bincount(self.facts, losses)
        centred = losses - (mean / np.maximum(n, 1))[self.facts]
        variance = np.bincount(self.facts, centred**2) / np.maximum(n - 1, 1)
        return float(np.sqrt((shares**2 * variance / np.maximum(n, 1)).sum()))

    @property
    def says(self) -> str:
        """How exact this population is, in words."""
        n = len(self.counts)
        return {
            "pooled": f"exact: one prompt for each of {n} facts, as all noise tokens have the same weights",
            "enumerated": f"exact: all {n} prompts that differ, with their probabilities",
            "sampled": f"sampled: {n} prompts, with the standard error stated",
        }[self.way]


def population(
    table: FactTable,
    *,
    T: int,
    n_noise: int,
    p: np.ndarray | None = None,
    way: str = "pooled",
    draws: int = 64,
    key: PRNGKeyArray | None = None,
) -> Population:
    """The population of prompts over ``table``. ``draws`` prompts a fact, and a ``key``, where it is sampled."""
    if way not in WAYS:
        raise unknown("way", way, WAYS)
    check_length(T)
    check_positive(n_noise=n_noise)
    share = uniform(table) if p is None else check_distribution(p, table)
    if way == "pooled":
        noise, chance = np.full((1, 1), T - 3.0), np.ones(1)
    elif way == "enumerated":
        noise, chance = _all_noise(T - 3, n_noise, len(table))
    else:
        if key is None:
            raise ValueError("a sampled population needs a key")
        check_positive(draws=draws)
        if draws < 2:
            raise ValueError(f"draws={draws} leaves no spread to take an error from; take draws >= 2")
        _check_size(len(table) * draws, "draws", draws)
        drawn = host_generator(key).multinomial(T - 3, np.full(n_noise, 1 / n_noise), (len(table), draws))
        return _assemble(table, drawn.astype(float), np.repeat(share[:, None] / draws, draws, 1), T, n_noise, way)
    each = np.broadcast_to(noise, (len(table), *noise.shape))
    return _assemble(table, each, share[:, None] * chance, T, n_noise, way)


def _assemble(table: FactTable, noise: np.ndarray, weights: np.ndarray, T: int, n_noise: int, way: str) -> Population:
    """Prompts of ``noise`` (facts, prompts a fact, noise columns), each with its fact's subject and relation."""
    n_facts, each, columns = noise.shape
    S, R = table.S, table.R
    check_memory("the token counts", n_facts * each * (S + R + columns + 1) * 8)
    facts = np.repeat(np.arange(n_facts), each)
    counts = np.zeros((len(facts), S + R + columns + 1))
    counts[np.arange(len(facts)), table.subjects[facts]] = 1
    counts[np.arange(len(facts)), S + table.relations[facts]] = 1
    counts[:, S + R : -1] = noise.reshape(len(facts), columns)
    counts[:, -1] = 1
    return Population(table, counts, weights.reshape(-1), facts, T, n_noise, way)


def _all_noise(length: int, n_noise: int, n_facts: int) -> tuple[np.ndarray, np.ndarray]:
    """Every multiset of ``length`` noise tokens as counts, and its probability."""
    n = math.comb(length + n_noise - 1, length)
    _check_size(n * n_facts, "T", length + 3)
    rows = np.array(list(combinations_with_replacement(range(n_noise), length)), int).reshape(n, length)
    counts = np.stack([np.bincount(row, minlength=n_noise) for row in rows]).astype(float)
    log_ways = gammaln(length + 1) - gammaln(counts + 1).sum(axis=1)
    return counts, np.exp(log_ways - length * math.log(n_noise))


def _check_size(n: int, name: str, value: int) -> None:
    if n > MOST_PROMPTS:
        says = str(n) if n < 10**15 else f"more than 2^{n.bit_length() - 1}"
        raise ValueError(
            f"{name}={value} makes {says} prompts, and at most {MOST_PROMPTS} are held; take a smaller {name}, "
            "or way='pooled', which is exact where all noise tokens have the same weights"
        )

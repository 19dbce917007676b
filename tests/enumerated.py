"""An oracle for the population: every multiset of noise with its probability, for all weights and any p(s, r)."""

import math
from itertools import combinations_with_replacement

import numpy as np
from scipy.special import gammaln

from facthold.dynamics.population import Population
from facthold.facts.problem import uniform
from facthold.facts.table import FactTable


def enumerated(table: FactTable, *, T: int, n_noise: int, p: np.ndarray | None = None) -> Population:
    """The prompts over ``table`` that differ, each noise token in a column of its own. For small T."""
    length, first = T - 3, table.S + table.R
    rows = np.array(list(combinations_with_replacement(range(n_noise), length)), int).reshape(-1, length)
    noise = np.stack([np.bincount(row, minlength=n_noise) for row in rows]).astype(float)
    log_ways = gammaln(length + 1) - gammaln(noise + 1).sum(axis=1)
    chance = np.exp(log_ways - length * math.log(n_noise))
    facts = np.repeat(np.arange(len(table)), len(noise))
    counts = np.zeros((len(facts), first + n_noise + 1))
    counts[np.arange(len(facts)), table.subjects[facts]] = 1
    counts[np.arange(len(facts)), table.S + table.relations[facts]] = 1
    counts[:, first:-1], counts[:, -1] = np.tile(noise, (len(table), 1)), 1
    share = uniform(table) if p is None else p
    return Population(table, counts, (share[:, None] * chance).reshape(-1), facts, np.ones(first + n_noise + 1))

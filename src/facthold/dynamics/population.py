"""The population of prompts as a weighted list of token counts: the expectation E over z_{1:T}, exactly.

One prompt per fact, with all noise in one column: for any T and any number of noise tokens, as long as they all have
the same weights. Gradient flow from such weights keeps them so, since noise tokens are drawn alike.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from facthold._util.errors import check_memory, check_positive
from facthold.facts.prompts import check_length, uniform
from facthold.facts.table import FactTable

KINDS = ("subject", "relation", "noise", "EOS")


@dataclass(frozen=True, eq=False)
class Population:
    """Prompts with their probabilities. Columns: subjects, relations, noise, EOS."""

    table: FactTable
    counts: Float[np.ndarray, "n tokens"]
    weights: Float[np.ndarray, " n"]
    facts: Int[np.ndarray, " n"]  # the row of the table that each prompt asks for
    mobility: Float[np.ndarray, " tokens"]
    """By what a gradient is multiplied: the column of noise gathers the gradients of all noise tokens, and each of them
    moves by its own share."""

    def columns(self, kind: str) -> slice:
        """The columns of one kind of token."""
        S, R, last = self.table.S, self.table.R, self.counts.shape[1] - 1
        return dict(zip(KINDS, (slice(S), slice(S, S + R), slice(S + R, last), slice(last, None)), strict=True))[kind]

    @property
    def answers(self) -> Int[np.ndarray, " n"]:
        return self.table.answers[self.facts]


def population(table: FactTable, *, T: int, n_noise: int) -> Population:
    """The population of prompts over ``table``; p(s, r) is uniform."""
    check_length(T)
    check_positive(n_noise=n_noise)
    n, first = len(table), table.S + table.R
    check_memory("the token counts", n * (first + 2) * 8)
    facts, counts, mobility = np.arange(n), np.zeros((n, first + 2)), np.ones(first + 2)
    counts[facts, table.subjects] = counts[facts, table.S + table.relations] = 1
    counts[:, first:] = T - 3, 1
    mobility[first] = 1 / n_noise
    return Population(table, counts, uniform(table), facts, mobility)

"""Does a stored result claim more than its bits can hold? The counting bound.

A learner that writes B bits serves at most 2^B tables, each with all tables within its errors. So of random tables all
but a share 2^-SLACK have

    bits used + log2(variants and seeds tried) + SLACK >= log2(tables) - log2(tables within the errors).

What counts as bits stands in ``docs/limits.md``: 32 for each weight where nothing was rounded, biases among them.
A result on tables that were not drawn at random has no such bound. Each kind of cell says itself which models of a
result count (`Cell.accounts`).
"""

import math
from dataclasses import dataclass

from facthold.theory.limits_facts import allowed_errors, counting_bound

SLACK = 20.0  # bits: one random table in a million may break the bound
FLOAT_BITS = 32


@dataclass(frozen=True)
class Account:
    """One model that was stored with its recall."""

    facts: int
    D: int  # answers, all equally likely, that each fact chose from
    wrong: int
    bits: float
    tried: int = 1  # models that were made or asked before this one was chosen, over seeds and sizes

    @property
    def bound(self) -> float:
        return counting_bound(self.facts, 1, self.D, self.wrong)

    @property
    def spare(self) -> float:
        """Bits above the bound; negative where a result is too good to be true."""
        return self.bits + math.log2(max(1, self.tried)) + SLACK - self.bound


def of_accuracy(facts: int, D: int, accuracy: float, weights: int, tried: int = 1) -> Account:
    """A model of so many float32 weights that recalls this share."""
    return Account(facts, D, round((1 - accuracy) * facts), FLOAT_BITS * weights, tried)


def of_goal(facts: int, D: int, goal: float, weights: int, tried: int = 1) -> Account:
    """A model of so many float32 weights that was found to reach a goal."""
    return Account(facts, D, allowed_errors(goal, facts), FLOAT_BITS * weights, tried)

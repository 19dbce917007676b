"""How many bits a model takes, and how many of them are used."""

import equinox as eqx
import jax
import numpy as np
from scipy.special import gammaln

from facthold.facts.table import FactTable
from facthold.measure.recall import accuracy
from facthold.memory.associations import Problem
from facthold.models.memory import Memory
from facthold.theory.bounds import bits_uniform


def parameters_bits(model: eqx.Module, bits_per_weight: int | float | None = None) -> float:
    """Bits of all weights of a model: those of its number format, or ``bits_per_weight`` for each."""
    if bits_per_weight is not None and not bits_per_weight > 0:
        raise ValueError(f"bits_per_weight={bits_per_weight} must be positive; leave it out for the number format's")
    weights = jax.tree.leaves(eqx.filter(model, eqx.is_array))
    return float(sum(w.size * (8 * w.dtype.itemsize if bits_per_weight is None else bits_per_weight) for w in weights))


def recalled_bits(memory: Memory, problem: Problem) -> float:
    """Bits that any model needs for this memory's accuracy on a uniformly random map: none at chance."""
    return bits_uniform(problem.N, problem.M, accuracy(memory, problem))


def bits_per_parameter(memory: Memory, problem: Problem) -> float:
    """Recalled bits for each weight of the memory, the embeddings left out."""
    return recalled_bits(memory, problem) / memory.n_params


def table_bits(table: FactTable, recall: float = 1.0) -> float:
    """Bits that tell a table from all others that give each relation the same answers, each as often.

    For a relation with N facts and answer counts C there are N! / prod C! such tables. Facts with several right answers
    are left out: a model may give all of them the same one. With w wrong answers allowed a model serves all tables that
    differ from what it says in at most w facts, of which there are no more than (w + 1) binom(N, w) (A - 1)^w.
    """
    single = np.ones(len(table), bool)
    single[table.also[:, 0]] = False
    total, most = 0.0, 1
    for r in range(table.R):
        counts = np.bincount(table.answers[single & (table.relations == r)])
        total += gammaln(counts.sum() + 1) - gammaln(counts + 1).sum()
        most = max(most, int((counts > 0).sum()))
    N, wrong = int(single.sum()), min(int(single.sum()), round((1 - recall) * len(table)))
    if wrong:
        balls = gammaln(N + 1) - gammaln(wrong + 1) - gammaln(N - wrong + 1)
        total -= balls + wrong * np.log(max(1, most - 1)) + np.log(wrong + 1)
    return max(0.0, float(total / np.log(2)))

"""How many bits a model takes, and how many a table needs."""

import equinox as eqx
import jax
import numpy as np
from scipy.special import gammaln

from facthold.facts.table import FactTable


def parameters_bits(model: eqx.Module) -> float:
    """Bits of all weights of a model, in their number format."""
    return float(sum(8 * w.nbytes for w in jax.tree.leaves(eqx.filter(model, eqx.is_array))))


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


def constant_recall(table: FactTable) -> float:
    """The share of facts that is right where each relation has one answer, always the same; that needs no bits."""
    right = np.concatenate([np.column_stack([np.arange(len(table)), table.answers]), table.also])
    pairs, times = np.unique(np.column_stack([table.relations[right[:, 0]], right[:, 1]]), axis=0, return_counts=True)
    return float(sum(times[pairs[:, 0] == r].max() for r in np.unique(pairs[:, 0])) / len(table))

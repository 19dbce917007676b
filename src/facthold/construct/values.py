"""Beyond the paper: attention that selects, with values that are solved for.

Each head serves as many tokens as it has dimensions, so that the vector u_z that it adds for a token z is free. The
answer to (s, r) is then read from u_s + u_r, which is linear in the unknowns: least squares in closed form, or a
convex problem. Nothing is trained through the attention.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float, Int

from facthold._util.errors import check_one_of, check_positive
from facthold._util.padding import pad_rows, padded
from facthold.construct.attention import assemble, check_dimension
from facthold.construct.heads import asked_tokens, partition, reading_rows, separating_keys
from facthold.construct.readout import RIDGE, ridge_readout, whiten
from facthold.construct.solve import Wanted, cross_entropy, enough_for_margin, minimise, wanted
from facthold.construct.sums import check_sums
from facthold.facts.problem import FactualRecall
from facthold.models.transformer import Transformer

SOLVES = ("convex", "ridge")
ITERATIONS = 600  # steps of a convex solve at most
MARGIN = 3.0  # a solve ends where every fact surely has this margin: its probability is then 0.95 or more


class Parts(NamedTuple):
    """Which two unknowns add up to each fact: rows of u, subjects first."""

    s: Int[np.ndarray, " facts"]
    r: Int[np.ndarray, " facts"]


def solved_values(problem: FactualRecall, d_h: int = 1, *, how: str = "convex") -> Transformer:
    """H = ceil(S / d_h) + ceil(R / d_h) heads that select one token per dimension, and the best values for them.

    ``how``: 'convex' (least cross entropy) or 'ridge' (least squares onto the one-hot answers). The latter adds up
    how often s and how often r have an answer, so that a frequent answer of r can win at any d. A table that no sums
    hold at any size is refused (`construct.sums`).
    """
    check_dimension(problem)
    check_positive(d_h=d_h)
    check_one_of("solve of the values", how, SOLVES)
    if d_h >= problem.d:
        raise ValueError(f"d_h={d_h} tokens and EOS cannot be told apart in d={problem.d}; take d_h < d")
    check_sums(problem.table)
    subsets = partition(problem, d_h)
    u = solve_values(problem, how)
    tokens = np.concatenate(asked_tokens(problem))
    W_O = np.zeros((len(subsets), d_h, problem.d))
    for i, subset in enumerate(subsets):
        W_O[i, : len(subset)] = u[np.searchsorted(tokens, subset)]
    W_V = np.stack([reading_rows(problem, subset, np.eye(len(subset), d_h)) for subset in subsets])
    return assemble(problem, subsets, separating_keys(problem, subsets), W_V, W_O, H=len(subsets))


def solve_values(problem: FactualRecall, how: str) -> Float[np.ndarray, "asked d"]:
    """u_z for each subject and relation that is asked."""
    subjects, relations = asked_tokens(problem)
    table, U = problem.table, problem.U.astype(np.float64)
    s = np.searchsorted(subjects, table.subjects)
    r = len(subjects) + np.searchsorted(relations, table.S + table.relations)
    n = len(subjects) + len(relations)
    if how == "ridge":
        X = np.zeros((len(s), n))
        X[np.arange(len(s)), s] = X[np.arange(len(s)), r] = 1
        return ridge_readout(X, U, U[table.answers], RIDGE)
    white, unwhiten = whiten(U)
    rows = padded(len(table))
    parts = Parts(pad_rows(s, rows), pad_rows(r, rows))
    args = (parts, pad_rows(white, padded(len(U))), wanted(table.answers, len(U)))
    enough = enough_for_margin(MARGIN, len(table))
    start = np.zeros((n, white.shape[1]))
    return minimise(_loss, start, args, max_iterations=ITERATIONS, enough=enough) @ unwhiten.T


def _loss(u: Array, parts: Parts, U: Array, answers: Wanted) -> Array:
    return cross_entropy((u[parts.s] + u[parts.r]) @ U.T, answers)

"""Beyond the paper: attention that selects, with values or an MLP that are solved for.

Theorem 4 spends ceil(d / d_h) heads on each subset of tokens, and an MLP with the constants of random features. In
`selecting_attention` each head has coordinates of its own, so that H d_h = d is enough, and writes a code for the token
that it selects. The MLP is any memory of section 3 for the associations from the two codes to the answer.

In `solved_values` each head serves as many tokens as it has dimensions, so that the vector u_z that it adds for a token
z is free. The answer to (s, r) is then read from u_s + u_r, which is linear in the unknowns: least squares in closed
form, or a convex problem. Nothing is trained through the attention.
"""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from facthold._util.errors import check_one_of, check_positive
from facthold._util.keys import fold
from facthold.construct import attention
from facthold.construct.attention import RESIDUAL, assemble, check_dimension, reading_rows, separating_keys
from facthold.construct.readout import RIDGE, convex, layerwise, ridge, ridge_readout, whiten
from facthold.construct.solve import Wanted, cross_entropy, least_cross_entropy
from facthold.facts.problem import FactualRecall
from facthold.memory.associations import Problem
from facthold.memory.embeddings import host_generator
from facthold.models.memory import MLPMemory
from facthold.models.transformer import Transformer

ITERATIONS = 600  # steps of a convex solve at most
MARGIN = 3.0  # a solve ends where every fact surely has this margin: its probability is then 0.95 or more
READOUTS: dict[str, Callable[..., MLPMemory]] = {"ridge": ridge, "convex": convex, "layerwise": layerwise}


def selecting_attention(
    problem: FactualRecall, m: int, *, key: PRNGKeyArray, d_h: int | None = None, how: str = "layerwise"
) -> Transformer:
    """H = d / d_h heads that write a code for s and one for r, and an MLP memory from both to the answer.

    The fewer tokens a head serves, the easier they are to select: without d_h it is 1, or 2 where a head would have
    more than two tokens to write. ``how`` names the solve of the MLP: 'layerwise' (or the convex readout, where that
    recalls more), 'convex' or 'ridge'.
    """
    check_dimension(problem, m)
    if d_h is None:
        d_h = 1 if max(map(len, attention.partition_into(problem, problem.d))) <= 2 else 2
    check_positive(d_h=d_h)
    check_one_of("solve of the MLP", how, READOUTS)
    if problem.d < 2 * d_h:
        raise ValueError(f"d={problem.d} has no room for two heads of d_h={d_h}; take d >= {2 * d_h}")
    H = problem.d // d_h
    subsets = attention.partition_into(problem, H)
    written = [codes(len(tokens), d_h, key=fold(key, "codes", i)) for i, tokens in enumerate(subsets)]
    W_V = np.stack([reading_rows(problem, tokens, code) for tokens, code in zip(subsets, written, strict=True)])
    W_O = np.eye(len(subsets) * d_h, problem.d).reshape(len(subsets), d_h, problem.d)
    table, x = problem.table, np.zeros((problem.n_tokens, problem.d))
    for tokens, code, rows in zip(subsets, written, W_O, strict=True):
        x[tokens] = code @ rows
    E = x[table.subjects] + x[table.S + table.relations]  # what the MLP reads: the sum of the codes of s and of r
    associations = Problem(jnp.asarray(E, jnp.float32), jnp.asarray(problem.U), jnp.asarray(table.answers))
    mlp = _memory(associations, m, how, fold(key, "MLP"))
    mlp = eqx.tree_at(lambda mlp: mlp.W, mlp, mlp.W / RESIDUAL)
    return assemble(problem, subsets, separating_keys(problem, subsets), W_V, RESIDUAL * W_O, H=H, mlp=mlp)


def _memory(associations: Problem, m: int, how: str, key: PRNGKeyArray) -> MLPMemory:
    """The MLP by ``how``. 'layerwise' starts from what is linear in the codes; where that says nothing of the answer
    (s + r mod 2, say) it cannot recover, and the convex readout on random features may recall more."""
    memory = READOUTS[how](associations, m, key=key)
    if how != "layerwise" or (right := _right(memory, associations)) == associations.N:
        return memory
    other = convex(associations, m, key=key)
    return other if _right(other, associations) > right else memory


def _right(memory: MLPMemory, associations: Problem) -> int:
    """How many arg max are right. The solve has held these scores too."""
    E, U, f = (np.asarray(array) for array in (associations.E, associations.U, associations.f))
    hidden = memory.sigma(E @ np.asarray(memory.W).T)
    return int((np.argmax(hidden @ np.asarray(memory.V) @ U.T, axis=1) == f).sum())


def codes(n: int, d_h: int, *, key: PRNGKeyArray) -> Float[np.ndarray, "n d_h"]:
    """n unit vectors that an MLP without bias can tell apart: evenly on the circle, or axes, or random.

    In one dimension there are only two, 1 and -1: a longer one would be the same direction.
    """
    if n <= d_h:
        return np.eye(n, d_h)
    if d_h == 1:
        if n > 2:
            raise ValueError(f"d_h=1 has two directions, and a head serves {n} tokens; take d_h >= 2, or a larger d")
        return np.array([[1.0], [-1.0]])
    if d_h == 2:
        angle = 2 * np.pi * np.arange(n) / n
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)
    x = host_generator(key).standard_normal((n, d_h))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def solved_values(problem: FactualRecall, d_h: int = 1, *, how: str = "convex") -> Transformer:
    """H = ceil(S / d_h) + ceil(R / d_h) heads that select one token per dimension, and the best values for them.

    ``how``: 'convex' (least cross entropy) or 'ridge' (least squares onto the one-hot answers). The latter adds up
    how often s and how often r have an answer, so that a frequent answer of r can win at any d. Of a table that no sums
    hold at any size (`construct.sums`) it recalls a part.
    """
    check_dimension(problem)
    check_positive(d_h=d_h)
    check_one_of("solve of the values", how, ("convex", "ridge"))
    if d_h >= problem.d:
        raise ValueError(f"d_h={d_h} tokens and EOS cannot be told apart in d={problem.d}; take d_h < d")
    subsets = attention.partition(problem, d_h)
    u = solve_values(problem, how)
    tokens = np.concatenate(attention.asked_tokens(problem))
    W_O = np.zeros((len(subsets), d_h, problem.d))
    for i, subset in enumerate(subsets):
        W_O[i, : len(subset)] = u[np.searchsorted(tokens, subset)]
    W_V = np.stack([reading_rows(problem, subset, np.eye(len(subset), d_h)) for subset in subsets])
    return assemble(problem, subsets, separating_keys(problem, subsets), W_V, W_O, H=len(subsets))


def solve_values(problem: FactualRecall, how: str) -> Float[np.ndarray, "asked d"]:
    """u_z for each subject and relation that is asked."""
    subjects, relations = attention.asked_tokens(problem)
    table, U = problem.table, problem.U.astype(np.float64)
    s = np.searchsorted(subjects, table.subjects)
    r = len(subjects) + np.searchsorted(relations, table.S + table.relations)
    n = len(subjects) + len(relations)
    if how == "ridge":
        X = np.zeros((len(s), n))
        X[np.arange(len(s)), s] = X[np.arange(len(s)), r] = 1
        return ridge_readout(X, U, U[table.answers], RIDGE)
    white, unwhiten = whiten(U)
    start, sides = np.zeros((n, white.shape[1])), (s, r)
    u = least_cross_entropy(_loss, start, white, table.answers, sides, margin=MARGIN, steps=ITERATIONS)
    return u @ unwhiten.T


def _loss(u: Array, answers: Wanted, U: Array, s: Array, r: Array) -> Array:
    return cross_entropy((u[s] + u[r]) @ U.T, answers)

"""Beyond the paper: attention selects, an MLP found by one convex solve per layer recalls.

Theorem 4 spends ceil(d / d_h) heads on each subset of tokens, and an MLP with the constants of random features. Here
each head has coordinates of its own, so that H d_h = d is enough, and writes a code for the token that it selects.
The MLP is any memory of section 3 for the associations from the two codes to the answer.
"""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from facthold._util.errors import check_one_of, check_positive
from facthold._util.keys import fold
from facthold.construct.attention import RESIDUAL, assemble, check_dimension
from facthold.construct.heads import Tokens, partition_into, reading_rows, separating_keys
from facthold.construct.readout import convex, layerwise, ridge
from facthold.facts.problem import FactualRecall
from facthold.memory.associations import Problem
from facthold.memory.embeddings import host_generator
from facthold.models.memory import MLPMemory
from facthold.models.transformer import Transformer

READOUTS: dict[str, Callable[..., MLPMemory]] = {"ridge": ridge, "convex": convex, "layerwise": layerwise}


def selecting_attention(
    problem: FactualRecall, m: int, *, key: PRNGKeyArray, d_h: int | None = None, how: str = "layerwise"
) -> Transformer:
    """H = d / d_h heads that write a code for s and one for r, and an MLP memory from both to the answer.

    The fewer tokens a head serves, the easier they are to select: without d_h it is 1, or 2 where a head would have
    more than two tokens to write. ``how`` names the solve of the MLP: 'layerwise' (or the convex readout, where that
    recalls more), 'convex' or 'ridge'.
    """
    check_dimension(problem)
    if d_h is None:
        d_h = 1 if max(map(len, partition_into(problem, problem.d))) <= 2 else 2
    check_positive(d_h=d_h)
    check_one_of("solve of the MLP", how, READOUTS)
    if m < 1:
        raise ValueError(f"m={m}: the facts are in the MLP, which needs a width of at least 1")
    if problem.d < 2 * d_h:
        raise ValueError(f"d={problem.d} has no room for two heads of d_h={d_h}; take d >= {2 * d_h}")
    H = problem.d // d_h
    subsets = partition_into(problem, H)
    written = [codes(len(tokens), d_h, key=fold(key, "codes", i)) for i, tokens in enumerate(subsets)]
    W_V = np.stack([reading_rows(problem, tokens, code) for tokens, code in zip(subsets, written, strict=True)])
    W_O = np.eye(len(subsets) * d_h, problem.d).reshape(len(subsets), d_h, problem.d)
    mlp = _memory(_associations(problem, subsets, written, W_O), m, how, fold(key, "MLP"))
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


def _associations(
    problem: FactualRecall, subsets: list[Tokens], written: list[np.ndarray], W_O: Float[np.ndarray, "H d_h d"]
) -> Problem:
    """What the MLP has to store: an input for each fact, the sum of the codes of s and of r."""
    table = problem.table
    x = np.zeros((table.S + table.R, problem.d))
    for tokens, code, rows in zip(subsets, written, W_O, strict=True):
        x[tokens] = code @ rows
    E = x[table.subjects] + x[table.S + table.relations]
    return Problem(jnp.asarray(E, jnp.float32), jnp.asarray(problem.U), jnp.asarray(table.answers))

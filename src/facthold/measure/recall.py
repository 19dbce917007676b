"""Does the memory recall what it should: arg-max accuracy and margins."""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from facthold._util.padding import pad_rows, padded
from facthold.memory.associations import Problem
from facthold.models.memory import Memory

BLOCK_ENTRIES = 1 << 24  # scores held at once (64 MiB in float32): N x M of them do not fit in memory for large N


def recalled(memory: Memory, problem: Problem) -> Bool[Array, " N"]:
    """Which associations the arg max gets right.

    A score that is not finite, or that another output shares to the last bit, is not recall: the zero
    memory, for which all scores are equal, recalls nothing.
    """
    return _by_rows(_recalled_rows, memory, problem)


def accuracy(memory: Memory, problem: Problem) -> float:
    """The share of associations that are recalled."""
    return float(np.asarray(recalled(memory, problem)).mean())


def smallest_margins(memory: Memory, problem: Problem) -> Float[Array, " N"]:
    """min_y gamma_xy for each x: positive exactly where x is recalled."""
    return _by_rows(_margin_rows, memory, problem)


def margins(memory: Memory, problem: Problem) -> Float[Array, "N M"]:
    """gamma_xy = (u_{f*(x)} - u_y)^T F(e_x), the margins of theorem 1's proof; zero at y = f*(x)."""
    scores = memory.logits(problem.E, problem.U)
    return jnp.take_along_axis(scores, problem.f[:, None], axis=1) - scores


def exact_recall(memory: Memory, problem: Problem) -> float:
    """Share of inputs whose output has the signs of its target in every coordinate.

    This is recall of the exact vector, as Hopfield networks ask for it: no dictionary of outputs helps.
    """
    return float(np.asarray(_by_rows(_exact_rows, memory, problem)).mean())


def _by_rows(measure: Callable[..., Array], memory: Memory, problem: Problem) -> Array:
    """Apply ``measure(memory, E, U, f, offered)`` to blocks of inputs that fit in memory.

    All is padded to a grid of sizes; ``offered`` marks the true outputs.
    """
    outputs = padded(problem.M)
    U, offered = pad_rows(problem.U, outputs), np.arange(outputs) < problem.M
    block = min(padded(problem.N), max(1, BLOCK_ENTRIES // outputs))
    E, f = np.asarray(problem.E), np.asarray(problem.f)
    results = [
        np.asarray(measure(memory, pad_rows(E[i : i + block], block), U, pad_rows(f[i : i + block], block), offered))
        for i in range(0, problem.N, block)
    ]
    return jnp.asarray(np.concatenate(results)[: problem.N])


@eqx.filter_jit
def _recalled_rows(memory: Memory, E: Array, U: Array, f: Array, offered: Array) -> Array:
    return right(_scores(memory, E, U, offered), f)


@eqx.filter_jit
def _margin_rows(memory: Memory, E: Array, U: Array, f: Array, offered: Array) -> Array:
    scores = _scores(memory, E, U, offered)
    target = jnp.take_along_axis(scores, f[:, None], axis=1)
    others = jnp.where(jnp.arange(U.shape[0]) == f[:, None], -jnp.inf, scores)
    return (target - others.max(axis=1, keepdims=True))[:, 0]


@eqx.filter_jit
def _exact_rows(memory: Memory, E: Array, U: Array, f: Array, offered: Array) -> Array:
    return (jnp.sign(memory(E)) == jnp.sign(U[f])).all(axis=1)


def _scores(memory: Memory, E: Array, U: Array, offered: Array) -> Array:
    return jnp.where(offered, memory.logits(E, U), -jnp.inf)


def right(scores: Float[Array, "n M"], target: Int[Array, " n"]) -> Bool[Array, " n"]:
    """Rows whose target score is finite and above every other: exactly one score is as large as it."""
    at_target = jnp.take_along_axis(scores, target[:, None], axis=1)
    return jnp.isfinite(at_target[:, 0]) & ((~(scores < at_target)).sum(axis=1) == 1)

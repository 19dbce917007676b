"""Does the memory recall what it should: arg-max accuracy and margins."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from facthold.associations import Problem
from facthold.models.memory import Memory

BLOCK_ENTRIES = 1 << 24
"""Scores held at once (64 MiB in float32): N x M of them do not fit in memory for large N."""


def decode(memory: Memory, problem: Problem) -> Int[Array, " N"]:
    """The prediction arg max_y u_y^T F(e_x) for each x."""
    return _by_rows(_decode_rows, memory, problem)


def recalled(memory: Memory, problem: Problem) -> Bool[Array, " N"]:
    """Which associations the arg max gets right.

    A score that is not finite, or that another output shares to the last bit, is not recall: the zero
    memory, for which all scores are equal, recalls nothing.
    """
    return _by_rows(_recalled_rows, memory, problem)


def accuracy(memory: Memory, problem: Problem) -> float:
    """The share of associations that are recalled."""
    return float(recalled(memory, problem).mean())


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
    For targets in {-1, +1}^d / sqrt(d) it is their exact reconstruction after taking signs.
    """
    return float((jnp.sign(memory(problem.E)) == jnp.sign(problem.targets)).all(axis=1).mean())


def _by_rows(measure, memory: Memory, problem: Problem) -> Array:  # type: ignore[no-untyped-def]
    """Apply ``measure(memory, E, U, f)`` to blocks of inputs that fit in memory."""
    block = max(1, BLOCK_ENTRIES // problem.M)
    starts = range(0, problem.N, block)
    rows = [(problem.E[i : i + block], problem.f[i : i + block]) for i in starts]
    return jnp.concatenate([measure(memory, E, problem.U, f) for E, f in rows])


@eqx.filter_jit
def _decode_rows(memory: Memory, E: Array, U: Array, f: Array) -> Array:
    return jnp.argmax(memory.logits(E, U), axis=1)


@eqx.filter_jit
def _recalled_rows(memory: Memory, E: Array, U: Array, f: Array) -> Array:
    return right(memory.logits(E, U), f)


@eqx.filter_jit
def _margin_rows(memory: Memory, E: Array, U: Array, f: Array) -> Array:
    scores = memory.logits(E, U)
    target = jnp.take_along_axis(scores, f[:, None], axis=1)
    others = jnp.where(jax.nn.one_hot(f, U.shape[0], dtype=bool), -jnp.inf, scores)
    return (target - others.max(axis=1, keepdims=True))[:, 0]


def right(scores: Float[Array, "n M"], target: Int[Array, " n"]) -> Bool[Array, " n"]:
    """Rows whose target score is finite and above every other: exactly one score is as large as it."""
    at_target = jnp.take_along_axis(scores, target[:, None], axis=1)
    return jnp.isfinite(at_target[:, 0]) & ((~(scores < at_target)).sum(axis=1) == 1)

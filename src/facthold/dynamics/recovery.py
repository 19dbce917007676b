"""A few large steps on the cross entropy of a linear memory, whose items have the frequencies of a power law.

Minus the gradient is sum_z w(z) r_z e_z^T, where w(z) is how often an item is asked for (p(z), or its share of a fresh
batch) and r_z what is left to learn of it:

- ``softmax``: u_f(z) - sum_y q(y | z) u_y, the gradient itself;
- ``threshold``: u_f(z) while z is not recalled, and then 0. Neither what else is predicted nor how surely enters.

A step moves W by a direction (`LEARNERS`) times a length. This is ``lr`` in units that are alike for all: lr is about
the standard deviation of the score u_y^T W e_z of an unrelated pair after the first step, in nats.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from facthold._util.errors import check_positive, find
from facthold._util.keys import fold
from facthold._util.padding import pad_rows, padded
from facthold.dynamics import RESIDUALS
from facthold.measure.recall import right
from facthold.memory.associations import Problem
from facthold.memory.embeddings import host_generator
from facthold.train.directions import polar, signs

DIRECTIONS: Mapping[str, Callable[[], optax.GradientTransformation]] = {
    "muon": polar, "sign": signs, "adam": optax.scale_by_adam, "sgd": optax.identity,
}  # fmt: skip
BLOCK_ENTRIES = 1 << 20  # scores held at once: 4 MiB stay in a core's cache, which is twice as fast as memory
Look = tuple[Bool[np.ndarray, " N"], Float[np.ndarray, "d d"]]  # what is recalled, and minus the gradient


class Recovered(NamedTuple):
    """What steps have made."""

    W: Float[np.ndarray, "d d"]
    recalled: Bool[np.ndarray, "steps N"]  # after each of them
    seen: Int[np.ndarray, " steps"]  # items that were in some batch so far; all of them, without batches


def recover(
    problem: Problem, p: Float[np.ndarray, " N"], optimiser: str, *, steps: int, lr: float,
    residual: str = "softmax", batch: int = 0, key: PRNGKeyArray,
) -> Recovered:  # fmt: skip
    """W after some steps from zero. ``batch``: items drawn afresh for each step; 0: all, by their frequencies."""
    check_positive(steps=steps)
    if not lr > 0:
        raise ValueError(f"lr={lr} must be above 0")
    if residual not in RESIDUALS:
        raise ValueError(f"residual={residual!r} must be one of {', '.join(RESIDUALS)}")
    direction = find("optimiser", optimiser, DIRECTIONS)()
    length = lr * unit(optimiser, p, problem.d)
    W, recalled, seen = np.zeros((problem.d, problem.d)), [], []
    draws = [_drawn(p, batch, fold(key, t)) for t in range(steps)]
    pull, state = at_zero(problem, draws[0], residual), None
    for t in range(steps):
        with jax.enable_x64(True):  # singular values of frequent and of rare items differ by more than float32 has
            gradient = jnp.asarray(-pull)
            state = direction.init(gradient) if state is None else state
            update, state = direction.update(gradient, state)
        W = W - length * np.asarray(update)
        then = draws[t + 1] if t + 1 < steps else None
        ok, pull = look(W, problem, then if residual == "softmax" else None)
        if residual == "threshold" and then is not None:
            pull = _sum(problem, then * ~ok)
        recalled.append(ok)
        seen.append(int((np.sum(draws[: t + 1], axis=0) > 0).sum()))
    return Recovered(W, np.array(recalled), np.array(seen))


def _drawn(p: Float[np.ndarray, " N"], batch: int, key: PRNGKeyArray) -> Float[np.ndarray, " N"]:
    """The share of each item in a fresh batch; in all that there is."""
    return host_generator(key).multinomial(batch, p) / batch if batch else p


def unit(optimiser: str, p: Float[np.ndarray, " N"], d: int) -> float:
    """The length of a first step that gives the scores of unrelated pairs the standard deviation 1: embeddings have
    entries of variance 1/d, and the direction sqrt(d) singular values of 1, d^2 entries of 1, or those of sum p u e^T.
    """
    lengths = {"muon": math.sqrt(d), "sgd": d / math.sqrt(float(p @ p))}
    return lengths.get(optimiser, 1.0)


def at_zero(problem: Problem, weights: Float[np.ndarray, " N"], residual: str) -> Float[np.ndarray, "d d"]:
    """Minus the gradient at W = 0, where all outputs are predicted alike and nothing is recalled: no scores needed."""
    pull = _sum(problem, weights)
    if residual == "threshold":
        return pull
    E, U, _ = problem.host(np.float64)
    return pull - np.outer(U.mean(axis=0), weights @ E)


def look(W: Float[np.ndarray, "d d"], problem: Problem, weights: Float[np.ndarray, " N"] | None = None) -> Look:
    """Which items the arg max gets right, over all outputs and with ties as wrong; minus the gradient of their cross
    entropy, where weights are given; 0 without. In blocks of items: N x M scores do not fit in memory."""
    block = min(padded(problem.N), max(1, BLOCK_ENTRIES // problem.M))
    E, f, at, found = np.asarray(problem.E), np.asarray(problem.f), jnp.asarray(W, jnp.float32), []
    pull = np.zeros_like(W)
    for i in range(0, problem.N, block):
        rows = slice(i, i + block)
        w = None if weights is None else pad_rows(weights[rows].astype(np.float32), block)
        ok, part = _rows(at, pad_rows(E[rows], block), problem.U, pad_rows(f[rows], block), w)
        found.append(np.asarray(ok))
        pull += 0 if part is None else np.asarray(part, np.float64)
    return np.concatenate(found)[: problem.N], pull


@eqx.filter_jit
def _rows(
    W: Float[Array, "d d"], E: Any, U: Float[Array, "M d"], f: Any, weights: Any,
) -> tuple[Bool[Array, " n"], Float[Array, "d d"] | None]:  # fmt: skip
    """Of n items, E (n, d), f (n,) and weights (n,) or None, in NumPy as they were padded."""
    scores = E @ W.T @ U.T
    ok = right(scores, f)
    if weights is None:
        return ok, None
    rest = U[f] - jax.nn.softmax(scores) @ U
    return ok, (weights[:, None] * rest).T @ E


def _sum(problem: Problem, weights: Float[np.ndarray, " N"]) -> Float[np.ndarray, "d d"]:
    """sum_z w(z) u_f(z) e_z^T."""
    E, _, targets = problem.host(np.float64)
    return (weights[:, None] * targets).T @ E

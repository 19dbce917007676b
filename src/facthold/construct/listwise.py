"""A criterion that asks for less than the arg max: each answer above the *mean* of its largest rivals.

An answer y = f(x) is listwise right if its score is above the mean of the largest ``share`` of its rivals', their
tail. The largest rival of all grows with ln N, and with it the d^2 / N that top-1 recall needs; the mean of a tail does
not (`theory.listwise`).

The mean of the k largest of s_y is the least t + sum_y max(0, s_y - t) / k over t. So W and one t for each input are
solved for together, in a convex problem, with max(0, .) rounded off from above: what meets it meets the criterion.
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from facthold._util.padding import pad_rows, padded
from facthold.construct.separate import START
from facthold.construct.solve import Wanted, minimise
from facthold.memory.associations import Problem
from facthold.theory.listwise import tail_size

MET, NOT_MET = "met", "not met"
ROUNDED_OFF = 0.5  # half of the width over which max(0, .) bends, beside a margin of 1
ENOUGH = 0.98  # a sum of max(0, 1 - margin)^2 at which every margin is positive
ITERATIONS = 600


@dataclass(frozen=True)
class Listwise:
    """What came out. 'met': every margin of W, over the tail's mean, is positive; 'not met': none such was found."""

    status: str
    W: Float[np.ndarray, "d d"]
    right: float  # the share of inputs whose margin is positive


def tail_margins(W: Float[np.ndarray, "d d"], problem: Problem, share: float) -> Float[np.ndarray, " N"]:
    """Each answer's score minus the mean of its largest rivals', in float64."""
    E, U, targets = problem.host(np.float64)
    Z, x = E @ W.T, np.arange(problem.N)
    scores = Z @ U.T
    scores[x, np.asarray(problem.f)] = -np.inf
    k = tail_size(share, problem.M - 1)
    tail = np.partition(scores, problem.M - k, axis=1)[:, problem.M - k :]
    return np.einsum("xd,xd->x", Z, targets) - tail.mean(axis=1)


def listwise(problem: Problem, share: float) -> Listwise:
    """W and one threshold for each input, by L-BFGS from a multiple of the outer product."""
    E, _, targets = problem.host(np.float64)
    n, M = padded(problem.N), padded(problem.M)
    W, k = START * targets.T @ E, tail_size(share, problem.M - 1)
    start = np.concatenate([W.ravel(), np.full(n, 0.5 * START)])
    answers = Wanted(pad_rows(problem.f, n), np.arange(n) < problem.N, np.arange(M) < problem.M)
    args = (answers, pad_rows(problem.E, n), pad_rows(problem.U, M), np.float64(k))
    solved = minimise(_loss, start, args, max_iterations=ITERATIONS, enough=ENOUGH)
    W = solved[: W.size].reshape(W.shape)
    right = float((tail_margins(W, problem, share) > 0).mean())
    return Listwise(MET if right == 1 else NOT_MET, W, right)


def _loss(
    flat: Float[Array, " q"], answers: Wanted, E: Float[Array, "n d"], U: Float[Array, "M d"], k: Float[Array, ""]
) -> Float[Array, ""]:
    """The sum of max(0, 1 - margin)^2 over inputs."""
    d = E.shape[1]
    W, t = flat[: d * d].reshape(d, d), flat[d * d :]
    Z = E @ W.T
    own = (Z * U[answers.f]).sum(axis=1)
    rivals = answers.offered & (jnp.arange(len(U)) != answers.f[:, None])
    above = jnp.where(rivals, bent(Z @ U.T - t[:, None]), 0.0).sum(axis=1)
    return (jnp.where(answers.counted, jnp.maximum(0.0, 1 - own + t + above / k), 0.0) ** 2).sum()


def bent(z: Float[Array, "..."]) -> Float[Array, "..."]:
    """max(0, z) rounded off near zero, from above."""
    width = ROUNDED_OFF
    return jnp.where(jnp.abs(z) < width, (z + width) ** 2 / (4 * width), jnp.maximum(0.0, z))

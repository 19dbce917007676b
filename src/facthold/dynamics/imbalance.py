"""Gradient descent on the population cross entropy of a small linear memory: every step of it, many runs side by side.

    L(W) = sum_z p_z CE(U W e_z, f(z)),   W <- W - eta grad L(W).

Everything is exact expectation: nothing is drawn but the embeddings that a caller gives. All in float64, as margins of
tens are told apart here, and in one compiled loop over all runs, which differ in embeddings, frequencies, step size and
start. After each step, 0 being the start, it is noted whether all is right and whether the loss rose.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

NONE = -1  # a step that never came
ROUNDING = 1e-9  # a loss that rises by a smaller share of itself has not risen


class Path(NamedTuple):
    """What was seen at chosen times, and on the way."""

    loss: Float[np.ndarray, "runs times"]
    margins: Float[np.ndarray, "runs times N"]  # of the right output over the best other one
    W: Float[np.ndarray, "runs times d d"]
    sharpness: Float[np.ndarray, "runs times"]  # the Hessian's largest eigenvalue; zero where it was not asked for
    first_right: Int[np.ndarray, " runs"]  # the first step after which all is right
    last_wrong: Int[np.ndarray, " runs"]  # the last after which something is wrong
    first_rise: Int[np.ndarray, " runs"]  # the first that raised the loss
    last_rise: Int[np.ndarray, " runs"]
    rises: Int[np.ndarray, " runs"]  # how many did
    best: Float[np.ndarray, " runs"]  # the largest probability of what is right


def losses(
    W: Float[Array, "d d"], E: Float[Array, "N d"], U: Float[Array, "M d"], f: Int[Array, " N"]
) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
    """Cross entropy and margin of each token. By differences of scores: ln(1 + sum exp(-difference)) keeps its digits
    where the right output has nearly all of the probability, unlike a softmax."""
    scores = E @ W.T @ U.T
    others = jnp.arange(len(U)) != f[:, None]
    behind = jnp.where(others, scores - jnp.take_along_axis(scores, f[:, None], axis=1), -jnp.inf)
    return jax.nn.softplus(jax.nn.logsumexp(behind, axis=1)), -behind.max(axis=1)


def sharpness(
    W: Float[Array, "d d"], E: Float[Array, "N d"], U: Float[Array, "M d"], f: Int[Array, " N"], p: Float[Array, " N"]
) -> Float[Array, ""]:
    """The largest eigenvalue of the Hessian of the population loss."""
    hessian = jax.hessian(lambda flat: p @ losses(flat.reshape(W.shape), E, U, f)[0])(W.ravel())
    return jnp.linalg.eigvalsh(hessian)[-1]


def descend(
    E: Float[np.ndarray, "runs N d"], U: Float[np.ndarray, "M d"], f: Int[np.ndarray, " N"],
    p: Float[np.ndarray, "runs N"], eta: Float[np.ndarray, " runs"], times: Int[np.ndarray, " times"], *,
    start: Float[np.ndarray, "runs d d"] | None = None, sharp: bool = False,
) -> Path:  # fmt: skip
    """Run to the last of ``times``, which increase from 0 or more; from zero where no ``start`` is given."""
    times = np.asarray(times)
    if not len(times) or times[0] < 0 or (np.diff(times) <= 0).any():
        raise ValueError(f"times must increase from 0 or more, not {times[:4]}")
    if len(U) < 2:
        raise ValueError(f"U has {len(U)} outputs; with fewer than 2 there is nothing to tell apart")
    with jax.enable_x64(True):
        first = np.zeros((len(E), *E.shape[2:], E.shape[2])) if start is None else start
        stretches = jnp.asarray(np.diff(times, prepend=0))
        fixed = (jnp.asarray(U, jnp.float64), jnp.asarray(f))
        runs = (jnp.asarray(array, jnp.float64) for array in (E, p, eta, first))
        looks, noted = _descend(*fixed, stretches, *runs, sharp)
        return Path(*map(np.asarray, (*looks, *noted)))


@partial(jax.jit, static_argnames="sharp")
def _descend(U: Array, f: Array, stretches: Array, E: Array, p: Array, eta: Array, first: Array, sharp: bool) -> Any:
    def one(E: Array, p: Array, eta: Array, first: Array) -> Any:
        def loss(W: Array) -> tuple[Array, Array]:
            each, margins = losses(W, E, U, f)
            return p @ each, margins

        def step(_: Any, state: Any) -> Any:
            W, t, before, noted = state
            (now, margins), gradient = jax.value_and_grad(loss, has_aux=True)(W)
            return W - eta * gradient, t + 1, now, _note(noted, t, before, now, margins, p)

        def stretch(state: Any, n: Array) -> Any:
            state = jax.lax.fori_loop(0, n, step, state)
            W = state[0]
            now, margins = loss(W)
            return state, (now, margins, W, sharpness(W, E, U, f, p) if sharp else jnp.zeros(()))

        none = jnp.full((), NONE)
        state = (first, jnp.zeros((), int), jnp.full((), jnp.inf), (none, none, none, none, none + 1, jnp.zeros(())))
        state, looks = jax.lax.scan(stretch, state, stretches)
        return looks, step(0, state)[-1]  # one more, so that the last step is noted too

    return jax.vmap(one)(E, p, eta, first)


def _note(noted: Any, t: Array, before: Array, now: Array, margins: Array, p: Array) -> Any:
    """What `Path` has from `first_right` on, with step t in it."""
    first_right, last_wrong, first_rise, last_rise, rises, best = noted
    right, rose = (margins > 0).all(), now > before * (1 + ROUNDING)
    return (
        jnp.where(right & (first_right == NONE), t, first_right),
        jnp.where(right, last_wrong, t),
        jnp.where(rose & (first_rise == NONE), t, first_rise),
        jnp.where(rose, t, last_rise),
        rises + rose,
        jnp.maximum(best, p @ (margins > 0)),
    )

"""The one numerical solver of the constructions: a smooth convex loss, minimised in float64.

That a loss does not reach its tolerance is an expected outcome: a construction is judged by what it recalls.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int
from scipy.optimize import OptimizeResult, minimize

from facthold._util.padding import pad_rows, padded

HISTORY = 30  # gradient pairs that L-BFGS keeps


class Wanted(NamedTuple):
    """The right answers of a problem that is padded: which rows count, and which outputs there are."""

    f: Int[Array, " N"] | Int[np.ndarray, " N"]
    counted: Bool[Array, " N"] | Bool[np.ndarray, " N"]
    offered: Bool[Array, " M"] | Bool[np.ndarray, " M"]


def cross_entropy(logits: Float[Array, "N M"], answers: Wanted) -> Float[Array, ""]:
    """Mean over the rows that count of -log softmax(logits_x)_{f(x)}."""
    offered = jnp.where(answers.offered, logits, -jnp.inf)
    losses = optax.softmax_cross_entropy_with_integer_labels(offered, answers.f)
    return jnp.where(answers.counted, losses, 0.0).sum() / answers.counted.sum()


def enough_for_margin(margin: float, N: int) -> float:
    """A mean cross entropy of N rows at which every row's margin is at least ``margin``.

    A row with margin g has cross entropy log(1 + exp(-g)) or more, and no row has more than N times the mean.
    """
    return float(np.logaddexp(0.0, -margin)) / N


def ridged(A: Float[np.ndarray, "q q"], share: float) -> Float[np.ndarray, "q q"]:
    """A with this share of its mean diagonal added to each entry of it: what no row uses would make it singular."""
    return A + max(share * np.trace(A) / len(A), 1e-300) * np.eye(len(A))


def least_cross_entropy(
    loss: Callable[..., Array], x0: Any, U: Any, f: Any, rows: tuple[Any, ...], *fixed: Any, margin: float,
    steps: int = 1000,
) -> np.ndarray:  # fmt: skip
    """The x of least ``loss(x, answers, U, *rows, *fixed)``, a `cross_entropy` in which row i should say f[i].

    It ends where every row surely has this margin, or after so many steps. U and rows are padded: few compilations.
    """
    n, M = padded(len(f)), padded(len(U))
    answers = Wanted(pad_rows(f, n), np.arange(n) < len(f), np.arange(M) < len(U))
    args = (answers, pad_rows(U, M), *(pad_rows(row, n) for row in rows), *fixed)
    return minimise(loss, x0, args, max_iterations=steps, enough=enough_for_margin(margin, len(f)))


def minimise(
    loss: Callable[..., Array], x0: Any, args: tuple[Any, ...] = (), *, max_iterations: int = 1000,
    tolerance: float = 1e-8, enough: float = -np.inf,
) -> np.ndarray:  # fmt: skip
    """The x, in float64, that L-BFGS finds to minimise ``loss(x, *args)``, from x0 of any shape.

    It ends where no gradient entry exceeds ``tolerance``, or as soon as the loss is ``enough`` or less.
    Give data as ``args`` and ``loss`` as a function of the module, not a closure: then it is compiled once,
    and its float32 data are widened too.
    """
    with jax.enable_x64(True):
        start = np.asarray(x0, np.float64)
        wide = jax.tree.map(_widen, args)
        evaluate = _value_and_grad(loss)

        def objective(flat: np.ndarray) -> Any:
            value, gradient = evaluate(flat.reshape(start.shape), *wide)
            return float(value), np.asarray(gradient).ravel()

        def stop(intermediate_result: OptimizeResult) -> None:
            if intermediate_result.fun <= enough:
                raise StopIteration

        # maxfun only has to be out of the way of maxiter; ftol = 0 leaves the stopping to the gradient
        limits = {"maxiter": max_iterations, "maxfun": 20 * max_iterations}
        options = limits | {"maxcor": HISTORY, "gtol": tolerance, "ftol": 0.0}
        result = minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", callback=stop, options=options)
    return result.x.reshape(start.shape)


@lru_cache(maxsize=32)
def _value_and_grad(loss: Callable[..., Array]) -> Callable[..., tuple[Array, Array]]:
    return jax.jit(jax.value_and_grad(loss))


def _widen(array: Any) -> Array:
    array = np.asarray(array)
    return jnp.asarray(array, np.float64 if np.issubdtype(array.dtype, np.floating) else array.dtype)

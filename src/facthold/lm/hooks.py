"""Changes of what a model computes at a place, as functions for `LanguageModel.run`: ``{("mlp", 28): put(0.0)}``."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from facthold.lm.model import Hook


def put(value: ArrayLike, *, at: np.ndarray | None = None, head: int | None = None) -> Hook:
    """Replace what is there: by zero, a mean, or what another prompt has. ``value`` is anything that broadcasts to
    [b, P, ...] at the positions ``at``, [b] or [b, P], or without ``at`` to [b, T, ...]; of ``heads`` perhaps those of
    one ``head``."""
    return _changing(lambda there: jnp.broadcast_to(jnp.asarray(value), there.shape), at, head)


def add(value: ArrayLike, *, at: np.ndarray | None = None, head: int | None = None) -> Hook:
    """Add to what is there; see `put`."""
    return _changing(lambda there: there + jnp.asarray(value), at, head)


def times(factor: ArrayLike, *, at: np.ndarray | None = None, head: int | None = None) -> Hook:
    """Multiply what is there; see `put`."""
    return _changing(lambda there: there * jnp.asarray(factor), at, head)


def memory(
    W: Float[Array, "d d"], *, at: np.ndarray | None = None, key: Callable[[Array], Array] | None = None
) -> Hook:
    """A linear memory in the stream: x becomes x + W key(x). By default the key is x over its root mean square, which
    is what every layer of the model reads (without the gain)."""
    read = key or (lambda x: x / jnp.sqrt((x * x).mean(-1, keepdims=True)))
    return _changing(lambda there: there + read(there) @ W.T, at, None)


def _changing(change: Callable[[Array], Array], at: np.ndarray | None, head: int | None) -> Hook:
    """The function on the whole [b, T, ...] that makes a change at some positions, and of one head alone."""

    def hook(x: Array) -> Array:
        if at is None:
            return change(x) if head is None else x.at[:, :, head].set(change(x[:, :, head]))
        columns = jnp.asarray(at).reshape(len(at), -1)
        rows = jnp.arange(len(x))[:, None]
        there = x[rows, columns]
        made = change(there) if head is None else there.at[:, :, head].set(change(there[:, :, head]))
        return x.at[rows, columns].set(made)

    return hook

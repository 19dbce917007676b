"""Directions of a step that take from a gradient its signs, or its singular vectors, and not its size.

As Optax has the others: transformations of a gradient, with a learning rate after them.
"""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float


def signs() -> optax.GradientTransformation:
    """Sign descent: every weight moves by the same amount. A gradient of 0 moves nothing."""
    return _each(jnp.sign)


def polar() -> optax.GradientTransformation:
    """Muon without momentum, with the polar factor exactly and not by some steps of Newton and Schulz."""
    return _each(polar_factor)


def polar_factor(gradient: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """U V^T of G = U S V^T: every singular value becomes 1. A vector is divided by its length.

    Singular values that rounding may have made stay 0, as Newton and Schulz's steps would leave them; so does a
    gradient of 0.
    """
    if gradient.ndim != 2:
        length = jnp.linalg.norm(gradient)
        return gradient / jnp.where(length > 0, length, 1)
    U, s, Vt = jnp.linalg.svd(gradient, full_matrices=False)
    least = jnp.finfo(gradient.dtype).eps * max(gradient.shape) * s[0]
    return (U * (s > least)) @ Vt


def _each(direction: Any) -> optax.GradientTransformation:
    """The same for every array, with nothing to remember."""

    def update(gradients: Any, state: optax.EmptyState, params: Any = None) -> tuple[Any, optax.EmptyState]:
        return jax.tree.map(direction, gradients), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)

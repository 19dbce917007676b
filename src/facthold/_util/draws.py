"""Gaussian matrices of any shape, by one compiled program for many shapes.

JAX makes each number from the key and its place in the flat array alone, so that the first n numbers of a longer draw
are the draw of n numbers, to the bit; a test says so. Drawn by its own shape, each matrix would cost a compilation of
0.4 seconds, and a search over sizes meets many shapes.
"""

import math
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, DTypeLike, Float, PRNGKeyArray

from facthold._util.padding import next_power_of_two

LEAST = 1 << 12  # numbers drawn at least: all small matrices then share one program
MOST = 1 << 18  # above this nothing is drawn in vain: the draw itself takes longer than its compilation

_TRUNCATED_SD = 0.87962566103423978  # standard deviation of a standard normal variable truncated to [-2, 2]


def normal(
    key: PRNGKeyArray, shape: tuple[int, ...], dtype: DTypeLike = float, *, scale: float = 1.0
) -> Float[Array, "..."]:
    """``scale`` times `jax.random.normal`."""
    return _draw(jax.random.normal, key, shape, dtype, scale)


def lecun_normal(key: PRNGKeyArray, shape: tuple[int, int]) -> Float[Array, "..."]:
    """`jax.nn.initializers.lecun_normal` for a matrix of shape (out, in): truncated normal, of variance 1/in."""
    dtype = jnp.result_type(float)
    sd = np.sqrt(dtype.type(1 / shape[1])) / dtype.type(_TRUNCATED_SD)
    return _draw(partial(jax.random.truncated_normal, lower=-2, upper=2), key, shape, dtype, float(sd))


def _draw(
    draw: Callable[..., Array], key: PRNGKeyArray, shape: tuple[int, ...], dtype: DTypeLike, scale: float
) -> Array:
    n = math.prod(shape)
    if isinstance(key, jax.core.Tracer) or n > MOST:  # inside another program nothing is compiled for it
        return draw(key, shape=shape, dtype=dtype) * scale
    flat = np.asarray(draw(key, shape=(max(LEAST, next_power_of_two(n)),), dtype=dtype))
    return jnp.asarray(flat[:n].reshape(shape) * scale)

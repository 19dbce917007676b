"""Token embeddings: one row per token, the same numbers on every machine.

Rows are drawn independently, and the tables for N and for N + 1 tokens share their first N rows, so that a search over
N compares nested problems. Rows that are spread evenly are made together, and are not nested.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from facthold._util.errors import check_positive
from facthold.memory import draw_embeddings, generator


def words_of(key: PRNGKeyArray) -> tuple[int, int]:
    """The two words of a JAX key that give a NumPy generator its stream."""
    first, second = np.asarray(jax.random.key_data(key)).ravel()[-2:].tolist()
    return first, second


def host_generator(key: PRNGKeyArray) -> np.random.Generator:
    """A NumPy generator whose stream is given by a JAX key."""
    return generator(words_of(key))


def embed(kind: str, n: int, d: int, *, key: PRNGKeyArray) -> Float[Array, "n d"]:
    """The embeddings called ``kind``: 'sphere', 'gaussian', 'signs', 'orthogonal' or 'spread'."""
    check_positive(n=n, d=d)
    return jnp.asarray(draw_embeddings(kind, n, d, words_of(key)))

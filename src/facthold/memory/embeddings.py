"""Token embeddings: one row per token, all drawn independently, the same numbers on every machine.

The tables for N and for N + 1 tokens share their first N rows, so that a search over N compares nested problems.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from facthold._util.errors import check_positive, find
from facthold.memory import EMBEDDINGS


def host_generator(key: PRNGKeyArray) -> np.random.Generator:
    """A NumPy generator whose stream is given by a JAX key."""
    words = np.asarray(jax.random.key_data(key), dtype=np.uint64).ravel()
    return np.random.Generator(np.random.Philox(key=words[-2:]))


def embed(kind: str, n: int, d: int, *, key: PRNGKeyArray) -> Float[Array, "n d"]:
    """The embeddings called ``kind``: 'sphere', 'gaussian', 'signs' or 'orthogonal'."""
    check_positive(n=n, d=d)
    if kind == "orthogonal" and n > d:
        raise ValueError(f"n={n} orthogonal rows do not fit in d={d} dimensions; take n <= {d}, or 'sphere'")
    return jnp.asarray(find("embeddings", kind, EMBEDDINGS)(n, d, host_generator(key)), dtype=jnp.float32)

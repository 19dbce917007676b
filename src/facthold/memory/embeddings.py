"""Token embeddings: one row a token, all drawn independently.

The rows are *prefix-stable*: the tables for N and for N + 1 tokens share their first N rows, so that a
search over N compares nested problems. They are drawn by NumPy's counter-based Philox generator, which
gives the same numbers on every machine and compiles nothing when N changes.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from facthold import memory
from facthold._util.errors import check_positive, find

Rows = Float[Array, "n d"]


def gaussian(n: int, d: int, *, key: PRNGKeyArray) -> Rows:
    """Rows N(0, I/d), of norm about 1: the embeddings of the slides and of the authors' transformer code."""
    return jnp.asarray(_normal(n, d, key) / np.sqrt(d), dtype=jnp.float32)


def sphere(n: int, d: int, *, key: PRNGKeyArray) -> Rows:
    """Rows uniform on the unit sphere: the setting of section 3."""
    rows = _normal(n, d, key)
    return jnp.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=jnp.float32)


def signs(n: int, d: int, *, key: PRNGKeyArray) -> Rows:
    """Rows uniform on {-1, +1}^d / sqrt(d): the patterns of Hopfield networks."""
    return jnp.asarray(np.where(_normal(n, d, key) > 0, 1, -1) / np.sqrt(d), dtype=jnp.float32)


def orthogonal(n: int, d: int, *, key: PRNGKeyArray) -> Rows:
    """One-hot rows. There are only d of them, which is why superposition is needed (remark in 3.1)."""
    del key  # nothing is random here; the signature is that of the others
    check_positive(n=n, d=d)
    if n > d:
        raise ValueError(f"n={n} orthogonal rows do not fit in d={d} dimensions; take n <= {d}, or 'sphere'")
    return jnp.asarray(np.eye(n, d), dtype=jnp.float32)


def _normal(n: int, d: int, key: PRNGKeyArray) -> np.ndarray:
    check_positive(n=n, d=d)
    return host_generator(key).standard_normal((n, d))


def host_generator(key: PRNGKeyArray) -> np.random.Generator:
    """A NumPy generator whose stream is given by a JAX key."""
    words = np.asarray(jax.random.key_data(key), dtype=np.uint64).ravel()
    return np.random.Generator(np.random.Philox(key=words[-2:]))


EMBEDDINGS: dict[str, Callable[..., Rows]] = dict(
    zip(memory.EMBEDDINGS, (sphere, gaussian, signs, orthogonal), strict=True)
)


def embed(kind: str, n: int, d: int, *, key: PRNGKeyArray) -> Rows:
    """The embeddings called ``kind``: 'sphere', 'gaussian', 'signs' or 'orthogonal'."""
    return find("embeddings", kind, EMBEDDINGS)(n, d, key=key)

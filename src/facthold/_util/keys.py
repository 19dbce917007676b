"""Random keys from content: what is drawn depends on what it is for, so adding a cell changes no other."""

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import PRNGKeyArray
else:
    PRNGKeyArray = Any  # jaxtyping's own loads JAX, and tables of facts are read, written and counted without it


def derive(*content: str | int | float | None) -> PRNGKeyArray:
    """The random key for this content: ``fh.derive("embeddings", seed, d)``."""
    return _key(json.dumps(content).encode())


def fold(key: PRNGKeyArray, *content: str | int) -> PRNGKeyArray:
    """The key for this content below ``key``. Hashed on the host: nothing is compiled, unlike jax.random.fold_in."""
    import jax

    return _key(np.asarray(jax.random.key_data(key)).tobytes() + json.dumps(content).encode())


def _key(text: bytes) -> PRNGKeyArray:
    import jax
    import jax.numpy as jnp

    digest = hashlib.sha256(text).digest()
    return jax.random.wrap_key_data(jnp.asarray(np.frombuffer(digest[:8], np.uint32)))

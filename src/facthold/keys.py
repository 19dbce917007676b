"""Random keys from content: what is drawn depends on what it is for, so adding a cell changes no other."""

import hashlib
import json

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray


def derive(*content: str | int | float | None) -> PRNGKeyArray:
    """The key for this content: ``derive("embeddings", seed, d)``."""
    digest = hashlib.sha256(json.dumps(content).encode()).digest()
    return jax.random.wrap_key_data(jnp.asarray(np.frombuffer(digest[:8], np.uint32)))

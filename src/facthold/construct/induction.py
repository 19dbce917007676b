"""The induction head of the slides, built from three associative memories.

Layer 1 attends to the previous position and writes its token there, remapped to W_OV^1 e_k; layer 2 looks, from a
trigger k, for where that was written, and copies the token that stands there to the output:

    W_KQ^1 = c sum_t p_t p_{t-1}^T,   W_KQ^2 = c sum_{k in Q} e_k (W_OV^1 e_k)^T,   W_OV^2 = sum_k u_k e_k^T.

Departs: both attention matrices have a factor c, an inverse temperature that the slides leave out. At c = 1 the
previous token gets a few per cent of the attention.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from facthold._util.draws import normal
from facthold._util.errors import check_positive
from facthold._util.keys import fold
from facthold.memory.embeddings import embed
from facthold.models.causal import CausalTransformer, Layer

SHARPNESS = 30.0  # c: from about here on more does not help


def untrained(
    N: int, T: int, d: int, *, key: PRNGKeyArray, layers: int = 2, unit: bool = True, scaled: bool = False,
    silent_first: bool = False,
) -> CausalTransformer:  # fmt: skip
    """Random embeddings N(0, 1/d), or, not ``unit``, tokens and positions N(0, 1) as in the public code, and random
    matrices N(0, 1/d)."""
    check_positive(N=N, T=T, d=d, layers=layers)
    size = 1.0 if unit else d**0.5
    E, P = (size * embed("gaussian", n, d, key=fold(key, name)) for name, n in (("E", N), ("P", T)))
    U = embed("gaussian", N, d, key=fold(key, "U"))

    def matrix(name: str, i: int) -> Float[Array, "d d"]:
        return normal(fold(key, name, i), (d, d), scale=d**-0.5)

    heads = tuple(
        Layer(matrix("W_KQ", i), matrix("W_OV", i), scaled=scaled, silent_first=silent_first and i == 0)
        for i in range(layers)
    )
    return CausalTransformer(E, P, U, heads)


def induction_head(
    N: int, T: int, d: int, triggers: Int[np.ndarray, " K"], *, key: PRNGKeyArray, c: float = SHARPNESS,
    silent_first: bool = True, length_one: bool = False,
) -> CausalTransformer:  # fmt: skip
    """The construction, on the embeddings and with the W_OV^1 of `untrained`; ``length_one`` scales all embeddings to
    the length 1. As they are, |p|^2 varies by sqrt(2/d), and the scores that should win vary with it."""
    start = untrained(N, T, d, key=key, silent_first=silent_first)
    vectors = (start.E, start.P, start.U)
    E, P, U = (v / jnp.linalg.norm(v, axis=1, keepdims=True) for v in vectors) if length_one else vectors
    W_OV_1 = start.layers[0].W_OV
    asked = E[jnp.asarray(triggers)]
    W_KQ_1, W_KQ_2, W_OV_2 = c * P[1:].T @ P[:-1], c * asked.T @ (asked @ W_OV_1.T), U.T @ E
    first = Layer(W_KQ_1, W_OV_1, silent_first=silent_first)
    return CausalTransformer(E, P, U, (first, Layer(W_KQ_2, W_OV_2)))

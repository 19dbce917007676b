"""The lecture's example of gradients with noisy inputs: x = e_y + p_t, of which y is to be told and t is noise."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float


@eqx.filter_jit
def scores_after_step(
    E: Float[Array, "N d"], P: Float[Array, "T d"], U: Float[Array, "N d"], eta: float
) -> Float[Array, "N T N"]:
    """u_k^T W_1 (e_y + p_t) by y, t and k, after one step from zero on the cross entropy over all y and t alike."""
    (N, d), T = E.shape, len(P)
    x = (E[:, None] + P).reshape(N * T, d)
    y = jnp.repeat(jnp.arange(N), T)

    def loss(W: Float[Array, "d d"]) -> Float[Array, ""]:
        return optax.softmax_cross_entropy_with_integer_labels(x @ (U @ W).T, y).mean()

    W_1 = -eta * jax.grad(loss)(jnp.zeros((d, d)))
    return (x @ (U @ W_1).T).reshape(N, T, N)

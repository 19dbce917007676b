"""The cross entropy that all training minimises, with the gradient that fixed embeddings leave to compute."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


@jax.custom_vjp
def mean_cross_entropy(
    F: Float[Array, "N d"], U: Float[Array, "M d"], targets: Float[Array, "N d"], counted: Bool[Array, " N"],
    offered: Bool[Array, " M"],
) -> Float[Array, ""]:  # fmt: skip
    """Mean of -log softmax(F U^T) at the target, with a gradient for F alone.

    The embeddings are fixed, so dL/dF = (P U - targets) / N is all that training needs. Computed in the
    forward pass, with the normaliser taken out of the product, it reads the N x M scores twice only.
    """
    return _forward(F, U, targets, counted, offered)[0]


def _forward(
    F: Array, U: Array, targets: Array, counted: Array, offered: Array
) -> tuple[Float[Array, ""], Float[Array, "N d"]]:
    scores = F @ U.T + jnp.where(offered, 0.0, -jnp.inf)
    highest = scores.max(axis=1, keepdims=True)
    weights = jnp.exp(scores - highest)
    normaliser = weights.sum(axis=1, keepdims=True)
    share = counted[:, None] / counted.sum()
    losses = jnp.log(normaliser) + highest - (F * targets).sum(axis=1, keepdims=True)
    return (share * losses).sum(), share * ((weights @ U) / normaliser - targets)


def _backward(dF: Array, g: Array) -> tuple[Array, None, None, None, None]:
    return g * dF, None, None, None, None


mean_cross_entropy.defvjp(_forward, _backward)

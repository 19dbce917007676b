"""Memory recall probes R(W, W*) of the slides: which of the associations of an induction head a matrix recalls."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from facthold.measure.recall import right
from facthold.models.causal import CausalTransformer


def probe(
    W: Float[Array, "d d"], inputs: Float[Array, "M d"], outputs: Float[Array, "N d"], f: Int[Array, " M"],
    allowed: Bool[Array, "M N"] | None = None,
) -> Float[Array, ""]:  # fmt: skip
    """The share of the inputs e_i for which f(i) is the arg max over j of u_j^T W e_i, among the allowed j."""
    scores = inputs @ W.T @ outputs.T
    return right(scores if allowed is None else jnp.where(allowed, scores, -jnp.inf), f).mean()


def probes(model: CausalTransformer, triggers: Int[Array, " K"]) -> dict[str, Float[Array, ""]]:
    """Of each matrix of a model of two layers, what an induction head needs it to hold.

    - W_KQ^1: of position t its previous one, among those before it and t itself; without the causal mask (as the public
      code has it) among all;
    - W_KQ^2: of each trigger k the key W_OV^1 e_k, among those of all tokens, and (public code) of the triggers;
    - W_OV^2: of each token its own output.
    """
    (first, second), (N, T) = model.layers, (len(model.E), len(model.P))
    keys, t = model.E @ first.W_OV.T, jnp.arange(1, T)
    causal = jnp.arange(T) <= t[:, None]
    some = jnp.isin(jnp.arange(N), triggers) & jnp.ones((len(triggers), 1), bool)
    return {
        "W_KQ^1": probe(first.W_KQ.T, model.P[1:], model.P, t - 1, causal),
        "W_KQ^1 unmasked": probe(first.W_KQ.T, model.P[1:], model.P, t - 1),
        "W_KQ^2": probe(second.W_KQ.T, model.E[triggers], keys, triggers),
        "W_KQ^2 among triggers": probe(second.W_KQ.T, model.E[triggers], keys, triggers, some),
        "W_OV^2": probe(second.W_OV, model.E, model.U, jnp.arange(N)),
    }

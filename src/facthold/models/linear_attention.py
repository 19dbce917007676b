"""Linear attention with orthonormal embeddings (section 5, equation 13): as matrices, and by what they act through.

With orthonormal embeddings a prompt is its token counts, and F_lin only ever meets the numbers
W_OV(a, z) = phi(a)^T W_OV phi(z) and W_KQ(z) = phi(z)^T W_KQ phi(EOS). Gradient flow on the matrices is gradient flow
on these: the rest of the matrices never gets a gradient.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float


class LinearAttention(eqx.Module):
    """F_lin in its own coordinates: the logit of a is sum_z c(z) W_OV(a, z) W_KQ(z)."""

    W_OV: Float[Array, "A tokens"]
    W_KQ: Float[Array, " tokens"]

    @property
    def Theta(self) -> Float[Array, "A tokens"]:
        """What one token z adds to the logit of a. The loss is convex in it."""
        return self.W_OV * self.W_KQ

    def logits(self, counts: Float[Array, "n tokens"]) -> Float[Array, "n A"]:
        """phi(a)^T F_lin for prompts given as token counts."""
        return counts @ self.Theta.T


class LinearAttentionMatrices(eqx.Module):
    """F_lin(X) = W_OV X^T X W_KQ x_T as it stands in equation 13, for embedded sequences."""

    W_OV: Float[Array, "d d"]
    W_KQ: Float[Array, "d d"]

    def __call__(self, X: Float[Array, "n T d"]) -> Float[Array, "n d"]:
        scores = jnp.einsum("ntd,de,ne->nt", X, self.W_KQ, X[:, -1])
        return jnp.einsum("nt,ntd,ed->ne", scores, X, self.W_OV)

    @classmethod
    def of(cls, model: LinearAttention, phi: Float[Array, "V d"]) -> "LinearAttentionMatrices":
        """Matrices that act as ``model`` does, for orthonormal phi: the tokens of a prompt, EOS last, then answers."""
        tokens, answers = phi[: len(model.W_KQ)], phi[len(model.W_KQ) :]
        return cls(answers.T @ model.W_OV @ tokens, jnp.outer(model.W_KQ @ tokens, tokens[-1]))

    def reduced(self, phi: Float[Array, "V d"], A: int) -> LinearAttention:
        """W_OV(a, z) and W_KQ(z), for any phi whose last A rows are the answers'."""
        tokens, answers = phi[:-A], phi[-A:]
        return LinearAttention(answers @ self.W_OV @ tokens.T, tokens @ self.W_KQ @ tokens[-1])

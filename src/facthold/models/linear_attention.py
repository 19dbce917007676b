"""Linear attention with orthonormal embeddings (section 5, equation 13), by what its matrices act through.

With orthonormal embeddings a prompt is its token counts, and F_lin only ever meets the numbers
W_OV(a, z) = phi(a)^T W_OV phi(z) and W_KQ(z) = phi(z)^T W_KQ phi(EOS). Gradient flow on the matrices is gradient flow
on these: the rest of the matrices never gets a gradient.
"""

import equinox as eqx
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

"""One head of section 5, with softmax or linear attention; its matrices are not factorised.

Linear attention has orthonormal embeddings (equation 13): a prompt is its token counts, and F_lin only ever meets the
numbers W_OV(a, z) = phi(a)^T W_OV phi(z) and W_KQ(z) = phi(z)^T W_KQ phi(EOS). Gradient flow on the matrices is that
on these: the rest of the matrices never gets a gradient.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from facthold._util.errors import check_positive
from facthold.models.attention import attend_counts


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


class SoftmaxHead(eqx.Module):
    """F(X) = W_OV X^T softmax(X W_KQ x_T) with W_OV = W_O^T W_V and W_KQ = W_K^T W_Q, for embeddings of any kind."""

    W_OV: Float[Array, "d d"]
    W_KQ: Float[Array, "d d"]

    def __call__(self, X: Float[Array, "n T d"]) -> Float[Array, "n d"]:
        """F of prompts given as embedded sequences, as it stands."""
        attention = jax.nn.softmax(jnp.einsum("ntd,de,ne->nt", X, self.W_KQ, X[:, -1]), axis=-1)
        return jnp.einsum("nt,ntd,ed->ne", attention, X, self.W_OV)

    def logits(
        self, counts: Float[Array, "n tokens"], phi: Float[Array, "tokens d"], query: Float[Array, " d"],
        U: Float[Array, "A d"],
    ) -> Float[Array, "n A"]:  # fmt: skip
        """F U^T of prompts given as token counts, for the embeddings phi and the last token's, ``query``.

        What a token adds to the logits of the answers is a table over the vocabulary: the head attends to that, and
        nothing of d columns is computed for a prompt.
        """
        asked = self.W_KQ @ query
        at_query = lax.stop_gradient((query @ asked)[None])
        return attend_counts(counts, (phi @ asked)[:, None], at_query, (phi @ self.W_OV.T @ U.T)[:, None, :])[:, 0]

    @classmethod
    def zeros(cls, d: int) -> "SoftmaxHead":
        """Attention to all tokens alike, and every answer as likely. Unlike for linear attention this is no saddle:
        W_OV has a gradient from the first step on."""
        check_positive(d=d)
        return cls(jnp.zeros((d, d)), jnp.zeros((d, d)))

"""One softmax head with its matrices not factorised (section 5): W_OV = W_O^T W_V and W_KQ = W_K^T W_Q."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from facthold._util.errors import check_positive
from facthold.models.attention import attend_counts


class SoftmaxHead(eqx.Module):
    """F(X) = W_OV X^T softmax(X W_KQ x_T), for fixed embeddings of any kind."""

    W_OV: Float[Array, "d d"]
    W_KQ: Float[Array, "d d"]

    @property
    def d(self) -> int:
        return self.W_OV.shape[0]

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

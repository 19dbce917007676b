"""The one-layer transformer of section 4.2: multi-head self-attention, then an MLP (equations 4 to 6)."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from facthold._util.draws import normal
from facthold._util.errors import check_positive
from facthold.memory.activations import RELU, Activation
from facthold.models.attention import attend_counts
from facthold.models.memory import MLPMemory
from facthold.models.sizes import Shape


class Transformer(eqx.Module):
    """F_TF = F_MHSA + MLP(F_MHSA), asked at the last token. Without an MLP it is F_MHSA alone (theorem 3).

    ``fh.Transformer.init(d=64, H=8, d_h=8, m=256, key=fh.derive("init", 0))``
    """

    W_K: Float[Array, "H d_h d"]
    W_Q: Float[Array, "H d_h d"]
    W_V: Float[Array, "H d_h d"]
    W_O: Float[Array, "H d_h d"]
    mlp: MLPMemory | None = None
    scaled: bool = eqx.field(static=True, default=False)
    """Whether scores are divided by sqrt(d_h): the authors' code does, equation 4 does not."""

    @property
    def H(self) -> int:
        return self.W_K.shape[0]

    @property
    def d_h(self) -> int:
        return self.W_K.shape[1]

    @property
    def d(self) -> int:
        return self.W_K.shape[2]

    @property
    def m(self) -> int:
        return 0 if self.mlp is None else self.mlp.W.shape[0]

    @property
    def n_params(self) -> int:
        """4 H d d_h + 2 m d, as the paper counts: embeddings and the MLP's bias left out."""
        return Shape(self.d, self.H, self.d_h, self.m).n_params

    def __call__(self, X: Float[Array, "n T d"]) -> Float[Array, "n d"]:
        """F_TF of prompts given as embedded sequences, by the equations as they stand."""
        values = jnp.einsum("hid,ntd->nhti", self.W_V, X)
        return self.after_heads(jnp.einsum("nhti,nht->nhi", values, self.attention(X)))

    def attention(self, X: Float[Array, "n T d"]) -> Float[Array, "n H T"]:
        """How much each head attends to each position, from the last one."""
        keys = jnp.einsum("hid,ntd->nhti", self.W_K, X)
        queries = jnp.einsum("hid,nd->nhi", self.W_Q, X[:, -1])
        return jax.nn.softmax(self._scale * jnp.einsum("nhti,nhi->nht", keys, queries), axis=-1)

    def of_counts(
        self, counts: Float[Array, "n tokens"], phi: Float[Array, "tokens d"], query: Float[Array, " d"]
    ) -> Float[Array, "n d"]:
        """F_TF of prompts given as token counts c(z), for the embeddings phi and the last token's, ``query``: a head's
        score and value depend on the token alone (`models.attention`)."""
        scores = self.scores(phi, query)
        values = (phi @ self._flat(self.W_V).T).reshape(-1, self.H, self.d_h)
        at_query = self.scores(query[None], query)[0]
        return self.after_heads(attend_counts(counts, scores, lax.stop_gradient(at_query), values))

    def scores(self, phi: Float[Array, "tokens d"], query: Float[Array, " d"]) -> Float[Array, "tokens H"]:
        """The attention score of each token in each head."""
        asked = jnp.einsum("hid,hi->hd", self.W_K, self._scale * (self.W_Q @ query))
        return phi @ asked.T

    def after_heads(self, heads: Float[Array, "n H d_h"]) -> Float[Array, "n d"]:
        """Equations 5 and 6, from the heads' outputs on."""
        x = heads.reshape(len(heads), -1) @ self._flat(self.W_O)
        return x if self.mlp is None else x + self.mlp(x)

    def _flat(self, W: Float[Array, "H d_h d"]) -> Float[Array, "Hd_h d"]:
        return W.reshape(self.H * self.d_h, self.d)

    @property
    def _scale(self) -> float:
        return self.d_h**-0.5 if self.scaled else 1.0

    @classmethod
    def init(
        cls, d: int, H: int, d_h: int, m: int = 0, *, key: PRNGKeyArray, bias: bool = False, scaled: bool = False,
        sigma: Activation = RELU,
    ) -> "Transformer":  # fmt: skip
        """As the authors' code starts: W_K, W_Q, W_V of variance 1/d_h, W_O of 1/d, the MLP by fan-in."""
        check_positive(d=d, H=H, d_h=d_h)
        k_K, k_Q, k_V, k_O, k_mlp = jax.random.split(key, 5)
        inwards = [normal(k, (H, d_h, d), scale=d_h**-0.5) for k in (k_K, k_Q, k_V)]
        W_O = normal(k_O, (H, d_h, d), scale=d**-0.5)
        mlp = MLPMemory.init(d, m, key=k_mlp, bias=bias, sigma=sigma) if m else None
        return cls(inwards[0], inwards[1], inwards[2], W_O, mlp, scaled)

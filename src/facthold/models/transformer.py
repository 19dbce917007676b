"""The one-layer transformer of section 4.2: multi-head self-attention, then an MLP (equations 4 to 6)."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from facthold.activations import RELU, Activation
from facthold.errors import check_positive
from facthold.models.memory import MLPMemory

LOW, EOS_AT, HIGH = -80.0, -50.0, 60.0
"""Exponents of a table of exp(score): the last token, which is in every prompt, stands at EOS_AT. What is below LOW
counts for nothing beside it, and up to HIGH all sums and gradients stay within float32."""


class Transformer(eqx.Module):
    """F_TF = F_MHSA + MLP(F_MHSA), asked at the last token. Without an MLP it is F_MHSA alone (theorem 3)."""

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
        return n_params(d=self.d, H=self.H, d_h=self.d_h, m=self.m)

    def __call__(self, X: Float[Array, "n T d"]) -> Float[Array, "n d"]:
        """F_TF of prompts given as embedded sequences, by the equations as they stand."""
        keys = jnp.einsum("hid,ntd->nhti", self.W_K, X)
        queries = jnp.einsum("hid,nd->nhi", self.W_Q, X[:, -1])
        weights = jax.nn.softmax(self._scale * jnp.einsum("nhti,nhi->nht", keys, queries), axis=-1)
        values = jnp.einsum("hid,ntd->nhti", self.W_V, X)
        return self.after_heads(jnp.einsum("nhti,nht->nhi", values, weights))

    def of_counts(
        self, counts: Float[Array, "n tokens"], phi: Float[Array, "tokens d"], query: Float[Array, " d"]
    ) -> Float[Array, "n d"]:
        """F_TF of prompts given as token counts c(z), for the embeddings phi and the last token's, ``query``.

        A head's score and value depend on the token alone. With w(z) = exp(score(z)) its output is
        sum_z c(z) w(z) value(z) / sum_z c(z) w(z): one product of the counts with a table over the vocabulary.
        Trained scores outgrow what one table can hold in float32; two hold twice as much, and for still larger
        ones each prompt has its softmax to itself.
        """
        scores = self.scores(phi, query)
        values = (phi @ self._flat(self.W_V).T).reshape(-1, self.H, self.d_h)
        at_query = self.scores(query[None], query)[0]
        range_ = (scores.max(axis=0) - at_query).max()
        way = (range_ > HIGH - EOS_AT).astype(int) + (range_ > 2 * (HIGH - EOS_AT))
        # Without the checkpoint, training would keep room for what the ways that are not taken remember.
        ways = (_one_table, jax.checkpoint(_two_tables), jax.checkpoint(_by_prompt))
        return self.after_heads(lax.switch(way, ways, counts, scores, at_query, values))

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
        inwards = [jax.random.normal(k, (H, d_h, d)) * d_h**-0.5 for k in (k_K, k_Q, k_V)]
        W_O = jax.random.normal(k_O, (H, d_h, d)) * d**-0.5
        mlp = MLPMemory.init(d, m, key=k_mlp, bias=bias, sigma=sigma) if m else None
        return cls(inwards[0], inwards[1], inwards[2], W_O, mlp, scaled)


def n_params(*, d: int, H: int, d_h: int, m: int) -> int:
    """4 H d d_h + 2 m d."""
    return 4 * H * d * d_h + 2 * m * d


Counts = Float[Array, "n tokens"]
Scores = Float[Array, "tokens H"]
Values = Float[Array, "tokens H d_h"]
Heads = Float[Array, "n H d_h"]


def _one_table(counts: Counts, scores: Scores, at_query: Float[Array, " H"], values: Values) -> Heads:
    """The fast way: exp(score) once a token."""
    return _divide(*_sums(counts, scores - lax.stop_gradient(at_query) + EOS_AT, values))


def _two_tables(counts: Counts, scores: Scores, at_query: Float[Array, " H"], values: Values) -> Heads:
    """One table around the largest scores, for prompts that have such a token, and one around the query's."""
    top = scores.max(axis=0) + 1  # not at the edge, where a clipped exponent has half a gradient
    high, total = _sums(counts, scores - lax.stop_gradient(top) + HIGH, values)
    low, low_total = _sums(counts, scores - lax.stop_gradient(at_query) + EOS_AT, values)
    has_high = total > jnp.exp(EOS_AT)
    return _divide(jnp.where(has_high[:, :, None], high, low), jnp.where(has_high, total, low_total))


def _sums(counts: Counts, exponents: Scores, values: Values) -> tuple[Heads, Float[Array, "n H"]]:
    """sum_z c(z) w(z) value(z) and sum_z c(z) w(z)."""
    tokens, H, d_h = values.shape
    w = jnp.exp(jnp.clip(exponents, LOW, HIGH))
    sums = counts @ jnp.concatenate([(w[:, :, None] * values).reshape(tokens, H * d_h), w], axis=1)
    return sums[:, :-H].reshape(-1, H, d_h), sums[:, -H:]


@jax.custom_vjp
def _divide(sums: Heads, total: Float[Array, "n H"]) -> Heads:
    """sums / total. The usual gradient squares the total, which leaves float32; this one does not."""
    return sums / total[:, :, None]


def _divide_forward(sums: Array, total: Array) -> tuple[Array, tuple[Array, Array]]:
    heads = sums / total[:, :, None]
    return heads, (heads, total)


def _divide_backward(kept: tuple[Array, Array], g: Array) -> tuple[Array, Array]:
    heads, total = kept
    g = g / total[:, :, None]
    return g, -(g * heads).sum(axis=-1)


_divide.defvjp(_divide_forward, _divide_backward)


def _by_prompt(counts: Counts, scores: Scores, at_query: Float[Array, " H"], values: Values) -> Heads:
    """The way for scores of any size: each prompt's softmax around its own largest score, head by head."""

    def head(score_and_value: tuple[Array, Array]) -> Float[Array, "n d_h"]:
        score, value = score_and_value
        present = jnp.where(counts > 0, score, -jnp.inf)
        w = counts * jnp.exp(present - lax.stop_gradient(present.max(axis=1, keepdims=True)))
        return (w @ value) / w.sum(axis=1, keepdims=True)

    return lax.map(head, (scores.T, values.transpose(1, 0, 2))).transpose(1, 0, 2)

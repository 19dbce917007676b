"""A transformer as it is usually made: learned embeddings, layer norm before each part, heads of rank d / H, MLPs with
biases. Nothing of it is fixed, so that it shows which of the findings on simpler models survive."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from facthold._util.errors import check_positive


class Block(eqx.Module):
    """x + attention(norm(x)), then x + MLP(norm(x))."""

    norms: tuple[eqx.nn.LayerNorm, eqx.nn.LayerNorm]
    W_QKV: Float[Array, "3 H d_h d"]
    W_O: Float[Array, "H d_h d"]
    up: eqx.nn.Linear
    down: eqx.nn.Linear

    @classmethod
    def init(cls, d: int, H: int, *, key: PRNGKeyArray) -> "Block":
        k_in, k_out, k_up, k_down = jax.random.split(key, 4)
        W_QKV = jax.random.normal(k_in, (3, H, d // H, d)) * d**-0.5
        W_O = jax.random.normal(k_out, (H, d // H, d)) * d**-0.5
        mlp = eqx.nn.Linear(d, 4 * d, key=k_up), eqx.nn.Linear(4 * d, d, key=k_down)
        return cls((eqx.nn.LayerNorm(d), eqx.nn.LayerNorm(d)), W_QKV, W_O, *mlp)

    def attention(self, x: Float[Array, "T d"]) -> Float[Array, "H T T"]:
        queries, keys, _ = self._heads(x)
        scores = jnp.einsum("hti,hsi->hts", queries, keys) * queries.shape[-1] ** -0.5
        past = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        return jax.nn.softmax(jnp.where(past, scores, -jnp.inf), axis=-1)

    def __call__(self, x: Float[Array, "T d"]) -> Float[Array, "T d"]:
        heads = jnp.einsum("hts,hsi->hti", self.attention(x), self._heads(x)[2])
        x = x + jnp.einsum("hti,hid->td", heads, self.W_O)
        return x + jax.vmap(lambda row: self.down(jax.nn.relu(self.up(self.norms[1](row)))))(x)

    def _heads(self, x: Float[Array, "T d"]) -> Float[Array, "3 H T d_h"]:
        return jnp.einsum("phid,td->phti", self.W_QKV, jax.vmap(self.norms[0])(x))


class GenericTransformer(eqx.Module):
    """Blocks on learned embeddings: ``GenericTransformer.init(N=65, T=256, d=128, key=key)``."""

    E: Float[Array, "N d"]
    P: Float[Array, "T d"]
    U: Float[Array, "N d"]
    blocks: tuple[Block, ...]
    norm: eqx.nn.LayerNorm

    @classmethod
    def init(cls, N: int, T: int, d: int, H: int = 4, layers: int = 2, *, key: PRNGKeyArray) -> "GenericTransformer":
        check_positive(N=N, T=T, d=d, H=H, layers=layers)
        if d % H:
            raise ValueError(f"H={H} heads do not share d={d} dimensions evenly; take an H that divides d")
        k_e, k_p, k_u, *rest = jax.random.split(key, 3 + layers)
        E, P, U = (jax.random.normal(k, (n, d)) * d**-0.5 for k, n in ((k_e, N), (k_p, T), (k_u, N)))
        return cls(E, P, U, tuple(Block.init(d, H, key=k) for k in rest), eqx.nn.LayerNorm(d))

    def __call__(self, tokens: Int[Array, "n T"], at: Int[Array, "n q"] | None = None) -> Float[Array, "n q N"]:
        """Logits of the next token, at all positions or at these of each sequence."""
        x = self.streams(tokens)[-1]
        x = x if at is None else jnp.take_along_axis(x, at[..., None], axis=1)
        return jax.vmap(jax.vmap(self.norm))(x) @ self.U.T

    def logits(self, tokens: Int[Array, " T"], at: Int[Array, " q"]) -> Float[Array, "q N"]:
        """Of the token after these positions of one sequence."""
        return self(tokens[None], at[None])[0]

    def streams(self, tokens: Int[Array, "n T"]) -> list[Float[Array, "n T d"]]:
        """The residual stream before each block, and after the last."""
        xs = [self.E[tokens] + self.P[: tokens.shape[1]]]
        for block in self.blocks:
            xs.append(jax.vmap(block)(xs[-1]))
        return xs

    def attention(self, tokens: Int[Array, "n T"]) -> list[Float[Array, "n H T T"]]:
        """How much each position attends to each, in each head of each block."""
        return [jax.vmap(block.attention)(x) for block, x in zip(self.blocks, self.streams(tokens), strict=False)]

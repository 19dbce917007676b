"""The llama architecture, a piece at a time: what heads carry, what an MLP's neurons say, and how they are written to
the stream. Each piece is one compiled program for all layers; between pieces anything can be read or changed.

Rows of W_Q and W_K are as GGUF has them: the two numbers that a rotary angle turns stand side by side.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from facthold.lm.gguf import Config

Weights = dict[str, Array]  # of one layer, by the names of `lm.gguf.LAYER`


def normalised(x: Float[Array, "*b d"], gain: Float[Array, "d"], eps: float) -> Float[Array, "*b d"]:
    """RMSNorm: x over the root of its mean square, times a gain for each coordinate."""
    return x * scale(x, eps)[..., None] * gain


def scale(x: Float[Array, "*b d"], eps: float) -> Float[Array, "*b"]:
    """What a norm multiplies x by."""
    return jax.lax.rsqrt((x * x).mean(-1) + eps)


def turned(
    x: Float[Array, "b T n d_h"], theta: float, factors: Float[Array, "half"] | None,
    positions: Int[Array, "b T"] | None = None,
) -> Float[Array, "b T n d_h"]:  # fmt: skip
    """Rotary positions: pair i of a head's numbers turned by its position (by default 0, 1, ...) times
    theta^(-2 i / d_h)."""
    d_h = x.shape[-1]
    rate = theta ** (-jnp.arange(0, d_h, 2, dtype=jnp.float32) / d_h)
    t = jnp.arange(x.shape[1], dtype=jnp.float32) if positions is None else positions.astype(jnp.float32)
    angle = t[..., None] * (rate if factors is None else rate / factors)
    cos, sin = jnp.cos(angle)[..., None, :], jnp.sin(angle)[..., None, :]  # over the heads
    even, odd = x[..., 0::2], x[..., 1::2]
    return jnp.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape)


@partial(jax.jit, static_argnums=0)
def pattern(
    c: Config, w: Weights, x: Float[Array, "b T d"], factors: Float[Array, "half"] | None
) -> Float[Array, "b H T T"]:
    """How much each head looks from each position (rows) to each one before it."""
    return _pattern(c, w, normalised(x, w["g_A"], c.eps), factors).reshape(x.shape[0], c.H, x.shape[1], x.shape[1])


def _pattern(
    c: Config, w: Weights, y: Float[Array, "b T d"], factors: Float[Array, "half"] | None
) -> Float[Array, "b G r T T"]:
    b, T, _ = y.shape
    q = turned((y @ w["W_Q"].T).reshape(b, T, c.H, c.d_h), c.theta, factors).reshape(b, T, c.G, c.H // c.G, c.d_h)
    k = turned((y @ w["W_K"].T).reshape(b, T, c.G, c.d_h), c.theta, factors)
    scores = jnp.einsum("btgrc,bsgc->bgrts", q, k) / jnp.sqrt(jnp.float32(c.d_h))
    return jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((T, T), bool)), scores, -jnp.inf), axis=-1)


@partial(jax.jit, static_argnums=0)
def heads(
    c: Config, w: Weights, x: Float[Array, "b T d"], factors: Float[Array, "half"] | None
) -> Float[Array, "b T H d_h"]:
    """What each head brings to each position, before W_O. Prompts are padded at their end, where nobody looks."""
    b, T, _ = x.shape
    y = normalised(x, w["g_A"], c.eps)
    v = (y @ w["W_V"].T).reshape(b, T, c.G, c.d_h)
    return jnp.einsum("bgrts,bsgc->btgrc", _pattern(c, w, y, factors), v).reshape(b, T, c.H, c.d_h)


@jax.jit
def attention(w: Weights, z: Float[Array, "b T H d_h"]) -> Float[Array, "b T d"]:
    """What the heads of a layer write to the stream."""
    return z.reshape(*z.shape[:2], -1) @ w["W_O"].T


@partial(jax.jit, static_argnums=0)
def keys(c: Config, w: Weights, x: Float[Array, "b T d"]) -> Float[Array, "b T m"]:
    """What the hidden neurons of an MLP say: the input of W_down, and so the keys of the memory that it is."""
    y = normalised(x, w["g_M"], c.eps)
    return jax.nn.silu(y @ w["W_gate"].T) * (y @ w["W_up"].T)


@jax.jit
def mlp(w: Weights, k: Float[Array, "b T m"]) -> Float[Array, "b T d"]:
    """What an MLP writes to the stream."""
    return k @ w["W_down"].T


@partial(jax.jit, static_argnums=0)
def logits(c: Config, g: Float[Array, "d"], U: Float[Array, "V d"], x: Float[Array, "n d"]) -> Float[Array, "n V"]:
    return normalised(x, g, c.eps) @ U.T


@partial(jax.jit, static_argnums=0)
def losses(
    c: Config, g: Float[Array, "d"], U: Float[Array, "V d"], x: Float[Array, "n d"], y: Int[Array, "n"]
) -> Float[Array, "n"]:
    """-ln of the probability of each token y, in nats."""
    scores = normalised(x, g, c.eps) @ U.T
    return jax.nn.logsumexp(scores, -1) - jnp.take_along_axis(scores, y[:, None], -1)[:, 0]

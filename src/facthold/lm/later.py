"""What becomes of a change at one token: only this token and those after it are computed again.

A prompt is run once as it is. After a change at position p of layer l, the positions before p are what they were, in
all layers, as no token looks ahead. So a change at the last token costs one token per layer, and not the whole prompt.
"""

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from facthold.lm import forward
from facthold.lm.forward import Weights, normalised, turned
from facthold.lm.gguf import Config
from facthold.lm.model import Batch, LanguageModel

SITES = ("attention", "mlp", "heads")


class Later:
    """A batch of prompts that has been run, ready to be changed at one token of each."""

    def __init__(self, model: LanguageModel, batch: Batch, at: Int[np.ndarray, "b"]) -> None:
        """``at``: the position in each prompt where changes are made."""
        self.model, c = model, model.config
        width = int((batch.last - at).max()) + 1
        # of prompts that end sooner, what is computed after their end is never looked at
        self.positions = jnp.asarray(at[:, None] + np.arange(width))
        self.rows, self.ends = jnp.arange(len(at)), jnp.asarray(batch.last - at)
        run = model.run(batch, keep=["stream"], logits=False)
        streams = [run["stream", i] for i in range(c.L)]
        self.x = [x[self.rows[:, None], self.positions] for x in streams]
        self.keys_values = [
            _keys_values(c, w, x, model.factors, None) for w, x in zip(model.layers, streams, strict=True)
        ]
        self.values = self._written()

    def _written(self) -> dict[tuple[str, int], Array]:
        """What is computed at every site at the token that is to be changed, [b, ...]."""
        c = self.model.config
        found: dict[tuple[str, int], Array] = {}
        for i, w in enumerate(self.model.layers):
            z = _heads(c, w, self.x[i], self.positions, *self.keys_values[i], self.model.factors)
            a = forward.attention(w, z)
            m = forward.mlp(w, forward.keys(c, w, self.x[i] + a))
            found |= {("heads", i): z[:, 0], ("attention", i): a[:, 0], ("mlp", i): m[:, 0]}
        return found

    def means(self, place: str, layer: int) -> Float[Array, "b ..."]:
        """The mean of the other prompts' values at the token, for each prompt."""
        there = self.values[place, layer]
        if len(there) < 2:
            raise ValueError("mean ablation needs two prompts or more, as the mean is that of the others")
        return (there.sum(0) - there) / (len(there) - 1)

    def put(self, place: str, layer: int, value: Float[Array, "b ..."], head: int | None = None) -> Array:
        """The logits after the last token, [b, V], with ``value`` at a site; of ``heads`` perhaps that of one alone."""
        return self._said(self._changed(self.x[layer], place, layer, value, head), layer + 1)

    def put_all(self, place: str, first: int, values: Sequence[Float[Array, "b ..."]]) -> Array:
        """The same with a value at this place of each of several layers in a row."""
        x = self.x[first]
        for i, value in enumerate(values, first):
            x = self._changed(x, place, i, value)
        return self._said(x, first + len(values))

    def _changed(
        self, x: Float[Array, "b t d"], place: str, layer: int, value: Float[Array, "b ..."], head: int | None = None
    ) -> Float[Array, "b t d"]:
        """What a layer writes to the streams x that it reads, with ``value`` at one of its sites."""
        c, w = self.model.config, self.model.layers[layer]
        z = _heads(c, w, x, self.positions, *self.keys_values[layer], self.model.factors)
        if place == "heads":
            z = z.at[:, 0].set(value) if head is None else z.at[:, 0, head].set(value[:, head])
        a = forward.attention(w, z)
        if place == "attention":
            a = a.at[:, 0].set(value)
        x = x + a
        m = forward.mlp(w, forward.keys(c, w, x))
        return x + (m.at[:, 0].set(value) if place == "mlp" else m)

    def _said(self, x: Float[Array, "b t d"], layer: int) -> Array:
        """The logits after the last token, from the streams that a layer reads."""
        c, model = self.model.config, self.model
        for i in range(layer, c.L):
            x = _layer(c, model.layers[i], x, self.positions, *self.keys_values[i], model.factors)
        return model.unembed(x[self.rows, self.ends])


@partial(jax.jit, static_argnums=0)
def _keys_values(
    c: Config, w: Weights, x: Float[Array, "b T d"], factors: Array | None, positions: Int[Array, "b T"] | None
) -> tuple[Float[Array, "b T G d_h"], Float[Array, "b T G d_h"]]:
    y = normalised(x, w["g_A"], c.eps)
    shape = (*x.shape[:2], c.G, c.d_h)
    return turned((y @ w["W_K"].T).reshape(shape), c.theta, factors, positions), (y @ w["W_V"].T).reshape(shape)


@partial(jax.jit, static_argnums=0)
def _heads(
    c: Config, w: Weights, x: Float[Array, "b t d"], positions: Int[Array, "b t"], K: Float[Array, "b T G d_h"],
    V: Float[Array, "b T G d_h"], factors: Array | None,
) -> Float[Array, "b t H d_h"]:  # fmt: skip
    """What heads carry at the later positions, whose streams are x; K and V are those of the prompt as it was."""
    (b, t, _), rows = x.shape, jnp.arange(x.shape[0])[:, None]
    k, v = _keys_values(c, w, x, factors, positions)
    K, V = (old.at[rows, positions].set(new, mode="drop") for old, new in ((K, k), (V, v)))
    q = (normalised(x, w["g_A"], c.eps) @ w["W_Q"].T).reshape(b, t, c.H, c.d_h)
    q = turned(q, c.theta, factors, positions).reshape(b, t, c.G, c.H // c.G, c.d_h)
    scores = jnp.einsum("btgrc,bsgc->bgrts", q, K) / jnp.sqrt(jnp.float32(c.d_h))
    seen = jnp.arange(K.shape[1]) <= positions[:, None, None, :, None]
    shares = jax.nn.softmax(jnp.where(seen, scores, -jnp.inf), axis=-1)
    return jnp.einsum("bgrts,bsgc->btgrc", shares, V).reshape(b, t, c.H, c.d_h)


@partial(jax.jit, static_argnums=0)
def _layer(
    c: Config, w: Weights, x: Float[Array, "b t d"], positions: Int[Array, "b t"], K: Float[Array, "b T G d_h"],
    V: Float[Array, "b T G d_h"], factors: Array | None,
) -> Float[Array, "b t d"]:  # fmt: skip
    """A whole layer at the later positions."""
    x = x + forward.attention(w, _heads(c, w, x, positions, K, V, factors))
    return x + forward.mlp(w, forward.keys(c, w, x))

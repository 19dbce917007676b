"""The transformer of the slides for sequences: layers of one attention head each, asked at every position.

x_t = e_{z_t} + p_t; each layer adds W_OV sum_s beta_ts x_s, where beta_t is the softmax over s <= t of x_t^T W_KQ x_s,
and then F(x_t) where it has a feed-forward memory; logits are u_j^T x_t. The slides write the query left in the
construction, W_KQ^1 = sum_t p_t p_{t-1}^T, and right elsewhere; here it is left.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from facthold.models.memory import Memory

BLOCKS = 4  # that the queries are cut into: each block has the keys up to its end, and not all that are masked

At = Int[Array, " q"] | None  # positions that are asked; None: all of them


def attention(queries: Float[Array, "q d"], keys: Float[Array, "s d"], at: Int[Array, " q"]) -> Float[Array, "q s"]:
    """beta: how much these positions attend to each key up to them."""
    scores = queries @ keys.T
    return jax.nn.softmax(jnp.where(jnp.arange(len(keys)) <= at[:, None], scores, -jnp.inf), axis=-1)


def attended(
    queries: Float[Array, "T d"], keys: Float[Array, "T d"], values: Float[Array, "T d"], at: At
) -> Float[Array, "q d"]:
    """The sum of values by attention. All positions go a block at a time."""
    if at is not None:
        return attention(queries[at], keys, at) @ values
    T = len(keys)
    ends = sorted({-(-T * (i + 1) // BLOCKS) for i in range(BLOCKS)})
    parts = [
        attention(queries[start:end], keys[:end], jnp.arange(start, end)) @ values[:end]
        for start, end in zip([0, *ends[:-1]], ends, strict=True)
    ]
    return jnp.concatenate(parts)


class Layer(eqx.Module):
    """One head, and a feed-forward memory F where there is one."""

    W_KQ: Float[Array, "d d"]
    W_OV: Float[Array, "d d"]
    F: Memory | None = None
    scaled: bool = eqx.field(static=True, default=False)  # scores divided by sqrt(d), as in the public code
    silent_first: bool = eqx.field(static=True, default=False)
    """Whether attention writes nothing at position 0. It can only attend to itself there, and would write what it
    writes *after* that token elsewhere."""

    @property
    def asks(self) -> Float[Array, "d d"]:
        """What queries are multiplied with."""
        return self.W_KQ * (self.W_KQ.shape[0] ** -0.5 if self.scaled else 1.0)

    def __call__(self, x: Float[Array, "T d"], at: At = None) -> Float[Array, "q d"]:
        """The stream of a sequence after this layer, at the positions that are asked."""
        return self.after(x, attended(x @ self.asks, x, x, at) @ self.W_OV.T, at)

    def after(self, x: Float[Array, "T d"], added: Float[Array, "q d"], at: At) -> Float[Array, "q d"]:
        """The stream once attention has ``added`` to it."""
        x, t = (x, jnp.arange(len(x))) if at is None else (x[at], at)
        x = x + (jnp.where(t[:, None] == 0, 0.0, added) if self.silent_first else added)
        return x if self.F is None else x + self.F(x)


class Tables(eqx.Module):
    """A model as it is computed: what the first layer asks and writes is a sum of two rows, of a token and a position,
    so that these are multiplied with W_KQ and W_OV once, and not at each place where they stand."""

    E: Float[Array, "N d"]
    P: Float[Array, "T d"]
    U: Float[Array, "N d"]
    queries: tuple[Float[Array, "N d"], Float[Array, "T d"]]
    values: tuple[Float[Array, "N d"], Float[Array, "T d"]]
    layers: tuple[Layer, ...]

    def logits(self, tokens: Int[Array, " T"], at: At = None) -> Float[Array, "q N"]:
        """Of the token after each position of one sequence that is asked."""
        *_, x = self.streams(tokens)
        last = self.layers[-1]
        x = self._first(tokens, at) if len(self.layers) == 1 else last(x, at)
        return x @ self.U.T

    def streams(self, tokens: Int[Array, " T"]) -> list[Float[Array, "T d"]]:
        """The residual stream of one sequence before each layer."""
        xs = [_rows((self.E, self.P), tokens)]
        for i, layer in enumerate(self.layers[:-1]):
            xs.append(layer(xs[-1]) if i else self._first(tokens))
        return xs

    def _first(self, tokens: Int[Array, " T"], at: At = None) -> Float[Array, "q d"]:
        x, queries, values = (_rows(table, tokens) for table in ((self.E, self.P), self.queries, self.values))
        return self.layers[0].after(x, attended(queries, x, values, at), at)


def _rows(table: tuple[Float[Array, "N d"], Float[Array, "T d"]], tokens: Int[Array, " T"]) -> Float[Array, "T d"]:
    of_tokens, of_positions = table
    return of_tokens[tokens] + of_positions[: len(tokens)]


class CausalTransformer(eqx.Module):
    """Embeddings of tokens and positions, layers, and the embeddings of outputs."""

    E: Float[Array, "N d"]
    P: Float[Array, "T d"]
    U: Float[Array, "N d"]
    layers: tuple[Layer, ...]

    @property
    def d(self) -> int:
        return self.E.shape[1]

    @property
    def tables(self) -> Tables:
        first = self.layers[0]
        asks, writes = first.asks, first.W_OV.T
        queries, values = (self.E @ asks, self.P @ asks), (self.E @ writes, self.P @ writes)
        return Tables(self.E, self.P, self.U, queries, values, self.layers)

    def __call__(self, tokens: Int[Array, "n T"], at: Int[Array, "n q"] | None = None) -> Float[Array, "n q N"]:
        """Logits of the next token, at all positions or at these of each sequence. A sequence at a time: what it takes
        stays in the cache, and a batch of them is no faster."""
        tables = self.tables
        if at is None:
            return lax.map(tables.logits, tokens)
        return lax.map(lambda one: tables.logits(*one), (tokens, at))

    def attention(self, tokens: Int[Array, " T"]) -> list[Float[Array, "T T"]]:
        """How much each position of one sequence attends to each, in each layer."""
        xs, t = self.tables.streams(tokens), jnp.arange(len(tokens))
        return [attention(x @ layer.asks, x, t) for layer, x in zip(self.layers, xs, strict=True)]


def split(model: CausalTransformer, trained: Sequence[str]) -> tuple[CausalTransformer, CausalTransformer]:
    """The model without all but the ``trained`` parts, and these others: `eqx.combine` puts them together. A part is
    'embeddings' or a field of a layer, such as 'W_KQ^1', 'W_OV^2' or 'F^2'."""
    kept = jax.tree.map(lambda _: False, model)
    for name in trained:
        kept = eqx.tree_at(lambda m, name=name: _part(m, name), kept, replace_fn=_all_true)  # type: ignore[misc]
    return eqx.partition(model, kept)


def _all_true(part: object) -> object:
    return jax.tree.map(lambda _: True, part)


def _part(model: CausalTransformer, name: str) -> object:
    if name == "embeddings":
        return (model.E, model.P, model.U)
    matrix, _, layer = name.partition("^")
    return getattr(model.layers[int(layer) - 1], matrix)


def moved(trained: CausalTransformer, tables: Tables) -> Any:
    """Which arrays of the tables depend on a part that is trained: the others need no gradient."""
    first, embeddings = trained.layers[0], trained.E is not None
    own = jax.tree.map(lambda _: False, tables)
    layers = jax.tree.map(lambda leaf: leaf is not None, trained.layers, is_leaf=lambda leaf: leaf is None)
    asks, writes = (embeddings or part is not None for part in (first.W_KQ, first.W_OV))
    of_first = (asks, asks), (writes, writes)
    fields = (embeddings, embeddings, embeddings, *of_first, layers)
    return eqx.tree_at(
        lambda t: (t.E, t.P, t.U, t.queries, t.values, t.layers), own, fields, is_leaf=lambda x: x is None
    )  # fmt: skip

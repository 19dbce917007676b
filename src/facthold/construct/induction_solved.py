"""Beyond the slides: the three memories of an induction head, each found by a convex problem instead of a sum.

An outer product leaves noise of all of its terms in every score. Here each matrix minimises a cross entropy that is
convex in it, on sequences of the task, one matrix after the other and with no gradient through the others:

1. W_KQ^1: from x_t to x_{t-1} among all x_s, s <= t. The streams are e + p, so that what tokens add is part of it. A
   position counts as often as it is the first to hold an output that is asked for later; the others are only asked not
   to look at a trigger that does not stand before them.
2. W_KQ^2: from a trigger to the position after its first occurrence, among all s <= t but those after its other ones,
   on the streams that layer 1 really leaves.
3. W_OV^2: from what layer 2 then brings to the output, among all tokens.

Embeddings, positions and W_OV^1 are random and stay as they are, as in the construction.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from facthold._util.errors import check_positive
from facthold._util.keys import fold
from facthold.construct.induction import untrained
from facthold.construct.solve import minimise
from facthold.context.sequences import BigramTask, Sequences
from facthold.models.causal import CausalTransformer, Layer

SEQUENCES = 512  # that each matrix is solved on
ROWS = 16  # positions of each that are asked: many sequences with few positions tell more than the reverse
READ = 1024  # sequences that the readout is solved on: it has as many parameters, and a fact for each trigger only
ITERATIONS = 60  # of each solve, at most
NEEDED = 8  # rows of the first layer that are drawn by need
RIDGE = 1e-3  # of the mean square of a matrix's entries, times d: what no sequence asks for stays small


class Wanted(NamedTuple):
    """Where some positions of each sequence should look rather than where."""

    at: Int[Array, "n q"]
    good: Bool[Array, "n q T"]
    bad: Bool[Array, "n q T"]
    weight: Float[Array, "n q"]


def solved_head(
    task: BigramTask, d: int, *, key: PRNGKeyArray, silent_first: bool = True, iterations: int = ITERATIONS
) -> CausalTransformer:
    """The solved head on the embeddings and with the W_OV^1 of `untrained`, for sequences of the task."""
    check_positive(iterations=iterations)
    start = untrained(task.N, task.T, d, key=key, silent_first=silent_first)
    first, second = start.layers
    draw = eqx.filter_jit(lambda task, key, n: task.draw(n, key=key))
    sequences = draw(task, fold(key, "solved"), SEQUENCES)
    x = start.E[sequences.tokens] + start.P
    W = _attending(x, _previous(sequences, key=fold(key, "rows")), iterations)
    first = eqx.tree_at(lambda layer: layer.W_KQ, first, W)
    y = jax.lax.map(first, x)
    W = _attending(y, _after_trigger(sequences, key=fold(key, "queries")), iterations)
    second = eqx.tree_at(lambda layer: layer.W_KQ, second, W)
    model = CausalTransformer(start.E, start.P, start.U, (first, second))
    W = _reading(model, draw(task, fold(key, "read"), READ), fold(key, "outputs"), iterations)
    return eqx.tree_at(lambda m: m.layers[1].W_OV, model, W)


@eqx.filter_jit
def _previous(sequences: Sequences, *, key: PRNGKeyArray) -> Wanted:
    """Rows of the first layer. Some are drawn by how many later outputs are first told there, and should look at the
    position before; the others evenly, and should look at no trigger but the one before them."""
    n, T = sequences.tokens.shape
    k_needed, k_any = jax.random.split(key)
    told = sequences.told
    used = (told & (jnp.cumsum(told, axis=2) == 1)).sum(axis=1)
    needed = jax.random.categorical(k_needed, jnp.log(used)[:, None], shape=(n, NEEDED))
    other = jax.random.randint(k_any, (n, ROWS - NEEDED), 1, T)
    at = jnp.concatenate([needed, other], axis=1)
    s, t = jnp.arange(T), at[..., None]
    before = s == t - 1
    trigger = jnp.concatenate([sequences.outputs[:, 1:], jnp.zeros((n, 1), bool)], axis=1)[:, None]
    same = sequences.tokens[:, None] == jnp.take_along_axis(sequences.tokens, at - 1, axis=1)[..., None]
    first = (jnp.arange(ROWS) < NEEDED)[:, None]
    bad = (s <= t) & jnp.where(first, ~before, trigger & ~same)
    good = (s <= t) & jnp.where(first, before, ~bad)
    weight = used.any(axis=1)[:, None] & bad.any(axis=2)
    return Wanted(at, good, bad, weight / weight.sum())


@eqx.filter_jit
def _after_trigger(sequences: Sequences, *, key: PRNGKeyArray) -> Wanted:
    """Rows of the second layer: triggers whose output the context tells, a random choice."""
    told = sequences.told
    at, counted = _some(told.any(axis=2), ROWS, key)
    told = jnp.take_along_axis(told, at[..., None], axis=1)
    past = jnp.arange(told.shape[2]) <= at[..., None]
    return Wanted(at, told & (jnp.cumsum(told, axis=2) == 1), past & ~told, counted / counted.sum())


def _some(asked: Bool[Array, "n T"], q: int, key: PRNGKeyArray) -> tuple[Int[Array, "n q"], Bool[Array, "n q"]]:
    """Up to q positions of each sequence that are asked, and which of them are."""
    order = jnp.where(asked, jax.random.uniform(key, asked.shape), -1.0)
    at = jax.lax.top_k(order, q)[1]
    return at, jnp.take_along_axis(asked, at, axis=1)


def _attending(x: Float[Array, "n T d"], wanted: Wanted, iterations: int) -> Float[Array, "d d"]:
    """The W for which attention softmax_s(x_t^T W x_s) looks where it should, by least `_attention_loss`."""
    d = x.shape[-1]
    queries = jnp.take_along_axis(x, wanted.at[..., None], axis=1)
    args = (queries, x, wanted.good, wanted.bad, wanted.weight)
    return jnp.asarray(minimise(_attention_loss, np.zeros((d, d)), args, max_iterations=iterations), jnp.float32)


def _attention_loss(W: Array, queries: Array, keys: Array, good: Array, bad: Array, weight: Array) -> Array:
    """At least -log of the share that good positions have of the attention to good and bad ones. With one good position
    it is that, the cross entropy. With n of them it has log n + the mean of their scores in place of log sum exp: that
    is less, so that the loss is more, and it is convex."""
    scores = jnp.einsum("nqd,nsd->nqs", queries @ W, keys)
    n = jnp.maximum(good.sum(axis=-1), 1)
    ours = jnp.where(good, scores, 0.0).sum(axis=-1) / n + jnp.log(n)
    theirs = jax.nn.logsumexp(jnp.where(bad, scores, -1e9), axis=-1)
    return (weight * jax.nn.softplus(theirs - ours)).sum() + RIDGE * len(W) * (W**2).mean()


def _reading(model: CausalTransformer, sequences: Sequences, key: PRNGKeyArray, iterations: int) -> Float[Array, "d d"]:
    """The W_OV^2 of least cross entropy of the outputs, given where layer 2 looks."""
    (first, second), d = model.layers, model.d
    at, counted = _some(sequences.told.any(axis=2), ROWS // 2, key)

    @eqx.filter_jit
    def streams(model: CausalTransformer, tokens: Array, at: Array) -> tuple[Array, Array]:
        def one(given: tuple[Array, Array]) -> tuple[Array, Array]:
            y = first(model.E[given[0]] + model.P)
            return y[given[1]], Layer(second.W_KQ, jnp.eye(d))(y, given[1]) - y[given[1]]

        return jax.lax.map(one, (tokens, at))

    targets = jnp.take_along_axis(sequences.tokens, at + 1, axis=1)
    args = (model.U, *streams(model, sequences.tokens, at), targets, counted / counted.sum())
    return jnp.asarray(minimise(_reading_loss, np.zeros((d, d)), args, max_iterations=iterations), jnp.float32)


def _reading_loss(W: Array, U: Array, y: Array, brought: Array, targets: Array, weight: Array) -> Array:
    logits = (y + brought @ W.T) @ U.T
    right = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return (weight * (jax.nn.logsumexp(logits, axis=-1) - right)).sum() + RIDGE * len(W) * (W**2).mean()

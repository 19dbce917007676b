"""Where the heads of a model look on the bigram task: at the previous token, at what stood after the same trigger."""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from facthold.context.sequences import BigramTask, Sequences
from facthold.models.causal import CausalTransformer

Betas = list[Float[Array, "n H T T"]]  # attention of each layer


def attentions(model: Any, sequences: Sequences) -> Betas:
    """Of a model with one head in each layer, or of one with several."""
    if isinstance(model, CausalTransformer):
        return [beta[:, None] for beta in lax.map(model.attention, sequences.tokens)]
    return list(model.attention(sequences.tokens))


class Looks(NamedTuple):
    """Mean shares of the attention of one layer, each of the head that has most of it."""

    previous: Float[Array, ""]  # at the previous token, from all positions but the first
    needed: Float[Array, ""]  # the same from where an output first stands, as often as it is asked for later
    told: Float[Array, ""]  # from a trigger whose output the context tells, at the positions that hold it
    evenly: Float[Array, ""]  # what `told` would be if all positions up to the trigger had the same attention


@eqx.filter_jit
def looks(model: Any, task: BigramTask, n: int, *, key: Array) -> list[Looks]:
    """Of each layer, over n fresh sequences."""
    sequences = task.draw(n, key=key)
    told = sequences.told
    first = (told & (jnp.cumsum(told, axis=2) == 1)).sum(axis=1)[:, 1:]  # (n, s): outputs that are first told there
    asks = told.any(axis=2)
    evenly = (told.sum(axis=2) / jnp.arange(1, told.shape[1] + 1) * asks).sum() / asks.sum()

    def layer(beta: Float[Array, "n H T T"]) -> Looks:
        before = jnp.diagonal(beta, offset=-1, axis1=2, axis2=3)  # (n, H, T - 1)
        at_told = (beta * told[:, None]).sum(axis=3)
        return Looks(
            before.mean(axis=(0, 2)).max(), ((before * first[:, None]).sum(axis=(0, 2)) / first.sum()).max(),
            (at_told.sum(axis=(0, 2)) / asks.sum()).max(), evenly,
        )  # fmt: skip

    return [layer(beta) for beta in attentions(model, sequences)]


def shown(task: BigramTask, length: int, *, key: Array, among: int = 64) -> Sequences:
    """One sequence to be looked at: of some, the one with most triggers whose output the first tokens tell."""
    sequences = task.draw(among, key=key)
    tokens, asked = np.asarray(sequences.tokens)[:, :length], np.asarray(sequences.counted)[:, 1:length]
    triggers = [len({int(z) for z in row[:-1][told]}) for row, told in zip(tokens, asked, strict=True)]
    best = max(range(among), key=triggers.__getitem__)
    return Sequences(*(part[best : best + 1] for part in sequences))


def maps(model: Any, sequence: Sequences, length: int) -> list[list[list[float]]]:
    """The attention of each of the first tokens of one sequence to those up to it, in each layer, rounded. Of several
    heads the one that has most on the previous token (first layer) or on what stood after the same trigger (others)."""
    betas, told = eqx.filter_jit(attentions)(model, sequence), sequence.told
    chosen = []
    for i, beta in enumerate(betas):
        mass = (beta * told[:, None]).sum(axis=(0, 2, 3)) if i else jnp.trace(beta[0], offset=-1, axis1=1, axis2=2)
        chosen.append(np.asarray(beta[0, int(mass.argmax()), :length, :length]))
    return [_rounded(beta) for beta in chosen]


def _rounded(rows: Float[np.ndarray, "t t"]) -> list[list[float]]:
    return [[round(float(x), 3) for x in row[: t + 1]] for t, row in enumerate(rows)]

"""Where models look on the bigram task, and how likely they find what the context tells: of each layer how much of its
attention is on the previous token and on outputs, and of a noisy task what is said in the end."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from facthold.context.sequences import BigramTask, Sequences
from facthold.models.causal import CausalTransformer, attention

Betas = list[Float[Array, "n H T T"]]  # attention of each layer


def share_on(beta: Float[Array, "... q s"], wanted: Bool[Array, "... q s"]) -> Float[Array, "... q"]:
    """How much of its attention each position has on those that are wanted."""
    return (beta * wanted).sum(axis=-1)


def share_evenly(wanted: Bool[Array, "... q s"]) -> Float[Array, "... q"]:
    """The same if each of the positions 0, 1, ... paid the same attention to all up to it."""
    return wanted.sum(axis=-1) / jnp.arange(1, wanted.shape[-2] + 1)


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
    evenly = (share_evenly(told) * asks).sum() / asks.sum()

    def layer(beta: Float[Array, "n H T T"]) -> Looks:
        before = jnp.diagonal(beta, offset=-1, axis1=2, axis2=3)  # (n, H, T - 1)
        return Looks(
            before.mean(axis=(0, 2)).max(), ((before * first[:, None]).sum(axis=(0, 2)) / first.sum()).max(),
            (share_on(beta, told[:, None]).sum(axis=(0, 2)) / asks.sum()).max(), evenly,
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
        mass = share_on(beta, told[:, None]).sum(axis=(0, 2)) if i else jnp.trace(beta[0], offset=-1, axis1=1, axis2=2)
        chosen.append(np.asarray(beta[0, int(mass.argmax()), :length, :length]))
    return [_rounded(beta) for beta in chosen]


def _rounded(rows: Float[np.ndarray, "t t"]) -> list[list[float]]:
    return [[round(float(x), 3) for x in row[: t + 1]] for t, row in enumerate(rows)]


def unambiguous(sequences: Sequences, task: BigramTask) -> Float[Array, " n"]:
    """1 for each sequence whose outputs are neither the noise token, which would be right and wrong at once, nor a
    trigger, after which nothing else comes; 0 for the others. For sequences without noise."""
    assert task.fixed is not None
    not_asked = jnp.isin(sequences.tokens, jnp.append(task.fixed, task.noise_token))
    return 1.0 - (sequences.outputs & not_asked).any(axis=1)


@eqx.filter_jit
def recalled_in_context(
    model: CausalTransformer, sequences: Sequences, kept: Float[Array, " n"], noise_token: Int[Array, ""]
) -> tuple[dict[str, Float[Array, " n"]], Float[Array, " n"]]:
    """Sums of what is measured over the outputs that the context tells, of each sequence, and how many these are:

    - p_right, p_noise: probabilities of the right output and of the noise token;
    - margin: the logit of the right output minus that of the noise token;
    - accuracy: whether the right output is the arg max over all tokens;
    - looks: how much attention the last layer pays to outputs so far (of one trigger: what `Looks` calls told);
      ``looks_evenly``: how much it would, if it paid the same to all positions.
    """
    tables, last = model.tables, model.layers[-1]

    def one(sequence: tuple[Array, Array, Array, Array]) -> tuple[dict[str, Array], Array]:
        tokens, outputs, before, kept = sequence
        counted, right, t = kept * (outputs & (before > 0))[1:], tokens[1:], jnp.arange(len(tokens) - 1)
        *_, x = tables.streams(tokens)
        beta = attention((x @ last.asks)[t], x, t)
        logits = last.after(x, beta @ x @ last.W_OV.T, t) @ tables.U.T
        p, past = jax.nn.softmax(logits), (jnp.arange(len(tokens)) <= t[:, None]) & outputs
        each = {
            "p_right": p[t, right], "p_noise": p[:, noise_token],
            "margin": logits[t, right] - logits[:, noise_token], "accuracy": logits.argmax(axis=1) == right,
            "looks": share_on(beta, past), "looks_evenly": share_evenly(past),
        }  # fmt: skip
        return {name: (counted * value).sum() for name, value in each.items()}, counted.sum()

    return lax.map(one, (*sequences, kept))

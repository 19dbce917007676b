"""Softmax attention over token counts: sum_z c(z) w(z) value(z) / sum_z c(z) w(z) with w(z) = exp(score(z)).

One table of w over the vocabulary serves all prompts, but float32 holds no more than exp(±87), and trained scores
outgrow that. So there are *bands*, each with a table that begins at a base of its own. The base of the first is the
score of the last token, the query, which is in every prompt; that of the next is the smallest score beyond the band
before. A prompt takes the highest band in which one of its tokens has weight; what is below is nothing beside it.
Almost always there is one band, in training seldom more than two, and never more than there are tokens.
"""

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

LOW, FLOOR, HIGH = -80.0, -50.0, 60.0
"""Exponents of a table. A band's base stands at FLOOR, what is below LOW counts for nothing beside it, and up to HIGH
all sums and gradients stay within float32."""
STRIDE = HIGH - FLOOR

Counts = Float[Array, "n tokens"]
Scores = Float[Array, "tokens H"]
Values = Float[Array, "tokens H d_h"]
Heads = Float[Array, "n H d_h"]
Kept = tuple[Array, ...]
State = TypeVar("State")


@jax.custom_vjp
def attend_counts(counts: Counts, scores: Scores, at_query: Float[Array, " H"], values: Values) -> Heads:
    """The heads' outputs, for scores of any size. ``at_query`` are those of the token that every prompt holds.

    The gradient is written by hand: it needs the tables, but not what each band remembers, and it does not square
    the normaliser, which would leave float32. A softmax does not change when all scores are shifted, so ``at_query``
    has none.
    """
    return _forward(counts, scores, at_query, values)[0]


def _forward(counts: Counts, scores: Scores, at_query: Array, values: Values) -> tuple[Heads, Kept]:
    above = scores - at_query
    n, H, d_h = len(counts), *values.shape[1:]

    def higher(b: Array, base: Array, so_far: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        sums, total, band = so_far
        w = _weights(above, base)
        both = counts @ jnp.concatenate([(w[:, :, None] * values).reshape(-1, H * d_h), w], axis=1)
        in_band, weight = both[:, :-H].reshape(-1, H, d_h), both[:, -H:]  # sum_z c(z) w(z) value(z), sum_z c(z) w(z)
        here = (weight > jnp.exp(FLOOR - 1)) | (b == 0)  # the base alone is enough
        return jnp.where(here[:, :, None], in_band, sums), jnp.where(here, weight, total), jnp.where(here, b, band)

    nothing = jnp.zeros((n, H, d_h)), jnp.zeros((n, H)), jnp.zeros((n, H), jnp.int32)
    sums, total, band = _over_bands(higher, above, nothing)
    heads = sums / total[:, :, None]
    return heads, (counts, above, values, heads, total, band)


def _backward(kept: Kept, g: Heads) -> tuple[None, Scores, None, Values]:
    counts, above, values, heads, total, band = kept
    tokens, H, d_h = values.shape
    g = g / total[:, :, None]
    g_total = -(g * heads).sum(axis=-1)

    def add(b: Array, base: Array, so_far: tuple[Array, Array]) -> tuple[Array, Array]:
        here = band == b
        ours = jnp.concatenate([jnp.where(here[:, :, None], g, 0).reshape(-1, H * d_h), jnp.where(here, g_total, 0)], 1)
        back = counts.T @ ours
        w, by_value = _weights(above, base), back[:, :-H].reshape(tokens, H, d_h)
        d_scores = w * ((by_value * values).sum(axis=-1) + back[:, -H:])
        return so_far[0] + d_scores, so_far[1] + w[:, :, None] * by_value

    d_scores, d_values = _over_bands(add, above, (jnp.zeros_like(above), jnp.zeros_like(values)))
    return None, d_scores, None, d_values


attend_counts.defvjp(_forward, _backward)


def _over_bands(visit: Callable[[Array, Array, State], State], above: Scores, state: State) -> State:
    """``visit`` every band, by its number and each head's base. A base is one of the scores, so that differences to it
    are exact at any size. A nan score makes the result nan; an infinite one counts as the highest of its prompt."""

    def step(carry: tuple[Array, Array, State]) -> tuple[Array, Array, State]:
        b, base, state = carry
        beyond = (above >= base + STRIDE) & (above > base)  # the sum may round to the base itself
        following = jnp.where(beyond, above, jnp.inf).min(axis=0)
        return b + 1, following, visit(b, base, state)

    first = jnp.int32(0), jnp.zeros_like(above[0]), state
    return lax.while_loop(lambda carry: jnp.isfinite(carry[1]).any(), step, first)[2]


def _weights(above: Scores, base: Float[Array, " H"]) -> Scores:
    return jnp.exp(jnp.clip(above - base + FLOOR, LOW, HIGH))

"""Softmax attention over token counts: sum_z c(z) w(z) value(z) / sum_z c(z) w(z) with w(z) = exp(score(z)).

One table of w over the vocabulary serves all prompts, but float32 holds no more than exp(±87), and trained scores
outgrow that. So there are *bands*: the table of band b is shifted down by b STRIDE. A prompt takes the highest band in
which one of its tokens has weight; what is below is nothing beside it. Its last token, the query, is in every prompt,
and has weight in band 0. Almost always there is one band, and in training seldom more than two.
"""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

LOW, FLOOR, HIGH = -80.0, -50.0, 60.0
"""Exponents of a table. The query stands at FLOOR in band 0, what is below LOW counts for nothing beside FLOOR, and
up to HIGH all sums and gradients stay within float32."""
STRIDE = HIGH - FLOOR

Counts = Float[Array, "n tokens"]
Scores = Float[Array, "tokens H"]
Values = Float[Array, "tokens H d_h"]
Heads = Float[Array, "n H d_h"]
Kept = tuple[Array, ...]


@jax.custom_vjp
def attend_counts(counts: Counts, scores: Scores, at_query: Float[Array, " H"], values: Values) -> Heads:
    """The heads' outputs, for scores of any size. ``at_query`` are those of the token that every prompt holds.

    The gradient is written by hand: it needs the tables, but not what each band remembers, and it does not square
    the normaliser, which would leave float32. A softmax does not change when all scores are shifted, so ``at_query``
    has none.
    """
    return _forward(counts, scores, at_query, values)[0]


def _forward(counts: Counts, scores: Scores, at_query: Array, values: Values) -> tuple[Heads, Kept]:
    shifted = scores - at_query + FLOOR
    sums, total = _sums(counts, _weights(shifted, 0), values)

    def higher(b: Array, so_far: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        sums, total, band = so_far
        in_band, weight = _sums(counts, _weights(shifted, b), values)
        here = weight >= jnp.exp(FLOOR)
        return (
            jnp.where(here[:, :, None], in_band, sums), jnp.where(here, weight, total), jnp.where(here, b, band)
        )  # fmt: skip

    sums, total, band = lax.fori_loop(1, _bands(shifted), higher, (sums, total, jnp.zeros(total.shape, jnp.int32)))
    heads = sums / total[:, :, None]
    return heads, (counts, shifted, values, heads, total, band)


def _backward(kept: Kept, g: Heads) -> tuple[None, Scores, None, Values]:
    counts, shifted, values, heads, total, band = kept
    tokens, H, d_h = values.shape
    g = g / total[:, :, None]
    g_total = -(g * heads).sum(axis=-1)

    def add(b: Array | int, so_far: tuple[Array, Array]) -> tuple[Array, Array]:
        here = band == b
        ours = jnp.concatenate([jnp.where(here[:, :, None], g, 0).reshape(-1, H * d_h), jnp.where(here, g_total, 0)], 1)
        back = counts.T @ ours
        w, by_value = _weights(shifted, b), back[:, :-H].reshape(tokens, H, d_h)
        d_scores = w * ((by_value * values).sum(axis=-1) + back[:, -H:])
        return so_far[0] + d_scores, so_far[1] + w[:, :, None] * by_value

    first = add(0, (jnp.zeros_like(shifted), jnp.zeros_like(values)))
    d_scores, d_values = lax.fori_loop(1, _bands(shifted), add, first)
    return None, d_scores, None, d_values


attend_counts.defvjp(_forward, _backward)


def _bands(shifted: Scores) -> Int[Array, ""]:
    """How many bands the scores need. Those that are not finite need none: the result is then not finite either."""
    highest = shifted.max()
    return jnp.where(jnp.isfinite(highest), 1 + (jnp.maximum(highest - FLOOR, 0) // STRIDE), 1).astype(jnp.int32)


def _weights(shifted: Scores, b: Array | int) -> Scores:
    return jnp.exp(jnp.clip(shifted - b * STRIDE, LOW, HIGH))


def _sums(counts: Counts, w: Scores, values: Values) -> tuple[Heads, Float[Array, "n H"]]:
    """sum_z c(z) w(z) value(z) and sum_z c(z) w(z), for every prompt and head."""
    tokens, H, d_h = values.shape
    sums = counts @ jnp.concatenate([(w[:, :, None] * values).reshape(tokens, H * d_h), w], axis=1)
    return sums[:, :-H].reshape(-1, H, d_h), sums[:, -H:]

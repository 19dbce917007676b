"""What can be predicted of outputs in context without an induction head: what every accuracy is to be compared with."""

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from facthold.context.sequences import Sequences

Counts = tuple[Array, Array, Array, Array]
NAMES = ("bigram", "mode", "counts")


@eqx.filter_jit
def baselines(sequences: Sequences, pi_b: Float[Array, "N N"]) -> dict[str, Float[Array, ""]]:
    """The share of the outputs that the context tells (`Sequences.counted`) that simple rules have right:

    - bigram: the most likely token after the trigger by the global bigrams;
    - mode: the most frequent output so far in this sequence, whatever its trigger;
    - counts: the token whose count, less what the global bigrams explain of it, is nearest to the number of outputs
      that the trigger has had. It knows how often each token has occurred, and not in which order.
    """
    tokens, outputs, _ = (jnp.asarray(x).T for x in sequences)
    n, N = tokens.shape[1], len(pi_b)
    after = jnp.concatenate([pi_b, jnp.zeros((1, N))])  # before the first token nothing is expected
    best = after.argmax(axis=1)

    def step(carry: Counts, now: tuple[Array, Array]) -> tuple[Counts, Int[Array, "3 n"]]:
        seen, told, explained, z = carry  # counts of tokens, of outputs, of tokens by pi_b; and the last token
        token, is_output = now
        had = jnp.take_along_axis(seen, z[:, None] % N, axis=1) - 1
        by_counts = jnp.abs(seen - explained - had).argmin(axis=1)
        guesses = jnp.stack([best[z], told.argmax(axis=1), by_counts])
        here = jnp.arange(N) == token[:, None]
        told, explained = told + (here & is_output[:, None]), explained + jnp.where(is_output[:, None], 0.0, after[z])
        return (seen + here, told, explained, token), guesses

    zero = jnp.zeros((n, N))
    _, guesses = lax.scan(step, (zero, zero, zero, jnp.full(n, N, jnp.int32)), (tokens, outputs))
    counted = sequences.counted.T
    right = ((guesses == tokens[:, None]) & counted[:, None]).sum(axis=(0, 2))
    return dict(zip(NAMES, right / counted.sum(), strict=True))

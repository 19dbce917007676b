"""Where the context tells the next token: how likely a model finds it, and where its last layer looks for it."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from facthold.context.sequences import BigramTask, Sequences
from facthold.models.causal import CausalTransformer, attention

MEASURES = ("p_right", "p_noise", "margin", "accuracy", "looks", "looks_evenly")


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
    - looks: how much attention the last layer pays to outputs of the trigger so far; ``looks_evenly``: how much it
      would, if it paid the same to all positions.
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
            "looks": (beta * past).sum(axis=1), "looks_evenly": past.sum(axis=1) / (t + 1),
        }  # fmt: skip
        return {name: (counted * value).sum() for name, value in each.items()}, counted.sum()

    return lax.map(one, (*sequences, kept))

"""One gradient step for a global bigram: in a feed-forward memory, and in attention that is still even (slides).

Token 0 is the trigger and stands at the end of every sequence; before it stand T - 1 others, uniform. What follows is
token 1, tau, with probability alpha, and otherwise any other token alike. Embeddings are one-hot: both memories are one
matrix, from zero, and they differ only in what they read:

- ``feed-forward``: the last token;
- ``attention``: the mean of the tokens before it, as of a head that has not learnt where to look;
- ``attention to all``: the mean of all T tokens, of which the trigger is one.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray

from facthold._util.keys import fold
from facthold.dynamics import READERS
from facthold.measure.recall import right

TRIGGER, TAU = 0, 1
GRID = 4  # numbers of samples are padded to its powers, as each one is compiled


def sequences(n: int, N: int, T: int, alpha: float, *, key: PRNGKeyArray) -> tuple[Int[Array, "n T"], Int[Array, " n"]]:
    """Sequences that end in the trigger, and what follows."""
    k_context, k_tau, k_other = jax.random.split(key, 3)
    context = jax.random.randint(k_context, (n, T - 1), 1, N)
    other = (TAU + jax.random.randint(k_other, (n,), 1, N)) % N
    labels = jnp.where(jax.random.bernoulli(k_tau, alpha, (n,)), TAU, other)
    return jnp.concatenate([context, jnp.full((n, 1), TRIGGER)], axis=1), labels


def read(reader: str, tokens: Int[Array, "n T"]) -> Int[Array, "n read"]:
    """The tokens whose mean embedding a memory gets."""
    return {"feed-forward": tokens[:, -1:], "attention": tokens[:, :-1], "attention to all": tokens}[reader]


def logits(W: Float[Array, "N N"], tokens: Int[Array, "n read"]) -> Float[Array, "n N"]:
    """W times the mean of one-hot embeddings: of columns of W, which stand here as rows."""
    return W[tokens].mean(axis=1)


def one_step(
    tokens: Int[Array, "n read"], labels: Int[Array, " n"], counted: Float[Array, " n"], N: int
) -> Float[Array, "N N"]:
    """W after a step of size 1 from zero on the mean cross entropy of the samples that are counted."""

    def loss(W: Float[Array, "N N"]) -> Float[Array, ""]:
        each = optax.softmax_cross_entropy_with_integer_labels(logits(W, tokens), labels)
        return (counted * each).sum() / counted.sum()

    return -jax.grad(loss)(jnp.zeros((N, N)))


def whole(scores: Float[Array, "n N"], unit: Int[Array, ""]) -> Float[Array, "n N"]:
    """Differences to the first token in units of one token that a sample and a prompt share. They are whole numbers but
    for rounding, which would decide between equal scores."""
    return jnp.round((scores - scores[:, :1]) * unit)


@eqx.filter_jit
def _hits(
    reader: str, n: Int[Array, ""], most: int, N: int, T: int, alpha: float, prompts: int, keys: Key[Array, " sets"]
) -> Float[Array, ""]:
    def one(key: PRNGKeyArray) -> Float[Array, ""]:
        k_train, k_ask = jax.random.split(key)
        tokens, labels = sequences(most, N, T, alpha, key=k_train)
        W = one_step(read(reader, tokens), labels, (jnp.arange(most) < n).astype(jnp.float32), N)
        asked = read(reader, sequences(prompts, N, T, alpha, key=k_ask)[0])
        return right(whole(logits(W, asked), n * asked.shape[1] ** 2), jnp.full(prompts, TAU)).mean()

    return jax.lax.map(one, keys).mean()


def recall(
    reader: str, n: int, N: int, T: int, alpha: float, *, sets: int, prompts: int, key: PRNGKeyArray
) -> float:  # fmt: skip
    """The share of fresh prompts after which tau is the arg max, over independent sets of n samples. The bigram is the
    same for all prompts of the feed-forward memory: one is enough there."""
    if reader not in READERS:
        raise ValueError(f"reader={reader!r} must be one of {', '.join(READERS)}")
    most = GRID ** int(np.ceil(np.log(max(n, 2)) / np.log(GRID) - 1e-9))
    keys = jax.random.split(fold(key, n), sets)
    return float(_hits(reader, jnp.asarray(n), most, N, T, alpha, prompts, keys))

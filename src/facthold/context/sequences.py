"""The bigram task of the slides: each trigger is followed by its own output token, another one in each sequence.

A sequence starts from the unigrams; after a trigger q_k comes its output o_k, which is drawn once for each sequence;
after any other token comes the next one by the global bigrams pi_b. So the output at a trigger's second occurrence can
be known from the context alone, and all else at best from pi_b.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt32

from facthold.context.bigrams import TRIGGERS, Bigrams

LENGTH = 256  # T of the slides' experiments
HALF = np.uint32(0xFFFF)  # of a word


class Sequences(NamedTuple):
    """Sequences, and of each token where it comes from."""

    tokens: Int[Array, "n T"]
    outputs: Bool[Array, "n T"]  # whether the token is the output of a trigger, which stands before it
    before: Int[Array, "n T"]  # how often that trigger had occurred before, with its output: 0 at its first occurrence

    @property
    def counted(self) -> Bool[Array, "n T"]:
        """Tokens that the context tells: outputs from the second occurrence of their trigger on."""
        return self.outputs & (self.before > 0)

    @property
    def told(self) -> Bool[Array, "n T T"]:
        """Of each position t that holds a trigger, and after which the context tells the output, the positions s <= t
        that hold it: those after the trigger's earlier occurrences."""
        tokens, T = self.tokens, self.tokens.shape[1]
        asks = jnp.concatenate([self.counted[:, 1:], jnp.zeros_like(self.counted[:, :1])], axis=1)
        after_same = jnp.concatenate([jnp.full_like(tokens[:, :1], -1), tokens[:, :-1]], axis=1)
        same = tokens[:, :, None] == after_same[:, None, :]
        return same & np.tril(np.ones((T, T), bool)) & asks[:, :, None]


class BigramTask(eqx.Module):
    """Sequences of T tokens with K triggers: ``fh.BigramTask.of(fh.Bigrams.shipped()).draw(8, key=key)``.

    Tokens are drawn by Walker's alias method: one random word and two look-ups each, whatever N is.
    """

    accept: UInt32[Array, "N+1 N"]  # of each row of pi_b, and of the unigrams in the last: chance to keep the column
    alias: Int[Array, "N+1 N"]  # else this one
    log_u: Float[Array, " N"]  # of the unigrams, by which random triggers are drawn
    log_o: Float[Array, " N"]  # of pi_o
    fixed: Int[Array, " K"] | None  # the triggers, where they are the same in all sequences
    noise_token: Int[Array, ""]
    noise: Float[Array, ""]  # how often it comes after a trigger instead of the output
    K: int = eqx.field(static=True)
    T: int = eqx.field(static=True)

    @classmethod
    def of(
        cls, bigrams: Bigrams, K: int = TRIGGERS, T: int = LENGTH, *, triggers: str | None = None,
        random: bool = False, pi_o: Float[np.ndarray, " N"] | None = None, noise: float = 0.0,
        noise_token: str | None = None,
    ) -> "BigramTask":  # fmt: skip
        """The K most frequent characters are the triggers, or ``triggers``, or K ``random`` ones for each sequence.
        With ``noise`` the noise token (the most frequent character that is no trigger) comes in place of an output."""
        bigrams.check_triggers(K, T, triggers, random)
        K = K if triggers is None else len(triggers)
        if not 0 <= noise < 1:
            raise ValueError(f"noise={noise} must be at least 0 and below 1")
        chosen = bigrams.most_frequent(K) if triggers is None else bigrams.index(triggers)
        others = [i for i in bigrams.most_frequent(bigrams.N) if i not in chosen]
        (tau,) = bigrams.index(noise_token) if noise_token else others[:1]
        accept, alias = alias_tables(np.concatenate([bigrams.pi_b, bigrams.pi_u[None]]))
        pi_o = np.full(bigrams.N, 1 / bigrams.N) if pi_o is None else np.asarray(pi_o, float)
        if pi_o.shape != (bigrams.N,) or pi_o.min() < 0 or pi_o.sum() <= 0:
            raise ValueError(f"pi_o must have a weight for each of the {bigrams.N} characters, none negative")
        with np.errstate(divide="ignore"):
            log_u, log_o = np.log(bigrams.pi_u), np.log(pi_o / pi_o.sum())
        return cls(
            accept=jnp.asarray(accept), alias=jnp.asarray(alias), log_u=jnp.asarray(log_u, jnp.float32),
            log_o=jnp.asarray(log_o, jnp.float32), fixed=None if random else jnp.asarray(chosen, jnp.int32),
            noise_token=jnp.int32(tau), noise=jnp.float32(noise), K=K, T=T,
        )  # fmt: skip

    @property
    def N(self) -> int:
        return self.alias.shape[1]

    def draw(self, n: int, *, key: PRNGKeyArray) -> Sequences:
        """n sequences with outputs of their own, drawn side by side, a token after the other."""
        k_triggers, k_outputs, k_tokens, k_noise = jax.random.split(key, 4)
        if self.fixed is None:  # Gumbel's trick: the K largest of noisy logarithms are a draw without repetition
            triggers = lax.top_k(self.log_u + jax.random.gumbel(k_triggers, (n, self.N)), self.K)[1]
        else:
            triggers = jnp.broadcast_to(self.fixed, (n, self.K))
        outputs = jax.random.categorical(k_outputs, self.log_o, shape=(n, self.K))
        words = jax.random.bits(k_tokens, (self.T, n), jnp.uint32)
        noisy = jax.random.uniform(k_noise, (self.T, n)) < self.noise

        def step(carry: tuple[Array, Array], drawn: tuple[Array, Array]) -> tuple[tuple[Array, Array], Sequences]:
            z, occurred = carry
            here, (word, noisy) = triggers == z[:, None], drawn
            is_output, before = here.any(axis=1), (here * occurred).sum(axis=1)
            told = jnp.where(noisy, self.noise_token, (here * outputs).sum(axis=1))
            token = jnp.where(is_output, told, self._next(z, word))
            return (token, occurred + here), Sequences(token, is_output, before)

        start = jnp.full(n, self.N), jnp.zeros((n, self.K), jnp.int32)  # the last row is that of the unigrams
        _, columns = lax.scan(step, start, (words, noisy))
        return Sequences(*(column.T for column in columns))

    def _next(self, z: Int[Array, " n"], word: UInt32[Array, " n"]) -> Int[Array, " n"]:
        """The token after z: column j of its row, or j's alias. j and the chance are the whole part and the fraction of
        N word / 2^32, in whole numbers: exact to 2^-32, where float32 is to 2^-18."""
        N = np.uint32(self.N)
        low, high = (word & HALF) * N, (word >> 16) * N
        product = high + (low >> 16)
        j, fraction = (product >> 16).astype(jnp.int32), (product << 16) | (low & HALF)
        at = z * self.N + j
        return jnp.where(fraction < self.accept.ravel()[at], j, self.alias.ravel()[at])


def alias_tables(pi: Float[np.ndarray, "rows N"]) -> tuple[UInt32[np.ndarray, "rows N"], Int[np.ndarray, "rows N"]]:
    """Walker's tables: a uniform column is kept with the chance ``accept`` / 2^32, and else replaced by its alias."""
    rows, N = pi.shape
    accept, alias = np.full((rows, N), 2.0**32), np.tile(np.arange(N, dtype=np.int32), (rows, 1))
    for i, row in enumerate(pi):
        share = row * N
        small, large = list(np.flatnonzero(share < 1)), list(np.flatnonzero(share >= 1))
        while small and large:
            s, g = small.pop(), large[-1]
            accept[i, s], alias[i, s] = share[s] * 2**32, g
            share[g] -= 1 - share[s]
            if share[g] < 1:
                small.append(large.pop())
    return np.minimum(accept, 2**32 - 1).astype(np.uint32), alias

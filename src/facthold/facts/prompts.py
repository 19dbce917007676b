"""Prompts: a subject and a relation hidden in noise (section 4.1), as token sequences and as token counts.

The tokens are numbered subjects, relations, noise, EOS, answers: those that a prompt can hold come first. A one-layer
transformer without positions sees its counts alone; both views of the same draws give the same logits.
"""

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from facthold._util.errors import check_positive
from facthold._util.padding import next_power_of_two, pad_rows
from facthold.facts.problem import MOST_NOISE, SEQUENCE, check_distribution, check_length, uniform
from facthold.facts.table import FactTable

NOISE, PLACES = 0, 1  # streams of a prompt's key: its noise tokens, and where the subject and the relation stand


class Prompts(eqx.Module):
    """The distribution over prompts of length T: draw a fact by p(s, r), put s and r at two distinct positions of the
    first T - 1, noise at the others, EOS last. Tables of nearly the same size may be padded to share compiled code."""

    T: int = eqx.field(static=True)
    n_tokens: int = eqx.field(static=True)  # columns of the counts: S + R + n_noise + 1, perhaps padded
    subjects: Int[Array, " facts"]
    relations: Int[Array, " facts"]  # as tokens: S + r
    answers: Int[Array, " facts"]  # from 0, not as tokens
    keep: Float[Array, " facts"]  # Walker's alias table: the probability to keep i, drawn uniformly
    other: Int[Array, " facts"]  # what is taken instead of it
    n_facts: Int[Array, ""]
    first_noise: Int[Array, ""]
    n_noise: Int[Array, ""]

    @classmethod
    def of(
        cls, table: FactTable, *, T: int = SEQUENCE, n_noise: int | None = None,
        p: Sequence[float] | np.ndarray | None = None, columns: int = 0, rows: int = 0,
    ) -> "Prompts":  # fmt: skip
        """Prompts over ``table``; as many noise tokens as subjects and relations, p(s, r) uniform by default. With more
        ``columns`` than tokens the counts are padded, and so is the table, to at least so many ``rows``."""
        noise = table.S + table.R if n_noise is None else n_noise
        check_length(T)
        check_positive(n_noise=noise)
        if noise > MOST_NOISE:
            raise ValueError(f"n_noise={noise} is above {MOST_NOISE}; take fewer noise tokens")
        keep, other = alias_table(uniform(table) if p is None else check_distribution(p, table))
        n = len(table)
        if columns:  # rows cost nothing, as a step only looks some up: pad far, to a power of four
            n = next_power_of_two(math.isqrt(max(n, rows) - 1) + 1) ** 2
        facts = (table.subjects, table.S + table.relations, table.answers, keep, other)
        sizes = np.array([len(table), table.S + table.R, noise], np.int32)
        arrays = [*(pad_rows(column, n) for column in facts), *sizes]
        return cls(T, max(table.S + table.R + noise + 1, columns), *map(jnp.asarray, arrays))

    @property
    def EOS(self) -> Int[Array, ""]:
        return self.first_noise + self.n_noise

    def draw(self, n: int, *, key: PRNGKeyArray) -> Int[Array, " n"]:
        """n facts by p(s, r), as rows of the table."""
        which, coin = jax.random.bits(key, (2, n), jnp.uint32)
        i = (which % self.n_facts.astype(jnp.uint32)).astype(jnp.int32)
        return jnp.where(coin * 2.0**-32 < self.keep[i], i, self.other[i])

    def noise(self, n: int, *, key: PRNGKeyArray) -> Int[Array, "n k"]:
        """T - 3 noise tokens for each of n prompts, uniform.

        Half a random word is enough for a token, and saves half the time. That favours some tokens by one in
        65536 / n_noise; a rotation of its own for each prompt makes every token uniform again.
        """
        k = self.T - 3
        halves = -(-k // 2)
        words = jax.random.bits(key, (halves + 1, n), jnp.uint32)
        rotation = words[0] % self.n_noise.astype(jnp.uint32)
        sixteen = jnp.concatenate([words[1:] >> 16, words[1:] & 0xFFFF])[:k]
        rank = ((sixteen * self.n_noise.astype(jnp.uint32)) >> 16).astype(jnp.int32) + rotation.astype(jnp.int32)
        return (self.first_noise + jnp.where(rank < self.n_noise, rank, rank - self.n_noise)).T

    def counts(self, facts: Int[Array, " n"], *, key: PRNGKeyArray) -> Float[Array, "n tokens"]:
        """A prompt for each fact as token counts c(z): s, r and EOS once, and the noise."""
        n = len(facts)
        start = self.n_tokens * jnp.arange(n)
        noise = self.noise(n, key=jax.random.fold_in(key, NOISE)).T
        eos = jnp.broadcast_to(self.EOS, (1, n))
        tokens = jnp.concatenate([self.subjects[facts][None], self.relations[facts][None], eos, noise])
        # Flat indices that are known to be inside: the scatter is then a plain loop.
        flat = jnp.zeros(n * self.n_tokens).at[(start + tokens).ravel()].add(1.0, mode="promise_in_bounds")
        return flat.reshape(n, self.n_tokens)

    def sequences(self, facts: Int[Array, " n"], *, key: PRNGKeyArray) -> Int[Array, "n T"]:
        """The same prompts as ``counts`` with this key, as tokens z_1 ... z_T."""
        n = len(facts)
        k_i, k_j = jax.random.split(jax.random.fold_in(key, PLACES))
        i = jax.random.randint(k_i, (n, 1), 0, self.T - 1)
        j = jax.random.randint(k_j, (n, 1), 0, self.T - 2)
        j = j + (j >= i)
        place = jnp.arange(self.T - 1)
        noise = self.noise(n, key=jax.random.fold_in(key, NOISE))
        rank = jnp.clip(place - (place > i) - (place > j), 0, max(self.T - 4, 0))
        filled = jnp.take_along_axis(noise, rank, axis=1) if self.T > 3 else jnp.zeros((n, 2), jnp.int32)
        tokens = jnp.where(place == i, self.subjects[facts][:, None], filled)
        tokens = jnp.where(place == j, self.relations[facts][:, None], tokens)
        return jnp.concatenate([tokens, jnp.broadcast_to(self.EOS, (n, 1))], axis=1)


def alias_table(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Walker's alias table: how often to keep i, and what to take instead. Exact, unlike a float32 running sum."""
    n = len(p)
    keep, other = np.ones(n, np.float32), np.arange(n, dtype=np.int32)
    share = p * (n / p.sum())  # a sum that is off by rounding must not leave over a fact that is never asked
    poor, rich = list(np.flatnonzero(share < 1)), list(np.flatnonzero(share > 1))
    while poor and rich:
        low, high = poor.pop(), rich[-1]
        keep[low], other[low] = share[low], high
        share[high] -= 1 - share[low]
        if share[high] < 1:
            poor.append(rich.pop())
    return keep, other

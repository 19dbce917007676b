"""Three gradient steps that make an induction head (the theorem of the slides), in its simplified setting.

A sequence of T tokens has one trigger q, which stands at a random place and at the end; after its first occurrence
stands its output o, which is what is to be predicted after the last token. q and o are uniform, and so are all other
tokens, which are not q. Attention starts even. What is simplified in the model: layer 1 looks by positions alone and
writes W_OV^1 e_z; layer 2 compares the token of its query with what layer 1 wrote, and copies tokens:

    a_s = sum_{r <= s} softmax_r(p_s^T W_KQ^1 p_r) W_OV^1 e_{z_r},
    logits = U W_OV^2 sum_s softmax_s(e_{z_T}^T W_KQ^2 a_s) e_{z_s}.

One step of gradient descent on each matrix in turn, W_OV^2, W_KQ^2, W_KQ^1, all others as they are then. From zero:

- W_OV^2: the attention is even, and o is among the tokens for sure, all others by chance;
- W_KQ^2: more attention to where o stands helps, and of what layer 1 averages there q is the part for sure;
- W_KQ^1: a_s at the output has more of q, the more it looks at the position before.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from facthold._util.draws import normal
from facthold._util.errors import check_positive
from facthold._util.keys import fold
from facthold.measure.probes import probe
from facthold.memory.embeddings import embed

ORDER = ("W_OV_2", "W_KQ_2", "W_KQ_1")
BLOCK = 1 << 11  # sequences whose gradient is computed at once


class Setting(NamedTuple):
    """The fixed parts of the model."""

    E: Float[Array, "N d"]
    P: Float[Array, "T d_p"]
    U: Float[Array, "N d"]
    W_OV_1: Float[Array, "d d"]

    @classmethod
    def one_hot(cls, N: int, T: int) -> "Setting":
        """Infinitely wide: all embeddings orthonormal."""
        return cls(jnp.eye(N), jnp.eye(T), jnp.eye(N), jnp.eye(N))

    @classmethod
    def random(cls, N: int, T: int, d: int, *, key: PRNGKeyArray) -> "Setting":
        """N(0, 1/d), all of them."""
        E, P, U = (embed("gaussian", n, d, key=fold(key, name)) for name, n in (("E", N), ("P", T), ("U", N)))
        return cls(E, P, U, normal(fold(key, "W_OV_1"), (d, d), scale=d**-0.5))


class Head(eqx.Module):
    """What is learnt."""

    W_KQ_1: Float[Array, "d_p d_p"]
    W_KQ_2: Float[Array, "d d"]
    W_OV_2: Float[Array, "d d"]

    @classmethod
    def zeros(cls, fixed: Setting) -> "Head":
        d, d_p = fixed.E.shape[1], fixed.P.shape[1]
        return cls(jnp.zeros((d_p, d_p)), jnp.zeros((d, d)), jnp.zeros((d, d)))

    def logits(self, fixed: Setting, tokens: Int[Array, "n T"]) -> Float[Array, "n N"]:
        """Of the token after the last."""
        (n, T), tables = tokens.shape, self.tables(fixed)
        past = jnp.tril(jnp.ones((T, T), bool))
        looks = jax.nn.softmax(jnp.where(past, tables["W_KQ^1"], -jnp.inf), axis=-1)
        met = jnp.take_along_axis(
            tables["W_KQ^2"][tokens[:, -1]], tokens, axis=1
        )  # the query with each token by itself
        beta = jax.nn.softmax(met @ looks.T, axis=-1)
        share = jnp.zeros((n, len(fixed.E))).at[jnp.arange(n)[:, None], tokens].add(beta)  # of each token in the sum
        return share @ tables["W_OV^2"].T

    def tables(self, fixed: Setting) -> dict[str, Float[Array, "_ _"]]:
        """What each matrix says of all pairs: u_k^T W_OV^2 e_j, e_q^T W_KQ^2 W_OV^1 e_j, p_s^T W_KQ^1 p_r. The model
        needs nothing else, so that a wide one costs little more than a narrow one."""
        return {
            "W_OV^2": fixed.U @ self.W_OV_2 @ fixed.E.T,
            "W_KQ^2": fixed.E @ self.W_KQ_2 @ fixed.W_OV_1 @ fixed.E.T,
            "W_KQ^1": fixed.P @ self.W_KQ_1 @ fixed.P.T,
        }

    def probes(self, fixed: Setting) -> dict[str, Float[Array, ""]]:
        """The share of its associations that each matrix recalls. Of positions those that can hold an output: the last
        holds the trigger, so that nothing says where to look from there."""
        N, T = len(fixed.E), len(fixed.P)
        t, every = jnp.arange(1, T - 1), jnp.arange(N)
        causal = jnp.arange(T) <= t[:, None]
        return {
            "W_OV^2": probe(self.W_OV_2, fixed.E, fixed.U, every),
            "W_KQ^2": probe(self.W_KQ_2.T, fixed.E, fixed.E @ fixed.W_OV_1.T, every),
            "W_KQ^1": probe(self.W_KQ_1.T, fixed.P[1:-1], fixed.P, t - 1, causal),
        }


def sequences(
    n: int, T: int, pi: Float[Array, "N N"], *, key: PRNGKeyArray
) -> tuple[Int[Array, "n T"], Int[Array, " n"]]:
    """Sequences and their answers. ``pi``: the probabilities of the next token after each, given that it is not the
    trigger; all equal in the simplified setting."""
    N, below = len(pi), jnp.cumsum(pi, axis=1)
    k_q, k_o, k_at, k_first, k_rest = jax.random.split(key, 5)
    q, at = jax.random.randint(k_q, (n,), 0, N), jax.random.randint(k_at, (n,), 0, T - 2)
    o = (q + jax.random.randint(k_o, (n,), 1, N)) % N  # another token than the trigger

    def step(z: Int[Array, " n"], now: tuple[Array, Array]) -> tuple[Int[Array, " n"], Int[Array, " n"]]:
        t, u = now
        p_q = pi[z, q]
        u = u * (below[z, -1] - p_q)  # by the inverse of the distribution function, with the trigger's part cut out
        u = jnp.where(u < below[z, q] - p_q, u, u + p_q)
        free = jnp.minimum((below[z] <= u[:, None]).sum(axis=1), N - 1)
        free = jnp.where(free == q, (q + 1) % N, free)  # at the edge of the cut, by rounding
        token = jnp.where((t == at) | (t == T - 1), q, jnp.where(t == at + 1, o, free))
        return token, token

    start = jax.random.randint(k_first, (n,), 0, N)
    _, columns = jax.lax.scan(step, start, (jnp.arange(T), jax.random.uniform(k_rest, (T, n))))
    return columns.T, o


@eqx.filter_jit
def gradient(head: Head, fixed: Setting, tokens: Int[Array, "n T"], answers: Int[Array, " n"]) -> Head:
    """Of the mean cross entropy over these sequences."""

    def loss(head: Head) -> Float[Array, ""]:
        return optax.softmax_cross_entropy_with_integer_labels(head.logits(fixed, tokens), answers).mean()

    return jax.grad(loss)(head)


@eqx.filter_jit
def _draw(n: int, T: int, pi: Float[Array, "N N"], key: PRNGKeyArray) -> tuple[Int[Array, "n T"], Int[Array, " n"]]:
    return sequences(n, T, pi, key=key)


class Steps(NamedTuple):
    """Step sizes, in the order of the steps."""

    W_OV_2: float
    W_KQ_2: float
    W_KQ_1: float


def three_steps(
    fixed: Setting, steps: Steps, n_samples: int, *, key: PRNGKeyArray, pi: Float[Array, "N N"] | None = None
) -> Head:
    """The head after one step on each matrix, each on the mean gradient over ``n_samples`` fresh sequences."""
    check_positive(n_samples=n_samples)
    N, T = len(fixed.E), len(fixed.P)
    pi = jnp.full((N, N), 1 / N) if pi is None else pi
    head = Head.zeros(fixed)
    for name in ORDER:
        total, done = jnp.zeros_like(getattr(head, name)), 0
        while done < n_samples:
            n = min(BLOCK, n_samples - done)
            tokens, answers = _draw(n, T, pi, fold(key, name, done))
            total += n * getattr(gradient(head, fixed, tokens, answers), name)
            done += n
        moved = getattr(head, name) - getattr(steps, name) * total / n_samples
        head = eqx.tree_at(lambda h, name=name: getattr(h, name), head, moved)  # type: ignore[misc]
    return head


def accuracy(head: Head, fixed: Setting, n: int, *, key: PRNGKeyArray, pi: Float[Array, "N N"] | None = None) -> float:
    """The share of n fresh sequences whose output it predicts."""
    N, T = len(fixed.E), len(fixed.P)
    tokens, answers = _draw(n, T, jnp.full((N, N), 1 / N) if pi is None else pi, key)
    return float(np.asarray(_predicted(head, fixed, tokens) == answers).mean())


@eqx.filter_jit
def _predicted(head: Head, fixed: Setting, tokens: Int[Array, "n T"]) -> Int[Array, " n"]:
    return head.logits(fixed, tokens).argmax(axis=1)

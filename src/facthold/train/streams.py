"""Training on samples that are drawn once, in order: the i-th depends on the key of the stream and on i alone, so that
runs with other batch sizes, step sizes or optimisers see the same data."""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt32

from facthold._util.errors import check_positive
from facthold.measure.recall import right
from facthold.models.token_memory import TokenMemory
from facthold.train.tasks import Task


def drawn(
    below: Float[Array, " rest"], first: Int[Array, ""] | int, n: int, stream: UInt32[Array, " 2"]
) -> Int[Array, " n"]:
    """Samples ``first`` to ``first + n - 1``; ``below``: the probability of all tokens up to each, but for the last."""
    key = jax.random.wrap_key_data(stream)
    shares = jax.vmap(lambda i: jax.random.uniform(jax.random.fold_in(key, i)))(first + jnp.arange(n))
    return jnp.searchsorted(below, shares, side="right")


def samples(p: Float[np.ndarray, " N"], n: int, *, key: PRNGKeyArray) -> Int[np.ndarray, " n"]:
    """The first n samples of p in the stream of a key."""
    return np.asarray(_samples(_below(p), n, jax.random.key_data(key)))


_samples = jax.jit(lambda below, n, stream: drawn(below, 0, n, stream), static_argnums=1)


def _below(p: Float[np.ndarray, " N"]) -> Float[Array, " rest"]:
    return jnp.asarray(np.cumsum(p)[:-1], jnp.float32)


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def _stretched(x: Float[Array, "..."], c: float) -> Float[Array, "..."]:
    """c x, whose gradient goes through to x as it is: Adam's epsilon then stands beside the gradient of c x."""
    return c * x


_stretched.defvjp(lambda x, c: (c * x, None), lambda c, _, gradient: (gradient,))


class LearnStream(Task):
    """Cross entropy of a batch of samples at each step, in their order; accuracy: the probability of what is right.

    What is trained lacks the parts that stay as they are: they are ``fixed``. W and embeddings are ``units`` times what
    is trained, and the gradient is theirs: each step of theirs is so many times as long.
    """

    fixed: TokenMemory
    f: Int[Array, " N"]
    p: Float[Array, " N"]
    below: Float[Array, " rest"]
    stream: UInt32[Array, " 2"]
    first: Int[Array, ""]  # sample of this step
    batch: int = eqx.field(static=True)
    units: tuple[float, float] = eqx.field(static=True)

    @classmethod
    def of(
        cls, fixed: TokenMemory, f: Int[np.ndarray, " N"], p: Float[np.ndarray, " N"], batch: int, *,
        key: PRNGKeyArray, units: tuple[float, float] = (1.0, 1.0),
    ) -> "LearnStream":  # fmt: skip
        check_positive(batch=batch)
        data = (jnp.asarray(f, jnp.int32), jnp.asarray(p, jnp.float32), _below(p), jax.random.key_data(key))
        return cls(fixed, *data, jnp.zeros((), jnp.int32), batch, units)

    def at(self, t: Int[Array, ""]) -> "LearnStream":
        return eqx.tree_at(lambda task: task.first, self, (t * self.batch).astype(jnp.int32))

    def whole(self, trained: TokenMemory) -> TokenMemory:
        """The memory with all of its parts."""
        of_W, of_embeddings = self.units
        E, U = (None if x is None else _stretched(x, of_embeddings) for x in (trained.E, trained.U))
        W = None if trained.W is None else _stretched(trained.W, of_W)
        return eqx.combine(TokenMemory(W, E, U, trained.norm), self.fixed)

    def loss(self, model: Any, *, key: PRNGKeyArray) -> Float[Array, ""]:
        z = drawn(self.below, self.first, self.batch, self.stream)
        scores = self.whole(model).scores(z)
        return optax.softmax_cross_entropy_with_integer_labels(scores, self.f[z]).mean()

    def accuracy(self, model: Any, *, key: PRNGKeyArray) -> Float[Array, ""]:
        scores = self.whole(model).scores(jnp.arange(len(self.f)))
        return (self.p * right(scores, self.f)).sum() / self.p.sum()

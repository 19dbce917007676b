"""Training on the bigram task: the next token where the context tells it, or at every position."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from facthold._util.errors import check_positive
from facthold.context.sequences import BigramTask, Sequences
from facthold.measure.probes import probes
from facthold.models.causal import CausalTransformer, moved
from facthold.train.tasks import Task

BATCH = 32  # sequences in a step
LOOKED = 64  # sequences at an evaluation: about 4,800 outputs
PICKED = 0.25  # share of the positions that a loss on outputs counts at most, of each sequence: about 3/10 are outputs

Asked = tuple[Int[Array, "n T"], Int[Array, "n q"], Int[Array, "n q"], Float[Array, "n q"]]
"""Tokens, the positions that are asked, the tokens after them, and what each counts."""


def cross_entropy(
    logits: Float[Array, "*n q N"], targets: Int[Array, "*n q"], weights: Float[Array, "*n q"]
) -> Float[Array, ""]:
    log_p = jax.nn.log_softmax(logits)
    return -(weights * jnp.take_along_axis(log_p, targets[..., None], axis=-1)[..., 0]).sum()


def by_sequence(tables: Any, needed: Any, asked: Asked) -> Float[Array, ""]:
    """The cross entropy over all sequences, whose gradient is computed along with it, a sequence at a time: attention
    matrices of a batch would not stay in the cache between the passes. ``needed``: arrays that get a gradient."""
    varied, rest = eqx.partition(tables, needed)

    def one(varied: Any, tokens: Array, at: Array, targets: Array, weights: Array) -> Float[Array, ""]:
        return cross_entropy(eqx.combine(varied, rest).logits(tokens, at), targets, weights)

    return _summed(one)(varied, asked)


def _summed(one: Callable[..., Float[Array, ""]]) -> Callable[[Any, Asked], Float[Array, ""]]:
    def forward(varied: Any, asked: Asked) -> tuple[Float[Array, ""], Any]:
        def add(total: Any, now: Any) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, total, jax.value_and_grad(one)(varied, *now)), None

        zero = jnp.zeros(()), jax.tree.map(jnp.zeros_like, varied)
        return lax.scan(add, zero, asked)[0]

    @jax.custom_vjp
    def total(varied: Any, asked: Asked) -> Float[Array, ""]:
        return forward(varied, asked)[0]

    total.defvjp(forward, lambda gradient, g: (jax.tree.map(lambda x: g * x, gradient), None))
    return total


class PredictInContext(Task):
    """Cross entropy of the next token on fresh sequences at each step; accuracy over outputs that the context tells.

    The model that is trained lacks the parts that stay as they are: they are ``fixed``, and data.
    """

    data: BigramTask
    fixed: Any
    triggers: Int[Array, " K"]  # those that the probes are about; all tokens, where triggers are random
    batch: int = eqx.field(static=True)
    everywhere: bool = eqx.field(static=True)  # the loss is over all positions, and not the outputs alone
    looked: int = eqx.field(static=True)

    @classmethod
    def of(
        cls, data: BigramTask, fixed: Any, *, batch: int = BATCH, everywhere: bool = False, looked: int = LOOKED
    ) -> "PredictInContext":
        check_positive(batch=batch, looked=looked)
        triggers = jnp.arange(data.N) if data.fixed is None else data.fixed
        return cls(data, fixed, triggers, batch, everywhere, looked)

    def loss(self, model: Any, *, key: PRNGKeyArray) -> Float[Array, ""]:
        k_data, k_pick = jax.random.split(key)
        asked = self.asked(self.data.draw(self.batch, key=k_data), key=k_pick)
        whole = eqx.combine(model, self.fixed)
        if isinstance(whole, CausalTransformer):
            tables = whole.tables
            return by_sequence(tables, moved(model, tables), asked)
        return by_sequence(whole, jax.tree.map(eqx.is_inexact_array, whole), asked)

    def asked(self, sequences: Sequences, *, key: PRNGKeyArray) -> Asked:
        """Where the next token is predicted, and what it counts: all alike. Of outputs a random choice, where there are
        more than there is room for: a sequence can be a cycle of triggers, and counts no more than others."""
        n, T = sequences.tokens.shape
        if self.everywhere:
            at, counted = jnp.broadcast_to(jnp.arange(T - 1), (n, T - 1)), jnp.ones((n, T - 1), bool)
        else:
            at, counted = _chosen(sequences.counted[:, 1:], max(1, round(PICKED * T)), key)
        targets = jnp.take_along_axis(sequences.tokens, at + 1, axis=1)
        return sequences.tokens, at, targets, counted / jnp.maximum(counted.sum(), 1)

    def accuracy(self, model: Any, *, key: PRNGKeyArray) -> Float[Array, ""]:
        """The share of outputs that are the arg max over all tokens, from the second occurrence of their trigger on."""
        sequences = self.data.draw(self.looked, key=key)
        right = eqx.combine(model, self.fixed)(sequences.tokens)[:, :-1].argmax(axis=-1) == sequences.tokens[:, 1:]
        counted = sequences.counted[:, 1:]
        return (right & counted).sum() / counted.sum()

    def observe(self, model: Any, *, key: PRNGKeyArray) -> dict[str, Array]:
        whole = eqx.combine(model, self.fixed)
        if isinstance(whole, CausalTransformer) and len(whole.layers) == 2:
            return probes(whole, self.triggers)
        return {}


def _chosen(counted: Bool[Array, "n t"], most: int, key: PRNGKeyArray) -> tuple[Int[Array, "n q"], Bool[Array, "n q"]]:
    order = jnp.where(counted, jax.random.uniform(key, counted.shape), -1.0)
    at = jnp.sort(lax.top_k(order, most)[1], axis=1)
    return at, jnp.take_along_axis(counted, at, axis=1)

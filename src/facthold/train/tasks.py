"""What a model is trained to do: a loss and an accuracy, both of a model and a key."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from facthold.associations import Problem
from facthold.measure.recall import right
from facthold.padding import pad_rows, padded


class Task(eqx.Module):
    """A training problem. Its arrays are data: they get no gradient."""

    @abstractmethod
    def loss(self, model: Any, *, key: PRNGKeyArray) -> Float[Array, ""]:
        """What is minimised. ``key`` is fresh at each step, for tasks that draw batches."""

    @abstractmethod
    def accuracy(self, model: Any, *, key: PRNGKeyArray) -> Float[Array, ""]:
        """The share recalled, by which a run succeeds."""


class StoreAssociations(Task):
    """Full-batch cross entropy over all associations of a problem (section 3.2, empirical validation).

    A problem may be padded, so that problems of nearly the same size share one compiled loop:
    ``counted`` marks the true inputs, ``offered`` the true outputs.
    """

    problem: Problem
    counted: Bool[Array, " N"]
    offered: Bool[Array, " M"]

    @classmethod
    def of(cls, problem: Problem, *, pad: bool = True) -> "StoreAssociations":
        """The task of storing ``problem``, padded up to the next size of the grid."""
        n, m = (padded(problem.N), padded(problem.M)) if pad else (problem.N, problem.M)
        E, U, f = pad_rows(problem.E, n), pad_rows(problem.U, m), pad_rows(problem.f, n)
        longer = Problem(jnp.asarray(E), jnp.asarray(U), jnp.asarray(f))
        return cls(longer, jnp.asarray(np.arange(n) < problem.N), jnp.asarray(np.arange(m) < problem.M))

    def loss(self, model: Any, *, key: PRNGKeyArray | None = None) -> Float[Array, ""]:
        F = model(self.problem.E)
        return _mean_cross_entropy(F, self.problem.U, self.problem.targets, self.counted, self.offered)

    def accuracy(self, model: Any, *, key: PRNGKeyArray | None = None) -> Float[Array, ""]:
        scores = jnp.where(self.offered, model.logits(self.problem.E, self.problem.U), -jnp.inf)
        hits = (right(scores, self.problem.f) & self.counted).sum()
        return hits / self.counted.sum()


@jax.custom_vjp
def _mean_cross_entropy(
    F: Float[Array, "N d"],
    U: Float[Array, "M d"],
    targets: Float[Array, "N d"],
    counted: Bool[Array, " N"],
    offered: Bool[Array, " M"],
) -> Float[Array, ""]:
    """Mean of -log softmax(F U^T) at the target, with a gradient for F alone.

    The embeddings are fixed, so dL/dF = (P U - targets) / N is all that training needs. Computed in the
    forward pass, with the normaliser taken out of the product, it reads the N x M scores twice only.
    """
    return _forward(F, U, targets, counted, offered)[0]


def _forward(
    F: Array, U: Array, targets: Array, counted: Array, offered: Array
) -> tuple[Float[Array, ""], Float[Array, "N d"]]:
    scores = F @ U.T + jnp.where(offered, 0.0, -jnp.inf)
    highest = scores.max(axis=1, keepdims=True)
    weights = jnp.exp(scores - highest)
    normaliser = weights.sum(axis=1, keepdims=True)
    share = counted[:, None] / counted.sum()
    losses = jnp.log(normaliser) + highest - (F * targets).sum(axis=1, keepdims=True)
    return (share * losses).sum(), share * ((weights @ U) / normaliser - targets)


def _backward(dF: Array, g: Array) -> tuple[Array, None, None, None, None]:
    return g * dF, None, None, None, None


_mean_cross_entropy.defvjp(_forward, _backward)

"""What a model is trained to do: a loss and an accuracy, both of a model and a key."""

from abc import abstractmethod
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from facthold._util.errors import check_positive
from facthold._util.padding import pad_rows, padded
from facthold.facts.problem import FactualRecall
from facthold.measure.fact_recall import Questions
from facthold.measure.grids import Grid
from facthold.measure.quantise import straight_through
from facthold.measure.recall import right
from facthold.memory.associations import Problem
from facthold.models.transformer import Transformer
from facthold.train.protocols import BATCH

Storing = TypeVar("Storing", bound="StoreAssociations")
Recalling = TypeVar("Recalling", bound="RecallFacts")


@jax.custom_vjp
def mean_cross_entropy(
    F: Float[Array, "N d"], U: Float[Array, "M d"], targets: Float[Array, "N d"], counted: Bool[Array, " N"],
    offered: Bool[Array, " M"],
) -> Float[Array, ""]:  # fmt: skip
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


mean_cross_entropy.defvjp(_forward, _backward)


class Task(eqx.Module):
    """A training problem. Its arrays are data: they get no gradient. They may be padded, so that problems of nearly the
    same size share one compiled loop."""

    @abstractmethod
    def loss(self, model: Any, *, key: PRNGKeyArray) -> Float[Array, ""]:
        """What is minimised. ``key`` is fresh at each step, for tasks that draw batches."""

    @abstractmethod
    def accuracy(self, model: Any, *, key: PRNGKeyArray) -> Float[Array, ""]:
        """The share recalled, by which a run succeeds."""

    def at(self, t: Int[Array, ""]) -> "Task":
        """The task as it is at step t: itself, unless its data come in an order of their own."""
        return self

    def observe(self, model: Any, *, key: PRNGKeyArray) -> dict[str, Array]:
        """What else is kept of each look, by name: nothing, unless a task says so. ``key`` is `accuracy`'s."""
        return {}


def longer(problem: Problem, N: int, M: int) -> Problem:
    """The problem padded to so many inputs and outputs."""
    padded_to = ((problem.E, N), (problem.U, M), (problem.f, N))
    return Problem(*(jnp.asarray(pad_rows(rows, n)) for rows, n in padded_to))


class StoreAssociations(Task):
    """Full-batch cross entropy over all associations of a problem (section 3.2, empirical validation)."""

    problem: Problem
    counted: Bool[Array, " N"]  # the true inputs
    offered: Bool[Array, " M"]  # the true outputs

    @classmethod
    def of(cls: type[Storing], problem: Problem, *, pad: bool = True, least: int = 0) -> Storing:
        """The task of storing ``problem``, padded up to the next size of the grid, and at least to ``least``."""
        n, m = (max(least, padded(size)) if pad else size for size in (problem.N, problem.M))
        return cls(longer(problem, n, m), jnp.asarray(np.arange(n) < problem.N), jnp.asarray(np.arange(m) < problem.M))

    def loss(self, model: Any, *, key: PRNGKeyArray | None = None) -> Float[Array, ""]:
        F = model(self.problem.E)
        return mean_cross_entropy(F, self.problem.U, self.problem.targets, self.counted, self.offered)

    def accuracy(self, model: Any, *, key: PRNGKeyArray | None = None) -> Float[Array, ""]:
        scores = jnp.where(self.offered, model.logits(self.problem.E, self.problem.U), -jnp.inf)
        hits = (right(scores, self.problem.f) & self.counted).sum()
        return hits / self.counted.sum()


class StoreByFrequency(StoreAssociations):
    """The same with sum_x p(x) instead of a mean, made by ``weighted``: a memory that is too small for all of the
    inputs should know what is asked for."""

    p: Float[Array, " N"]

    @classmethod
    def weighted(cls, problem: Problem, p: np.ndarray) -> "StoreByFrequency":
        """The task for ``problem`` with weights p, which need not sum to 1."""
        if np.shape(p) != (problem.N,) or np.min(p) < 0:
            raise ValueError(
                f"p of shape {np.shape(p)} must have one weight for each of {problem.N} inputs, none negative"
            )
        plain = StoreAssociations.of(problem)
        weights = jnp.asarray(pad_rows(np.asarray(p, np.float32), len(plain.counted)))
        return cls(plain.problem, plain.counted, plain.offered, weights)

    def loss(self, model: Any, *, key: PRNGKeyArray | None = None) -> Float[Array, ""]:
        scores = jnp.where(self.offered, model.logits(self.problem.E, self.problem.U), -jnp.inf)
        return (self.p * optax.softmax_cross_entropy_with_integer_labels(scores, self.problem.f)).sum()


class RecallFacts(Task):
    """Cross entropy on fresh prompts at each step; accuracy over every fact of the table (section 4.4)."""

    questions: Questions
    batch: int = eqx.field(static=True)
    sampled: bool = eqx.field(static=True, default=False)  # accuracy over a batch of drawn prompts, as the authors look

    @classmethod
    def of(
        cls: type[Recalling], problem: FactualRecall, *, batch: int = BATCH, columns: int = 0, n_outputs: int = 0,
        rows: int = 0, sampled: bool = False,
    ) -> Recalling:  # fmt: skip
        """The task of recalling the facts of ``problem``, padded to at least so many tokens, outputs and rows."""
        check_positive(batch=batch)
        return cls(Questions.of(problem, columns=columns, n_outputs=n_outputs, rows=rows), batch, sampled)

    def loss(self, model: Transformer, *, key: PRNGKeyArray) -> Float[Array, ""]:
        asked, (k_facts, k_prompts) = self.questions, jax.random.split(key)
        facts = asked.prompts.draw(self.batch, key=k_facts)
        F = asked.output(model, facts, key=k_prompts)
        counted = jnp.ones(self.batch, bool)
        return mean_cross_entropy(F, asked.U, asked.U[asked.prompts.answers[facts]], counted, asked.offered)

    def accuracy(self, model: Transformer, *, key: PRNGKeyArray) -> Float[Array, ""]:
        """The share of all facts that are recalled, each from one prompt with fresh noise; or of drawn prompts."""
        if self.sampled:
            return self.questions.drawn(model, self.batch, key=key).mean()
        return self.questions.recalled(model, key=key).sum() / self.questions.prompts.n_facts


class OnGrid(Task):
    """Another task, asked of the model on a grid. Its gradient moves the weights behind it (straight through).

    What is trained are these weights; what was learnt is `quantise` of them with the same grid.
    """

    task: Task
    grid: Grid = eqx.field(static=True)

    def loss(self, model: Any, *, key: PRNGKeyArray) -> Float[Array, ""]:
        return self.task.loss(straight_through(model, self.grid), key=key)

    def accuracy(self, model: Any, *, key: PRNGKeyArray) -> Float[Array, ""]:
        return self.task.accuracy(straight_through(model, self.grid), key=key)

    def observe(self, model: Any, *, key: PRNGKeyArray) -> dict[str, Array]:
        return self.task.observe(straight_through(model, self.grid), key=key)

    def at(self, t: Int[Array, ""]) -> "OnGrid":
        return OnGrid(self.task.at(t), self.grid)

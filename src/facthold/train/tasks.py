"""What a model is trained to do: a loss and an accuracy, both of a model and a key."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from facthold._util.errors import check_positive
from facthold._util.padding import pad_rows, padded
from facthold.facts.problem import FactualRecall
from facthold.measure.fact_recall import Questions
from facthold.measure.recall import right
from facthold.memory.associations import Problem
from facthold.models.transformer import Transformer
from facthold.train.losses import mean_cross_entropy
from facthold.train.protocols import BATCH


class Task(eqx.Module):
    """A training problem. Its arrays are data: they get no gradient."""

    @abstractmethod
    def loss(self, model: Any, *, key: PRNGKeyArray) -> Float[Array, ""]:
        """What is minimised. ``key`` is fresh at each step, for tasks that draw batches."""

    @abstractmethod
    def accuracy(self, model: Any, *, key: PRNGKeyArray) -> Float[Array, ""]:
        """The share recalled, by which a run succeeds."""

    def observe(self, model: Any, *, key: PRNGKeyArray) -> dict[str, Array]:
        """What else is kept of each look, by name: nothing, unless a task says so. ``key`` is `accuracy`'s."""
        return {}


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
    """Cross entropy on fresh prompts at each step; accuracy over every fact of the table (section 4.4).

    The problem may be padded, so that tables of nearly the same size share one compiled loop.
    """

    questions: Questions
    batch: int = eqx.field(static=True)

    @classmethod
    def of(cls, problem: FactualRecall, *, batch: int = BATCH, columns: int = 0, n_outputs: int = 0) -> "RecallFacts":
        """The task of recalling the facts of ``problem``, padded to at least so many tokens and outputs."""
        check_positive(batch=batch)
        return cls(Questions.of(problem, columns=columns, n_outputs=n_outputs), batch)

    @property
    def d(self) -> int:
        return self.questions.U.shape[1]

    def loss(self, model: Transformer, *, key: PRNGKeyArray) -> Float[Array, ""]:
        asked, (k_facts, k_prompts) = self.questions, jax.random.split(key)
        facts = asked.prompts.draw(self.batch, key=k_facts)
        F = asked.output(model, facts, key=k_prompts)
        counted = jnp.ones(self.batch, bool)
        return mean_cross_entropy(F, asked.U, asked.U[asked.prompts.answers[facts]], counted, asked.offered)

    def accuracy(self, model: Transformer, *, key: PRNGKeyArray) -> Float[Array, ""]:
        """The share of all facts that are recalled, each from one prompt with fresh noise."""
        return self.questions.recalled(model, key=key).sum() / self.questions.prompts.n_facts

"""Training that moves embeddings too: the tasks of `train.tasks` for a model that has its embeddings in it.

The gradient reaches every embedding, those of outputs among them, so that the loss is an ordinary cross entropy and not
the fused one of `tasks.mean_cross_entropy`, which gives them none.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from facthold.measure.fact_recall import Questions
from facthold.measure.recall import right
from facthold.models.embedded import EmbeddedMemory, EmbeddedTransformer
from facthold.models.memory import Memory
from facthold.models.transformer import Transformer
from facthold.train.engine import Member
from facthold.train.tasks import RecallFacts, StoreAssociations


def _mean_loss(scores: Float[Array, "n M"], answers: Array, counted: Bool[Array, " n"]) -> Float[Array, ""]:
    losses = optax.softmax_cross_entropy_with_integer_labels(scores, answers)
    return jnp.where(counted, losses, 0.0).sum() / counted.sum()


class StoreWithEmbeddings(StoreAssociations):
    """`StoreAssociations` for an `EmbeddedMemory`. The problem's own embeddings are where these start."""

    def start(self, F: Memory) -> EmbeddedMemory:
        """A memory with the embeddings of the problem, padding included."""
        return EmbeddedMemory(F, self.problem.E, self.problem.U)

    def _scores(self, model: EmbeddedMemory) -> Float[Array, "N M"]:
        return jnp.where(self.offered, model.scores(), -jnp.inf)

    def loss(self, model: EmbeddedMemory, *, key: PRNGKeyArray | None = None) -> Float[Array, ""]:
        return _mean_loss(self._scores(model), self.problem.f, self.counted)

    def accuracy(self, model: EmbeddedMemory, *, key: PRNGKeyArray | None = None) -> Float[Array, ""]:
        return (right(self._scores(model), self.problem.f) & self.counted).sum() / self.counted.sum()


class RecallWithEmbeddings(RecallFacts):
    """`RecallFacts` for an `EmbeddedTransformer` of which some parts are trained; the others are ``fixed``."""

    fixed: EmbeddedTransformer | None = None

    def start(self, weights: Transformer) -> EmbeddedTransformer:
        """A transformer with the embeddings of the problem, padding included."""
        return EmbeddedTransformer(weights, self.questions.phi, self.questions.U)

    def keeping(self, fixed: EmbeddedTransformer) -> "RecallWithEmbeddings":
        """The task in which these parts stay as they are."""
        return RecallWithEmbeddings(self.questions, self.batch, self.sampled, fixed)

    def whole(self, trained: EmbeddedTransformer) -> EmbeddedTransformer:
        """The model with all of its parts."""
        return trained if self.fixed is None else eqx.combine(trained, self.fixed)

    def _asked(self, trained: EmbeddedTransformer) -> tuple[Questions, Transformer]:
        """The questions by the embeddings of the model, and its weights."""
        model = self.whole(trained)
        assert model.weights is not None
        assert model.U is not None
        phi = model.phi
        parts = (phi, phi[self.questions.prompts.EOS], model.U)
        return eqx.tree_at(lambda q: (q.phi, q.query, q.U), self.questions, parts), model.weights

    def loss(self, model: EmbeddedTransformer, *, key: PRNGKeyArray) -> Float[Array, ""]:  # type: ignore[override]
        (asked, weights), (k_facts, k_prompts) = self._asked(model), jax.random.split(key)
        facts = asked.prompts.draw(self.batch, key=k_facts)
        scores = asked.scores(weights, asked.prompts.counts(facts, key=k_prompts))
        return _mean_loss(scores, asked.prompts.answers[facts], jnp.ones(self.batch, bool))

    def accuracy(self, model: EmbeddedTransformer, *, key: PRNGKeyArray) -> Float[Array, ""]:  # type: ignore[override]
        asked, weights = self._asked(model)
        return RecallFacts(asked, self.batch, self.sampled).accuracy(weights, key=key)


def training(
    task: RecallWithEmbeddings, start: EmbeddedTransformer, trained: str, lrs: Sequence[float], *, key: PRNGKeyArray
) -> list[Member]:
    """A race of learning rates that train these parts of a model, and leave the others as they are."""
    (parts, fixed), race = start.split(trained), object()  # no other race is this one
    return [Member(parts, task.keeping(fixed), key, lr, race) for lr in lrs]

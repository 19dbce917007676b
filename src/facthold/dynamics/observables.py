"""What is looked at while a model learns: losses, distances from two predictors, weights of each kind of token."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from facthold.dynamics.population import KINDS, Population
from facthold.facts.table import FactTable
from facthold.train.engine import Seen

TIE = 1e-6
"""Log probabilities nearer than this are the same: rounding must not choose an answer."""


class AnswerSets(eqx.Module):
    """A_r and A_s as masks: what counts as right for the relation-only and for the subject-only loss."""

    of_relation: Bool[Array, "R A"]
    of_subject: Bool[Array, "S A"]

    @classmethod
    def of(cls, table: FactTable) -> "AnswerSets":
        masks = []
        for tokens, size in ((table.relations, table.R), (table.subjects, table.S)):
            mask = np.zeros((size, table.A), bool)
            mask[tokens, table.answers] = True
            masks.append(jnp.asarray(mask))
        return cls(*masks)


def losses(
    log_p: Float[Array, "n A"],
    answers: Int[Array, " n"],
    in_relation: Bool[Array, "n A"],
    in_subject: Bool[Array, "n A"],
) -> dict[str, Float[Array, " n"]]:
    """-log of the mass on a*(s, r), on A_r and on A_s (section 5, empirical validation), and hits, prompt by prompt.

    A tie is no hit: a model that says the same for every answer knows none.
    """
    right = jnp.take_along_axis(log_p, answers[:, None], axis=1)
    rival = jnp.where(jnp.arange(log_p.shape[1]) == answers[:, None], -jnp.inf, log_p).max(axis=1)
    return {
        "loss": -right[:, 0],
        "relation_loss": -jax.nn.logsumexp(jnp.where(in_relation, log_p, -jnp.inf), axis=1),
        "subject_loss": -jax.nn.logsumexp(jnp.where(in_subject, log_p, -jnp.inf), axis=1),
        "accuracy": (right[:, 0] > rival + TIE).astype(log_p.dtype),
    }


class Watched(eqx.Module):
    """A population as arrays on the device, with all that the observables need."""

    counts: Float[Array, "n tokens"]
    weights: Float[Array, " n"]
    answers: Int[Array, " n"]
    in_relation: Bool[Array, "n A"]
    in_subject: Bool[Array, "n A"]
    p_relation: Float[Array, "n A"]
    mobility: Float[Array, " tokens"]
    kinds: tuple[tuple[int, int], ...] = eqx.field(static=True)
    sampled: bool = eqx.field(static=True)
    """Whether the loss of each prompt is kept too, from which `Population.error` is taken."""

    @classmethod
    def of(cls, population: Population) -> "Watched":
        """In the precision that JAX has where this is called."""
        sets, table = AnswerSets.of(population.table), population.table
        n = population.counts.shape[1]
        return cls(
            counts=jnp.asarray(population.counts, float),
            weights=jnp.asarray(population.weights, float),
            answers=jnp.asarray(population.answers),
            in_relation=sets.of_relation[table.relations[population.facts]],
            in_subject=sets.of_subject[table.subjects[population.facts]],
            p_relation=jnp.asarray(population.given("relation"), float),
            mobility=jnp.asarray(population.mobility, float),
            kinds=tuple(population.columns(kind).indices(n)[:2] for kind in KINDS),
            sampled=population.way == "sampled",
        )

    def pull(self, logits: Float[Array, "n A"]) -> Float[Array, "A tokens"]:
        """E[C(z) (1(a = a*) - p-hat(a))] for every a and z (lemma 4): all that a gradient takes from the data."""
        rest = jax.nn.one_hot(self.answers, logits.shape[1], dtype=logits.dtype) - jax.nn.softmax(logits)
        return self.mobility * ((self.weights[:, None] * rest).T @ self.counts)

    def predictions(self, logits: Float[Array, "n A"]) -> Seen:
        """Losses, accuracy, and how far p-hat is from p*(. | r) and from the fact, on average and at worst."""
        log_p = jax.nn.log_softmax(logits)
        each = losses(log_p, self.answers, self.in_relation, self.in_subject)
        p = jnp.exp(log_p)
        fact = jax.nn.one_hot(self.answers, p.shape[1], dtype=p.dtype)
        far = {"from_relation": self.p_relation, "from_fact": fact}
        distances = {name: jnp.linalg.norm(p - goal, axis=1) for name, goal in far.items()}
        means = {name: (self.weights * value).sum() for name, value in (each | distances).items()}
        worst = {"from_relation_worst": distances["from_relation"].max(), "relation_gap": self._relation_gap(p)}
        return means | worst | ({"losses": each["loss"]} if self.sampled else {})

    def _relation_gap(self, p: Float[Array, "n A"]) -> Float[Array, ""]:
        """sqrt(sum_r p(r)^2 ||p*(. | r) - E[p-hat | r]||^2), which lemma 6 bounds."""
        first, last = self.kinds[KINDS.index("relation")]
        apart = self.counts[:, first:last].T @ (self.weights[:, None] * (self.p_relation - p))
        return jnp.linalg.norm(apart)

    def by_kind(self, name: str, values: Float[Array, " tokens"], least: bool = False) -> Seen:
        """The largest (or smallest) value over the tokens of each kind."""
        pick: Any = jnp.min if least else jnp.max
        return {f"{name}_{kind}": pick(values[a:b]) for kind, (a, b) in zip(KINDS, self.kinds, strict=True)}

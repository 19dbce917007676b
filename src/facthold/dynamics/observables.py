"""What is measured while a model learns: losses, distances from two predictors, weights of each kind of token."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from facthold.dynamics.population import KINDS, Population
from facthold.facts.table import FactTable
from facthold.train.engine import Seen

TIE = 1e-6  # log probabilities nearer than this are the same: rounding must not choose an answer


class AnswerSets(eqx.Module):
    """A_r and A_s as masks, and p*(. | r): what counts as right for the relation-only and for the subject-only loss."""

    of_relation: Bool[Array, "R A"]
    of_subject: Bool[Array, "S A"]
    p_relation: Float[Array, "R A"]

    @classmethod
    def of(cls, table: FactTable, p: np.ndarray | None = None) -> "AnswerSets":
        """In the precision that JAX has where this is called."""
        of_relation, of_subject = np.zeros((table.R, table.A), bool), np.zeros((table.S, table.A), bool)
        of_relation[table.relations, table.answers] = of_subject[table.subjects, table.answers] = True
        p_relation = jnp.asarray(table.given("relation", p), float)
        return cls(jnp.asarray(of_relation), jnp.asarray(of_subject), p_relation)

    def observe(
        self, log_p: Float[Array, "n A"], s: Int[Array, " n"], r: Int[Array, " n"], answers: Int[Array, " n"]
    ) -> dict[str, Float[Array, " n"]]:
        """For each prompt: -log of the mass on a*(s, r), on A_r and on A_s (section 5, empirical validation), hits, and
        how far p-hat is from p*(. | r) and from the fact.

        A tie is no hit: a model that predicts all answers with equal probability knows none.
        """
        fact = jax.nn.one_hot(answers, log_p.shape[1], dtype=log_p.dtype)
        right = jnp.take_along_axis(log_p, answers[:, None], axis=1)[:, 0]
        rival = jnp.where(fact > 0, -jnp.inf, log_p).max(axis=1)
        p = jnp.exp(log_p)
        return {
            "loss": -right,
            "relation_loss": -jax.nn.logsumexp(jnp.where(self.of_relation[r], log_p, -jnp.inf), axis=1),
            "subject_loss": -jax.nn.logsumexp(jnp.where(self.of_subject[s], log_p, -jnp.inf), axis=1),
            "accuracy": (right > rival + TIE).astype(log_p.dtype),
            "from_relation": jnp.linalg.norm(p - self.p_relation[r], axis=1),
            "from_fact": jnp.linalg.norm(p - fact, axis=1),
        }


class Watched(eqx.Module):
    """A population as arrays on the device, with all that the observables need."""

    counts: Float[Array, "n tokens"]
    weights: Float[Array, " n"]
    subjects: Int[Array, " n"]
    relations: Int[Array, " n"]
    answers: Int[Array, " n"]
    sets: AnswerSets
    mobility: Float[Array, " tokens"]
    kinds: tuple[tuple[int, int], ...] = eqx.field(static=True)

    @classmethod
    def of(cls, population: Population) -> "Watched":
        """In the precision that JAX has where this is called."""
        table, n = population.table, population.counts.shape[1]
        p = np.bincount(population.facts, population.weights, minlength=len(table))
        return cls(
            counts=jnp.asarray(population.counts, float),
            weights=jnp.asarray(population.weights, float),
            subjects=jnp.asarray(table.subjects[population.facts]),
            relations=jnp.asarray(table.relations[population.facts]),
            answers=jnp.asarray(population.answers),
            sets=AnswerSets.of(table, p),
            mobility=jnp.asarray(population.mobility, float),
            kinds=tuple(population.columns(kind).indices(n)[:2] for kind in KINDS),
        )

    def pull(self, logits: Float[Array, "n A"]) -> Float[Array, "A tokens"]:
        """E[C(z) (1(a = a*) - p-hat(a))] for every a and z (lemma 4): all that a gradient takes from the data."""
        rest = jax.nn.one_hot(self.answers, logits.shape[1], dtype=logits.dtype) - jax.nn.softmax(logits)
        return self.mobility * ((self.weights[:, None] * rest).T @ self.counts)

    def predictions(self, logits: Float[Array, "n A"]) -> Seen:
        """Losses, accuracy, and how far p-hat is from p*(. | r) and from the fact, on average and at worst."""
        log_p = jax.nn.log_softmax(logits)
        each = self.sets.observe(log_p, self.subjects, self.relations, self.answers)
        means = {name: (self.weights * value).sum() for name, value in each.items()}
        # sqrt(sum_r p(r)^2 ||p*(. | r) - E[p-hat | r]||^2), which lemma 6 bounds
        apart = self.weights[:, None] * (self.sets.p_relation[self.relations] - jnp.exp(log_p))
        gap = jnp.linalg.norm(jax.ops.segment_sum(apart, self.relations, len(self.sets.p_relation)))
        return means | {"from_relation_worst": each["from_relation"].max(), "relation_gap": gap}

    def by_kind(self, name: str, values: Float[Array, " tokens"]) -> Seen:
        """The largest value over the tokens of each kind."""
        return {f"{name}_{kind}": values[a:b].max() for kind, (a, b) in zip(KINDS, self.kinds, strict=True)}

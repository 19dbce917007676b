"""The population of prompts as a weighted list of token counts, the expectation E over z_{1:T}, exactly; where a linear
attention model starts; and what is measured while it learns: losses, distances from two predictors, weights by kind.

One prompt per fact, with all noise in one column: for any T and any number of noise tokens, as long as they all have
the same weights. Gradient flow from such weights keeps them so, since noise tokens are drawn alike.
"""

import math
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from facthold._util.errors import check_positive, unknown
from facthold._util.keys import fold
from facthold._util.memory import check_memory
from facthold.dynamics import KINDS, STARTS
from facthold.facts.problem import check_length, uniform
from facthold.facts.table import FactTable
from facthold.memory.embeddings import host_generator
from facthold.models.one_head import LinearAttention
from facthold.train.engine import Seen

SMALLEST = 1e-30  # alpha for steps in float32: products with gradients, a thousandth and less, must not vanish
TIE = 1e-6  # log probabilities nearer than this are the same: rounding must not choose an answer


@dataclass(frozen=True, eq=False)
class Population:
    """Prompts with their probabilities. Columns: subjects, relations, noise, EOS."""

    table: FactTable
    counts: Float[np.ndarray, "n tokens"]
    weights: Float[np.ndarray, " n"]
    facts: Int[np.ndarray, " n"]  # the row of the table that each prompt asks for
    mobility: Float[np.ndarray, " tokens"]
    """By what a gradient is multiplied: the column of noise gathers the gradients of all noise tokens, and each of them
    moves by its own share."""

    def columns(self, kind: str) -> slice:
        return columns(self.table.S, self.table.R)[kind]

    @property
    def answers(self) -> Int[np.ndarray, " n"]:
        return self.table.answers[self.facts]


def columns(S: int, R: int) -> dict[str, slice]:
    """The columns of each kind of token."""
    return dict(zip(KINDS, (slice(S), slice(S, S + R), slice(S + R, -1), slice(-1, None)), strict=True))


def population(table: FactTable, *, T: int, n_noise: int) -> Population:
    """The population of prompts over ``table``; p(s, r) is uniform."""
    check_length(T)
    check_positive(n_noise=n_noise)
    n, first = len(table), table.S + table.R
    check_memory("the token counts", n * (first + 2) * 8)
    facts, counts, mobility = np.arange(n), np.zeros((n, first + 2)), np.ones(first + 2)
    counts[facts, table.subjects] = counts[facts, table.S + table.relations] = 1
    counts[:, first:] = T - 3, 1
    mobility[first] = 1 / n_noise
    return Population(table, counts, uniform(table), facts, mobility)


@dataclass(frozen=True)
class Start:
    """'balanced': assumption 2, W_OV = alpha and W_KQ = alpha sqrt(|A| + 1). 'equal': every weight alpha, as in figure
    5. 'random': W_KQ is alpha and W_OV normal with standard deviation alpha, which no theorem covers; the noise tokens
    of a pooled population share one draw."""

    kind: str = "balanced"
    log_alpha: float = math.log(1e-5)
    seed: int = 0  # for the random start alone

    def __post_init__(self) -> None:
        if self.kind not in STARTS:
            raise unknown("start", self.kind, STARTS)
        if not math.isfinite(self.log_alpha):
            raise ValueError(f"log_alpha={self.log_alpha} must be finite")

    def ratio(self, A: int, tokens: int) -> tuple[Float[np.ndarray, "A tokens"], float]:
        """W_OV / alpha, and W_KQ / alpha."""
        if self.kind == "random":
            return host_generator(fold(jax.random.key(self.seed), "start")).standard_normal((A, tokens)), 1.0
        return np.ones((A, tokens)), math.sqrt(A + 1) if self.kind == "balanced" else 1.0

    def model(self, A: int, tokens: int) -> LinearAttention:
        """The model to train by steps, in float32."""
        if self.log_alpha < math.log(SMALLEST) - 1e-9:
            raise ValueError(
                f"alpha = exp({self.log_alpha:g}) is too small for steps in float32; take {SMALLEST:g} or more, "
                "or gradient flow, which is in float64"
            )
        W_OV, W_KQ = self.ratio(A, tokens)
        alpha = math.exp(self.log_alpha)
        return LinearAttention(jnp.asarray(alpha * W_OV, jnp.float32), jnp.full(tokens, alpha * W_KQ, jnp.float32))


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

    def by_kind(self, name: str, values: Float[Array, " tokens"]) -> Seen:
        """The largest value over the tokens of each kind."""
        kinds = columns(len(self.of_subject), len(self.of_relation))
        return {f"{name}_{kind}": values[at].max() for kind, at in kinds.items()}


class Watched(eqx.Module):
    """A population as arrays on the device, with all that the observables need."""

    counts: Float[Array, "n tokens"]
    weights: Float[Array, " n"]
    mobility: Float[Array, " tokens"]
    subjects: Int[Array, " n"]
    relations: Int[Array, " n"]
    answers: Int[Array, " n"]
    sets: AnswerSets

    @classmethod
    def of(cls, population: Population) -> "Watched":
        """In the precision that JAX has where this is called."""
        table, facts = population.table, population.facts
        p = np.bincount(facts, population.weights, minlength=len(table))
        floats = population.counts, population.weights, population.mobility
        counts, weights, mobility = (jnp.asarray(x, float) for x in floats)
        s, r, answers = (jnp.asarray(x[facts]) for x in (table.subjects, table.relations, table.answers))
        return cls(counts, weights, mobility, s, r, answers, AnswerSets.of(table, p))

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

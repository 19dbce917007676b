"""Does the transformer recall its facts: every one of the table, each from a prompt with fresh noise.

Facts are asked in blocks, so that the scores of all facts against all outputs are never held at once.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from facthold._util.errors import check_positive
from facthold._util.padding import geometric, next_power_of_two, pad_rows, padded
from facthold.facts.problem import FactualRecall
from facthold.facts.prompts import Prompts
from facthold.facts.table import FactTable
from facthold.measure.recall import right
from facthold.models.memory import MLPMemory
from facthold.models.transformer import Transformer

BLOCK = 1 << 10
"""Facts asked at once. A constant, so that a fact's noise depends on the key and on its row alone."""


class MoreAnswers(eqx.Module):
    """`FactTable.also` by rows: fact i has the answers ``answers[start[i] : end[i]]`` beside its first one."""

    start: Int[Array, " facts"]
    end: Int[Array, " facts"]
    answers: Int[Array, " extra"]
    most: int = eqx.field(static=True)
    """At least as many as any fact has."""

    @classmethod
    def of(cls, table: FactTable, rows: int) -> "MoreAnswers | None":
        """The further answers of a table padded to so many rows; None where there are none, and nothing to pay for."""
        if not len(table.also):
            return None
        counts = np.bincount(table.also[:, 0], minlength=rows).astype(np.int32)
        end = np.cumsum(counts, dtype=np.int32)
        extra = next_power_of_two(len(table.also))
        return cls(
            start=jnp.asarray(end - counts),
            end=jnp.asarray(end),
            answers=jnp.asarray(pad_rows(table.also[:, 1], extra)),
            most=next_power_of_two(int(counts.max())),
        )

    def with_first(self, facts: Int[Array, " n"], first: Int[Array, " n"]) -> Int[Array, "n k"]:
        """All right answers of each fact, the first one again where others have more."""
        place = self.start[facts][:, None] + jnp.arange(self.most)
        there = place < self.end[facts][:, None]
        more = jnp.where(there, self.answers[jnp.where(there, place, 0)], first[:, None])
        return jnp.concatenate([first[:, None], more], axis=1)


class Questions(eqx.Module):
    """A problem as a model meets it: prompts that ask for facts, and the embeddings. Training asks by it too.

    It may be padded, so that tables of nearly the same size share compiled code.
    """

    prompts: Prompts
    phi: Float[Array, "tokens d"]
    query: Float[Array, " d"]
    """The embedding of EOS."""
    U: Float[Array, "M d"]
    offered: Bool[Array, " M"]
    """Marks the outputs that are there, among padding."""
    more: MoreAnswers | None = None
    """Further right answers, where the table has some."""

    @classmethod
    def of(cls, problem: FactualRecall, *, columns: int = 0, n_outputs: int = 0) -> "Questions":
        """The questions of ``problem``, padded to at least so many tokens and outputs."""
        U = problem.U
        n_outputs = max(n_outputs, len(U))
        prompts = Prompts.of(problem.table, T=problem.T, n_noise=problem.n_noise, p=problem.p, columns=columns)
        spare = prompts.n_tokens - problem.n_tokens  # more rows of EOS, the last: no score is out of the way
        return cls(
            prompts=prompts,
            phi=jnp.asarray(np.pad(problem.prompt_phi, [(0, spare), (0, 0)], mode="edge")),
            query=jnp.asarray(problem.phi[problem.EOS]),
            U=jnp.asarray(pad_rows(U, n_outputs)),
            offered=jnp.asarray(np.arange(n_outputs) < len(U)),
            more=MoreAnswers.of(problem.table, len(prompts.subjects)),
        )

    def output(self, model: Transformer, facts: Int[Array, " n"], *, key: PRNGKeyArray) -> Float[Array, "n d"]:
        """F_TF for a prompt of each fact."""
        return model.of_counts(self.prompts.counts(facts, key=key), self.phi, self.query)

    def scores(self, model: Transformer, facts: Int[Array, " n"], *, key: PRNGKeyArray) -> Float[Array, "n M"]:
        """The logits of all outputs, and -inf where there is none."""
        return jnp.where(self.offered, self.output(model, facts, key=key) @ self.U.T, -jnp.inf)

    def right(self, scores: Float[Array, "n M"], facts: Int[Array, " n"]) -> Bool[Array, " n"]:
        """Whether a right answer of each fact has a finite score above all that are not right."""
        if self.more is None:
            return right(scores, self.prompts.answers[facts])
        best, is_right = self._best_right(scores, facts)
        return jnp.isfinite(best) & ((scores < best[:, None]) | is_right).all(axis=1)

    def margins(self, scores: Float[Array, "n M"], facts: Int[Array, " n"]) -> Float[Array, " n"]:
        """The best right score minus the best of the others; nan where a right one is not finite or another is nan."""
        best, is_right = self._best_right(scores, facts)
        rivals = jnp.where(is_right, -jnp.inf, scores)
        sound = jnp.isfinite(best) & ~jnp.isnan(scores).any(axis=1)  # a compiled maximum may pass over a nan
        return jnp.where(sound, best - rivals.max(axis=1), jnp.nan)

    def _best_right(
        self, scores: Float[Array, "n M"], facts: Int[Array, " n"]
    ) -> tuple[Float[Array, " n"], Bool[Array, "n M"]]:
        """The largest score of a right answer, nan where one of them is not finite, and which outputs are right."""
        first = self.prompts.answers[facts]
        if self.more is None:
            is_right = jnp.arange(scores.shape[1]) == first[:, None]
            return jnp.take_along_axis(scores, first[:, None], axis=1)[:, 0], is_right
        answers = self.more.with_first(facts, first)
        marked = jnp.zeros(scores.shape, bool).at[jnp.arange(len(facts))[:, None], answers].set(True)
        theirs = jnp.take_along_axis(scores, answers, axis=1)
        return jnp.where(jnp.isfinite(theirs).all(axis=1), theirs.max(axis=1), jnp.nan), marked

    def recalled(self, model: Transformer, *, key: PRNGKeyArray) -> Bool[Array, " facts"]:
        """Which facts of the table are recalled, each from one prompt; False at rows that are padding."""
        n_facts, rows = self.prompts.n_facts, len(self.prompts.subjects)

        def ask(block: Array, found: Array) -> Array:
            facts = block * BLOCK + jnp.arange(BLOCK)
            there = facts < n_facts
            facts = jnp.where(there, facts, 0)
            scores = self.scores(model, facts, key=jax.random.fold_in(key, block))
            hits = self.right(scores, facts) & there
            return lax.dynamic_update_slice(found, hits, (block * BLOCK,))

        found = jnp.zeros(-(-rows // BLOCK) * BLOCK, bool)
        return lax.fori_loop(0, (n_facts + BLOCK - 1) // BLOCK, ask, found)[:rows]


def recalled_facts(model: Transformer, problem: FactualRecall, *, key: PRNGKeyArray) -> Bool[np.ndarray, " facts"]:
    """Which facts the arg max gets right, in the table's order, each from one prompt with noise by ``key``.

    As for memories, a score that is not finite, or that another output shares, is not recall. Where several
    answers are right (`FactTable.also`), any of them is recall, and they may share the largest score.
    """
    return np.asarray(_recalled(_padded(problem), model, key))[: len(problem.table)]


def fact_accuracy(model: Transformer, problem: FactualRecall, *, key: PRNGKeyArray) -> float:
    """The share of all facts that are recalled."""
    return float(recalled_facts(model, problem, key=key).mean())


def fact_margins(
    model: Transformer, problem: FactualRecall, *, key: PRNGKeyArray, draws: int = 1
) -> Float[np.ndarray, "draws facts"]:
    """Score of the best right answer minus that of the best rival, for each fact with each of ``draws`` noises.

    Positive exactly where the fact is recalled; nan where a score is not finite.
    """
    check_positive(draws=draws)
    questions, n, model = _padded(problem), len(problem.table), _roomy(model)
    facts = np.tile(np.arange(n, dtype=np.int32), draws)
    blocks = [
        np.asarray(
            _margins(questions, model, jnp.asarray(pad_rows(facts[i : i + BLOCK], BLOCK)), jax.random.fold_in(key, b))
        )
        for b, i in enumerate(range(0, len(facts), BLOCK))
    ]
    return np.concatenate(blocks)[: len(facts)].reshape(draws, n)


def always_right(model: Transformer, problem: FactualRecall, *, key: PRNGKeyArray, draws: int) -> float:
    """The share of facts that are recalled in each of ``draws`` prompts with fresh noise."""
    return float((fact_margins(model, problem, key=key, draws=draws) > 0).all(axis=0).mean())


def predict(
    model: Transformer, problem: FactualRecall, facts: Int[np.ndarray, " n"], *, key: PRNGKeyArray
) -> Int[np.ndarray, " n"]:
    """The token, as a row of phi, that the model says to a prompt of each fact; a fact is a row of the table.

    Of tokens with the same score the first is taken. Asked for all facts in order, the prompts are those of
    `recalled_facts` with the same key.
    """
    facts = np.asarray(facts, np.int32)
    if len(facts) and not 0 <= facts.min() <= facts.max() < len(problem.table):
        raise ValueError(f"facts must be rows of the table, 0 to {len(problem.table) - 1}, not {facts.tolist()}")
    questions = _padded(problem)
    blocks = [
        np.asarray(
            _predict(questions, model, jnp.asarray(pad_rows(facts[i : i + BLOCK], BLOCK)), jax.random.fold_in(key, b))
        )
        for b, i in enumerate(range(0, len(facts), BLOCK))
    ]
    outputs = np.concatenate([*blocks, np.zeros(0, np.int32)])[: len(facts)]
    return problem.output_tokens[outputs]


def _padded(problem: FactualRecall) -> Questions:
    return Questions.of(problem, columns=padded(problem.n_tokens), n_outputs=padded(len(problem.U)))


def _roomy(model: Transformer) -> Transformer:
    """The same function with zero neurons added, so that models of nearly the same width share compiled code."""
    if model.mlp is None:
        return model
    m, mlp = geometric(model.m), model.mlp
    b = None if mlp.b is None else jnp.asarray(pad_rows(mlp.b, m))
    wider = MLPMemory(jnp.asarray(pad_rows(mlp.W, m)), jnp.asarray(pad_rows(mlp.V, m)), b, mlp.sigma)
    return eqx.tree_at(lambda t: t.mlp, model, wider)


@eqx.filter_jit
def _recalled(questions: Questions, model: Transformer, key: PRNGKeyArray) -> Array:
    return questions.recalled(model, key=key)


@eqx.filter_jit
def _predict(questions: Questions, model: Transformer, facts: Array, key: PRNGKeyArray) -> Array:
    return jnp.argmax(questions.scores(model, facts, key=key), axis=1).astype(jnp.int32)


@eqx.filter_jit
def _margins(questions: Questions, model: Transformer, facts: Array, key: PRNGKeyArray) -> Array:
    return questions.margins(questions.scores(model, facts, key=key), facts)

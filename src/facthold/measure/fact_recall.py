"""Does the transformer recall its facts: every one of the table, each from a prompt with fresh noise.

Facts are asked in blocks, so that the scores of all facts against all outputs are never held at once.
"""

from collections.abc import Callable

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
from facthold.models.memory import MLPMemory
from facthold.models.transformer import Transformer

BLOCK = 1 << 10  # facts asked at once. A constant, so that a fact's noise depends on the key and on its row alone.


class MoreAnswers(eqx.Module):
    """`FactTable.also` by rows: fact i has the answers ``answers[start[i] : end[i]]`` beside its first one."""

    start: Int[Array, " facts"]
    end: Int[Array, " facts"]
    answers: Int[Array, " extra"]
    most: int = eqx.field(static=True)  # at least as many as any fact has

    @classmethod
    def of(cls, table: FactTable, rows: int) -> "MoreAnswers | None":
        """The further answers of a table padded to so many rows; None where there are none, and nothing to pay for."""
        if not len(table.also):
            return None
        counts = np.bincount(table.also[:, 0], minlength=rows).astype(np.int32)
        end = np.cumsum(counts, dtype=np.int32)
        answers, most = table.also[:, 1], next_power_of_two(int(counts.max()))
        answers = pad_rows(answers, next_power_of_two(len(answers)))
        return cls(jnp.asarray(end - counts), jnp.asarray(end), jnp.asarray(answers), most)

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
    query: Float[Array, " d"]  # the embedding of EOS
    U: Float[Array, "M d"]
    offered: Bool[Array, " M"]  # marks the outputs that are there, among padding
    more: MoreAnswers | None = None  # further right answers, where the table has some

    @classmethod
    def of(cls, problem: FactualRecall, *, columns: int = 0, n_outputs: int = 0, rows: int = 0) -> "Questions":
        """The questions of ``problem``, padded to at least so many tokens and outputs, and so many rows of facts."""
        U = problem.U
        n_outputs = max(n_outputs, len(U))
        prompts = Prompts.of(
            problem.table, T=problem.T, n_noise=problem.n_noise, p=problem.p, columns=columns, rows=rows
        )
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

    def scores(self, model: Transformer, counts: Float[Array, "n tokens"]) -> Float[Array, "n M"]:
        """The logits of all outputs, and -inf where there is none, for prompts given as their token counts."""
        return jnp.where(self.offered, model.of_counts(counts, self.phi, self.query) @ self.U.T, -jnp.inf)

    def right(self, scores: Float[Array, "n M"], facts: Int[Array, " n"]) -> Bool[Array, " n"]:
        """Whether a right answer of each fact has a finite score above all that are not right."""
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
            scores = self.scores(model, self.prompts.counts(facts, key=jax.random.fold_in(key, block)))
            hits = self.right(scores, facts) & there
            return lax.dynamic_update_slice(found, hits, (block * BLOCK,))

        found = jnp.zeros(-(-rows // BLOCK) * BLOCK, bool)
        return lax.fori_loop(0, (n_facts + BLOCK - 1) // BLOCK, ask, found)[:rows]

    def drawn(self, model: Transformer, n: int, *, key: PRNGKeyArray) -> Bool[Array, " n"]:
        """Which of n prompts are answered right, their facts drawn by p(s, r): some are asked twice, others never."""
        k_facts, k_prompts = jax.random.split(key)
        facts = self.prompts.draw(n, key=k_facts)
        return self.right(self.scores(model, self.prompts.counts(facts, key=k_prompts)), facts)


def recalled_facts(model: Transformer, problem: FactualRecall, *, key: PRNGKeyArray) -> Bool[np.ndarray, " facts"]:
    """Which facts the arg max gets right, in the table's order, each from one prompt with noise by ``key``.

    As for memories, a score that is not finite, or that another output shares, is not recall. Where several
    answers are right (`FactTable.also`), any of them is recall, and they may share the largest score.
    """
    return _in_blocks(_right, model, problem, np.arange(len(problem.table), dtype=np.int32), key)


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
    n = len(problem.table)
    facts = np.tile(np.arange(n, dtype=np.int32), draws)
    return _in_blocks(_margins, _roomy(model), problem, facts, key).reshape(draws, n)


def fact_scores(
    model: Transformer, questions: Questions, facts: Int[np.ndarray, " n"], *, key: PRNGKeyArray, draws: int
) -> Float[np.ndarray, "asked M"]:
    """Scores of all outputs in ``draws`` prompts of each of these facts, draw by draw."""
    keys = (jax.random.fold_in(key, i) for i in range(draws))
    return np.concatenate([np.asarray(_ask(questions, model, jnp.asarray(facts), k), np.float64) for k in keys])


def always_right(model: Transformer, problem: FactualRecall, *, key: PRNGKeyArray, draws: int) -> float:
    """The share of facts that are recalled in each of ``draws`` prompts with fresh noise."""
    return float((fact_margins(model, problem, key=key, draws=draws) > 0).all(axis=0).mean())


def _in_blocks(
    judge: Callable[..., Array], model: Transformer, problem: FactualRecall, facts: Int[np.ndarray, " n"],
    key: PRNGKeyArray,
) -> np.ndarray:  # fmt: skip
    """judge(questions, scores, facts) for one block of facts after another."""
    questions = Questions.of(problem, columns=padded(problem.n_tokens), n_outputs=padded(len(problem.U)))
    answers = []
    for b, i in enumerate(range(0, max(1, len(facts)), BLOCK)):
        block = jnp.asarray(pad_rows(facts[i : i + BLOCK], BLOCK))
        scores = _ask(questions, model, block, jax.random.fold_in(key, b))
        answers.append(np.asarray(judge(questions, scores, block)))
    return np.concatenate(answers)[: len(facts)]


def _ask(questions: Questions, model: Transformer, facts: Array, key: PRNGKeyArray) -> Array:
    """The scores in two programs: a search over models compiles the prompts once, and half as long."""
    return _scores(questions, model, _counts(questions.prompts, facts, key=key))


def _roomy(model: Transformer) -> Transformer:
    """The same function with zero neurons added, so that models of nearly the same width share compiled code."""
    if model.mlp is None:
        return model
    m, mlp = geometric(model.m), model.mlp
    b = None if mlp.b is None else jnp.asarray(pad_rows(mlp.b, m))
    wider = MLPMemory(jnp.asarray(pad_rows(mlp.W, m)), jnp.asarray(pad_rows(mlp.V, m)), b, mlp.sigma)
    return eqx.tree_at(lambda t: t.mlp, model, wider)


_counts, _scores = eqx.filter_jit(Prompts.counts), eqx.filter_jit(Questions.scores)
_margins, _right = eqx.filter_jit(Questions.margins), eqx.filter_jit(Questions.right)

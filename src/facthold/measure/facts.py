"""Does the transformer recall its facts: every one of the table, each from a prompt with fresh noise.

Facts are asked in blocks, so that the scores of all facts against all outputs are never held at once.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from facthold.errors import check_positive
from facthold.factual import FactualRecall
from facthold.measure.recall import right
from facthold.models.memory import MLPMemory
from facthold.models.transformer import Transformer
from facthold.padding import geometric, pad_rows, padded
from facthold.prompts import Prompts

BLOCK = 1 << 10
"""Facts asked at once. A constant, so that a fact's noise depends on the key and on its row alone."""


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
        )

    def output(self, model: Transformer, facts: Int[Array, " n"], *, key: PRNGKeyArray) -> Float[Array, "n d"]:
        """F_TF for a prompt of each fact."""
        return model.of_counts(self.prompts.counts(facts, key=key), self.phi, self.query)

    def scores(self, model: Transformer, facts: Int[Array, " n"], *, key: PRNGKeyArray) -> Float[Array, "n M"]:
        """The logits of all outputs, and -inf where there is none."""
        return jnp.where(self.offered, self.output(model, facts, key=key) @ self.U.T, -jnp.inf)

    def recalled(self, model: Transformer, *, key: PRNGKeyArray) -> Bool[Array, " facts"]:
        """Which facts of the table are recalled, each from one prompt; False at rows that are padding."""
        n_facts, rows = self.prompts.n_facts, len(self.prompts.subjects)

        def ask(block: Array, found: Array) -> Array:
            facts = block * BLOCK + jnp.arange(BLOCK)
            there = facts < n_facts
            facts = jnp.where(there, facts, 0)
            scores = self.scores(model, facts, key=jax.random.fold_in(key, block))
            hits = right(scores, self.prompts.answers[facts]) & there
            return lax.dynamic_update_slice(found, hits, (block * BLOCK,))

        found = jnp.zeros(-(-rows // BLOCK) * BLOCK, bool)
        return lax.fori_loop(0, (n_facts + BLOCK - 1) // BLOCK, ask, found)[:rows]


def recalled_facts(model: Transformer, problem: FactualRecall, *, key: PRNGKeyArray) -> Bool[np.ndarray, " facts"]:
    """Which facts the arg max gets right, in the table's order, each from one prompt with noise by ``key``.

    As for memories, a score that is not finite, or that another output shares, is not recall.
    """
    return np.asarray(_recalled(_padded(problem), model, key))[: len(problem.table)]


def fact_accuracy(model: Transformer, problem: FactualRecall, *, key: PRNGKeyArray) -> float:
    """The share of all facts that are recalled."""
    return float(recalled_facts(model, problem, key=key).mean())


def fact_margins(
    model: Transformer, problem: FactualRecall, *, key: PRNGKeyArray, draws: int = 1
) -> Float[np.ndarray, "draws facts"]:
    """Score of the answer minus that of the best rival, for each fact with each of ``draws`` fresh noises.

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
    scores, answers = questions.scores(model, facts, key=key), questions.prompts.answers[facts]
    target = jnp.take_along_axis(scores, answers[:, None], axis=1)[:, 0]
    rivals = jnp.where(jnp.arange(scores.shape[1]) == answers[:, None], -jnp.inf, scores)
    return jnp.where(jnp.isfinite(target), target - rivals.max(axis=1), jnp.nan)

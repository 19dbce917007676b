"""Gradient descent and Adam on the same facts, through the engine, with the observables of each evaluation.

Noise is either *drawn* afresh at each step, as in the paper's experiments, or *even*: each noise token counts
(T - 3) / n_noise in every prompt. For linear attention whose noise tokens all have the same weights the second is the
population loss itself, with no sampling at all; for softmax attention it is another task, and refused.
"""

from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from facthold._util.errors import check_positive, unknown
from facthold.dynamics import NOISE
from facthold.dynamics.observables import AnswerSets
from facthold.facts.problem import FactualRecall
from facthold.facts.prompts import Prompts
from facthold.facts.table import FactTable
from facthold.models.linear_attention import LinearAttention
from facthold.models.softmax_head import SoftmaxHead
from facthold.train.engine import Listener, Member, Seen, fit
from facthold.train.protocols import BATCH, Protocol
from facthold.train.tasks import Task


class Embedded(eqx.Module):
    """The fixed embeddings that a softmax head sees its tokens by."""

    phi: Float[Array, "tokens d"]
    query: Float[Array, " d"]
    U: Float[Array, "A d"]


class LearnFacts(Task):
    """Cross entropy over the answers, with the observables of section 5 at each evaluation."""

    prompts: Prompts
    sets: AnswerSets
    asked: Int[Array, " questions"]  # facts whose answers are kept at each evaluation, as rows of the table
    embedded: Embedded | None
    batch: int = eqx.field(static=True)  # prompts per step; 0: every fact once
    draws: int = eqx.field(static=True)  # prompts of each fact at an evaluation
    noise: str = eqx.field(static=True)

    @classmethod
    def of(
        cls, table: FactTable, *, T: int, n_noise: int, noise: str = "drawn", batch: int = BATCH, draws: int = 4,
        asked: Int[np.ndarray, " questions"] | None = None, problem: FactualRecall | None = None,
    ) -> "LearnFacts":  # fmt: skip
        """The task of learning ``table``. With a ``problem`` it is for softmax attention by its embeddings."""
        if noise not in NOISE:
            raise unknown("noise", noise, NOISE)
        if noise == "even" and problem is not None:
            raise ValueError("noise='even' is the population loss of linear attention alone; take noise='drawn'")
        check_positive(draws=draws)
        if batch < 0:
            raise ValueError(f"batch={batch} must not be negative; 0 takes every fact at each step")
        rows = np.zeros(0, np.int32) if asked is None else np.asarray(asked, np.int32)
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(table):
            raise ValueError(f"asked must lie between 0 and {len(table) - 1}, not {rows.min()} to {rows.max()}")
        if noise == "drawn" and draws < 2:
            raise ValueError(f"draws={draws} leaves no spread to take an error from; take draws >= 2")
        embedded = None
        if problem is not None:
            _check_same(problem, table, T, n_noise)
            embedded = Embedded(*map(jnp.asarray, (problem.prompt_phi, problem.phi[problem.EOS], problem.U)))
        prompts = Prompts.of(table, T=T, n_noise=n_noise)
        fewest = 1 if noise == "even" else draws
        return cls(prompts, AnswerSets.of(table), jnp.asarray(rows), embedded, batch, fewest, noise)

    def loss(self, model: Any, *, key: PRNGKeyArray) -> Float[Array, ""]:
        k_facts, k_noise = jax.random.split(key)
        facts = self.prompts.draw(self.batch, key=k_facts) if self.batch else jnp.arange(len(self.prompts.subjects))
        log_p = jax.nn.log_softmax(self.logits(model, facts, key=k_noise))
        return -jnp.take_along_axis(log_p, self.prompts.answers[facts][:, None], axis=1).mean()

    def accuracy(self, model: Any, *, key: PRNGKeyArray) -> Float[Array, ""]:
        return self.observe(model, key=key)["accuracy"]

    def observe(self, model: Any, *, key: PRNGKeyArray) -> Seen:
        """Means over every fact, each from `draws` prompts, and the standard error that drawing leaves to the loss."""
        n = len(self.prompts.subjects)
        facts = jnp.repeat(jnp.arange(n), self.draws)
        log_p = jax.nn.log_softmax(self.logits(model, facts, key=key))
        r = self.prompts.relations[facts] - self.sets.of_subject.shape[0]
        each = self.sets.observe(log_p, self.prompts.subjects[facts], r, self.prompts.answers[facts])
        spread = each["loss"].reshape(n, self.draws).var(axis=1, ddof=1 if self.draws > 1 else 0)
        seen = {name: values.mean() for name, values in each.items()}
        seen["loss_error"] = jnp.sqrt(spread.sum() / self.draws) / n
        asked = log_p.reshape(n, self.draws, -1)[self.asked, 0]
        return seen | {"answers": asked.argmax(axis=1), "sure": jnp.exp(asked.max(axis=1))} | self._weights(model)

    def logits(self, model: Any, facts: Int[Array, " n"], *, key: PRNGKeyArray) -> Float[Array, "n A"]:
        """The logits of all answers, for a prompt of each fact."""
        if self.noise == "even":
            return self._even_logits(model, facts)
        counts = self.prompts.counts(facts, key=key)
        if self.embedded is None:
            return model.logits(counts)
        return model.logits(counts, self.embedded.phi, self.embedded.query, self.embedded.U)

    def _even_logits(self, model: LinearAttention, facts: Int[Array, " n"]) -> Float[Array, "n A"]:
        """With all noise tokens in equal shares. A sum of three rows, and not a product with counts that are nearly all
        0: several times as fast."""
        token, adds = jnp.arange(self.prompts.n_tokens), model.Theta.T
        noise = (token >= self.prompts.first_noise) & (token < self.prompts.EOS)
        shared = noise * (self.prompts.T - 3) / self.prompts.n_noise + (token == self.prompts.EOS)
        return adds[self.prompts.subjects[facts]] + adds[self.prompts.relations[facts]] + shared @ adds

    def _weights(self, model: Any) -> Seen:
        """The largest W_KQ of each kind of token, where the model has one number for it."""
        if not isinstance(model, LinearAttention):
            return {}
        S, first = self.sets.of_subject.shape[0], self.sets.of_subject.shape[0] + self.sets.of_relation.shape[0]
        log_K = jnp.log(jnp.abs(model.W_KQ))
        ends = {"subject": (0, S), "relation": (S, first), "noise": (first, -1), "EOS": (-1, None)}
        return {f"log_W_KQ_{kind}": log_K[a:b].max() for kind, (a, b) in ends.items()}


@dataclass(frozen=True, eq=False)
class Descent:
    """What was seen of one run, from before the first step on."""

    steps: Int[np.ndarray, " looks"]
    seen: Seen
    status: str  # how the engine ended: 'reached', 'exhausted' or 'diverged'
    model: Any


def descend(
    task: LearnFacts, model: LinearAttention | SoftmaxHead, protocol: Protocol, *, key: PRNGKeyArray,
    listener: Listener | None = None,
) -> Descent:  # fmt: skip
    """Train ``model`` to the end of ``protocol``: the curve is the result, and no accuracy ends it."""
    whole = replace(protocol, goal=1.0, rule="final", futility=None)
    before = jax.device_get(_observe(task, model, key))
    if listener is not None:
        listener(0, 0, float(before["accuracy"]), before)
    (run,) = fit([Member(model, task, key)], whole, listener=listener)
    steps = protocol.check_every * np.arange(len(run.curve) + 1)
    seen = {name: np.concatenate([np.asarray(first)[None], run.seen[name]]) for name, first in before.items()}
    return Descent(steps, seen, run.status, run.model)


def _check_same(problem: FactualRecall, table: FactTable, T: int, n_noise: int) -> None:
    """Refuse embeddings of other prompts than those that are trained on."""
    ours = (table.A, T, n_noise, "answers")
    theirs = (problem.table.A, problem.T, problem.n_noise, problem.outputs)
    if ours != theirs or problem.p is not None or not np.array_equal(table.matrix, problem.table.matrix):
        raise ValueError(
            f"the problem is not that of T={T} and n_noise={n_noise}, uniform p(s, r) and outputs='answers' over this "
            "table; make it with the same ones"
        )


@eqx.filter_jit
def _observe(task: LearnFacts, model: Any, key: PRNGKeyArray) -> Seen:
    return task.observe(model, key=key)

"""Gradient descent and Adam on the same facts, through the engine, with the observables of each evaluation.

Noise is either *drawn* afresh at each step, as in the paper's experiments, or *even*: each noise token counts
(T - 3) / n_noise in every prompt. For linear attention whose noise tokens all have the same weights the second is the
population loss itself, with no sampling at all; for softmax attention it is another task, and refused.
"""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from facthold._util.errors import unknown
from facthold.dynamics import NOISE
from facthold.dynamics.population import AnswerSets
from facthold.facts.problem import FactualRecall
from facthold.facts.prompts import Prompts
from facthold.facts.table import FactTable
from facthold.models.one_head import LinearAttention, SoftmaxHead
from facthold.train.engine import Listener, Member, Run, Seen, fit
from facthold.train.protocols import BATCH, Protocol
from facthold.train.tasks import Task

DRAWS = 4  # prompts of each fact at an evaluation where noise is drawn: an error is taken from their spread


class LearnFacts(Task):
    """Cross entropy over the answers, with the observables of section 5 at each evaluation."""

    prompts: Prompts
    sets: AnswerSets
    asked: Int[Array, " questions"]  # facts whose answers are kept at each evaluation, as rows of the table
    embedded: tuple[Float[Array, "tokens d"], Float[Array, " d"], Float[Array, "A d"]] | tuple[()]
    """For a softmax head: the fixed embeddings of its tokens, of its query, and U."""
    batch: int = eqx.field(static=True)  # prompts per step; 0: every fact once
    noise: str = eqx.field(static=True)

    @classmethod
    def of(
        cls, table: FactTable, *, T: int, n_noise: int, noise: str = "drawn", batch: int = BATCH,
        asked: Int[np.ndarray, " questions"] | None = None, problem: FactualRecall | None = None,
    ) -> "LearnFacts":  # fmt: skip
        """The task of learning ``table``. With a ``problem`` it is for softmax attention by its embeddings."""
        if noise not in NOISE:
            raise unknown("noise", noise, NOISE)
        if noise == "even" and problem is not None:
            raise ValueError("noise='even' is the population loss of linear attention alone; take noise='drawn'")
        if batch < 0:
            raise ValueError(f"batch={batch} must not be negative; 0 takes every fact at each step")
        rows = np.zeros(0, np.int32) if asked is None else np.asarray(asked, np.int32)
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(table):
            raise ValueError(f"asked must lie between 0 and {len(table) - 1}, not {rows.min()} to {rows.max()}")
        embedded: Any = ()
        if problem is not None:
            same = (problem.table.A, problem.T, problem.n_noise, problem.outputs) == (table.A, T, n_noise, "answers")
            if not same or problem.p is not None or not np.array_equal(table.matrix, problem.table.matrix):
                raise ValueError(
                    f"the problem is not that of T={T} and n_noise={n_noise}, uniform p(s, r) and outputs='answers' "
                    "over this table; make it with the same ones"
                )
            embedded = tuple(map(jnp.asarray, (problem.prompt_phi, problem.phi[problem.EOS], problem.U)))
        prompts = Prompts.of(table, T=T, n_noise=n_noise)
        return cls(prompts, AnswerSets.of(table), jnp.asarray(rows), embedded, batch, noise)

    def loss(self, model: Any, *, key: PRNGKeyArray) -> Float[Array, ""]:
        k_facts, k_noise = jax.random.split(key)
        facts = self.prompts.draw(self.batch, key=k_facts) if self.batch else jnp.arange(len(self.prompts.subjects))
        log_p = jax.nn.log_softmax(self.logits(model, facts, key=k_noise))
        return -jnp.take_along_axis(log_p, self.prompts.answers[facts][:, None], axis=1).mean()

    def accuracy(self, model: Any, *, key: PRNGKeyArray) -> Float[Array, ""]:
        return self.observe(model, key=key)["accuracy"]

    def observe(self, model: Any, *, key: PRNGKeyArray) -> Seen:
        """Means over every fact, each from `DRAWS` prompts, and the standard error that drawing leaves to the loss."""
        n, draws = len(self.prompts.subjects), 1 if self.noise == "even" else DRAWS
        facts = jnp.repeat(jnp.arange(n), draws)
        log_p = jax.nn.log_softmax(self.logits(model, facts, key=key))
        r = self.prompts.relations[facts] - self.sets.of_subject.shape[0]
        each = self.sets.observe(log_p, self.prompts.subjects[facts], r, self.prompts.answers[facts])
        spread = each["loss"].reshape(n, draws).var(axis=1, ddof=1 if draws > 1 else 0)
        seen = {name: values.mean() for name, values in each.items()}
        seen["loss_error"] = jnp.sqrt(spread.sum() / draws) / n
        asked = log_p.reshape(n, draws, -1)[self.asked, 0]
        seen |= {"answers": asked.argmax(axis=1), "sure": jnp.exp(asked.max(axis=1))}
        if not isinstance(model, LinearAttention):
            return seen  # it has no one number for a token
        return seen | self.sets.by_kind("log_W_KQ", jnp.log(jnp.abs(model.W_KQ)))

    def logits(self, model: Any, facts: Int[Array, " n"], *, key: PRNGKeyArray) -> Float[Array, "n A"]:
        if self.noise == "even":
            return self._even_logits(model, facts)
        return model.logits(self.prompts.counts(facts, key=key), *self.embedded)

    def _even_logits(self, model: LinearAttention, facts: Int[Array, " n"]) -> Float[Array, "n A"]:
        """With all noise tokens in equal shares. A sum of three rows, and not a product with counts that are nearly all
        0: several times as fast."""
        token, adds = jnp.arange(self.prompts.n_tokens), model.Theta.T
        noise = (token >= self.prompts.first_noise) & (token < self.prompts.EOS)
        shared = noise * (self.prompts.T - 3) / self.prompts.n_noise + (token == self.prompts.EOS)
        return adds[self.prompts.subjects[facts]] + adds[self.prompts.relations[facts]] + shared @ adds


def descend(
    task: LearnFacts, model: LinearAttention | SoftmaxHead, protocol: Protocol, *, key: PRNGKeyArray,
    listener: Listener | None = None,
) -> Run:  # fmt: skip
    """Train ``model`` to the end of ``protocol``: the curve is the result, and no accuracy ends it. What is seen begins
    before the first step, and has the ``steps`` of each look."""
    whole = replace(protocol, goal=1.0, rule="final", futility=None)
    before = jax.device_get(eqx.filter_jit(task.observe)(model, key=key))
    if listener is not None:
        listener(0, 0, float(before["accuracy"]), before)
    (run,) = fit([Member(model, task, key)], whole, listener=listener)
    steps = protocol.check_every * np.arange(len(run.curve) + 1)
    seen = {name: np.concatenate([np.asarray(first)[None], run.seen[name]]) for name, first in before.items()}
    return replace(run, seen=seen | {"steps": steps})

"""The attended cell: what each head of a construction attends to in one prompt, and what it adds (figure 3)."""

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from facthold._util.errors import check_positive
from facthold._util.keys import derive
from facthold.facts.problem import FactualRecall
from facthold.facts.prompts import Prompts, check_length
from facthold.lab.cells import Cell, Result
from facthold.recipes.builders import Knobs, build_facts, builder
from facthold.studies.constructions.built_size import text_problem
from facthold.studies.transformers.fact_capacity import nested_table

RIVALS = 6
"""Outputs that are kept beside the answer: those with the highest scores."""


@dataclass(frozen=True, kw_only=True)
class Attended(Cell):
    """One prompt for one fact, through a transformer that was built and not trained."""

    kind: ClassVar[str] = "attended"

    builder: str
    S: int
    R: int
    D: int
    d: int
    d_h: int = 0
    m: int = 0
    per_head: int = 0
    T: int = 10
    fact: int = 0
    """Which fact is asked, as a row of the table."""
    seed: int = 0

    def __post_init__(self) -> None:
        builder(self.builder)
        check_length(self.T)
        check_positive(S=self.S, R=self.R, D=self.D, d=self.d)
        if not 0 <= self.fact < self.S * self.R:
            raise ValueError(f"fact={self.fact} must be a row of the table, 0 to {self.S * self.R - 1}")

    @property
    def label(self) -> str:
        return f"what the heads of {self.builder} attend to"

    def run(self) -> Result:
        problem = text_problem(nested_table("random", self.S, self.R, self.D, self.seed), self.d, self.seed, self.T)
        size = Knobs(d_h=self.d_h, m=self.m, per_head=self.per_head)
        model = build_facts(self.builder, problem, size, self.seed)
        prompts = Prompts.of(problem.table, T=self.T, n_noise=problem.n_noise)
        tokens = np.asarray(prompts.sequences(jnp.asarray([self.fact]), key=derive("prompt", self.seed)))[0]
        X = jnp.asarray(problem.phi[tokens])[None]
        weights = model.attention(X)
        values = jnp.einsum("hid,ntd->nhti", model.W_V, X)
        added = jnp.einsum("nhti,nht,hid->nhd", values, weights, model.W_O)[0]
        F, U = model(X)[0], jnp.asarray(problem.U)
        scores, answer = np.asarray(U @ F), int(problem.table.answers[self.fact])
        kept = [answer, *(int(y) for y in np.argsort(-scores) if y != answer)][: RIVALS + 1]
        mlp = F - added.sum(axis=0)
        by_part = jnp.concatenate([added, mlp[None]]) if model.mlp is not None else added
        return {
            "status": "done", "accuracy": float(np.argmax(scores) == answer),
            "tokens": [_name(problem, int(z)) for z in tokens],
            "outputs": [_name(problem, int(problem.output_tokens[y])) for y in kept],
            "attention": np.asarray(weights[0]).tolist(),
            "added": np.asarray(by_part @ U[np.array(kept)].T).tolist(),
            "scores": scores[kept].tolist(), "n_params": model.n_params,
        }  # fmt: skip


def _name(problem: FactualRecall, token: int) -> str:
    """A token as figure 3 writes it."""
    for kind, size in (("s", problem.table.S), ("r", problem.table.R), ("n", problem.n_noise)):
        if token < size:
            return f"{kind}{token}"
        token -= size
    return "EOS" if token == 0 else f"a{token - 1}"

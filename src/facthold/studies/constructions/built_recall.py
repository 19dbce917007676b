"""The built-recall cell: does a construction of one size know all of a table, in every prompt that is tried?"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from facthold._util.errors import check_positive
from facthold._util.keys import derive
from facthold.facts.table import random_share
from facthold.lab.cells import Cell, Result
from facthold.measure.fact_recall import fact_margins
from facthold.recipes.builders import Knobs, build_facts, builder
from facthold.studies.constructions.built_size import text_problem
from facthold.studies.transformers.fact_capacity import nested_table


@dataclass(frozen=True, kw_only=True)
class BuiltRecall(Cell):
    """Every fact of a table, or of a random share of it, asked in ``draws`` prompts with fresh noise."""

    kind: ClassVar[str] = "built-recall"

    builder: str
    S: int
    R: int
    D: int
    d: int
    d_h: int = 0
    m: int = 0
    per_head: int = 0
    share: float = 1.0
    draws: int = 100
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)

    def __post_init__(self) -> None:
        builder(self.builder)
        check_positive(S=self.S, R=self.R, D=self.D, d=self.d, draws=self.draws)

    @property
    def label(self) -> str:
        return f"{self.builder}, every fact of {self.share:.0%} of S={self.S} R={self.R} in {self.draws} prompts"

    @property
    def cost(self) -> float:
        """Mostly asking: the products of the heads and of the MLP for each prompt."""
        prompts = len(self.seeds) * self.share * self.S * self.R * self.draws
        Hd_h = max(self.d_h, 1) * 2 * -(-self.S // max(self.per_head, 1))
        return prompts * 2 * (Hd_h * (self.d + 2 * (self.S + self.R)) + 2 * self.m * self.d) / 5e10 + len(self.seeds)

    def run(self) -> Result:
        per_seed = [self._ask(seed) for seed in self.seeds]
        return {
            "wrong": [wrong for wrong, _, _ in per_seed],
            "smallest_margin": [margin for _, margin, _ in per_seed],
            "facts": round(self.share * self.S) * self.R,
            "n_params": per_seed[0][2],
            "accuracy": 1 - sum(wrong for wrong, _, _ in per_seed) / (len(self.seeds) * self.share * self.S * self.R),
        }

    def _ask(self, seed: int) -> tuple[int, float, int]:
        """Facts that are wrong in at least one prompt, the smallest margin, and the parameters."""
        table = nested_table("random", self.S, self.R, self.D, seed)
        if self.share < 1:
            table = random_share(table, self.share, key=derive("share", seed, self.share))
        problem = text_problem(table, self.d, seed)
        size = Knobs(d_h=self.d_h, m=self.m, per_head=self.per_head)
        model = build_facts(self.builder, problem, size, seed)
        margins = fact_margins(model, problem, key=derive("ask", seed), draws=self.draws)
        return int((~(margins > 0)).any(axis=0).sum()), float(np.min(margins)), model.n_params

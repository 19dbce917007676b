"""The built-size cell: how large a construction must be to know a table of facts, over seeds."""

from dataclasses import dataclass
from statistics import fmean
from typing import Any, ClassVar

import numpy as np

from facthold._util.errors import check_positive, unknown
from facthold._util.keys import derive
from facthold.facts.problem import FactualRecall
from facthold.facts.prompts import SEQUENCE
from facthold.facts.table import TABLES, FactTable, random_share
from facthold.lab.cells import Cell, Result
from facthold.measure.capacity import FOUND
from facthold.measure.fact_recall import fact_margins
from facthold.measure.smallest import Smallest, find_smallest
from facthold.models.transformer import Transformer
from facthold.recipes.builders import Knobs, build_facts, builder
from facthold.studies.transformers.fact_capacity import make_problem, nested_table
from facthold.studies.transformers.variants import VARIANTS

CEILINGS = {"d": 4096, "d_h": 2048, "m": 1 << 16}
"""Where a search ends at the latest: beyond, a construction is not practical on any laptop."""
FARTHEST = 32
"""It ends at so many times its guess too: where attention does not select, no width of the MLP helps."""


def text_problem(table: FactTable, d: int, seed: int, T: int = SEQUENCE, p: np.ndarray | None = None) -> FactualRecall:
    """The setting of the theorems: spherical embeddings, arg max over the whole vocabulary."""
    return make_problem(table, d, seed, VARIANTS["text"], T, p=p)


@dataclass(frozen=True, kw_only=True)
class BuiltSize(Cell):
    """The smallest size (the builder's knob: d, d_h or m) at which the share ``goal`` of the facts is recalled."""

    kind: ClassVar[str] = "built-size"

    builder: str
    S: int
    R: int
    D: int
    d: int = 0
    """Embedding dimension; 0 where it is what is searched."""
    per_head: int = 0
    table_kind: str = "random"
    share: float = 1.0
    """Share of S x R that is in the table."""
    goal: float = 0.99
    draws: int = 1
    """Prompts with fresh noise in which each fact is asked."""
    guess: int = 64
    tolerance: float = 0.03
    seeds: tuple[int, ...] = (0, 1, 2)

    def __post_init__(self) -> None:
        knob = builder(self.builder).knob
        check_positive(S=self.S, R=self.R, D=self.D, draws=self.draws, guess=self.guess)
        if (knob == "d") == bool(self.d):
            what = "is what is searched; leave it 0" if self.d else "must be given: what is searched is " + knob
            raise ValueError(f"d={self.d} {what}")
        if not 0 < self.goal <= 1 or not 0 < self.share <= 1:
            raise ValueError(f"goal={self.goal} and share={self.share} must be above 0 and at most 1")
        if not self.seeds:
            raise ValueError("seeds must hold at least one seed")
        if self.table_kind not in TABLES:
            raise unknown("table_kind", self.table_kind, TABLES)

    @property
    def label(self) -> str:
        part = "" if self.share == 1 else f" {self.share:.0%} of"
        return f"smallest {builder(self.builder).knob} of {self.builder}{part} S={self.S} R={self.R} D={self.D}"

    @property
    def shape(self) -> str:
        return self.builder

    @property
    def cost(self) -> float:
        """About ten builds a seed, some of them compiled for the first time."""
        return len(self.seeds) * (4 + self.S * self.R / 100)

    def table(self, seed: int) -> FactTable:
        whole = nested_table(self.table_kind, self.S, self.R, self.D, seed)
        return whole if self.share == 1 else random_share(whole, self.share, key=derive("share", seed, self.share))

    def build(self, size: int, seed: int) -> tuple[Transformer, FactualRecall]:
        """The model of this size, and what it should know."""
        way = builder(self.builder)
        problem = text_problem(self.table(seed), size if way.knob == "d" else self.d, seed)
        sizes = {"per_head": self.per_head} | ({way.knob: size} if way.knob != "d" else {})
        return build_facts(self.builder, problem, Knobs(**sizes), seed), problem

    def run(self) -> Result:
        found = [self._search(seed) for seed in self.seeds]
        complete = all(search.size is not None for search, _ in found)
        sizes = [search.size for search, _ in found if search.size is not None]
        models: list[dict[str, Any]] = [about for _, about in found]
        statuses = sorted({search.status for search, _ in found if search.status != FOUND})
        mean = lambda name: fmean(m[name] for m in models) if complete else None  # noqa: E731
        return {
            "status": FOUND if complete else ", ".join(statuses), "knob": builder(self.builder).knob,
            "facts": len(self.table(self.seeds[0])),
            "size": fmean(sizes) if complete else None, "size_min": min(sizes) if complete else None,
            "size_max": max(sizes) if complete else None,
            "n_params": mean("n_params"), "Hd_h": mean("Hd_h"), "md": mean("md"), "smallest_margin": mean("margin"),
            "per_seed": [
                {"seed": seed, "status": search.status, "probes": search.probes, **about}
                for seed, (search, about) in zip(self.seeds, found, strict=True)
            ],
        }  # fmt: skip

    def _search(self, seed: int) -> tuple[Smallest, dict[str, Any]]:
        knob = builder(self.builder).knob
        about: dict[int | None, dict[str, Any]] = {}

        def ask(size: int) -> float:
            model, problem = self.build(size, seed)
            margins = fact_margins(model, problem, key=derive("ask", seed), draws=self.draws)
            accuracy = float((margins > 0).all(axis=0).mean()) if self.goal == 1 else float((margins > 0).mean())
            about[size] = {
                "n_params": model.n_params, "Hd_h": model.H * model.d_h, "md": model.m * model.d, "d": model.d,
                "margin": float(np.min(margins)),
            }  # fmt: skip
            return accuracy

        search = find_smallest(
            ask, self.goal, self.guess, floor=3 if knob == "d" else 1,
            ceiling=min(CEILINGS[knob], FARTHEST * self.guess), tolerance=self.tolerance,
        )  # fmt: skip
        return search, about.get(search.size, {})

"""The trained-size cell: how large a transformer must be to learn one table, by gradients alone."""

import time
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from facthold._util.errors import check_positive
from facthold.facts.prompts import SEQUENCE
from facthold.facts.table import FactTable
from facthold.lab.cells import Cell, Result
from facthold.measure.capacity import FOUND
from facthold.measure.smallest import find_smallest
from facthold.models.transformer import n_params
from facthold.studies.transformers.fact_capacity import (
    best_run,
    make_problem,
    nested_table,
    racing_members,
    step_seconds,
)
from facthold.studies.transformers.variants import variant
from facthold.theory.bounds import FACTS_A_PARAMETER
from facthold.train import BATCH, Protocol, RecallFacts, Run, fit, protocol

HEADS = 4
"""Four heads at every size: with eight, heads of the smallest models have one dimension, and such models hold half as
much a parameter (docs/findings.md). d is a multiple of it, and H d_h = d."""
BETA = 4
"""m = 4 d, as in most of figure 4."""
VARIANT = "code"
FARTHEST = 6
"""A search ends at so many times its guess."""


def train_table(table: FactTable, d: int, training: Protocol, seed: int) -> Run | None:
    """The best run of a race over the protocol's learning rates, at H d_h = d and m = 4 d; None where all diverged."""
    if d < HEADS or d % HEADS:
        raise ValueError(f"d={d} must be a multiple of {HEADS}, the number of heads")
    way = variant(VARIANT)
    task = RecallFacts.of(make_problem(table, d, seed, way, SEQUENCE))
    race = racing_members(task, HEADS, d // HEADS, BETA * d, seed, way, training, "one")
    best = best_run(race, fit(race, training))
    return best and best[0]


def trained_params(d: int) -> int:
    """Parameters at dimension d: 12 d^2."""
    return n_params(d=d, H=HEADS, d_h=d // HEADS, m=BETA * d)


@dataclass(frozen=True, kw_only=True)
class TrainedSize(Cell):
    """The smallest d at which training reaches the share ``goal`` of a table."""

    kind: ClassVar[str] = "trained-size"

    S: int
    R: int
    D: int
    goal: float = 0.99
    protocol: str = "transformer-short"
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive(S=self.S, R=self.R, D=self.D)
        if not 0 < self.goal <= 1:
            raise ValueError(f"goal={self.goal} must be above 0 and at most 1")
        protocol(self.protocol)  # refuse unknown names

    @property
    def training(self) -> Protocol:
        return replace(protocol(self.protocol), goal=self.goal)

    @property
    def spec(self) -> dict[str, Any]:
        return super().spec | {"training": self.training.spec, "model": asdict(variant(VARIANT)), "batch": BATCH}

    @property
    def label(self) -> str:
        return f"smallest d that learns S={self.S} R={self.R} D={self.D} to {self.goal:.4g}"

    @property
    def guess(self) -> int:
        """d / 4 at half of figure 4's facts a parameter."""
        units = 1
        while 0.5 * FACTS_A_PARAMETER * trained_params(HEADS * units) < self.S * self.R:
            units += 1
        return units

    @property
    def cost(self) -> float:
        """About four probes, each as long as 1.5 full-length runs."""
        d = HEADS * self.guess
        return 6 * self.training.steps * step_seconds(
            d=d, Hd_h=d, m=BETA * d, S=self.S, R=self.R, A=self.R * self.D
        )  # fmt: skip

    def run(self) -> Result:
        table = nested_table("random", self.S, self.R, self.D, self.seed)
        seconds: dict[int | None, float] = {}

        def ask(units: int) -> float:
            start = time.perf_counter()
            best = train_table(table, HEADS * units, self.training, self.seed)
            seconds[units] = time.perf_counter() - start
            return 0.0 if best is None else best.best

        search = find_smallest(ask, self.goal, self.guess, ceiling=FARTHEST * self.guess, tolerance=0.0)
        d = None if search.size is None else HEADS * search.size
        return {
            "status": search.status, "facts": len(table), "size": d, "d": d,
            "n_params": None if d is None else trained_params(d),
            "seconds": seconds.get(search.size),  # of the machine that it ran on, compiling included
            "probes": [[HEADS * units, accuracy] for units, accuracy in search.probes],
            "found": search.status == FOUND,
        }  # fmt: skip

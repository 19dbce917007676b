"""The cells behind `facthold plan`: what a model of one size knows of a table, and the smallest size that is enough."""

import math
import time
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from facthold._util.errors import FactholdError, check_positive, unknown
from facthold._util.keys import derive
from facthold.construct.gates import gate_heads, gated_transformer
from facthold.facts.problem import FactualRecall, factual_recall
from facthold.facts.prompts import SEQUENCE
from facthold.facts.table import FactTable
from facthold.knowledge.build import NOISE
from facthold.knowledge.groups import fact_groups, join, store_group
from facthold.knowledge.judge import judge_table
from facthold.knowledge.readout import shape
from facthold.lab.cells import Cell, Result
from facthold.measure.smallest import find_smallest
from facthold.models.forward import Forward, table_prompts
from facthold.models.transformer import Transformer
from facthold.recipes.builders import BUILDERS, Knobs, build_facts, builder
from facthold.studies.constructions.built_size import CEILINGS, text_problem
from facthold.studies.sizes.trained_size import train_table, trained_params
from facthold.studies.transformers.fact_capacity import nested_table
from facthold.train import protocol

METHODS = (*BUILDERS, "readout", "train")
A_DIMENSION: dict[str, tuple[str, float]] = {"attention": ("d_h", 1 / 4), "attention-mlp": ("m", 8.0)}
"""Constructions whose d decides as much as d_h or m: their knob is d here, and both grow together. (At one d, no d_h or
m is enough for some tables; at a d that is large enough for all, small ones are enough for some.)"""
FARTHEST = 8
"""A search ends at so many times its guess."""


def knob_of(method: str) -> str:
    """The size that is searched: d, d_h or m."""
    if method in ("readout", "train"):
        return "m" if method == "readout" else "d"
    return "d" if method in A_DIMENSION else builder(method).knob


def tied(method: str, d: int) -> int:
    """d_h or m of a construction where it grows with d."""
    return max(1, round(A_DIMENSION[method][1] * d))


def _with_ratio(method: str) -> dict[str, Any]:
    """What a spec says of it."""
    if method not in A_DIMENSION:
        return {}
    name, ratio = A_DIMENSION[method]
    return {f"{name}_a_dimension": int(ratio) if ratio == int(ratio) else ratio}


@dataclass(frozen=True, kw_only=True)
class Held(Cell):
    """The accuracy of the model that ``method`` makes at one size. A refusal to make it is a result: none is held."""

    kind: ClassVar[str] = "held"

    method: str
    S: int
    R: int
    D: int
    d: int
    size: int
    """Of the method's knob: d, d_h or m."""
    per_head: int = 0
    goal: float = 0.99
    """Where training may stop."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise unknown("method", self.method, METHODS)
        check_positive(S=self.S, R=self.R, D=self.D, d=self.d)
        if not 0 < self.goal <= 1:
            raise ValueError(f"goal={self.goal} must be above 0 and at most 1")

    @property
    def label(self) -> str:
        return f"{self.method} of size {self.size} at d={self.d}, S={self.S} R={self.R} D={self.D}"

    @property
    def cost(self) -> float:
        return 4 + self.S * self.R / 100

    @property
    def spec(self) -> dict[str, Any]:
        training = {"training": protocol("transformer-short").spec} if self.method == "train" else {}
        return super().spec | training | _with_ratio(self.method)

    def run(self) -> Result:
        table = nested_table("random", self.S, self.R, self.D, self.seed)
        start = time.perf_counter()
        try:
            accuracy, params = self._make(table)
        except (ValueError, FactholdError) as error:
            return {"status": "refused", "reason": str(error), "accuracy": 0.0, "n_params": None, "seconds": None}
        seconds = time.perf_counter() - start
        return {"status": "made", "reason": None, "accuracy": accuracy, "n_params": params, "seconds": seconds}

    def _make(self, table: FactTable) -> tuple[float, int]:
        """The accuracy, and the parameters."""
        if self.method == "train":
            run = train_table(table, self.d, replace(protocol("transformer-short"), goal=self.goal), self.seed)
            return (0.0 if run is None else run.best), trained_params(self.d)
        if self.method == "readout":
            model, problem = readout_of_width(table, self.d, self.size, self.goal, self.seed)
        else:
            problem = text_problem(table, self.d, self.seed)
            knob = knob_of(self.method)
            sizes = {"per_head": self.per_head} | ({knob: self.size} if knob != "d" else {})
            if self.method in A_DIMENSION:
                sizes[A_DIMENSION[self.method][0]] = tied(self.method, self.d)
            model = build_facts(self.method, problem, Knobs(**sizes), self.seed)
        # in NumPy: asking once is not worth a compilation
        verdicts = judge_table(Forward.of(model, problem), problem, table_prompts(problem, seed=self.seed))
        return float(verdicts.recalled.mean()), model.n_params


@dataclass(frozen=True, kw_only=True)
class HeldSize(Cell):
    """The smallest size of a construction at which each of several tables with the same S, R and D is held.

    With one table a search over sizes finds the luckiest of its draws: d and d_h change all random weights. The size
    at which three tables in a row are held scatters less, and is what a new table can be given.
    """

    kind: ClassVar[str] = "held-size"

    method: str
    S: int
    R: int
    D: int
    d: int = 0
    """Embedding dimension; 0 where it is what is searched."""
    per_head: int = 0
    goal: float = 0.99
    guess: int = 64
    tolerance: float = 0.1
    seeds: tuple[int, ...] = (0, 1, 2)

    def __post_init__(self) -> None:
        knob = knob_of(self.method)
        check_positive(guess=self.guess)
        if (knob == "d") == bool(self.d):
            what = "is what is searched; leave it 0" if self.d else "must be given: what is searched is " + knob
            raise ValueError(f"d={self.d} {what}")
        if not self.seeds:
            raise ValueError("seeds must hold at least one seed")
        self._at(self.guess, self.seeds[0])  # refuse what it refuses

    @property
    def spec(self) -> dict[str, Any]:
        return super().spec | _with_ratio(self.method)

    @property
    def label(self) -> str:
        return f"smallest {knob_of(self.method)} of {self.method}, S={self.S} R={self.R} D={self.D}"

    @property
    def cost(self) -> float:
        """About five sizes, of which half are left at the first table."""
        return 3 * len(self.seeds) * (2 + self.S * self.R / 200)

    def _at(self, size: int, seed: int) -> Held:
        return Held(
            method=self.method, S=self.S, R=self.R, D=self.D, d=self.d or size, size=size, per_head=self.per_head,
            goal=self.goal, seed=seed,
        )  # fmt: skip

    def run(self) -> Result:
        made: dict[int | None, Result] = {}

        def ask(size: int) -> float:
            least = 1.0
            for seed in self.seeds:
                found = self._at(size, seed).run()
                made.setdefault(size, found)  # the first of a size has compiled
                least = min(least, found["accuracy"])
                if least < self.goal:
                    break
            return least

        knob = knob_of(self.method)
        search = find_smallest(
            ask, self.goal, self.guess, floor=3 if knob == "d" else 1,
            ceiling=min(CEILINGS[knob], FARTHEST * self.guess), tolerance=self.tolerance,
        )  # fmt: skip
        best = made.get(search.size, {})
        return {
            "status": search.status, "size": search.size, "n_params": best.get("n_params"),
            "seconds": best.get("seconds"),  # of the machine that it ran on
            "probes": [[size, accuracy] for size, accuracy in search.probes],
        }  # fmt: skip


def readout_of_width(table: FactTable, d: int, m: int, goal: float, seed: int) -> tuple[Transformer, FactualRecall]:
    """The method readout without its search: m neurons in all, shared out by what each group has to hold."""
    d, n_gates = shape(table, NOISE, d)
    problem = factual_recall(
        table, d, key=derive("tokens", seed, d, "sphere"), n_noise=NOISE, T=SEQUENCE, outputs="answers"
    )
    gates = gate_heads(problem, n_gates, key=derive("gates", seed))
    groups = fact_groups(problem, gates)
    work = np.array([len(group) * math.log(max(2, len(np.unique(group.problem.f)))) for group in groups])
    ends = np.round(np.append(0, np.cumsum(work)) / work.sum() * m).astype(int)
    widths = np.diff(ends)
    if (widths < 1).any():
        raise ValueError(f"m={m} is too few: {len(groups)} groups of facts need a neuron each")
    stored = [
        store_group(group, int(width), goal, key=derive("store", seed, i))[0]
        for i, (group, width) in enumerate(zip(groups, widths, strict=True))
    ]
    return gated_transformer(problem, gates, join(gates, groups, stored, d)), problem

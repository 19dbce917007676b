"""The fact-capacity cell: how many facts a trained transformer of one shape and size holds, over seeds."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import isqrt, sqrt
from statistics import fmean
from typing import Any, ClassVar

import numpy as np

from facthold._util.errors import check_positive, unknown
from facthold._util.keys import derive
from facthold._util.padding import geometric
from facthold.facts.problem import FactualRecall, factual_recall
from facthold.facts.prompts import check_length
from facthold.facts.table import TABLES, FactTable, make_table
from facthold.lab.cells import Cell, Result
from facthold.measure.capacity import FOUND, Probe, Search, find_capacity, summary
from facthold.models.transformer import Transformer, n_params
from facthold.studies.transformers.variants import Variant, variant
from facthold.theory.bounds import FACTS_A_PARAMETER
from facthold.train import BATCH, Member, Protocol, RecallFacts, Run, fit, protocol

GROWTH = {"S=R": lambda S: S, "S=R^2": isqrt}
"""How many relations a table of S subjects has: figures 4, 7 and 8, and figure 9."""


def nested_table(kind: str, S: int, R: int, D: int | None, seed: int) -> FactTable:
    """The table of this seed. For D fixed, that of S + 1 begins with that of S."""
    return make_table(kind, S, R, S if D is None else D, key=derive("facts", seed, kind))


def make_problem(
    table: FactTable, d: int, seed: int, way: Variant, T: int, n_noise: int | None = None, p: np.ndarray | None = None
) -> FactualRecall:
    """The table's prompts and embeddings, of this seed and variant."""
    key = derive("tokens", seed, d, way.embeddings)
    chosen = {"embeddings": way.embeddings, "outputs": way.outputs}
    return factual_recall(table, d, key=key, n_noise=n_noise, T=T, p=p, **chosen)


def racing_members(
    task: RecallFacts, H: int, d_h: int, m: int, seed: int, way: Variant, training: Protocol, race: Any
) -> list[Member]:
    """One start and one stream of prompts, a member for each learning rate of the protocol."""
    d = task.d
    content = (seed, d, H, d_h, m, way.name)
    start = Transformer.init(d, H, d_h, m, key=derive("init", *content), bias=way.bias, scaled=way.scaled)
    return [Member(start, task, derive("train", *content), lr, race) for lr in training.lrs or (training.lr,)]


def shape_of(alpha: float, beta: float, n_params: int, H: int) -> dict[str, int]:
    """Sizes with H d_h = alpha d and m = beta d, up to rounding, and about so many parameters.

    d_h is rounded to whole numbers first, and m takes what is left, so that shapes differ little in their parameters.
    """
    d = max(2, round(sqrt(n_params / (4 * alpha + 2 * beta))))
    d_h = max(1, round(alpha * d / H))
    m = max(1, round(n_params / (2 * d) - 2 * H * d_h)) if beta else 0
    return {"d": d, "H": H, "d_h": d_h, "m": m}


def step_seconds(*, d: int, Hd_h: int, m: int, S: int, R: int, A: int) -> float:
    """A guess at the seconds of one training step on one lane: its multiplications, and what is not multiplied."""
    flops = 2 * BATCH * ((2 * A + 6 * m + 3 * Hd_h) * d + 4 * (S + R) * Hd_h)
    return flops / 5e10 + 3e-4


@dataclass(frozen=True, kw_only=True)
class FactCapacity(Cell):
    """The largest S for which a transformer of shape (alpha, beta, H) at dimension d learns its S R facts."""

    kind: ClassVar[str] = "fact-capacity"

    alpha: float
    """H d_h = alpha d."""
    beta: float
    """m = beta d."""
    d: int
    H: int = 8
    D: int | None = 8
    """Answers of a relation; None: as many as subjects (figure 8)."""
    growth: str = "S=R"
    table: str = "random"
    T: int = 32
    variant: str = "code"
    protocol: str = "transformer-code"
    rule: str = "best"
    """'best': 99% at any look; 'final': at the end of training."""
    goal: float = 0.99
    tolerance: float = 0.0
    """Relative width of S at which the search ends; 0: at neighbouring integers."""
    seeds: tuple[int, ...] = (0, 1, 2)
    start: float = 1.0
    """Where the search starts, as a multiple of the scaling guess."""

    def __post_init__(self) -> None:
        check_positive(d=self.d, H=self.H, d_h=self.d_h)
        check_length(self.T)
        if self.m < 0:
            raise ValueError(f"beta={self.beta} must not be negative")
        if self.growth not in GROWTH:
            raise unknown("growth", self.growth, GROWTH)
        if self.table not in TABLES:
            raise unknown("table", self.table, TABLES)
        if self.table == "balanced" and self.D is not None:
            raise ValueError(
                f"table='balanced' has no table for each S at D={self.D}; take D=None (as many as subjects)"
            )
        if not self.seeds:
            raise ValueError("seeds must hold at least one seed")
        self.training, self.search, variant(self.variant)  # refuse unknown names and a bad search

    @property
    def d_h(self) -> int:
        """As the authors round it. Below 1 there is no such model."""
        return int(self.alpha * self.d / self.H)

    @property
    def m(self) -> int:
        return int(self.beta * self.d)

    @property
    def n_params(self) -> int:
        return n_params(d=self.d, H=self.H, d_h=self.d_h, m=self.m)

    @property
    def training(self) -> Protocol:
        return replace(protocol(self.protocol), goal=self.goal, rule=self.rule)

    @property
    def spec(self) -> dict[str, Any]:
        """The fields, and all that the protocol and the variant say: a change in them is another cell."""
        return super().spec | {"training": self.training.spec, "model": asdict(variant(self.variant)), "batch": BATCH}

    @property
    def shape(self) -> str:
        """Told apart by what figures 8 and 9 change too, where it is changed."""
        kind = f"alpha={self.alpha:g} beta={self.beta:g} H={self.H}"
        answers = "" if self.D == 8 else " D=S" if self.D is None else f" D={self.D}"
        return kind + answers + ("" if self.growth == "S=R" else f" {self.growth}")

    @property
    def label(self) -> str:
        answers = "D=S" if self.D is None else f"D={self.D}"
        return f"facts in alpha={self.alpha:g} beta={self.beta:g} H={self.H} d={self.d}, {self.growth}, {answers}"

    def R(self, S: int) -> int:
        return GROWTH[self.growth](S)

    @cached_property
    def guess(self) -> int:
        """S at a share of the guide line: a probe is cheap below the capacity, and dear at it."""
        facts, S = self.start * FACTS_A_PARAMETER * self.n_params, 2
        while (S + 1) * self.R(S + 1) <= facts:
            S += 1
        return S

    @property
    def search(self) -> Search:
        return Search(2, 8 * self.guess, self.tolerance)

    @property
    def cost(self) -> float:
        """Seconds on one lane: about 4 probes a seed, each as long as 1.5 full-length runs."""
        S, R = self.guess, self.R(self.guess)
        step = step_seconds(d=self.d, Hd_h=self.H * self.d_h, m=self.m, S=S, R=R, A=R * (self.D or S))
        return len(self.seeds) * 6 * self.training.steps * step

    def run(self) -> Result:
        found = find_capacity(self._ask, self.seeds, self.guess, self.search)
        result = summary(found)
        if result["status"] == FOUND:
            facts = [c.N * self.R(c.N) for c in found if c.N is not None]
            result |= {"facts": fmean(facts), "facts_min": min(facts), "facts_max": max(facts)}
        else:
            result |= {"facts": None, "facts_min": None, "facts_max": None}
        return result | {"n_params": self.n_params, "d_h": self.d_h, "m": self.m}

    def problem(self, S: int, seed: int) -> FactualRecall:
        """The S R(S) facts of this seed, with their embeddings."""
        table = nested_table(self.table, S, self.R(S), self.D, seed)
        return make_problem(table, self.d, seed, variant(self.variant), self.T)

    def members(self, S: int, seed: int) -> list[Member]:
        """The race of one probe. Tables of a range of S are padded to one size, and share a compiled loop."""
        columns, n_outputs = self._widths(geometric(S))
        task = RecallFacts.of(self.problem(S, seed), columns=columns, n_outputs=n_outputs)
        size = (self.H, self.d_h, self.m)
        return racing_members(task, *size, seed, variant(self.variant), self.training, (S, seed))

    def _widths(self, S: int) -> tuple[int, int]:
        """Tokens that can stand in a prompt, and outputs, for a table of S subjects."""
        tokens, answers = 2 * (S + self.R(S)) + 1, self.R(S) * (self.D or S)
        return tokens, answers + (tokens if variant(self.variant).outputs == "vocabulary" else 0)

    def _ask(self, questions: Sequence[tuple[int, int]]) -> list[Probe]:
        """One round of probes; a probe is stored if it is at one of the learning rates."""
        races = [self.members(S, seed) for S, seed in questions]
        runs = iter(fit([member for race in races for member in race], self.training))
        return [
            _verdict(S, seed, race, [next(runs) for _ in race], self.rule)
            for (S, seed), race in zip(questions, races, strict=True)
        ]


def best_run(race: Sequence[Member], runs: Sequence[Run], rule: str = "best") -> tuple[Run, float | None] | None:
    """The run of a race that counts, and its learning rate; None if all of them diverged."""
    finite = [(run, member.lr) for run, member in zip(runs, race, strict=True) if run.status != "diverged"]
    return max(finite, key=lambda pair: (pair[0].succeeded, _reached(pair[0], rule), -pair[0].steps), default=None)


def _reached(run: Run, rule: str) -> float:
    """The accuracy that the success rule looks at."""
    return run.best if rule == "best" else run.final


def _verdict(S: int, seed: int, race: Sequence[Member], runs: Sequence[Run], rule: str) -> Probe:
    """The answer of the best run. One learning rate that diverges says nothing; nan only if all of them do."""
    steps = sum(run.steps for run in runs)
    best = best_run(race, runs, rule)
    if best is None:
        return Probe(S, seed, float("nan"), False, "diverged", steps)
    run, lr = best
    return Probe(S, seed, _reached(run, rule), run.succeeded, f"{run.status}, lr {lr:g}", steps)

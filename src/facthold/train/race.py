"""A race: one transformer started at several learning rates, of which the best run counts."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from facthold._util.keys import derive
from facthold.facts.problem import FactualRecall, Variant, variant
from facthold.measure.grids import Grid
from facthold.measure.quantise import quantise
from facthold.models.sizes import Shape
from facthold.models.transformer import Transformer
from facthold.train.engine import Listener, Member, Run, fit
from facthold.train.protocols import AUTHORS, Protocol
from facthold.train.tasks import OnGrid, RecallFacts


class Best(NamedTuple):
    """The run of a race that counts."""

    run: Run
    lr: float | None
    runs: Sequence[Run]  # all of them, in the order of the learning rates

    @property
    def model(self) -> Transformer:
        return self.run.model

    @property
    def steps(self) -> int:
        """Steps that all runs took together."""
        return sum(run.steps for run in self.runs)


def racing(
    task: RecallFacts, shape: Shape, seed: int, kind: Variant, training: Protocol, race: Any = "one",
    grid: Grid | None = None,
) -> list[Member]:  # fmt: skip
    """One start and one stream of prompts, a member for each learning rate of the protocol."""
    d, H, d_h, m = shape
    content = (seed, d, H, d_h, m, kind.name)
    start = Transformer.init(d, H, d_h, m, key=derive("init", *content), bias=kind.bias, scaled=kind.scaled)
    asked = task if grid is None else OnGrid(task, grid)
    return [Member(start, asked, derive("train", *content), lr, race) for lr in training.lrs or (training.lr,)]


def best_of(race: Sequence[Member], runs: Sequence[Run], rule: str = "best") -> Best:
    """The run that counts; one that diverged only where all of them did."""

    def rank(i: int) -> tuple[bool, bool, float, int]:
        run, diverged = runs[i], runs[i].status == "diverged"
        return not diverged, run.succeeded, 0.0 if diverged else reached(run, rule), -run.steps

    best = max(range(len(runs)), key=rank)
    return Best(runs[best], race[best].lr, runs)


def reached(run: Run, rule: str = "best") -> float:
    """The accuracy that the success rule looks at; nan where the run diverged."""
    if run.status == "diverged":
        return float("nan")
    return run.final if rule == "final" else run.best


def train(
    problem: FactualRecall, shape: Shape, training: Protocol, seed: int, kind: str = "code", *, rule: str = "best",
    grid: Grid | None = None, listener: Listener | None = None,
) -> Best:  # fmt: skip
    """The best run of a race over the protocol's learning rates on this problem; on a ``grid``, its rounded model."""
    race = racing(RecallFacts.of(problem, sampled=rule == AUTHORS), shape, seed, variant(kind), training, grid=grid)
    best = best_of(race, fit(race, training, listener=listener), rule)
    if grid is None:
        return best
    model = quantise(best.model, grid).model
    return best._replace(run=Run(**vars(best.run) | {"model": model}))

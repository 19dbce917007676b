"""Kinds of heads beyond those of `base`: trained one matrix after the other, a transformer as it is usually made, and
the smallest dimension at which a head does its work."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from facthold._util.keys import derive
from facthold._util.memory import Parts, bytes_of
from facthold.lab import Cell, Result
from facthold.lab.fields import Between, Count, Each, OneOf, Positive, Share
from facthold.measure.capacity import find_smallest
from facthold.studies.context.base import MEMORIES, RECIPES, BigramCell, BuiltHead, TrainedHead
from facthold.train.protocols import Protocol

if TYPE_CHECKING:
    from facthold.models.causal import CausalTransformer
    from facthold.train.engine import Run

NATURAL = ("W_OV^2", "W_KQ^2", "W_KQ^1")  # the order of the slides
TRAINED = "trained"
FARTHEST = 2  # times its guess, at which a search ends: a trained head of twice the size takes four times as long
SEARCHED = 256  # sequences that a search judges by; what it finds is judged on others


@dataclass(frozen=True, kw_only=True)
class InductionHead(TrainedHead):
    """A trained head of a size that is given; `SmallestHead` searches among trained heads."""

    kind: ClassVar[str] = "induction-head"


@dataclass(frozen=True, kw_only=True)
class StagedHead(TrainedHead):
    """The same with one matrix trained after the other, each for its part of the steps; the learning rate falls to zero
    in each part, as it does in joint training over all of the steps."""

    kind: ClassVar[str] = "staged-head"

    stages: Annotated[tuple[str, ...], Each(Annotated[str, OneOf(MEMORIES)])] = NATURAL

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps % (len(self.stages) * self.check_every):
            raise ValueError(
                f"steps={self.steps} are not {len(self.stages)} stages of a multiple of check_every={self.check_every}"
            )

    def learnt(self) -> "tuple[Run, CausalTransformer]":
        import equinox as eqx

        from facthold.models.causal import split
        from facthold.train.engine import Member, Run, fit
        from facthold.train.in_context import PredictInContext

        model, runs = self.start(), []
        protocol = replace(self.training, steps=self.steps // len(self.stages))
        for i, part in enumerate(self.stages):
            trained, fixed = split(model, [part])
            task = PredictInContext.of(self.taught(), fixed, batch=self.batch, everywhere=self.everywhere)
            (run,) = fit([Member(trained, task, derive("train", self.kind, self.seed, i))], protocol)
            model = eqx.combine(run.model, fixed)
            runs.append(run)
        curve = np.concatenate([run.curve for run in runs])
        seen = {name: np.concatenate([run.seen[name] for run in runs]) for name in runs[0].seen}
        steps, best = sum(run.steps for run in runs), max(run.best for run in runs)
        return Run(model, runs[-1].status, steps, best, runs[-1].final, curve, seen), model


@dataclass(frozen=True, kw_only=True)
class GenericHead(BigramCell):
    """A transformer of two layers as it is usually made, all of it trained. Departs from the public code: Adam without
    weight decay, and a learning rate that falls to zero."""

    kind: ClassVar[str] = "generic-head"

    H: Count = 4
    lr: Positive
    steps: Count
    batch: Count = 16
    check_every: Count = 25
    everywhere: bool = True  # the loss is over all positions, as usual

    @property
    def needed(self) -> Parts:
        from facthold.measure.in_context import BLOCK

        per_layer = self.H * self.T**2 + 16.0 * self.T * self.d
        return {
            f"T={self.T}": bytes_of(scores=4.0 * BLOCK * per_layer), f"d={self.d}": bytes_of(weights=100.0 * self.d**2)
        }  # fmt: skip

    @property
    def cost(self) -> float:
        T, d = self.T, self.d
        return 5 + self.steps * self.batch * self.layers * 6 * T * d * (2 * T + 12 * d) / 1.5e10

    def run(self) -> Result:
        import jax

        from facthold.models.generic import GenericTransformer
        from facthold.studies.context.looking import looked
        from facthold.train.engine import Member, fit
        from facthold.train.in_context import PredictInContext

        data = self.task()
        key = derive("generic", self.seed, self.d, self.H)
        model = GenericTransformer.init(data.N, self.T, self.d, self.H, self.layers, key=key)
        none = jax.tree.map(lambda _: None, model)
        task = PredictInContext.of(data, none, batch=self.batch, everywhere=self.everywhere)
        protocol = Protocol(
            self.kind, "this cell", "adam", lr=self.lr, steps=self.steps, check_every=self.check_every, goal=1.0,
            rule="final", futility=None, decay=True,
        )  # fmt: skip
        (run,) = fit([Member(model, task, derive("train", self.kind, self.seed))], protocol)
        steps = self.check_every * np.arange(1, len(run.curve) + 1)
        curves = {"steps": steps.tolist(), "accuracy": np.asarray(run.curve, float).tolist()}
        return {"status": run.status, **self.judged(run.model), **looked(self, run.model), "curves": curves}


@dataclass(frozen=True, kw_only=True)
class SmallestHead(Cell):
    """The smallest d, in multiples of ``grain``, at which the share ``goal`` of outputs is right. It is searched on
    some sequences, and what it finds is judged on others."""

    kind: ClassVar[str] = "smallest-head"
    counts_no_facts: ClassVar[str] = "what is asked stands in the prompt"

    recipe: Annotated[str, OneOf((*RECIPES, TRAINED))]
    guess: Count
    grain: Count = 16
    goal: Share = 0.99
    K: Count = 5
    T: Annotated[int, Between(least=4)] = 256
    silent_first: bool = True
    lr: Positive = 0.03  # this and what follows: where it is trained
    steps: Count = 2400
    batch: Count = 32
    check_every: Count = 40
    seed: int = 0

    @property
    def needed(self) -> Parts:
        return self.at(FARTHEST * self.guess).needed

    @property
    def cost(self) -> float:
        return 4 * self.at(self.guess).cost

    def at(self, d: int) -> BigramCell:
        """The cell of a head of this size."""
        if self.recipe != TRAINED:
            return BuiltHead(
                d=d, recipe=self.recipe, K=self.K, T=self.T, silent_first=self.silent_first, seed=self.seed
            )
        return TrainedHead.of(self, d=d)

    def run(self) -> Result:
        from facthold.measure.in_context import Exam
        from facthold.measure.probes import probes

        models: dict[int, Any] = {}
        tried = []

        def ask(units: int) -> float:
            cell = self.at(units * self.grain)
            model = models[cell.d] = cell.learnt()[1] if isinstance(cell, TrainedHead) else cell.model()  # type: ignore[attr-defined]
            task = cell.task()
            exam = Exam.of(task, key=derive("searched", self.seed, self.K, self.T), n=SEARCHED)
            share = exam.accuracy(model).share
            assert task.fixed is not None
            found = {name: float(value) for name, value in probes(model, task.fixed).items()}
            tried.append({"d": cell.d, "accuracy": share, "probes": found})
            return share

        found = find_smallest(
            ask, self.goal, max(1, self.guess // self.grain), ceiling=FARTHEST * self.guess // self.grain, tolerance=0.0
        )  # fmt: skip
        size = found.size and found.size * self.grain
        judged = self.at(size).judged(models[size]) if size else {"accuracy": None}
        below = found.too_small and found.too_small * self.grain
        return {"status": found.status, "size": size, "too_small": below, **judged, "tried": tried}

"""Cells on the bigram task: a model that is built or trained on it, its accuracy beside rules without induction, and
the probes of its memories along training."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from facthold._util.keys import derive
from facthold._util.memory import Parts, bytes_of
from facthold.knowledge.settings import MEMORIES as MEMORIES
from facthold.lab import Cell, Result
from facthold.lab.fields import Between, Count, Each, OneOf, Positive
from facthold.train.protocols import OPTIMISERS, Protocol

if TYPE_CHECKING:
    from facthold.context.sequences import BigramTask
    from facthold.measure.in_context import Exam
    from facthold.models.causal import CausalTransformer
    from facthold.train.engine import Run

PARTS = ("W_KQ^1", "W_OV^1", "F^1", "W_KQ^2", "W_OV^2", "F^2", "embeddings")
FEED_FORWARD = ("none", "linear", "relu")
RECIPES = ("outer products", "solved")  # of heads that are built


def symbol(matrix: str) -> str:
    """The name of a matrix as a formula: W_OV^2 with both letters below."""
    name, _, layer = matrix.partition("^")
    base, _, below = name.partition("_")
    return f"${base}_{{{below}}}^{layer}$" if below else f"${base}^{layer}$"


@dataclass(frozen=True, kw_only=True)
class BigramCell(Cell):
    """The bigram task of tiny Shakespeare, and a model of it."""

    counts_no_facts: ClassVar[str] = "what is asked stands in the prompt"

    d: Count
    K: Count = 5
    T: Annotated[int, Between(least=4)] = 256
    random: bool = False  # other triggers in each sequence
    layers: Annotated[int, Between(least=1, most=2)] = 2
    seed: int = 0

    @property
    def needed(self) -> Parts:
        from facthold.measure.in_context import BLOCK

        return {
            f"T={self.T}": bytes_of(scores=3.0 * BLOCK * self.T**2),
            f"d={self.d}": bytes_of(weights=24.0 * self.d**2),
        }

    def task(self, **noise: Any) -> "BigramTask":
        from facthold.context.bigrams import Bigrams
        from facthold.context.sequences import BigramTask

        return BigramTask.of(Bigrams.shipped(), self.K, self.T, random=self.random, **noise)

    def exam(self) -> "Exam":
        """The sequences that a finished model is judged on: other ones than those of training and its evaluations."""
        from facthold.measure.in_context import BLOCK, JUDGED, Exam

        about = self.seed, self.K, self.T, int(self.random)
        return Exam(self.task(), tuple(derive("judged", *about, i) for i in range(JUDGED // BLOCK)), BLOCK)

    def judged(self, model: Any) -> Result:
        """Accuracy on fresh sequences, its standard error over them, and what the baselines have right of the same."""
        from facthold.context.bigrams import Bigrams

        exam = self.exam()
        accuracy, error, judged = exam.accuracy(model)
        rules = exam.rules(Bigrams.shipped().pi_b)
        return {"accuracy": accuracy, "accuracy_error": error, "judged": judged, "baselines": rules}


@dataclass(frozen=True, kw_only=True)
class BuiltHead(BigramCell):
    """A head that is built, from outer products as on the slides or by convex solves, and how well it does."""

    kind: ClassVar[str] = "built-head"
    version: ClassVar[int] = 2

    recipe: Annotated[str, OneOf(RECIPES)] = RECIPES[0]
    c: Positive = 30.0  # the inverse temperature of outer products
    silent_first: bool = True
    length_one: bool = False  # of all embeddings of outer products

    @property
    def cost(self) -> float:
        return 3 + 2e-3 * self.T * self.d * (0.6 if self.recipe == "solved" else 0.02)

    def model(self) -> "CausalTransformer":
        from facthold.construct.induction import induction_head
        from facthold.construct.induction_solved import solved_head

        task, key = self.task(), derive("induction", self.seed, self.d)
        if self.recipe == "solved":
            return solved_head(task, self.d, key=key, silent_first=self.silent_first)
        options: dict[str, Any] = {"c": self.c, "silent_first": self.silent_first, "length_one": self.length_one}
        return induction_head(task.N, self.T, self.d, self.triggers(), key=key, **options)

    def triggers(self) -> np.ndarray:
        task = self.task()
        return np.arange(task.N) if task.fixed is None else np.asarray(task.fixed)

    def run(self) -> Result:
        import jax.numpy as jnp

        from facthold.measure.probes import probes
        from facthold.studies.context.looking import looked, mistakes

        model = self.model()
        found = {name: float(value) for name, value in probes(model, jnp.asarray(self.triggers())).items()}
        return {**self.judged(model), **mistakes(self, model), **looked(self, model), "probes": found}


@dataclass(frozen=True, kw_only=True)
class TrainedHead(BigramCell):
    """A model trained on the task, evaluated along the way."""

    kind: ClassVar[str] = "trained-head"

    lr: Positive
    steps: Count
    batch: Count = 32
    check_every: Count = 25
    optimiser: Annotated[str, OneOf(OPTIMISERS)] = "adam"
    decay: bool = True  # the learning rate falls evenly to zero
    trained: Annotated[tuple[str, ...], Each(Annotated[str, OneOf(PARTS)])] = MEMORIES
    feed_forward: Annotated[str, OneOf(FEED_FORWARD)] = "none"  # of each layer; ReLU: of width 4 d
    unit: bool = True  # tokens and positions N(0, 1/d), as on the slides; else N(0, 1), as in the public code
    scaled: bool = False  # scores divided by sqrt(d)
    silent_first: bool = False
    everywhere: bool = False  # the loss is over all positions

    @property
    def training(self) -> Protocol:
        return Protocol(
            self.kind, "this cell", self.optimiser, lr=self.lr, steps=self.steps, check_every=self.check_every,
            goal=1.0, rule="final", futility=None, decay=self.decay,
        )  # fmt: skip

    @property
    def cost(self) -> float:
        T, d = self.T, self.d
        flops = self.batch * self.layers * 8 * T * d * (T + 2 * d)
        return 5 + self.steps * flops / 1.5e11

    def start(self) -> "CausalTransformer":
        import equinox as eqx

        from facthold.construct.induction import untrained
        from facthold.models.memory import LinearMemory, MLPMemory

        key = derive("induction", self.seed, self.d)
        model = untrained(
            self.task().N, self.T, self.d, key=key, layers=self.layers, unit=self.unit, scaled=self.scaled,
            silent_first=self.silent_first,
        )  # fmt: skip
        if self.feed_forward == "none":
            return model
        keys = [derive("feed-forward", self.seed, self.d, i) for i in range(self.layers)]
        linear = self.feed_forward == "linear"
        memories = [
            LinearMemory.init(self.d, key=k) if linear else MLPMemory.init(self.d, 4 * self.d, key=k) for k in keys
        ]
        return eqx.tree_at(
            lambda m: [layer.F for layer in m.layers], model, memories, is_leaf=lambda x: x is None
        )  # fmt: skip

    def taught(self) -> "BigramTask":
        """The sequences that it is trained on."""
        return self.task()

    def learnt(self) -> "tuple[Run, CausalTransformer]":
        """How training went, and the whole model that came of it."""
        import equinox as eqx

        from facthold.models.causal import split
        from facthold.train.engine import Member, fit
        from facthold.train.in_context import PredictInContext

        parts = [name for name in self.trained if self.layers == 2 or not name.endswith("^2")]
        model, fixed = split(self.start(), parts)
        task = PredictInContext.of(self.taught(), fixed, batch=self.batch, everywhere=self.everywhere)
        (run,) = fit([Member(model, task, derive("train", self.kind, self.seed))], self.training)
        return run, eqx.combine(run.model, fixed)

    def curves(self, run: "Run") -> dict[str, list[float]]:
        """Accuracy and probes along training."""
        steps = self.check_every * np.arange(1, len(run.curve) + 1)
        seen = {"steps": steps, "accuracy": run.curve} | run.seen
        return {name: np.asarray(values, float).tolist() for name, values in seen.items()}

    def run(self) -> Result:
        from facthold.studies.context.looking import looked

        run, model = self.learnt()
        return {"status": run.status, **self.judged(model), **looked(self, model), "curves": self.curves(run)}

"""The descent cell: gradient descent or Adam on one table through the engine, and the stages of its loss."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from facthold._util.errors import check_positive, unknown
from facthold._util.keys import derive
from facthold.dynamics.descent import NOISE, LearnFacts, descend
from facthold.dynamics.stages import Levels, find_stages
from facthold.dynamics.start import Start
from facthold.facts.problem import factual_recall
from facthold.facts.prompts import check_length
from facthold.facts.table import make_table
from facthold.lab.cells import Cell, Result
from facthold.models.softmax_head import SoftmaxHead
from facthold.studies.learning.flows import curves
from facthold.train import BATCH, Protocol

MODELS = ("linear", "softmax")


@dataclass(frozen=True, kw_only=True)
class LossCurve(Cell):
    """One run of steps, looked at `looks` times. Times are lr x steps, as gradient flow counts them, for 'sgd'; the
    steps themselves are in the curves too."""

    kind: ClassVar[str] = "loss-curve"

    S: int
    R: int
    D: int
    T: int
    n_noise: int
    lr: float
    steps: int
    model: str = "linear"
    d: int = 0
    """For softmax attention: the dimension of its random embeddings on the sphere."""
    log_alpha: float = math.log(1e-5)
    start: str = "equal"
    """Linear attention begins here; the softmax head at zero."""
    table: str = "balanced"
    optimiser: str = "sgd"
    noise: str = "drawn"
    batch: int = BATCH
    looks: int = 512
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive(S=self.S, R=self.R, D=self.D, n_noise=self.n_noise, looks=self.looks)
        check_length(self.T)
        Start(self.start, self.log_alpha)
        for name, value, known in (("model", self.model, MODELS), ("noise", self.noise, NOISE)):
            if value not in known:
                raise unknown(name, value, known)
        if self.model == "softmax":
            check_positive(d=self.d)
        if not 0 < self.lr < math.inf:
            raise ValueError(f"lr={self.lr} must be above 0 and finite")
        self._protocol  # refuses unknown ones  # noqa: B018

    @property
    def _protocol(self) -> Protocol:
        every = max(1, self.steps // self.looks)
        return Protocol(
            self.kind, "this cell", self.optimiser, lr=self.lr, steps=every * (self.steps // every), check_every=every
        )

    @property
    def label(self) -> str:
        return f"{self.model} attention learns S={self.S} R={self.R} D={self.D}, {self.table} table"

    @property
    def cost(self) -> float:
        return 3.0 + self.steps * (1.5e-3 if self.model == "softmax" else 0.8e-3)

    def run(self) -> Result:
        facts = make_table(self.table, self.S, self.R, self.D, key=derive("flow", self.seed))
        problem, model = None, None
        if self.model == "softmax":
            problem = factual_recall(
                facts, self.d, key=derive("loss-curve", self.seed), n_noise=self.n_noise, T=self.T, outputs="answers"
            )
            model = SoftmaxHead.zeros(self.d)
        task = LearnFacts.of(facts, T=self.T, n_noise=self.n_noise, noise=self.noise, batch=self.batch, problem=problem)
        start = Start(self.start, self.log_alpha, self.seed)
        run = descend(
            task, model or start.model(facts.A, task.prompts.n_tokens), self._protocol,
            key=derive("train", self.kind, self.seed),
        )  # fmt: skip
        times, levels = self.lr * run.steps, Levels.of(facts)
        seen: dict[str, Any] = run.seen
        found = find_stages(times, seen["loss"], levels, relation_loss=seen["relation_loss"])
        return {
            "status": run.status, "levels": vars(levels), "stages": found.values,
            "first_loss": float(seen["loss"][0]), "last_loss": float(seen["loss"][-1]),
            "loss_error": float(seen["loss_error"].max()), "curves": curves(times, seen),
        }  # fmt: skip

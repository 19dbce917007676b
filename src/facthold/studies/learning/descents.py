"""Loss curves and their stages: of gradient descent or Adam on one table, as the reduced equations predict them, and
what figures and claims read from their rows."""

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from facthold._util.errors import check_positive
from facthold._util.keys import derive
from facthold.dynamics import NOISE
from facthold.dynamics.stages import BAND, CONVERGED, Levels, find_stages
from facthold.lab.cells import Result, TableCell
from facthold.lab.fields import Count, OneOf, Positive, Whole
from facthold.lab.figure import Values
from facthold.studies.learning.base import ALPHA, LearningCell, LogAlpha, Rows, Start, staged
from facthold.theory.reduced import Reduced
from facthold.train.protocols import BATCH, OPTIMISERS, Protocol

Pair = tuple[Values, Values]  # a trained curve, and the prediction for its setting


@dataclass(frozen=True, kw_only=True)
class LossCurve(LearningCell):
    """One training run, evaluated `looks` times. Times are lr x steps, as gradient flow counts them, for 'sgd'."""

    kind: ClassVar[str] = "loss-curve"

    lr: Positive
    steps: Count
    model: Annotated[str, OneOf(("linear", "softmax"))] = "linear"
    d: Whole = 0  # for softmax attention: the dimension of its random embeddings on the sphere
    log_alpha: LogAlpha = ALPHA
    start: Start = "equal"  # where linear attention starts; the softmax head starts at zero
    optimiser: Annotated[str, OneOf(OPTIMISERS)] = "sgd"
    noise: Annotated[str, OneOf(NOISE)] = "drawn"
    batch: Whole = BATCH  # prompts per step; 0: every fact once
    looks: Count = 512

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model == "softmax":
            check_positive(d=self.d)

    @property
    def cost(self) -> float:
        return 3.0 + self.steps * (1.5e-3 if self.model == "softmax" else 0.8e-3)

    def run(self) -> Result:
        from facthold.dynamics.descent import LearnFacts, descend
        from facthold.dynamics.start import Start
        from facthold.facts.problem import factual_recall
        from facthold.models.softmax_head import SoftmaxHead

        facts, problem = self.learnt, None
        prompts: dict[str, Any] = {"T": self.T, "n_noise": self.n_noise}
        if self.model == "softmax":
            problem = factual_recall(facts, self.d, key=derive(self.kind, self.seed), outputs="answers", **prompts)
        task = LearnFacts.of(facts, noise=self.noise, batch=self.batch, problem=problem, **prompts)
        linear = Start(self.start, self.log_alpha, self.seed)
        model = SoftmaxHead.zeros(self.d) if problem else linear.model(facts.A, task.prompts.n_tokens)
        every = max(1, self.steps // self.looks)
        steps = every * (self.steps // every)
        training = Protocol(self.kind, "this cell", self.optimiser, lr=self.lr, steps=steps, check_every=every)
        run = descend(task, model, training, key=derive("train", self.kind, self.seed))
        error = float(run.seen["loss_error"].max())
        return {"status": run.status, "loss_error": error, **staged(self.lr * run.steps, run.seen, facts)}


@dataclass(frozen=True, kw_only=True)
class PredictedStages(TableCell):
    """The loss curve of the reduced equations, and its stages by the same rules as a measured curve's."""

    kind: ClassVar[str] = "predicted-stages"
    counts_no_facts: ClassVar[str] = "there is no model"

    log_alpha: float
    start: str = "equal"

    def __post_init__(self) -> None:
        super().__post_init__()
        assert self.reduced  # refuses what has no reduced equations

    @property
    def reduced(self) -> Reduced:
        return Reduced(self.S, self.R, self.D, self.start, self.log_alpha)

    def run(self) -> Result:
        flow = self.reduced
        times = np.linspace(0.0, 1.02 * flow.time_of(CONVERGED / 2), 8001)
        loss = flow.loss(times)
        start, relation, subject = np.log([self.R * self.D, self.D, self.R])
        levels = Levels(start=start, marginal=start, relation=relation, subject=subject)
        kept = slice(None, None, 20)
        return {
            "relation_rate": flow.relation.rate, "subject_rate": flow.subject.rate,
            "relation_first": flow.relation_first, "plateau": flow.plateau, "band": BAND,
            "stages": find_stages(times, loss, levels, relation_loss=flow.relation_loss(times)).values,
            "curves": {"t": times[kept].tolist(), "loss": loss[kept].tolist()},
        }  # fmt: skip


def size(row: Values) -> tuple[int, int, int]:
    return row["S"], row["R"], row["D"]


def setting(row: Values) -> tuple[int, int, int, float]:
    return *size(row), row["log_alpha"]


def alpha(row: Values) -> str:
    return f"{math.exp(row['log_alpha']):.0e}"


def panes(rows: Rows) -> tuple[Values | None, Values | None, list[Values]]:
    """Of figure 5: the linear curve, its prediction, and the softmax curves by their seeds; None and empty: not
    stored."""
    trained = [r for r in rows if r["kind"] == LossCurve.kind]
    softmax = sorted((r for r in trained if r["model"] == "softmax"), key=lambda r: r["seed"])
    linear = next((r for r in trained if r["model"] == "linear"), None)
    predicted = next((r for r in rows if r["kind"] == PredictedStages.kind), None)
    return linear, predicted, softmax


def pairs(rows: Rows, table: str = "balanced") -> list[Pair]:
    """Each trained curve with the prediction for its setting."""
    predicted = {setting(r): r for r in rows if r["kind"] == PredictedStages.kind}
    trained = (r for r in rows if r["kind"] == LossCurve.kind and r["table"] == table)
    return [(r, predicted[setting(r)]) for r in trained if setting(r) in predicted]


def plateau(row: Values) -> float:
    """How long the loss stays at the relation's level; nan where it does not rest there."""
    return math.nan if row["stages"]["hallucination"] is None else row["stages"]["hallucination"]


def leaving(row: Values) -> float:
    """When the loss leaves its start; nan where it does not."""
    return math.nan if row["stages"]["left"] is None else row["stages"]["left"]


def in_plateau(row: Values, name: str) -> float:
    """The mean of a loss over the plateau at the relation's level."""
    rest, t = row["stages"]["relation"], np.array(row["curves"]["t"])
    return float(np.array(row["curves"][name])[(t >= rest["begins"]) & (t <= rest["ends"])].mean())


def without_plateau(rows: Rows) -> str | None:
    """Which curves do not rest at the relation's level and leave it, and why; None: all do."""
    words = [
        f"S={r['S']} R={r['R']} D={r['D']} alpha={alpha(r)}: "
        + (r["stages"]["problem"] or "no rest at the level of the relation")
        for r in rows if r["stages"]["hallucination"] is None
    ]  # fmt: skip
    return "; ".join(words) or None

"""What cells, figures and claims on learning share: a table and prompts with noise, loss curves of training and as the
reduced equations predict them, what is read from their rows, and how rows that failed are judged."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from facthold._util.errors import check_positive
from facthold._util.keys import derive
from facthold.dynamics import NOISE, STARTS
from facthold.dynamics.stages import BAND, CONVERGED, Levels, crossing, find_stages
from facthold.facts.problem import factual_recall
from facthold.facts.table import TABLES, FactTable, make_table
from facthold.lab import Cell, Claim, Judgement, Result, TableCell, Values, Verdict, style
from facthold.lab.fields import Between, Count, OneOf, Positive, Whole
from facthold.theory.reduced import Reduced, first_rates
from facthold.train.protocols import BATCH, OPTIMISERS, Protocol

Rows = Sequence[Values]
Pair = tuple[Values, Values]  # a trained curve, and the prediction for its setting
Measured = tuple[str, str, Verdict | bool] | tuple[str, str, Verdict | bool, str, str]
"""What was measured, how sure it is, whether the claim holds; perhaps how it drifts, and what would decide more."""
LogAlpha = Annotated[float, Between(least=-1e12, most=100)]  # alpha itself may be too small for a float
ALPHA = math.log(1e-5)  # that of figure 5
Start = Annotated[str, OneOf(STARTS)]
MOST = 400  # points of the curves that are kept
LOSSES = {"loss": "total", "subject_loss": "subject-only", "relation_loss": "relation-only"}  # from the highest
COLOURS = {"loss": style.COLOURS[2], "subject_loss": style.COLOURS[1], "relation_loss": style.COLOURS[0]}
"""Of each loss, in every picture and animation."""
CURVES = ("loss", "relation_loss", "subject_loss", "accuracy", "from_relation", "from_fact")


@dataclass(frozen=True, kw_only=True)
class LearningCell(TableCell):
    """A table that is learnt from prompts of length T with ``n_noise`` noise tokens."""

    counts_no_facts: ClassVar[str] = "losses are counted, not facts"

    T: Annotated[int, Between(least=3)]
    n_noise: Count
    table: Annotated[str, OneOf(TABLES)] = "balanced"
    seed: int = 0

    @property
    def learnt(self) -> FactTable:
        return make_table(self.table, self.S, self.R, self.D, key=derive("flow", self.seed))

    def rates(self, table: FactTable) -> dict[str, float]:
        """How fast W_KQ grows while all weights are small, by the table alone: the fastest token of each kind."""
        each = first_rates(table.joint("subject"), table.joint("relation"), self.T, self.n_noise)
        return {kind: float(rates.max()) for kind, rates in each.items()}


def staged(times: np.ndarray, seen: Mapping[str, Any], table: FactTable) -> Result:
    """The levels at which a loss may rest, the stages of the curve that was seen, and what figures draw of it."""
    levels, loss = Levels.of(table), seen["loss"]
    kept = np.unique(np.linspace(0, len(times) - 1, MOST).astype(int))
    curves = {name: seen[name] for name in seen if name in CURVES or name.startswith("log_W_KQ")}
    return {
        "levels": vars(levels),
        "stages": find_stages(times, loss, levels, relation_loss=seen["relation_loss"]).values,
        "first_loss": float(loss[0]), "last_loss": float(loss[-1]),
        "curves": {name: np.asarray(values, float)[kept].tolist() for name, values in ({"t": times} | curves).items()},
    }  # fmt: skip


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
        from facthold.dynamics.population import Start
        from facthold.models.one_head import SoftmaxHead

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
        return {"status": run.status, "loss_error": error, **staged(self.lr * run.seen["steps"], run.seen, facts)}


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
            "stages": find_stages(times, loss, levels, relation_loss=flow.relation.loss_at(times)).values,
            "curves": {"t": times[kept].tolist(), "loss": loss[kept].tolist()},
        }  # fmt: skip


def size(row: Values) -> tuple[int, int, int]:
    return row["S"], row["R"], row["D"]


def setting(row: Values) -> tuple[int, int, int, float]:
    return *size(row), row["log_alpha"]


def alpha(row: Values) -> str:
    return f"{math.exp(row['log_alpha']):.0e}"


def panes(rows: Rows) -> tuple[list[Values], Values | None, list[Values]]:
    """Of figure 5: the linear curves, their prediction, None where not stored, and the softmax curves; by seed."""
    trained = sorted((r for r in rows if r["kind"] == LossCurve.kind), key=lambda r: r["seed"])
    linear, softmax = ([r for r in trained if r["model"] == model] for model in ("linear", "softmax"))
    return linear, next((r for r in rows if r["kind"] == PredictedStages.kind), None), softmax


def pairs(rows: Rows, table: str = "balanced") -> list[Pair]:
    """Each trained curve with the prediction for its setting."""
    predicted = {setting(r): r for r in rows if r["kind"] == PredictedStages.kind}
    trained = (r for r in rows if r["kind"] == LossCurve.kind and r["table"] == table)
    return [(r, predicted[setting(r)]) for r in trained if setting(r) in predicted]


def reached(row: Values, stage: str) -> float:
    """A time of `Stages`: 'left', or how long the 'hallucination' lasts; nan where it is not reached."""
    return math.nan if row["stages"][stage] is None else row["stages"][stage]


def in_plateau(row: Values, name: str) -> float:
    """The mean of a loss over the plateau at the relation's level."""
    rest, t = row["stages"]["relation"], np.array(row["curves"]["t"])
    return float(np.array(row["curves"][name])[(t >= rest["begins"]) & (t <= rest["ends"])].mean())


def half_time(row: Values, name: str) -> float:
    """When a loss has fallen to half of its first value; nan: never."""
    t, loss = (np.array(row["curves"][x]) for x in ("t", name))
    at = crossing(t, loss, loss[0] / 2)
    return math.nan if at is None else at


def by_steps(time: float, rate: float, lr: float) -> float:
    """How long steps of ``lr`` take for a time of the flow: a weight that it raises at ``rate`` grows by 1 + lr rate in
    one of them, and not by exp(lr rate)."""
    return time * lr * rate / math.log1p(lr * rate)


def without_plateau(rows: Rows) -> str | None:
    """Which curves do not rest at the relation's level and leave it, and why; None: all do."""
    words = [
        f"S={r['S']} R={r['R']} D={r['D']} alpha={alpha(r)}: "
        + (r["stages"]["problem"] or "no rest at the level of the relation")
        for r in rows if r["stages"]["hallucination"] is None
    ]  # fmt: skip
    return "; ".join(words) or None


def failed(rows: Rows) -> str | None:
    """Why the first flow that failed did so; None: none failed."""
    return next((r["failure"] for r in rows if r.get("failure")), None)


def claimed(
    id: str, place: str, statement: str, cells: Callable[[str], list[Cell]], predicted: str,
    problem: Callable[[Rows], str | None] = failed, changed: str = "", at_any_size: str = "",
) -> Callable[[Callable[[Rows], Measured]], Claim]:  # fmt: skip
    """The claim that the decorated function judges. Where there is a ``problem`` with the rows, it is the judgement."""

    def decorate(judge: Callable[[Rows], Measured]) -> Claim:
        def judged(rows: Rows) -> Judgement:
            words = problem(rows)
            return Judgement(predicted, *((words, "none", False) if words else judge(rows)))

        return Claim(id, place, statement, cells, judged, changed, at_any_size)

    return decorate

"""Cells about gradient flow (appendix D) on one table from one start, and about how fast weights grow at first."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from facthold._util.keys import derive
from facthold.dynamics import KINDS
from facthold.dynamics.stages import crossing
from facthold.facts.table import TABLES, FactTable, random_table
from facthold.lab import Result, TableCell
from facthold.lab.fields import Count, OneOf, Positive
from facthold.studies.learning.base import LearningCell, LogAlpha, Start, staged
from facthold.theory.reduced import first_rates, lemma_5

if TYPE_CHECKING:
    from facthold.dynamics.flow import Trajectory

LEFT = math.log(0.1)  # a token has left the origin when the logarithm of its W_KQ has reached this
DELTAS = (0.1, 0.01, 0.001)  # losses whose times are kept


@dataclass(frozen=True, kw_only=True)
class Flow(LearningCell):
    """Gradient flow in float64, evaluated `points` times up to t_end, of which the stored curves keep 400."""

    kind: ClassVar[str] = "flow"
    version: ClassVar[int] = 2

    log_alpha: LogAlpha
    t_end: Positive
    start: Start = "balanced"
    points: Count = 2000
    spacing: Annotated[str, OneOf(("linear", "log"))] = "linear"  # how the evaluations lie between 0 and t_end

    cost = 5.0

    @property
    def spec(self) -> dict[str, Any]:
        return super().spec | {"way": "pooled", "coordinates": "direct"}

    @property
    def times(self) -> np.ndarray:
        if self.spacing == "log":
            return np.concatenate([[0.0], np.geomspace(1e-3 * self.t_end, self.t_end, self.points)])
        return np.linspace(0.0, self.t_end, self.points + 1)

    def run(self) -> Result:
        from facthold.dynamics.flow import gradient_flow
        from facthold.dynamics.population import Start, population

        facts = self.learnt
        prompts = population(facts, T=self.T, n_noise=self.n_noise)
        run = gradient_flow(prompts, Start(self.start, self.log_alpha, self.seed), self.times)
        about: Result = {"failure": run.failure, "steps": run.steps}
        if len(run.times) < 2:
            return about
        left = {kind: crossing(run.times, -run.seen[f"log_W_KQ_{kind}"], -LEFT) for kind in KINDS}
        fell = {f"{delta:g}": crossing(run.times, run.seen["loss"], delta) for delta in DELTAS}
        about |= {"rates": self.rates(facts), "left": left, "fell": fell, **staged(run.times, run.seen, facts)}
        about["rise"] = float(np.diff(run.seen["loss"]).max())
        return about | self._conserved(run) | {"excess": _excess(run, lemma_5(1 / self.S, self.T, self.n_noise))}

    def _conserved(self, run: "Trajectory") -> Result:
        """How far what gradient flow conserves has drifted, for each token as a share of its own largest W_KQ^2; what
        it was at first, over all tokens; and the largest and the smallest W_KQ, in units of alpha."""
        conserved, sums, W_KQ = (run.seen[name] for name in ("conserved", "sum_W_OV", "W_KQ"))
        largest, alpha = np.abs(W_KQ).max(axis=0), math.exp(self.log_alpha)
        return {
            "drift": float((np.abs(conserved - conserved[0]).max(axis=0) / largest**2).max()),
            "sum_drift": float((np.abs(sums - sums[0]).max(axis=0) / largest).max()),
            "invariant": [float(edge(conserved[0]) / alpha**2) for edge in (np.min, np.max)],
            "grown": float(largest.max() / alpha),
            "least_ratio": float(W_KQ.min() / alpha),
        }


def grown_of(run: "Trajectory") -> dict[str, np.ndarray]:
    """By how much the logarithm of the largest W_KQ of each kind has grown."""
    logs = {kind: run.seen[f"log_W_KQ_{kind}"] for kind in KINDS}
    return {kind: values - values[0] for kind, values in logs.items()}


def _excess(run: "Trajectory", allowed: Mapping[str, float]) -> dict[str, float]:
    """By how much log W_KQ exceeds what these rates allow, at the worst time; 0, at t = 0, where it never does."""
    grown = grown_of(run)
    return {kind: float((grown[kind] - rate * run.times).max()) for kind, rate in allowed.items()}


EXCEPTION = "exception"  # a table in which one subject has an answer of its own, and all others have the same one


@dataclass(frozen=True, kw_only=True)
class SlowWeights(LearningCell):
    """How much of the growth that lemma 5 allows is used, as a share of its rate, where theory says how much.

    ``used``, from t = 0 until the first token is about to leave the origin: W_KQ(z) grows by cosh(lambda t), lambda =
    E[C(z)] ||p*(. | z) - p_0||.

    ``late``, in the table with an exception: S - 1 subjects have one answer, the last one has another, and R = 1. EOS,
    noise and the relation learn p*(.) first, and are then as wrong about the last subject as can be: it is pulled by
    p(s) sqrt(2) (1 - 1/S), and grows at this rate until it leaves the origin. So lemma 5's 2 p(s) could be sqrt(2)
    p(s), and no less.
    """

    kind: ClassVar[str] = "slow-weights"

    table: Annotated[str, OneOf((*TABLES, EXCEPTION))] = "random"
    log_alpha: LogAlpha = -300.0

    cost = 5.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.table == EXCEPTION and (self.R, self.D) != (1, 2):
            raise ValueError(f"R={self.R} and D={self.D} must be 1 and 2 for the table with an exception")

    @property
    def learnt(self) -> FactTable:
        if self.table != EXCEPTION:
            return super().learnt
        return FactTable.from_matrix((np.arange(self.S) == self.S - 1).astype(np.int32)[:, None])

    def run(self) -> Result:
        from facthold.dynamics.flow import gradient_flow
        from facthold.dynamics.population import Start, population

        facts, odd = self.learnt, self.table == EXCEPTION
        rates = self.rates(facts)
        times = [0.0, 0.9 * -self.log_alpha / max(rates.values())]  # the fastest token is about to leave
        if odd:  # when the others have left long ago and the last subject, at -log alpha / (sqrt(2) p(s)), has not
            times += [share * -self.log_alpha * self.S / math.sqrt(2) for share in (0.4, 0.8)]
        run = gradient_flow(
            population(facts, T=self.T, n_noise=self.n_noise), Start("balanced", self.log_alpha), np.array(times),
            coordinates="log", stiff=odd,
        )  # fmt: skip
        if run.failure:
            return {"failure": run.failure}
        allowed, grown = lemma_5(1 / self.S, self.T, self.n_noise), grown_of(run)

        def used(kind: str, i: int) -> float:
            """Between the i-th time and the one before it."""
            return float((grown[kind][i] - grown[kind][i - 1]) / (run.times[i] - run.times[i - 1]) / allowed[kind])

        return {
            "failure": None, "rates": rates, "until": float(run.times[1]), "excess": _excess(run, allowed),
            "used": {kind: used(kind, 1) for kind in allowed}, "late": used("subject", -1) if odd else None,
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class FirstRates(TableCell):
    """The squares of the first rates of EOS and of the relations, of many random tables: mean and standard error."""

    kind: ClassVar[str] = "first-rates"
    counts_no_facts: ClassVar[str] = "there is no model"

    tables: Count

    def run(self) -> Result:
        squares: dict[str, list[float]] = {"EOS": [], "relation": []}
        for i in range(self.tables):
            table = random_table(self.S, self.R, self.D, key=derive(self.kind, i))
            each = first_rates(table.joint("subject"), table.joint("relation"), T=3, n_noise=1)
            for kind, found in squares.items():
                found.append(float(np.mean(each[kind] ** 2)))
        return {kind: [float(np.mean(x)), float(np.std(x, ddof=1) / math.sqrt(len(x)))] for kind, x in squares.items()}

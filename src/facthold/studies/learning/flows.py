"""The flow cell: gradient flow on one table from one start, what it keeps, and the stages of its loss."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from facthold._util.errors import check_positive, unknown
from facthold._util.keys import derive
from facthold.dynamics.flow import COORDINATES, Trajectory, gradient_flow
from facthold.dynamics.population import KINDS, WAYS, Population, population
from facthold.dynamics.stages import Levels, find_stages
from facthold.dynamics.start import Start
from facthold.facts.prompts import check_length
from facthold.facts.table import TABLES, make_table
from facthold.lab.cells import Cell, Result

SPACINGS = ("linear", "log")
CURVES = ("loss", "relation_loss", "subject_loss", "accuracy", "from_relation", "from_fact")


@dataclass(frozen=True, kw_only=True)
class Flow(Cell):
    """Gradient flow in float64, looked at `points` times up to t_end, of which the stored curves keep 400."""

    kind: ClassVar[str] = "flow"

    S: int
    R: int
    D: int
    T: int
    n_noise: int
    log_alpha: float
    t_end: float
    start: str = "balanced"
    table: str = "balanced"
    way: str = "pooled"
    coordinates: str = "direct"
    points: int = 2000
    spacing: str = "linear"
    """'linear' or 'log': how the looks lie between 0 and t_end."""
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive(S=self.S, R=self.R, D=self.D, n_noise=self.n_noise, points=self.points)
        check_length(self.T)
        Start(self.start, self.log_alpha)  # refuses unknown ones
        choices = {"way": WAYS, "coordinates": COORDINATES, "spacing": SPACINGS, "table": tuple(TABLES)}
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise unknown(name, getattr(self, name), known)
        if not 0 < self.t_end < math.inf:
            raise ValueError(f"t_end={self.t_end} must be above 0 and finite")

    @property
    def label(self) -> str:
        return f"gradient flow, S={self.S} R={self.R} D={self.D}, {self.table} table, {self.start} start"

    @property
    def cost(self) -> float:
        return 5.0

    @property
    def times(self) -> np.ndarray:
        if self.spacing == "log":
            return np.concatenate([[0.0], np.geomspace(1e-3 * self.t_end, self.t_end, self.points)])
        return np.linspace(0.0, self.t_end, self.points + 1)

    def run(self) -> Result:
        facts = make_table(self.table, self.S, self.R, self.D, key=derive("flow", self.seed))
        asked = population(facts, T=self.T, n_noise=self.n_noise, way=self.way, key=derive("flow-noise", self.seed))
        start = Start(self.start, self.log_alpha, self.seed)
        run = gradient_flow(asked, start, self.times, coordinates=self.coordinates)
        if len(run.times) < 2:
            return {"failure": run.failure, "steps": run.steps, "population": asked.says}
        levels, loss = Levels.of(facts), run.seen["loss"]
        return {
            "failure": run.failure, "steps": run.steps, "population": asked.says, "levels": vars(levels),
            "stages": find_stages(run.times, loss, levels, relation_loss=run.seen["relation_loss"]).values,
            "first_loss": float(loss[0]), "last_loss": float(loss[-1]), "loss_error": _sampling(run, asked),
            "rates": rates(asked), "left": {kind: _left(run, kind) for kind in KINDS},
            **_kept(run, start), **_lemma_5(run, asked, start), "curves": curves(run.times, run.seen),
        }  # fmt: skip


def rates(asked: Population) -> dict[str, float]:
    """lambda(z) = E[C(z)] ||p*(. | z) - p_0|| while all weights are small, the largest of each kind of token: by what
    W_KQ(z) grows. p*(. | z) is weighed by how often z stands in a prompt."""
    answers = np.eye(asked.table.A)[asked.answers] - 1 / asked.table.A
    pull = asked.mobility * ((asked.weights[:, None] * answers).T @ asked.counts)
    each = np.linalg.norm(pull, axis=0)
    return {kind: float(each[asked.columns(kind)].max()) for kind in KINDS}


def curves(times: np.ndarray, seen: dict[str, Any], most: int = 400) -> dict[str, list[float]]:
    """The observables that figures draw, at no more than so many times."""
    kept = np.unique(np.linspace(0, len(times) - 1, most).astype(int))
    names = [name for name in seen if name in CURVES or name.startswith("log_W_KQ")]
    return {"t": times[kept].tolist()} | {name: np.asarray(seen[name], float)[kept].tolist() for name in names}


LEFT = math.log(0.1)
"""A token has left the origin when the logarithm of its W_KQ has come this far."""


def _left(run: Trajectory, kind: str) -> float | None:
    """When the largest W_KQ of this kind of token has left the origin; None: not while it was seen."""
    beyond = np.flatnonzero(run.seen[f"log_W_KQ_{kind}"] > LEFT)
    return float(run.times[beyond[0]]) if len(beyond) else None


def _kept(run: Trajectory, start: Start) -> dict[str, float | None]:
    """How far what gradient flow conserves has drifted, and the smallest W_KQ seen; None in logarithmic coordinates,
    where the difference of two squares would be all rounding."""
    if "conserved" not in run.seen:
        return {"drift": None, "sum_drift": None, "least_ratio": None}
    alpha = math.exp(start.log_alpha)
    conserved, largest = run.seen["conserved"], float((run.seen["W_KQ"] ** 2).max())
    return {
        "drift": float(np.abs(conserved - conserved[0]).max() / largest),
        "sum_drift": float(np.abs(run.seen["sum_W_OV"] - run.seen["sum_W_OV"][0]).max() / math.sqrt(largest)),
        "least_ratio": float(run.seen["W_KQ"].min() / alpha),
    }


def _lemma_5(run: Trajectory, asked: Population, start: Start) -> dict[str, dict[str, float]]:
    """How log W_KQ stands to lemma 5's bounds for subjects and for noise. ``excess``: by how much it comes above them,
    at the worst time; 0, at t = 0, where they hold. ``used``: the largest share of the growth that they allow."""
    first = start.log_alpha + 0.5 * math.log(asked.table.A + 1)
    p_s = np.bincount(asked.table.subjects[asked.facts], asked.weights).max()
    speeds = {"subject": 2 * p_s, "noise": 2 * asked.T / asked.n_noise}
    grown = {kind: run.seen[f"log_W_KQ_{kind}"] - first for kind in speeds}
    allowed = {kind: speed * run.times for kind, speed in speeds.items()}
    return {
        "excess": {kind: float((grown[kind] - allowed[kind]).max()) for kind in speeds},
        "used": {kind: float((grown[kind][1:] / allowed[kind][1:]).max()) for kind in speeds},
    }


def _sampling(run: Trajectory, asked: Population) -> float:
    """The largest standard error of the loss along the flow: 0 where the population is exact."""
    return max((asked.error(losses) for losses in run.seen.get("losses", ())), default=0.0)

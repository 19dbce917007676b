"""The predicted-stages cell: what the reduced equations say about a balanced table, without any model."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from facthold.dynamics.stages import BAND, CONVERGED, Levels, find_stages
from facthold.lab.cells import Cell, Result
from facthold.theory.reduced import Reduced


@dataclass(frozen=True, kw_only=True)
class PredictedStages(Cell):
    """The loss curve of the reduced equations, and its stages by the same rules as a measured curve's."""

    kind: ClassVar[str] = "predicted-stages"

    S: int
    R: int
    D: int
    log_alpha: float
    start: str = "equal"

    def __post_init__(self) -> None:
        self.reduced  # refuses what has no reduced equations  # noqa: B018

    @property
    def reduced(self) -> Reduced:
        return Reduced(self.S, self.R, self.D, self.start, self.log_alpha)

    @property
    def label(self) -> str:
        return f"reduced equations, S={self.S} R={self.R} D={self.D}"

    @property
    def cost(self) -> float:
        return 0.5

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

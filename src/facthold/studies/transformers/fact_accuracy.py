"""The fact-accuracy cell: how much of one table a transformer of one size learns (figure 4, right)."""

from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from facthold._util.errors import check_positive
from facthold.facts.prompts import check_length
from facthold.lab.cells import Cell, Result
from facthold.models.transformer import n_params
from facthold.studies.transformers.fact_capacity import (
    best_run,
    make_problem,
    nested_table,
    racing_members,
    step_seconds,
)
from facthold.studies.transformers.variants import variant
from facthold.train import BATCH, Protocol, RecallFacts, fit, protocol


@dataclass(frozen=True, kw_only=True)
class FactAccuracy(Cell):
    """The accuracy on S R facts of a transformer (d, H, d_h, m), trained to its full length or to 100%."""

    kind: ClassVar[str] = "fact-accuracy"

    d: int
    H: int
    d_h: int
    m: int
    S: int = 32
    R: int = 32
    D: int = 8
    table: str = "random"
    T: int = 32
    variant: str = "code"
    protocol: str = "transformer-code"
    lrs: tuple[float, ...] = (1e-2,)
    """The authors take one learning rate for this figure."""
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive(d=self.d, H=self.H, d_h=self.d_h, S=self.S, R=self.R, D=self.D)
        check_length(self.T)
        if self.m < 0:
            raise ValueError(f"m={self.m} must not be negative")
        protocol(self.protocol), variant(self.variant)  # refuse unknown names

    @property
    def training(self) -> Protocol:
        """No run is given up here: the accuracy of a run that fails is the result."""
        return replace(protocol(self.protocol), goal=1.0, futility=None, lrs=self.lrs)

    @property
    def spec(self) -> dict[str, Any]:
        return super().spec | {"training": self.training.spec, "model": asdict(variant(self.variant)), "batch": BATCH}

    @property
    def label(self) -> str:
        return f"accuracy at d={self.d} H={self.H} d_h={self.d_h} m={self.m}, S={self.S} R={self.R} D={self.D}"

    @property
    def cost(self) -> float:
        size = {"d": self.d, "Hd_h": self.H * self.d_h, "m": self.m}
        return len(self.lrs) * self.training.steps * step_seconds(**size, S=self.S, R=self.R, A=self.R * self.D)

    def run(self) -> Result:
        way = variant(self.variant)
        table = nested_table(self.table, self.S, self.R, self.D, self.seed)
        task = RecallFacts.of(make_problem(table, self.d, self.seed, way, self.T))
        race = racing_members(task, self.H, self.d_h, self.m, self.seed, way, self.training, "one")
        runs = fit(race, self.training)
        best, _ = best_run(race, runs) or (runs[0], None)
        diverged = best.status == "diverged"
        return {
            "status": best.status, "accuracy": float("nan") if diverged else best.best,
            "final": float("nan") if diverged else best.final, "steps": sum(run.steps for run in runs),
            "attention_params": 4 * self.H * self.d * self.d_h, "mlp_params": 2 * self.m * self.d,
            "n_params": n_params(d=self.d, H=self.H, d_h=self.d_h, m=self.m),
        }  # fmt: skip

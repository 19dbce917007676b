"""How long a model hallucinates, what decides it, and what comes first where subjects are few."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from facthold.lab import style
from facthold.lab.cells import Cell
from facthold.lab.figure import Figure, Values
from facthold.measure.scaling import Fit
from facthold.studies.learning import stage_panels as panels
from facthold.studies.learning.descents import LossCurve
from facthold.studies.learning.flows import Flow
from facthold.studies.learning.predicted_stages import PredictedStages
from facthold.theory.reduced import Reduced


@dataclass(frozen=True)
class Grid:
    """Tables (S, R, D) and scales alpha."""

    tables: tuple[tuple[int, int, int], ...]
    """Each is trained from every alpha: how long does the plateau last?"""
    alphas: tuple[float, ...]
    ratios: tuple[tuple[int, int, int], ...]
    """Trained from one alpha: S / R grows."""
    answers: tuple[tuple[int, int, int], ...]
    """Trained from the same alpha: D grows alone."""
    ratio_alpha: float
    lengths: tuple[int, ...]
    """T, for the first table at the smallest alpha."""
    order: tuple[tuple[int, int], ...]
    """(S, R) of tables in which subjects may come first."""
    order_answers: int
    order_alpha: float
    marginal_subjects: tuple[int, ...]
    """Random tables, in which EOS and noise learn p*(a)."""
    marginal: tuple[int, int] = (4, 8)
    """R and D of these."""
    T: int = 32
    n_noise: int = 20
    marginal_noise: int = 128
    lr: float = 0.2

    def __post_init__(self) -> None:
        for name, alphas in (
            ("alphas", self.alphas),
            ("ratio_alpha", (self.ratio_alpha,)),
            ("order_alpha", (self.order_alpha,)),
        ):
            if not all(0 < alpha < math.inf for alpha in alphas):
                raise ValueError(f"{name}={alphas} must be above 0 and finite")
        for name in ("tables", "alphas", "ratios", "answers", "order", "marginal_subjects"):
            if not getattr(self, name):
                raise ValueError(f"{name} is empty; give one or more")


PRESETS = {
    "smoke": Grid(tables=((8, 2, 2),), alphas=(1e-3, 1e-4), ratios=((4, 2, 2), (8, 2, 2)),
                  answers=((8, 2, 2), (8, 2, 4)), ratio_alpha=1e-3,
                  lengths=(8,), order=((4, 2), (4, 8)), order_answers=4, order_alpha=1e-3, marginal_subjects=(4, 8),
                  marginal=(2, 2), T=8, n_noise=4, marginal_noise=8, lr=0.5),
    "quick": Grid(tables=((16, 4, 8), (32, 4, 4), (24, 3, 6)), alphas=(1e-4, 1e-5, 1e-6, 1e-7),
                  ratios=((16, 4, 8), (32, 4, 8), (64, 4, 8), (128, 4, 8)),
                  answers=((32, 4, 2), (32, 4, 4), (32, 4, 8), (32, 4, 16)), ratio_alpha=1e-4,
                  lengths=(8, 128),
                  order=((8, 2), (8, 4), (8, 8), (8, 16), (8, 32), (16, 2), (16, 8), (16, 32), (16, 64), (32, 4),
                         (32, 16), (64, 2), (64, 8)),
                  order_answers=8, order_alpha=1e-12, marginal_subjects=(8, 16, 32, 64, 128, 256)),
    "paper": Grid(tables=((16, 4, 8), (32, 4, 4), (24, 3, 6), (32, 8, 4), (64, 8, 8)),
                  alphas=(1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8),
                  ratios=((16, 4, 8), (32, 4, 8), (64, 4, 8), (128, 4, 8), (256, 4, 8)),
                  answers=((64, 4, 2), (64, 4, 4), (64, 4, 8), (64, 4, 16), (64, 4, 32)), ratio_alpha=1e-4,
                  lengths=(8, 128, 512),
                  order=tuple((S, R) for S in (8, 16, 32, 64) for R in (2, 4, 8, 16, 32, 64) if S * R <= 1024),
                  order_answers=8, order_alpha=1e-12, marginal_subjects=(8, 16, 32, 64, 128, 256, 512)),
}  # fmt: skip


def cells(grid: Grid) -> list[Cell]:
    (R, D), found = grid.marginal, list(plateau_cells(grid))
    for S, R_ in grid.order:
        at: dict[str, Any] = {
            "S": S,
            "R": R_,
            "D": grid.order_answers,
            "log_alpha": math.log(grid.order_alpha),
            "start": "equal",
        }
        flow = Reduced(S, R_, grid.order_answers, "equal", at["log_alpha"])
        end = max(growth.time(growth.gap(0.01)) for growth in (flow.relation, flow.subject))
        found.append(Flow(**at, T=grid.T, n_noise=grid.n_noise, t_end=round(end, 1)))
    for S in grid.marginal_subjects:
        log_alpha = math.log(grid.ratio_alpha)
        end = 1.5 * Reduced(S, R, D, "equal", log_alpha).subject.time(4.0)
        found.append(
            Flow(
                S=S,
                R=R,
                D=D,
                T=grid.T,
                n_noise=grid.marginal_noise,
                log_alpha=log_alpha,
                start="equal",
                table="random",
                t_end=round(end, 1),
            )
        )
    return found


def plateau_cells(grid: Grid) -> list[Cell]:
    """What is trained to see how long the plateau lasts, and the prediction for each."""
    settings = [(*table, alpha, grid.T, "balanced") for table in grid.tables for alpha in grid.alphas]
    settings += [(*table, grid.ratio_alpha, grid.T, kind) for table in grid.ratios for kind in ("balanced", "random")]
    settings += [(*table, grid.ratio_alpha, grid.T, "balanced") for table in grid.answers]
    settings += [(*grid.tables[0], grid.alphas[-1], T, "balanced") for T in grid.lengths]
    found: list[Cell] = []
    for S, R, D, alpha, T, kind in dict.fromkeys(settings):
        at: dict[str, Any] = {"S": S, "R": R, "D": D, "log_alpha": math.log(alpha)}
        subject = Reduced(S, R, D, "equal", at["log_alpha"]).subject
        end = subject.time(subject.gap(0.5 * math.log(D)))
        found.append(
            LossCurve(**at, T=T, n_noise=grid.n_noise, table=kind, lr=grid.lr, steps=int(end / grid.lr), looks=1024)
        )
        found.append(PredictedStages(**at))
    return list(dict.fromkeys(found))


def setting(row: Values) -> tuple[int, int, int, float]:
    return row["S"], row["R"], row["D"], row["log_alpha"]


def pairs(rows: Sequence[Values], table: str = "balanced") -> list[tuple[Values, Values]]:
    """Each trained curve with the prediction for its setting."""
    predicted = {setting(r): r for r in rows if r["kind"] == PredictedStages.kind}
    trained = (r for r in rows if r["kind"] == LossCurve.kind and r["table"] == table)
    return [(r, predicted[setting(r)]) for r in trained if setting(r) in predicted]


def plot(rows: Sequence[Values]) -> Canvas:
    canvas, (by_alpha, by_ratio, by_answers, leaving, order, marginal) = style.panels(6, rows=2)
    trained = pairs(rows)
    if trained:
        _plot_trained((by_alpha, by_ratio, by_answers, leaving), trained, pairs(rows, "random"))
    flows = [r for r in rows if r["kind"] == Flow.kind and not r["failure"]]
    for axes, draw, table in ((order, panels.plot_order, "balanced"), (marginal, panels.plot_marginal, "random")):
        ours = [r for r in flows if r["table"] == table]
        draw(axes, ours) if ours else axes.set(title="no flow is stored, or all failed")
    return canvas


def _plot_trained(axes: Sequence[Axes], trained: Sequence[panels.Pair], random: Sequence[panels.Pair]) -> None:
    T = max({r["T"] for r, _ in trained}, key=[r["T"] for r, _ in trained].count)
    alike, other_T = [(r, p) for r, p in trained if r["T"] == T], [r for r, _ in trained if r["T"] != T]
    panels.plot_alpha(axes[0], alike, other_T)
    panels.plot_ratio(axes[1], trained, random)
    panels.plot_answers(axes[2], alike)
    panels.plot_leaving(axes[3], trained)


def fits(rows: Sequence[Values]) -> list[Fit]:
    """Nothing is fitted: the predictions have no free constant."""
    return []


FIGURE = Figure(
    name="stages",
    title="How long a model hallucinates, and what is learnt first",
    place="beyond: section 5",
    caption=(
        "Upper row: how long the loss of trained linear attention rests at the level of the relation alone (points), "
        "and what the reduced equations give for balanced tables (lines, no free constant). Lower row, left: when the "
        "loss leaves its start. Middle: what is learnt first where subjects are not many times the relations; gradient "
        "flow rests at the level of the relation, of the subject, or at neither. Right: in random tables some answers "
        "are more frequent, and EOS learns that; for S below about R (D - 1) it does so before relations are learnt. A "
        "kind without a point never passes 0.1."
    ),
    presets=PRESETS,
    cells=cells,
    plot=plot,
    fits=fits,
)

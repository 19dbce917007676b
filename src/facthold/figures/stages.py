"""How long a model hallucinates, what decides it, and what comes first where subjects are few."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from facthold.cells import Cell
from facthold.dynamics.reduced import Reduced
from facthold.experiments.descents import LossCurve
from facthold.experiments.flows import LEFT, Flow
from facthold.experiments.predicted_stages import PredictedStages
from facthold.figures import style
from facthold.figures.base import Figure, Values
from facthold.measure.scaling import Fit

FIRST = {
    "relation": "rests at the relation's level",
    "subject": "rests at the subject's level",
    None: "rests at neither",
}
KINDS = {"EOS": "EOS", "noise": "noise", "relation": "relations", "subject": "subjects"}


@dataclass(frozen=True)
class Grid:
    """Tables (S, R, D) and scales alpha."""

    tables: tuple[tuple[int, int, int], ...]
    """Each is trained from every alpha: how long does the plateau last?"""
    alphas: tuple[float, ...]
    ratios: tuple[tuple[int, int, int], ...]
    """Trained from one alpha: S / R grows."""
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


PRESETS = {
    "smoke": Grid(tables=((8, 2, 2),), alphas=(1e-3, 1e-4), ratios=((4, 2, 2), (8, 2, 2)), ratio_alpha=1e-3,
                  lengths=(8,), order=((4, 2), (4, 8)), order_answers=4, order_alpha=1e-3, marginal_subjects=(4, 8),
                  marginal=(2, 2), T=8, n_noise=4, marginal_noise=8, lr=0.5),
    "quick": Grid(tables=((16, 4, 8), (32, 4, 4), (24, 3, 6)), alphas=(1e-4, 1e-5, 1e-6, 1e-7),
                  ratios=((16, 4, 8), (32, 4, 8), (64, 4, 8), (128, 4, 8)), ratio_alpha=1e-4, lengths=(8, 128),
                  order=((8, 2), (8, 4), (8, 8), (8, 16), (8, 32), (16, 2), (16, 8), (16, 32), (16, 64), (32, 4),
                         (32, 16), (64, 2), (64, 8)),
                  order_answers=8, order_alpha=1e-12, marginal_subjects=(8, 16, 32, 64, 128, 256)),
    "paper": Grid(tables=((16, 4, 8), (32, 4, 4), (24, 3, 6), (32, 8, 4), (64, 8, 8)),
                  alphas=(1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8),
                  ratios=((16, 4, 8), (32, 4, 8), (64, 4, 8), (128, 4, 8), (256, 4, 8)), ratio_alpha=1e-4,
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
    return [(r, predicted[setting(r)]) for r in trained]


def plot(rows: Sequence[Values]) -> Canvas:
    canvas, (by_alpha, by_ratio, order, marginal) = style.panels(4, rows=2)
    T = max({r["T"] for r, _ in pairs(rows)}, key=[r["T"] for r, _ in pairs(rows)].count)
    _plot_alpha(by_alpha, [(r, p) for r, p in pairs(rows) if r["T"] == T], [r for r, _ in pairs(rows) if r["T"] != T])
    _plot_ratio(by_ratio, pairs(rows), pairs(rows, "random"))
    flows = [r for r in rows if r["kind"] == Flow.kind]
    _plot_order(order, [r for r in flows if r["table"] == "balanced"])
    _plot_marginal(marginal, [r for r in flows if r["table"] == "random"])
    return canvas


def _plot_alpha(axes: Axes, found: Sequence[tuple[Values, Values]], other_T: Sequence[Values]) -> None:
    tables = list(dict.fromkeys((r["S"], r["R"], r["D"]) for r, _ in found))
    tables = [t for t in tables if len({r["log_alpha"] for r, _ in found if (r["S"], r["R"], r["D"]) == t}) > 1]
    for i, table in enumerate(tables):
        ours = sorted(((r, p) for r, p in found if (r["S"], r["R"], r["D"]) == table), key=lambda x: x[0]["log_alpha"])
        alphas = [math.exp(r["log_alpha"]) for r, _ in ours]
        label = "S={}, R={}, D={}".format(*table)
        axes.plot(alphas, [_length(p) for _, p in ours], color=style.COLOURS[i], linewidth=1.2)
        axes.plot(alphas, [_length(r) for r, _ in ours], color=style.COLOURS[i], marker=style.MARKERS[i],
                  linestyle="none", label=label)  # fmt: skip
    for r in other_T:
        axes.plot(math.exp(r["log_alpha"]), _length(r), marker="x", color="black", linestyle="none", zorder=4)
    if other_T:
        lengths = ", ".join(str(r["T"]) for r in other_T)
        axes.plot([], [], marker="x", color="black", linestyle="none", label=f"the first at T = {lengths}")
    axes.plot([], [], color="#777777", linewidth=1.2, label="predicted")
    axes.set(xscale="log", title="length of the plateau\nby the scale of the start", xlabel=r"$\alpha$",
             ylabel="time (learning rate x steps)")  # fmt: skip
    _finish(axes)


def _plot_ratio(axes: Axes, balanced: Sequence[tuple[Values, Values]], random: Sequence[tuple[Values, Values]]) -> None:
    alphas = {r["log_alpha"] for r, _ in random}
    sizes = {(r["S"], r["R"], r["D"]) for r, _ in random}
    ours = [(r, p) for r, p in balanced if r["log_alpha"] in alphas and (r["S"], r["R"], r["D"]) in sizes]
    ours.sort(key=lambda x: x[0]["S"])
    lines = [("predicted", [(r, p) for r, p in ours]), ("balanced tables", [(r, r) for r, _ in ours]),
             ("random tables", [(r, r) for r, _ in random])]  # fmt: skip
    for i, (label, found) in enumerate(lines):
        rests = [(r["S"] / r["R"], _length(p)) for r, p in found if math.isfinite(_length(p))]
        if rests:
            look: dict[str, Any] = (
                {"linestyle": "-"} if i == 0 else {"linestyle": "none", "marker": style.MARKERS[i - 1]}
            )
            axes.plot(*zip(*rests, strict=True), color=style.COLOURS[(7, 0, 1)[i]], label=label, **look)
    if axes.lines:
        style.loglog(axes, "length of the plateau\nby subjects a relation", "S / R", "time (learning rate x steps)")
    else:
        axes.set(title="no curve rests at the relation's level")
    r = ours[0][0]
    axes.text(0.97, 0.03, rf"R={r['R']}, D={r['D']}, $\alpha$={math.exp(r['log_alpha']):.0e}", transform=axes.transAxes,
              ha="right", fontsize=7.5)  # fmt: skip
    style.legend(axes)


def _plot_order(axes: Axes, rows: Sequence[Values]) -> None:
    for i, (resting, label) in enumerate(FIRST.items()):
        ours = [r for r in rows if r["stages"]["resting"] == resting]
        axes.plot([r["R"] for r in ours], [r["S"] for r in ours], linestyle="none", marker=style.MARKERS[i],
                  color=style.COLOURS[(1, 0, 7)[i]], markersize=7, label=label)  # fmt: skip
    D = rows[0]["D"]
    R = np.geomspace(1.8, 1.2 * max(r["R"] for r in rows), 200)
    axes.plot(R, R * np.sqrt((D - 1) / (R - 1)), color="black", linewidth=1.2, label=r"$S^2 (R-1) = R^2 (D-1)$")
    low, high = min(r["S"] for r in rows) / 1.6, 8 * max(r["S"] for r in rows)
    axes.plot(R, 8 * R * math.sqrt(2 * D), **style.GUIDE, label=r"theorem 6: $S = 8R\sqrt{2D}$")
    style.loglog(axes, "what is learnt first\n(subjects below the line, relations above)", "R", "S")
    axes.set(ylim=(low, high))
    axes.text(0.97, 0.03, rf"D={D}, $\alpha$={math.exp(rows[0]['log_alpha']):.0e}", transform=axes.transAxes,
              ha="right", fontsize=7.5)  # fmt: skip
    axes.legend(frameon=False, fontsize=7.5, loc="upper right")


def _plot_marginal(axes: Axes, rows: Sequence[Values]) -> None:
    rows = sorted(rows, key=lambda r: r["S"])
    for i, (kind, label) in enumerate(KINDS.items()):
        ours = [r for r in rows if r["left"][kind] is not None]
        axes.plot([r["S"] for r in ours], [r["left"][kind] for r in ours], marker=style.MARKERS[i], linestyle="none",
                  color=style.COLOURS[i], label=label)  # fmt: skip
        pulled = [r for r in rows if r["rates"][kind] > 0]
        times = [math.acosh(math.exp(LEFT - r["log_alpha"])) / r["rates"][kind] for r in pulled]
        axes.plot([r["S"] for r in pulled], times, color=style.COLOURS[i], linewidth=1, alpha=0.7)
    R, D = rows[0]["R"], rows[0]["D"]
    axes.axvline(R * D, **style.GUIDE, label="S = R D")
    style.loglog(axes, "random tables: when $W_{KQ}$ passes 0.1\n(lines: by the first rates alone)", "S", "time")
    longest = max(t for r in rows for t in r["left"].values() if t is not None)
    axes.set(ylim=(None, 3 * longest))
    axes.text(0.97, 0.03, f"R={R}, D={D}, {rows[0]['n_noise']} noise tokens", transform=axes.transAxes, ha="right",
              fontsize=7.5)  # fmt: skip
    style.legend(axes)


def _length(row: Values) -> float:
    """How long the curve rests at the relation's level; nan where it does not."""
    lasts = row["stages"]["hallucination"]
    return float("nan") if lasts is None else lasts


def _finish(axes: Axes) -> None:
    axes.grid(True, alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_ylim(bottom=0)
    style.legend(axes)


def fits(rows: Sequence[Values]) -> list[Fit]:
    """Nothing is fitted: the predictions have no free constant."""
    return []


FIGURE = Figure(
    name="stages",
    title="How long a model hallucinates, and what is learnt first",
    place="beyond: section 5",
    caption=(
        "First and second: how long the loss of trained linear attention rests at the level of the relation alone "
        "(points), and what the reduced equations give for balanced tables (lines, no free constant). Third: what is "
        "learnt first where subjects are not many times the relations; gradient flow rests at the level of the "
        "relation, of the subject, or at neither. Fourth: in random tables some answers are more frequent, and EOS "
        "and the noise tokens learn that; for S below R D they do so before relations are learnt."
    ),
    presets=PRESETS,
    cells=cells,
    plot=plot,
    fits=fits,
)

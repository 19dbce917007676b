"""How long a model hallucinates, what decides it, and what is learnt first where subjects are few."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from facthold.lab import Cell, Figure, Values, style
from facthold.lab.fields import Count, Counts, Each, Positive, Seeds
from facthold.studies.learning.base import LossCurve, Pair, PredictedStages, alpha, pairs, reached, size
from facthold.studies.learning.flows import LEFT, FirstRates, Flow
from facthold.theory.reduced import Reduced

FIRST = {"relation": "at the relation's level", "subject": "at the subject's level", None: "at neither"}
KINDS = {"EOS": "EOS", "noise": "noise", "relation": "relations", "subject": "subjects"}
TIME = "time (learning rate x steps)"
POINTS: dict[str, Any] = {"linestyle": "none", "markersize": 6}

Tables = Annotated[tuple[tuple[int, int, int], ...], Each()]  # (S, R, D) of each


@dataclass(frozen=True)
class Grid:
    """Tables (S, R, D) and scales alpha."""

    tables: Tables  # each is trained from every alpha: how long does the plateau last?
    alphas: Annotated[tuple[float, ...], Each(Positive)]
    ratios: Tables  # trained from one alpha: S / R grows
    answers: Tables  # trained from the same alpha: D grows alone
    ratio_alpha: Positive
    lengths: tuple[int, ...]  # T, for the first table at the smallest alpha
    order: Annotated[tuple[tuple[int, int], ...], Each()]  # (S, R) of tables in which subjects may come first
    order_answers: Count
    order_alpha: Positive
    marginal_subjects: Counts  # random tables, in which EOS and noise learn p*(a)
    marginal: tuple[int, int] = (4, 8)  # R and D of these
    marginal_tables: Count = 200  # random tables whose first rates are averaged
    T: Count = 32
    n_noise: Count = 20
    marginal_noise: Count = 128
    lr: Positive = 0.2
    seeds: Seeds = (0, 1, 2)  # of the first table at the largest alpha


PRESETS = {
    "smoke": Grid(tables=((16, 2, 2),), alphas=(1e-4, 1e-5), ratios=((16, 2, 2),), answers=((16, 2, 2),),
                  ratio_alpha=1e-4, lengths=(), order=((4, 32),), order_answers=4, order_alpha=1e-12,
                  marginal_subjects=(4,), marginal=(2, 4), marginal_tables=1000, T=8, n_noise=4, marginal_noise=8),
    "quick": Grid(tables=((16, 4, 8), (32, 4, 4), (24, 3, 6)), alphas=(1e-4, 1e-5, 1e-6, 1e-7),
                  ratios=((16, 4, 8), (32, 4, 8), (64, 4, 8), (128, 4, 8)),
                  answers=((32, 4, 2), (32, 4, 4), (32, 4, 8), (32, 4, 16)), ratio_alpha=1e-4,
                  lengths=(8, 128),
                  order=((8, 2), (8, 4), (8, 8), (8, 16), (8, 32), (16, 2), (16, 8), (16, 32), (32, 4), (32, 16),
                         (64, 2)),
                  order_answers=8, order_alpha=1e-12, marginal_subjects=(8, 16, 32, 64, 128, 256)),
    "paper": Grid(tables=((16, 4, 8), (32, 4, 4), (24, 3, 6), (32, 8, 4), (64, 8, 8)),
                  alphas=(1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8),
                  ratios=((16, 4, 8), (32, 4, 8), (64, 4, 8), (128, 4, 8), (256, 4, 8)),
                  answers=((64, 4, 2), (64, 4, 4), (64, 4, 8), (64, 4, 16), (64, 4, 32)), ratio_alpha=1e-4,
                  lengths=(8, 128, 512),
                  order=tuple((S, R) for S in (8, 16, 32, 64) for R in (2, 4, 8, 16, 32, 64) if S * R <= 1024),
                  order_answers=8, order_alpha=1e-12, marginal_subjects=(8, 16, 32, 64, 128, 256, 512)),
}  # fmt: skip


def plateau_cells(grid: Grid, kinds: Sequence[str] = ("balanced", "random")) -> list[Cell]:
    """What is trained to see how long the plateau lasts, on tables of these kinds, and the prediction for each."""
    settings = [(*table, alpha, grid.T, "balanced", 0) for table in grid.tables for alpha in grid.alphas]
    settings += [(*table, grid.ratio_alpha, grid.T, kind, 0) for table in grid.ratios for kind in kinds]
    settings += [(*table, grid.ratio_alpha, grid.T, "balanced", 0) for table in grid.answers]
    settings += [(*grid.tables[0], grid.alphas[-1], T, "balanced", 0) for T in grid.lengths]
    settings += [(*grid.tables[0], grid.alphas[0], grid.T, "balanced", seed) for seed in grid.seeds]
    both: list[Cell] = []
    for S, R, D, scale, T, kind, seed in dict.fromkeys(settings):
        at: dict[str, Any] = {"S": S, "R": R, "D": D, "log_alpha": math.log(scale)}
        subject = Reduced(S, R, D, "equal", at["log_alpha"]).subject
        steps = int(subject.time(subject.gap(0.5 * math.log(D))) / grid.lr)
        curve = LossCurve.of(grid, **at, T=T, table=kind, seed=seed, steps=steps, looks=1024)
        both += [curve, PredictedStages(**at)]
    return list(dict.fromkeys(both))


def order_cells(grid: Grid) -> list[Cell]:
    """Gradient flow on balanced tables, until relations and subjects are both learnt."""
    flows, log_alpha = [], math.log(grid.order_alpha)
    for S, R in grid.order:
        reduced = Reduced(S, R, grid.order_answers, "equal", log_alpha)
        end = max(growth.time(growth.gap(0.01)) for growth in (reduced.relation, reduced.subject))
        flows.append(_flow(grid, S, R, grid.order_answers, log_alpha, end))
    return flows


def marginal_cells(grid: Grid) -> list[Cell]:
    """Gradient flow on random tables, in which answers are not equally frequent; and the rates of many such tables."""
    (R, D), log_alpha, cells = grid.marginal, math.log(grid.ratio_alpha), []
    for S in grid.marginal_subjects:
        end = 1.5 * Reduced(S, R, D, "equal", log_alpha).subject.time(4.0)
        cells.append(_flow(grid, S, R, D, log_alpha, end, n_noise=grid.marginal_noise, table="random"))
        cells.append(FirstRates(S=S, R=R, D=D, tables=grid.marginal_tables))
    return cells


def _flow(grid: Grid, S: int, R: int, D: int, log_alpha: float, end: float, **more: Any) -> Cell:
    return Flow.of(grid, S=S, R=R, D=D, log_alpha=log_alpha, start="equal", t_end=round(end, 1), **more)


def plot(rows: Sequence[Values]) -> "style.Canvas":
    canvas, (by_alpha, by_ratio, by_answers, left, order, marginal) = style.panels(6, rows=2)
    if trained := pairs(rows):
        lengths = [r["T"] for r, _ in trained]
        T = max(set(lengths), key=lengths.count)
        alike, other_T = [(r, p) for r, p in trained if r["T"] == T], [r for r, _ in trained if r["T"] != T]
        plot_alpha(by_alpha, alike, other_T)
        plot_ratio(by_ratio, trained, pairs(rows, "random"))
        plot_answers(by_answers, alike)
        plot_leaving(left, trained)
    flows = [r for r in rows if r["kind"] == Flow.kind and not r["failure"]]
    for axes, draw, table in ((order, plot_order, "balanced"), (marginal, plot_marginal, "random")):
        ours = [r for r in flows if r["table"] == table]
        draw(axes, ours) if ours else axes.set(title="no flow is stored, or all failed")
    return canvas


def plot_alpha(axes: "style.Axes", trained: Sequence[Pair], other_T: Sequence[Values]) -> None:
    tables = {size(r): [pair for pair in trained if size(pair[0]) == size(r)] for r, _ in trained}
    several = [pair for pair in tables.items() if len({r["log_alpha"] for r, _ in pair[1]}) > 1]
    for i, (table, ours) in enumerate(several):
        ours.sort(key=lambda pair: pair[0]["log_alpha"])
        alphas = [math.exp(r["log_alpha"]) for r, _ in ours]
        _measured_and_predicted(axes, alphas, ours, "hallucination", i, "S={}, R={}, D={}".format(*table))
    if other_T:
        x, y = [math.exp(r["log_alpha"]) for r in other_T], [reached(r, "hallucination") for r in other_T]
        label = "the first at T = " + ", ".join(str(r["T"]) for r in other_T)
        axes.plot(x, y, marker="x", color="black", linestyle="none", zorder=4, label=label)
    _finish(axes, "length of the plateau\nby the scale of the start", r"$\alpha$")


def plot_ratio(axes: "style.Axes", balanced: Sequence[Pair], random: Sequence[Pair]) -> None:
    alphas, sizes = {r["log_alpha"] for r, _ in random}, {size(r) for r, _ in random}
    ours = [(r, p) for r, p in balanced if r["log_alpha"] in alphas and size(r) in sizes]
    ours.sort(key=lambda pair: pair[0]["S"])
    for number, label, rows, look in (
        (7, "predicted", [p for _, p in ours], {"marker": "", "linewidth": 1.5}),
        (0, "balanced tables", [r for r, _ in ours], POINTS),
        (1, "random tables", [r for r, _ in random], POINTS),
    ):
        lengths = [(r["S"] / r["R"], reached(r, "hallucination")) for r in rows]
        style.points(axes, [xy for xy in lengths if math.isfinite(xy[1])], number, label=label, **look)
    if axes.lines:
        style.loglog(axes, "length of the plateau\nby subjects per relation", "S / R, subjects per relation", TIME)
    else:
        axes.set(title="no curve rests at the relation's level")
    if ours:
        r = ours[0][0]
        _corner(axes, rf"R={r['R']}, D={r['D']}, $\alpha$={alpha(r)}")
        style.legend(axes)


def plot_answers(axes: "style.Axes", trained: Sequence[Pair]) -> None:
    """The longest series in which only D changes: the plateau, and the time before it."""
    series: dict[Any, list[Pair]] = {}
    for r, p in trained:
        series.setdefault((r["S"], r["R"], r["log_alpha"]), []).append((r, p))
    ours = max(series.values(), key=lambda pairs: len({r["D"] for r, _ in pairs}))
    ours.sort(key=lambda pair: pair[0]["D"])
    D = [r["D"] for r, _ in ours]
    for i, (label, stage) in enumerate({"length of the plateau": "hallucination", "leaving the start": "left"}.items()):
        _measured_and_predicted(axes, D, ours, stage, i, label)
    _finish(axes, "by answers per relation", "D")
    axes.set_xticks(D, [str(x) for x in D])
    axes.set_xticks([], minor=True)
    r = ours[0][0]
    _corner(axes, rf"S={r['S']}, R={r['R']}, $\alpha$={alpha(r)}")


def plot_leaving(axes: "style.Axes", trained: Sequence[Pair]) -> None:
    times = [(reached(p, "left"), reached(r, "left")) for r, p in trained]
    left = [xy for xy in times if all(map(math.isfinite, xy))]
    if not left:
        axes.set(title="no curve leaves its start")
        return
    ends = [min(map(min, left)) * 0.9, max(map(max, left)) * 1.1]
    style.guide(axes, ends, ends, "as predicted")
    style.points(axes, left, 2, label="all settings", **POINTS | {"marker": "o"})
    style.loglog(axes, "when the loss leaves its start", "predicted time", "measured time")
    style.legend(axes)


def plot_order(axes: "style.Axes", rows: Sequence[Values]) -> None:
    for i, (resting, label) in enumerate(FIRST.items()):
        ours = [r for r in rows if r["stages"]["resting"] == resting]
        axes.plot([r["R"] for r in ours], [r["S"] for r in ours], label=f"rests {label}", **style.mark((1, 0, 7)[i], i),
                  **POINTS)  # fmt: skip
    D = rows[0]["D"]
    R = np.geomspace(1.8, 1.2 * max(r["R"] for r in rows), 200)
    axes.plot(R, R * np.sqrt((D - 1) / (R - 1)), color="black", linewidth=1.2, label=r"$S^2 (R-1) = R^2 (D-1)$")
    style.guide(axes, R, 8 * R * math.sqrt(2 * D), r"theorem 6: $S = 8R\sqrt{2D}$")
    style.loglog(
        axes, "what is learnt first\n(subjects below the line, relations above)", "R, relations", "S, subjects"
    )
    axes.set(ylim=(min(r["S"] for r in rows) / 1.6, 8 * max(r["S"] for r in rows)))
    _corner(axes, rf"D={D}, $\alpha$={alpha(rows[0])}")
    style.legend(axes, fontsize=7.5, loc="upper right")


def plot_marginal(axes: "style.Axes", rows: Sequence[Values]) -> None:
    rows = sorted(rows, key=lambda r: r["S"])
    for i, (kind, label) in enumerate(KINDS.items()):
        ours = [r for r in rows if r["left"][kind] is not None]
        axes.plot([r["S"] for r in ours], [r["left"][kind] for r in ours], label=label, **style.mark(i), **POINTS)
        pulled = [r for r in rows if r["rates"][kind] > 0]
        times = [math.acosh(math.exp(LEFT - r["log_alpha"])) / r["rates"][kind] for r in pulled]
        axes.plot([r["S"] for r in pulled], times, color=style.COLOURS[i], linewidth=1, alpha=0.7)
    R, D = rows[0]["R"], rows[0]["D"]
    axes.axvline(R * (D - 1), **style.GUIDE, label="S = R (D - 1)")
    style.loglog(
        axes, "random tables: when $W_{KQ}$ passes 0.1\n(lines: by the first rates alone)", "S, subjects", "time"
    )
    axes.set(ylim=(None, 3 * max(t for r in rows for t in r["left"].values() if t is not None)))
    _corner(axes, f"R={R}, D={D}, {rows[0]['n_noise']} noise tokens")
    style.legend(axes)


def _measured_and_predicted(
    axes: "style.Axes", x: Sequence[float], ours: Sequence[Pair], stage: str, i: int, label: str
) -> None:
    """Points for what was measured, and a line of the same colour for what was predicted."""
    axes.plot(x, [reached(p, stage) for _, p in ours], color=style.COLOURS[i], linewidth=1.2)
    axes.plot(x, [reached(r, stage) for r, _ in ours], label=label, **style.mark(i), **POINTS)


def _corner(axes: "style.Axes", text: str) -> None:
    """What is the same for all points, in the lower right corner."""
    axes.text(0.97, 0.03, text, transform=axes.transAxes, ha="right", fontsize=7.5)


def _finish(axes: "style.Axes", title: str, x: str) -> None:
    axes.set(xscale="log", title=title, xlabel=x, ylabel=TIME)
    axes.plot([], [], color="#777777", linewidth=1.2, label="predicted")
    style.frame(axes)
    axes.set_ylim(bottom=0)
    style.legend(axes)


FIGURE = Figure(
    "stages", "How long a model hallucinates, and what is learnt first", "beyond: section 5",
    "Upper row: how long the loss of trained linear attention stays at the level of the relation alone (points), and "
    "what the reduced equations give for balanced tables (lines, no free constant). Lower row, left: when the loss "
    "leaves its start. Middle: what is learnt first where subjects are not many times the relations; gradient flow "
    "rests at the level of the relation, of the subject, or at neither. Right: in random tables some answers are more "
    "frequent, and EOS learns that; for S below about R (D - 1) it does so before relations are learnt. A kind without "
    "a point never passes 0.1.",
    PRESETS, lambda grid: [*plateau_cells(grid), *order_cells(grid), *marginal_cells(grid)], plot,
    sees="Points lie on the lines of the reduced equations, which have no free constant.",
)  # fmt: skip

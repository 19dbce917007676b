"""Figure 5: a model first gives any answer, then any answer of the relation, then the fact."""

import math
from dataclasses import dataclass

import numpy as np

from facthold.lab import Cell, Figure, Values, style
from facthold.lab.fields import Count, Positive, Seeds
from facthold.studies.learning.base import COLOURS, LOSSES, LossCurve, PredictedStages, Rows, alpha, panes

STAGES = ("stage 1:\nstart", "stage 2:\nhallucination", "stage 3:\nconvergence")


@dataclass(frozen=True)
class Grid:
    """One table for both panes."""

    S: Count = 16
    R: Count = 4
    D: Count = 8
    T: Count = 32
    n_noise: Count = 20
    alpha: Positive = 1e-5
    lr: Positive = 0.1
    steps: Count = 2**13  # both as in the authors' code, which draws a fresh batch at each step
    seeds: Seeds = (0, 1, 2)  # of linear attention; the first is drawn
    d: Count = 512
    softmax_lr: Positive = 8.0
    softmax_steps: Count = 2**12  # ours, as d: the paper names none for this pane, and draws 4,000 steps
    softmax_seeds: Seeds = (0, 1, 2)  # the first is drawn with all its losses, of the others the total


PRESETS = {
    "smoke": Grid(
        S=16, R=2, D=2, T=8, n_noise=4, alpha=1e-4, lr=0.2, steps=3200, d=32, softmax_steps=64, softmax_seeds=(0, 1)
    ),
    "quick": Grid(),
    "paper": Grid(softmax_seeds=(0, 1, 2, 3, 4)),
}


def cells(grid: Grid) -> list[Cell]:
    log_alpha, softmax = math.log(grid.alpha), {"lr": grid.softmax_lr, "steps": grid.softmax_steps}
    return [
        *(LossCurve.of(grid, d=0, log_alpha=log_alpha, seed=seed) for seed in grid.seeds),
        PredictedStages.of(grid, log_alpha=log_alpha),
        *(LossCurve.of(grid, model="softmax", seed=seed, **softmax) for seed in grid.softmax_seeds),
    ]


def plot(rows: Rows) -> "style.Canvas":
    canvas, (left, right) = style.panels(2, width=6.0, height=4.4)
    lines, predicted, softmax = panes(rows)
    linear = lines[0] if lines else None
    if linear is not None:
        start = f"(all weights start at {alpha(linear)}, learning rate {linear['lr']:g})"
        _pane(left, linear, f"linear attention, orthogonal embeddings\n{start}")
    if linear is not None and predicted is not None:
        t = np.array(predicted["curves"]["t"]) / linear["lr"]
        shown = t <= linear["steps"]
        left.plot(t[shown], np.array(predicted["curves"]["loss"])[shown], color="black", linestyle=(0, (1, 1.6)),
                  linewidth=1.6, label="total, predicted", zorder=4)  # fmt: skip
    for r in softmax[:1]:
        start = f"(d = {r['d']}, starts at 0, learning rate {r['lr']:g})"
        _pane(right, r, f"softmax attention, random embeddings\n{start}")
    for i, r in enumerate(softmax[1:]):
        steps = np.array(r["curves"]["t"]) / r["lr"]
        right.plot(steps, r["curves"]["loss"], color=COLOURS["loss"], linewidth=0.8, alpha=0.5, zorder=2,
                   label=None if i else "total, other seeds")  # fmt: skip
    for axes in (left, right):
        if axes.lines:
            _legend(axes)
    return canvas


def _legend(axes: "style.Axes") -> None:
    """From the highest curve to the lowest: what is predicted stands below what it predicts."""
    order = ("total", "total, predicted", "total, other seeds")
    named = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    labels = [label for label in order if label in named] + [label for label in named if label not in order]
    handles = [named[label] for label in labels]
    axes.legend(handles, labels, frameon=False, fontsize=8, loc="upper right", bbox_to_anchor=(1.0, 0.76))


def _pane(axes: "style.Axes", row: Values, title: str) -> None:
    steps = np.array(row["curves"]["t"]) / row["lr"]
    for i, (name, label) in enumerate(LOSSES.items()):  # the total above the others, which it covers
        axes.plot(steps, row["curves"][name], color=COLOURS[name], linewidth=1.8, label=label, zorder=3.5 - 0.1 * i)
    levels = {r"$\ln\,|A|$": row["levels"]["start"], r"mean entropy of $p^*(a\,|\,r)$": row["levels"]["relation"]}
    for label, level in levels.items():
        axes.axhline(level, **style.GUIDE | {"linewidth": 0.8})
        axes.annotate(label, (0.995, level), xycoords=("axes fraction", "data"), fontsize=7, color="#777777",
                      ha="right", va="bottom")  # fmt: skip
    _mark_stages(axes, row)
    axes.set(title=title, xlabel="steps of gradient descent", ylabel="loss: cross entropy in nats",
             xlim=(0, row["steps"]), ylim=(0, 1.32 * row["levels"]["start"]))  # fmt: skip
    axes.spines[["top", "right"]].set_visible(False)


def _mark_stages(axes: "style.Axes", row: Values) -> None:
    """The stages as shades, as far as they were found; and in words what was not."""
    stages, steps = row["stages"], row["steps"]
    rest = stages["relation"]
    if words := stages["problem"] or _not_reached(row):
        axes.text(0.5, 0.97, words, transform=axes.transAxes, ha="center", va="top", fontsize=7, wrap=True)
    if stages["problem"] or stages["resting"] != "relation":
        return
    left, begins = stages["left"] / row["lr"], rest["begins"] / row["lr"]
    ends = steps if rest["ends"] is None else rest["ends"] / row["lr"]
    spans = ((0.0, left), (begins, ends), (ends, steps))
    for i, (name, (a, b)) in enumerate(zip(STAGES, spans, strict=True)):
        if b <= a:
            continue
        axes.axvspan(a, b, color=style.COLOURS[(4, 1, 2)[i]], alpha=0.09, linewidth=0)
        # a short one: its number; where that would stand on the axis, none
        label = name if b - a > 0.12 * steps else name.split(":")[0][-1] if b - a > 0.04 * steps else ""
        axes.text((a + b) / 2, 1.23 * row["levels"]["start"], label, ha="center", va="top", fontsize=7.5)


def _not_reached(row: Values) -> str | None:
    """Which stage was not reached, in words; None: all were."""
    stages, rest = row["stages"], row["stages"]["relation"]
    if stages["left"] is None:
        return f"the loss has not left its start in {row['steps']} steps"
    if stages["resting"] == "subject":
        level = row["levels"]["subject"]
        return f"subjects are learnt first here: the loss stays at {level:.2f}, the mean entropy of p*(a | s)"
    if rest["begins"] is None:
        return f"the loss has not fallen to the relation's level in {row['steps']} steps"
    if stages["resting"] is None:
        return "the loss passes the relation's level without a rest"
    return f"the loss has not left the relation's level in {row['steps']} steps" if rest["ends"] is None else None


FIGURE = Figure(
    "fig5", "First any answer, then any answer of the relation, then the fact", "figure 5",
    "Cross entropy while a model learns S R facts. Total: of the right answer. Relation-only: any answer of the "
    "relation counts. Subject-only: any answer of the subject. In the second stage the model knows the relation alone: "
    "it hallucinates. The dotted line is the loss that the reduced equations give, with no free constant. Stages are "
    "found from the curve: a rest is a stretch within 2% of a level that lasts as long as the fall into it, or longer.",
    PRESETS, cells, plot,
    sees="The total loss rests twice: first no answer is known, then the relation alone, and there the model "
         "hallucinates. The dotted prediction lies on the curve.",
    differs="On the right the paper names neither d nor the learning rate: they are ours. Stages are found from the "
         "curve, and the dotted prediction is beyond the paper.",
)  # fmt: skip

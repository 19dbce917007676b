"""The bigram task: one layer of attention guesses, two layers look the answer up, by three memories that are learnt in
an order."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from facthold.lab import Cell, Figure, Values, style
from facthold.lab.fields import Count, Positive, Seeds
from facthold.studies.context.base import MEMORIES, TrainedHead
from facthold.studies.judging import grouped

ONE_LAYER = ("W_KQ^1", "W_OV^1")
RULES = {"mode": "most frequent output so far", "counts": "by counts of tokens", "bigram": "global bigrams"}
PROBES = {
    "W_OV^2": r"$W_{OV}^2$: token to output", "W_KQ^2": r"$W_{KQ}^2$: trigger to what follows it",
    "W_KQ^1": r"$W_{KQ}^1$: position to the one before",
}  # fmt: skip


@dataclass(frozen=True)
class Grid:
    """Models of two layers and of one, trained alike."""

    d: Count = 128
    T: Count = 256
    K: Count = 5
    lr: Positive = 0.03
    steps: Count = 2400
    batch: Count = 32
    check_every: Count = 40
    seeds: Seeds = (0, 1, 2)


PRESETS = {
    "smoke": Grid(d=32, T=32, steps=100, batch=16, check_every=20, seeds=(0, 1)),
    "quick": Grid(),
    "paper": Grid(d=256, steps=2400, batch=512, seeds=(0, 1, 2, 3, 4)),
}


def cells(grid: Grid) -> list[Cell]:
    two = [TrainedHead.of(grid, seed=seed) for seed in grid.seeds]
    one = [TrainedHead.of(grid, layers=1, trained=ONE_LAYER, seed=seed) for seed in grid.seeds]
    relu = [
        TrainedHead.of(grid, layers=1, trained=(*ONE_LAYER, "F^1"), feed_forward="relu", seed=seed)
        for seed in grid.seeds
    ]
    return [*two, *one, *relu]


def name(row: Values) -> str:
    if row["layers"] == 2:
        return "two layers"
    return "one layer" if row["feed_forward"] == "none" else "one layer and a ReLU layer"


def plot(rows: Sequence[Values]) -> "style.Canvas":
    canvas, (left, right) = style.panels(2, width=6.0, height=4.4)
    for i, (label, group) in enumerate(sorted(grouped(rows, name).items(), key=lambda item: -item[1][0]["layers"])):
        for j, r in enumerate(group):
            curves = r["curves"]
            left.plot(curves["steps"], curves["accuracy"], color=style.COLOURS[i], linewidth=1.4, alpha=1 - 0.25 * j,
                      label=None if j else label)  # fmt: skip
    for i, (rule, words) in enumerate(RULES.items()):
        level = fmean(r["baselines"][rule] for r in rows)
        left.axhline(level, **style.GUIDE | {"linestyle": ("--", ":", "-.")[i]}, label=f"{words}: {level:.0%}")
    first = rows[0]
    left.set(title=f"outputs that the context tells (K = {first['K']}, T = {first['T']}, d = {first['d']})",
             xlabel=f"steps of {first['batch']} sequences", ylabel="share right", ylim=(0, 1.02))  # fmt: skip
    left.legend(frameon=False, fontsize=8, loc="center right")
    for i, (matrix, words) in enumerate(PROBES.items()):
        for j, r in enumerate(r for r in rows if r["layers"] == 2):
            right.plot(r["curves"]["steps"], r["curves"][matrix], color=style.COLOURS[i], linewidth=1.4,
                       alpha=1 - 0.25 * j, label=None if j else words)  # fmt: skip
    right.set(title="memory recall probes of two layers", xlabel="steps", ylabel="share of associations recalled",
              ylim=(0, 1.02))  # fmt: skip
    right.legend(frameon=False, fontsize=8, loc="center right")
    for axes in (left, right):
        style.frame(axes)
    return canvas


def says(rows: Sequence[Values]) -> list[str]:
    """Each kind of model in words, beside what rules without induction have right of the same sequences."""
    lines = []
    for label, group in grouped(rows, name).items():
        each = ", ".join(f"{r['accuracy']:.1%}" for r in group)
        rules = ", ".join(f"{words} {fmean(r['baselines'][rule] for r in group):.1%}" for rule, words in RULES.items())
        lines.append(f"{label}: {each} of outputs that the context tells (without induction: {rules})")
    for matrix in MEMORIES:
        halves = [_half(r, matrix) for r in rows if r["layers"] == 2]
        if halves:
            lines.append(f"{matrix} has half of its final probe after {', '.join(map(str, halves))} steps")
    return lines


def _half(row: Values, matrix: str) -> int:
    curve = np.array(row["curves"][matrix])
    return int(row["curves"]["steps"][int((curve >= curve[-1] / 2).argmax())])


FIGURE = Figure(
    "induction", "One layer guesses, two layers look it up", "slides: transformers on the bigram task",
    "Characters of tiny Shakespeare; after each of K triggers stands its output, another one in each sequence. Left: "
    "how often a trained model predicts an output from the second occurrence of its trigger on, and rules that do "
    "without induction. Right: how many associations of an induction head the matrices of two layers hold, by arg max. "
    "The loss is over these outputs alone, and the three matrices are trained; embeddings, positions and the first "
    "layer's output-value matrix are random and stay as they are.",
    PRESETS, cells, plot, says=says,
)  # fmt: skip

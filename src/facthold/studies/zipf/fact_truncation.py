"""Which facts go first as the rank of a model's matrices falls: the figure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from facthold.lab import Cell, Figure, Values, style
from facthold.lab.fields import Count, Positive, Seeds
from facthold.measure.scaling import mean_interval
from facthold.studies.judging import grouped
from facthold.studies.zipf.truncated import TruncatedFacts

UNIFORM, SUBJECTS, RELATIONS = "all facts equally often", "subjects by a power law", "relations by a power law"
MATRICES = {
    "mlp": "both matrices of the MLP", "mlp.W": "first matrix of the MLP (W)", "mlp.V": "second matrix of the MLP (V)",
    "W_OV": "output-value matrices of all heads",
}  # fmt: skip
KEPT = 0.9  # of the full model's recall: which facts went first is looked at where less is left


@dataclass(frozen=True)
class Grid:
    """One table, under several laws of p(s, r): where all facts are asked equally often, subjects should not differ. A
    model with room for all of them, and one that is too small."""

    S: Count = 128
    R: Count = 8
    D: Count = 16
    few: Count = 2
    steps: Count = 4096
    lr: Positive = 1e-2
    models: tuple[tuple[int, float, float], ...] = (  # (d, alpha_s, alpha_r)
        (48, 0.0, 0.0), (48, 1.0, 0.0), (48, 0.0, 1.0), (32, 0.0, 0.0), (32, 1.0, 0.0),
    )  # fmt: skip
    seeds: Seeds = (0, 1, 2)


PRESETS = {
    "smoke": Grid(S=16, R=2, D=4, steps=64, models=((8, 1.0, 0.0),), seeds=(0, 1)),
    "quick": Grid(),
    "paper": Grid(S=512, steps=16384, seeds=(0, 1, 2, 3, 4),
                  models=((96, 0.0, 0.0), (96, 1.0, 0.0), (96, 0.0, 1.0), (64, 0.0, 0.0), (64, 1.0, 0.0))),
}  # fmt: skip


def cells(grid: Grid) -> list[Cell]:
    return [
        TruncatedFacts.of(grid, d=d, alpha_s=alpha_s, alpha_r=alpha_r, seed=seed)
        for d, alpha_s, alpha_r in grid.models
        for seed in grid.seeds
    ]


Group = Callable[[np.ndarray], float]  # from recall by fourths and relations to that of some of the facts
GROUPS: Mapping[str, Group] = {
    "the most frequent fourth of the subjects": lambda by: float(by[0].mean()),
    "the rarest fourth": lambda by: float(by[-1].mean()),
    "the most frequent half of the relations": lambda by: float(by[:, : by.shape[1] // 2].mean()),
    "the rarest half": lambda by: float(by[:, by.shape[1] // 2 :].mean()),
    "relations with many answers": lambda by: float(by[:, 0::2].mean()),
    "with few": lambda by: float(by[:, 1::2].mean()),
}
"""In pairs. Every second relation has few answers, so that frequency and the number of answers do not go together."""
PAIRS = tuple(zip(list(GROUPS)[::2], list(GROUPS)[1::2], strict=True))


def law(row: Values) -> str:
    words = SUBJECTS if row["alpha_s"] else RELATIONS if row["alpha_r"] else UNIFORM
    return f"d = {row['d']}, {words}"


def of_cut(row: Values, cut: str) -> list[Mapping[str, Any]]:
    """What a row has of one matrix, the smallest rank first."""
    return sorted((one for one in row["truncated"] if one["cut"] == cut), key=lambda one: one["r"])


def sound(rows: Sequence[Values]) -> list[Values]:
    """Without runs that diverged."""
    return [row for row in rows if row["accuracy"] is not None]


def compared_at(rows: Sequence[Values], cut: str) -> int | None:
    """The place on the ladder of ranks at which facts are compared; None where no rank loses so much."""
    recall = np.mean([[one["recall"] for one in of_cut(row, cut)] for row in rows], axis=0)
    low = np.flatnonzero(recall < KEPT * recall[-1])
    return int(low[-1]) if len(low) else None


def says(rows: Sequence[Values]) -> list[str]:
    """For each law and matrix: the largest rank that loses more than a tenth, what share of its recall each group of
    facts keeps there, the difference with its interval over seeds, and the parameters that the factors save."""
    lines = []
    for name, group in grouped(sound(rows), law).items():
        few, many = min(group[0]["few"], group[0]["D"]), group[0]["D"]
        full = ", ".join(f"{r['accuracy']:.1%}" for r in group)
        lines.append(
            f"{name}: the full models recall {full}; who knows the relation alone guesses about 1 in {many} of many "
            f"answers, 1 in {few} of few"
        )
        for cut in group[0]["cuts"]:
            place = compared_at(group, cut)
            if place is None:
                lines.append(f"{name}, {cut}: every rank keeps {KEPT:.0%} of the recall")
                continue
            ladders = [of_cut(row, cut) for row in group]
            found, one = [ladder[place] for ladder in ladders], ladders[0][place]
            pairs = "; ".join(_pair([(ladder[place], ladder[-1]) for ladder in ladders], *pair) for pair in PAIRS)
            lines.append(
                f"{name}, {cut} at rank {one['r']}: recall {fmean(f['recall'] for f in found):.1%}, of what is asked "
                f"{fmean(f['asked'] for f in found):.1%}; factors save {one['saved']:+,} of {one['stored']:,} "
                f"parameters; shares of the recall that are kept: {pairs}"
            )
            if (dear := too_dear(of_cut(group[0], cut))) is not None:
                lines.append(f"{name}, {cut}: from rank {dear} on the factors have more parameters than the matrix")
    return lines


def too_dear(ladder: Sequence[Mapping[str, Any]]) -> int | None:
    """The rank from which on factors have more parameters than what they stand for, which may lie between two that were
    tried; None where it is beyond the last."""
    some = next(f for f in ladder if f["r"])
    first = int(some["stored"] * some["r"] // (some["stored"] - some["saved"])) + 1  # they grow in proportion to it
    return first if first <= ladder[-1]["r"] else None


def _pair(found: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], a: str, b: str) -> str:
    """Of cut and full models: the share of its recall that each of two groups keeps."""
    recall = np.array([[[GROUPS[name](np.array(f["by"])) for name in (a, b)] for f in pair] for pair in found])
    each = recall[:, 0] / np.maximum(recall[:, 1], np.finfo(float).tiny)
    low, high = mean_interval((each[:, 0] - each[:, 1]).tolist())
    return f"{a} {each[:, 0].mean():.1%}, {b} {each[:, 1].mean():.1%} (difference [{low:+.2f}, {high:+.2f}])"


def plot(rows: Sequence[Values]) -> "style.Canvas":
    groups = sorted(grouped(sound(rows), law).items())
    if not groups:
        return style.nothing("every run diverged")
    cuts = groups[0][1][0]["cuts"]
    canvas, axes = style.panels(len(groups) * len(cuts), width=4.0, height=3.7, rows=len(groups))
    for i, (name, group) in enumerate(groups):
        for j, cut in enumerate(cuts):
            ax = axes[i * len(cuts) + j]
            ladders = [of_cut(row, cut) for row in group]
            ranks = [one["r"] for one in ladders[0]]
            for k, (words, value) in enumerate(GROUPS.items()):
                left = [fmean(value(np.array(f["by"])) for f in place) for place in zip(*ladders, strict=True)]
                pair, dashes = k // 2, ("-", "--")[k % 2]
                width = 2.4 - 0.6 * pair  # two pairs may be the same facts, and both are seen
                ax.plot(ranks, left, dashes, color=style.COLOURS[pair], linewidth=width, label=words)
            title = f"{MATRICES.get(cut, cut)}\n{name}"
            ax.set(title=title, xlabel="rank that is kept", ylabel="" if j else "recall", ylim=(-0.02, 1.02))
            style.frame(ax)
    style.legend_below(canvas, axes[0], columns=3)
    return canvas


FIGURE = Figure(
    "fact-truncation", "Which facts go first as the rank falls", "beyond the slides: truncation of models of facts",
    "Transformers with an MLP of width 4 d, trained on S x R facts that are asked for equally often, or by a power law "
    "in the subject or in the relation; every second relation has few answers, the others have many. Then one matrix "
    "is replaced by its best part of each rank: the MLP's first (W), its second (V), both, or the output-value "
    "matrices of all heads as one. Lines: recall of parts of the facts, means over seeds.",
    PRESETS, cells, plot, says=says,
    sees="Whether frequent facts, and those of relations with few answers, outlast the others as the rank falls.",
)  # fmt: skip

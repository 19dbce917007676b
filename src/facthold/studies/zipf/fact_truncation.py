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
LOST = 0.5  # of the full model's recall: facts are compared at the largest rank that leaves less


@dataclass(frozen=True)
class Grid:
    """One table and one size, under several laws of p(s, r): where all are equal, no order should be seen."""

    d: Count = 32
    S: Count = 128
    R: Count = 8
    D: Count = 16
    few: Count = 2
    steps: Count = 2048
    lr: Positive = 1e-2
    laws: tuple[tuple[float, float], ...] = ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0))  # (alpha_s, alpha_r)
    seeds: Seeds = (0, 1, 2)


PRESETS = {
    "smoke": Grid(d=8, S=16, R=2, D=4, steps=64, laws=((1.0, 0.0),), seeds=(0, 1)),
    "quick": Grid(),
    "paper": Grid(d=64, S=512, steps=16384, seeds=(0, 1, 2, 3, 4)),
}


def cells(grid: Grid) -> list[Cell]:
    return [
        TruncatedFacts.of(grid, alpha_s=alpha_s, alpha_r=alpha_r, seed=seed)
        for alpha_s, alpha_r in grid.laws
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
    if row["alpha_s"]:
        return SUBJECTS
    return RELATIONS if row["alpha_r"] else UNIFORM


def of_cut(row: Values, cut: str) -> list[Mapping[str, Any]]:
    """What a row has of one matrix, the smallest rank first."""
    return sorted((one for one in row["truncated"] if one["cut"] == cut), key=lambda one: one["r"])


def sound(rows: Sequence[Values]) -> list[Values]:
    """Without runs that diverged."""
    return [row for row in rows if row["accuracy"] is not None]


def compared_at(rows: Sequence[Values], cut: str) -> int | None:
    """The place on the ladder of ranks at which facts are compared; None where no rank loses so much."""
    recall = np.mean([[one["recall"] for one in of_cut(row, cut)] for row in rows], axis=0)
    low = np.flatnonzero(recall < LOST * recall[-1])
    return int(low[-1]) if len(low) else None


def says(rows: Sequence[Values]) -> list[str]:
    """For each law and matrix: the rank at which more than half is lost, what is left of each group of facts there, the
    difference with its interval over seeds, and the parameters that the factors save."""
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
                lines.append(f"{name}, {cut}: no rank loses more than {LOST:.0%} of the recall")
                continue
            found = [of_cut(row, cut)[place] for row in group]
            one = found[0]
            lines.append(
                f"{name}, {cut} at rank {one['r']} of {group[0]['d']}: recall {fmean(f['recall'] for f in found):.1%}, "
                f"of what is asked {fmean(f['asked'] for f in found):.1%}; factors save {one['saved']:+,} of "
                f"{one['stored']:,} parameters; " + "; ".join(_pair(found, *pair) for pair in PAIRS)
            )
            dear = [f["r"] for f in of_cut(group[0], cut) if f["saved"] < 0]
            if dear:
                lines.append(f"{name}, {cut}: from rank {dear[0]} on the factors have more parameters than the matrix")
    return lines


def _pair(found: Sequence[Mapping[str, Any]], a: str, b: str) -> str:
    each = np.array([[GROUPS[name](np.array(f["by"])) for name in (a, b)] for f in found])
    low, high = mean_interval((each[:, 0] - each[:, 1]).tolist())
    return f"{a} {each[:, 0].mean():.1%}, {b} {each[:, 1].mean():.1%} (difference [{low:+.2f}, {high:+.2f}])"


def plot(rows: Sequence[Values]) -> "style.Canvas":
    groups = sorted(grouped(sound(rows), law).items())
    cuts = groups[0][1][0]["cuts"]
    canvas, axes = style.panels(len(groups) * len(cuts), width=4.0, height=3.4, rows=len(groups))
    for i, (name, group) in enumerate(groups):
        for j, cut in enumerate(cuts):
            ax = axes[i * len(cuts) + j]
            ladders = [of_cut(row, cut) for row in group]
            ranks = [one["r"] for one in ladders[0]]
            for k, (words, value) in enumerate(GROUPS.items()):
                left = [fmean(value(np.array(f["by"])) for f in place) for place in zip(*ladders, strict=True)]
                dashes = ("-", "--", ":")[k // 2]
                ax.plot(ranks, left, dashes, color=style.COLOURS[k % 2], linewidth=1.3, label=words)
            ax.set(title=f"{cut}: {name}", xlabel="rank that is kept", ylabel="recall", ylim=(-0.02, 1.02))
            style.frame(ax)
    style.legend(axes[0], fontsize=7, loc="lower right")
    return canvas


FIGURE = Figure(
    "fact-truncation", "Which facts go first as the rank falls", "beyond the slides: truncation of models of facts",
    "Transformers with an MLP of width 4 d, trained on S x R facts that are asked for equally often, or by a power law "
    "in the subject or in the relation; every second relation has few answers, the others have many. Then one matrix "
    "is replaced by its best part of each rank: the MLP's first (W), its second (V), both, or the output-value "
    "matrices of all heads as one. Lines: recall of parts of the facts, means over seeds.",
    PRESETS, cells, plot, says=says,
)  # fmt: skip

"""The bigram task: one layer of attention guesses, two layers look the answer up, by three memories that are learnt in
an order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Annotated, Any

import numpy as np

from facthold.lab import Cell, Figure, Values, style
from facthold.lab.fields import Count, Counts, Each, OneOf, Positive, Seeds
from facthold.studies.context.base import FEED_FORWARD, MEMORIES, symbol
from facthold.studies.context.heads import GenericHead, InductionHead
from facthold.studies.judging import FRESH
from facthold.train.protocols import OPTIMISERS

ONE_LAYER = ("W_KQ^1", "W_OV^1")
TWO, ONE, RELU, GENERIC = "two layers", "one layer", "one layer and a ReLU layer", "a usual transformer of two layers"
LINEAR_TWO, RELU_TWO = "two layers with linear memories", "two layers with ReLU memories"
OF_LAYERS = FEED_FORWARD[1:]
MEMORY = {LINEAR_TWO: "linear", RELU_TWO: "relu"}  # of each layer, trained too
KINDS = (TWO, ONE, RELU, GENERIC, LINEAR_TWO, RELU_TWO)
RULES = {"mode": "most frequent output so far", "counts": "by counts of tokens", "bigram": "global bigrams"}
OTHER_PROBES = (
    ("W_KQ^1", "W_KQ^1 unmasked", "without the causal mask"),
    ("W_KQ^2", "W_KQ^2 among triggers", "among the triggers alone"),
)
PROBES = {
    "W_OV^2": "token to output", "W_KQ^2": "trigger to what follows it", "W_KQ^1": "position to the one before",
}  # fmt: skip
LINES = ("-", "--", "-.")  # two of the probes are often the same: through dashes both are seen


@dataclass(frozen=True)
class Grid:
    """Models of two layers and of one, trained alike; and a usual transformer."""

    d: Count = 128
    T: Count = 256
    K: Count = 5
    random: bool = False  # other triggers in each sequence, drawn by their frequency
    lr: Positive = 0.03
    steps: Count = 2400
    batch: Count = 32
    check_every: Count = 40
    memories: Annotated[tuple[str, ...], Each(Annotated[str, OneOf(OF_LAYERS)])] = OF_LAYERS  # of two layers
    memory_lr: Positive = 0.01  # these two: where there are feed-forward memories
    memory_steps: Count = 600
    generic_d: Count = 64
    generic_heads: Count = 2
    generic_lr: Positive = 0.003
    generic_steps: Count = 600
    generic_batch: Count = 16
    generic_check: Count = 20
    optimiser: Annotated[str, OneOf(OPTIMISERS)] = "adam"  # this and what follows: not of the usual transformer
    decay: bool = True  # the learning rate falls evenly to zero
    unit: bool = True  # tokens and positions N(0, 1/d), as on the slides; else N(0, 1), as in the public code
    scaled: bool = False  # scores divided by sqrt(d), as in the public code
    everywhere: bool = False  # the loss is over all positions
    totals: Counts = (600,)  # steps in all of joint and of staged training, in claim joint-training
    seeds: Seeds = (FRESH, FRESH + 1, FRESH + 2)  # 0 to 2 took part where the protocol was chosen


PRESETS = {
    "smoke": Grid(
        d=32, T=32, steps=120, batch=16, check_every=20, memories=("linear",), memory_steps=40, generic_d=16,
        generic_steps=40, generic_batch=8, totals=(60, 120), seeds=(0, 1),
    ),
    "quick": Grid(),
    "paper": Grid(  # two layers and one as the public code trains them
        d=256, steps=1000, batch=512, optimiser="sgd-momentum", decay=False, unit=False, scaled=True, memory_lr=0.03,
        memory_steps=1000, generic_d=128, generic_heads=4, generic_steps=1000, generic_batch=512,
        totals=(600, 2400), seeds=tuple(range(FRESH, FRESH + 5)),
    ),
}  # fmt: skip


def cells(grid: Grid) -> list[Cell]:
    return [cell for kind in KINDS for cell in cells_of_kind(grid, kind)]


def cells_of_kind(grid: Grid, kind: str) -> list[Cell]:
    """The models of one kind, a seed each: claims judge these."""
    if kind == GENERIC:
        return [
            GenericHead(
                d=grid.generic_d, H=grid.generic_heads, T=grid.T, K=grid.K, random=grid.random, lr=grid.generic_lr,
                batch=grid.generic_batch, steps=grid.generic_steps, check_every=grid.generic_check,
                everywhere=False, seed=seed,
            )
            for seed in grid.seeds
        ]  # fmt: skip
    if kind == TWO:
        return [InductionHead.of(grid, seed=seed) for seed in grid.seeds]
    schedule: dict[str, Any] = {"lr": grid.memory_lr, "steps": grid.memory_steps}
    if kind in MEMORY:
        if MEMORY[kind] not in grid.memories:
            return []
        trained = (*MEMORIES, "F^1", "F^2")
        return [
            InductionHead.of(grid, trained=trained, feed_forward=MEMORY[kind], seed=seed, **schedule)
            for seed in grid.seeds
        ]
    if kind == ONE:
        return [InductionHead.of(grid, layers=1, trained=ONE_LAYER, seed=seed) for seed in grid.seeds]
    return [
        InductionHead.of(grid, layers=1, trained=(*ONE_LAYER, "F^1"), feed_forward="relu", seed=seed, **schedule)
        for seed in grid.seeds
    ]


def name(row: Values) -> str:
    if row["kind"] == GenericHead.kind:
        return GENERIC
    if row["layers"] == 2:
        return next((kind for kind, memory in MEMORY.items() if memory == row["feed_forward"]), TWO)
    return ONE if row["feed_forward"] == "none" else RELU


def of_kind(rows: Sequence[Values], kind: str) -> list[Values]:
    """The rows of one kind of model, among those of this figure."""
    kinds = (InductionHead.kind, GenericHead.kind)
    return [r for r in rows if r["kind"] in kinds and name(r) == kind]


def plot(rows: Sequence[Values]) -> "style.Canvas":
    canvas, (left, right) = style.panels(2, width=6.4, height=5.0)
    for i, kind in enumerate(KINDS):
        for r, look in shaded(of_kind(rows, kind), f"{kind}, d = {{d}}"):
            sequences = r["batch"] * np.array(r["curves"]["steps"])
            left.plot(sequences, r["curves"]["accuracy"], color=style.COLOURS[i], **look)
    for i, (rule, words) in enumerate(RULES.items()):
        level = fmean(r["baselines"][rule] for r in rows)
        left.axhline(level, **style.GUIDE | {"linestyle": ("--", ":", "-.")[i]}, label=f"{words}: {level:.0%}")
    triggers = "random" if rows[0]["random"] else "fixed"
    left.set(title=f"outputs that the context tells (K = {rows[0]['K']}, {triggers}; T = {rows[0]['T']})",
             xlabel="sequences seen", ylabel="share right")  # fmt: skip
    two = of_kind(rows, TWO)
    for i, (matrix, words) in enumerate(PROBES.items()):
        for r, look in shaded(two, f"{symbol(matrix)}: {words}"):
            right.plot(r["curves"]["steps"], r["curves"][matrix], LINES[i], color=style.COLOURS[i], **look)
    right.set(title="memory recall probes of two layers" + (f" (d = {two[0]['d']})" if two else ""),
              xlabel=f"steps of {two[0]['batch']} sequences" if two else "steps",
              ylabel="share of associations recalled")  # fmt: skip
    for axes in (left, right):
        axes.set_ylim(-0.01, 1.02)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        style.frame(axes)
        style.legend(axes, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2)
    return canvas


def shaded(group: Sequence[Values], label: str) -> Iterator[tuple[Values, dict[str, Any]]]:
    """How to draw each seed of a group: the first has the label, the others are paler."""
    for j, r in enumerate(group):
        pale = 1 - 0.7 * j / len(group)
        yield r, {"linewidth": 1.4, "alpha": pale, "label": None if j else label.replace("{d}", str(r["d"]))}


def says(rows: Sequence[Values]) -> list[str]:
    """Each kind of model in words, beside what rules without induction have right of the same sequences."""
    lines = []
    for kind in KINDS:
        if group := of_kind(rows, kind):
            each = ", ".join(f"{r['accuracy']:.1%}" for r in group)
            lines.append(f"{kind}: {each} of outputs that the context tells ({without_induction(group)})")
            lines.append(f"{kind}: {where(group)}")
    for matrix in MEMORIES:
        halves = [half(r, matrix) for r in of_kind(rows, TWO)]
        if halves:
            when = ", ".join(f"{steps} steps" if steps is not None else "no step: it ends at 0" for steps in halves)
            lines.append(f"{matrix} has half of its final probe after {when}")
    for matrix, other, words in OTHER_PROBES:
        ends = [[r["curves"][name][-1] for r in of_kind(rows, TWO)] for name in (matrix, other)]
        if ends[0]:
            probe, public = (", ".join(f"{end:.3f}" for end in each) for each in ends)
            lines.append(f"the probe of {matrix} ends at {probe}; {words}, as in the public code, at {public}")
    return lines


def without_induction(rows: Sequence[Values]) -> str:
    """What rules that do without it have right of the same sequences."""
    each = (f"{words} {fmean(r['baselines'][rule] for r in rows):.1%}" for rule, words in RULES.items())
    return f"without induction: {', '.join(each)}"


def where(group: Sequence[Values]) -> str:
    """Where models of one kind look, in words: means over them, of the head that does it most."""
    first, last = (([r["looks"][i] for r in group]) for i in (0, -1))
    previous, needed, told, evenly = (
        fmean(layer[key] for layer in of)
        for of, key in ((first, "previous"), (first, "needed"), (last, "told"), (last, "evenly"))
    )
    return (
        f"the first layer has {previous:.0%} of its attention on the previous token ({needed:.0%} where an output that "
        f"is asked for later first stands); the last has {told:.0%}, from a trigger, on what stood after it before "
        f"({evenly:.0%} if it looked evenly)"
    )


def half(row: Values, matrix: str) -> int | None:
    """Steps after which a probe is first at half of what it ends with; None where that is nothing."""
    curve = np.array(row["curves"][matrix])
    return None if not curve[-1] else int(row["curves"]["steps"][int((curve >= curve[-1] / 2).argmax())])


FIGURE = Figure(
    "induction", "One layer guesses, two layers look it up", "slides: transformers on the bigram task",
    "Characters of tiny Shakespeare; after each of K triggers stands its output, another one in each sequence. Left: "
    "how often a trained model predicts an output from the second occurrence of its trigger on, and rules that do "
    "without induction. Right: how many associations of an induction head the matrices of two layers hold, by arg max. "
    "The loss is over these outputs alone. Of two layers the three matrices of an induction head are trained, and the "
    "feed-forward memories where there are any; of one layer its two matrices, and its ReLU layer. Embeddings, "
    "positions and the first of two output-value matrices are random and stay as they are. The usual transformer has "
    "layer norm, heads, MLPs and learned embeddings, all of it trained by the same loss.",
    PRESETS, cells, plot, says=says,
    sees="One layer does as well as the most frequent output so far; two layers look the output up.",
)  # fmt: skip

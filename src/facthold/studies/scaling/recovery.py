"""How many items of a power law a few steps recall, by the optimiser: cells and figure.

N = d^2 items with an output of their own each, so that N is no limit: no linear memory holds more.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from statistics import fmean
from typing import Annotated, Any, ClassVar

from facthold._util.keys import derive
from facthold._util.memory import Parts, bytes_of
from facthold.dynamics import LEARNERS, RESIDUALS
from facthold.lab import Cell, Figure, Result, Values, style
from facthold.lab.fields import Between, Count, Counts, Each, OneOf, Positive, Seeds, Whole
from facthold.measure.scaling import Fit
from facthold.memory import EMBEDDINGS
from facthold.studies.judging import exponent, fresh_seeds, grouped
from facthold.theory import recovery as theory

Alpha = Annotated[float, Between(low=1)]
MUON, SIGN, ADAM, SGD = LEARNERS
SOFTMAX, THRESHOLD = RESIDUALS
LR = 2.0
"""The standard deviation, in nats, of scores of unrelated pairs after the first step. The items recalled after three
steps of Muon on the whole loss are most about there (docs/muon.md): it was chosen on seeds that do not judge."""
SEEDS, MANY = fresh_seeds("quick", 4), fresh_seeds("quick", 12)
WORDS = {
    (MUON, SOFTMAX): "Muon", (MUON, THRESHOLD): "Muon, thresholded", (SIGN, SOFTMAX): "sign descent",
    (ADAM, SOFTMAX): "Adam", (SGD, SOFTMAX): "SGD",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PowerLawCell(Cell):
    """N = d^2 items with p(z) ~ z^-alpha in d dimensions."""

    counts_no_facts: ClassVar[str] = "what a few steps recall is no capacity"

    d: Annotated[int, Between(least=2)]
    alpha: Alpha = 2.0
    steps: Count = 3
    batch: Whole = 0  # items drawn afresh for each step; 0: all, by their frequencies

    @property
    def N(self) -> int:
        return self.d**2


@dataclass(frozen=True, kw_only=True)
class Recovery(PowerLawCell):
    """How many items are recalled after each step, over all N outputs; ties are no recall. New embeddings and batches
    for each seed."""

    kind: ClassVar[str] = "recovery"

    optimiser: Annotated[str, OneOf(LEARNERS)] = MUON
    residual: Annotated[str, OneOf(RESIDUALS)] = SOFTMAX
    lr: Positive = LR
    embeddings: Annotated[str, OneOf(EMBEDDINGS)] = "gaussian"
    seeds: Seeds

    @property
    def needed(self) -> Parts:
        return {f"d={self.d}": bytes_of(embeddings=6.0 * self.N * self.d, scores=3.0 * (1 << 24))}

    @property
    def cost(self) -> float:
        softmax = 2.5 if self.residual == SOFTMAX else 1.0
        return 0.5 + len(self.seeds) * self.steps * self.N**2 * (self.d * 4e-11 + 2e-9) * softmax

    def run(self) -> Result:
        from facthold.dynamics.recovery import recover
        from facthold.memory.associations import random_problem

        p, recalled, seen = theory.power_law(self.N, self.alpha), [], []
        for seed in self.seeds:
            key = derive("recovery", seed, self.d, self.alpha)
            problem = random_problem(self.N, self.d, key=key, embeddings=self.embeddings)
            found = recover(
                problem, p, self.optimiser, steps=self.steps, lr=self.lr, residual=self.residual, batch=self.batch,
                key=derive("recovery batches", seed, self.d, self.alpha, self.batch),
            )  # fmt: skip
            recalled.append(found.recalled.sum(axis=1).tolist())
            seen.append(found.seen.tolist())
        return {"recalled": recalled, "seen": seen}


@dataclass(frozen=True, kw_only=True)
class PredictedRecovery(PowerLawCell):
    """The same by `theory.recovery`: of Muon on thresholded gradients after each step, where all items are there at
    each step; after one step alone, also of SGD, where batches are drawn."""

    kind: ClassVar[str] = "predicted-recovery"

    @property
    def needed(self) -> Parts:
        return {f"d={self.d}": 8 * (6.0 * self.N + 1e7 * self.steps)}

    @property
    def cost(self) -> float:
        return 0.1 + 0.4 * (self.steps - 1)

    def run(self) -> Result:
        p = theory.power_law(self.N, self.alpha)
        items = theory.Weights.of(p)
        drawn = items.drawn(self.batch) if self.batch else items
        first = theory.muon_step(drawn, self.d, self.N)
        later = theory.muon_steps(p, self.d, self.steps)[1:] if not self.batch and self.steps > 1 else []
        return {
            "muon": [first, *later], "sgd": [theory.sgd_step(drawn, self.d, self.N)],
            "seen": theory.seen(p, self.batch) if self.batch else float(self.N),
        }  # fmt: skip


@dataclass(frozen=True)
class Grid:
    """Dimensions, powers and batches."""

    d: Counts = (24, 32, 48, 64, 96)
    alphas: Annotated[tuple[float, ...], Each(Alpha, distinct=True)] = (2.0, 1.5)
    others_d: Counts = (24, 32, 48, 64)  # for what is beside Muon, at the first alpha
    far_d: Counts = (256, 1024)  # predicted alone
    seeds: Seeds = SEEDS
    steps: Count = 3
    many: Seeds = MANY  # where few items are recalled, or few are in a batch
    small: Count = 48  # the largest d at which few items are recalled
    batch_d: Count = 64
    batches: Counts = (16, 32, 64, 128, 256, 512, 1024, 4096, 16384, 262144)


PRESETS = {
    "smoke": Grid(d=(20, 24, 32), others_d=(20, 24, 32), far_d=(48,), seeds=(0, 1), many=(0, 1), steps=2, batch_d=16,
                  batches=(16, 64, 256, 4096)),
    "quick": Grid(),
    "paper": Grid(d=(24, 32, 48, 64, 96, 128, 192), others_d=(24, 32, 48, 64, 96, 128), far_d=(512, 2048),
                  seeds=fresh_seeds("paper", 6), many=fresh_seeds("paper", 24), batch_d=96),
}  # fmt: skip


def law_cells(grid: Grid) -> list[Cell]:
    """Muon, both gradients, and what is predicted."""
    found: list[Cell] = []
    for alpha in grid.alphas:
        for d in grid.d:
            seeds = grid.many if d <= grid.small else grid.seeds
            found += [Recovery.of(grid, d=d, alpha=alpha, residual=residual, seeds=seeds) for residual in RESIDUALS]
        found += [PredictedRecovery.of(grid, d=d, alpha=alpha) for d in (*grid.d, *grid.far_d)]
    return found


def other_cells(grid: Grid) -> list[Cell]:
    """Of sign descent and SGD many seeds. Of Adam, for which there is no law, some."""
    seeds = {SIGN: grid.many, SGD: grid.many, ADAM: grid.seeds}
    sizes = [(name, d) for name in seeds for d in grid.others_d]
    return [Recovery.of(grid, d=d, alpha=grid.alphas[0], optimiser=name, seeds=seeds[name]) for name, d in sizes]


def batch_cells(grid: Grid) -> list[Cell]:
    """One step from a batch of each size, and from all there is."""
    found: list[Cell] = []
    at: dict[str, Any] = {"d": grid.batch_d, "steps": 1, "seeds": grid.many}
    for alpha in grid.alphas:
        for batch in (*grid.batches, 0):
            found += [Recovery.of(grid, **at, alpha=alpha, batch=batch, optimiser=name) for name in (MUON, SGD)]
            found.append(PredictedRecovery(d=grid.batch_d, steps=1, alpha=alpha, batch=batch))
    return found


def cells(grid: Grid) -> list[Cell]:
    return list(dict.fromkeys([*law_cells(grid), *other_cells(grid), *batch_cells(grid)]))


def measured(rows: Sequence[Values], **at: Any) -> list[Values]:
    """A row for each seed, of those that were measured there, by d."""
    ours = [r for r in rows if r["kind"] == Recovery.kind and all(r[name] == value for name, value in at.items())]
    ours.sort(key=lambda r: (r["d"], r["batch"]))
    each: list[Values] = [
        {**r, "seed": seed, "recalled": recalled, "seen": seen}
        for r in ours for seed, recalled, seen in zip(r["seeds"], r["recalled"], r["seen"], strict=True)
    ]  # fmt: skip
    return each


def predicted(rows: Sequence[Values]) -> dict[tuple[int, float, int, int], Values]:
    """What theory says, by (d, alpha, steps, batch)."""
    ours = (r for r in rows if r["kind"] == PredictedRecovery.kind)
    return {(r["d"], r["alpha"], r["steps"], r["batch"]): r for r in ours}


def stated(row: Values) -> tuple[int, float, int, int]:
    return row["d"], row["alpha"], row["steps"], row["batch"]


def by_step(rows: Sequence[Values], t: int, **at: Any) -> list[tuple[int, float]]:
    """(d, recalled) after t steps on all of the data. Where a size has more seeds than another, means of some of them,
    so that each size has as many points: logarithms of few items, each by itself, would have too low a mean."""
    ours = [r for r in measured(rows, batch=0, **at) if r["steps"] >= t and r["steps"] > 1]
    sizes = [[r["recalled"][t - 1] for r in group] for group in grouped(ours, itemgetter("d")).values()]
    each = min(map(len, sizes), default=0)
    return [
        (d, fmean(recalled[i::each]))
        for d, recalled in zip(sorted({r["d"] for r in ours}), sizes, strict=True) for i in range(each)
    ]  # fmt: skip


def fits(rows: Sequence[Values]) -> list[Fit]:
    result: list[Fit] = []
    for (optimiser, residual), words in WORDS.items():
        for alpha in sorted({r["alpha"] for r in rows}):
            for t in range(1, 1 + max(r["steps"] for r in rows)):
                points = by_step(rows, t, alpha=alpha, optimiser=optimiser, residual=residual)
                name = f"{words}, alpha = {alpha:g}: recalled after {t} steps in d"
                result += exponent(name, *zip(*points, strict=True)) if points else []
    return result


def says(rows: Sequence[Values]) -> list[str]:
    """The law beside the exponents that theory gives between neighbouring sizes."""
    lines = []
    for alpha, group in grouped([r for r in predicted(rows).values() if not r["batch"]], itemgetter("alpha")).items():
        group = sorted((r for r in group if r["steps"] > 1), key=lambda r: r["d"])
        for t in range(1, 1 + max((r["steps"] for r in group), default=0)):
            moving = [
                f"{math.log(b['muon'][t - 1] / a['muon'][t - 1]) / math.log(b['d'] / a['d']):.2f} at "
                f"{math.sqrt(a['d'] * b['d']):.0f}"
                for a, b in pairwise(group)
            ]
            law = theory.exponent(MUON, alpha, t)
            lines.append(f"Muon, alpha = {alpha:g}, t = {t}: law {law:.3f}, predicted by d: {', '.join(moving)}")
    return lines


def plot(rows: Sequence[Values]) -> "style.Canvas":
    alphas = sorted({r["alpha"] for r in rows}, reverse=True)
    even = len(alphas) + len(alphas) % 2
    canvas, panes = style.panels(even + 2, width=5.6, height=4.6, rows=(even + 2) // 2)
    for axes, alpha in zip(panes, alphas, strict=False):
        _by_dimension(axes, rows, alpha)
    _others(panes[-2], rows, alphas[0])
    _by_batch(panes[-1], rows, alphas)
    return canvas


def _means(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    return [(x, fmean(y for at, y in points if at == x)) for x in sorted({x for x, _ in points})]


def _by_dimension(axes: "style.Axes", rows: Sequence[Values], alpha: float) -> None:
    """Muon: filled on thresholded gradients, open on the whole loss; lines as theory has the first."""
    expected = [r for (_, a, steps, batch), r in predicted(rows).items() if a == alpha and not batch and steps > 1]
    expected.sort(key=lambda r: r["d"])
    for t in range(1, 1 + max((r["steps"] for r in expected), default=0)):
        colour = style.COLOURS[t - 1]
        law = theory.exponent(MUON, alpha, t)
        for residual, face in ((THRESHOLD, colour), (SOFTMAX, "white")):
            points = _means(by_step(rows, t, alpha=alpha, optimiser=MUON, residual=residual))
            label = f"t = {t}: law $d^{{{law:.2f}}}$" if residual == THRESHOLD else ""
            style.points(axes, points, t - 1, linestyle="none", markerfacecolor=face, label=label, zorder=4)
        style.guide(axes, [r["d"] for r in expected], [r["muon"][t - 1] for r in expected], "", color=colour)
        if expected:
            last = expected[-1]
            style.guide(
                axes, [last["d"] / 8, last["d"]], [last["muon"][t - 1] * 8**-law, last["muon"][t - 1]], "",
                color=colour, linestyle=":",
            )  # fmt: skip
    style.guide(axes, [], [], "predicted (dotted: the law's slope)")
    axes.plot([], [], linestyle="none", marker="o", color="#777777", label="thresholded gradients")
    axes.plot([], [], linestyle="none", marker="o", color="#777777", markerfacecolor="white", label="the whole loss")
    style.loglog(axes, rf"Muon after t steps, $\alpha$ = {alpha:g}", "d, dimension of the embeddings", "items recalled")
    style.doubling(axes)
    style.legend(axes)


def _others(axes: "style.Axes", rows: Sequence[Values], alpha: float) -> None:
    last = max(r["steps"] for r in rows)
    for i, ((optimiser, residual), words) in enumerate(WORDS.items()):
        if residual != SOFTMAX:
            continue
        for t, look in ((1, {"markerfacecolor": "white", "linestyle": ":"}), (last, {})):
            points = _means(by_step(rows, t, alpha=alpha, optimiser=optimiser, residual=residual))
            style.points(axes, points, i, label=f"{words}, t = {t}", **look)
    style.loglog(axes, rf"by optimiser, $\alpha$ = {alpha:g}", "d, dimension of the embeddings", "items recalled")
    style.doubling(axes)
    style.legend(axes)


def _by_batch(axes: "style.Axes", rows: Sequence[Values], alphas: Sequence[float]) -> None:
    said = [r for (*_, steps, batch), r in predicted(rows).items() if batch and steps == 1]
    for i, alpha in enumerate(alphas):
        ours = sorted((r for r in said if r["alpha"] == alpha), key=lambda r: r["batch"])
        for j, name in enumerate((MUON, SGD)):
            found = [r for r in measured(rows, alpha=alpha, optimiser=name, steps=1) if r["batch"]]
            points = _means([(r["batch"], r["recalled"][0]) for r in found])
            label = rf"{WORDS[name, SOFTMAX]}, $\alpha$ = {alpha:g}"
            style.points(axes, points, 2 * i + j, linestyle="none", label=label)
            colour = style.COLOURS[2 * i + j]
            style.guide(axes, [r["batch"] for r in ours], [r[name][0] for r in ours], "", color=colour)
        style.guide(axes, [r["batch"] for r in ours], [r["seen"] for r in ours], "", linestyle=":", color="black")
    style.guide(axes, [], [], "predicted")
    style.guide(axes, [], [], r"items seen, about $B^{1/\alpha}$", linestyle=":", color="black")
    d = said[0]["d"] if said else ""
    style.loglog(axes, f"one step from a batch, d = {d}", "B, items in the batch", "items recalled")
    axes.xaxis.set_major_locator(_decades())
    style.legend(axes)


def _decades() -> Any:
    from matplotlib.ticker import LogLocator

    return LogLocator(base=10)


FIGURE = Figure(
    "recovery", "How many items a few steps recall", "arXiv 2603.26554",
    "A linear memory of N = d^2 items with p(z) ~ z^-alpha and embeddings N(0, 1/d), from zero, steps of one length on "
    "the cross entropy. First panels: Muon (exact polar factors) after t steps, on the gradient and on the thresholded "
    "one; dashed, what theory has for the second at this size, nothing fitted; dotted, the law d^(2 - (1 - "
    "1/(2 alpha))^t) as a slope. Then other optimisers; and one step from a batch of B items.",
    PRESETS, cells, plot, fits, says,
)  # fmt: skip

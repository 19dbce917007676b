"""Scaling laws: the loss of memories and transformers that are too small for a power law, against their bits, and the
exponents that are expected."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from statistics import fmean, geometric_mean
from typing import Any, NamedTuple

import numpy as np

from facthold.lab import Cell, Figure, Values, style
from facthold.lab.fields import Count, Counts, Pairs, Positive, ProtocolName, Repeats
from facthold.measure.scaling import Fit, fit_exponent
from facthold.recipes import memory_recipe
from facthold.recipes.base import LINEAR
from facthold.studies.judging import grouped
from facthold.studies.zipf.losses import MemoryLoss, ZipfFacts, methods, waste
from facthold.theory.bounds import guide, guide_constant
from facthold.theory.limits import Frequencies, least_loss, power_law
from facthold.theory.limits_facts import product_law

FACTS, TAUGHT = "transformer", "transformer, most frequent facts"  # trained by p(s, r), or on these equally often


@dataclass(frozen=True)
class Grid:
    """Sizes of the memories and of the transformers, and the power laws."""

    linear_d: Counts
    mlp_sizes: Pairs  # (d, m)
    alphas: tuple[float, ...]
    M: Count
    N: Count
    transformer_d: Counts
    laws: tuple[tuple[float, float], ...]  # (alpha_s, alpha_r); 0 is uniform
    S: Count
    R: Count = 8
    D: Count = 8
    H: Count = 2
    protocol: ProtocolName = "transformer-short"
    memory_steps: Count = 2048
    steps: Count = 4096
    lrs: tuple[float, ...] = (2e-2,)
    taught: tuple[tuple[float, float], ...] = ((1.5, 0.0),)  # laws for which the most frequent facts are taught too
    share: Positive = 0.05  # so many of them per parameter
    n_seeds: Repeats = 3
    transformer_seeds: Count = 3


PRESETS = {
    "smoke": Grid(linear_d=(4, 6, 8), mlp_sizes=((4, 8),), alphas=(1.5,), M=32, N=10_000,
                  transformer_d=(4,), laws=((1.5, 0.0),), S=512, R=4, D=4, protocol="transformer-smoke",
                  memory_steps=64, steps=64, taught=(), n_seeds=4, transformer_seeds=3),
    # M above d: of a linear memory with fewer outputs than dimensions only M d weights would count.
    "quick": Grid(linear_d=(8, 12, 16, 24, 32, 48), mlp_sizes=((8, 16), (11, 22), (16, 32), (22, 44), (32, 64)),
                  alphas=(1.2, 1.5, 2.0), M=128, N=1_000_000, transformer_d=(4, 6, 8, 12, 16),
                  laws=((1.2, 0.0), (1.5, 0.0), (1.5, 1.0)), S=1024),
    "paper": Grid(linear_d=(8, 12, 16, 24, 32, 48, 64, 96), alphas=(1.2, 1.5, 2.0), M=256, N=10_000_000,
                  mlp_sizes=((8, 16), (11, 22), (16, 32), (22, 44), (32, 64), (45, 90)), memory_steps=16384,
                  transformer_d=(4, 6, 8, 12, 16, 24, 32), laws=((1.2, 0.0), (1.5, 0.0), (1.5, 1.0)), S=4096,
                  protocol="transformer-code", steps=32768, lrs=(3e-3, 1e-2), n_seeds=5, transformer_seeds=5),
}  # fmt: skip


def cells(grid: Grid) -> list[Cell]:
    linear = [(d, 0) for d in grid.linear_d]
    memories = [
        MemoryLoss.of(grid, method=name, d=d, m=m, steps=grid.memory_steps)
        for name in methods()
        for d, m in (linear if memory_recipe(name).family == LINEAR else grid.mlp_sizes)
    ]
    transformers = [
        ZipfFacts.of(  # H d_h = d and m = 4 d: alpha = 1, beta = 4
            grid, d=d, d_h=d // grid.H, m=4 * d, alpha_s=alpha_s, alpha_r=alpha_r, taught=taught,
            seeds=tuple(range(grid.transformer_seeds)),
        )
        for taught, laws in ((0.0, grid.laws), (grid.share, grid.taught))
        for alpha_s, alpha_r in laws
        for d in grid.transformer_d
    ]  # fmt: skip
    return [*memories, *transformers]


def models() -> list[str]:
    """Names of all curves, memories first."""
    return [*methods(), FACTS, TAUGHT]


class Law(NamedTuple):
    """How often each association or fact is asked for, and what a wrong answer costs."""

    text: str
    exponent: float  # of corollary 1: 1 - alpha
    p: Frequencies
    outputs: int  # M, or D: an answer that is not known costs its logarithm


class Curve(NamedTuple):
    """Losses of one kind of model under one law, of one size or of several."""

    name: str
    law: Law
    other: str  # a second loss: of a memory if it answers everything itself, of a transformer over all answers
    seeds: list[dict[str, Any]]  # what each seed gave at each size, without training that diverged

    def all(self, name: str) -> list[float]:
        return [seed[name] for seed in self.seeds]

    @property
    def is_memory(self) -> bool:
        return self.name not in (FACTS, TAUGHT)

    @property
    def has_slope(self) -> bool:
        return len(set(self.all("n_params"))) > 2

    @property
    def slope(self) -> Fit:
        """The measured exponent of the loss in the bits."""
        return self._exponent("loss in bits of the model", self.all("loss"))

    def expected_slope(self, *, logarithm: bool) -> Fit:
        """The exponent of `expected` at the measured bits, for the true N: a finite tail bends a power law."""
        law = "B = c k ln k" if logarithm else "B = c k"
        return self._exponent(f"expected for {law}", self.expected(logarithm=logarithm))

    def expected(self, *, logarithm: bool) -> list[float]:
        """The loss at each of these bits of a memory of the measured level: the slope is predicted, the level is not.

        It stores the k most frequent associations with the same bits for each (B = c k) or, as theorem 1's margins
        need it for ever smaller losses, with bits that grow with the logarithm (B = c k ln k).
        """
        p, outputs, bits = self.law.p, self.law.outputs, self.all("bits")
        wasted = [waste(B, loss, outputs, p) for B, loss in zip(bits, self.all("loss"), strict=True)]
        if not logarithm:
            level = geometric_mean(wasted)
            return [least_loss(B / level, outputs, p) for B in bits]
        of_one = math.log2(outputs)
        k = [max(math.e, B / w / of_one) for B, w in zip(bits, wasted, strict=True)]
        c = geometric_mean([guide_constant(n, B) for n, B in zip(k, bits, strict=True)])
        return [least_loss(of_one * guide(B, c), outputs, p) for B in bits]

    @property
    def wastes(self) -> list[float]:
        """Bits used over the bits that the bound asks for, at each size: geometric means over seeds."""
        sizes = grouped(self.seeds, itemgetter("n_params")).values()
        return [geometric_mean([waste(s["bits"], s["loss"], self.law.outputs, self.law.p) for s in z]) for z in sizes]

    def _exponent(self, what: str, loss: list[float]) -> Fit:
        return fit_exponent(f"{self.name}, {self.law.text}: {what}", self.all("bits"), loss)


def measured(row: Values) -> Iterator[Curve]:
    """What a row has, law by law."""
    if "curves" in row:
        for curve in row["curves"]:
            a = curve["alpha"]
            law = Law(f"alpha={a:g}", 1 - a, power_law(row["N"], a), row["M"])
            yield Curve(row["method"], law, "uncut", curve["per_seed"])
    else:
        a, b = row["alpha_s"], row["alpha_r"]
        law = Law(f"alpha_s={a:g} alpha_r={b:g}", 1 - a, product_law(row["S"], row["R"], a, b), row["D"])
        sound = [seed for seed in row["per_seed"] if seed["loss"] is not None]
        yield Curve(TAUGHT if row["taught"] else FACTS, law, "answers", sound)


def curves(rows: Sequence[Values]) -> list[Curve]:
    """All that was measured: memories first, by law and then by model, points by size."""
    found: dict[tuple[str, str], Curve] = {}
    for row in sorted(rows, key=lambda row: row["n_params"]):
        for one in measured(row):
            curve = found.setdefault((one.name, one.law.text), one._replace(seeds=[]))
            curve.seeds.extend(seed | {"n_params": row["n_params"]} for seed in one.seeds)
    order = models()
    ordered = sorted(found.values(), key=lambda c: (not c.is_memory, -c.law.exponent, c.law.text, order.index(c.name)))
    return [curve for curve in ordered if curve.seeds]


def fits(rows: Sequence[Values]) -> list[Fit]:
    """Measured exponents; after each that of constant waste, and for memories that of a logarithmic one."""
    result = []
    for curve in (curve for curve in curves(rows) if curve.has_slope):
        result += [curve.slope, curve.expected_slope(logarithm=False)]
        result += [curve.expected_slope(logarithm=True)] if curve.is_memory else []
    return result


def says(rows: Sequence[Values]) -> list[str]:
    """Of each curve the exponent beside the one at constant waste, and how the waste moves with the size."""
    lines = []
    for curve in (curve for curve in curves(rows) if curve.has_slope):
        slope, constant = curve.slope, curve.expected_slope(logarithm=False)
        wastes = ", ".join(f"{w:.3g}" for w in curve.wastes)
        lines.append(
            f"{curve.law.text}, {curve.name}: exponent {slope.slope:.3f} "
            f"[{slope.interval[0]:.3f}, {slope.interval[1]:.3f}], at constant waste {constant.slope:.3f}; "
            f"waste from the smallest to the largest {wastes}"
        )
    return lines


def plot(rows: Sequence[Values]) -> "style.Canvas":
    found = curves(rows)
    by_kind = [sorted({c.law.text for c in found if c.is_memory == memory}) for memory in (True, False)]
    width = max(1, *map(len, by_kind))
    canvas, axes = style.panels(2 * width, rows=2)
    for row, laws in enumerate(by_kind):
        for ax, law in zip(axes[row * width :], laws, strict=False):
            _panel(ax, [c for c in found if c.law.text == law])
        for ax in axes[row * width + len(laws) : (row + 1) * width]:
            ax.set_axis_off()
    return canvas


def _panel(axes: "style.Axes", found: Sequence[Curve]) -> None:
    """The curves of one law, which are all of memories or all of transformers."""
    memory = found[0].is_memory
    beside = "the same, answering all inputs" if memory else "over all answers, blocks not known"
    title = "Memories, $p(x)$: " if memory else "Transformers, $p(s, r)$: "
    law = re.sub(r"alpha(_[sr])?", r"$\\alpha\1$", found[0].law.text)
    style.loglog(axes, title + law, "bits of the model", "loss (bits)")
    for i, curve in enumerate(found):
        look = style.mark(models().index(curve.name))
        sizes = grouped(curve.seeds, itemgetter("n_params")).values()
        bits = [geometric_mean([seed["bits"] for seed in size]) for size in sizes]
        loss, other = ([fmean(seed[name] for seed in size) for size in sizes] for name in ("loss", curve.other))
        label = f"exponent {curve.slope.slope:.2f}" if curve.has_slope else "measured"
        axes.plot(curve.all("bits"), curve.all("loss"), markersize=3, alpha=0.45, linestyle="none", **look)
        axes.plot(bits, loss, markersize=5, linewidth=1, label=f"{curve.name}: {label}", **look)
        axes.plot(bits, other, markersize=3, linewidth=0.8, linestyle=":", label=None if i else beside, **look)
    _, exponent, p, outputs = found[0].law
    bits = [B for c in found for B in c.all("bits")]
    line = np.geomspace(min(bits) / 2, max(bits), 80)
    least = np.array([least_loss(B, outputs, p) for B in line])
    if (known := least > 0).any():
        axes.plot(line[known], least[known], color="black", linewidth=1.6, label="theorem 7: no model is below")
        along = least[0] * (line / line[0]) ** exponent
        style.guide(axes, line, along, rf"slope $1-\alpha={exponent:.2g}$ (corollary 1)")
        axes.set_ylim(bottom=float(along.min()) / 4)
    style.legend(axes)


FIGURE = Figure(
    "zipf", "Scaling laws: loss against bits where frequencies are power laws",
    "corollary 1; beyond the paper: its discussion's question about factual recall",
    "Models that are too small for all that they are asked. Above: memories of uniformly random maps to M outputs, "
    "p(x) ~ x^-alpha; each stores the most frequent associations and says 1/M for the others (dotted: it answers all "
    "inputs itself). Below: trained transformers, p(s, r) ~ s^-alpha_s r^-alpha_r; the loss is over the D answers of "
    "the asked relation (dotted: over all R D answers). Weights are rounded to as many bits as leave the model nearest "
    "to theorem 7; scales and choices count too. Black: theorem 7 with p sorted, exact at these sizes. Dashed: the "
    "slope of corollary 1 from the smallest model's bits on. Small points: seeds.",
    PRESETS, cells, plot, fits, says=says,
    sees="Losses fall as a power of the bits, as theorem 7's line does, some factor of bits to the right of it.",
)  # fmt: skip

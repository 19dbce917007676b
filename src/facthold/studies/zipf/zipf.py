"""Scaling laws: the loss of memories and transformers that are too small for a power law, against their bits."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, geometric_mean
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from facthold.lab import style
from facthold.lab.cells import Cell
from facthold.lab.figure import Figure, Values
from facthold.measure.scaling import Fit, fit_exponent
from facthold.studies.zipf.memory_loss import METHODS, MemoryLoss
from facthold.studies.zipf.zipf_facts import ZipfFacts
from facthold.theory.bounds import guide, guide_constant
from facthold.theory.limits import Frequencies, bits_for_loss, least_loss, power_law
from facthold.theory.limits_zipf import product_law

FACTS, TAUGHT = "transformer", "transformer, most frequent facts"
"""Names of curves: trained on all facts by p(s, r), and on the most frequent ones, each as often."""
MODELS = (*METHODS, FACTS, TAUGHT)


@dataclass(frozen=True)
class Grid:
    """Sizes of the memories and of the transformers, and the power laws."""

    linear_d: tuple[int, ...]
    mlp_sizes: tuple[tuple[int, int], ...]
    """Pairs (d, m)."""
    alphas: tuple[float, ...]
    M: int
    N: int
    transformer_d: tuple[int, ...]
    laws: tuple[tuple[float, float], ...]
    """(alpha_s, alpha_r); 0 is uniform."""
    S: int
    R: int = 8
    D: int = 8
    H: int = 2
    protocol: str = "transformer-short"
    memory_steps: int = 2048
    steps: int = 4096
    lrs: tuple[float, ...] = (2e-2,)
    taught: tuple[tuple[float, float], ...] = ((1.5, 0.0),)
    """Laws for which transformers are also taught the most frequent facts alone."""
    share: float = 0.05
    """So many of them a parameter."""
    n_seeds: int = 3
    transformer_seeds: int = 2


PRESETS = {
    "smoke": Grid(linear_d=(4, 6, 8), mlp_sizes=((4, 8),), alphas=(1.5,), M=32, N=10_000,
                  transformer_d=(4,), laws=((1.5, 0.0),), S=512, R=4, D=4, protocol="transformer-smoke",
                  memory_steps=64, steps=64, taught=(), n_seeds=2, transformer_seeds=1),
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
    return [*memory_cells(grid), *transformer_cells(grid)]


def memory_cells(grid: Grid) -> list[Cell]:
    found: list[Cell] = []
    for name in METHODS:
        linear = name in ("outer-product", "weighted-convex")
        for d, m in [(d, 0) for d in grid.linear_d] if linear else grid.mlp_sizes:
            found.append(
                MemoryLoss(
                    method=name, d=d, m=m, M=grid.M, N=grid.N, alphas=grid.alphas, steps=grid.memory_steps,
                    seeds=tuple(range(grid.n_seeds)),
                )
            )  # fmt: skip
    return found


def transformer_cells(grid: Grid) -> list[Cell]:
    """H d_h = d and m = 4 d: alpha = 1, beta = 4."""
    return [
        ZipfFacts(
            d=d, H=grid.H, d_h=d // grid.H, m=4 * d, S=grid.S, R=grid.R, D=grid.D, alpha_s=alpha_s, alpha_r=alpha_r,
            taught=taught, protocol=grid.protocol, steps=grid.steps, lrs=grid.lrs,
            seeds=tuple(range(grid.transformer_seeds)),
        )
        for taught, laws in ((0.0, grid.laws), (grid.share, grid.taught))
        for alpha_s, alpha_r in laws
        for d in grid.transformer_d
    ]  # fmt: skip


class Curve(NamedTuple):
    """Losses of one kind of model under one law, one point a size and seed."""

    name: str
    law: str
    exponent: float
    """Of corollary 1: 1 - alpha."""
    p: Frequencies
    outputs: int
    """M, or D: an answer that is not known costs its logarithm."""
    sizes: list[float]
    bits: list[float]
    loss: list[float]
    other: list[float]
    """Beside it: of a memory what it loses if it answers everything itself, of a transformer over all answers."""

    @property
    def waste(self) -> list[float]:
        """Bits used over the least bits for the loss."""
        pairs = zip(self.bits, self.loss, strict=True)
        return [B / max(1.0, bits_for_loss(loss, self.outputs, self.p)) for B, loss in pairs]


def curves(rows: Sequence[Values]) -> list[Curve]:
    """All that was measured, memories first; a model that diverged has no point."""
    return [*memory_curves(rows), *transformer_curves(rows)]


def memory_curves(rows: Sequence[Values]) -> list[Curve]:
    ours = sorted((r for r in rows if "curves" in r), key=lambda r: r["n_params"])
    found = []
    for alpha in sorted({c["alpha"] for r in ours for c in r["curves"]}):
        for name in METHODS:
            points = [
                (r["n_params"], one) for r in ours if r["method"] == name
                for c in r["curves"] if c["alpha"] == alpha for one in c["per_seed"]
            ]  # fmt: skip
            if points:
                first = next(r for r in ours if r["method"] == name)
                law = power_law(first["N"], alpha)
                found.append(_curve(name, f"alpha={alpha:g}", 1 - alpha, law, first["M"], points, "uncut"))
    return found


def transformer_curves(rows: Sequence[Values]) -> list[Curve]:
    ours = sorted((r for r in rows if "alpha_s" in r), key=lambda r: r["n_params"])
    found = []
    for alpha_s, alpha_r, taught in sorted({(r["alpha_s"], r["alpha_r"], r["taught"]) for r in ours}):
        these = [r for r in ours if (r["alpha_s"], r["alpha_r"], r["taught"]) == (alpha_s, alpha_r, taught)]
        points = [(r["n_params"], one) for r in these for one in r["per_seed"] if one["loss"] is not None]
        if points:
            law = product_law(these[0]["S"], these[0]["R"], alpha_s, alpha_r)
            name, text = TAUGHT if taught else FACTS, f"alpha_s={alpha_s:g} alpha_r={alpha_r:g}"
            found.append(_curve(name, text, 1 - alpha_s, law, these[0]["D"], points, "answers"))
    return found


def _curve(name: str, law: str, exponent: float, p: Frequencies, outputs: int, points: Sequence, other: str) -> Curve:
    columns = [[one[field] for _, one in points] for field in ("bits", "loss", other)]
    return Curve(name, law, exponent, p, outputs, [n for n, _ in points], *columns)


def expected(curve: Curve, logarithm: bool) -> list[float]:
    """What a memory of the measured level would lose at each of these bits: the slope is predicted, the level is not.

    It stores the k most frequent associations at the same bits each (B = c k) or, as theorem 1's margins need it for
    ever smaller losses, at bits that grow with the logarithm (B = c k ln k).
    """
    bits, k = math.log2(curve.outputs), []
    if not logarithm:
        level = geometric_mean(curve.waste)
        return [least_loss(B / level, curve.outputs, curve.p) for B in curve.bits]
    for B, waste in zip(curve.bits, curve.waste, strict=True):
        k.append(max(math.e, B / waste / bits))
    c = geometric_mean([guide_constant(n, B) for n, B in zip(k, curve.bits, strict=True)])
    return [least_loss(bits * guide(B, c), curve.outputs, curve.p) for B in curve.bits]


def plot(rows: Sequence[Values]) -> Canvas:
    found = curves(rows)
    memories = sorted({c.law for c in found if c.name in METHODS})
    facts = sorted({c.law for c in found if c.name not in METHODS})
    width = max(len(memories), len(facts), 1)
    canvas, axes = style.panels(2 * width, rows=2)
    for row, laws in enumerate((memories, facts)):
        for i in range(width):
            ax = axes[row * width + i]
            if i < len(laws):
                _panel(ax, [c for c in found if c.law == laws[i]])
            else:
                ax.set_axis_off()
    return canvas


def _panel(axes: Axes, found: Sequence[Curve]) -> None:
    facts = found[0].name not in METHODS
    law = found[0].law.replace("alpha", r"$\alpha$").replace("$_", "_").replace("_s=", "_s$=").replace("_r=", "_r$=")
    title = ("Transformers, $p(s, r)$: " if facts else "Memories, $p(x)$: ") + law
    style.loglog(axes, title, "bits of the model", "loss (bits)")
    for i, curve in enumerate(found):
        number = MODELS.index(curve.name)
        bits, loss, other = _means(curve)
        colour, marker = style.COLOURS[number], style.MARKERS[number]
        said = f"exponent {slope(curve).slope:.2f}" if len(set(curve.sizes)) > 2 else "measured"
        axes.plot(curve.bits, curve.loss, marker, color=colour, markersize=3, alpha=0.45, linestyle="none")
        axes.plot(bits, loss, color=colour, marker=marker, markersize=5, linewidth=1, label=f"{curve.name}: {said}")
        beside = "over all answers, blocks not known" if facts else "the same, answering all inputs"
        label = beside if i == 0 else None
        axes.plot(bits, other, color=colour, marker=marker, markersize=3, linewidth=0.8, linestyle=":", label=label)
    curve = found[0]
    low, high = min(min(c.bits) for c in found), max(max(c.bits) for c in found)
    line = np.geomspace(low / 2, high, 80)
    least = np.array([least_loss(B, curve.outputs, curve.p) for B in line])
    known = least > 0
    if known.any():
        axes.plot(line[known], least[known], color="black", linewidth=1.6, label="theorem 7: no model is below")
        along = least[0] * (line / line[0]) ** curve.exponent
        style.guide(axes, line, along, rf"slope $1-\alpha={curve.exponent:.2g}$ (corollary 1)")
        axes.set_ylim(bottom=float(along.min()) / 4)
    style.legend(axes)


def _means(curve: Curve) -> tuple[list[float], list[float], list[float]]:
    """Over the seeds of each size, of bits by their geometric mean."""
    sizes = sorted(set(curve.sizes))
    at = [[i for i, n in enumerate(curve.sizes) if n == size] for size in sizes]
    bits = [geometric_mean([curve.bits[i] for i in of]) for of in at]
    return bits, [fmean(curve.loss[i] for i in of) for of in at], [fmean(curve.other[i] for i in of) for of in at]


def slope(curve: Curve) -> Fit:
    """The measured exponent of the loss in the bits."""
    return fit_exponent(f"{curve.name}, {curve.law}: loss in bits of the model", curve.bits, curve.loss)


def fits(rows: Sequence[Values]) -> list[Fit]:
    """Measured exponents; after each that of constant waste, and for memories that of a logarithmic one."""
    result = []
    for curve in curves(rows):
        if len(set(curve.sizes)) < 3:
            continue
        result.append(slope(curve))
        result.append(
            fit_exponent(f"{curve.name}, {curve.law}: expected for B = c k", curve.bits, expected(curve, False))
        )
        if curve.name in METHODS:
            name = f"{curve.name}, {curve.law}: expected for B = c k ln k"
            result.append(fit_exponent(name, curve.bits, expected(curve, True)))
    return result


FIGURE = Figure(
    name="zipf",
    title="Scaling laws: loss against bits where frequencies are power laws",
    place="corollary 1; beyond the paper: its discussion's question about factual recall",
    caption=(
        "Models that are too small for all that they are asked. Above: memories of uniformly random maps to M outputs, "
        "p(x) ~ x^-alpha; each stores the most frequent associations and says 1/M for the others (dotted: it answers "
        "all inputs itself). Below: trained transformers, p(s, r) ~ s^-alpha_s r^-alpha_r; the loss is over the D "
        "answers of the asked relation (dotted: over all R D answers). Weights are rounded to as many bits as leave "
        "the model nearest to theorem 7; scales and choices count too. Black: theorem 7 with p sorted, exact at "
        "these sizes. Dashed: the slope of corollary 1 from the smallest model's bits on. Small points: seeds."
    ),
    presets=PRESETS,
    cells=cells,
    plot=plot,
    fits=fits,
)

"""Figure 6: with 32 outputs the logarithm goes, and N grows as m d."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure as Canvas

from facthold.lab import style
from facthold.lab.cells import Cell
from facthold.lab.figure import Figure, Values
from facthold.measure.scaling import Fit, fit_constant, fit_exponent
from facthold.recipes.methods import method
from facthold.studies.memories.capacity import Capacity
from facthold.studies.memories.fig1 import half_octaves, ratios, sizes
from facthold.theory import bounds


@dataclass(frozen=True)
class Grid:
    """Sizes to search."""

    sizes: tuple[tuple[int, int], ...]
    """Pairs (d, m)."""
    M: int = 32
    map: str = "floor"
    """'floor' as in the authors' code; 'mod' as in the text."""
    n_seeds: int = 5
    tolerance: float = 0.01
    method: str = "train:mlp-code"


PRESETS = {
    "smoke": Grid(sizes=((6, 6), (8, 8), (6, 12)), n_seeds=2, tolerance=0.1),
    "quick": Grid(sizes=((11, 11), (16, 16), (22, 22), (8, 32), (11, 44)), tolerance=0.04),
    "paper": Grid(sizes=sizes(half_octaves(3.0, 6.5), (1, 2, 4, 8))),
}


def cells(grid: Grid) -> list[Cell]:
    """The search starts from this figure's own guide line, given as a multiple of the method's guess."""
    guess = method(grid.method).guess
    return [
        Capacity(
            method=grid.method, d=d, m=m, map=grid.map, M=grid.M, seeds=tuple(range(grid.n_seeds)),
            tolerance=grid.tolerance, start=round(bounds.guide_mlp_fixed(m, d) / guess(d, m), 3),
        )
        for d, m in grid.sizes
    ]  # fmt: skip


def plot(rows: Sequence[Values]) -> Canvas:
    canvas, (axes,) = style.panels(1)
    outputs = "; ".join(sorted({f"{r['M']} outputs, {r['map']}" for r in rows}))
    style.loglog(axes, f"MLP associative memory, {outputs} ({style.protocols(rows)})", "$m d$", "$N$")
    for i, ratio in enumerate(ratios(rows)):
        ours = [r for r in rows if r["m"] == ratio * r["d"]]
        style.series(axes, [r["m"] * r["d"] for r in ours], ours, f"$m/d={ratio:g}$", i)
    size = [r["m"] * r["d"] for r in rows]
    x = np.array([min(size), max(size)])
    style.guide(axes, x, x / bounds.MLP_FIXED_CONSTANT, rf"${bounds.MLP_FIXED_CONSTANT}\,N = m d$ (authors)")
    style.legend(axes)
    return canvas


def fits(rows: Sequence[Values]) -> list[Fit]:
    found = [r for r in rows if r["N"] is not None]
    size, N = [r["m"] * r["d"] for r in found], [r["N"] for r in found]
    exponent = [fit_exponent("mlp, fixed outputs: N = m d / c, exponent", size, N)] if len(set(size)) > 2 else []
    return [
        *exponent,
        *([fit_constant("mlp, fixed outputs: N = m d / c, c", N, size)] if len(found) > 1 else []),
    ]


FIGURE = Figure(
    name="fig6",
    title="Capacity of trained MLP memories with a fixed number of outputs",
    place="figure 6",
    caption="The largest N that is recalled at 99% when N inputs share 32 outputs, against m d.",
    presets=PRESETS,
    cells=cells,
    plot=plot,
    fits=fits,
)

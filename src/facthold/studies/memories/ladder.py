"""The ladder: what each way to fill a memory stores at the same parameters, with the information bound above."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure as Canvas

from facthold.lab import style
from facthold.lab.cells import Cell
from facthold.lab.figure import Figure, Values
from facthold.measure.scaling import Fit, fit_constant, fit_exponent
from facthold.recipes.methods import LINEAR, LOW_RANK, METHODS
from facthold.studies.memories import fig1
from facthold.studies.memories.capacity import Capacity
from facthold.theory import bounds

BITS = (2, 32)
"""Bits a parameter of the two bounds that are drawn: float32, and what large language models are seen to use."""


@dataclass(frozen=True)
class Grid:
    """Sizes, by kind of method. m = ratio d for MLPs; m = d / 2 for low rank."""

    closed_d: tuple[int, ...]
    solved_d: tuple[int, ...]
    trained_linear_d: tuple[int, ...]
    trained_mlp_d: tuple[int, ...]
    ratio: int = 4
    n_seeds: int = 5
    tolerance: float = 0.02


_quick = fig1.PRESETS["quick"]
_paper = fig1.PRESETS["paper"]
PRESETS = {
    "smoke": Grid(closed_d=(16, 22, 32), solved_d=(6, 8, 11), trained_linear_d=(8, 11, 16), trained_mlp_d=(6, 8),
                  ratio=2, n_seeds=2, tolerance=0.1),
    # The trained memories are those of figure 1: the same cells, computed once.
    "quick": Grid(closed_d=(22, 32, 45, 64), solved_d=(11, 16, 22), trained_linear_d=_quick.linear_d,
                  trained_mlp_d=(8, 11, 16), tolerance=_quick.tolerance),
    "paper": Grid(closed_d=(32, 45, 64, 90, 128, 181), solved_d=(11, 16, 22, 32, 45),
                  trained_linear_d=_paper.linear_d, trained_mlp_d=fig1.half_octaves(3.0, 6.5),
                  tolerance=_paper.tolerance),
}  # fmt: skip


def cells(grid: Grid) -> list[Cell]:
    def capacity(method: str, d: int) -> Capacity:
        family = METHODS[method].family
        m = 0 if family == LINEAR else d // 2 if family == LOW_RANK else grid.ratio * d
        return Capacity(method=method, d=d, m=m, seeds=tuple(range(grid.n_seeds)), tolerance=grid.tolerance)

    # Solvers are dearer, and closed forms store too little at small sizes: each has its own sizes.
    result = [
        capacity(name, d)
        for name, way in METHODS.items()
        if way.build is not None
        for d in (grid.solved_d if way.solved else grid.closed_d)
    ]
    result += [capacity("train:linear-code", d) for d in grid.trained_linear_d]
    return [*result, *(capacity("train:mlp-code", d) for d in grid.trained_mlp_d)]


def plot(rows: Sequence[Values]) -> Canvas:
    canvas, (axes,) = style.panels(1, width=8.6, height=6.0)
    style.loglog(axes, "Associations stored at 99% recall, $f^*(x)=x$", "parameters", "$N$")
    for i, name in enumerate(by_capacity(rows)):
        ours = [r for r in rows if r["method"] == name]
        style.series(axes, [r["n_params"] for r in ours], ours, f"{name} ({METHODS[name].place})", i, line=True)
    x = np.geomspace(min(r["n_params"] for r in rows), max(r["n_params"] for r in rows), 40)
    for bits, dashes in zip(BITS, (":", "--"), strict=True):
        permutations = [bounds.capacity_in_bits(lambda N: bounds.bits_injective(N, N), bits * p) for p in x]
        random_maps = [bounds.capacity_in_bits(lambda N: bounds.bits_uniform(N, N), bits * p) for p in x]
        budget = f"{bits} bits a parameter"
        axes.plot(
            x, permutations, color="black", linestyle=dashes, linewidth=1, label=rf"bound: $\log_2 N! =$ {budget}"
        )
        axes.plot(x, random_maps, color="#888888", linestyle=dashes, linewidth=1, label=rf"$N\log_2 N =$ {budget}")
    axes.legend(frameon=False, fontsize=7.5, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return canvas


def fits(rows: Sequence[Values]) -> list[Fit]:
    """Facts a parameter for each rung (geometric mean over sizes), and how N ln N grows with the parameters."""
    result = []
    for name in by_capacity(rows):
        ours = [r for r in rows if r["method"] == name and r["N"] is not None]
        size, N = [r["n_params"] for r in ours], [r["N"] for r in ours]
        if len(ours) > 1:
            result.append(fit_constant(f"{name}: facts a parameter", size, N))
        if len(set(size)) > 2:
            result.append(fit_exponent(f"{name}: N ln N, exponent", size, [n * np.log(max(n, 2)) for n in N]))
    return result


def by_capacity(rows: Sequence[Values]) -> list[str]:
    """The methods, by facts a parameter at their largest size: the lowest rung first."""
    names = {r["method"] for r in rows}
    return sorted(
        names,
        key=lambda name: max((r["n_params"], (r["N"] or 0) / r["n_params"]) for r in rows if r["method"] == name)[1],
    )


FIGURE = Figure(
    name="ladder",
    title="Every construction and training, with the information bound",
    place="beyond the paper",
    caption=(
        "The largest N that is recalled at 99% by each construction and by training, against all parameters of the "
        "memory (the embeddings left out). Black: the largest N whose permutations so many bits tell apart; grey: the "
        "same for random maps to as many outputs."
    ),
    presets=PRESETS,
    cells=cells,
    plot=plot,
    fits=fits,
)

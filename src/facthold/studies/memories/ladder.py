"""The ladder: what each recipe for a memory stores at the same parameters, with the information bound above."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from facthold.lab import style
from facthold.lab.cells import Cell
from facthold.lab.fields import Count, Counts
from facthold.lab.figure import Figure, Values
from facthold.measure.scaling import Fit
from facthold.recipes import MemoryRecipe, memory_recipe, memory_recipes
from facthold.recipes.base import LINEAR
from facthold.studies.judging import capacity, columns, constant, exponent, n_params
from facthold.studies.memories import growth
from facthold.studies.memories.capacity import Capacity
from facthold.theory import bounds

BITS = (2, 32)
"""Bits per parameter of the two bounds that are drawn: what large language models are seen to use, and float32."""


@dataclass(frozen=True)
class Grid:
    """Sizes, by kind of recipe. m = ratio d for MLPs; m = d / 2 for low rank."""

    closed_d: Counts
    solved_d: Counts
    trained_linear_d: Counts
    trained_mlp_d: Counts
    ratio: Count = 4
    n_seeds: Count = 5
    tolerance: float = 0.02

    def d(self, recipe: MemoryRecipe) -> tuple[int, ...]:
        """Solvers are slower, and closed forms store too little at small sizes: each has its own sizes."""
        if recipe.protocol is not None:
            return self.trained_linear_d if recipe.family == LINEAR else self.trained_mlp_d
        return self.solved_d if recipe.solved else self.closed_d


_quick, _paper = (growth.PRESETS[preset] for preset in ("quick", "paper"))
PRESETS = {
    "smoke": Grid(closed_d=(16, 22, 32), solved_d=(6, 8, 11), trained_linear_d=(8, 11, 16), trained_mlp_d=(6, 8),
                  ratio=2, n_seeds=2, tolerance=0.1),
    # The trained memories are those of figure 1: the same cells, computed once.
    "quick": Grid(closed_d=(22, 32, 45, 64), solved_d=(11, 16, 22), trained_linear_d=_quick.linear_d,
                  trained_mlp_d=(8, 11, 16), tolerance=_quick.tolerance),
    "paper": Grid(closed_d=(32, 45, 64, 90, 128, 181), solved_d=(11, 16, 22, 32, 45),
                  trained_linear_d=_paper.linear_d, trained_mlp_d=growth.half_octaves(3.0, 6.5),
                  tolerance=_paper.tolerance),
}  # fmt: skip


def cells(grid: Grid) -> list[Cell]:
    recipes = [(name, recipe) for name, recipe in memory_recipes().items() if recipe.in_ladder]
    sizes = [(name, d, recipe.m(d, grid.ratio)) for name, recipe in recipes for d in grid.d(recipe)]
    return [Capacity.of(grid, method=name, d=d, m=m) for name, d, m in sizes]


def plot(rows: Sequence[Values]) -> "style.Canvas":
    canvas, (axes,) = style.panels(1, width=8.6, height=6.0)
    style.loglog(axes, "Associations stored at 99% recall, $f^*(x)=x$", "parameters", "$N$")
    for i, name in enumerate(by_capacity(rows)):
        ours = [r for r in rows if r["method"] == name]
        style.series(axes, n_params, ours, f"{name} ({memory_recipe(name).place})", i, line=True)
    for bits, dashes in zip(BITS, (":", "--"), strict=True):
        for maps, colour, law in (
            (bounds.bits_injective, "black", r"bound: $\log_2 N! =$"),
            (bounds.bits_uniform, "#888888", r"$N\log_2 N =$"),
        ):
            most = lambda p, maps=maps, bits=bits: bounds.capacity_in_bits(lambda n: maps(n, n), bits * p)  # noqa: E731
            label = f"{law} {bits} bits per parameter"
            style.guide(axes, [n_params(r) for r in rows], most, label, color=colour, linestyle=dashes, linewidth=1)
    style.legend(axes, fontsize=7.5, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return canvas


def fits(rows: Sequence[Values]) -> list[Fit]:
    """Facts per parameter for each rung (geometric mean over sizes), and how N ln N grows with the parameters."""
    result = []
    for name in by_capacity(rows):
        ours = [r for r in rows if r["method"] == name and r["N"] is not None]
        size, N = columns(ours, n_params, capacity)
        result += constant(f"{name}: facts per parameter", size, N)
        result += exponent(f"{name}: N ln N, exponent", size, [n * math.log(max(n, 2)) for n in N])
    return result


def by_capacity(rows: Sequence[Values]) -> list[str]:
    """The recipes, by facts per parameter at their largest size: the lowest rung first."""
    largest = {r["method"]: r for r in sorted(rows, key=lambda r: (r["n_params"], r["N"] or 0))}
    return sorted(largest, key=lambda name: (largest[name]["N"] or 0) / largest[name]["n_params"])


FIGURE = Figure(
    "ladder", "Every construction and training, with the information bound", "beyond the paper",
    "The largest N that is recalled at 99% by each construction and by training, against all parameters of the "
    "memory (the embeddings left out). Black: the largest N whose permutations so many bits tell apart; grey: the "
    "same for random maps to as many outputs.",
    PRESETS, cells, plot, fits,
)  # fmt: skip

"""Figures 1 and 6, trained memories, and the ladder: what each recipe for a memory stores, with the information bound.

Trained memories store N with c N ln N = size of W for f*(x) = x, and c N = size with 32 outputs.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np

from facthold.lab import Cell, Figure, Values, style
from facthold.lab.fields import Count, Counts, OneOf, Pairs, Repeats
from facthold.measure.scaling import Fit
from facthold.recipes import MemoryRecipe, memory_recipe, memory_recipes
from facthold.recipes.base import LINEAR
from facthold.studies.judging import Measure, capacity, columns, constant, exponent, grouped, n_params
from facthold.studies.memories.capacity import Capacity
from facthold.theory import bounds

LARGE = 32  # smallest d of the fitted constant on the left: below it the constant still drifts
ASSOCIATIONS = "associations stored at 99% recall, $N$"
MAPS = {"floor": "neighbours share one", "mod": "in turn"}  # how N inputs share the outputs
BITS = (32, 2)  # per parameter, of the bounds that are drawn: as large language models use them, and float32
Sizes = Pairs  # (d, m)
LADDER_MLP = "train:mlp-code"  # the trained MLP of the ladder
FIXED_LAW = "mlp, fixed outputs: N = m d / c"


@dataclass(frozen=True)
class Grid:
    """Sizes to search."""

    linear_d: Counts
    mlp_sizes: Sizes
    n_seeds: Repeats = 5
    tolerance: float = 0.01
    linear_method: str = "train:linear-code"
    mlp_method: str = "train:mlp-code"


@dataclass(frozen=True)
class FixedGrid:
    """Sizes to search, with a fixed number of outputs."""

    sizes: Sizes
    M: Count = 32
    map: Annotated[str, OneOf(("floor", "mod"))] = "floor"  # 'floor' as in the authors' code; 'mod' as in the text
    n_seeds: Repeats = 5
    tolerance: float = 0.01
    method: str = "train:mlp-code"


def half_octaves(low: float, high: float) -> tuple[int, ...]:
    """floor(2^low), floor(2^(low+1/2)), ..., floor(2^high): the authors' sizes."""
    return tuple(int(2**e) for e in np.arange(low, high + 0.25, 0.5))


SMOKE_SIZES: Sizes = ((6, 6), (8, 8), (6, 12))
QUICK_SIZES: Sizes = ((11, 11), (16, 16), (22, 22), (8, 32), (11, 44))
PAPER_SIZES: Sizes = tuple((d, ratio * d) for ratio in (1, 2, 4, 8) for d in half_octaves(3.0, 6.5))
PRESETS = {
    "smoke": Grid(linear_d=(8, 11, 16), mlp_sizes=SMOKE_SIZES, n_seeds=2, tolerance=0.1),
    "quick": Grid(linear_d=(16, 22, 32, 45, 64), mlp_sizes=(*QUICK_SIZES, (16, 64)), tolerance=0.04),
    "paper": Grid(linear_d=half_octaves(3.0, 8.0), mlp_sizes=PAPER_SIZES),
}
FIXED_PRESETS = {
    "smoke": FixedGrid(sizes=SMOKE_SIZES, n_seeds=2, tolerance=0.1),
    "quick": FixedGrid(sizes=(*QUICK_SIZES, (16, 64)), tolerance=0.04),
    "paper": FixedGrid(sizes=PAPER_SIZES),
}


def cells(grid: Grid) -> list[Cell]:
    linear = [Capacity.of(grid, method=grid.linear_method, d=d) for d in grid.linear_d]
    return [*linear, *(Capacity.of(grid, method=grid.mlp_method, d=d, m=m) for d, m in grid.mlp_sizes)]


def size(row: Values) -> int:
    """Parameters of W, or of one layer of the MLP."""
    return (row["m"] or row["d"]) * row["d"]


def n_log_n(row: Values) -> float:
    return row["N"] * math.log(row["N"])


def _ratio(row: Values) -> float:
    return row["m"] / row["d"]


def plot(rows: Sequence[Values]) -> "style.Canvas":
    canvas, (left, right) = style.panels(2)
    linear, mlp = [r for r in rows if not r["m"]], [r for r in rows if r["m"]]
    for axes, ours, model, c, of, symbol in (
        (left, linear, "Linear", bounds.LINEAR_CONSTANT, "parameters of W", "d^2"),
        (right, mlp, "MLP", bounds.MLP_CONSTANT, "parameters of one layer", "m d"),
    ):
        law, label = partial(bounds.guide, constant=c), rf"${c}\,N\ln N = {symbol}$ (authors)"
        _panel(axes, ours, f"{model} memory", f"{of}, ${symbol}$", law, label)
    found = sorted((r for r in linear if r["N"] is not None), key=size)
    for r in found:  # the constant drifts with d: show it at each point, where there is room
        c, first = bounds.guide_constant(r["N"], size(r)), r is found[0]
        left.annotate(f"c={c:.2f}", (size(r), r["N"]), (5, 6) if first else (-7, 4), textcoords="offset points",
                      ha="left" if first else "right", va="bottom", fontsize=7.5)  # fmt: skip
    return canvas


def plot_fixed(rows: Sequence[Values]) -> "style.Canvas":
    canvas, (axes,) = style.panels(1)
    outputs, c = "; ".join(sorted({f"{r['M']} outputs, {MAPS[r['map']]}" for r in rows})), bounds.MLP_FIXED_CONSTANT
    law, label = lambda s: s / c, rf"${c}\,N = m d$ (authors)"
    _panel(axes, rows, f"MLP memory, {outputs}", "parameters of one layer, $m d$", law, label)
    return canvas


def _panel(
    axes: "style.Axes", rows: Sequence[Values], title: str, of: str, law: Callable[[float], float], label: str
) -> None:
    """Capacities against the size, a series for each m / d, and the authors' guide line."""
    protocols = ", ".join(sorted({memory_recipe(r["method"]).place for r in rows}))
    style.loglog(axes, f"{title}\n({protocols})" if rows else title, of, ASSOCIATIONS)
    for i, (ratio, ours) in enumerate(grouped(rows, _ratio).items()):
        style.series(axes, size, ours, f"measured, $m/d={ratio:g}$" if ratio else "measured", i)
    if rows:
        style.guide(axes, [size(r) for r in rows], law, label)
    style.legend(axes)


def fits(rows: Sequence[Values]) -> list[Fit]:
    """Exponents of N ln N against the size, the constants of the guide lines, and how the left one drifts."""
    found = [r for r in rows if r["N"] is not None]
    linear, mlp = [r for r in found if not r["m"]], [r for r in found if r["m"]]
    result = _law("linear: N ln N = d^2 / c", linear, n_log_n)
    large = [r for r in linear if r["d"] >= LARGE]
    result += constant(f"linear, d >= {LARGE}: c", *columns(large, n_log_n, size))
    result += _law("mlp: N ln N = m d / c", mlp, n_log_n)
    for ratio, ours in grouped(mlp, _ratio).items():
        result += constant(f"mlp, m/d = {ratio:g}: c", *columns(ours, n_log_n, size))
    return result


def _law(name: str, rows: Sequence[Values], y: Measure) -> list[Fit]:
    """The law y = size / c: the exponent of y against the size, and c."""
    x_y = columns(rows, size, y)
    return exponent(f"{name}, exponent", *x_y) + constant(f"{name}, c", *x_y[::-1])


@dataclass(frozen=True)
class LadderGrid:
    """Sizes of the ladder, by kind of recipe. m = ratio d for MLPs; m = d / 2 for low rank."""

    closed_d: Counts
    solved_d: Counts
    trained_linear_d: Counts
    trained_mlp_d: Counts
    ratio: Count = 4
    n_seeds: Repeats = 5
    tolerance: float = 0.02

    def d(self, recipe: MemoryRecipe) -> tuple[int, ...]:
        """Solvers are slower, and closed forms store too little at small sizes: each has its own sizes."""
        if recipe.protocol is not None:
            return self.trained_linear_d if recipe.family == LINEAR else self.trained_mlp_d
        return self.solved_d if recipe.solved else self.closed_d


LADDER = {
    "smoke": LadderGrid(closed_d=(16, 22), solved_d=(6,), trained_linear_d=(8, 11), trained_mlp_d=(6,), ratio=2,
                        n_seeds=2, tolerance=0.1),
    # The trained memories are those of figure 1: the same cells, computed once.
    "quick": LadderGrid(closed_d=(22, 32, 45, 64), solved_d=(11, 16, 22), trained_linear_d=PRESETS["quick"].linear_d,
                        trained_mlp_d=(8, 11, 16), tolerance=PRESETS["quick"].tolerance),
    "paper": LadderGrid(closed_d=(32, 45, 64, 90, 128, 181), solved_d=(11, 16, 22, 32, 45),
                        trained_linear_d=PRESETS["paper"].linear_d, trained_mlp_d=half_octaves(3.0, 6.5),
                        tolerance=PRESETS["paper"].tolerance),
}  # fmt: skip


def ladder_cells(grid: LadderGrid) -> list[Cell]:
    recipes = [(name, recipe) for name, recipe in memory_recipes().items() if recipe.in_ladder]
    sizes = [(name, d, recipe.m(d, grid.ratio)) for name, recipe in recipes for d in grid.d(recipe)]
    return [Capacity.of(grid, method=name, d=d, m=m) for name, d, m in sizes]


def plot_ladder(rows: Sequence[Values]) -> "style.Canvas":
    canvas, (axes,) = style.panels(1, width=8.6, height=6.0)
    style.loglog(axes, "Every input its own output, $f^*(x)=x$", "parameters of the memory", ASSOCIATIONS)
    colours = {name: i for i, name in enumerate(name for name, r in memory_recipes().items() if r.in_ladder)}
    for bits, dashes in zip(BITS, ("--", ":"), strict=True):
        for maps, colour, law in (
            (bounds.bits_injective, "black", r"bound: $\log_2 N! =$"),
            (bounds.bits_uniform, "#888888", r"$N\log_2 N =$"),
        ):
            most = lambda p, maps=maps, bits=bits: bounds.capacity_in_bits(lambda n: maps(n, n), bits * p)  # noqa: E731
            label = f"{law} {bits} bits per parameter"
            style.guide(axes, [n_params(r) for r in rows], most, label, color=colour, linestyle=dashes, linewidth=1)
    for name in reversed(by_capacity(rows)):  # as they stand in the picture, and each in its own colour at any size
        ours, label = [r for r in rows if r["method"] == name], in_words(name)
        style.series(axes, n_params, ours, label, colours.get(name, len(colours)), line=True)
    style.legend(axes, fontsize=7.5, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return canvas


def in_words(name: str) -> str:
    """'outer-product (theorem 1)', 'MLP, trained, authors' code'."""
    recipe = memory_recipe(name)
    kind = "linear" if recipe.family == LINEAR else "MLP"
    return f"{kind}, {recipe.place}" if recipe.protocol else f"{name} ({recipe.place})"


def ladder_fits(rows: Sequence[Values]) -> list[Fit]:
    """Facts per parameter for each rung (geometric mean over sizes), and how N ln N grows with the parameters."""
    result = []
    for name in by_capacity(rows):
        ours = [r for r in rows if r["method"] == name and r["N"] is not None]
        params, N = columns(ours, n_params, capacity)
        result += constant(f"{name}: facts per parameter", params, N)
        result += exponent(f"{name}: N ln N, exponent", params, [n * math.log(max(n, 2)) for n in N])
    return result


def by_capacity(rows: Sequence[Values]) -> list[str]:
    """The recipes, by facts per parameter at their largest size: the lowest rung first."""
    largest = {r["method"]: r for r in sorted(rows, key=lambda r: (r["n_params"], r["N"] or 0))}
    return sorted(largest, key=lambda name: (largest[name]["N"] or 0) / largest[name]["n_params"])


def fixed_fits(rows: Sequence[Values]) -> list[Fit]:
    return _law(FIXED_LAW, [r for r in rows if r["N"] is not None], capacity)


FIGURES = (
    Figure(
        "fig1", "Capacity of trained linear and MLP memories", "figure 1",
        "The largest N that is recalled at 99%, against the number of parameters of W (left) and of one layer "
        "of the MLP (right). Points: mean over seeds; bars: smallest and largest.",
        PRESETS, cells, plot, fits,
        sees="Both should follow the dashed guide lines of the authors: N ln N grows as the number of parameters.",
        differs="Capacities are means over seeds of a search within a tolerance. Sizes of preset quick are smaller than"
             " the paper's, and c still moves with d. Protocols are those of the authors' code; of the MLP, rate and"
             " steps are other ones in the text.",
    ),
    Figure(
        "fig6", "Capacity of trained MLP memories with a fixed number of outputs", "figure 6",
        "The largest N that is recalled at 99% when N inputs share 32 outputs, against m d.",
        FIXED_PRESETS,
        # the search starts from this figure's own guide line
        lambda grid: [Capacity.near(m * d / bounds.MLP_FIXED_CONSTANT, grid, d=d, m=m) for d, m in grid.sizes],
        plot_fixed,
        fixed_fits,
        sees="With a fixed number of outputs N itself, and no longer N ln N, should grow as the parameters do.",
        differs="The map is that of the authors' code, floor(32 i / N); their text says i mod 32 (map = \"mod\" in a "
             "config). Sizes of preset quick are smaller than theirs.",
    ),
    Figure(
        "ladder", "Every construction and training, with the information bound", "beyond the paper",
        "The largest N that is recalled at 99% by each construction and by training, against all parameters of the "
        "memory (the embeddings left out). Black: the largest N whose permutations so many bits tell apart; grey: the "
        "same for random maps to as many outputs.",
        LADDER, ladder_cells, plot_ladder, ladder_fits,
        sees="Trained memories lie near the line of 2 bits per parameter; one convex solve per layer comes next, and"
             " closed forms stay far below.",
    ),
)  # fmt: skip

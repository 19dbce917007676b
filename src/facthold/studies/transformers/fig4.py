"""Figures 4 (left), 7, 8 and 9: facts stored against parameters, for transformers of many shapes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np
from matplotlib.figure import Figure as Canvas

from facthold.lab import style
from facthold.lab.cells import Cell
from facthold.lab.figure import Figure, Values
from facthold.measure.scaling import Fit, fit_constant, fit_exponent
from facthold.models.transformer import n_params
from facthold.studies.memories.fig1 import half_octaves
from facthold.studies.transformers.fact_capacity import FactCapacity
from facthold.theory.bounds import FACTS_A_PARAMETER
from facthold.train.protocols import protocol as find_protocol

RATIOS = (0.25, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Grid:
    """Shapes and sizes to search."""

    shapes: tuple[tuple[float, float], ...]
    """Pairs (alpha, beta): H d_h = alpha d, m = beta d."""
    H: tuple[int, ...]
    d: tuple[int, ...]
    n_params: tuple[int, int] = (0, 10**9)
    """Sizes below and above are left out."""
    n_sizes: int = 100
    """At most so many sizes a shape, spread evenly from the smallest to the largest."""
    larger: tuple[tuple[float, float, int], ...] = ()
    """Further cells (alpha, beta, d), for a few sizes beyond that range."""
    D: int = 8
    """Answers a relation; 0: as many as subjects."""
    growth: str = "S=R"
    table: str = "random"
    variant: str = "code"
    protocol: str = "transformer-code"
    rule: str = "best"
    n_seeds: int = 3
    tolerance: float = 0.0
    start: float = 1.0
    """Where each search starts, as a multiple of the authors' guide line."""


def cells(grid: Grid) -> list[Cell]:
    capacity = partial(
        FactCapacity, D=grid.D or None, growth=grid.growth, table=grid.table, variant=grid.variant,
        protocol=grid.protocol, rule=grid.rule, tolerance=grid.tolerance, start=grid.start,
        seeds=tuple(range(grid.n_seeds)),
    )  # fmt: skip
    result: list[Cell] = [
        capacity(alpha=alpha, beta=beta, H=H, d=d)
        for H, (alpha, beta) in product(grid.H, grid.shapes)
        for d in _sizes(grid, alpha, beta, H)
    ]
    return result + [capacity(alpha=alpha, beta=beta, H=H, d=d) for H in grid.H for alpha, beta, d in grid.larger]


def _sizes(grid: Grid, alpha: float, beta: float, H: int) -> list[int]:
    """The d of a shape: heads of at least one dimension, parameters within the grid's range."""
    low, high = grid.n_params
    fits = [
        d
        for d in grid.d
        if (d_h := int(alpha * d / H)) > 0 and low <= n_params(d=d, H=H, d_h=d_h, m=int(beta * d)) <= high
    ]
    keep = np.unique(np.linspace(0, len(fits) - 1, min(grid.n_sizes, len(fits))).round().astype(int))
    return [fits[i] for i in keep]


def plot(rows: Sequence[Values]) -> Canvas:
    """A panel for each H, a series for each (alpha, beta)."""
    by_heads = {H: [r for r in rows if r["H"] == H] for H in sorted({r["H"] for r in rows})}
    canvas, panels = style.panels(len(by_heads), width=6.4, height=5.0)
    shapes = sorted({(r["alpha"], r["beta"]) for r in rows})
    alphas, betas = (sorted({shape[i] for shape in shapes}) for i in (0, 1))
    for axes, (H, ours) in zip(panels, by_heads.items(), strict=True):
        style.loglog(axes, _title(ours, H), "parameters", "facts stored")
        for i, (alpha, beta) in enumerate(shapes):
            series = [_as_facts(r) for r in ours if (r["alpha"], r["beta"]) == (alpha, beta)]
            label = rf"$\alpha={alpha:g}, \beta={beta:g}$"
            # Of few shapes each has a colour of its own; of many, alpha gives the colour and beta the marker.
            look = (i, i) if len(shapes) <= len(style.COLOURS) else (alphas.index(alpha), betas.index(beta))
            style.series(axes, [r["n_params"] for r in series], series, label, *look, line=True)
        x = np.array([min(r["n_params"] for r in ours), max(r["n_params"] for r in ours)])
        style.guide(axes, x, FACTS_A_PARAMETER * x, f"facts = {FACTS_A_PARAMETER} parameters (authors)")
        axes.legend(frameon=False, fontsize=7, ncols=2 if len(shapes) > 8 else 1)
    return canvas


def _title(rows: Sequence[Values], H: int) -> str:
    """What the panel shows, and by which protocol: a shortened one says so."""
    answers = ", ".join(sorted({"D=S" if r["D"] is None else f"D={r['D']}" for r in rows}))
    growth = ", ".join(sorted({str(r["growth"]) for r in rows}))
    protocols = ", ".join(map(_told, sorted({r["protocol"] for r in rows})))
    seeds = sorted({len(r["seeds"]) for r in rows})
    several = "seed" if seeds == [1] else "seeds"
    return f"Transformers, H={H}, ${growth}$, {answers}\n({protocols}, {'/'.join(map(str, seeds))} {several})"


def _told(name: str) -> str:
    """A protocol in a few words: how long, and at which learning rates."""
    p = find_protocol(name)
    return f"{name}: {p.steps} steps, lr " + "/".join(f"{lr:g}" for lr in p.lrs or (p.lr,))


def _as_facts(row: Values) -> Values:
    """A row whose capacity is counted in facts, as `style.series` draws it."""
    per_seed = [s | {"stored": s["stored"] and s["stored"] * _relations(row, s["stored"])} for s in row["per_seed"]]
    renamed = {"N": row["facts"], "N_min": row["facts_min"], "N_max": row["facts_max"]}
    return {**row, **renamed, "per_seed": per_seed}


def _relations(row: Values, S: int) -> int:
    return S if row["growth"] == "S=R" else int(S**0.5)


def fits(rows: Sequence[Values]) -> list[Fit]:
    """Slope and constant of facts against parameters, over all shapes and for each."""
    found = [r for r in rows if r["facts"] is not None]
    result = _both("all shapes", found)
    several = len({r["H"] for r in found}) > 1
    for H, alpha, beta in sorted({(r["H"], r["alpha"], r["beta"]) for r in found}):
        ours = [r for r in found if (r["H"], r["alpha"], r["beta"]) == (H, alpha, beta)]
        heads = f" H={H}" if several else ""
        result += _both(f"alpha={alpha:g} beta={beta:g}{heads}", ours)
    return result


def _both(name: str, rows: Sequence[Values]) -> list[Fit]:
    x, y = [r["n_params"] for r in rows], [r["facts"] for r in rows]
    slope = [fit_exponent(f"{name}: facts against parameters", x, y)] if len(set(x)) > 2 else []
    return [*slope, *([fit_constant(f"{name}: facts a parameter", x, y)] if len(x) > 1 else [])]


ALL_D = half_octaves(3.0, 7.5)
PAPER = Grid(shapes=tuple(product(RATIOS, RATIOS)), H=(8,), d=ALL_D)
MORE_HEADS = replace(PAPER, H=(8, 16))
QUICK = Grid(
    shapes=((0.5, 1.0), (0.5, 2.0), (1.0, 1.0), (1.0, 4.0), (2.0, 0.5), (2.0, 2.0)), H=(8,), d=ALL_D,
    n_params=(1000, 13000), n_sizes=4, larger=((1.0, 1.0, 64), (1.0, 4.0, 45), (2.0, 0.5, 45)),
    protocol="transformer-short", n_seeds=1, tolerance=0.05, start=0.65,
)  # fmt: skip
FEWER = replace(QUICK, shapes=((0.5, 2.0), (1.0, 1.0), (1.0, 4.0), (2.0, 2.0)), larger=())
"""For the figures that have dearer cells, or more of them."""
SMOKE = replace(
    QUICK,
    shapes=((2.0, 1.0),),
    d=(8, 11, 16),
    n_params=(0, 10**9),
    protocol="transformer-smoke",
    tolerance=0.5,
    start=0.3,
)

CAPTION = (
    "The largest number of facts S R that a one-layer transformer learns to 99%, against its parameters "
    "4 H d d_h + 2 m d. Points: mean over seeds; bars: smallest and largest."
)


def _figure(name: str, title: str, caption: str, quick: Grid = FEWER, paper: Grid = PAPER, **changes: object) -> Figure:
    """One of the four: the same grids with some values changed."""
    presets = {"smoke": SMOKE, "quick": quick, "paper": paper}
    changed = {preset: replace(grid, **changes) for preset, grid in presets.items()}  # type: ignore[arg-type]
    return Figure(name, title, name.replace("fig", "figure "), caption, changed, cells, plot, fits)


FIGURES = (
    _figure("fig4", "Facts in transformers of many shapes", CAPTION, QUICK),
    _figure("fig7", "Facts in transformers with 4 and 16 heads", CAPTION, H=(4, 16)),
    _figure("fig8", "Facts in transformers, each with an answer of its own",
            f"{CAPTION} Here D = S and no two facts share an answer.", paper=MORE_HEADS, D=0, table="balanced"),
    _figure("fig9", "Facts in transformers, many subjects and few relations", f"{CAPTION} Here S = R^2.",
            paper=MORE_HEADS, growth="S=R^2"),
)  # fmt: skip

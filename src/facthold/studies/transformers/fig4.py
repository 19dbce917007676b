"""Figures 4 (left), 7, 8 and 9: facts stored against parameters, for transformers of many shapes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from operator import itemgetter

import numpy as np

from facthold.lab import style
from facthold.lab.cells import Cell
from facthold.lab.claim import Claim, Judgement
from facthold.lab.fields import Count, Counts
from facthold.lab.figure import Figure, Values
from facthold.lab.registry import cells_of
from facthold.measure.scaling import Fit
from facthold.models.sizes import Shape
from facthold.studies import judging
from facthold.studies.judging import columns, constant, exponent, facts, grouped, n_params, not_found
from facthold.studies.memories.growth import half_octaves
from facthold.studies.transformers.fact_capacity import GROWTH, FactCapacity, in_words
from facthold.theory.bounds import FACTS_A_PARAMETER

RATIOS = (0.25, 0.5, 1.0, 2.0, 4.0)
TOLERANCE = 0.15
"""How far the claimed exponent may lie from 1: of one seed and few sizes, its standard error is half of that."""
CLAIMED = (0.08, 0.22)
"""Where facts per parameter may lie. The authors draw 0.15; their code finds 0.105 at 3,072 parameters."""


@dataclass(frozen=True)
class Grid:
    """Shapes and sizes to search."""

    shapes: tuple[tuple[float, float], ...]  # pairs (alpha, beta): H d_h = alpha d, m = beta d
    H: Counts
    d: Counts
    n_params: tuple[int, int] = (0, 10**9)  # sizes below and above are left out
    n_sizes: Count = 100  # at most so many sizes per shape, spread evenly from the smallest to the largest
    larger: tuple[tuple[float, float, int], ...] = ()
    """Further cells (alpha, beta, d), for a few sizes beyond that range."""
    D: int = 8  # answers per relation; 0: as many as subjects
    growth: str = "S=R"
    table: str = "random"
    variant: str = "code"
    protocol: str = "transformer-code"
    rule: str = "best"
    n_seeds: Count = 3
    tolerance: float = 0.0
    start: float = 1.0  # where each search starts, as a multiple of the authors' guide line


def cells(grid: Grid) -> list[Cell]:
    shapes = product(grid.H, grid.shapes)
    sizes = [(H, alpha, beta, d) for H, (alpha, beta) in shapes for d in _sizes(grid, alpha, beta, H)]
    sizes += [(H, alpha, beta, d) for H in grid.H for alpha, beta, d in grid.larger]
    return [FactCapacity.of(grid, alpha=alpha, beta=beta, H=H, d=d, D=grid.D or None) for H, alpha, beta, d in sizes]


def _sizes(grid: Grid, alpha: float, beta: float, H: int) -> list[int]:
    """The d of a shape: heads of at least one dimension, parameters within the grid's range."""
    low, high = grid.n_params
    shapes = [Shape(d, H, int(alpha * d / H), int(beta * d)) for d in grid.d]
    fits = [shape.d for shape in shapes if shape.d_h > 0 and low <= shape.n_params <= high]
    keep = np.unique(np.linspace(0, len(fits) - 1, min(grid.n_sizes, len(fits))).round().astype(int))
    return [fits[i] for i in keep]


def plot(rows: Sequence[Values]) -> "style.Canvas":
    """A panel for each H, a series for each (alpha, beta)."""
    by_heads = grouped(rows, itemgetter("H"))
    canvas, panels = style.panels(len(by_heads), width=6.4, height=5.0)
    shapes = sorted({(r["alpha"], r["beta"]) for r in rows})
    alphas, betas = (sorted({shape[i] for shape in shapes}) for i in (0, 1))
    for axes, (H, ours) in zip(panels, by_heads.items(), strict=True):
        style.loglog(axes, _title(ours, H), "parameters", "facts stored")
        for i, (alpha, beta) in enumerate(shapes):
            series = [_as_facts(r) for r in ours if (r["alpha"], r["beta"]) == (alpha, beta)]
            # Of few shapes each has a colour of its own; of many, alpha gives the colour and beta the marker.
            look = (i, i) if len(shapes) <= len(style.COLOURS) else (alphas.index(alpha), betas.index(beta))
            style.series(axes, n_params, series, rf"$\alpha={alpha:g}, \beta={beta:g}$", *look, line=True)
        label = f"facts = {FACTS_A_PARAMETER} parameters (authors)"
        style.guide(axes, [n_params(r) for r in ours], lambda n: FACTS_A_PARAMETER * n, label)
        style.legend(axes, fontsize=7, ncols=2 if len(shapes) > 8 else 1)
    return canvas


def _title(rows: Sequence[Values], H: int) -> str:
    """What the panel shows, and by which protocol: a shortened one says so."""
    first = rows[0]
    answers, n = "D=S" if first["D"] is None else f"D={first['D']}", len(first["seeds"])
    training = f"{in_words(first['protocol'])}, {n} seed{'s' if n > 1 else ''}"
    return f"Transformers, H={H}, ${first['growth']}$, {answers}\n({training})"


def _as_facts(row: Values) -> Values:
    """A row whose capacity is counted in facts, as `style.series` draws it."""
    R = GROWTH[row["growth"]]
    per_seed = [s | {"stored": s["stored"] and s["stored"] * R(s["stored"])} for s in row["per_seed"]]
    renamed = {"N": row["facts"], "N_min": row["facts_min"], "N_max": row["facts_max"]}
    return {**row, **renamed, "per_seed": per_seed}


def fits(rows: Sequence[Values]) -> list[Fit]:
    """Slope and constant of facts against parameters, over all shapes and for each."""
    found = [r for r in rows if r["facts"] is not None]
    several = len({r["H"] for r in found}) > 1
    groups = {"all shapes": found}
    for r in sorted(found, key=lambda r: (r["H"], r["alpha"], r["beta"])):
        heads = f" H={r['H']}" if several else ""
        groups.setdefault(f"alpha={r['alpha']:g} beta={r['beta']:g}{heads}", []).append(r)
    result = []
    for name, ours in groups.items():
        x_y = columns(ours, n_params, facts)
        result += exponent(f"{name}: facts against parameters", *x_y)
        result += constant(f"{name}: facts per parameter", *x_y)
    return result


ALL_D = half_octaves(3.0, 7.5)
PAPER = Grid(shapes=tuple(product(RATIOS, RATIOS)), H=(8,), d=ALL_D)
MORE_HEADS = replace(PAPER, H=(8, 16))
QUICK = Grid(
    shapes=((0.5, 1.0), (0.5, 2.0), (1.0, 1.0), (1.0, 4.0), (2.0, 0.5), (2.0, 2.0)), H=(8,), d=ALL_D,
    n_params=(1000, 13000), n_sizes=4, larger=((1.0, 1.0, 64), (1.0, 4.0, 45), (2.0, 0.5, 45)),
    protocol="transformer-short", n_seeds=1, tolerance=0.05, start=0.65,
)  # fmt: skip
FEWER = replace(QUICK, shapes=((0.5, 2.0), (1.0, 1.0), (1.0, 4.0), (2.0, 2.0)), larger=())
"""For the figures whose cells take longer, or that have more of them."""
SMOKE = replace(
    QUICK, shapes=((2.0, 1.0),), d=(8, 11, 16), n_params=(0, 10**9), protocol="transformer-smoke", tolerance=0.5,
    start=0.3, larger=(),
)  # fmt: skip

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


def judge(rows: Sequence[Values]) -> Judgement:
    """The claim on the cells of figure 4."""
    low, high = CLAIMED
    predicted = f"facts as parameters: exponent 1 within {TOLERANCE}, {low} to {high} facts per parameter"
    grows = judging.judge_exponent(predicted, rows, n_params, facts, tolerance=TOLERANCE)
    if not_found(rows):
        return grows
    each = [facts(r) / n_params(r) for r in rows]
    (c,) = constant(predicted, *columns(rows, n_params, facts))
    measured = f"{c.constant:.3f} facts per parameter, from {min(each):.3f} to {max(each):.3f}"
    error = f"[{c.interval[0]:.3f}, {c.interval[1]:.3f}] per parameter"
    return judging.also(grows, measured, error, low <= c.constant <= high)


CLAIM = Claim(
    "facts-growth", "figure 4, left",
    "Trained transformers of many shapes hold facts in proportion to their parameters.",
    cells_of("fig4"), judge,
)  # fmt: skip

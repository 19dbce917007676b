"""Figures 4, 7, 8 and 9: facts stored against parameters, and how much of one table transformers of many sizes learn.

In figure 4, right, attention and MLP parameters stand in for each other, down to a floor of attention.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from operator import itemgetter

import numpy as np

from facthold.lab import Cell, Claim, Figure, Judgement, Values, cells_of, style
from facthold.lab.fields import Count, Counts
from facthold.measure.scaling import Fit
from facthold.studies import judging
from facthold.studies.judging import columns, constant, exponent, facts, grouped, n_params, not_found
from facthold.studies.memories.figures import half_octaves
from facthold.studies.transformers.fact_capacity import GROWTH, FactAccuracy, FactCapacity, in_words, shape
from facthold.theory.bounds import FACTS_A_PARAMETER

RATIOS = (0.25, 0.5, 1.0, 2.0, 4.0)
TOLERANCE = 0.15  # of the exponent 1: with one seed and few sizes, its standard error is half of that
CLAIMED = (0.08, 0.22)  # facts per parameter: the authors draw 0.15, their code finds 0.105 at 3,072 parameters


@dataclass(frozen=True)
class Grid:
    """Shapes and sizes to search."""

    shapes: tuple[tuple[float, float], ...]  # pairs (alpha, beta): H d_h = alpha d, m = beta d
    H: Counts
    d: Counts
    n_params: tuple[int, int] = (0, 10**9)  # sizes below and above are left out
    n_sizes: Count = 100  # at most so many sizes per shape, spread evenly from the smallest to the largest
    larger: tuple[tuple[float, float, int], ...] = ()  # (alpha, beta, d): a few sizes beyond that range
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
    shapes = [shape(alpha, beta, H, d) for d in grid.d]
    fits = [sizes.d for sizes in shapes if sizes.d_h > 0 and low <= sizes.n_params <= high]
    keep = np.unique(np.linspace(0, len(fits) - 1, min(grid.n_sizes, len(fits))).round().astype(int))
    return [fits[i] for i in keep]


def plot(rows: Sequence[Values]) -> "style.Canvas":
    """A panel for each H, a series for each (alpha, beta)."""
    by_heads = grouped(rows, itemgetter("H"))
    canvas, panels = style.panels(len(by_heads), width=6.4, height=5.0)
    shapes, relations = sorted({(r["alpha"], r["beta"]) for r in rows}), GROWTH[rows[0]["growth"]]
    alphas, betas = (sorted(set(ratios)) for ratios in zip(*shapes, strict=True))
    for axes, (H, ours) in zip(panels, by_heads.items(), strict=True):
        style.loglog(axes, _title(ours, H), "parameters", "facts stored")
        for i, (alpha, beta) in enumerate(shapes):
            series = [r for r in ours if (r["alpha"], r["beta"]) == (alpha, beta)]
            # Of few shapes each has a colour of its own; of many, alpha gives the colour and beta the marker.
            look = (i, i) if len(shapes) <= len(style.COLOURS) else (alphas.index(alpha), betas.index(beta))
            label, in_facts = rf"$\alpha={alpha:g}, \beta={beta:g}$", lambda S: S * relations(S)
            style.series(axes, n_params, series, label, *look, line=True, y="facts", of_stored=in_facts)
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


def fits(rows: Sequence[Values]) -> list[Fit]:
    """Slope and constant of facts against parameters, over all shapes and for each."""
    found = [r for r in rows if r["facts"] is not None]
    several = len({r["H"] for r in found}) > 1
    shapes = grouped(found, itemgetter("H", "alpha", "beta")).items()
    names = {
        f"alpha={alpha:g} beta={beta:g}" + (f" H={H}" if several else ""): ours for (H, alpha, beta), ours in shapes
    }
    result = []
    for name, ours in {"all shapes": found, **names}.items():
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


@dataclass(frozen=True)
class HeatmapGrid:
    """Heads and widths at one embedding dimension; all else as in `FactAccuracy`."""

    H: Counts
    m: tuple[int, ...]
    d: Count = 32
    d_h: Count = 8
    S: Count = 32
    R: Count = 32
    D: Count = 8
    variant: str = "code"
    protocol: str = "transformer-code"
    lrs: tuple[float, ...] = (1e-2,)


HEATMAP = {
    "smoke": HeatmapGrid(H=(1, 4), m=(1, 16), d=8, d_h=4, S=8, R=8, protocol="transformer-smoke"),
    "quick": HeatmapGrid(H=(1, 2, 4, 8, 16, 32), m=(1, 8, 16, 32, 64, 128), protocol="transformer-short"),
    "paper": HeatmapGrid(
        H=(1, 2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32), m=(1, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128)
    ),
}


def plot_heatmap(rows: Sequence[Values]) -> "style.Canvas":
    canvas, (axes,) = style.panels(1, width=7.4, height=5.4)
    attention, mlp = (sorted({r[name] for r in rows}) for name in ("attention_params", "mlp_params"))
    accuracy = np.full((len(mlp), len(attention)), np.nan)
    for r in rows:
        accuracy[mlp.index(r["mlp_params"]), attention.index(r["attention_params"])] = r["accuracy"]
    mesh = axes.pcolormesh(_edges(attention), _edges(mlp), accuracy, cmap="viridis", vmin=0, vmax=1)
    canvas.colorbar(mesh, ax=axes, label="accuracy over all facts, best during training")
    for r in rows:
        colour = "white" if r["accuracy"] < 0.6 else "black"
        axes.text(r["attention_params"], r["mlp_params"], f"{r['accuracy']:.2f}", ha="center", va="center",
                  fontsize=6.5 if len(rows) < 60 else 4.5, color=colour)  # fmt: skip
    first = rows[0]
    table = f"S={first['S']}, R={first['R']}, D={first['D']}, d={first['d']}, $d_h$={first['d_h']}"
    title = f"{table}\n({in_words(first['protocol'], first['lrs'])}, one seed)"
    style.loglog(axes, title, "attention parameters $4 H d\\, d_h$", "MLP parameters $2 m d$")
    axes.grid(False)
    x, y = axes.get_xlim(), axes.get_ylim()
    floor = 4 * first["d"] * (first["S"] + first["R"])
    axes.axvline(floor, color="white", linestyle=":", linewidth=1.8, label=r"floor: $H d_h = S + R$")
    if total := min((r["n_params"] for r in rows if r["accuracy"] >= 0.99), default=None):
        along = np.geomspace(x[0], min(total * 0.999, x[1]), 200)
        axes.plot(along, total - along, color="#d1622b", linewidth=1.6,
                  label=f"{total} parameters in all, the fewest with 99%")  # fmt: skip
    axes.set(xlim=x, ylim=y)
    axes.legend(loc="lower left", fontsize=7.5, framealpha=0.85, facecolor="#555555", labelcolor="white")
    return canvas


def _edges(values: Sequence[float]) -> np.ndarray:
    """Borders half-way between neighbours, in the logarithm."""
    if len(values) == 1:
        return np.array([values[0] / 2, values[0] * 2])
    middle = np.sqrt(np.multiply(values[1:], values[:-1], dtype=float))
    return np.array([values[0] ** 2 / middle[0], *middle, values[-1] ** 2 / middle[-1]])


HEATMAP_FIGURE = Figure(
    "heatmap", "Attention and MLP parameters stand in for each other", "figure 4, right",
    "Accuracy over all S R facts, for attention parameters 4 H d d_h (across) and MLP parameters 2 m d (up). On the "
    "drawn curve the total is constant; left of the dotted line the heads have fewer dimensions than there are "
    "subjects and relations. The authors' axes leave out the factors 4 and 2.",
    HEATMAP, lambda grid: [FactAccuracy.of(grid, H=H, m=m) for H, m in product(grid.H, grid.m)], plot_heatmap,
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

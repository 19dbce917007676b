"""Figures 4 (left), 7, 8 and 9: facts stored against parameters.

By preset 'quick' each shape has two sizes, one four times the other, and three seeds: few cells that decide.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from operator import itemgetter

from facthold.lab import Cell, Figure, Values, style
from facthold.lab.fields import Counts, ProtocolName, Repeats
from facthold.measure.scaling import Fit
from facthold.studies.judging import columns, constant, exponent, facts, grouped, n_params
from facthold.studies.memories.figures import half_octaves
from facthold.studies.transformers.fact_capacity import GROWTH, FactCapacity, in_the_middle, in_words, shape
from facthold.theory.bounds import FACTS_A_PARAMETER
from facthold.train.protocols import AUTHORS

RATIOS = (0.25, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Grid:
    """Shapes and sizes to search."""

    shapes: tuple[tuple[float, float], ...]  # pairs (alpha, beta): H d_h = alpha d, m = beta d
    H: Counts
    d: Counts  # of every shape
    sizes: tuple[tuple[float, float, int], ...] = ()  # (alpha, beta, d), one by one, beside these
    D: int = 8  # answers per relation; 0: as many as subjects
    growth: str = "S=R"
    table: str = "random"
    variant: str = "code"
    protocol: ProtocolName = "transformer-code"
    rule: str = "best"
    n_seeds: Repeats = 3
    tolerance: float = 0.0
    start: float = 1.0  # where each search starts, as a multiple of the authors' guide line


def cells(grid: Grid) -> list[Cell]:
    """Of heads with at least one dimension."""
    sizes = [(alpha, beta, d) for (alpha, beta), d in product(grid.shapes, grid.d)] + [*grid.sizes]
    models = [(H, alpha, beta, d) for H, (alpha, beta, d) in product(grid.H, sizes) if shape(alpha, beta, H, d).d_h > 0]
    return [FactCapacity.of(grid, alpha=alpha, beta=beta, H=H, d=d, D=grid.D or None) for H, alpha, beta, d in models]


def plot(rows: Sequence[Values]) -> "style.Canvas":
    """A panel for each H, a series for each (alpha, beta)."""
    rows = [in_the_middle(r) for r in rows]
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
    training += ", judged as the authors do" if first["rule"] == AUTHORS else ""
    return f"Transformers, H={H}, ${first['growth']}$, {answers}\n({training})"


def fits(rows: Sequence[Values]) -> list[Fit]:
    """Slope and constant of facts against parameters, over all shapes and for each."""
    found: list[Values] = [r for r in map(in_the_middle, rows) if r["facts"] is not None]
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
    # The MLP has 2/3, 1/3, 2/3 and 1/9 of the parameters. d such that H d_h is alpha d without rounding.
    shapes=(), H=(8,), d=ALL_D, protocol="transformer-short", tolerance=0.15, start=0.65,
    sizes=((0.5, 2.0, 16), (0.5, 2.0, 32), (1.0, 1.0, 16), (1.0, 1.0, 32), (1.0, 4.0, 16), (1.0, 4.0, 32),
           (2.0, 0.5, 12), (2.0, 0.5, 24)),
)  # fmt: skip
# For the figures that vary another thing, most of which leave room for fewer facts: a search that starts below its
# capacity is quicker than one that starts above.
FEWER = replace(QUICK, sizes=QUICK.sizes[:4], start=0.5)
BALANCED = replace(FEWER, sizes=((1.0, 1.0, 16), (1.0, 1.0, 32)))  # with 16 heads alpha = 0.5 has none at d = 16
SMOKE = replace(
    QUICK, shapes=((2.0, 1.0),), d=(8, 11), sizes=(), protocol="transformer-smoke", tolerance=0.5, n_seeds=1,
    start=0.3,
)  # fmt: skip

CAPTION = (
    "The largest number of facts S R that a one-layer transformer learns to 99%, against its parameters "
    "4 H d d_h + 2 m d. Points: mean over seeds; bars: smallest and largest. Of a search that ends with a bracket, the "
    "middle."
)
SEES = "Facts grow in proportion to parameters, near the authors' line, for every shape of transformer."
DIFFERS = (
    "The protocol is that of the authors' code; preset quick trains for half as long, at fewer sizes. A run "
    'counts by every fact, where the authors ask 1,024 drawn prompts (rule = "authors" in a config).'
)


def _figure(
    name: str,
    title: str,
    caption: str,
    quick: Grid = FEWER,
    paper: Grid = PAPER,
    smoke: Grid = SMOKE,
    **changes: object,
) -> Figure:
    """One of the four: the same grids with some values changed."""
    presets = {"smoke": smoke, "quick": quick, "paper": paper}
    changed = {preset: replace(grid, **changes) for preset, grid in presets.items()}  # type: ignore[arg-type]
    return Figure(
        name, title, name.replace("fig", "figure "), caption, changed, cells, plot, fits, sees=SEES, differs=DIFFERS
    )


FIGURES = (
    _figure("fig4", "Facts in transformers of many shapes", CAPTION, QUICK),
    _figure("fig7", "Facts in transformers with 4 and 16 heads", CAPTION, BALANCED,
            smoke=replace(SMOKE, d=SMOKE.d[:1]), H=(4, 16)),
    _figure("fig8", "Facts in transformers, each with an answer of its own",
            f"{CAPTION} Here D = S and no two facts share an answer.", paper=MORE_HEADS, D=0, table="balanced"),
    _figure("fig9", "Facts in transformers, many subjects and few relations", f"{CAPTION} Here S = R^2.",
            paper=MORE_HEADS, growth="S=R^2"),
)  # fmt: skip

"""How near do models come to the fewest bits? Lower bound over bits used, for every method."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import LogLocator

from facthold.lab import style
from facthold.lab.cells import Cell
from facthold.lab.figure import Figure, Values
from facthold.measure.scaling import Fit
from facthold.recipes.methods import LINEAR, LOW_RANK
from facthold.studies.bits.bits_used import ALL, GOALS, WRITTEN
from facthold.studies.bits.fact_bits import ROOMIER, TRAINED, FactBits
from facthold.studies.bits.memory_bits import PAPER, WAYS, MemoryBits

LANGUAGE_MODELS = 2.0
"""Bits of knowledge a parameter in large language models, of one table that is learned well (Allen-Zhu and Li)."""
PLAIN = "outer-product, as corollary 2 counts"
OUTER, OUTER_SIGNS = "outer-product", "outer-product, read by signs"
Sizes = tuple[int, ...]
CLOSED = ("hermite-features", "tangent-kernel", "ridge-readout")
SOLVED = ("tangent-convex", "convex-readout", "layerwise")
NARROW = ("values", "values-ridge", "selected", "selected-ridge", "selected-convex")
WIDE = ("attention", "attention-full", "attention-mlp")


@dataclass(frozen=True)
class Grid:
    """Which methods at which sizes. An empty list leaves a group out."""

    linear: Sizes = ()
    """d of the outer product, read by arg max."""
    low_rank: Sizes = ()
    closed: Sizes = ()
    """d of MLP memories in closed form; m = ``ratio`` d."""
    solved: Sizes = ()
    """d of MLP memories by convex problems."""
    trained_linear: Sizes = ()
    trained_mlp: Sizes = ()
    on_grid_linear: Sizes = ()
    on_grid_mlp: Sizes = ()
    signs: Sizes = ()
    """d of memories that are read by signs."""
    ratio: int = 4
    loads: tuple[float, ...] = (0.4, 0.55, 0.7, 0.85, 1.0)
    narrow: tuple[str, ...] = NARROW
    """Constructions of transformers with a small d."""
    tables: Sizes = ()
    """S = R of the tables that they are built for."""
    wide_tables: Sizes = ()
    """S = R for the constructions that need a large d."""
    trained: Sizes = ()
    """S = R of the tables that transformers are trained on."""
    levels: tuple[int, ...] = (15,)
    """Grids that transformers are trained on, besides being rounded afterwards."""
    D: int = 8
    rooms: tuple[float, ...] = (1.0, 1.5, 2.2)
    trained_rooms: tuple[float, ...] = (1.5, 2.2)
    protocol: str = "transformer-short"
    n_seeds: int = 1


PRESETS = {
    "smoke": Grid(linear=(16, 24), on_grid_linear=(16,), signs=(16, 24), loads=(0.6, 1.0),
                  narrow=("values",), tables=(4,), rooms=(1.0,)),
    "quick": Grid(linear=(32, 64, 128), low_rank=(32, 64, 128), closed=(16, 32, 48), solved=(8, 12, 16),
                  trained_linear=(24, 32, 48), trained_mlp=(8, 12, 16), on_grid_linear=(32, 48, 64),
                  on_grid_mlp=(12, 16, 24), signs=(64, 128, 256), tables=(8, 12, 16), wide_tables=(4, 6, 8),
                  trained=(12, 16, 20)),
    "paper": Grid(linear=(32, 64, 128, 256), low_rank=(32, 64, 128, 256), closed=(32, 64, 96), solved=(11, 16, 22, 32),
                  trained_linear=(32, 64, 96, 128), trained_mlp=(11, 16, 22, 32), on_grid_linear=(32, 64, 96, 128),
                  on_grid_mlp=(16, 24, 32), signs=(64, 128, 256, 512), tables=(8, 16, 24, 32),
                  wide_tables=(4, 8, 12), trained=(16, 24, 32, 48), levels=(7, 15, 31), protocol="transformer-code",
                  n_seeds=3),
}  # fmt: skip


def cells(grid: Grid) -> list[Cell]:
    return [*_memories(grid), *_transformers(grid)]


def _memories(grid: Grid) -> Iterator[Cell]:
    groups: list[tuple[Sequence[str], Sizes, str]] = [
        ((PAPER, "outer-product"), grid.linear, "argmax"),
        (("low-rank",), grid.low_rank, "argmax"),
        (CLOSED, grid.closed, "argmax"),
        (SOLVED, grid.solved, "argmax"),
        (("train:linear-code",), grid.trained_linear, "argmax"),
        (("train:mlp-text",), grid.trained_mlp, "argmax"),
        ([name for name in WAYS if name.startswith("on-grid:linear")], grid.on_grid_linear, "argmax"),
        ([name for name in WAYS if name.startswith("on-grid:mlp")], grid.on_grid_mlp, "argmax"),
        (("outer-product", "one-bit"), grid.signs, "signs"),
    ]
    for names, sizes, reading in groups:
        for name in names:
            family = WAYS[name].family
            for d in sizes:
                m = 0 if family == LINEAR else d // 2 if family == LOW_RANK else grid.ratio * d
                yield MemoryBits(
                    method=name, d=d, m=m, reading=reading, loads=grid.loads, seeds=tuple(range(grid.n_seeds))
                )


def _transformers(grid: Grid) -> Iterator[Cell]:
    seeds = tuple(range(grid.n_seeds))
    for names, tables in ((grid.narrow, grid.tables), (WIDE, grid.wide_tables)):
        for name in names:
            for S in tables:
                size: dict[str, Any] = {"S": S, "R": S, "D": grid.D, "rooms": grid.rooms, "seeds": seeds}
                yield FactBits(model=name, **size, **_dimensions(name, S))
    for S in grid.trained:
        size = {"S": S, "R": S, "D": grid.D, "rooms": grid.trained_rooms, "seeds": seeds, "protocol": grid.protocol}
        yield FactBits(model=TRAINED, **size)
        for levels in grid.levels:
            roomier = {"rooms": tuple(ROOMIER * room for room in grid.trained_rooms)}
            yield FactBits(model=TRAINED, levels=levels, **size | roomier)


def _dimensions(name: str, S: int) -> dict[str, Any]:
    """What a construction needs beside the size that is searched, and where the search starts."""
    if name == "attention":
        return {"d": 64 * S, "guess": 16 * S, "per_head": 4}
    if name == "attention-full":
        return {"guess": 16 * S}
    if name == "attention-mlp":
        return {"d": 16 * S + 1, "guess": 24 * S}
    if name.startswith("selected"):
        return {"d": S + 4, "guess": 3 * S}
    return {"guess": 2 * S}


def name_of(r: Values) -> str:
    """A method as the legend says it."""
    if r["kind"] == "memory-bits":
        if r["method"] == PAPER:
            return PLAIN
        return r["method"] + (", read by signs" if r["reading"] == "signs" else "")
    return f"{r['model']}, {r['levels']} levels" if r["levels"] else r["model"]


def best(r: Values, goal: float = GOALS[0], count: str = ALL) -> Values | None:
    """The best measured point of a cell; None where there is none, or where no weight is fixed and all are written."""
    found = [row for row in r["best"] if row["goal"] == goal]
    return next((row for row in found if row["count"] == count), None)


def plot(rows: Sequence[Values]) -> Canvas:
    canvas, (left, middle, right) = style.panels(3, width=5.6, height=5.0)
    memories = [r for r in rows if r["kind"] == "memory-bits"]
    facts = [r for r in rows if r["kind"] == "fact-bits"]
    for axes, ours, title in (
        (left, memories, "Memories, 99% of random associations"),
        (middle, facts, "Transformers, 99% of random facts"),
    ):
        style.loglog(axes, title, "bits that no model can do without", "lower bound / bits used")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0,)))  # from a few bits to ten thousands
        _curves(axes, ours)
        axes.axhline(1, **style.GUIDE)
    style.loglog(right, "Bits a parameter", "bits a weight that are used", "bits a weight of facts, lower bound")
    _clouds(right, memories, facts)
    for axes in (left, middle):
        handles, labels = axes.get_legend_handles_labels()
        if handles:
            below: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.13), "ncols": 2}
            axes.legend(handles, labels, fontsize=6.5, frameon=False, **below)
    return canvas


def _curves(axes: Axes, rows: Sequence[Values]) -> None:
    names = sorted({name_of(r) for r in rows}, key=lambda name: -_top(rows, name))
    for i, name in enumerate(names):
        ours = [r for r in rows if name_of(r) == name]
        colour, marker = style.COLOURS[i % len(style.COLOURS)], style.MARKERS[(i + 5 * (i // len(style.COLOURS))) % 12]
        for count, filled in ((ALL, colour), (WRITTEN, "white")):
            points = sorted((p["bound"], p["efficiency"]) for r in ours if (p := best(r, count=count)))
            if points:
                label = name if count == ALL else None
                axes.plot(
                    *zip(*points, strict=True), color=colour, marker=marker, markersize=5, markerfacecolor=filled,
                    linewidth=1, linestyle="-" if count == ALL else ":", label=label,
                )  # fmt: skip


def _clouds(axes: Axes, memories: Sequence[Values], facts: Sequence[Values]) -> None:
    for i, (rows, label) in enumerate(((memories, "memories"), (facts, "transformers"))):
        points = [p for r in rows if (p := best(r))]
        if points:
            axes.plot(
                [p["bits_per_weight"] for p in points], [p["bound_per_weight"] for p in points],
                color=style.COLOURS[i], marker=style.MARKERS[i], linestyle="none", markersize=5, label=label,
            )  # fmt: skip
    x = [1.0, 32.0]
    for share in (1.0, 0.1, 0.01):
        axes.plot(x, [share * v for v in x], **style.GUIDE)
        axes.annotate(f"{share:g}", (x[1], share * x[1]), fontsize=8, color="#555555")
    axes.axhline(LANGUAGE_MODELS, color=style.COLOURS[2], linewidth=1.2, label="2 bits: large language models")
    axes.legend(fontsize=8, frameon=False)


def _top(rows: Sequence[Values], name: str) -> float:
    return max((p["efficiency"] for r in rows if name_of(r) == name and (p := best(r))), default=0.0)


def fits(rows: Sequence[Values]) -> list[Fit]:
    """Nothing is fitted here."""
    return []


def ranking(rows: Sequence[Values], goal: float = GOALS[0], count: str = ALL) -> list[tuple[str, float, int]]:
    """Each method with its best efficiency and the number of sizes that were measured, the best method first."""
    found = {}
    for name in {name_of(r) for r in rows}:
        points = [p["efficiency"] for r in rows if name_of(r) == name and (p := best(r, goal, count))]
        if points:
            found[name] = (max(points), len(points))
    return sorted(((name, *values) for name, values in found.items()), key=lambda entry: -entry[1])


def says(rows: Sequence[Values]) -> list[str]:
    """The methods by their best efficiency at 99%, all weights counted."""
    ranked = ranking(rows)
    written = {name: value for name, value, _ in ranking(rows, count=WRITTEN)}
    lines = []
    for name, value, n in ranked:
        also = f"; {written[name]:.1%} without weights that do not depend on the facts" if name in written else ""
        lines.append(f"{name}: {value:.1%} at best of {n} size{'s' * (n > 1)}{also}")
    if paper := {name: value for name, value, _ in ranked}.get(PLAIN):
        own = {name: value for name, value, _ in ranked}
        also = "".join(
            f", {ranked[0][1] / own[name]:.1f} times {words}"
            for name, words in ((OUTER, "that on its own coarsest grid"), (OUTER_SIGNS, "that read by signs too"))
            if name in own
        )
        lines.append(f"the best is {ranked[0][1] / paper:.0f} times the outer product as corollary 2 counts it{also}")
    return lines


FIGURE = Figure(
    name="efficiency",
    title="Bits that no model can do without, over the bits that a model uses",
    place="beyond the paper: corollary 2 and section 6, measured",
    caption=(
        "Left and middle: the counting bound of a random table over the fewest bits at which a model still recalls 99% "
        "of it, every weight on a uniform grid, scales counted. Each point is the best of several loads (how many "
        "associations one memory stores, how large a transformer is for its facts). Dotted, open: without the weights "
        "that do not depend on the facts, such as random features. Right: the same points by bits a weight; diagonals "
        "are efficiencies, the line is what Allen-Zhu and Li report for large language models."
    ),
    presets=PRESETS,
    cells=cells,
    plot=plot,
    fits=fits,
    says=says,
)

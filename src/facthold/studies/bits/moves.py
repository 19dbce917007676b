"""What moves the efficiency of a transformer: the number of answers, the shape of the table, the shape of the model."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure as Canvas

from facthold.lab import style
from facthold.lab.cells import Cell
from facthold.lab.figure import Figure, Values
from facthold.measure.scaling import Fit
from facthold.studies.bits.bits_used import ALL, GOALS, WRITTEN
from facthold.studies.bits.efficiency import best
from facthold.studies.bits.fact_bits import ROOMIER, TRAINED, FactBits

BUILT = "values"


@dataclass(frozen=True)
class Grid:
    """One table in the middle, and what is changed about it or about the model, one thing at a time."""

    S: int
    R: int
    D: int
    answers: tuple[int, ...]
    """Other D."""
    sides: tuple[tuple[int, int], ...]
    """Other (S, R) with as many facts."""
    shapes: tuple[tuple[float, float], ...]
    """Other (alpha, beta) of trained models."""
    levels: tuple[int, ...]
    """Grids that models are trained on; 0: rounded afterwards."""
    rooms: tuple[float, ...] = (1.5, 2.2)
    protocol: str = "transformer-short"
    n_seeds: int = 1


PRESETS = {
    "smoke": Grid(S=4, R=4, D=4, answers=(2,), sides=((8, 2),), shapes=(), levels=(), rooms=(1.0,)),
    "quick": Grid(S=16, R=16, D=8, answers=(2, 32), sides=((64, 4), (4, 64)),
                  shapes=((2.0, 0.0), (1.0, 1.0), (1.0, 8.0), (0.5, 8.0)), levels=(7, 15, 31)),
    "paper": Grid(S=32, R=32, D=8, answers=(2, 4, 16, 32), sides=((256, 4), (64, 16), (16, 64), (4, 256)),
                  shapes=((2.0, 0.0), (2.0, 2.0), (1.0, 1.0), (1.0, 2.0), (1.0, 8.0), (0.5, 8.0)),
                  levels=(7, 15, 31, 63), protocol="transformer-code", n_seeds=3),
}  # fmt: skip


def cells(grid: Grid) -> list[Cell]:
    """In the smoke preset nothing is trained."""
    seeds = tuple(range(grid.n_seeds))
    common: dict[str, Any] = {"rooms": grid.rooms, "seeds": seeds}
    tables = [
        (grid.S, grid.R, grid.D),
        *((grid.S, grid.R, D) for D in grid.answers),
        *((*s, grid.D) for s in grid.sides),
    ]
    found: list[Cell] = [
        FactBits(model=BUILT, S=S, R=R, D=D, guess=2 * max(S, R), **common) for S, R, D in tables
    ]  # fmt: skip
    if grid.levels:
        found += _trained(grid, tables, common | {"protocol": grid.protocol})
    return found


def _trained(grid: Grid, tables: Sequence[tuple[int, int, int]], common: dict[str, Any]) -> Iterator[Cell]:
    for S, R, D in tables:
        yield FactBits(model=TRAINED, S=S, R=R, D=D, **common)
    middle: dict[str, Any] = {"model": TRAINED, "S": grid.S, "R": grid.R, "D": grid.D, **common}
    for alpha, beta in grid.shapes:
        yield FactBits(alpha=alpha, beta=beta, **middle)
    for levels in grid.levels:
        yield FactBits(levels=levels, **middle | {"rooms": tuple(ROOMIER * room for room in grid.rooms)})


Key = Callable[[Values], Any]
PANELS: tuple[tuple[str, Key, Key, Key], ...] = (
    ("answers $D$", lambda r: r["D"], lambda r: f"{r['D']}", lambda r: (r["S"], r["R"], *_model(r))),
    ("$S : R$", lambda r: r["S"] / r["R"], lambda r: f"{r['S']} : {r['R']}", lambda r: (r["D"], *_model(r))),
    (
        r"$\alpha = Hd_h/d$, $\beta = m/d$", lambda r: (r["beta"] / r["alpha"], r["beta"]),
        lambda r: f"{r['alpha']:g}, {r['beta']:g}", lambda r: (r["S"], r["R"], r["D"], r["model"], r["levels"]),
    ),
    (
        "levels in training", lambda r: r["levels"] or 1 << 20,
        lambda r: f"{r['levels']}" if r["levels"] else "rounded\nafterwards",
        lambda r: (r["S"], r["R"], r["D"], r["model"], r["alpha"], r["beta"]),
    ),
)  # fmt: skip
"""What changes, its order, its name, and what must be the same along a line."""


def _model(r: Values) -> tuple[Any, ...]:
    return r["model"], r["alpha"], r["beta"], r["levels"]


def lines(rows: Sequence[Values], order: Key, fixed: Key) -> list[list[Values]]:
    """Rows that differ in one thing alone, at least two of them, in its order."""
    groups: dict[Any, list[Values]] = {}
    for r in rows:
        if best(r):
            groups.setdefault(fixed(r), []).append(r)
    found = [sorted(group, key=order) for group in groups.values()]
    return [group for group in found if len({str(order(r)) for r in group}) > 1]


def plot(rows: Sequence[Values]) -> Canvas:
    canvas, panels = style.panels(4, width=4.2, height=4.2)
    for axes, (title, order, name, fixed) in zip(panels, PANELS, strict=True):
        ours = lines(rows, order, fixed)
        places = sorted({(order(r), name(r)) for group in ours for r in group})
        x = {label: i for i, (_, label) in enumerate(places)}
        for group in ours:
            colour = 0 if group[0]["model"] == TRAINED else 1
            for count, filled in ((ALL, True), (WRITTEN, False)):
                points = [(x[name(r)], p["efficiency"]) for r in group if (p := best(r, count=count))]
                if points:
                    axes.plot(
                        *zip(*points, strict=True), color=style.COLOURS[colour], marker=style.MARKERS[colour],
                        markerfacecolor=style.COLOURS[colour] if filled else "white",
                        linestyle="-" if filled else ":", label=group[0]["model"] if filled else None,
                    )  # fmt: skip
        axes.set(title=title, ylabel="lower bound / bits used", ylim=(0, None))
        axes.set_xticks(list(x.values()), list(x), fontsize=8)
        axes.grid(True, axis="y", alpha=0.25, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=8, frameon=False)
    return canvas


def fits(rows: Sequence[Values]) -> list[Fit]:
    """Nothing is fitted here."""
    return []


def says(rows: Sequence[Values]) -> list[str]:
    """Each line of the panels in numbers."""
    said = []
    for title, order, name, fixed in PANELS:
        plain = title.replace("$", "").replace("\\", "")
        for group in lines(rows, order, fixed):
            points = ", ".join(f"{name(r)}: {p['efficiency']:.1%}".replace("\n", " ") for r in group if (p := best(r)))
            said.append(f"{group[0]['model']}, {plain}: {points}")
    return said


FIGURE = Figure(
    name="moves",
    title="What moves the efficiency of a transformer",
    place="beyond the paper: section 6, measured",
    caption=(
        f"Lower bound over bits used at {GOALS[0]:.0%} recall, as in the figure efficiency: the best of several sizes, "
        "one thing changed at a time. Dotted, open: without the weights that do not depend on the facts. 'levels in "
        "training': every weight is on a grid of so many levels during training (straight-through gradients); these "
        f"models have {ROOMIER:g} times the parameters, as they learn fewer facts."
    ),
    presets=PRESETS,
    cells=cells,
    plot=plot,
    fits=fits,
    says=says,
)

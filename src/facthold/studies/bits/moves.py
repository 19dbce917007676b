"""What moves the efficiency of a transformer: the number of answers, the shape of the table, the shape of the model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

from facthold.lab import Cell, Figure, Values, style
from facthold.lab.fields import Count, ProtocolName, Repeats
from facthold.studies.bits.efficiency import draw_counts
from facthold.studies.bits.fact_bits import ROOMIER, TRAINED, FactBits
from facthold.studies.bits.memory_bits import GOALS, best
from facthold.studies.judging import grouped

BUILT = "values"


@dataclass(frozen=True)
class Grid:
    """One table in the middle, and what is changed about it or about the model, one thing at a time."""

    S: Count
    R: Count
    D: Count
    answers: tuple[int, ...]  # other D
    sides: tuple[tuple[int, int], ...]  # other (S, R) with as many facts
    shapes: tuple[tuple[float, float], ...]  # other (alpha, beta) of trained models
    levels: tuple[int, ...]  # grids that models are trained on, besides being rounded afterwards; none: no training
    rooms: tuple[float, ...] = (1.5, 2.2)
    protocol: ProtocolName = "transformer-short"
    n_seeds: Repeats = 1


PRESETS = {
    "smoke": Grid(S=4, R=4, D=4, answers=(2,), sides=(), shapes=(), levels=(), rooms=(1.0,)),
    "quick": Grid(S=16, R=16, D=8, answers=(2, 32), sides=((64, 4), (4, 64)),
                  shapes=((2.0, 0.0), (1.0, 1.0), (1.0, 8.0), (0.5, 8.0)), levels=(7, 15, 31)),
    "paper": Grid(S=32, R=32, D=8, answers=(2, 4, 16, 32), sides=((256, 4), (64, 16), (16, 64), (4, 256)),
                  shapes=((2.0, 0.0), (2.0, 2.0), (1.0, 1.0), (1.0, 2.0), (1.0, 8.0), (0.5, 8.0)),
                  levels=(7, 15, 31, 63), protocol="transformer-code", n_seeds=3),
}  # fmt: skip


def cells(grid: Grid) -> list[Cell]:
    middle: dict[str, Any] = {"S": grid.S, "R": grid.R, "D": grid.D}
    tables = [middle, *(middle | {"D": D} for D in grid.answers), *(middle | {"S": S, "R": R} for S, R in grid.sides)]
    common: dict[str, Any] = {"rooms": grid.rooms, "seeds": tuple(range(grid.n_seeds))}
    built: list[Cell] = [FactBits(model=BUILT, **t, guess=2 * max(t["S"], t["R"]), **common) for t in tables]
    if not grid.levels:
        return built
    roomier = {"rooms": tuple(ROOMIER * room for room in grid.rooms)}
    changes = [
        *tables,
        *(middle | {"alpha": alpha, "beta": beta} for alpha, beta in grid.shapes),
        *(middle | roomier | {"levels": levels} for levels in grid.levels),
    ]
    return [*built, *(FactBits(model=TRAINED, protocol=grid.protocol, **common | change) for change in changes)]


class Panel(NamedTuple):
    """What changes along a line, in which order, how it is called, and which fields stay the same."""

    title: str
    order: Callable[[Values], Any]
    name: Callable[[Values], str]
    same: tuple[str, ...]

    def lines(self, rows: Sequence[Values]) -> list[list[Values]]:
        """Rows that differ in one thing alone, at least two of them, in its order."""
        groups = grouped([r for r in rows if best(r)], itemgetter("model", *self.same)).values()
        return [sorted(group, key=self.order) for group in groups if len({str(self.order(r)) for r in group}) > 1]


PANELS = (
    Panel("answers $D$", lambda r: r["D"], lambda r: f"{r['D']}", ("S", "R", "alpha", "beta", "levels")),
    Panel("$S : R$", lambda r: r["S"] / r["R"], lambda r: f"{r['S']} : {r['R']}", ("D", "alpha", "beta", "levels")),
    Panel(
        r"$\alpha = Hd_h/d$, $\beta = m/d$", lambda r: (r["beta"] / r["alpha"], r["beta"]),
        lambda r: f"{r['alpha']:g}, {r['beta']:g}", ("S", "R", "D", "levels"),
    ),
    Panel(
        "levels in training", lambda r: r["levels"] or 1 << 20,
        lambda r: f"{r['levels']}" if r["levels"] else "rounded\nafterwards", ("S", "R", "D", "alpha", "beta"),
    ),
)  # fmt: skip


def plot(rows: Sequence[Values]) -> "style.Canvas":
    canvas, all_axes = style.panels(4, width=4.2, height=4.2)
    for axes, panel in zip(all_axes, PANELS, strict=True):
        lines = panel.lines(rows)
        places = sorted({(panel.order(r), panel.name(r)) for line in lines for r in line})
        x = {name: i for i, (_, name) in enumerate(places)}
        for line in lines:
            model = line[0]["model"]
            draw_counts(axes, line, lambda r, p, x=x, panel=panel: x[panel.name(r)], model, int(model != TRAINED))  # type: ignore[misc]
        axes.set(title=panel.title, ylabel="lower bound / bits used", ylim=(0, None))
        axes.set_xticks(list(x.values()), list(x), fontsize=8)
        style.frame(axes, grid="y")
        style.legend(axes)
    return canvas


def says(rows: Sequence[Values]) -> list[str]:
    """Each line of the panels in numbers."""
    result = []
    for panel in PANELS:
        plain = panel.title.replace("$", "").replace("\\", "")
        for line in panel.lines(rows):
            points = [f"{panel.name(r)}: {p['efficiency']:.1%}".replace("\n", " ") for r in line if (p := best(r))]
            result.append(f"{line[0]['model']}, {plain}: {', '.join(points)}")
    return result


FIGURE = Figure(
    "moves", "What moves the efficiency of a transformer", "beyond the paper: section 6, measured",
    f"Lower bound over bits used at {GOALS[0]:.0%} recall, as in the figure efficiency: the best of several sizes, "
    "one thing changed at a time. Dotted, open: without the weights that do not depend on the facts. 'levels in "
    "training': every weight is on a grid of so many levels during training (straight-through gradients); these "
    f"models have {ROOMIER:g} times the parameters, as they learn fewer facts.",
    PRESETS, cells, plot, says=says,
    sees="One thing is changed at a time: the higher a point, the nearer the model is to the bound.",
)  # fmt: skip

"""Does a law measured on random tables predict the size that real facts need?"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from facthold.lab import style
from facthold.lab.cells import Cell
from facthold.lab.figure import Figure, Values
from facthold.measure.scaling import Fit, fit_constant
from facthold.studies.judging import grouped
from facthold.studies.real_facts.base import RANDOM
from facthold.studies.real_facts.table_size import TableSize

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

FACTOR = 1.5  # half the width of the band around the diagonal: a prediction in it is called near


class Law(NamedTuple):
    """Parameters proportional to a number that is known from the table alone."""

    field: str
    name: str
    unit: str


LAWS = (
    Law("facts", "facts (the paper)", "fact"),
    Law("nats", r"$\Sigma_r N_r \ln A_r$ (figure 1)", "nat"),
    Law("bits", "bits of the table", "bit"),
)
SOURCES = (RANDOM, "countries", "elements", "airports")
WHOLE: Mapping[str, str] = {"n_params": "all parameters", "mlp_params": "MLP parameters"}
"""What is predicted: attention's part hardly grows with the facts, so the MLP is judged by itself too."""


@dataclass(frozen=True)
class Grid:
    """Tables. Of real facts so many subjects, taken at random; 0: all of them."""

    random: tuple[tuple[int, int, int], ...]  # (S, R, D)
    countries: tuple[int, ...] = ()
    elements: tuple[int, ...] = ()
    airports: tuple[int, ...] = ()


_random = (
    (60, 5, 8), (60, 8, 60), (120, 5, 120), (120, 8, 16), (250, 5, 4), (250, 5, 60), (250, 8, 250), (500, 5, 16),
    (500, 8, 125), (1000, 5, 30), (1000, 5, 500),
)  # fmt: skip
PRESETS = {
    "smoke": Grid(random=((12, 2, 4), (16, 3, 8), (24, 2, 24)), countries=(12, 24)),
    "quick": Grid(random=_random, countries=(60, 120, 0), elements=(0,), airports=(125, 250, 500, 1000)),
    "paper": Grid(
        random=(*_random, (1000, 8, 1000), (2000, 5, 8), (2000, 8, 250), (4000, 5, 2000), (4000, 8, 60)),
        countries=(60, 120, 0), elements=(30, 60, 0), airports=(125, 250, 500, 1000, 2000, 4000, 8000),
    ),
}  # fmt: skip


def cells(grid: Grid) -> list[Cell]:
    random = [TableSize(S=S, R=R, D=D) for S, R, D in grid.random]
    # By the size as the seed: otherwise a sample would have the smaller ones in it.
    return [*random, *(TableSize(source=name, S=S, seed=S) for name in SOURCES[1:] for S in getattr(grid, name))]


def predictions(random: Sequence[Values], real: Sequence[Values], field: str) -> Iterator[tuple[Law, Fit, list[float]]]:
    """Each law with its constant on the random tables, and what it predicts for the real ones; none for one table."""
    for law in LAWS if len(random) > 1 else ():
        sizes = [r[law.field] for r in random], [r[field] for r in random]
        fit = fit_constant(f"random: {WHOLE[field]} per {law.unit}", *sizes)
        yield law, fit, [fit.constant * r[law.field] for r in real]


def fits(rows: Sequence[Values]) -> list[Fit]:
    """For each law its constant on random tables alone, and how real tables compare: found / predicted."""
    random, real = _split(rows)
    result = []
    for field, what in WHOLE.items():
        for law, fit, predicted in predictions(random, real, field):
            result.append(fit)
            if len(real) > 1:
                name = f"real: {what}, found / predicted by {law.field}"
                result.append(fit_constant(name, predicted, [r[field] for r in real]))
    return result


def plot(rows: Sequence[Values]) -> "Canvas":
    canvas, (left, *others) = style.panels(3, width=5.4, height=4.9)
    random, real = _split(rows)
    _sizes(left, random, real)
    for axes, field in zip(others, WHOLE, strict=True):
        _predicted(axes, random, real, field)
    missing = len(rows) - len(random) - len(real)
    canvas.suptitle(
        "The smallest models found (recipe gated) of random and of real tables"
        + (f"; no size found for {missing} of {len(rows)}" if missing else ""), fontsize=11,
    )  # fmt: skip
    return canvas


def _sizes(axes: "Axes", random: Sequence[Values], real: Sequence[Values]) -> None:
    """Parameters found against facts: all of them as full marks, the MLP's as hollow ones."""
    style.loglog(axes, "Parameters that hold all facts", "facts", "parameters")
    for name, ours in _by_source([*random, *real]).items():
        facts, label = [r["facts"] for r in ours], f"{name} tables" if name == RANDOM else name
        axes.plot(facts, [r["n_params"] for r in ours], label=label, **_look(name))
        axes.plot(facts, [r["mlp_params"] for r in ours], **_look(name) | {"markerfacecolor": "none"})
    axes.plot([], [], "o", color="#555555", markerfacecolor="none", label="MLP's part (hollow)")
    for _, law, _ in list(predictions(random, real, "n_params"))[:1]:
        x = np.array(sorted(r["facts"] for r in [*random, *real]))
        style.guide(axes, x, law.constant * x, f"{law.constant:.3g} per fact (mean of the random tables)")
    style.legend(axes)


def _predicted(axes: "Axes", random: Sequence[Values], real: Sequence[Values], field: str) -> None:
    """Predicted against found, for each law by its colour and each source by its mark."""
    style.loglog(axes, f"Real tables: {WHOLE[field]}", "predicted from random tables", "found")
    points: list[float] = []
    for (law, _, predicted), colour in zip(predictions(random, real, field), style.COLOURS, strict=False):
        for r, x in zip(real, predicted, strict=True):
            axes.plot(x, r[field], **_look(r["source"], colour))
            points += [x, r[field]]
        near = sum(1 / FACTOR <= r[field] / x <= FACTOR for r, x in zip(real, predicted, strict=True))
        axes.plot([], [], color=colour, linewidth=6, label=f"by {law.name}: {near} of {len(real)} in the band")
    if not points:
        return
    ends = np.array([min(points) / 1.6, max(points) * 1.6])
    band: dict[str, Any] = {"color": "#999999", "alpha": 0.18, "linewidth": 0, "label": f"a factor of {FACTOR}"}
    axes.fill_between(ends, ends / FACTOR, ends * FACTOR, **band)
    axes.plot(ends, ends, **style.GUIDE)
    axes.set(xlim=ends, ylim=(ends[0], ends[1] * 2.5))  # room for the legend
    for name in _by_source(real):
        axes.plot([], [], **_look(name, "#555555"), label=name)
    style.legend(axes, fontsize=7.5, loc="upper left")


def _split(rows: Sequence[Values]) -> tuple[list[Values], list[Values]]:
    """Random tables and real ones, where a size was found."""
    found = [r for r in rows if r["n_params"] is not None]
    return [r for r in found if r["source"] == RANDOM], [r for r in found if r["source"] != RANDOM]


def _by_source(rows: Sequence[Values]) -> dict[str, list[Values]]:
    return {SOURCES[i]: ours for i, ours in grouped(rows, lambda r: SOURCES.index(r["source"])).items()}


def _look(source: str, colour: str = "") -> dict[str, Any]:
    """The same mark for a source in all panels."""
    i = SOURCES.index(source)
    colour = colour or ("#999999" if source == RANDOM else style.COLOURS[i + 2])
    return {"marker": style.MARKERS[i], "linestyle": "none", "color": colour, "markersize": 6}


FIGURE = Figure(
    name="transfer",
    title="The size that real facts need, predicted from random tables",
    place="beyond the paper, after figures 1 and 4",
    caption=(
        "Left: the parameters 4 H d d_h + 2 m d of the smallest transformers found by the recipe gated that recall "
        "all facts, for random tables and real ones; hollow marks are the MLP's 2 m d. Middle and right: what three "
        "laws, each with one constant fitted on the random tables alone, predict for the real ones, beside what was "
        "found. The fits give the constants and the geometric mean of found / predicted with its 95% interval; it "
        "takes the real tables as independent, and those of one source are less than that. Attention has a size that "
        "a small table needs too, so that the MLP's part is judged by itself beside the total. The recipe takes d, the "
        "number of heads and the first width that it tries from the second law; "
        "the widths are then searched in steps of 1.2."
    ),
    presets=PRESETS, cells=cells, plot=plot, fits=fits,
)  # fmt: skip

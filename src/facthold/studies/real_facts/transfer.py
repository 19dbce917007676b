"""Does a law measured on random tables predict the size that real facts need?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from facthold.lab import style
from facthold.lab.cells import Cell
from facthold.lab.figure import Figure, Values
from facthold.measure.scaling import Fit, fit_constant
from facthold.studies.real_facts.table_size import RANDOM, TableSize

FACTOR = 1.5
"""Half the width of the band around the diagonal: a prediction in it is called near."""


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

    random: tuple[tuple[int, int, int], ...]
    """(S, R, D)."""
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
    real = {"countries": grid.countries, "elements": grid.elements, "airports": grid.airports}
    return [
        *(TableSize(S=S, R=R, D=D) for S, R, D in grid.random),
        # By the size as the seed: otherwise a sample would have the smaller ones in it.
        *(TableSize(source=name, S=S, seed=S) for name, sizes in real.items() for S in sizes),
    ]


def plot(rows: Sequence[Values]) -> Canvas:
    canvas, (left, *others) = style.panels(3, width=5.4, height=4.9)
    found = [r for r in rows if r["n_params"] is not None]
    random, real = _split(found)
    _sizes(left, random, real)
    for axes, (field, what) in zip(others, WHOLE.items(), strict=True):
        _predicted(axes, random, real, field, what)
    missing = len(rows) - len(found)
    canvas.suptitle(
        "The smallest models found (method readout) of random and of real tables"
        + (f"; no size found for {missing} of {len(rows)}" if missing else ""), fontsize=11,
    )  # fmt: skip
    return canvas


def _sizes(axes: Axes, random: Sequence[Values], real: Sequence[Values]) -> None:
    """Parameters found against facts: all of them as full marks, the MLP's as hollow ones."""
    style.loglog(axes, "Parameters that hold all facts", "facts", "parameters")
    for name, ours in _by_source([*random, *real]).items():
        look = _look(name)
        facts = [r["facts"] for r in ours]
        axes.plot(facts, [r["n_params"] for r in ours], label=f"{name} tables" if name == RANDOM else name, **look)
        axes.plot(facts, [r["mlp_params"] for r in ours], **look | {"markerfacecolor": "none"})
    axes.plot([], [], "o", color="#555555", markerfacecolor="none", label="MLP's part (hollow)")
    if len(random) > 1:
        law = fit_constant("facts", [r["facts"] for r in random], [r["n_params"] for r in random])
        x = np.array(sorted(r["facts"] for r in [*random, *real]))
        style.guide(axes, x, law.constant * x, f"{law.constant:.3g} a fact (mean of the random tables)")
    axes.legend(frameon=False, fontsize=8)


def _predicted(axes: Axes, random: Sequence[Values], real: Sequence[Values], field: str, what: str) -> None:
    """Predicted against found, for each law by its colour and each source by its mark."""
    style.loglog(axes, f"Real tables: {what}", "predicted from random tables", "found")
    points = []
    for i, law in enumerate(LAWS):
        predicted = _predict(random, real, law, field)
        if predicted is None:
            continue
        near = 0
        for r, x in zip(real, predicted, strict=True):
            near += bool(1 / FACTOR <= r[field] / x <= FACTOR)
            axes.plot(x, r[field], **_look(r["source"]) | {"color": style.COLOURS[i], "markersize": 6})
            points += [x, r[field]]
        label = f"by {law.name}: {near} of {len(real)} in the band"
        axes.plot([], [], color=style.COLOURS[i], linewidth=6, label=label)
    if points:
        ends = np.array([min(points) / 1.6, max(points) * 1.6])
        axes.fill_between(
            ends, ends / FACTOR, ends * FACTOR, color="#999999", alpha=0.18, linewidth=0, label=f"a factor of {FACTOR}"
        )
        axes.plot(ends, ends, **style.GUIDE)
        axes.set(xlim=ends, ylim=(ends[0], ends[1] * 2.5))  # room for the legend
    for name in _by_source(real):
        axes.plot([], [], **_look(name) | {"color": "#555555"}, label=name)
    if points:
        axes.legend(frameon=False, fontsize=7.5, loc="upper left")


def fits(rows: Sequence[Values]) -> list[Fit]:
    """For each law its constant on random tables alone, and how real tables compare: found / predicted."""
    random, real = _split([r for r in rows if r["n_params"] is not None])
    result = []
    for field, what in WHOLE.items():
        for law in LAWS:
            predicted = _predict(random, real, law, field)
            if predicted is None:
                continue
            result.append(_constant(f"random: {what} a {law.unit}", random, law, field))
            if len(real) > 1:
                found = [r[field] for r in real]
                result.append(fit_constant(f"real: {what}, found / predicted by {law.field}", predicted, found))
    return result


def _constant(name: str, random: Sequence[Values], law: Law, field: str) -> Fit:
    return fit_constant(name, [r[law.field] for r in random], [r[field] for r in random])


def _predict(random: Sequence[Values], real: Sequence[Values], law: Law, field: str) -> list[float] | None:
    """What the law, fitted on the random tables, says of the real ones; None with too few of the former."""
    if len(random) < 2:
        return None
    constant = _constant(law.field, random, law, field).constant
    return [constant * r[law.field] for r in real]


def _split(rows: Sequence[Values]) -> tuple[list[Values], list[Values]]:
    """Random tables, and real ones."""
    return [r for r in rows if r["source"] == RANDOM], [r for r in rows if r["source"] != RANDOM]


def _by_source(rows: Sequence[Values]) -> dict[str, list[Values]]:
    """In one order, however they are stored."""
    names = sorted({r["source"] for r in rows}, key=_place)
    return {name: [r for r in rows if r["source"] == name] for name in names}


def _place(source: str) -> tuple[int, str]:
    return (SOURCES.index(source) if source in SOURCES else len(SOURCES)), source


def _look(source: str) -> dict[str, Any]:
    """The same mark for a source in all panels."""
    i, _ = _place(source)
    colour = "#999999" if source == RANDOM else style.COLOURS[i + 2]
    return {"marker": style.MARKERS[i], "linestyle": "none", "color": colour, "markersize": 6}


FIGURE = Figure(
    name="transfer",
    title="The size that real facts need, predicted from random tables",
    place="beyond the paper, after figures 1 and 4",
    caption=(
        "Left: the parameters 4 H d d_h + 2 m d of the smallest transformers found by the method readout that recall "
        "all facts, for random tables and real ones; hollow marks are the MLP's 2 m d. Middle and right: what three "
        "laws, each with one constant fitted on the random tables alone, predict for the real ones, beside what was "
        "found. The fits give the constants and the geometric mean of found / predicted with its 95% interval; it "
        "takes the real tables as independent, and those of one source are less than that. Attention has a size that "
        "a small table needs too, so that the MLP's part is judged by itself beside the total. The method takes d, the "
        "number of heads and the first width that it tries from the second law; "
        "the widths are then searched in steps of 1.2."
    ),
    presets=PRESETS,
    cells=cells,
    plot=plot,
    fits=fits,
)

"""Edits one after another until the memory breaks, against building again."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import NullLocator

from facthold.lab import style
from facthold.lab.cells import Cell
from facthold.lab.figure import Figure, Values
from facthold.measure.scaling import Fit
from facthold.studies.real_facts.edits_cell import Edits
from facthold.studies.real_facts.storage_cell import READOUT, TRAINED
from facthold.studies.real_facts.table_size import RANDOM
from facthold.studies.transformers.fact_capacity import shape_of


@dataclass(frozen=True)
class Grid:
    """A random table, numbers of edits, and the models that are edited."""

    S: int
    R: int
    D: int
    counts: tuple[int, ...]
    widths: tuple[float, ...]
    """Of readouts, as multiples of the smallest that were found."""
    in_place: tuple[float, ...] = ()
    """Of readouts whose weights are changed where they are, without neurons for a fact alone."""
    trained: tuple[tuple[float, float], ...] = ()
    """(alpha, beta) of trained models."""
    n_params: int = 0
    """Their parameters, about."""
    H: int = 8
    protocol: str = "transformer-short"
    sources: tuple[str, ...] = ()
    """Real facts that are edited too, in a readout of the smallest widths."""
    n_seeds: int = 1


PRESETS = {
    "smoke": Grid(S=12, R=2, D=4, counts=(1, 2, 4, 8), widths=(1.0, 2.0), in_place=(1.0,)),
    "quick": Grid(S=250, R=5, D=60, counts=(1, 2, 5, 10, 20, 50, 100, 200), widths=(1.0, 2.0),
                  in_place=(1.0, 2.0), trained=((1.0, 4.0),), n_params=25_000),
    "paper": Grid(S=250, R=5, D=60, counts=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
                  widths=(1.0, 1.5, 2.0, 3.0), in_place=(1.0, 1.5, 2.0, 3.0), trained=((1.0, 4.0), (2.0, 2.0)),
                  n_params=25_000, protocol="transformer-code", sources=("countries",), n_seeds=3),
}  # fmt: skip


def cells(grid: Grid) -> list[Cell]:
    table: dict[str, Any] = {"S": grid.S, "R": grid.R, "D": grid.D, "counts": grid.counts}
    models: list[dict[str, Any]] = [
        {"model": READOUT, "width": width, "in_place": in_place} | table
        for in_place, widths in ((False, grid.widths), (True, grid.in_place))
        for width in widths
    ]
    models += [
        {"model": TRAINED, "protocol": grid.protocol} | shape_of(alpha, beta, grid.n_params, grid.H) | table
        for alpha, beta in grid.trained
    ]
    models += [{"source": name, "S": 0, "R": 0, "D": 0, "counts": grid.counts} for name in grid.sources]
    return [Edits(**model, seed=seed) for model in models for seed in range(grid.n_seeds)]


def plot(rows: Sequence[Values]) -> Canvas:
    canvas, (new, old, seconds) = style.panels(3, width=5.0, height=4.9)
    groups = _groups(rows)
    drawn = [r for ours in groups.values() for r in ours]
    for i, (name, ours) in enumerate(groups.items()):
        look = {"color": style.COLOURS[i % len(style.COLOURS)], "marker": style.MARKERS[i % len(style.MARKERS)]}
        for j, r in enumerate(ours):
            label: dict[str, Any] = {"label": f"{name}; {_times(ours)}"} if j == 0 else {}
            line: dict[str, Any] = look | {"markersize": 4.5, "linewidth": 1.3, "alpha": 1.0 if len(ours) == 1 else 0.6}
            new.plot(r["counts"], r["efficacy"], **line, **label)
            old.plot(r["counts"], [math.nan if share is None else share for share in r["specificity"]], **line)
            seconds.plot(r["counts"], r["seconds"], **line)
            seconds.axhline(_building(r), color=look["color"], linestyle="--", linewidth=1)
    counts = sorted({n for r in drawn for n in r["counts"]})
    for axes, title, y in (
        (new, "Edited facts that give their new answer", "share of the edited facts"),
        (old, "Untouched facts that are right", "share of the untouched facts"),
        (seconds, "Time: all edits so far, and building again (dashed)", "seconds"),
    ):
        style.loglog(axes, title, "edits, one after another", y)
        axes.set_xticks(counts, [str(n) for n in counts])
        axes.xaxis.set_minor_locator(NullLocator())
    for axes in (new, old):
        axes.axhline(1, **style.GUIDE)
        axes.set(yscale="linear", ylim=(-0.03, 1.05))
    new.plot([], [], **style.GUIDE, label="all facts right")
    canvas.legend(*new.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    if rows:
        canvas.suptitle("; ".join(dict.fromkeys(_table(r) for r in rows)), fontsize=10)
    return canvas


def _groups(rows: Sequence[Values]) -> dict[str, list[Values]]:
    """Rows that differ in their seed alone, in one order however they are stored; without training that diverged."""
    found = [r for r in rows if r["accuracy"] is not None]
    groups: dict[str, list[Values]] = {}
    for r in sorted(found, key=lambda r: (r["source"] != RANDOM, r["model"], r["in_place"], r["width"], _name(r))):
        groups.setdefault(_name(r), []).append(r)
    return groups


def _name(r: Values) -> str:
    where = "" if r["source"] == RANDOM else f" of {r['source']}"
    way = ", in place" if r["in_place"] else ""
    if r["model"] == TRAINED:
        return f"trained{where}, $d={r['d']}$, $m={r['m']}${way}"
    return f"readout{where}, " + ("smallest widths" if r["width"] == 1 else f"{r['width']:g} times as wide") + way


def _times(ours: Sequence[Values]) -> str:
    """Size and what the edits add to it, seconds of one edit, and building again; the mean over seeds."""
    one = fmean(r["seconds"][-1] / r["counts"][-1] for r in ours)
    params, more = fmean(r["n_params"] for r in ours), fmean(r["more_params"][-1] for r in ours)
    right = [r["again"] for r in ours if r["again"] is not None]
    again = f"{fmean(right):.1%} right" if right else "diverged"
    return (
        f"{params:,.0f} + {more:,.0f} parameters; an edit {one:.2g} s; "
        f"building again {fmean(_building(r) for r in ours):.3g} s, {again}"
    )


def _building(r: Values) -> float:
    """Seconds of building, the shorter of the first time and of building again: either may wait for a free lane."""
    return min(r["build_seconds"], r["again_seconds"])


def _table(r: Values) -> str:
    if r["source"] == RANDOM:
        return f"random table, S={r['S']}, R={r['R']}, D={r['D']}: {r['facts']:,} facts"
    return f"{r['source']}: {r['facts']:,} facts"


def fits(rows: Sequence[Values]) -> list[Fit]:
    """Nothing is fitted here."""
    return []


FIGURE = Figure(
    name="edits",
    title="Edits one after another, against building again",
    place="beyond the paper",
    caption=(
        "Facts of the table, each once at most, get another answer of their relation by rank-one changes, one after "
        "another: in the weights that are there (in place), or, where that would cost another fact, by neurons for "
        "this fact alone; the parameters that all edits add stand after the plus. Left: the share of all facts edited "
        "so far that give their new answer. Middle: the share of facts never edited that are right; it starts at what "
        "the model knew. Both are asked in prompts that no edit was made from. Right: the time of all edits so far, "
        "each with its own check on the whole table, and of building again, with the search for the widths (of a "
        "trained model: training), the shorter of two; times are of one machine, with other cells beside. What was "
        "built again after the last edit was asked for every fact too."
    ),
    presets=PRESETS,
    cells=cells,
    plot=plot,
    fits=fits,
)

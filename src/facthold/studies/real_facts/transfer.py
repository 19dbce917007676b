"""Does a law measured on random tables predict the size that real facts need?"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np

from facthold._util.errors import FactholdError
from facthold.facts.table import FactTable
from facthold.lab import Cell, Figure, Result, Values, style
from facthold.lab.fields import Whole
from facthold.measure.capacity import FOUND
from facthold.measure.scaling import Fit, fit_constant
from facthold.studies.judging import columns, grouped
from facthold.studies.real_facts.base import GATED, GATED_SPEC, RANDOM, SourceCell

OF_A_MODEL = (  # values that are None where no model was found
    "accuracy", "smallest_margin", "n_params", "mlp_params", "attention_params", "d", "H", "m", "seconds",
)  # fmt: skip


def answer_nats(table: FactTable) -> float:
    """sum_r N_r ln A_r: figure 1's N ln N for each relation, with its own number of answers."""
    return sum(float((table.relations == r).sum()) * math.log(len(table.A_r(r))) for r in range(table.R))


@dataclass(frozen=True, kw_only=True)
class TableSize(SourceCell):
    """The parameters of the smallest transformer that was found to recall all facts of a table."""

    kind: ClassVar[str] = "table-size"

    n_noise: Whole = 0  # 0: as many as subjects and relations
    variant: str = "text"

    @property
    def spec(self) -> dict[str, Any]:
        return super().spec | GATED_SPEC

    def run(self) -> Result:
        from facthold.knowledge.build import build
        from facthold.measure.bits import table_bits

        table = self.table()
        about = {
            "facts": len(table), "subjects": len(np.unique(table.subjects)), "relations": table.R,
            "answers": table.A, "assumption_1": table.assumption_1, "bits": table_bits(table),
            "nats": answer_nats(table),
        }  # fmt: skip
        try:
            built = build(
                table, recipe=GATED, accuracy=1.0, n_noise=self.n_noise or None, variant=self.variant, seed=self.seed
            )
        except FactholdError as error:  # no width was enough: no size, and not a missing package
            return about | dict.fromkeys(OF_A_MODEL) | {"status": str(error)}
        model, report = built.model, built.report
        mlp = 2 * model.m * model.d
        return about | {
            "status": FOUND, "accuracy": report.recall, "smallest_margin": report.smallest_margin,
            "n_params": built.n_params, "mlp_params": mlp, "attention_params": built.n_params - mlp,
            "d": model.d, "H": model.H, "m": model.m,
            "seconds": report.seconds,  # of the machine that it ran on, with what else ran there
        }  # fmt: skip


FACTOR = 1.5  # half the width of the band around the diagonal: a prediction in it is called near
LAWS = {  # parameters are proportional to a number that is known from the table alone: its name and its unit
    "facts": ("facts (the paper)", "fact"),
    "nats": (r"$\Sigma_r N_r \ln A_r$ (figure 1)", "nat"),
    "bits": ("bits of the table", "bit"),
}
SOURCES = (RANDOM, "countries", "elements", "airports")
WHOLE = {"n_params": "all parameters", "mlp_params": "MLP parameters"}  # attention's part hardly grows with the facts


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
    "smoke": Grid(random=((12, 2, 4), (16, 3, 8), (24, 2, 24)), countries=(12,)),
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


def predictions(random: Sequence[Values], real: Sequence[Values], field: str) -> Iterator[tuple[str, Fit, list[float]]]:
    """Each law with its constant on the random tables, and what it predicts for the real ones; none for one table."""
    for law, (_, unit) in LAWS.items() if len(random) > 1 else ():
        fit = fit_constant(f"random: {WHOLE[field]} per {unit}", *columns(random, itemgetter(law), itemgetter(field)))
        yield law, fit, [fit.constant * r[law] for r in real]


def fits(rows: Sequence[Values]) -> list[Fit]:
    """For each law its constant on random tables alone, and how real tables compare: found / predicted."""
    random, real = _split(rows)
    result = []
    for field, what in WHOLE.items():
        for law, fit, predicted in predictions(random, real, field):
            result.append(fit)
            if len(real) > 1:
                name = f"real: {what}, found / predicted by {law}"
                result.append(fit_constant(name, predicted, [r[field] for r in real]))
    return result


def says(rows: Sequence[Values]) -> list[str]:
    """How often each law is near, what it leaves open, and which tables have no size."""
    random, real = _split(rows)
    lines = []
    for law, _, predicted in predictions(random, real, "mlp_params"):
        near = sum(1 / FACTOR <= r["mlp_params"] / x <= FACTOR for r, x in zip(real, predicted, strict=True))
        lines.append(f"MLP parameters by {law}: {near} of {len(real)} real tables within a factor of {FACTOR:g}")
    if random and real:
        per_fact = [r["mlp_params"] / r["facts"] for r in random]
        share = [r["attention_params"] / r["n_params"] for r in [*random, *real]]
        lines.append(f"MLP parameters per fact of random tables: {min(per_fact):.1f} to {max(per_fact):.1f}")
        lines.append(f"attention's share of all parameters: {min(share):.0%} to {max(share):.0%}")
    lost = [r for r in rows if r["n_params"] is None]
    return lines + ["no size found: {source} S={S} R={R} D={D}".format(**r) for r in lost]


def plot(rows: Sequence[Values]) -> "style.Canvas":
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


def _sizes(axes: "style.Axes", random: Sequence[Values], real: Sequence[Values]) -> None:
    """Parameters found against facts: all of them as full marks, the MLP's as hollow ones."""
    style.loglog(axes, "Parameters that hold all facts", "facts", "parameters")
    for name, ours in _by_source([*random, *real]).items():
        facts, label = [r["facts"] for r in ours], f"{name} tables" if name == RANDOM else name
        axes.plot(facts, [r["n_params"] for r in ours], label=label, **_look(name))
        axes.plot(facts, [r["mlp_params"] for r in ours], **_look(name) | {"markerfacecolor": "none"})
    axes.plot([], [], "o", color="#555555", markerfacecolor="none", label="MLP's part (hollow)")
    for _, fit, _ in list(predictions(random, real, "n_params"))[:1]:
        x = np.array(sorted(r["facts"] for r in [*random, *real]))
        style.guide(axes, x, fit.constant * x, f"{fit.constant:.3g} per fact (mean of the random tables)")
    style.legend(axes)


def _predicted(axes: "style.Axes", random: Sequence[Values], real: Sequence[Values], field: str) -> None:
    """Predicted against found, for each law by its colour and each source by its mark."""
    style.loglog(axes, f"Real tables: {WHOLE[field]}", "predicted from random tables", "found")
    points: list[float] = []
    for (law, _, predicted), colour in zip(predictions(random, real, field), style.COLOURS, strict=False):
        for r, x in zip(real, predicted, strict=True):
            axes.plot(x, r[field], **_look(r["source"], colour))
            points += [x, r[field]]
        near = sum(1 / FACTOR <= r[field] / x <= FACTOR for r, x in zip(real, predicted, strict=True))
        axes.plot([], [], color=colour, linewidth=6, label=f"by {LAWS[law][0]}: {near} of {len(real)} in the band")
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
    "transfer", "The size that real facts need, predicted from random tables",
    "beyond the paper, after figures 1 and 4",
    "Left: the parameters 4 H d d_h + 2 m d of the smallest transformers found by the recipe gated that recall all "
    "facts, for random tables and real ones; hollow marks are the MLP's 2 m d. Middle and right: what three laws, each "
    "with one constant fitted on the random tables alone, predict for the real ones, beside what was found. The fits "
    "give the constants and the geometric mean of found / predicted with its 95% interval; it takes the real tables as "
    "independent, and those of one source are less than that. Attention has a size that a small table needs too, so "
    "that the MLP's part is judged by itself beside the total. The recipe takes d, the number of heads and the first "
    "width that it tries from the second law; the widths are then searched in steps of 1.2.",
    PRESETS, cells, plot, fits, says,
    sees="Real tables lie near the line of found = predicted, though the law was fitted on random tables alone.",
)  # fmt: skip

"""A Matplotlib figure as plotly's panels: one for each axes, so that they can stand side by side or below each other.

What has no counterpart (heat maps, contours) is a panel with its own part of the picture. A point says on a touch
from which cell it comes, with the cell's seeds, where `lab.tracing` knows it.
"""

import io
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from facthold.lab.artists import NoCounterpartError, Trace, bands, bars, kind, line_look, lines, marks, short
from facthold.lab.labels import spans, texts
from facthold.lab.panel import ORIGINS
from facthold.lab.store import Row
from facthold.lab.tracing import Curves, Origin
from facthold.lab.words import as_html, as_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

COLOURBAR = "<colorbar>"  # as Matplotlib names it
MOST_SEEDS = 8  # that are named
VALUES = ("N", "stored", "facts", "size", "n_params", "accuracy", "recall")  # of a seed, the first that it has


def panels(canvas: "Canvas", rows: Sequence[Row]) -> list[Trace] | None:
    """The panels of a figure, as JSON values; None where none of them has a counterpart."""
    known, made = Known(rows), []
    for axes in canvas.axes:
        if axes.axison and axes.get_visible() and axes.get_label() != COLOURBAR:
            try:
                made.append(_panel(axes, known))
            except NoCounterpartError:
                made.append({"title": "", "name": as_text(axes.get_title()), "still": _still(canvas, axes)})
    return made if any("data" in panel for panel in made) else None


def _still(canvas: "Canvas", axes: "Axes") -> bytes:
    """The part of the picture that a panel takes, with the scale of its colours."""
    from matplotlib.transforms import Bbox

    of = [one for one in axes.images + list(axes.collections) if getattr(one, "colorbar", None) is not None]
    parts = [axes, *(one.colorbar.ax for one in of)]
    canvas.draw_without_rendering()
    box = Bbox.union([part.get_tightbbox() for part in parts]).padded(4)
    picture = io.BytesIO()
    canvas.savefig(picture, format="png", dpi=160, bbox_inches=box.transformed(canvas.dpi_scale_trans.inverted()))
    return picture.getvalue()


class Known:
    """What a point can say of the rows that it comes from."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows, self.curves = rows, Curves(rows)

    def points(self, artist: Any, n: int, y: Sequence[float]) -> list[str]:
        """A text for each point, empty where nothing is known of it."""
        origins: list[Origin] | None = getattr(artist, ORIGINS, None)
        if origins is None or len(origins) != n:
            origins = [self.curves.origin(list(y))] * n
        return [self.words(origin) for origin in origins]

    def words(self, origin: Origin) -> str:
        """The cell and its seeds."""
        rows = [self.rows[i] for i in sorted(origin)]
        if not rows:
            return ""
        return _of_one(rows[0]) if len(rows) == 1 else f"{len(rows)} cells, such as {_of_one(rows[0])}"


def _of_one(row: Row) -> str:
    words, per_seed = as_html(row.cell.label), row.result.get("per_seed")
    seeds = [str(seed) for seed in row.spec.get("seeds", [row.spec["seed"]] if "seed" in row.spec else [])]
    if isinstance(per_seed, list) and all(isinstance(one, dict) and "seed" in one for one in per_seed):
        seeds = [_of_seed(one) for one in per_seed]
    return f"{words}<br>{'seed' if len(seeds) == 1 else 'seeds'} {_listed(seeds)}" if seeds else words


def _of_seed(one: Mapping[str, Any]) -> str:
    value = next((one[name] for name in VALUES if isinstance(one.get(name), int | float)), None)
    return f"{one['seed']}" + (f": {value:.4g}" if value is not None else f": {one.get('status', '')}")


def _listed(words: Sequence[str]) -> str:
    more = f" and {len(words) - MOST_SEEDS} more" if len(words) > MOST_SEEDS else ""
    return ", ".join(words[:MOST_SEEDS]) + more


def _panel(axes: "Axes", known: Known) -> Trace:
    if axes.images or any(kind(one) in ("QuadMesh", "QuadContourSet", "ContourSet") for one in axes.collections):
        raise NoCounterpartError
    x, y = axes.get_xlabel(), axes.get_ylabel() or _of_row(axes)
    layout = {"xaxis": _axis(axes.xaxis, x, axes.get_xlim()), "yaxis": _axis(axes.yaxis, y, axes.get_ylim())}
    traces = [*bands(axes), *bars(axes, known), *lines(axes, known), *marks(axes, known)]
    traces.sort(key=lambda trace: trace.pop("z"))
    _in_order(axes, traces)
    return {
        "title": as_html(axes.get_title()), "name": as_text(f"{axes.get_title()}: {y} against {x}".strip(": ")),
        "data": traces, "layout": layout | {"annotations": list(texts(axes)), "shapes": list(spans(axes))},
    }  # fmt: skip


def _of_row(axes: "Axes") -> str:
    """The label of the first panel of a row, where the others have its axis."""
    place = axes.get_subplotspec()
    for other in axes.figure.axes:
        beside, label = other.get_subplotspec(), other.get_ylabel()
        if label and place and beside and beside.rowspan == place.rowspan and other.get_ylim() == axes.get_ylim():
            return label
    return ""


def _in_order(axes: "Axes", traces: list[Trace]) -> None:
    """The legend has the order of the picture's own, and what stands in it for several series."""
    legend = axes.get_legend()
    names = [as_html(text.get_text()) for text in legend.get_texts()] if legend else []
    for name, handle in zip(names, legend.legend_handles if legend else (), strict=True):
        if kind(handle) == "Line2D" and not any(trace["showlegend"] and trace["name"] == name for trace in traces):
            traces.append(line_look(handle) | {"name": name, "showlegend": True, "x": [None], "y": [None]})
    names = names or [as_html(label) for label in axes.get_legend_handles_labels()[1]]
    for trace in traces:
        if trace["showlegend"] and trace["name"] in names:
            trace["legendrank"] = 1 + names.index(trace["name"])


def _axis(axis: Any, label: str, limits: tuple[float, float]) -> Trace:
    """Range, ticks and title. Ticks that have words keep them; others are plotly's, which follow a zoom."""
    scale = axis.get_scale()
    if scale not in ("log", "linear"):
        raise NoCounterpartError
    if scale == "log" and min(limits) <= 0:
        raise NoCounterpartError
    shown = [math.log10(limit) for limit in limits] if scale == "log" else list(limits)
    made: Trace = {"type": scale, "range": [short(limit) for limit in shown], "title": {"text": as_html(label)}}
    low, high = sorted(limits)
    ticks = [t for t in axis.get_majorticklocs() if low <= t <= high]
    words = axis.get_major_formatter().format_ticks(ticks) if ticks else []
    if kind(axis.get_major_locator()) in ("FixedLocator", "LogLocator") or not ticks:
        made |= {"tickvals": [short(t) for t in ticks], "ticktext": [as_html(word) for word in words]}
    return made

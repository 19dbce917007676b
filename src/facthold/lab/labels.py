"""Shades, words and arrows in a panel, as plotly's shapes and annotations."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from facthold.lab.artists import NoCounterpartError, Trace, colour_of, kind, short
from facthold.lab.words import as_html

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def spans(axes: "Axes") -> Iterator[Trace]:
    """Shades of `axvspan` and `axhspan`. Other patches than bars have no counterpart."""
    of_bars = {id(patch) for bars in axes.containers if kind(bars) == "BarContainer" for patch in bars}
    found: list[Any] = [patch for patch in axes.patches if id(patch) not in of_bars]
    for patch in found:
        box, of = patch.get_bbox(), patch.get_data_transform()
        upright = of is axes.get_xaxis_transform()
        if kind(patch) != "Rectangle" or not (upright or of is axes.get_yaxis_transform()):
            raise NoCounterpartError
        yield {
            "type": "rect", "layer": "below", "line": {"width": 0}, "fillcolor": colour_of(patch.get_facecolor()),
            "xref": "x" if upright else "x domain", "yref": "y domain" if upright else "y",
            "x0": short(box.x0), "x1": short(box.x1), "y0": short(box.y0), "y1": short(box.y1),
        }  # fmt: skip


def texts(axes: "Axes") -> Iterator[Trace]:
    """Words in the panel, where they stand; and arrows of searches that ended at their ceiling."""
    for text in axes.texts:
        arrow = getattr(text, "arrow_patch", None)
        if not text.get_visible() or not (text.get_text().strip() or arrow):
            continue
        yield _arrow(axes, text) if arrow and not text.get_text() else _text(axes, text)


def _arrow(axes: "Axes", text: Any) -> Trace:
    end, start = (_place(axes, *xy) for xy in (text.xy, text.xyann))
    colour = colour_of(text.arrowprops.get("color", "#6b6b6b"))
    return {
        "x": end[0], "y": end[1], "ax": start[0], "ay": start[1], "axref": "x", "ayref": "y", "text": "",
        "showarrow": True, "arrowhead": 2, "arrowcolor": colour,
    }  # fmt: skip


def _place(axes: "Axes", x: float, y: float) -> tuple[float | None, float | None]:
    """Where plotly has a point of the data: on a logarithmic axis, by its exponent."""
    places = zip((x, y), (axes.get_xscale(), axes.get_yscale()), strict=True)
    return tuple(short(math.log10(at)) if scale == "log" and at > 0 else short(at) for at, scale in places)  # type: ignore[return-value]


def _text(axes: "Axes", text: Any) -> Trace:
    made: Trace = {
        "text": as_html(text.get_text()), "showarrow": False,
        "font": {"size": 11, "color": colour_of(text.get_color())},
        "xanchor": text.get_horizontalalignment(), "align": text.get_horizontalalignment(),
        "yanchor": {"center": "middle", "baseline": "bottom", "center_baseline": "middle"}.get(
            text.get_verticalalignment(), text.get_verticalalignment()
        ),
    }  # fmt: skip
    if getattr(text, "anncoords", None) == "offset points":
        dx, dy = text.xyann
        made |= {"xshift": short(dx), "yshift": short(dy)}
    at, of = (text.xy, text.xycoords) if hasattr(text, "xycoords") else (text.get_position(), None)
    if of == "data" or (of is None and text.get_transform() is axes.transData):
        x, y = _place(axes, *map(float, at))
        return made | {"x": x, "y": y, "xref": "x", "yref": "y"}
    transform = text.get_transform() if of is None else _transform(axes, of)
    x, y = axes.transAxes.inverted().transform(transform.transform(at))
    return made | {"x": short(x), "y": short(y), "xref": "x domain", "yref": "y domain"}


def _transform(axes: "Axes", of: Any) -> Any:
    from matplotlib.transforms import blended_transform_factory

    known = {"data": axes.transData, "axes fraction": axes.transAxes}
    pair = of if isinstance(of, tuple) else (of, of)
    if not all(one in known for one in pair):
        raise NoCounterpartError
    return blended_transform_factory(*(known[one] for one in pair))

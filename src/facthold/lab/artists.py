"""What Matplotlib draws in one panel, as plotly's traces, shapes and annotations."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from facthold.lab.panel import ORIGINS
from facthold.lab.tracing import NOWHERE, Origin
from facthold.lab.words import as_html

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Trace = dict[str, Any]
DIGITS = 6  # of a drawn number
MARKS = {
    "o": "circle", "s": "square", "^": "triangle-up", "D": "diamond", "d": "diamond-tall", "v": "triangle-down",
    "P": "cross", "X": "x", "x": "x-thin-open", "+": "cross-thin-open", "<": "triangle-left", ">": "triangle-right",
    "*": "star", "p": "pentagon", "h": "hexagon", "H": "hexagon2",
    ".": "circle", "_": "line-ew-open", "|": "line-ns-open",
}  # fmt: skip
BANDS = ("PolyCollection", "FillBetweenPolyCollection")
GREY = "#6b6b6b"
DASHES = {"-": "solid", "--": "dash", ":": "dot", "-.": "dashdot"}


class NoCounterpartError(Exception):
    """Something that is drawn has no counterpart."""


class Told(Protocol):
    """Who knows where points come from: `interactive.Known`."""

    def points(self, artist: Any, n: int, y: Any) -> list[str]: ...

    def words(self, origin: Origin) -> str: ...


def kind(artist: Any) -> str:
    return type(artist).__name__


def short(value: float) -> float | None:
    value = float(value)
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None


def numbers(values: Any) -> list[float | None]:
    return [short(value) for value in np.asarray(values, float).ravel()]


def colour_of(colour: Any, alpha: float | None = None) -> str:
    from matplotlib.colors import to_rgba

    r, g, b, a = to_rgba(colour)
    a = a if alpha is None else alpha
    return f"#{round(255 * r):02x}{round(255 * g):02x}{round(255 * b):02x}" + (f"{round(255 * a):02x}" if a < 1 else "")


def _named(artist: Any, label: str | None = None) -> Trace:
    """How it stands in the legend."""
    words = artist.get_label() if label is None else label
    shown = bool(words) and not str(words).startswith("_")
    return {"name": as_html(str(words)) if shown else "", "showlegend": shown, "z": artist.get_zorder()}


def _dash(line: Any) -> str:
    style, pattern = line.get_linestyle(), line._unscaled_dash_pattern[1]
    if style in DASHES and style != "--":
        return DASHES[style]
    return "dot" if pattern and pattern[0] <= 1 else "dash"


def _touch(words: list[str]) -> Trace:
    """What a point says when it is touched: its series and its numbers, then its cell."""
    begin = "%{fullData.name}<br>" + "%{x:,.4~g}, %{y:,.4~g}"
    if not any(words):
        return {"hovertemplate": f"{begin}<extra></extra>"}
    if len(set(words)) == 1:
        return {"hovertemplate": f"{begin}<br>{words[0]}<extra></extra>"}
    return {"hovertemplate": f"{begin}<br>%{{customdata}}<extra></extra>", "customdata": words}


def lines(axes: "Axes", known: Told) -> Iterator[Trace]:
    bars = {id(bar[0]): bar for bar in axes.containers if kind(bar) == "ErrorbarContainer" and bar[0] is not None}
    ends = {id(cap) for bar in bars.values() for cap in bar[1]}
    for line in axes.lines:
        if id(line) in ends or not line.get_visible():
            continue
        x, y = (np.asarray(values, float) for values in line.get_data(orig=False))
        across = line.get_transform() is not axes.transData
        if across:  # a line through the whole panel
            x, y = _across(axes, line, x, y)
        if not len(x):
            continue
        bar = bars.get(id(line))
        look = line_look(line)
        if not look:
            continue
        made = _named(line, bar.get_label() if bar is not None else None)
        made |= look | {"x": numbers(x), "y": numbers(y)}
        if bar is not None:
            made |= _errors(bar, y)
        yield made | ({"hoverinfo": "skip"} if across else _touch(known.points(line, len(x), y)))


def line_look(line: Any) -> Trace:
    """How a line looks; nothing of one that has neither a stroke nor marks."""
    drawn, mark = line.get_linestyle() not in ("None", "none", " ", ""), line.get_marker()
    marked, alpha = mark not in ("None", "none", None, "", " "), line.get_alpha()
    made: Trace = {"type": "scatter", "mode": "+".join(["lines"] * drawn + ["markers"] * marked)}
    if drawn:
        colour, width = colour_of(line.get_color(), alpha), short(1.25 * line.get_linewidth())
        made["line"] = {"color": colour, "width": width, "dash": _dash(line)}
        if line.get_drawstyle().startswith("steps"):
            made["line"]["shape"] = {"steps-post": "hv", "steps-mid": "hvh"}.get(line.get_drawstyle(), "vh")
    if marked:
        open_ = line.get_fillstyle() == "none" or str(line.get_markerfacecolor()) in ("none", "white", "w")
        colour = line.get_markeredgecolor() if open_ else line.get_markerfacecolor()
        made["marker"] = _mark(mark, 1.5 * line.get_markersize(), colour_of(colour, alpha), open_)
    return made if drawn or marked else {}


def _across(axes: "Axes", line: Any, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if line.get_transform() is axes.get_yaxis_transform():
        low, high = axes.get_xlim()
        scaled = np.geomspace(low, high, 2) if axes.get_xscale() == "log" else np.array([low, high])
        return (scaled if np.array_equal(x, [0, 1]) else low + (high - low) * x), y
    if line.get_transform() is axes.get_xaxis_transform():
        low, high = axes.get_ylim()
        return x, (np.array([low, high]) if np.array_equal(y, [0, 1]) else low + (high - low) * y)
    raise NoCounterpartError


def _mark(mark: Any, size: float, colour: str, open_: bool) -> Trace:
    if mark not in MARKS:
        raise NoCounterpartError
    symbol = MARKS[mark] + ("-open" if open_ and not MARKS[mark].endswith("-open") else "")
    edge = {"line": {"width": 1.5}} if "open" in symbol else {}
    return {"symbol": symbol, "size": short(size), "color": colour, **edge}


def _errors(bar: Any, y: np.ndarray) -> Trace:
    """The bars of points, which need not be as long on both sides."""
    made: Trace = {}
    for lines in bar[2]:
        ends = lines.get_segments()
        if len(ends) != len(y):
            continue
        across = all(len(end) < 2 or end[0][1] == end[-1][1] for end in ends) and any(len(end) for end in ends)
        which, column = ("x", 0) if across and bar.has_xerr else ("y", 1)
        at = np.asarray(bar[0].get_data(orig=False)[column], float)
        low = [short(value - end[0][column]) if len(end) else None for value, end in zip(at, ends, strict=True)]
        high = [short(end[-1][column] - value) if len(end) else None for value, end in zip(at, ends, strict=True)]
        if any((one or 0) > 0 for one in (*low, *high)):
            made[f"error_{which}"] = {
                "type": "data", "symmetric": False, "array": high, "arrayminus": low, "thickness": 1.2, "width": 3,
            }  # fmt: skip
    return made


def marks(axes: "Axes", known: Told) -> Iterator[Trace]:
    """Points of `scatter`, and lines of `hlines`, `vlines` and the like."""
    inside = {id(one) for bar in axes.containers if kind(bar) == "ErrorbarContainer" for one in bar[2]}
    for one in axes.collections:
        what = kind(one)
        if id(one) in inside or not one.get_visible() or what in BANDS:
            continue
        if what == "PathCollection":
            yield _points(one, known)
        elif what == "LineCollection":
            yield _strokes(one)
        else:
            raise NoCounterpartError


def _points(one: Any, known: Told) -> Trace:
    xy, colours = np.ma.getdata(one.get_offsets()), one.get_facecolors()
    of = colours if len(colours) else one.get_edgecolors()
    look = {
        "symbol": "circle" if len(colours) else "circle-open", "size": short(1.4 * np.sqrt(one.get_sizes()).mean()),
        "color": [colour_of(c) for c in of] if len(of) > 1 else colour_of(of[0]) if len(of) else GREY,
    }  # fmt: skip
    made = {"type": "scatter", "mode": "markers", "x": numbers(xy[:, 0]), "y": numbers(xy[:, 1]), "marker": look}
    return _named(one) | made | _touch(known.points(one, len(xy), xy[:, 1]))


def _strokes(one: Any) -> Trace:
    x: list[float | None] = []
    y: list[float | None] = []
    for part in one.get_segments():
        x += [*numbers(part[:, 0]), None]
        y += [*numbers(part[:, 1]), None]
    colours = one.get_colors()
    line = {"color": colour_of(colours[0]) if len(colours) else GREY, "width": short(1.25 * one.get_linewidths()[0])}
    return _named(one) | {"type": "scatter", "mode": "lines", "x": x, "y": y, "line": line, "hoverinfo": "skip"}


def bands(axes: "Axes") -> Iterator[Trace]:
    """Bands of `fill_between`."""
    found: list[Any] = [one for one in axes.collections if kind(one) in BANDS]
    for one in found:
        colour = colour_of(one.get_facecolors()[0])
        for i, path in enumerate(one.get_paths()):
            yield _named(one, "" if i else None) | {
                "type": "scatter", "mode": "lines", "x": numbers(path.vertices[:, 0]),
                "y": numbers(path.vertices[:, 1]), "fill": "toself", "fillcolor": colour, "line": {"width": 0},
                "hoverinfo": "skip",
            }  # fmt: skip


def bars(axes: "Axes", known: Told) -> Iterator[Trace]:
    found: list[Any] = [one for one in axes.containers if kind(one) == "BarContainer"]
    for bars in found:
        upright = bars.orientation != "horizontal"
        boxes = [patch.get_bbox() for patch in bars]
        at = [(b.x0 + b.x1) / 2 if upright else (b.y0 + b.y1) / 2 for b in boxes]
        base = [b.y0 if upright else b.x0 for b in boxes]
        size = [b.height if upright else b.width for b in boxes]
        width = [b.width if upright else b.height for b in boxes]
        words = [known.words(getattr(patch, ORIGINS, [NOWHERE])[0]) for patch in bars]
        x, y = (at, size) if upright else (size, at)
        shown = str(bars.get_label() or "")
        yield {
            "type": "bar", "orientation": "v" if upright else "h", "x": numbers(x), "y": numbers(y), "z": 1,
            "base": numbers(base), "width": numbers(width), "name": as_html(shown) if shown[:1] != "_" else "",
            "showlegend": bool(shown) and not shown.startswith("_"),
            "marker": {"color": [colour_of(patch.get_facecolor()) for patch in bars]}, **_touch(words),
        }  # fmt: skip

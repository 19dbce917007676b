"""How all pictures look: log-log panels, measured points with the spread over seeds, dashed guide lines."""

import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:  # Matplotlib takes a second to import: it is loaded by whoever draws
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure as Canvas

COLOURS = (
    "#3b6fb6", "#d1622b", "#3a8f5c", "#8b5fb0", "#b8952a", "#4fa3a5", "#b0486b", "#6b6b6b", "#8c5a3c", "#222222",
    "#e377a2", "#9acd32",
)  # fmt: skip
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "p", "h")
COINCIDE = 0.04  # of both coordinates: then two marks are one to the eye
GUIDE: dict[str, Any] = {"color": "#777777", "linestyle": "--", "linewidth": 1.2, "zorder": 1}


def panels(n: int, width: float = 5.2, height: float = 4.2, rows: int = 1, **more: Any) -> "tuple[Canvas, list[Axes]]":
    """n panels side by side, or in so many rows, not tied to pyplot's global state."""
    from matplotlib.figure import Figure as Canvas

    from facthold.lab.panel import Panel

    canvas = Canvas(figsize=(width * n / rows, height * rows), layout="constrained")
    more["subplot_kw"] = {"axes_class": Panel} | more.get("subplot_kw", {})
    return canvas, list(np.atleast_1d(canvas.subplots(rows, n // rows, **more)).flat)


def loglog(axes: "Axes", title: str, x: str, y: str) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set(xscale="log", yscale="log", title=title, xlabel=x, ylabel=y)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))
        axis.set_minor_formatter(NullFormatter())
    frame(axes)


def tick(value: float) -> str:
    """A number at a tick: 0.05, 500, 20,000; from a million on, and below a thousandth, as a power of ten."""
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        return f"{value:,.10g}"
    digits, _, power = f"{value:e}".partition("e")
    times = "" if float(digits) == 1 else rf"{float(digits):g}\times "
    return rf"${times}10^{{{int(power)}}}$"


def doubling(axes: "Axes") -> None:
    """A logarithmic x axis for sizes that double: ticks at powers of two, few enough to stand beside each other."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(LogLocator(base=2, numticks=7))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))
    axes.xaxis.minorticks_off()


def settle(canvas: "Canvas") -> None:
    """Panels in which nothing is above zero have no logarithm: they get an axis all the same, and say so. Panels in
    which nothing was measured have no axes, and say so too. Numbers at all ticks are written in one way."""
    for axes in canvas.axes:
        empty = axes.axison and _is_empty(axes)
        for axis in (axes.xaxis, axes.yaxis):
            _plain_ticks(axis)
            low, high = sorted(axis.get_data_interval())
            if axis.get_scale() == "log" and not (np.isfinite([low, high]).all() and high > 0):
                axis.set_view_interval(1, 10, ignore=True)  # an axis that is off has ticks looked for, too
                if not axes.texts and not empty:
                    axes.text(0.5, 0.5, "nothing above zero", transform=axes.transAxes, ha="center", color="#777777")
        if empty:
            axes.set_axis_off()
            axes.text(0.5, 0.5, "not measured at these sizes", transform=axes.transAxes, ha="center", color="#777777")


def _plain_ticks(axis: "Axis") -> None:
    """Of a logarithmic axis that nobody has given ticks."""
    from matplotlib.ticker import FuncFormatter, LogFormatterSciNotation, LogLocator, NullFormatter, NullLocator

    named = type(axis.get_minor_formatter()) is LogFormatterSciNotation
    if axis.get_scale() != "log" or not named or isinstance(axis.get_minor_locator(), NullLocator):
        return
    low, high = sorted(axis.get_view_interval())
    if 0 < high < 100 * low:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    if type(axis.get_major_formatter()) is LogFormatterSciNotation:
        axis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))
    axis.set_minor_formatter(NullFormatter())


def _is_empty(axes: "Axes") -> bool:
    """Whether there is nothing in it but lines that go through the whole panel."""
    lines = [line for line in axes.lines if line.get_transform() is axes.transData and np.size(line.get_xdata())]
    return not (lines or axes.collections or axes.images or axes.patches or axes.texts)


def subtitle(canvas: "Canvas", words: str) -> None:
    """What one should see, above all panels, on as many lines as it takes."""
    if words and not canvas.get_suptitle():
        canvas.suptitle(textwrap.fill(words, int(14 * canvas.get_figwidth())), fontsize=9, color=GUIDE["color"])


def frame(axes: "Axes", grid: str = "both") -> None:
    """Light grid lines (of 'x', 'y' or 'both'), and no box."""
    axes.grid(True, which="major", axis=grid, alpha=0.25, linewidth=0.6)  # type: ignore[arg-type]
    axes.spines[["top", "right"]].set_visible(False)


def mark(number: int, shape: int | None = None) -> dict[str, Any]:
    """Colour and marker of a series. ``number`` chooses both, or the colour alone where ``shape`` is given. With more
    series than colours, markers do not come back together with the same colours."""
    shape = number + 5 * (number // len(COLOURS)) if shape is None else shape
    return {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[shape % len(MARKERS)]}


def series(
    axes: "Axes", x: Callable[[Any], float], rows: Sequence, label: str, number: int, shape: int | None = None, *,
    line: bool = False, y: str = "N", of_stored: Callable[[int], float] = float,
) -> None:  # fmt: skip
    """Capacities over seeds by x(row), with this `mark`: the mean as a point, the smallest and largest as a bar.

    A cell that was not found draws no point of a capacity: a ceiling is an arrow upwards, from ``of_stored(N)``. Where
    its points lie on those of a series before it, they are rings around them.
    """
    found = sorted((r for r in rows if r[y] is not None), key=x)
    if found:
        low, N, high = (np.array([r[name] for r in found]) for name in (f"{y}_min", y, f"{y}_max"))
        rings = {"markerfacecolor": "none", "markersize": 10} if _covers(axes, [x(r) for r in found], N) else {}
        axes.errorbar(
            [x(r) for r in found], [r[y] for r in found], yerr=[N - low, high - N], capsize=3, label=label, zorder=3,
            **{"markersize": 5, "linewidth": 1, "linestyle": "-" if line else "none"} | mark(number, shape) | rings,
        )  # fmt: skip
    for r in rows:
        stored = [of_stored(s["stored"]) for s in r["per_seed"] if s["stored"]]
        if "ceiling" in r["status"] and stored:
            axes.annotate(
                "", (x(r), min(stored) * 1.5), (x(r), min(stored)),
                arrowprops={"arrowstyle": "->", "color": mark(number)["color"]}, annotation_clip=False,
            )  # fmt: skip


def _covers(axes: "Axes", x: Sequence[float], y: np.ndarray) -> bool:
    """Whether points would lie on those that are there already, and hide them."""
    there = [line.get_xydata() for line in axes.lines if line.get_marker() in MARKERS]
    old = np.concatenate([np.asarray(xy, float) for xy in there]) if there else np.empty((0, 2))
    own = np.column_stack([np.asarray(x, float), np.asarray(y, float)])
    return bool(len(old)) and bool((np.abs(own[:, None] / old - 1) < COINCIDE).all(axis=2).any())


def points(axes: "Axes", xy: Iterable[tuple[float, float]], number: int, **look: Any) -> None:
    """Pairs (x, y) with this `mark`, joined by a thin line in the order of x; nothing where there are none."""
    if xy := sorted(xy):
        axes.plot(*zip(*xy, strict=True), **{**mark(number), "markersize": 5, "linewidth": 1} | look)


def guide(
    axes: "Axes", x: Sequence[float] | np.ndarray, y: Callable[[float], float] | Sequence[float] | np.ndarray,
    label: str, **look: Any,
) -> None:  # fmt: skip
    """A dashed line through points; or of a law y(x), from the smallest x to the largest; none without x."""
    if callable(y):
        if not len(x):
            return
        x = np.geomspace(min(x), max(x), 50)
        y = [y(size) for size in x]
    axes.plot(x, y, label=label, **GUIDE | look)


def legend(axes: "Axes", **options: Any) -> None:
    """A legend, where there is something to name."""
    if axes.get_legend_handles_labels()[0]:
        axes.legend(**{"frameon": False, "fontsize": 8} | options)


def legend_below(canvas: "Canvas", axes: "Axes", columns: int, title: str = "") -> None:
    """One legend for all panels, of what one of them has, below them: there it covers nothing that is drawn."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        look = {"ncols": columns, "frameon": False, "fontsize": 9, "title": title}
        canvas.legend(handles, labels, loc="outside lower center", **look)


def nothing(words: str) -> "Canvas":
    """A picture where there is nothing to draw, which says why."""
    canvas, (axes,) = panels(1)
    axes.text(0.5, 0.5, words, ha="center", va="center")
    axes.set_axis_off()
    return canvas

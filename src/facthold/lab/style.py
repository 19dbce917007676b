"""How all pictures look: log-log panels, measured points with the spread over seeds, dashed guide lines."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

COLOURS = (
    "#3b6fb6",
    "#d1622b",
    "#3a8f5c",
    "#8b5fb0",
    "#b8952a",
    "#4fa3a5",
    "#b0486b",
    "#6b6b6b",
    "#8c5a3c",
    "#222222",
    "#e377a2",
    "#9acd32",
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "p", "h")
GUIDE: dict[str, Any] = {"color": "#777777", "linestyle": "--", "linewidth": 1.2, "zorder": 1}


def panels(n: int, width: float = 5.2, height: float = 4.2, rows: int = 1) -> tuple[Canvas, list[Axes]]:
    """n panels side by side, or in so many rows, not tied to pyplot's global state."""
    canvas = Canvas(figsize=(width * n / rows, height * rows), layout="constrained")
    return canvas, list(np.atleast_1d(canvas.subplots(rows, n // rows)).flat)


def loglog(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set(xscale="log", yscale="log", title=title, xlabel=x, ylabel=y)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}" if value < 1e5 else f"{value:.0e}"))
        axis.set_minor_formatter(NullFormatter())
    axes.grid(True, which="major", alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def series(
    axes: Axes, x: Sequence[float], rows: Sequence, label: str, number: int, shape: int | None = None, *,
    line: bool = False,
) -> None:  # fmt: skip
    """Capacities over seeds: the mean as a point, the smallest and largest as a bar.

    ``number`` chooses the colour and, without ``shape``, the marker too.

    A cell that was not found draws no point of a capacity: a ceiling is an arrow upwards.
    """
    colour, marker = COLOURS[number % len(COLOURS)], MARKERS[(number if shape is None else shape) % len(MARKERS)]
    found = [(a, r) for a, r in zip(x, rows, strict=True) if r["N"] is not None]
    if found:
        xs = np.array([a for a, _ in found])
        N = np.array([r["N"] for _, r in found])
        spread = [N - [r["N_min"] for _, r in found], np.array([r["N_max"] for _, r in found]) - N]
        order = np.argsort(xs)
        axes.errorbar(
            xs[order], N[order], yerr=np.array(spread)[:, order], color=colour, marker=marker, markersize=5,
            linestyle="-" if line else "none", linewidth=1, capsize=3, label=label, zorder=3,
        )  # fmt: skip
    for a, r in zip(x, rows, strict=True):
        stored = [s["stored"] for s in r["per_seed"] if s["stored"]]
        if "ceiling" in r["status"] and stored:
            axes.annotate(
                "", (a, min(stored) * 1.5), (a, min(stored)),
                arrowprops={"arrowstyle": "->", "color": colour}, annotation_clip=False,
            )  # fmt: skip


def guide(axes: Axes, x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray, label: str) -> None:
    axes.plot(x, y, label=label, **GUIDE)


def legend(axes: Axes) -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8)


def protocols(rows: Sequence) -> str:
    """The protocols that trained these rows, for a title."""
    return ", ".join(sorted({r["method"].removeprefix("train:") for r in rows}))

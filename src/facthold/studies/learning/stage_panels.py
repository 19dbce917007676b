"""The panels of the figure of stages: each draws rows on axes, and computes nothing."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from facthold.lab import style
from facthold.lab.figure import Values
from facthold.studies.learning.flows import LEFT

FIRST = {
    "relation": "rests at the relation's level",
    "subject": "rests at the subject's level",
    None: "rests at neither",
}
KINDS = {"EOS": "EOS", "noise": "noise", "relation": "relations", "subject": "subjects"}
Pair = tuple[Values, Values]
"""A trained curve, and the prediction for its setting."""


def plot_alpha(axes: Axes, found: Sequence[Pair], other_T: Sequence[Values]) -> None:
    tables = list(dict.fromkeys((r["S"], r["R"], r["D"]) for r, _ in found))
    tables = [t for t in tables if len({r["log_alpha"] for r, _ in found if (r["S"], r["R"], r["D"]) == t}) > 1]
    for i, table in enumerate(tables):
        ours = sorted(((r, p) for r, p in found if (r["S"], r["R"], r["D"]) == table), key=lambda x: x[0]["log_alpha"])
        alphas = [math.exp(r["log_alpha"]) for r, _ in ours]
        label = "S={}, R={}, D={}".format(*table)
        axes.plot(alphas, [_length(p) for _, p in ours], color=style.COLOURS[i], linewidth=1.2)
        axes.plot(alphas, [_length(r) for r, _ in ours], color=style.COLOURS[i], marker=style.MARKERS[i],
                  linestyle="none", label=label)  # fmt: skip
    for r in other_T:
        axes.plot(math.exp(r["log_alpha"]), _length(r), marker="x", color="black", linestyle="none", zorder=4)
    if other_T:
        lengths = ", ".join(str(r["T"]) for r in other_T)
        axes.plot([], [], marker="x", color="black", linestyle="none", label=f"the first at T = {lengths}")
    axes.plot([], [], color="#777777", linewidth=1.2, label="predicted")
    axes.set(xscale="log", title="length of the plateau\nby the scale of the start", xlabel=r"$\alpha$",
             ylabel="time (learning rate x steps)")  # fmt: skip
    _finish(axes)


def plot_ratio(axes: Axes, balanced: Sequence[Pair], random: Sequence[Pair]) -> None:
    alphas = {r["log_alpha"] for r, _ in random}
    sizes = {(r["S"], r["R"], r["D"]) for r, _ in random}
    ours = [(r, p) for r, p in balanced if r["log_alpha"] in alphas and (r["S"], r["R"], r["D"]) in sizes]
    ours.sort(key=lambda x: x[0]["S"])
    lines = [("predicted", [(r, p) for r, p in ours]), ("balanced tables", [(r, r) for r, _ in ours]),
             ("random tables", [(r, r) for r, _ in random])]  # fmt: skip
    for i, (label, found) in enumerate(lines):
        rests = [(r["S"] / r["R"], _length(p)) for r, p in found if math.isfinite(_length(p))]
        if rests:
            look: dict[str, Any] = (
                {"linestyle": "-"} if i == 0 else {"linestyle": "none", "marker": style.MARKERS[i - 1]}
            )
            axes.plot(*zip(*rests, strict=True), color=style.COLOURS[(7, 0, 1)[i]], label=label, **look)
    if axes.lines:
        style.loglog(axes, "length of the plateau\nby subjects a relation", "S / R", "time (learning rate x steps)")
    else:
        axes.set(title="no curve rests at the relation's level")
    if not ours:
        return
    r = ours[0][0]
    axes.text(0.97, 0.03, rf"R={r['R']}, D={r['D']}, $\alpha$={math.exp(r['log_alpha']):.0e}", transform=axes.transAxes,
              ha="right", fontsize=7.5)  # fmt: skip
    style.legend(axes)


def plot_answers(axes: Axes, found: Sequence[Pair]) -> None:
    """The longest series in which nothing but D changes: the plateau, and the time before it."""
    series: dict[Any, list[Pair]] = {}
    for r, p in found:
        series.setdefault((r["S"], r["R"], r["log_alpha"]), []).append((r, p))
    longest = max(series, key=lambda setting: len(series[setting]))
    ours = sorted(series[longest], key=lambda x: x[0]["D"])
    D = [r["D"] for r, _ in ours]
    measures: dict[str, Callable[[Values], float]] = {"length of the plateau": _length, "leaving the start": _left}
    for i, (label, measure) in enumerate(measures.items()):
        axes.plot(D, [measure(p) for _, p in ours], color=style.COLOURS[i], linewidth=1.2)
        axes.plot(D, [measure(r) for r, _ in ours], color=style.COLOURS[i], marker=style.MARKERS[i], linestyle="none",
                  label=label)  # fmt: skip
    axes.plot([], [], color="#777777", linewidth=1.2, label="predicted")
    axes.set(xscale="log", title="by answers a relation", xlabel="D", ylabel="time (learning rate x steps)")
    axes.set_xticks(D, [str(x) for x in D])
    axes.set_xticks([], minor=True)
    r = ours[0][0]
    axes.text(0.97, 0.03, rf"S={r['S']}, R={r['R']}, $\alpha$={math.exp(r['log_alpha']):.0e}", transform=axes.transAxes,
              ha="right", fontsize=7.5)  # fmt: skip
    _finish(axes)


def plot_leaving(axes: Axes, found: Sequence[Pair]) -> None:
    left = [(_left(p), _left(r)) for r, p in found if math.isfinite(_left(p)) and math.isfinite(_left(r))]
    if not left:
        axes.set(title="no curve leaves its start")
        return
    ends = [min(map(min, left)) * 0.9, max(map(max, left)) * 1.1]
    style.guide(axes, ends, ends, "as predicted")
    axes.plot(*zip(*left, strict=True), linestyle="none", marker="o", color=style.COLOURS[2], label="all settings")
    style.loglog(axes, "when the loss leaves its start", "predicted time", "measured time")
    style.legend(axes)


def plot_order(axes: Axes, rows: Sequence[Values]) -> None:
    for i, (resting, label) in enumerate(FIRST.items()):
        ours = [r for r in rows if r["stages"]["resting"] == resting]
        axes.plot([r["R"] for r in ours], [r["S"] for r in ours], linestyle="none", marker=style.MARKERS[i],
                  color=style.COLOURS[(1, 0, 7)[i]], markersize=7, label=label)  # fmt: skip
    D = rows[0]["D"]
    R = np.geomspace(1.8, 1.2 * max(r["R"] for r in rows), 200)
    axes.plot(R, R * np.sqrt((D - 1) / (R - 1)), color="black", linewidth=1.2, label=r"$S^2 (R-1) = R^2 (D-1)$")
    low, high = min(r["S"] for r in rows) / 1.6, 8 * max(r["S"] for r in rows)
    axes.plot(R, 8 * R * math.sqrt(2 * D), **style.GUIDE, label=r"theorem 6: $S = 8R\sqrt{2D}$")
    style.loglog(axes, "what is learnt first\n(subjects below the line, relations above)", "R", "S")
    axes.set(ylim=(low, high))
    axes.text(0.97, 0.03, rf"D={D}, $\alpha$={math.exp(rows[0]['log_alpha']):.0e}", transform=axes.transAxes,
              ha="right", fontsize=7.5)  # fmt: skip
    axes.legend(frameon=False, fontsize=7.5, loc="upper right")


def plot_marginal(axes: Axes, rows: Sequence[Values]) -> None:
    rows = sorted(rows, key=lambda r: r["S"])
    for i, (kind, label) in enumerate(KINDS.items()):
        ours = [r for r in rows if r["left"][kind] is not None]
        axes.plot([r["S"] for r in ours], [r["left"][kind] for r in ours], marker=style.MARKERS[i], linestyle="none",
                  color=style.COLOURS[i], label=label)  # fmt: skip
        pulled = [r for r in rows if r["rates"][kind] > 0]
        times = [math.acosh(math.exp(LEFT - r["log_alpha"])) / r["rates"][kind] for r in pulled]
        axes.plot([r["S"] for r in pulled], times, color=style.COLOURS[i], linewidth=1, alpha=0.7)
    R, D = rows[0]["R"], rows[0]["D"]
    axes.axvline(R * (D - 1), **style.GUIDE, label="S = R (D - 1)")
    style.loglog(axes, "random tables: when $W_{KQ}$ passes 0.1\n(lines: by the first rates alone)", "S", "time")
    longest = max(t for r in rows for t in r["left"].values() if t is not None)
    axes.set(ylim=(None, 3 * longest))
    axes.text(0.97, 0.03, f"R={R}, D={D}, {rows[0]['n_noise']} noise tokens", transform=axes.transAxes, ha="right",
              fontsize=7.5)  # fmt: skip
    style.legend(axes)


def _length(row: Values) -> float:
    """How long the curve rests at the relation's level; nan where it does not."""
    lasts = row["stages"]["hallucination"]
    return float("nan") if lasts is None else lasts


def _left(row: Values) -> float:
    """When the loss leaves its start; nan where it does not."""
    left = row["stages"]["left"]
    return float("nan") if left is None else left


def _finish(axes: Axes) -> None:
    axes.grid(True, alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_ylim(bottom=0)
    style.legend(axes)

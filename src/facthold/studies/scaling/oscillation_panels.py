"""The panels of the figure oscillations, each from the rows of its kind of cell."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from facthold.lab import Cell, Values, style
from facthold.studies.scaling.oscillation_cells import (
    PACE,
    CrowdedPlane,
    OrthogonalMargins,
    PairPaths,
    PairRuns,
    frequencies_of,
)
from facthold.theory.imbalance import Particles, margin_bounds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CALM, FAST = 4.0, 1024.0  # step sizes of the maps: one that raises no loss for any pair, and one beyond most thresholds


def of(rows: Sequence[Values], cell: type[Cell]) -> list[Values]:
    """The rows of one kind."""
    return [r for r in rows if r["kind"] == cell.kind]


def plot(rows: Sequence[Values]) -> "style.Canvas":
    canvas, axes = style.panels(10, width=4.3, height=4.0, rows=2)
    paths, runs, crowds = of(rows, PairPaths), of(rows, PairRuns), of(rows, CrowdedPlane)
    _margins(axes[0], of(rows, OrthogonalMargins))
    _along(axes[1], paths, "loss")
    _along(axes[2], paths, "sharpness")
    _landscape(axes[3], paths)
    _thresholds(axes[4], runs)
    _first_right(axes[5], runs)
    _map(axes[6], runs, CALM)
    _map(axes[7], runs, FAST)
    _masses(axes[8], crowds)
    _crowd(axes[9], crowds)
    return canvas


def _margins(axes: "Axes", rows: Sequence[Values]) -> None:
    """Of the most frequent token, with its bounds."""
    for r in rows:
        t = np.array(r["times"])
        for i, (eta, margins) in enumerate(zip(r["step_sizes"], r["margins"], strict=True)):
            low, high = margin_bounds(eta * float(frequencies_of(r["N"])[0]) * r["M"], r["M"], t.astype(float))
            axes.fill_between(t[1:], low[1:], high[1:], color=style.mark(i)["color"], alpha=0.15, linewidth=0)
            style.points(
                axes, zip(t[1:], np.array(margins)[1:, 0], strict=True), i, label=f"step {eta:g}", markersize=3
            )
    axes.set(xscale="log", yscale="log", title="orthogonal embeddings", xlabel="steps",
             ylabel="margin of the most frequent token")  # fmt: skip
    style.frame(axes)
    style.legend(axes, title="shaded: between the bounds", title_fontsize=8)


def _along(axes: "Axes", rows: Sequence[Values], name: str) -> None:
    """Loss, or sharpness over 2 / step size, at the largest step size and at one that never raises the loss."""
    for i, r in enumerate(sorted(rows, key=lambda r: r["correlation"])):
        for k, look in ((len(r["step_sizes"]) - 1, "-"), (max(0, len(r["step_sizes"]) - 2), ":")):
            eta = r["step_sizes"][k]
            y = np.array(r[name][k]) * (eta / 2 if name == "sharpness" else 1)
            words = f"correlation {r['correlation']:g}, step {eta:g}"
            axes.plot(np.arange(len(y)) + 1, y, look, color=style.mark(i)["color"], linewidth=1.3, label=words)
    title = f"two tokens, frequencies {rows[0]['frequency']:g} and {1 - rows[0]['frequency']:g}" if rows else ""
    axes.set(xscale="log", yscale="log", title=title, xlabel="step + 1")
    if name == "sharpness":
        axes.set(ylabel="sharpness / (2 / step size)", ylim=(1e-4, None), title="their sharpness")
        axes.axhline(1, **style.GUIDE)
    else:
        axes.set(ylabel="loss", ylim=(1e-5, 1e5))  # room for the legend
        style.legend(axes, loc="upper right")
    style.frame(axes)


def _landscape(axes: "Axes", rows: Sequence[Values]) -> None:
    """Of the most correlated pair."""
    if not rows:
        return
    r = max(rows, key=lambda r: r["correlation"])
    c, p = r["correlation"], np.array([r["frequency"], 1 - r["frequency"]])
    signed = np.array([[1.0, 0.0], [-c, -((1 - c**2) ** 0.5)]])
    w = np.concatenate([np.array(path) for path in r["w"]])
    _contours(axes, w, signed, p)
    for i, (eta, path) in enumerate(zip(r["step_sizes"], r["w"], strict=True)):
        axes.plot(*np.array(path).T, "-", **style.mark(i) | {"marker": "o"}, markersize=2.5, linewidth=0.9,
                  label=f"step {eta:g}")  # fmt: skip
    axes.set(title=f"loss over w, correlation {c:g}", xlabel="first number of w, $w_1$", ylabel="second, $w_2$")
    style.legend(axes, frameon=True)


def _contours(axes: "Axes", w: np.ndarray, signed: np.ndarray, p: np.ndarray) -> None:
    """Lines of equal loss over a box around these points; darker where less is right."""
    low, high = w.min(axis=0), w.max(axis=0)
    pad = 0.15 * (high - low) + 0.5
    x, y = (np.linspace(a, b, 160) for a, b in zip(low - pad, high + pad, strict=True))
    m = np.stack(np.meshgrid(x, y), axis=-1) @ signed.T
    loss, right = np.logaddexp(0, -m) @ p, (m > 0) @ p
    axes.contourf(x, y, right, levels=np.linspace(0, 1.0001, 12), cmap="Blues_r", alpha=0.55)
    axes.contour(x, y, np.log(loss), levels=14, colors="#555555", linewidths=0.5, linestyles="solid")


def thresholds(r: Values, frequency: float) -> dict[float, float | None]:
    """By correlation: the smallest step size at which some step raises the loss; None where no step size does."""
    found = {}
    for c, f, rises in zip(r["correlations"], r["frequencies"], r["rises"], strict=True):
        if f == frequency:
            found[c] = next((eta for eta, n in sorted(zip(r["step_sizes"], rises, strict=True)) if n), None)
    return found


def _shown(values: Sequence[float], wanted: Sequence[float]) -> list[float]:
    """Those of the wanted values that there are; else the middle one."""
    there = sorted(set(values))
    return [v for v in wanted if v in there] or there[len(there) // 2 : len(there) // 2 + 1]


def _thresholds(axes: "Axes", rows: Sequence[Values]) -> None:
    for r in rows:
        for i, f in enumerate(_shown(r["frequencies"], (0.6, 0.75, 0.9))):
            found = thresholds(r, f)
            pairs = {c: Particles.pair(c, f) for c in found}
            style.points(axes, [(c, eta) for c, eta in found.items() if eta], i, linestyle="none",
                         label=f"frequency {f:g}")  # fmt: skip
            x = sorted(found)
            style.guide(axes, x, [pairs[c].safe_pace / PACE for c in x], "", color=style.COLOURS[i])
            rising = [(c, pairs[c].rising_pace / PACE) for c in x if np.isfinite(pairs[c].rising_pace)]
            style.points(axes, rising, i, marker="")
    style.guide(axes, [], [], "2 / sharpness at the start")
    axes.plot([], [], color="#777777", linewidth=1, label="the first step raises it")
    axes.set(yscale="log", title="smallest step size that raises the loss", xlabel="correlation", ylabel="step size")
    axes.set_ylim(top=8 * axes.get_ylim()[1])  # room for the legend
    style.frame(axes)
    style.legend(axes)


def _first_right(axes: "Axes", rows: Sequence[Values]) -> None:
    for r in rows:
        (f,) = _shown(r["frequencies"], (0.9,))
        for i, c in enumerate(_shown(r["correlations"], (0.5, 0.8, 0.95))):
            k = next(
                k for k, pair in enumerate(zip(r["correlations"], r["frequencies"], strict=True)) if pair == (c, f)
            )
            points = [(eta, t) for eta, t in zip(r["step_sizes"], r["first_right"][k], strict=True) if t >= 0]
            style.points(axes, points, i, label=f"correlation {c:g}", markersize=4)
            law, x = Particles.pair(c, f), np.array(sorted(r["step_sizes"]))
            if law.flow_time:
                flow = law.flow_time / (PACE * x)
                style.guide(axes, x[flow > 0.7], flow[flow > 0.7], "", color=style.COLOURS[i])
            axes.plot(x[-1:] * 1.6, [law.perceptron_steps or np.nan], "<", color=style.COLOURS[i], clip_on=False)
        axes.set_title(f"frequency {f:g}")
    style.guide(axes, [], [], "gradient flow")
    axes.plot([], [], "<", color="#777777", label="perceptron")
    axes.set(xscale="log", yscale="log", xlabel="step size", ylabel="first step after which all is right")
    style.frame(axes)
    style.legend(axes)


def _map(axes: "Axes", rows: Sequence[Values], wanted: float) -> None:
    """The first step after which all is right, at the step size nearest to the wanted one."""
    from matplotlib.colors import LogNorm

    for r in rows:
        k = int(np.abs(np.log(np.array(r["step_sizes"]) / wanted)).argmin())
        cs, fs = sorted(set(r["correlations"])), sorted(set(r["frequencies"]))
        table = np.full((len(fs), len(cs)), np.nan)
        for c, f, steps in zip(r["correlations"], r["frequencies"], r["first_right"], strict=True):
            table[fs.index(f), cs.index(c)] = steps[k] if steps[k] >= 0 else np.nan
        shown = axes.pcolormesh(cs, fs, table, norm=LogNorm(1, 128), cmap="viridis_r", shading="nearest")
        axes.figure.colorbar(shown, ax=axes, label="first step after which all is right")
        axes.set_title(f"step size {r['step_sizes'][k]:g}")
    axes.set(xlabel="correlation", ylabel="frequency of the first token")


def _masses(axes: "Axes", rows: Sequence[Values]) -> None:
    """Means over the draws that no w has right."""
    for i, r in enumerate(sorted(rows, key=lambda r: r["N"])):
        crowded = ~np.array(r["separable"])
        if not crowded.any():
            continue
        t = np.array(r["times"])
        for name, look in (("best", "-"), ("zero", ":")):
            words = f"N = {r['N']}, from {'the best memory' if name == 'best' else 'zero'}"
            y = np.array(r[f"masses_{name}"])[crowded].mean(axis=0)
            first = 0 if name == "best" else 1  # the zero memory has nothing right
            axes.plot(t[first:] + 1, y[first:], look, color=style.mark(i)["color"], label=words)
        solved = np.mean([m for m in r["solved"] if m is not None])
        axes.axhline(float(solved), **style.GUIDE | {"color": style.mark(i)["color"]})
    axes.set(
        xscale="log", title="more tokens than $d = 2$ holds", xlabel="step + 1", ylabel="probability of what is right"
    )
    style.guide(axes, [], [], "at the least cross entropy")
    style.frame(axes)
    style.legend(axes)


def _crowd(axes: "Axes", rows: Sequence[Values]) -> None:
    """The draw that loses most from the best memory, of 30 tokens where there are so many."""
    rows = [r for r in rows if r["shown"]["least"] is not None]
    if not rows:
        return
    r = max(rows, key=lambda r: (r["N"] == 30, r["N"]))
    signed, p, least = np.array(r["shown"]["signed"]), frequencies_of(r["N"]), np.array(r["shown"]["least"])
    paths = {name: np.array(r["shown"][name]) for name in ("zero", "best")}
    _contours(axes, np.concatenate(list(paths.values())), signed, p)
    for i, (name, path) in enumerate(paths.items()):
        label = "from the best memory" if name == "best" else "from zero"
        axes.plot(*path.T, "o-", color=style.COLOURS[1 + i], markersize=3, linewidth=1.2, label=label)
    axes.plot(*least, "*", color="#222222", markersize=11, label="least cross entropy")
    axes.set(title=f"N = {r['N']}, darker: less is right", xlabel="first number of w, $w_1$", ylabel="second, $w_2$")
    style.legend(axes, frameon=True)

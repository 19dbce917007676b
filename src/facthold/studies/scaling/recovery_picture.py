"""The figure of Muon's recovery law: items recalled by the dimension, by the optimiser and by the batch."""

import math
from collections.abc import Sequence
from itertools import pairwise
from operator import itemgetter
from statistics import fmean
from typing import Any

from facthold.lab import Figure, Values, style
from facthold.measure.scaling import Fit
from facthold.studies.judging import exponent, grouped
from facthold.studies.scaling.recovery import (
    ADAM,
    MUON,
    PRESETS,
    SGD,
    SOFTMAX,
    THRESHOLD,
    WORDS,
    FromBatches,
    by_step,
    cells,
    from_batches,
    longest,
    measured,
    predicted,
)
from facthold.theory import recovery as theory


def fits(rows: Sequence[Values]) -> list[Fit]:
    result: list[Fit] = []
    for (optimiser, residual), words in WORDS.items():
        for alpha in sorted({r["alpha"] for r in rows}):
            for t in range(1, 1 + max(r["steps"] for r in rows)):
                points = by_step(rows, t, alpha=alpha, optimiser=optimiser, residual=residual)
                name = f"{words}, alpha = {alpha:g}: recalled after {t} steps in d"
                result += exponent(name, *zip(*points, strict=True)) if points else []
    return result


def says(rows: Sequence[Values]) -> list[str]:
    """The law beside the exponents that theory gives between neighbouring sizes."""
    lines = []
    for alpha, group in grouped([r for r in predicted(rows).values() if not r["batch"]], itemgetter("alpha")).items():
        group = sorted((r for r in group if r["steps"] == longest(rows)), key=lambda r: r["d"])
        for t in range(1, 1 + max((r["steps"] for r in group), default=0)):
            moving = [
                f"{math.log(b['muon'][t - 1] / a['muon'][t - 1]) / math.log(b['d'] / a['d']):.2f} at "
                f"{math.sqrt(a['d'] * b['d']):.0f}"
                for a, b in pairwise(group)
            ]
            law = theory.exponent(MUON, alpha, t)
            lines.append(f"Muon, alpha = {alpha:g}, t = {t}: law {law:.3f}, predicted by d: {', '.join(moving)}")
    for alpha in sorted({r["alpha"] for r in rows}):
        for one in from_batches(rows, alpha):
            recalled = "; ".join(f"{WORDS[MUON, name]} {_numbers(means)}" for name, means in one.recalled.items())
            lines.append(
                f"batches of {one.batch}, alpha = {alpha:g}, d = {one.d}, recalled after 1 to {len(one.seen)} steps: "
                f"{recalled}; shown so far {_numbers(one.seen)}; all data, predicted {_numbers(one.all_data)}"
            )
    return lines


def _numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.1f}" for value in values)


def plot(rows: Sequence[Values]) -> "style.Canvas":
    alphas = sorted({r["alpha"] for r in rows}, reverse=True)
    even = len(alphas) + len(alphas) % 2
    drawn = {alpha: found for alpha in alphas if (found := from_batches(rows, alpha))}
    n = even + 2 + len(drawn) + len(drawn) % 2
    canvas, panes = style.panels(n, width=5.6, height=4.6, rows=n // 2)
    for axes, alpha in zip(panes, alphas, strict=False):
        _by_dimension(axes, rows, alpha)
    _others(panes[even], rows, alphas[0])
    _by_batch(panes[even + 1], rows, alphas)
    for axes, (alpha, found) in zip(panes[even + 2 :], drawn.items(), strict=False):
        _by_batch_and_step(axes, found, alpha)
    for unused in panes:
        if not unused.has_data():
            unused.set_axis_off()
    return canvas


def _means(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    return [(x, fmean(y for at, y in points if at == x)) for x in sorted({x for x, _ in points})]


def _by_dimension(axes: "style.Axes", rows: Sequence[Values], alpha: float) -> None:
    """Muon: filled on thresholded gradients, open on the whole loss; lines as theory has the first."""
    last = longest(rows)
    expected = [r for (_, a, steps, batch), r in predicted(rows).items() if (a, steps, batch) == (alpha, last, 0)]
    expected.sort(key=lambda r: r["d"])
    for t in range(1, 1 + max((r["steps"] for r in expected), default=0)):
        colour = style.COLOURS[t - 1]
        law = theory.exponent(MUON, alpha, t)
        for residual, face in ((THRESHOLD, colour), (SOFTMAX, "white")):
            points = _means(by_step(rows, t, alpha=alpha, optimiser=MUON, residual=residual))
            label = f"t = {t}: law $d^{{{law:.2f}}}$" if residual == THRESHOLD else ""
            style.points(axes, points, t - 1, linestyle="none", markerfacecolor=face, label=label, zorder=4)
        style.guide(axes, [r["d"] for r in expected], [r["muon"][t - 1] for r in expected], "", color=colour)
        if expected:
            far = expected[-1]
            style.guide(
                axes, [far["d"] / 8, far["d"]], [far["muon"][t - 1] * 8**-law, far["muon"][t - 1]], "",
                color=colour, linestyle=":",
            )  # fmt: skip
    style.guide(axes, [], [], "predicted (dotted: the law's slope)")
    axes.plot([], [], linestyle="none", marker="o", color="#777777", label="thresholded gradients")
    axes.plot([], [], linestyle="none", marker="o", color="#777777", markerfacecolor="white", label="the whole loss")
    style.loglog(axes, rf"Muon after t steps, $\alpha$ = {alpha:g}", "d, dimension of the embeddings", "items recalled")
    style.doubling(axes)
    style.legend(axes)


def _others(axes: "style.Axes", rows: Sequence[Values], alpha: float) -> None:
    last = max(r["steps"] for r in rows)
    for i, ((optimiser, residual), words) in enumerate(WORDS.items()):
        if residual != SOFTMAX:
            continue
        looks: dict[int, dict[str, Any]] = {1: {"markerfacecolor": "white", "linestyle": ":"}, last: {}}
        for step, look in looks.items():
            if (optimiser, step) == (ADAM, 1):
                continue  # the first step of sign descent
            points = _means(by_step(rows, step, alpha=alpha, optimiser=optimiser, residual=residual))
            style.points(axes, points, i, label=f"{words}, t = {step}", **look)
    style.loglog(axes, rf"by optimiser, $\alpha$ = {alpha:g}", "d, dimension of the embeddings", "items recalled")
    style.doubling(axes)
    style.legend(axes)


def _by_batch(axes: "style.Axes", rows: Sequence[Values], alphas: Sequence[float]) -> None:
    said = [r for (*_, steps, batch), r in predicted(rows).items() if batch and steps == 1]
    for i, alpha in enumerate(alphas):
        ours = sorted((r for r in said if r["alpha"] == alpha), key=lambda r: r["batch"])
        for j, name in enumerate((MUON, SGD)):
            found = [r for r in measured(rows, alpha=alpha, optimiser=name, steps=1) if r["batch"]]
            points = _means([(r["batch"], r["recalled"][0]) for r in found])
            label = rf"{WORDS[name, SOFTMAX]}, $\alpha$ = {alpha:g}"
            style.points(axes, points, 2 * i + j, linestyle="none", label=label)
            colour = style.COLOURS[2 * i + j]
            style.guide(axes, [r["batch"] for r in ours], [r[name][0] for r in ours], "", color=colour)
        style.guide(axes, [r["batch"] for r in ours], [r["seen"] for r in ours], "", linestyle=":", color="black")
    style.guide(axes, [], [], "predicted")
    style.guide(axes, [], [], r"items seen, about $B^{1/\alpha}$", linestyle=":", color="black")
    d = said[0]["d"] if said else ""
    style.loglog(axes, f"one step from a batch, d = {d}", "B, items in the batch", "items recalled")
    axes.xaxis.set_major_locator(_decades())
    style.legend(axes)


def _by_batch_and_step(axes: "style.Axes", found: Sequence[FromBatches], alpha: float) -> None:
    """Filled on thresholded gradients, open on the whole loss; dashed, the smaller of what the law has."""
    batches = [one.batch for one in found]
    for t in range(1, 1 + len(found[0].seen)):
        colour = style.COLOURS[t - 1]
        for residual, face in ((THRESHOLD, colour), (SOFTMAX, "white")):
            points = [(one.batch, one.recalled[residual][t - 1]) for one in found]
            label = f"t = {t}" if residual == THRESHOLD else ""
            style.points(axes, points, t - 1, linestyle="none", markerfacecolor=face, label=label, zorder=4)
        least = [min(one.all_data[t - 1], one.seen[t - 1]) for one in found]
        style.guide(axes, batches, least, "", color=colour)
    style.guide(axes, [], [], "all data as predicted, or shown so far")
    title = rf"Muon after t steps, each from a batch: $\alpha$ = {alpha:g}, d = {found[0].d}"
    style.loglog(axes, title, "B, items in each batch", "items recalled")
    axes.xaxis.set_major_locator(_decades())
    style.legend(axes)


def _decades() -> Any:
    from matplotlib.ticker import LogLocator

    return LogLocator(base=10)


FIGURE = Figure(
    "recovery", "How many items a few steps recall", "arXiv 2603.26554",
    "A linear memory of N = d^2 items with p(z) ~ z^-alpha and embeddings N(0, 1/d), from zero, steps of one length on "
    "the cross entropy. First panels: Muon (exact polar factors) after t steps, on the gradient and on the thresholded "
    "one; dashed, what theory has for the second at this size, nothing fitted; dotted, the law d^(2 - (1 - "
    "1/(2 alpha))^t) as a slope. Then other optimisers; one step from a batch of B items; and t steps, each from a "
    "batch of its own: dashed, the smaller of what theory has for all data and of the items that were shown.",
    PRESETS, cells, plot, fits, says,
    sees="Muon recalls far more items after the same steps; dashed predictions, with nothing fitted, lie on the "
         "points.",
)  # fmt: skip

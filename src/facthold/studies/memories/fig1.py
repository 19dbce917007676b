"""Figure 1: associations stored by trained linear and MLP memories, f*(x) = x."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.figure import Figure as Canvas

from facthold.lab import style
from facthold.lab.cells import Cell
from facthold.lab.figure import Figure, Values
from facthold.measure.scaling import Fit, fit_constant, fit_exponent
from facthold.studies.memories.capacity import Capacity
from facthold.theory import bounds

LARGE = 32
"""Smallest d of the fitted constant on the left: below it the constant still drifts."""


@dataclass(frozen=True)
class Grid:
    """Sizes to search."""

    linear_d: tuple[int, ...]
    mlp_sizes: tuple[tuple[int, int], ...]
    """Pairs (d, m)."""
    n_seeds: int = 5
    tolerance: float = 0.01
    linear_method: str = "train:linear-code"
    mlp_method: str = "train:mlp-code"


def half_octaves(low: float, high: float) -> tuple[int, ...]:
    """floor(2^low), floor(2^(low+1/2)), ..., floor(2^high): the authors' sizes."""
    return tuple(int(2**e) for e in np.arange(low, high + 0.25, 0.5))


def sizes(ds: Sequence[int], ratios: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """(d, m) with m = ratio d."""
    return tuple((d, ratio * d) for ratio in ratios for d in ds)


PRESETS = {
    "smoke": Grid(linear_d=(8, 11, 16), mlp_sizes=((6, 6), (8, 8), (6, 12)), n_seeds=2, tolerance=0.1),
    "quick": Grid(
        linear_d=(16, 22, 32, 45, 64),
        mlp_sizes=((11, 11), (16, 16), (22, 22), (8, 32), (11, 44), (16, 64)),
        tolerance=0.04,
    ),
    "paper": Grid(linear_d=half_octaves(3.0, 8.0), mlp_sizes=sizes(half_octaves(3.0, 6.5), (1, 2, 4, 8))),
}


def cells(grid: Grid) -> list[Cell]:
    capacity = partial(Capacity, seeds=tuple(range(grid.n_seeds)), tolerance=grid.tolerance)
    left = [capacity(method=grid.linear_method, d=d) for d in grid.linear_d]
    return [*left, *(capacity(method=grid.mlp_method, d=d, m=m) for d, m in grid.mlp_sizes)]


def plot(rows: Sequence[Values]) -> Canvas:
    canvas, (left, right) = style.panels(2)
    linear, mlp = [r for r in rows if not r["m"]], [r for r in rows if r["m"]]
    style.loglog(left, f"Linear associative memory ({style.protocols(linear)})", "$d^2$", "$N$")
    style.series(left, [r["d"] ** 2 for r in linear], linear, "measured, 99% recall", 0)
    for r in (r for r in linear if r["N"] is not None):  # the constant drifts with d: show it at each point
        c = bounds.guide_constant(r["N"], r["d"] ** 2)
        left.annotate(f"c={c:.2f}", (r["d"] ** 2, r["N"]), (-38, 4), textcoords="offset points", fontsize=7)
    _guide(left, [r["d"] ** 2 for r in linear], bounds.LINEAR_CONSTANT, "d^2")
    style.loglog(right, f"MLP associative memory ({style.protocols(mlp)})", "$m d$", "$N$")
    for i, ratio in enumerate(ratios(mlp)):
        ours = [r for r in mlp if r["m"] == ratio * r["d"]]
        style.series(right, [r["m"] * r["d"] for r in ours], ours, f"$m/d={ratio:g}$", i)
    _guide(right, [r["m"] * r["d"] for r in mlp], bounds.MLP_CONSTANT, "m d")
    for axes in (left, right):
        style.legend(axes)
    return canvas


def fits(rows: Sequence[Values]) -> list[Fit]:
    """Exponents of N ln N against the size, the constants of the guide lines, and how the left one drifts."""
    found = [r for r in rows if r["N"] is not None]
    linear, mlp = [r for r in found if not r["m"]], [r for r in found if r["m"]]
    large = [r for r in linear if r["d"] >= LARGE]
    result = _both("linear: N ln N = d^2 / c", linear)
    result += [_constant(f"linear, d >= {LARGE}: c", large)] if len(large) > 1 else []
    result += _both("mlp: N ln N = m d / c", mlp)
    result += [
        _constant(f"mlp, m/d = {ratio:g}: c", ours)
        for ratio in ratios(mlp)
        if len(ours := [r for r in mlp if r["m"] == ratio * r["d"]]) > 1
    ]
    return result


def ratios(rows: Sequence[Values]) -> list[float]:
    return sorted({r["m"] / r["d"] for r in rows})


def _both(name: str, rows: Sequence[Values]) -> list[Fit]:
    size, n_log_n = _axes(rows)
    exponent = [fit_exponent(f"{name}, exponent", size, n_log_n)] if len(set(size)) > 2 else []
    return [*exponent, *([_constant(f"{name}, c", rows)] if len(size) > 1 else [])]


def _constant(name: str, rows: Sequence[Values]) -> Fit:
    size, n_log_n = _axes(rows)
    return fit_constant(name, n_log_n, size)


def _axes(rows: Sequence[Values]) -> tuple[list[float], list[float]]:
    return [(r["m"] or r["d"]) * r["d"] for r in rows], [r["N"] * np.log(r["N"]) for r in rows]


def _guide(axes: style.Axes, size: Sequence[float], constant: float, symbol: str) -> None:
    if size:
        x = np.geomspace(min(size), max(size), 50)
        style.guide(axes, x, [bounds.guide(s, constant) for s in x], rf"${constant}\,N\ln N = {symbol}$ (authors)")


FIGURE = Figure(
    name="fig1",
    title="Capacity of trained linear and MLP memories",
    place="figure 1",
    caption=(
        "The largest N that is recalled at 99%, against the number of parameters of W (left) and of one layer "
        "of the MLP (right). Points: mean over seeds; bars: smallest and largest."
    ),
    presets=PRESETS,
    cells=cells,
    plot=plot,
    fits=fits,
)

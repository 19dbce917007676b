"""How capacities grow: trained memories (figures 1 and 6) and theorem 1's constructions.

Trained memories store N with c N ln N = size of W for f*(x) = x, and c N = size with 32 outputs. They are judged on the
figures' own cells.

Constructions are judged at half recall, against the N that the noise on their scores predicts (`theory.noise`):
2 N ln N = d^2, or m d / (1 + m/d) at rank m, with what finite size adds to it. This is not the 99% of the figures. At
99%, N ln N grows clearly faster than m d (tried up to m = 128), and somewhat faster than d^2 at full rank: the target's
own score fluctuates, at rank m with variance 2/m and more, and 99% has to allow for that. At half recall a symmetric
fluctuation drops out. The plain exponent of N ln N is reported beside it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

import numpy as np

from facthold.lab import style
from facthold.lab.cells import Cell
from facthold.lab.claim import Claim, Judgement
from facthold.lab.fields import Count, Counts, OneOf
from facthold.lab.figure import Figure, Values
from facthold.lab.registry import cells_of
from facthold.measure.scaling import Fit
from facthold.studies import judging
from facthold.studies.judging import also, at_preset, columns, constant, ends, exponent, not_found
from facthold.studies.memories.capacity import Capacity
from facthold.theory import bounds, noise

LARGE = 32  # smallest d of the fitted constant on the left: below it the constant still drifts
FULL_RANK = {"smoke": (16, 23, 32), "quick": (32, 45, 64, 91, 128), "paper": (32, 45, 64, 91, 128, 181, 256)}
"""d of the outer product."""
LOW_RANK = {
    "smoke": ((32, 8), (32, 16), (64, 16)),
    "quick": ((64, 16), (128, 16), (128, 32), (256, 32), (256, 64)),
    "paper": ((64, 16), (128, 16), (128, 32), (256, 16), (256, 32), (256, 64), (512, 32), (512, 64)),
}
"""(d, m)."""
TOLERANCES = {"smoke": 0.1, "quick": 0.02, "paper": 0.01}  # of the capacity search
Sizes = tuple[tuple[int, int], ...]  # pairs (d, m)


@dataclass(frozen=True)
class Grid:
    """Sizes to search."""

    linear_d: Counts
    mlp_sizes: Sizes
    n_seeds: Count = 5
    tolerance: float = 0.01
    linear_method: str = "train:linear-code"
    mlp_method: str = "train:mlp-code"


@dataclass(frozen=True)
class FixedGrid:
    """Sizes to search, with a fixed number of outputs."""

    sizes: Sizes
    M: Count = 32
    map: Annotated[str, OneOf(("floor", "mod"))] = "floor"  # 'floor' as in the authors' code; 'mod' as in the text
    n_seeds: Count = 5
    tolerance: float = 0.01
    method: str = "train:mlp-code"


def half_octaves(low: float, high: float) -> tuple[int, ...]:
    """floor(2^low), floor(2^(low+1/2)), ..., floor(2^high): the authors' sizes."""
    return tuple(int(2**e) for e in np.arange(low, high + 0.25, 0.5))


SMOKE_SIZES: Sizes = ((6, 6), (8, 8), (6, 12))
QUICK_SIZES: Sizes = ((11, 11), (16, 16), (22, 22), (8, 32), (11, 44))
PAPER_SIZES: Sizes = tuple((d, ratio * d) for ratio in (1, 2, 4, 8) for d in half_octaves(3.0, 6.5))
PRESETS = {
    "smoke": Grid(linear_d=(8, 11, 16), mlp_sizes=SMOKE_SIZES, n_seeds=2, tolerance=0.1),
    "quick": Grid(linear_d=(16, 22, 32, 45, 64), mlp_sizes=(*QUICK_SIZES, (16, 64)), tolerance=0.04),
    "paper": Grid(linear_d=half_octaves(3.0, 8.0), mlp_sizes=PAPER_SIZES),
}
FIXED_PRESETS = {
    "smoke": FixedGrid(sizes=SMOKE_SIZES, n_seeds=2, tolerance=0.1),
    "quick": FixedGrid(sizes=QUICK_SIZES, tolerance=0.04),
    "paper": FixedGrid(sizes=PAPER_SIZES),
}


def cells(grid: Grid) -> list[Cell]:
    linear = [Capacity.of(grid, method=grid.linear_method, d=d) for d in grid.linear_d]
    return [*linear, *(Capacity.of(grid, method=grid.mlp_method, d=d, m=m) for d, m in grid.mlp_sizes)]


def fixed_cells(grid: FixedGrid) -> list[Cell]:
    """The search starts from this figure's own guide line."""
    return [Capacity.near(bounds.guide_mlp_fixed(m, d), grid, d=d, m=m) for d, m in grid.sizes]


def size(row: Values) -> int:
    """Parameters of W, or of one layer of the MLP."""
    return (row["m"] or row["d"]) * row["d"]


def n_log_n(row: Values) -> float:
    return row["N"] * math.log(row["N"])


def _ratio(row: Values) -> float:
    return row["m"] / row["d"]


def plot(rows: Sequence[Values]) -> "style.Canvas":
    canvas, (left, right) = style.panels(2)
    linear, mlp = [r for r in rows if not r["m"]], [r for r in rows if r["m"]]
    for axes, ours, model, c, symbol in (
        (left, linear, "Linear", bounds.LINEAR_CONSTANT, "d^2"),
        (right, mlp, "MLP", bounds.MLP_CONSTANT, "m d"),
    ):
        law, label = partial(bounds.guide, constant=c), rf"${c}\,N\ln N = {symbol}$ (authors)"
        _panel(axes, ours, f"{model} associative memory", symbol, law, label)
    for r in (r for r in linear if r["N"] is not None):  # the constant drifts with d: show it at each point
        c = bounds.guide_constant(r["N"], size(r))
        left.annotate(f"c={c:.2f}", (size(r), r["N"]), (-38, 4), textcoords="offset points", fontsize=7)
    return canvas


def plot_fixed(rows: Sequence[Values]) -> "style.Canvas":
    canvas, (axes,) = style.panels(1)
    outputs, c = "; ".join(sorted({f"{r['M']} outputs, {r['map']}" for r in rows})), bounds.MLP_FIXED_CONSTANT
    _panel(axes, rows, f"MLP associative memory, {outputs}", "m d", lambda s: s / c, rf"${c}\,N = m d$ (authors)")
    return canvas


def _panel(
    axes: "style.Axes", rows: Sequence[Values], title: str, symbol: str, law: Callable[[float], float], label: str
) -> None:
    """Capacities against the size, a series for each m / d, and the authors' guide line."""
    protocols = ", ".join(sorted({r["method"].removeprefix("train:") for r in rows}))
    style.loglog(axes, f"{title} ({protocols})", f"${symbol}$", "$N$")
    for i, (ratio, ours) in enumerate(judging.grouped(rows, _ratio).items()):
        style.series(axes, size, ours, f"$m/d={ratio:g}$" if ratio else "measured, 99% recall", i)
    if rows:
        style.guide(axes, [size(r) for r in rows], law, label)
    style.legend(axes)


def fits(rows: Sequence[Values]) -> list[Fit]:
    """Exponents of N ln N against the size, the constants of the guide lines, and how the left one drifts."""
    found = [r for r in rows if r["N"] is not None]
    linear, mlp = [r for r in found if not r["m"]], [r for r in found if r["m"]]
    result = _law("linear: N ln N = d^2 / c", linear, n_log_n)
    large = [r for r in linear if r["d"] >= LARGE]
    result += constant(f"linear, d >= {LARGE}: c", *columns(large, n_log_n, size))
    result += _law("mlp: N ln N = m d / c", mlp, n_log_n)
    for ratio, ours in judging.grouped(mlp, _ratio).items():
        result += constant(f"mlp, m/d = {ratio:g}: c", *columns(ours, n_log_n, size))
    return result


def fixed_fits(rows: Sequence[Values]) -> list[Fit]:
    return _law("mlp, fixed outputs: N = m d / c", [r for r in rows if r["N"] is not None], judging.capacity)


def _law(name: str, rows: Sequence[Values], y: judging.Measure) -> list[Fit]:
    """The law y = size / c: the exponent of y against the size, and c."""
    x_y = columns(rows, size, y)
    return exponent(f"{name}, exponent", *x_y) + constant(f"{name}, c", *x_y[::-1])


FIGURES = (
    Figure(
        "fig1", "Capacity of trained linear and MLP memories", "figure 1",
        "The largest N that is recalled at 99%, against the number of parameters of W (left) and of one layer "
        "of the MLP (right). Points: mean over seeds; bars: smallest and largest.",
        PRESETS, cells, plot, fits,
    ),
    Figure(
        "fig6", "Capacity of trained MLP memories with a fixed number of outputs", "figure 6",
        "The largest N that is recalled at 99% when N inputs share 32 outputs, against m d.",
        FIXED_PRESETS, fixed_cells, plot_fixed, fixed_fits,
    ),
)  # fmt: skip


def half_recall_cells(preset: str, method: str, embeddings: str = "sphere") -> list[Cell]:
    """Capacities at half recall, with each search started at the predicted N."""
    full = tuple((d, 0) for d in at_preset(FULL_RANK, preset))
    sizes = full if method == "outer-product" else at_preset(LOW_RANK, preset)
    cell = partial(near, preset, method=method, goal=0.5, embeddings=embeddings, digits=3)
    return [cell(noise.half_recall(d, m), d=d, m=m) for d, m in sizes]


def near(preset: str, N: float, n_seeds: int = 5, digits: int = 4, **fields: Any) -> Capacity:
    """The cell whose search starts at N: of the outer product, where the fields name no other recipe."""
    common = {"method": "outer-product", "tolerance": at_preset(TOLERANCES, preset)}
    return Capacity.near(N, digits=digits, seeds=judging.seeds_at(preset, n_seeds), **common | fields)


def judge_noise_law(rows: Sequence[Values], of: str = "") -> Judgement:
    """Measured N against the predicted one. ``of``: in front of the words, where the claim has other parts."""
    predicted = "N as the noise law: exponent 1"
    law = judging.judge_law(predicted, rows, size, lambda r: noise.half_recall(r["d"], r["m"]))
    if not not_found(rows):
        symbol = "m d" if rows[0]["m"] else "d^2"
        (plain,) = exponent(symbol, *columns(rows, size, n_log_n))
        law = also(law, f"plain N ln N against {symbol}: {plain.slope:.3f}")
    return replace(law, predicted=of + predicted, measured=of + law.measured)


def judge_trained(law: str, guide: float, y: judging.Measure, rows: Sequence[Values], least_d: int = 0) -> Judgement:
    """The exponent, and the constant (geometric mean over d >= ``least_d``) against the authors' guide line."""
    predicted = f"{law}: exponent 1, c = {guide:g} within {judging.CONSTANT_TOLERANCE:.0%}"
    grows = judging.judge_exponent(predicted, rows, size, y)
    if not_found(rows):
        return grows
    (c,) = constant(law, *columns([r for r in rows if r["d"] >= least_d] or rows, y, size))
    first, last = ends(rows, size, lambda r: size(r) / y(r))
    low, high = ends(rows, size, size)
    measured = f"c = {c.constant:.3f}; it goes from {first:.2f} at size {low:g} to {last:.2f} at size {high:g}"
    is_near = abs(c.constant / guide - 1) <= judging.CONSTANT_TOLERANCE
    return also(grows, measured, f"c in [{c.interval[0]:.3f}, {c.interval[1]:.3f}]", is_near)


def _fig1_cells(preset: str, mlp: bool) -> list[Cell]:
    return [c for c in cells_of("fig1")(preset) if isinstance(c, Capacity) and bool(c.m) == mlp]


CLAIMS = (
    Claim(
        "outer-product-growth", "theorem 1",
        "The outer product stores about d^2 associations, up to a logarithm: at half recall 2 N ln N = d^2.",
        partial(half_recall_cells, method="outer-product"), judge_noise_law,
    ),
    Claim(
        "low-rank-growth", "theorem 1",
        "At rank m it is m d, up to a logarithm: at half recall 2 N ln N = m d / (1 + m/d). (At 99%, and sizes up to "
        "m = 128, N ln N grows faster than m d.)",
        partial(half_recall_cells, method="low-rank"), judge_noise_law,
    ),
    Claim(
        "linear-trained-growth", "figure 1, left",
        "Trained linear memories recall 99% of N with c N ln N = d^2; c grows slowly with d.",
        partial(_fig1_cells, mlp=False),
        partial(judge_trained, "N ln N as d^2", bounds.LINEAR_CONSTANT, n_log_n, least_d=LARGE),
    ),
    Claim(
        "mlp-trained-growth", "figure 1, right",
        "Trained MLP memories recall 99% of N with c N ln N = m d.",
        partial(_fig1_cells, mlp=True), partial(judge_trained, "N ln N as m d", bounds.MLP_CONSTANT, n_log_n),
    ),
    Claim(
        "fixed-outputs-growth", "figure 6",
        "With 32 outputs the logarithm goes: trained MLP memories recall 99% of N with c N = m d.",
        cells_of("fig6"), partial(judge_trained, "N as m d", bounds.MLP_FIXED_CONSTANT, judging.capacity),
    ),
)  # fmt: skip

"""Memory schemes on heavy-tailed data: the error against the number of samples and against the dimension."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from operator import itemgetter
from typing import Annotated

from facthold.lab import Cell, Figure, Values, style
from facthold.lab.fields import Between, Count, Counts, Seeds
from facthold.measure.scaling import Fit, fit_means
from facthold.studies.judging import Mean, fresh_seeds, grouped, mean_and_error
from facthold.studies.scaling.schemes import AT_LEAST, FIRST, ExpectedError, SchemeError, Schemes, StoredError
from facthold.theory.schemes import exponents

P, ALL, SEEN, COUNTS, ROOT = "p", "all", "seen", "counts", "counts^0.5"
WORDS = {
    P: "q = p", COUNTS: "q = counts", ROOT: "q = square root of counts", SEEN: "q = 1 if seen", ALL: "q = 1",
    AT_LEAST: "q = 1 if seen s times, best s", FIRST: "q = 1 for the first k, best k",
}  # fmt: skip
SEEDS = fresh_seeds("quick", 100)
WITHOUT = (P, ALL, FIRST)  # the schemes of the figure that ask for no samples


@dataclass(frozen=True)
class Grid:
    """Sizes, and which schemes are tried over n and over d."""

    N: Counts
    d: Counts
    n: Counts  # samples, at the dimension ``wide``
    wide: Count
    sampled: Schemes = (SEEN, COUNTS)
    n_for_d: Count = 100_000  # samples where schemes that count them are tried over d
    counting: Schemes = (COUNTS, ROOT, AT_LEAST)  # the same over d, at the largest N
    M: Annotated[int, Between(least=2)] = 5
    alpha: Annotated[float, Between(low=1, most=10)] = 2.0  # the laws are of tails that can be summed without end
    map: str = "mod"
    seeds: Seeds = SEEDS
    n_draws: Annotated[int, Between(least=2)] = 10_000  # of embeddings, for the error on what is stored
    n_batches: Annotated[int, Between(least=2)] = 16  # of draws, for what is expected

    def __post_init__(self) -> None:
        """What was computed is to be drawn: an exponent needs some sizes, and those along n and along d stay apart."""
        for name, sizes in (("d", self.d), ("n", self.n)):
            if len(sizes) < 3:
                raise ValueError(f"{name}={list(sizes)} has fewer than three sizes; an exponent needs them")
        if self.n_for_d in self.n:
            raise ValueError(f"n_for_d={self.n_for_d} is one of n; take another number of samples for one of them")


PRESETS = {
    "smoke": Grid(N=(100, 300), d=(8, 16, 32), n=(8, 32, 128), wide=64, n_for_d=1000, seeds=(0, 1, 2, 3), n_draws=20,
                  n_batches=2),
    "quick": Grid(N=(1000, 3000, 10_000), d=(16, 32, 64, 128, 256, 512), n=(16, 32, 64, 128, 256, 512, 1024), wide=512),
    "paper": Grid(N=(1000, 10_000, 100_000), d=(16, 32, 64, 128, 256, 512, 1024),
                  n=(16, 32, 64, 128, 256, 512, 1024, 2048, 4096), wide=1024),
}  # fmt: skip


def cells(grid: Grid) -> list[Cell]:
    largest = max(grid.N)
    counting = [SchemeError.of(grid, N=largest, d=d, n=grid.n_for_d, schemes=grid.counting) for d in grid.d]
    return [*sample_cells(grid), *size_cells(grid), *counting]


def sample_cells(grid: Grid) -> list[Cell]:
    """The error over n, and what is expected of it."""
    sizes = [{"N": N, "d": grid.wide, "n": n} for N in grid.N for n in grid.n]
    exact = tuple(name for name in grid.sampled if name != AT_LEAST)
    return [
        *(SchemeError.of(grid, **size, schemes=grid.sampled) for size in sizes),
        *(ExpectedError.of(grid, **size, schemes=exact) for size in sizes if exact),
    ]


def size_cells(grid: Grid) -> list[Cell]:
    """The error over d of schemes without samples, what is expected of it, and what is stored by itself."""
    sizes = [{"N": N, "d": d} for N in grid.N for d in grid.d]
    return [
        *(SchemeError.of(grid, **size, n=0, schemes=WITHOUT) for size in sizes),
        *(ExpectedError.of(grid, **size, n=0, schemes=WITHOUT) for size in sizes),
        *(StoredError.of(grid, **size) for size in sizes),
    ]


def measured(rows: Sequence[Values], name: str, N: int, over: str) -> list[tuple[int, Mean]]:
    """The mean error of a scheme and its standard error, by n or by d. Of the first k tokens, what is stored comes from
    the cells that have many draws for it; sizes at which these are missing are left out."""
    stored = {(r["N"], r["d"]): r["error"] for r in rows if "stored" in r}
    ours = [r for r in _along(rows, "errors", name, N, over) if name != FIRST or (r["N"], r["d"]) in stored]
    mean = partial(_with_stored, stored) if name == FIRST else lambda r: mean_and_error(r["errors"][name])
    return sorted((r[over], mean(r)) for r in ours)


def expected(rows: Sequence[Values], name: str, N: int, over: str) -> dict[int, Mean]:
    """The expected error by n or by d, and the standard error of its draws."""
    return {r[over]: tuple(r["expected"][name]) for r in _along(rows, "expected", name, N, over)}


def _along(rows: Sequence[Values], what: str, name: str, N: int, over: str) -> list[Values]:
    """The rows along n, or along d. Several n are tried at one d, and several d at one n."""
    ours = [r for r in rows if name in r.get(what, {}) and r["N"] == N]
    wide = {r["n"] for r in ours if len({o["d"] for o in ours if o["n"] == r["n"]}) > 1}
    return [r for r in ours if (r["n"] in wide) == (over == "d")]


def _with_stored(stored: Mapping[tuple[int, int], Mean], r: Values) -> Mean:
    """The error of the first k tokens in two parts, each from its own draws."""
    (held, error), rest = stored[r["N"], r["d"]], mean_and_error(r["not_held"][FIRST])
    return held + rest[0], math.hypot(error, rest[1])


def slopes(found: Sequence[tuple[int, float]]) -> list[tuple[float, float]]:
    """Between two neighbours each: the exponent, at their geometric mean."""
    pairs = [(a, b) for a, b in pairwise(found) if a[1] > 0 and b[1] > 0]
    return [(math.sqrt(a * b), math.log(y / x) / math.log(b / a)) for (a, x), (b, y) in pairs]


def curves(rows: Sequence[Values], over: str) -> Iterator[tuple[str, int, list[tuple[int, Mean]]]]:
    """What was measured over n or over d: the scheme, N, and its points; three of them or more."""
    for name in WORDS:
        for N in sorted({r["N"] for r in rows}):
            if len(found := measured(rows, name, N, over)) > 2 and all(mean > 0 for _, (mean, _) in found):
                yield name, N, found


def fits(rows: Sequence[Values]) -> list[Fit]:
    """Exponents, each with that of the exact expectation beside it where there is one."""
    result = []
    for over in ("n", "d"):
        for name, N, found in curves(rows, over):
            x, means = zip(*found, strict=True)
            result.append(fit_means(f"{WORDS[name]}, N = {N}: error in {over}", x, means))
            if exact := expected(rows, name, N, over):
                result.append(fit_means(f"{WORDS[name]}, N = {N}: the same, expected", x, [exact[size] for size in x]))
    return result


def says(rows: Sequence[Values]) -> list[str]:
    """How many tokens the best memory holds, and how exponents move with size."""
    lines = []
    for N, group in grouped([r for r in rows if FIRST in r.get("chosen", {})], itemgetter("N")).items():
        best = ", ".join(f"{r['chosen'][FIRST].removeprefix('first-')} at {r['d']}" for r in group)
        lines.append(f"N = {N}: the best k by d: {best}")
    for name, N, found in curves(rows, "d"):
        moving = ", ".join(f"{slope:.2f} at {d:.0f}" for d, slope in slopes([(d, m) for d, (m, _) in found]))
        lines.append(f"{WORDS[name]}, N = {N}, exponent between neighbours by d: {moving}")
        if exact := sorted(expected(rows, name, N, "d").items()):
            moving = ", ".join(f"{slope:.2f} at {d:.0f}" for d, slope in slopes([(d, m) for d, (m, _) in exact]))
            lines.append(f"{WORDS[name]}, N = {N}, the same, expected: {moving}")
    return lines


def plot(rows: Sequence[Values]) -> "style.Canvas":
    canvas, (left, middle, right) = style.panels(3, width=5.4, height=4.6)
    sizes = sorted({r["N"] for r in rows})
    largest, alpha = sizes[-1], next(r["alpha"] for r in rows)
    laws, order = exponents(alpha), list(WORDS)
    for axes, over in ((left, "n"), (middle, "d")):
        for name, N, found in curves(rows, over):
            if largest != N:
                continue
            x, means = zip(*found, strict=True)
            y, errors = zip(*means, strict=True)
            look = style.mark(order.index(name))
            axes.errorbar(x, y, yerr=_bars(errors), markersize=5, linewidth=1, label=WORDS[name], **look)
            exact = sorted(expected(rows, name, N, over).items())
            style.guide(axes, [size for size, _ in exact], [m for _, (m, _) in exact], "", color=_colour(name))
        style.guide(axes, [], [], "the same, expected exactly")
    wide = next((r["d"] for r in rows if r.get("n") and len(measured(rows, SEEN, largest, "n")) > 1), 0)
    style.loglog(left, f"error after n samples, N = {largest}, d = {wide}", "n, samples", "error")
    style.loglog(middle, f"error by dimension, N = {largest}", "d, dimension of the embeddings", "error")
    _moving(right, rows, {P: laws["p"], FIRST: laws["first"]}, sizes)
    for axes in (left, middle, right):
        style.legend(axes)
    return canvas


def _bars(errors: Sequence[float]) -> list[float] | None:
    """Two standard errors; where there is one seed, there are none, and no bars."""
    return [2 * error for error in errors] if all(map(math.isfinite, errors)) else None


def _colour(name: str) -> str:
    return style.COLOURS[list(WORDS).index(name)]


def _moving(axes: "style.Axes", rows: Sequence[Values], laws: dict[str, float], sizes: Sequence[int]) -> None:
    """Exponents between neighbours, beside those of the exact expectation and of the law."""
    for name, law in laws.items():
        for i, N in enumerate(sizes):
            found = slopes([(d, mean) for d, (mean, _) in measured(rows, name, N, "d")])
            look = {"color": _colour(name), "marker": style.MARKERS[i], "linestyle": "none"}
            style.points(axes, found, 0, **look, label=f"{WORDS[name]}, N = {N}")
            exact = slopes([(d, mean) for d, (mean, _) in sorted(expected(rows, name, N, "d").items())])
            style.guide(axes, [d for d, _ in exact], [slope for _, slope in exact], "", color=_colour(name))
        axes.axhline(law, color=_colour(name), linewidth=0.8, linestyle=":")
    axes.set(
        title="exponents between neighbours (dotted: the law)",
        xlabel="d, dimension of the embeddings",
        ylabel="exponent of the error",
    )
    style.doubling(axes)
    style.frame(axes)


FIGURE = Figure(
    "scaling", "Memory schemes on heavy-tailed data", "slides: scaling laws with finite capacity",
    "W = sum q(z) u_f(z) e_z^T with p(z) ~ z^-alpha, embeddings N(0, 1/d), f(z) = z mod M. Left: error over samples. "
    "Middle: over the dimension, for n samples where counts are asked for, without end otherwise; new embeddings for "
    "each d and seed; bars: two standard errors. Dashed: expected exactly at this N, d and M, nothing fitted. Right: "
    "how the exponent moves with size; dotted, the law as d grows.",
    PRESETS, cells, plot, fits, says,
    sees="Points lie on the dashed lines, which are expected exactly: error falls as a power of samples, then of the"
         " dimension.",
)  # fmt: skip

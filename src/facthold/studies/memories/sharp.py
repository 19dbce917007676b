"""Does any linear memory recall all N associations up to d^2 = 2 N ln N? Figure 1's protocol measures its optimiser.

Two works (arXiv 2605.05189 and 2605.10795, of which the statements alone are known here) say so, and that a listwise
criterion needs only d^2 of order N. c = d^2 / (N ln N) is measured by a solver that separates or certifies
(`construct.separate`), beside a law without free constants that has the same limit (`theory.sharp`). c goes to
its limit as slowly as logarithms do: at d = 512 the law has 1.3. So it is not c that is extrapolated, but measured c
over the law's, in Delta / d, the order of what the law leaves out at finite d.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from statistics import fmean

from scipy.optimize import brentq

from facthold.lab import Cell, Figure, Values, style
from facthold.lab.fields import Count, Counts, Positive, Repeats, Share, Tolerance, Whole
from facthold.measure.capacity import FOUND
from facthold.measure.scaling import Fit, Limit, fit_limit
from facthold.studies.judging import (
    FRESH,
    by_d,
    by_seed,
    capacity,
    columns,
    constant,
    grouped,
)
from facthold.studies.memories import claims, figures
from facthold.studies.memories.capacity import Capacity
from facthold.studies.memories.separable import ListwiseCapacity, ListwiseLaw, Separable, SphereRivals
from facthold.theory import bounds, sharp

Sizes = tuple[tuple[int, int], ...]  # pairs (d, number of seeds): large ones have few
TAIL = 0.1  # of the rivals, whose mean an answer is to be above


@dataclass(frozen=True)
class Grid:
    """Sizes of each curve."""

    solved: Sizes
    listwise: Sizes
    trained_d: Counts  # of figure 1, whose cells they are
    hebbian_d: Counts  # of the claim outer-product-growth, likewise
    n_draws: Count  # at d = 16, for what finite d changes in the law; fewer at larger d, which spread less
    tolerance: Tolerance = 0.01
    listwise_tolerance: Tolerance = 0.02
    trained_tolerance: Tolerance = figures.PRESETS["quick"].tolerance
    trained_seeds: Repeats = 5
    hebbian_tolerance: Positive = 0.01
    hebbian_seeds: Repeats = claims.N_SEEDS
    first_seed: Whole = FRESH
    share: Share = TAIL


PRESETS = {
    "smoke": Grid(solved=((6, 2), (8, 2), (11, 2)), listwise=((6, 2), (8, 2), (11, 2)), trained_d=(8,),
                  hebbian_d=(16,), n_draws=100, tolerance=0.1, listwise_tolerance=0.1, trained_tolerance=0.1,
                  trained_seeds=2, hebbian_tolerance=0.1, hebbian_seeds=2, first_seed=0),
    "quick": Grid(solved=((16, 10), (22, 10), (32, 10), (45, 6), (64, 5), (90, 2), (128, 1)),
                  listwise=((16, 6), (22, 6), (32, 4), (45, 3)), trained_d=figures.PRESETS["quick"].linear_d,
                  hebbian_d=claims.FULL_RANK["quick"], n_draws=5000),
    "paper": Grid(solved=((16, 20), (22, 20), (32, 20), (45, 20), (64, 10), (90, 10), (128, 5), (181, 3), (256, 3),
                          (512, 1)),
                  listwise=((16, 10), (22, 10), (32, 10), (45, 5), (64, 5), (90, 3)),
                  trained_d=figures.PRESETS["paper"].linear_d, hebbian_d=claims.FULL_RANK["paper"], n_draws=5000,
                  trained_tolerance=figures.PRESETS["paper"].tolerance),
}  # fmt: skip


def cells(grid: Grid) -> list[Cell]:
    hebbian = partial(Capacity.near, method="outer-product", goal=0.5, tolerance=grid.hebbian_tolerance)
    seeds = tuple(range(grid.first_seed, grid.first_seed + grid.hebbian_seeds))
    return [
        *law_cells(grid), *listwise_cells(grid), *trained_cells(grid, grid.trained_d),
        *(hebbian(bounds.half_recall(d), d=d, seeds=seeds) for d in grid.hebbian_d),
    ]  # fmt: skip


def law_cells(grid: Grid) -> list[Cell]:
    solved = [Separable(d=d, seeds=_seeds(grid, n), tolerance=grid.tolerance) for d, n in grid.solved]
    return [*solved, *(SphereRivals(d=d, n_draws=max(50, 16 * grid.n_draws // d)) for d, _ in grid.solved)]


def listwise_cells(grid: Grid) -> list[Cell]:
    solver = partial(ListwiseCapacity, tolerance=grid.listwise_tolerance, share=grid.share)
    laws = [ListwiseLaw(d=d, share=grid.share, n_draws=max(50, 4 * grid.n_draws // d)) for d, _ in grid.listwise]
    return [*(solver(d=d, seeds=_seeds(grid, n, FRESH)) for d, n in grid.listwise), *laws]


def trained_cells(grid: Grid, sizes: Sequence[int]) -> list[Cell]:
    seeds, method = tuple(range(grid.trained_seeds)), figures.PRESETS["quick"].linear_method
    return [Capacity(method=method, d=d, seeds=seeds, tolerance=grid.trained_tolerance) for d in sizes]


def _seeds(grid: Grid, n: int, after: int = 0) -> tuple[int, ...]:
    first = grid.first_seed + after
    return tuple(range(first, first + n))


def separable_rows(rows: Sequence[Values]) -> list[Values]:
    """Searches for the largest N that is separable, without those on figure 1's embeddings where there are others."""
    solved = [r for r in rows if "products" in r]
    return [r for r in solved if r["seeds"][0] >= FRESH] or solved


def listwise_rows(rows: Sequence[Values]) -> list[Values]:
    return [r for r in rows if "share" in r and "per_seed" in r]


def listwise_laws(rows: Sequence[Values]) -> dict[int, float]:
    """N at the threshold by the law, by d."""
    return {r["d"]: r["predicted"] for r in rows if "predicted" in r}


def memory_rows(rows: Sequence[Values], trained: bool) -> list[Values]:
    """Those of figure 1, or of the outer product."""
    return [r for r in rows if "method" in r and r["method"].startswith("train:") == trained]


def points(rows: Sequence[Values]) -> list[Values]:
    """A row for each seed: N halfway between what was separated and what was certified to be inseparable."""

    def alone(seed: Values) -> Values:
        if seed["status"] != FOUND or seed["impossible"] is None:
            return {"N": None, "status": seed["status"] if seed["status"] != FOUND else "not certified"}
        ends = {"least": seed["stored"], "most": seed["impossible"]}
        return {"N": sum(ends.values()) / 2, "status": FOUND, **ends}

    return [{**r, "seed": seed["seed"], **alone(seed)} for r in separable_rows(rows) for seed in r["per_seed"]]


def shares(rows: Sequence[Values]) -> dict[int, float]:
    """Delta at finite d over the law's, by d."""
    return {r["d"]: r["share"] for r in rows if "n_draws" in r and "share" in r and "predicted" not in r}


@lru_cache(maxsize=256)
def law_at(d: int, share: float) -> float:
    """The law at finite d: N with N Delta(N) share = d^2."""
    least = sharp.separable(d)
    return float(brentq(lambda N: N * sharp.active_rivals(N) * share - d * d, least, 2 * least))


def over_law(row: Values) -> float:
    """Measured d^2 / N over the law's Delta(N): 1 if the law were exact at this d."""
    return row["d"] ** 2 / (row["N"] * sharp.active_rivals(row["N"]))


def beyond_law(row: Values) -> float:
    """The order of what the law leaves out: active rivals have inner products of order 1/sqrt(d)."""
    return sharp.active_rivals(row["N"]) / row["d"]


def limit(found: Sequence[Values]) -> Limit:
    """Measured over law for d to infinity. The width of the threshold in N is of order 1/d of it (by the geometry of
    cones, too), so that points weigh as d.

    Seeds of one d share the N that their searches ask about, and with them the error of taking them halfway. So the
    interval is that of three fits: N halfway, and at either end of all brackets.
    """
    fits = [
        fit_limit("limit", *columns(rows, beyond_law, over_law), weight=[r["d"] for r in rows])
        for rows in ([{**r, "N": r[end]} for r in found] for end in ("N", "least", "most"))
    ]
    interval = (min(fit.interval[0] for fit in fits), max(fit.interval[1] for fit in fits))
    return Limit(fits[0].value, interval, fits[0].slope)


def plot(rows: Sequence[Values]) -> "style.Canvas":
    canvas, (left, right) = style.panels(2, width=5.6, height=4.4)
    look = {"linestyle": "none"}
    found = [r for r in points(rows) if r["N"] is not None]
    curves = (
        ("outer product, half recall", by_seed(memory_rows(rows, trained=False))),
        ("trained, 99% recall (figure 1)", by_seed(memory_rows(rows, trained=True))),
        ("any linear memory, all recalled", found),
        (f"any, above the mean of {TAIL:.0%} of rivals", by_seed(listwise_rows(rows), between=True)),
    )
    for i, (label, ours) in enumerate(curves):
        known = _known(ours)
        means = [(d, fmean(map(c_of, some))) for d, some in grouped(known, by_d).items()]
        style.points(left, means, i, **look, label=label)
        style.points(left, [(r["d"], c_of(r)) for r in known], i, **look, marker=".", alpha=0.3)
    sizes = [r["d"] for r in found]
    style.guide(left, sizes, lambda d: bounds.guide_constant(sharp.separable(d), d * d), r"law, $N\Delta(N)=d^2$")
    drawn = sorted((d, share) for d, share in shares(rows).items() if d in sizes)
    at_d = [bounds.guide_constant(law_at(d, share), d * d) for d, share in drawn]
    style.guide(left, [d for d, _ in drawn], at_d, "law at finite $d$", color=style.COLOURS[2], linestyle=":")
    listwise = sorted((d, bounds.guide_constant(N, d * d)) for d, N in listwise_laws(rows).items())
    style.guide(left, [d for d, _ in listwise], [c for _, c in listwise], "its law", color=style.COLOURS[3])
    left.axhline(sharp.LIMIT, **style.GUIDE | {"linestyle": "-"})
    left.annotate("limit 2", (1, sharp.LIMIT), (-2, 3), xycoords=("axes fraction", "data"), textcoords="offset points",
                  ha="right", fontsize=8)  # fmt: skip
    left.set(
        title="associations in a $d \\times d$ matrix",
        xlabel="$d$, dimension of the embeddings",
        ylabel="$c = d^2 / (N\\,\\ln\\,N)$",
    )
    left.set_ylim(0, None)
    style.doubling(left)
    style.frame(left)
    _draw_limit(right, found, dict(drawn))
    style.legend_below(canvas, left, 3)
    return canvas


def _draw_limit(axes: "style.Axes", found: Sequence[Values], known: dict[int, float]) -> None:
    axes.plot([beyond_law(r) for r in found], [over_law(r) for r in found], ".", color=style.COLOURS[2], alpha=0.3)
    means = [(fmean(map(beyond_law, some)), fmean(map(over_law, some))) for some in grouped(found, by_d).values()]
    style.points(axes, means, 2, linestyle="none", label="measured, mean over seeds")
    drawn = sorted((beyond_law(r), known[r["d"]]) for r in found if r["d"] in known)
    x, y = [x for x, _ in drawn], [y for _, y in drawn]
    style.guide(axes, x, y, "law at finite $d$", color=style.COLOURS[2], linestyle=":")
    if len({r["d"] for r in found}) > 2:
        line, most = limit(found), max(map(beyond_law, found))
        style.guide(axes, [0, most], [line.value, line.value + line.slope * most], "extrapolated")
        low, high = line.interval
        error, label = [[line.value - low], [high - line.value]], rf"$d \to \infty$: $c \to$ {2 * line.value:.3f}"
        axes.errorbar([0], [line.value], error, color="black", capsize=3, marker="o", label=label)
    axes.axhline(1, **style.GUIDE | {"linestyle": "-"})
    axes.set(title="measured over law", xlabel=r"$\Delta(N) / d$ (0: $d \to \infty$)", ylabel=r"$d^2 / (N\,\Delta(N))$")
    style.frame(axes)
    style.legend(axes)


def _squared(row: Values) -> int:
    return row["d"] ** 2


def c_of(row: Values) -> float:
    return bounds.guide_constant(row["N"], _squared(row))


def _known(rows: Sequence[Values]) -> list[Values]:
    return [r for r in rows if r["N"] is not None]


def fits(rows: Sequence[Values]) -> list[Fit]:
    found = [r for r in points(rows) if r["N"] is not None]
    result: list[Fit] = []
    for d, some in grouped(found, by_d).items():
        result += constant(f"any linear memory, d = {d}: c", *columns(some, figures.n_log_n, _squared))
    ours = _known(by_seed(listwise_rows(rows), between=True))
    return result + constant("listwise: d^2 / N", *columns(ours, capacity, _squared))


def says(rows: Sequence[Values]) -> list[str]:
    """How each search ended."""
    lines = []
    for d, some in grouped(separable_rows(rows), by_d).items():
        ends = [f"{s['stored']} to {s['impossible'] or 'not certified'}" for r in some for s in r["per_seed"]]
        undecided = sum(p["detail"] == "not decided" for r in some for s in r["per_seed"] for p in s["probes"])
        lines.append(f"d = {d}, separated to certified inseparable: {', '.join(ends)}; {undecided} solves not decided")
    return lines


FIGURE = Figure(
    "sharp", "What any linear memory holds, and the limit d^2 = 2 N ln N", "beyond: arXiv 2605.05189, 2605.10795",
    "Left: c in c N ln N = d^2, for the outer product at half recall, for training by figure 1's protocol, for any "
    "matrix that recalls all N (solved for, and certified where there is none), and for any that puts each answer "
    "above the mean of a tenth of its rivals. Dashed: a law without free constants, and what finite d changes in it. "
    "Right: measured over law, extrapolated to d = infinity. Small points: seeds.",
    PRESETS, cells, plot, fits, says,
    sees="c of the best memory that there is rises to 2 as d grows, along a law without free constants; training "
         "stays below what is possible.",
)  # fmt: skip

"""How near do models come to the fewest bits? Lower bound over bits used, for every recipe."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from operator import itemgetter
from statistics import fmean
from typing import Any

from facthold.lab import Cell, Claim, Figure, Judgement, Values, at_least, near, style, worst
from facthold.lab.fields import Count, ProtocolName, Repeats
from facthold.measure.scaling import mean_interval
from facthold.recipes import MemoryRecipe, fact_recipe, memory_recipe
from facthold.recipes.base import LINEAR, MLP
from facthold.studies.bits.fact_bits import ROOMIER, TRAINED, FactBits
from facthold.studies.bits.memory_bits import (
    ALL,
    ARGMAX,
    PAPER,
    SIGNS,
    WRITTEN,
    MemoryBits,
    best,
    efficiencies,
    of_seeds,
)
from facthold.studies.constructions.built import constructions
from facthold.studies.judging import at_preset, fresh_seeds
from facthold.studies.memories.capacity import storing_recipes

LANGUAGE_MODELS = 2.0  # bits of knowledge per parameter, of one table that is learned well (Allen-Zhu and Li)
PLAIN = "outer-product, as corollary 2 counts"
OUTER, OUTER_SIGNS = "outer-product", "outer-product, read by signs"
ONE_BIT = "one-bit"
FINE, COARSE = 0.01, 0.1  # how near the best N is searched: in closed form and by signs, or solved and trained
STARTS = {True: (0.97, 1.0), False: (0.6, 0.8, 1.0)}
"""Where the search for N starts, by whether the bits of a weight are given. Where they are searched too, fewer levels
at a smaller N make a second maximum, which a search from one side would miss."""
SHOWN = (PAPER, OUTER, ONE_BIT, "on-grid:linear-2", "train:linear-code")  # memories of d^2 weights
Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Grid:
    """Which recipes at which sizes. An empty list leaves a group out."""

    # d of memories that are read by arg max
    linear: Sizes = ()
    low_rank: Sizes = ()
    closed: Sizes = ()  # MLPs in closed form; m = ``ratio`` d
    solved: Sizes = ()  # MLPs by convex problems
    trained_linear: Sizes = ()
    trained_mlp: Sizes = ()
    on_grid_linear: Sizes = ()
    on_grid_mlp: Sizes = ()
    signs: Sizes = ()  # d of memories that are read by signs
    ratio: Count = 4
    narrow: tuple[str, ...] = ()  # constructions of transformers with a small d; none: all that go beyond the paper
    tables: Sizes = ()  # S = R of the tables that they are built for
    wide_tables: Sizes = ()  # S = R for the constructions that need a large d
    trained: Sizes = ()  # S = R of the tables that transformers are trained on
    levels: tuple[int, ...] = (15,)  # grids that transformers are trained on, besides being rounded afterwards
    D: Count = 8
    rooms: tuple[float, ...] = (1.0, 1.5, 2.2)
    trained_rooms: tuple[float, ...] = (1.5, 2.2)
    protocol: ProtocolName = "transformer-short"
    n_seeds: Repeats = 1
    closed_seeds: Count = 5  # of linear memories in closed form, and of those that are read by signs


PRESETS = {
    "smoke": Grid(linear=(16,), on_grid_linear=(16,), signs=(16,),
                  narrow=("values",), tables=(4,), rooms=(1.0,), closed_seeds=2),
    "quick": Grid(linear=(32, 64, 128, 256), low_rank=(32, 64, 128), closed=(16, 32, 48), solved=(8, 12, 16),
                  trained_linear=(24, 32, 48), trained_mlp=(8, 12, 16), on_grid_linear=(32, 48, 64),
                  on_grid_mlp=(12, 16, 24), signs=(64, 128, 256), tables=(8, 12, 16), wide_tables=(4, 6, 8),
                  trained=(12, 16, 20)),
    "paper": Grid(linear=(32, 64, 128, 256), low_rank=(32, 64, 128, 256), closed=(32, 64, 96), solved=(11, 16, 22, 32),
                  trained_linear=(32, 64, 96, 128), trained_mlp=(11, 16, 22, 32), on_grid_linear=(32, 64, 96, 128),
                  on_grid_mlp=(16, 24, 32), signs=(64, 128, 256, 512), tables=(8, 16, 24, 32),
                  wide_tables=(4, 8, 12), trained=(16, 24, 32, 48), levels=(7, 15, 31), protocol="transformer-code",
                  n_seeds=3),
}  # fmt: skip


def cells(grid: Grid) -> list[Cell]:
    return [*_memories(grid), *_transformers(grid)]


def _memories(grid: Grid) -> Iterator[Cell]:
    """Every recipe for memories, in the order of the grid's groups."""
    recipes = {PAPER: memory_recipe(PAPER), **storing_recipes()}
    for group in (field.name for field in fields(Grid)):
        reading = SIGNS if group == SIGNS else ARGMAX
        for name, recipe in recipes.items():
            if group == _group(recipe) or (group == SIGNS and recipe.signs_guess):
                for d in getattr(grid, group):
                    closed = group in ("linear", SIGNS)
                    yield MemoryBits(
                        method=name, d=d, m=recipe.m(d, grid.ratio), reading=reading,
                        loads=starts(name), tolerance=FINE if closed else COARSE,
                        seeds=tuple(range(grid.closed_seeds if closed else grid.n_seeds)),
                    )  # fmt: skip


def starts(method: str) -> tuple[float, ...]:
    return STARTS[method == PAPER or bool(memory_recipe(method).levels)]


def _group(recipe: MemoryRecipe) -> str | None:
    """The group of a recipe whose memories are read by arg max; None: it is left out."""
    family = "linear" if recipe.family == LINEAR else "mlp"
    if recipe.protocol:
        return None if recipe.protocol.bias else f"trained_{family}"  # biases have grids of their own
    if recipe.levels:
        return None if recipe.signs_guess else f"on_grid_{family}"
    if recipe.family == LINEAR:
        return None if recipe.solved else "linear"  # solved margins are as small as can be: no grid keeps them
    if recipe.family != MLP:
        return "low_rank"
    return "solved" if recipe.solved else "closed"


def _transformers(grid: Grid) -> Iterator[Cell]:
    common: dict[str, Any] = {"D": grid.D, "seeds": tuple(range(grid.n_seeds))}
    narrow = grid.narrow or [name for name, recipe in constructions().items() if recipe.place == "beyond"]
    wide = [name for name, recipe in constructions().items() if recipe.place != "beyond"]
    for names, tables in ((narrow, grid.tables), (wide, grid.wide_tables)):
        for name in names:
            for S in tables:
                yield FactBits(model=name, S=S, R=S, rooms=grid.rooms, **common, **_dimensions(name, S))
    for S in grid.trained:
        for levels in (0, *grid.levels):
            rooms = tuple((ROOMIER if levels else 1) * room for room in grid.trained_rooms)
            yield FactBits(model=TRAINED, S=S, R=S, levels=levels, rooms=rooms, protocol=grid.protocol, **common)


def _dimensions(name: str, S: int) -> dict[str, Any]:
    """What a construction needs beside the size that is searched, and where the search starts."""
    paper = {"attention": {"d": 64 * S, "guess": 16 * S, "per_head": 4}, "attention-full": {"guess": 16 * S},
             "attention-mlp": {"d": 16 * S + 1, "guess": 24 * S}}  # fmt: skip
    return paper.get(name, {"guess": 2 * S} if fact_recipe(name).size == "d" else {"d": S + 4, "guess": 3 * S})


def name_of(r: Values) -> str:
    """A recipe as the legend says it."""
    if r["kind"] == "memory-bits":
        if r["method"] == PAPER:
            return PLAIN
        return r["method"] + (", read by signs" if r["reading"] == SIGNS else "")
    return f"{r['model']}, {r['levels']} levels" if r["levels"] else r["model"]


def plot(rows: Sequence[Values]) -> "style.Canvas":
    from matplotlib.ticker import LogLocator

    canvas, (left, middle, right, tasks) = style.panels(4, width=5.6, height=5.0)
    memories, facts = ([r for r in rows if r["kind"] == kind] for kind in ("memory-bits", "fact-bits"))
    for axes, ours, title in (
        (left, memories, "Memories, 99% of random associations"),
        (middle, facts, "Transformers, 99% of random facts"),
    ):
        style.loglog(axes, title, "bits that no model can do without", "lower bound / bits used")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0,)))  # from a few bits to ten thousands
        for i, (name, *_) in enumerate(ranking(ours)):
            draw_counts(axes, [r for r in ours if name_of(r) == name], lambda r, p: p["bound"], name, i)
        axes.axhline(1, **style.GUIDE)
        style.legend(axes, fontsize=6.5, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2)
    style.loglog(right, "Bits per parameter", "bits per weight that are used", "bits per weight of facts, lower bound")
    for i, (ours, label) in enumerate(((memories, "memories"), (facts, "transformers"))):
        cloud = [(p["bits_per_weight"], p["bound_per_weight"]) for r in ours if (p := best(r))]
        style.points(right, cloud, i, linestyle="none", label=label)
    for share in (1.0, 0.1, 0.01):
        right.plot([1, 32], [share, 32 * share], **style.GUIDE)
        right.annotate(f"{share:g}", (32, share * 32), fontsize=8, color="#555555")
    right.axhline(LANGUAGE_MODELS, color=style.COLOURS[2], linewidth=1.2, label="2 bits: large language models")
    style.legend(right)
    _one_axis(tasks, memories)
    return canvas


def _one_axis(axes: "style.Axes", rows: Sequence[Values]) -> None:
    """Bits per weight against associations per weight: memories whose associations have d bits, or log2 N."""
    from matplotlib.ticker import LogLocator

    style.loglog(axes, "Two tasks on one axis", "associations per weight", "bits per weight of facts, lower bound")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0,)))
    for i, (name, *_) in enumerate(ranking(rows)):
        points = [p for r in rows if name_of(r) == name and r["method"] in SHOWN and (p := best(r))]
        cloud = [(p["facts"] / p["n_weights"], p["bound_per_weight"]) for p in points]
        bits = sorted(p["bound"] / p["facts"] for p in points) or [0.0]
        label = f"{name}: {bits[0]:.3g} to {bits[-1]:.3g} bits each"
        style.points(axes, cloud, i, linestyle="none", label=label)
    style.legend(axes, fontsize=6.5, loc="upper center", bbox_to_anchor=(0.5, -0.13))


def draw_counts(
    axes: "style.Axes", rows: Sequence[Values], x: Callable[[Values, Values], float], label: str, number: int
) -> None:
    """Efficiencies of one recipe by x(row, point): all weights, and dotted and open those that are written alone."""
    looks: dict[str, dict[str, Any]] = {ALL: {"label": label}, WRITTEN: {"linestyle": ":", "markerfacecolor": "white"}}
    for count, look in looks.items():
        style.points(axes, [(x(r, p), p["efficiency"]) for r in rows if (p := best(r, count))], number, **look)


def ranking(rows: Sequence[Values], count: str = ALL) -> list[tuple[str, float, int]]:
    """Each recipe with its best efficiency and the number of sizes that were measured, the best recipe first."""
    measured = efficiencies(rows, name_of, count)
    return sorted(((name, max(values), len(values)) for name, values in measured.items()), key=lambda entry: -entry[1])


def says(rows: Sequence[Values]) -> list[str]:
    """The recipes by their best efficiency at 99%, all weights counted."""
    ranked = ranking(rows)
    top = {name: value for name, value, _ in ranked}
    written = {name: value for name, value, _ in ranking(rows, WRITTEN)}
    lines = []
    for name, value, n in ranked:
        also = f"; {written[name]:.1%} without weights that do not depend on the facts" if name in written else ""
        lines.append(f"{name}: {value:.1%} at best of {n} size{'s' * (n > 1)}{also}")
    if PLAIN in top:
        times = {name: ranked[0][1] / value for name, value in top.items()}
        others = {OUTER: "that on its own coarsest grid", OUTER_SIGNS: "that read by signs too"}
        also = "".join(f", {times[name]:.1f} times {words}" for name, words in others.items() if name in top)
        lines.append(f"the best is {times[PLAIN]:.0f} times the outer product as corollary 2 counts it{also}")
    for words, kind in (("memories", "memory-bits"), ("transformers", "fact-bits")):
        found = [(p["bound_per_weight"], name_of(r), r) for r in rows if r["kind"] == kind and (p := best(r))]
        if found:
            bits, name, row = max(found, key=itemgetter(0))
            where = f"d={row['d']}" if row["d"] else "S={S}, R={R}, D={D}".format(**row)  # a d that is searched is 0
            lines.append(
                f"most bits of facts per weight, of {words} at their best efficiency: {bits:.2f}, {name}, {where}"
            )
    return lines


FIGURE = Figure(
    "efficiency", "Bits that no model can do without, over the bits that a model uses",
    "beyond the paper: corollary 2 and section 6, measured",
    "Left and middle: the counting bound of a random table over the fewest bits at which a model still recalls 99% "
    "of it, every weight on a uniform grid, scales counted. Each point is the best that a search over the number of "
    "associations finds (the middle one of its seeds), or the best of a few sizes of a transformer. Dotted, open: "
    "without the weights that do not depend on the facts, such as random features. Third: the same by bits per weight; "
    "diagonals are efficiencies, the line is what Allen-Zhu and Li report for large language models, which learn their "
    "embeddings; those of these memories are random, fixed and not counted: (N + M) d numbers, several times the "
    "weights. Right: memories that are read by signs store few associations of d bits each, those that are read by arg "
    "max over M = N outputs many of log2 N bits: efficiencies of the two are of different tasks.",
    PRESETS, cells, plot, says=says,
    sees="1 is all that the bits of the weights can hold: the distance to it is what a recipe wastes.",
)  # fmt: skip

TIMES = 50.0
LARGEST = 256  # the d at which the claim's constants are stated
PERCEPTRON = 0.83  # bits per weight that a perceptron with weights -1 and 1 can store at most (Krauth and Mezard, 1989)
STORED, STORED_WITHIN = 0.66, 0.02  # bits per weight at d = 256
FEWER, FEWER_WITHIN = 9.0, 0.9  # times as many associations per weight in the outer product, at d = 256
"""Both are what other seeds gave, and no theory's. The tolerances allow for these and for the width of the search; one
more or one less of 168 is 0.004 bits."""
CLAIMED: dict[str, dict[str, dict[str, Sizes]]] = {  # d, by how outputs are read and by recipe
    ARGMAX: {PAPER: {"smoke": (16, 24), "quick": (128, 256)},
             OUTER: {"smoke": (16, 24), "quick": (64, 128)}},
    SIGNS: {name: {"smoke": (16, 24), "quick": (128, 256), "paper": (128, 256, 512)} for name in (OUTER, ONE_BIT)},
}  # fmt: skip


def claim_cells(preset: str) -> list[Cell]:
    """As the figure's, on seeds that its constants were not read from."""
    return [
        MemoryBits(method=name, d=d, reading=reading, loads=starts(name), tolerance=FINE, seeds=fresh_seeds(preset, 5))
        for reading, recipes in CLAIMED.items() for name, sizes in recipes.items() for d in at_preset(sizes, preset)
    ]  # fmt: skip


def judge(rows: Sequence[Values]) -> Judgement:
    """Bits per weight at d = 256 (or the largest d below), how much nearer to the bound than corollary 2, and what the
    outer product stores in associations per weight at the same d. Each by its interval over seeds."""
    predicted = (
        f"{STORED:g} bits per weight within {STORED_WITHIN:g}; at least {TIMES:g} times as near to the bound; "
        f"the outer product {FEWER:g} times the associations per weight within {FEWER_WITHIN:g}"
    )
    ours, plain, rounded, by_signs = (
        {r["d"]: of_seeds(r) for r in rows if (r["method"], r["reading"]) == recipe}
        for recipe in ((ONE_BIT, SIGNS), (PAPER, ARGMAX), (OUTER, ARGMAX), (OUTER, SIGNS))
    )
    d = max((d for d in ours if d in plain and d <= LARGEST), default=0)
    if not d or not all((*ours[d], *plain[d])):
        return Judgement(predicted, "no maximum of some seed was found at one d", "no interval", False)
    stored = [p["bound_per_weight"] for p in ours[d] if p]
    nearer = [math.log(a["efficiency"] / b["efficiency"]) for a, b in zip(ours[d], plain[d], strict=True) if a and b]
    fewer = [
        math.log(b["facts"] * a["n_weights"] / (a["facts"] * b["n_weights"]))
        for a, b in zip(ours[d], plain[d], strict=True) if a and b
    ]  # fmt: skip
    bits, times, less = mean_interval(stored), _exp(mean_interval(nearer)), _exp(mean_interval(fewer))
    others = ", ".join(
        f"{name} {top:.1%}" for name, found in {"rounded as far as it goes": rounded, "read by signs": by_signs}.items()
        if (top := _top(found))
    )  # fmt: skip
    N = [p["facts"] for p in ours[d] if p]
    verdicts = near(bits, STORED, STORED_WITHIN), at_least(times, TIMES), near(less, FEWER, FEWER_WITHIN)
    return Judgement(
        predicted,
        f"d={d}: N = {min(N)} to {max(N)}, {fmean(stored):.3f} bits per weight, {fmean(stored) / PERCEPTRON:.0%} of "
        f"{PERCEPTRON:g}; {math.exp(fmean(nearer)):.0f} times as near to the bound; the outer product has "
        f"{math.exp(fmean(fewer)):.1f} times the associations per weight (its efficiency {others})",
        f"{len(N)} seeds, 95% [{bits[0]:.3f}, {bits[1]:.3f}], [{times[0]:.0f}, {times[1]:.0f}], "
        f"[{less[0]:.1f}, {less[1]:.1f}]",
        worst(*verdicts, at_least((-bits[1], -bits[0]), -PERCEPTRON)),
        ", ".join(f"{fmean(p['bound_per_weight'] for p in ours[d] if p):.3f} at d={d}" for d in sorted(ours)),
        "preset paper has d = 512: bits per weight that still grow would be nearer to the perceptron's",
    )  # fmt: skip


def _exp(interval: tuple[float, float]) -> tuple[float, float]:
    low, high = (math.exp(min(end, 700.0)) for end in interval)  # one seed has no interval: everything
    return low, high


def _top(found: dict[int, list[Values | None]]) -> float:
    """The best mean efficiency over the sizes at which all seeds have one."""
    return max((fmean(p["efficiency"] for p in seeds if p) for seeds in found.values() if all(seeds)), default=0.0)


CLAIM = Claim(
    "efficiency", "beyond; corollary 2",
    "One-bit weights by message passing, read by signs, store 0.66 bits each at d = 256, 79% of the 0.83 that a binary "
    "perceptron can, and are at least fifty times as near to the counting bound as the outer product with the bits "
    "that corollary 2 counts. It is another task than the paper's arg max over M = N outputs: each association has d "
    "bits and not log2 N, and the outer product stores nine times as many of them per weight.",
    claim_cells, judge,
    "0.66 and nine are what seeds 0 to 4 gave: a list of loads that ended at 0.65 d had given 0.65 and 8. These seeds "
    "took no part.",
)  # fmt: skip

"""Facts in constructions and in trained transformers, against parameters; and figure 3 from real activations."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from facthold.lab import Cell, Figure, Values, style
from facthold.lab.fields import Positive, Repeats
from facthold.measure.scaling import Fit
from facthold.studies.constructions.built import Attended, BuiltSize, constructions
from facthold.studies.judging import columns, constant, facts, grouped, n_params
from facthold.studies.transformers.fact_capacity import FactCapacity
from facthold.studies.transformers.fig4 import QUICK
from facthold.studies.transformers.fig4 import cells as trained_cells
from facthold.theory import bounds

BITS = 2  # bits per parameter of the bound that is drawn: what large language models are seen to use
ANSWERS = 8
TRAINED = "trained"


@dataclass(frozen=True)
class Grid:
    """Tables S = R with D = 8 for each construction, by the size that is given; the other one is searched."""

    attention: tuple[int, ...]  # S, at d = 32 S
    attention_mlp: tuple[int, ...]  # S, at d = 16 S + 1
    values: tuple[int, ...]  # S; d is searched
    selected: tuple[tuple[int, int], ...]  # (S, d)
    trained: tuple[tuple[float, float], ...]  # shapes (alpha, beta) of figure 4's trained transformers
    n_seeds: Repeats = 3
    tolerance: Positive = 0.03  # of the searches


PRESETS = {
    "smoke": Grid(attention=(4,), attention_mlp=(4,), values=(4,), selected=((6, 12),), trained=(), n_seeds=1,
                  tolerance=0.5),
    "quick": Grid(attention=(8, 12, 16), attention_mlp=(8, 12, 16), values=(8, 12, 16, 24, 32),
                  selected=((12, 14), (16, 18), (24, 24), (32, 32), (45, 45)), trained=((0.5, 2.0), (1.0, 4.0))),
    "paper": Grid(attention=(8, 12, 16, 24, 32), attention_mlp=(8, 12, 16, 24, 32), values=(8, 12, 16, 24, 32, 45, 64),
                  selected=((12, 14), (16, 18), (24, 24), (32, 32), (45, 45), (64, 64)),
                  trained=((0.5, 2.0), (1.0, 4.0)), n_seeds=5),
}  # fmt: skip


def cells(grid: Grid) -> list[Cell]:
    def built(builder: str, S: int, d: int, guess: int) -> BuiltSize:
        return BuiltSize.of(grid, builder=builder, S=S, R=S, D=ANSWERS, d=d, guess=guess)

    return [
        *(built("attention", S, 32 * S, 64) for S in grid.attention),
        *(built("attention-mlp", S, 16 * S + 1, 40 * S) for S in grid.attention_mlp),
        *(built("values", S, 0, 2 * S) for S in grid.values),
        *(built("selected", S, d, 3 * d) for S, d in grid.selected),
        *(c for c in trained_cells(QUICK) if isinstance(c, FactCapacity) and (c.alpha, c.beta) in grid.trained),
        Attended(builder="attention", S=4, R=4, D=4, d=128, d_h=64, per_head=2, fact=6),
        Attended(builder="attention-mlp", S=4, R=4, D=4, d=129, d_h=129, m=1024, per_head=2, fact=6),
    ]


def plot(rows: Sequence[Values]) -> "style.Canvas":
    from matplotlib.figure import Figure as Canvas

    prompts = [r for r in rows if r["kind"] == Attended.kind]
    canvas = Canvas(figsize=(14.5, 6.2), layout="constrained")
    left, right = canvas.subfigures(1, 2, width_ratios=(1.0, 1.25))  # type: ignore[misc]
    _facts(left.subplots(), [r for r in rows if r["kind"] != Attended.kind])
    for row, pair in zip(prompts, right.subplots(max(len(prompts), 1), 2, squeeze=False), strict=False):
        _attention(pair[0], row)
        _added(pair[1], row)
    right.suptitle("Figure 3 from real activations", fontsize=11)
    return canvas


def _facts(axes: "style.Axes", rows: Sequence[Values]) -> None:
    from matplotlib.ticker import LogLocator

    style.loglog(axes, rf"Facts held at 99%, $S=R$, $D={ANSWERS}$", "parameters", "facts")
    recipes = by_recipe(rows)
    for i, (name, ours) in enumerate(recipes.items()):
        star = {"color": "black", "marker": "*", "markersize": 7, "linestyle": "none", "label": "trained (figure 4)"}
        look = star if name == TRAINED else {"label": f"{name} ({constructions()[name].place})"}
        style.points(axes, [(n_params(r), facts(r)) for r in ours], i, **look)
    sizes = [n_params(r) for ours in recipes.values() for r in ours]
    c = bounds.FACTS_A_PARAMETER
    style.guide(axes, sizes, lambda n: c * n, f"{c} per parameter (authors)")
    most = lambda n: bounds.capacity_in_bits(lambda N: bounds.bits_uniform(N, ANSWERS), BITS * n)  # noqa: E731
    bound = rf"bound: facts $\log_2 D$ = {BITS} bits per parameter"
    style.guide(axes, sizes, most, bound, color="black", linestyle=":", linewidth=1)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator())  # too many decades for more
    style.legend(axes)


def _attention(axes: "style.Axes", row: Values) -> None:
    """Heads down, the prompt across: what each head attends to."""
    weights = np.array(row["attention"])
    axes.imshow(weights, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(row["tokens"])), row["tokens"], fontsize=7)
    axes.set_yticks(range(len(weights)), [f"head {h}" for h in range(len(weights))], fontsize=7)
    axes.set_title(f"{row['builder']}: attention", fontsize=9)


def _added(axes: "style.Axes", row: Values) -> None:
    """What each head, and the MLP, adds to the scores of the answer and of its best rivals; dots: their sums."""
    added, outputs = np.array(row["added"]), row["outputs"]
    heads = len(row["attention"])
    below, above = np.zeros(len(outputs)), np.zeros(len(outputs))
    for part, values in enumerate(added):
        if np.abs(values).max() < 1e-3 * np.abs(added).max():
            continue  # a head that attends to EOS adds nothing
        start = np.where(values >= 0, above, below)
        label = "MLP" if part == heads else f"head {part}"
        axes.bar(outputs, values, bottom=start, color=style.mark(part)["color"], label=label, width=0.7)
        above, below = above + np.maximum(values, 0), below + np.minimum(values, 0)
    axes.plot(outputs, row["scores"], "ko", markersize=4, label="score")
    axes.axhline(0, color="#777777", linewidth=0.6)
    axes.tick_params(labelsize=7)
    axes.set_title(f"scores; the answer is {outputs[0]}", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    style.legend(axes, fontsize=7)


def by_recipe(rows: Sequence[Values]) -> dict[str, list[Values]]:
    """The rows of each construction and, as the last, of training; those for which no size was found left out."""
    found = [r for r in rows if r["kind"] != Attended.kind and facts(r) is not None and n_params(r) is not None]
    groups = grouped(found, lambda r: r.get("builder", TRAINED))
    return {name: groups[name] for name in (*constructions(), TRAINED) if name in groups}


def fits(rows: Sequence[Values]) -> list[Fit]:
    """Facts per parameter of each construction and of training (geometric mean over sizes)."""
    sizes = {name: columns(ours, n_params, facts) for name, ours in by_recipe(rows).items()}
    return [fit for name, x_y in sizes.items() for fit in constant(f"{name}: facts per parameter", *x_y)]


FIGURE = Figure(
    "constructions", "Facts put into weights, with and without training", "figure 3, theorems 3 and 4, and beyond",
    "Left: the facts that each construction holds at 99%, against the fewest parameters 4 H d d_h + 2 m d that were "
    "enough, beside trained transformers. Right: one prompt through the two constructions of the paper: what each head "
    "attends to, and what it adds to the scores.",
    PRESETS, cells, plot, fits,
    sees="All lines rise in proportion to the parameters; what differs is how many parameters a fact costs.",
)  # fmt: skip

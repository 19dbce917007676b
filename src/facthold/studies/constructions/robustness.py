"""How much a transformer that was built, not trained, can bear: noise, rounding, longer prompts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import NullLocator

from facthold.lab import style
from facthold.lab.cells import Cell
from facthold.lab.figure import Figure, Values
from facthold.measure.scaling import Fit
from facthold.recipes.builders import BUILDERS, builder
from facthold.studies.constructions.robustness_cell import Robustness

PANELS: Mapping[str, tuple[str, str]] = {
    "embeddings": ("Noise in the embeddings", "$x$ of $\\varphi + x\\, g / \\sqrt{d}$"),
    "weights": ("Noise in the weights", "noise / rms entry of each matrix"),
    "bits": ("Rounded weights", "bits a weight"),
    "length": ("Longer prompts", "prompt length $T$"),
}
"""Title and label below, by disturbance."""


@dataclass(frozen=True)
class Grid:
    """The sizes of each builder, and the amounts of each disturbance."""

    S: int
    R: int
    D: int
    attention: tuple[int, int, int]
    """d, d_h, tokens a head."""
    attention_mlp: tuple[int, int, int]
    """d, m, tokens a group of heads."""
    values: int
    """d."""
    selected: tuple[int, int]
    """d, m."""
    noise: tuple[float, ...]
    """Of the embeddings and of the weights."""
    bits: tuple[int, ...]
    T: tuple[int, ...]
    draws: int = 1
    n_seeds: int = 3


_noise = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
PRESETS = {
    "smoke": Grid(S=4, R=4, D=2, attention=(64, 16, 4), attention_mlp=(33, 64, 4), values=16, selected=(12, 16),
                  noise=(0.01, 1.0), bits=(2, 8), T=(32,), n_seeds=1),
    # At these sizes every model recalls all facts while nothing is disturbed.
    "quick": Grid(S=16, R=16, D=8, attention=(1024, 512, 4), attention_mlp=(385, 2048, 4), values=32,
                  selected=(20, 64), noise=_noise, bits=(1, 2, 3, 4, 5, 6, 7, 8, 10, 12), T=(32, 128, 512)),
    "paper": Grid(S=32, R=32, D=8, attention=(2048, 512, 4), attention_mlp=(769, 8192, 8), values=64,
                  selected=(32, 256), noise=_noise, bits=(1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16),
                  T=(32, 64, 128, 256, 512), draws=4, n_seeds=5),
}  # fmt: skip


def cells(grid: Grid) -> list[Cell]:
    common = partial(Robustness, S=grid.S, R=grid.R, D=grid.D, draws=grid.draws, seeds=tuple(range(grid.n_seeds)))
    d, d_h, per_head = grid.attention
    d_mlp, m_mlp, per_group = grid.attention_mlp
    d_selected, m_selected = grid.selected
    builders = (
        partial(common, builder="attention", d=d, d_h=d_h, per_head=per_head),
        partial(common, builder="attention-mlp", d=d_mlp, m=m_mlp, per_head=per_group),
        partial(common, builder="values", d=grid.values),
        partial(common, builder="selected", d=d_selected, m=m_selected),
    )
    amounts = {"embeddings": grid.noise, "weights": grid.noise, "bits": grid.bits, "length": grid.T}
    return [built(disturbance=name, amounts=amounts[name]) for built in builders for name in PANELS if amounts[name]]


def plot(rows: Sequence[Values]) -> Canvas:
    canvas, panels = style.panels(len(PANELS), width=3.7, height=4.0)
    names = [name for name in BUILDERS if any(r["builder"] == name for r in rows)]
    rows = sorted(rows, key=lambda r: names.index(r["builder"]))  # the same colours in whatever order rows are stored
    for axes, (disturbance, (title, x)) in zip(panels, PANELS.items(), strict=True):
        axes.set(title=title, xlabel=x, ylim=(-0.03, 1.03), xscale="linear" if disturbance == "bits" else "log")
        axes.grid(True, alpha=0.25, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        ours = [r for r in rows if r["disturbance"] == disturbance]
        for r in ours:
            _line(axes, r, names.index(r["builder"]), len(names))
        if disturbance in ("bits", "length"):  # whole numbers: mark those that were measured
            amounts = sorted({amount for r in ours for amount in r["amounts"]})
            axes.set_xticks(amounts, [f"{amount:g}" for amount in amounts])
            axes.xaxis.set_minor_locator(NullLocator())
    panels[0].set_ylabel("share of all facts recalled")
    labels = {label: line for axes in panels for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    canvas.legend(list(labels.values()), list(labels), loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    first = rows[0]
    canvas.suptitle(f"S={first['S']}, R={first['R']}, D={first['D']}, {len(first['seeds'])} seeds", fontsize=10)
    return canvas


def _line(axes: Axes, row: Values, number: int, n: int) -> None:
    """The mean over seeds, and the smallest and largest as a band. Later lines are thinner: all are seen where they
    coincide."""
    colour, marker = style.COLOURS[number % len(style.COLOURS)], style.MARKERS[number % len(style.MARKERS)]
    thick = 1.0 + 0.4 * (n - 1 - number)
    x, recall = row["amounts"], row["recall"]
    axes.fill_between(x, row["recall_min"], row["recall_max"], color=colour, alpha=0.15, linewidth=0)
    axes.plot(x, recall, color=colour, marker=marker, markersize=1 + 3.5 * thick, linewidth=thick, label=_label(row))


def _label(row: Values) -> str:
    """The builder, where it comes from, and the sizes that it was given."""
    given = [("d", row["d"]), ("d_h", row["d_h"]), ("m", row["m"])]
    sizes = ", ".join(f"${name}={value}$" for name, value in given if value)
    return f"{row['builder']} ({builder(row['builder']).place}): {sizes}, {row['n_params']:,} parameters"


def fits(rows: Sequence[Values]) -> list[Fit]:
    """Nothing is fitted here."""
    return []


FIGURE = Figure(
    name="robustness",
    title="What transformers that were built without training can bear",
    place="beyond the paper, after theorems 3 and 4",
    caption=(
        "Share of all S R facts that are recalled, mean over seeds with the smallest and the largest as a band. Noise "
        "of the embeddings moves every token, outputs included; noise and rounding of the weights act on W_K, W_Q, W_V "
        "and W_O of each head and on W and V of the MLP, by the scale of each matrix; with one bit only zero is left. "
        "The models are built for prompts of length 32. Each has a size at which it recalls all facts undisturbed: "
        "they differ in parameters by a factor of up to thousands, so that a line says what a construction bears, and "
        "not what a parameter is worth."
    ),
    presets=PRESETS,
    cells=cells,
    plot=plot,
    fits=fits,
)

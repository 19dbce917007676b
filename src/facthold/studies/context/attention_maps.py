"""Where the two layers of an induction head look in one sequence: built beside trained."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from facthold.lab import Cell, Figure, Values, style
from facthold.lab.fields import Count
from facthold.studies.context import induction
from facthold.studies.context.base import RECIPES, BuiltHead
from facthold.studies.context.heads import GenericHead
from facthold.studies.context.induction import GENERIC, TWO, cells_of_kind, where, without_induction

LABELS = {" ": "␣", "\n": "⏎"}
LENGTH = 32  # tokens that are drawn, of those that are kept: more could not be read


@dataclass(frozen=True)
class Grid(induction.Grid):
    """The first seed of figure induction, and built heads."""

    built_d: Count = 256
    solved_d: Count = 128


PRESETS = {
    "smoke": Grid(**vars(induction.PRESETS["smoke"]) | {"built_d": 64, "solved_d": 32}),
    "quick": Grid(),
    "paper": Grid(**vars(induction.PRESETS["paper"])),
}


def cells(grid: Grid) -> list[Cell]:
    sizes = dict(zip(RECIPES, (grid.built_d, grid.solved_d), strict=True))
    built = [BuiltHead.of(grid, d=d, recipe=recipe, seed=grid.seeds[0]) for recipe, d in sizes.items()]
    return [*built, cells_of_kind(grid, TWO)[0], cells_of_kind(grid, GENERIC)[0]]


def label(row: Values) -> str:
    if row["kind"] == BuiltHead.kind:
        return f"built: {row['recipe']}, d = {row['d']}"
    return f"{'a usual transformer' if row['kind'] == GenericHead.kind else 'trained'}, d = {row['d']}"


def plot(rows: Sequence[Values]) -> "style.Canvas":
    """A column for each model, a row for each layer."""
    canvas, axes = style.panels(2 * len(rows), width=4.4, height=4.8, rows=2, squeeze=False)
    for j, r in enumerate(rows):
        drawn = r["map"]
        text = [LABELS.get(character, character) for character in drawn["tokens"][:LENGTH]]
        for i, (layer, panel) in enumerate(zip(drawn["layers"], axes[j :: len(rows)], strict=True)):
            beta = np.full((len(text), len(text)), np.nan)
            for t, row in enumerate(layer[:LENGTH]):
                beta[t, : t + 1] = row
            image = panel.imshow(beta, cmap="Blues", vmin=0, vmax=1, interpolation="none")
            for axis in (panel.xaxis, panel.yaxis):
                axis.set_ticks(range(len(text)), text, fontsize=8, fontfamily="monospace")
            for t, told in enumerate(drawn["told"][1:LENGTH]):
                if told:  # from here the next token can be known
                    panel.get_yticklabels()[t].set(color=style.COLOURS[1], fontweight="bold")
            panel.set(title=f"{label(r)}: layer {i + 1}", xlabel="looked at", ylabel="from")
            panel.tick_params(length=0)
    canvas.colorbar(image, ax=axes, label="share of the attention", location="bottom", shrink=0.5, aspect=50)
    return canvas


def says(rows: Sequence[Values]) -> list[str]:
    return [f"{label(r)}: {r['accuracy']:.1%} of outputs ({without_induction([r])}); {where([r])}" for r in rows]


FIGURE = Figure(
    "attention-maps", "Where an induction head looks, built and trained", "slides: the induction head mechanism",
    "Attention of both layers among the first tokens of one sequence, the same for all models; the darker, the more. "
    "Tokens in colour are triggers whose output the context tells. Layer 1 of an induction head looks at the previous "
    "token, layer 2 looks from a trigger at what stood after it before. Of a usual transformer the head is shown that "
    "does so most.",
    PRESETS, cells, plot, says=says,
    sees="Layer 1 looks one token back; layer 2 looks from a trigger to what stood after it before.",
)  # fmt: skip

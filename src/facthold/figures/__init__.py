"""The figures by name."""

from facthold.errors import unknown
from facthold.figures import (
    constructions,
    edits,
    efficiency,
    facts,
    fig1,
    fig5,
    fig6,
    heatmap,
    ladder,
    moves,
    robustness,
    stages,
    storage,
    transfer,
    zipf,
)
from facthold.figures.base import PRESETS, Figure, Values

FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        fig1.FIGURE,
        *facts.FIGURES,
        heatmap.FIGURE,
        fig5.FIGURE,
        fig6.FIGURE,
        ladder.FIGURE,
        stages.FIGURE,
        constructions.FIGURE,
        robustness.FIGURE,
        transfer.FIGURE,
        storage.FIGURE,
        edits.FIGURE,
        efficiency.FIGURE,
        moves.FIGURE,
        zipf.FIGURE,
    )
}


def figure(name: str) -> Figure:
    """The figure with this name."""
    if name not in FIGURES:
        raise unknown("figure", name, FIGURES)
    return FIGURES[name]


__all__ = ["FIGURES", "PRESETS", "Figure", "Values", "figure"]

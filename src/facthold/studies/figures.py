"""The figures by name."""

from facthold._util.errors import unknown
from facthold.lab.figure import PRESETS, Figure, Values
from facthold.studies.bits import efficiency, moves
from facthold.studies.constructions import constructions, robustness
from facthold.studies.learning import fig5, stages
from facthold.studies.memories import fig1, fig6, ladder
from facthold.studies.real_facts import edits, storage, transfer
from facthold.studies.transformers import fig4 as facts
from facthold.studies.transformers import heatmap
from facthold.studies.zipf import zipf

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

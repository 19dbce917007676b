"""The figures by name."""

from facthold.errors import unknown
from facthold.figures import fig1, fig6, ladder
from facthold.figures.base import PRESETS, Figure, Values

FIGURES: dict[str, Figure] = {module.FIGURE.name: module.FIGURE for module in (fig1, fig6, ladder)}


def figure(name: str) -> Figure:
    """The figure with this name."""
    if name not in FIGURES:
        raise unknown("figure", name, FIGURES)
    return FIGURES[name]


__all__ = ["FIGURES", "PRESETS", "Figure", "Values", "figure"]

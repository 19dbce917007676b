"""Figures, claims and kinds of cells, found by looking: a study, or a file of one's own, only has to define them."""

import re
from collections.abc import Callable, Mapping

from facthold._util.errors import find
from facthold._util.plugins import defined, modules
from facthold.lab.cells import KINDS, Cell
from facthold.lab.claim import Claim
from facthold.lab.figure import Figure
from facthold.lab.summary import Finding

STUDIES = "facthold.studies"


def figures() -> Mapping[str, Figure]:
    """Every figure by name, those of the paper first: ``fh.figures()["fig4"].caption``."""

    def number(name: str) -> float:  # others than the paper's come after them, in the order of the studies
        return float(name[3:]) if re.fullmatch(r"fig\d+", name) else float("inf")

    found = defined(STUDIES, Figure)
    return {name: found[name] for name in sorted(found, key=number)}


def claims() -> Mapping[str, Claim]:
    """Every claim by name, in the order of the studies: ``fh.claims()["gradient-step"].statement``."""
    return defined(STUDIES, Claim, "id")


def findings() -> Mapping[str, Finding]:
    """Every sentence with which a report may begin, by name, in its order."""
    return defined(STUDIES, Finding)


def kinds() -> Mapping[str, type[Cell]]:
    """Every kind of cell by name."""
    for _ in modules(STUDIES):
        pass  # each module that is loaded adds its own
    return KINDS


def figure(name: str) -> Figure:
    """The figure with this name."""
    return find("figure", name, figures())


def claim(id: str) -> Claim:
    """The claim with this name."""
    return find("claim", id, claims())


def cells_of(name: str) -> Callable[[str], list[Cell]]:
    """The cells of a figure at a preset, for a claim that judges the figure's own."""
    return lambda preset: figure(name).cells(figure(name).grid(preset))

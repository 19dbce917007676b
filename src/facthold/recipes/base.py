"""A recipe: all that is known of one way to make a memory or a transformer.

This module and those that define recipes load neither JAX nor SciPy: `facthold list` and `facthold plan` read them.
What computes is imported inside the functions that compute.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from facthold.facts.problem import FactualRecall
    from facthold.facts.table import FactTable
    from facthold.memory.associations import Problem
    from facthold.models.memory import Memory
    from facthold.models.transformer import Transformer

LINEAR, LOW_RANK, MLP, TRANSFORMER = "linear", "low-rank", "mlp", "transformer"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What every recipe says of itself."""

    name: str
    place: str
    """Where it stands in the paper, or that it goes beyond it."""
    outline: str
    """What it does, in a line."""
    family: str
    """'linear' (no m), 'low-rank', 'mlp' (both with m rows) or 'transformer'."""
    fixed: tuple[str, ...] = ()
    """Weights that do not depend on what is stored, such as random features."""
    spec: Mapping[str, Any] = field(default_factory=dict)
    """What its results depend on beside its name and sizes: a change in it is another cell."""


@dataclass(frozen=True, kw_only=True)
class MemoryRecipe(Recipe):
    """A way to make an associative memory (section 3)."""

    make: "Callable[[Problem, int, int], Memory]"
    """From a problem, m and a seed."""
    guess: Callable[[int, int], float]
    """Roughly how many associations it stores at (d, m): where a search starts."""
    protocol: str | None = None
    """The protocol that trains it; None: it is constructed."""
    solved: bool = False
    """Whether it solves a problem over all N x M scores: slower, and more memory."""
    levels: int = 0
    """Its weights are on a grid of so many levels; 0: they are not."""
    in_ladder: bool = True
    """Whether its capacity is a rung of the ladder."""
    signs_guess: Callable[[int], float] | None = None
    """The same as ``guess`` where outputs are read by signs; None: it has no such targets."""


class Question(NamedTuple):
    """A table by its sizes, and the share of it that must be right."""

    S: int
    R: int
    D: int
    accuracy: float = 1.0
    known: int = 0
    """Facts, where they are not all of S x R."""


class Shape(NamedTuple):
    """The sizes of a transformer."""

    d: int
    H: int
    d_h: int
    m: int


@dataclass(frozen=True, kw_only=True)
class FactRecipe(Recipe):
    """A way to make a transformer that knows a table of facts (section 4)."""

    family: str = TRANSFORMER
    build: "Callable[[FactualRecall, Any, Any], Transformer] | None" = None
    """From a problem, sizes and a key; None: it makes its own problem (see ``at_size``)."""
    knob: str
    """The size that decides how much it holds: 'd', 'd_h' or 'm'."""
    refuses: "Callable[[FactTable], str | None]" = lambda table: None
    """Why it cannot hold a table at any size; None: it can."""

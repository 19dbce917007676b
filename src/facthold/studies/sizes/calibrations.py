"""Which cells calibrate the plans: a search for the size that a table needs, for each recipe and table."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from facthold.lab.cells import Cell
from facthold.measure.capacity import FOUND
from facthold.plan.calibrations import Calibration
from facthold.recipes import fact_recipe, fact_recipes
from facthold.recipes.base import FactRecipe, Question, Sizing
from facthold.studies.real_facts.table_size import TableSize
from facthold.studies.sizes.held import HeldSize, TrainedSize

WIDE = (
    (8, 8, 8), (16, 4, 16), (16, 16, 8), (32, 8, 32), (64, 4, 2), (96, 2, 8), (32, 32, 8), (64, 16, 4), (128, 8, 16),
    (24, 48, 4),
)  # fmt: skip
"""(S, R, D) where a recipe names no tables: from 64 to 1,152 facts, S / R from 1/2 to 48, D from 2 to 32."""
TOLERANCE = 0.1


def cells(names: Sequence[str] | None = None) -> list[tuple[str, float, Cell]]:
    """The recipe, the goal and the cell of each calibration."""
    recipes = [fact_recipe(name) for name in names or fact_recipes()]
    return [(recipe.name, *one) for recipe in recipes if recipe.sizing for one in _searches(recipe, recipe.sizing)]


def _searches(recipe: FactRecipe, sizing: Sizing) -> Iterator[tuple[float, Cell]]:
    for i, (S, R, D) in enumerate(sizing.tables or WIDE):
        for goal in sizing.goals:
            question, seed = Question(S, R, D, goal), i % 2
            if recipe.name == "gated":  # it and training are searched on one table each
                yield goal, TableSize(S=S, R=R, D=D, seed=seed)
            elif recipe.name == "train":
                yield goal, TrainedSize(S=S, R=R, D=D, goal=goal, seed=seed)
            else:
                yield goal, HeldSize(
                    method=recipe.name, S=S, R=R, D=D, d=sizing.d(question), per_head=sizing.per_head, goal=goal,
                    guess=max(3, round(sizing.guess(question))), tolerance=TOLERANCE,
                )  # fmt: skip


def calibration(method: str, goal: float, cell: Cell, result: Mapping[str, Any]) -> Calibration:
    """What a cell has found, by the same names for all kinds of cells."""
    spec = cell.spec
    seeds = tuple(spec["seeds"]) if "seeds" in spec else (spec["seed"],)
    found = result["status"] == FOUND
    size = result["size"] if "size" in result else result[fact_recipe(method).searched]
    return Calibration(
        method, spec["S"], spec["R"], spec["D"], goal, seeds, result["status"], size if found else None,
        result["n_params"] if found else None, result.get("seconds"), cell.kind, cell.key, spec,
    )  # fmt: skip

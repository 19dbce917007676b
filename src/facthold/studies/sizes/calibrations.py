"""Which cells calibrate the plans: a search for the size that a table needs, for each recipe and table."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from facthold.lab.cells import Cell
from facthold.measure.capacity import FOUND
from facthold.plan.calibrations import Calibration
from facthold.plan.methods import WAYS, Way
from facthold.plan.rules import Question
from facthold.recipes.builders import BUILDERS
from facthold.studies.real_facts.table_size import TableSize
from facthold.studies.sizes.held import HeldSize
from facthold.studies.sizes.trained_size import TrainedSize

WIDE = (
    (8, 8, 8), (16, 4, 16), (16, 16, 8), (32, 8, 32), (64, 4, 2), (96, 2, 8), (32, 32, 8), (64, 16, 4), (128, 8, 16),
    (24, 48, 4),
)  # fmt: skip
"""(S, R, D): from 64 to 1,152 facts, S / R from 1/2 to 48, D from 2 to 32."""
SMALL = (
    (8, 8, 8), (8, 4, 4), (12, 12, 4), (16, 8, 2), (4, 16, 4), (24, 2, 8), (32, 4, 4), (16, 16, 8), (12, 6, 3),
    (20, 12, 5), (14, 14, 8), (28, 7, 7), (6, 10, 2), (18, 3, 3),
)  # fmt: skip
"""For the paper's constructions, which take a thousand times as many parameters."""
FEW = ((8, 8, 8), (16, 4, 16), (16, 16, 8), (64, 4, 2))
"""For least squares, which does not hold every table at any size: a search that fails is long."""
TRAINED = (*FEW, (12, 12, 4), (32, 8, 8), (48, 5, 8), (24, 8, 4), (10, 20, 6), (36, 6, 12))
TABLES = {
    "attention": SMALL, "attention-full": SMALL, "attention-mlp": SMALL, "values-ridge": FEW, "selected-ridge": FEW,
    "selected-convex": (*WIDE[:6], WIDE[7]), "train": TRAINED,
}  # fmt: skip
"""The tables of each method; `WIDE` for the others."""
TOLERANCE = 0.1


def cells(methods: Sequence[str] | None = None) -> list[tuple[str, float, Cell]]:
    """The method, the goal and the cell of each calibration."""
    return [found for name in methods or WAYS for found in _of_way(WAYS[name])]


def _of_way(way: Way) -> Iterator[tuple[str, float, Cell]]:
    for i, (S, R, D) in enumerate(TABLES.get(way.name, WIDE)):
        for goal in way.goals:
            yield way.name, goal, _cell(way, Question(S, R, D, goal), i % 2)


def _cell(way: Way, question: Question, seed: int) -> Cell:
    """A search over sizes; ``seed`` is of the table of readout and training, which are searched on one each."""
    S, R, D, goal = question[:4]
    if way.name in BUILDERS:
        return HeldSize(
            method=way.name, S=S, R=R, D=D, d=way.d(question), per_head=way.per_head(question), goal=goal,
            guess=max(3, round(way.guess(question))), tolerance=TOLERANCE,
        )  # fmt: skip
    if way.name == "readout":
        return TableSize(S=S, R=R, D=D, seed=seed)
    return TrainedSize(S=S, R=R, D=D, goal=goal, seed=seed)


def calibration(method: str, goal: float, cell: Cell, result: Mapping[str, Any]) -> Calibration:
    """What a cell has found, by the same names for all kinds of cells."""
    spec = cell.spec
    seeds = tuple(spec["seeds"]) if "seeds" in spec else (spec["seed"],)
    found = result["status"] == FOUND
    size = result["m"] if method == "readout" else result["size"]
    return Calibration(
        method, spec["S"], spec["R"], spec["D"], goal, seeds, result["status"], size if found else None,
        result["n_params"] if found else None, result.get("seconds"), cell.kind, cell.key, spec,
    )  # fmt: skip

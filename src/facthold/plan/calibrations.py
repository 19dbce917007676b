"""The measured sizes and seconds that plans rest on: which cells they come from, and the file that keeps them.

The file stands beside this module and is part of the package. `facthold plan --calibrate` computes its cells and writes
it again.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from facthold.cells import Cell
from facthold.errors import FactholdError
from facthold.experiments.builders import BUILDERS
from facthold.experiments.held import HeldSize
from facthold.experiments.table_size import TableSize
from facthold.experiments.trained_size import TrainedSize
from facthold.measure.capacity import FOUND
from facthold.plan.methods import WAYS, Way
from facthold.plan.rules import Question

FILE = Path(__file__).with_name("calibrations.json")
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
PRODUCT = 512
"""Size of the matrices whose product is timed."""


@dataclass(frozen=True)
class Calibration:
    """One search: the size that one table needed."""

    method: str
    S: int
    R: int
    D: int
    goal: float
    seeds: tuple[int, ...]
    status: str
    size: float | None
    """Of the knob; None unless it was found."""
    n_params: float | None
    seconds: float | None
    """Of building the model of this size once; for readout, of its whole search."""
    kind: str
    key: str
    spec: Mapping[str, Any]
    """The cell that found it."""

    @property
    def question(self) -> Question:
        return Question(self.S, self.R, self.D, self.goal)


@dataclass(frozen=True)
class Calibrations:
    """All of them, and where they come from."""

    provenance: Mapping[str, Any]
    rows: Sequence[Calibration]

    def of(self, method: str, goal: float) -> list[Calibration]:
        return [row for row in self.rows if (row.method, row.goal) == (method, goal)]

    @property
    def gflops(self) -> float:
        return float(self.provenance["gflops"])


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


def read(path: Path = FILE) -> Calibrations:
    """The calibrations of a file."""
    try:
        kept = json.loads(path.read_text())
        rows = [Calibration(**row | {"seeds": tuple(row["seeds"])}) for row in kept["rows"]]
        return Calibrations(kept["provenance"], rows)
    except FileNotFoundError:
        raise FactholdError(f"no calibrations at {path}; make them with facthold plan --calibrate") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FactholdError(
            f"cannot read the calibrations {path} ({error}); make them again with facthold plan --calibrate"
        ) from error


def write(calibrations: Calibrations, path: Path) -> None:
    """One row a line, so that a refresh shows what has changed."""
    rows = ",\n".join(json.dumps(asdict(row), sort_keys=True) for row in calibrations.rows)
    head = json.dumps(dict(calibrations.provenance), indent=1)
    path.write_text(f'{{"provenance": {head},\n"rows": [\n{rows}\n]}}\n')


def product_rate(seconds: float = 0.1) -> float:
    """This machine's float32 matrix products in GFLOP/s, on one core: the median over many, as other work disturbs."""
    A = np.ones((PRODUCT, PRODUCT), np.float32)
    A @ A  # the first one wakes the library
    times: list[float] = []
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop or len(times) < 3:
        start = time.perf_counter()
        A @ A
        times.append(time.perf_counter() - start)
    return 2 * PRODUCT**3 / float(np.median(times)) / 1e9

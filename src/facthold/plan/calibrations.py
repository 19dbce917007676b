"""The measured sizes and seconds that plans rest on, and the file beside this module that keeps them: `facthold plan
--calibrate` computes its cells (`studies.sizes.calibrations`) and writes it again."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from timeit import timeit
from typing import Any

import numpy as np

from facthold._util.commands import command
from facthold._util.errors import FactholdError
from facthold._util.files import check_output, json_of, kind_of, writing
from facthold.recipes.base import Question

FILE = Path(__file__).with_name("calibrations.json")
KIND = json_of("provenance")
PRODUCT = 512  # size of the matrices whose product is timed


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
    size: float | None  # of the size that decides; None unless it was found
    n_params: float | None
    seconds: float | None  # of building the model of this size once; for gated, of its whole search
    kind: str
    key: str
    spec: Mapping[str, Any]  # the cell that found it

    @property
    def question(self) -> Question:
        return Question(self.S, self.R, self.D, self.goal)


@dataclass(frozen=True)
class Calibrations:
    """All of them, and where they come from: the machine, its speed and the versions."""

    provenance: Mapping[str, Any]
    rows: Sequence[Calibration]

    def of(self, method: str, goal: float) -> list[Calibration]:
        return [row for row in self.rows if (row.method, row.goal) == (method, goal)]

    @property
    def gflops(self) -> float:
        return float(self.provenance["gflops"])


def read(path: Path = FILE) -> Calibrations:
    try:
        kept = json.loads(path.read_text())
        rows = [Calibration(**row | {"seeds": tuple(row["seeds"])}) for row in kept["rows"]]
        return Calibrations(kept["provenance"], rows)
    except FileNotFoundError:
        raise FactholdError(f"no calibrations at {path}; make them: {_again(path)}") from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        if path.is_file() and kind_of(path) != KIND:
            raise FactholdError(f"{path} is no file of calibrations; make one: {_again(path)}") from error
        reason = f"no {error}" if isinstance(error, KeyError) else error
        raise FactholdError(
            f"cannot read the calibrations {path} ({reason}); make them again: {_again(path)}"
        ) from error


def _again(path: Path) -> str:
    """What makes calibrations: in this file, or in another one where this is not to be written over."""
    free = (name for name in (path, Path("calibrations.json"), Path("calibrations-2.json")) if _takes(name))
    return command("plan", calibrate=True, output=None if path == FILE else next(free, Path("calibrations-3.json")))


def _takes(path: Path) -> bool:
    try:
        check_output(path, KIND)
    except FactholdError:
        return False
    return True


def write(calibrations: Calibrations, path: Path) -> None:
    """One row a line, so that a refresh shows what has changed."""
    rows = ",\n".join(json.dumps(asdict(row), sort_keys=True) for row in calibrations.rows)
    head = json.dumps(dict(calibrations.provenance), indent=1)
    with writing(path, KIND) as stream:
        stream.write(f'{{"provenance": {head},\n"rows": [\n{rows}\n]}}\n'.encode())


def product_rate(seconds: float = 0.1) -> float:
    """This machine's float32 matrix products in GFLOP/s, on one core: the median over many, as other work disturbs."""
    A = np.ones((PRODUCT, PRODUCT), np.float32)
    A @ A  # the first one wakes the library
    times: list[float] = []
    stop = perf_counter() + seconds
    while perf_counter() < stop or len(times) < 3:
        times.append(timeit(lambda: A @ A, number=1))
    return 2 * PRODUCT**3 / float(np.median(times)) / 1e9

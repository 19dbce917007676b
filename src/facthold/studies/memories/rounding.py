"""The rounding cell: margins of the outer product before and after its weights are rounded (corollary 2)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from facthold._util.errors import check_positive
from facthold.construct.linear import outer_product, quantised
from facthold.lab.cells import Cell, Result
from facthold.memory.associations import Problem
from facthold.studies.memories.capacity import nested_problem


@dataclass(frozen=True, kw_only=True)
class Rounding(Cell):
    """All N (N - 1) margins before and after rounding to multiples of ``coarseness`` / (8d), for each seed.

    At coarseness 1 the step is the largest float32 below 1/(8d), as the proof asks for.
    """

    kind: ClassVar[str] = "rounding"

    N: int
    d: int
    seeds: tuple[int, ...]
    coarseness: float = 1.0

    def __post_init__(self) -> None:
        check_positive(N=self.N, d=self.d)
        if self.N < 2 or not self.coarseness > 0:
            raise ValueError(f"N={self.N} and coarseness={self.coarseness}: take N >= 2 and coarseness > 0")

    @property
    def cost(self) -> float:
        return 1.0

    def run(self) -> Result:
        found = [self._one(seed) for seed in self.seeds]
        return {name: [values[name] for values in found] for name in found[0]}

    def _one(self, seed: int) -> dict[str, float]:
        problem = nested_problem(self.N, seed, self.d)
        step = float(np.nextafter(np.float32(self.coarseness / (8 * self.d)), np.float32(0)))
        rounded = quantised(problem, step)
        before, after = _margins(outer_product(problem).W, problem), _margins(rounded.memory.W, problem)
        return {
            "least_before": float(before.min()), "least_after": float(after.min()),
            "change": float(np.abs(after - before).max()), "step": step,
            "bits": rounded.bits_per_weight, "used_bits": rounded.used_bits_per_weight,
        }  # fmt: skip


def _margins(W: object, problem: Problem) -> Float[np.ndarray, " n"]:
    """gamma_xy for all y != x of the identity map, in float64."""
    E, U = np.asarray(problem.E, np.float64), np.asarray(problem.U, np.float64)
    scores = E @ np.asarray(W, np.float64).T @ U.T
    return (np.diag(scores)[:, None] - scores)[~np.eye(len(E), dtype=bool)]

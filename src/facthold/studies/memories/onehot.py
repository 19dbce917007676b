"""The one-hot cell: what any memory can recall when its inputs are one-hot vectors (remark in section 3.1)."""

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from facthold._util.errors import check_positive
from facthold._util.keys import derive
from facthold.construct.linear import outer_product
from facthold.lab.cells import Cell, Result
from facthold.measure.recall import recalled
from facthold.memory.associations import Problem
from facthold.memory.embeddings import orthogonal, sphere


@dataclass(frozen=True, kw_only=True)
class OneHot(Cell):
    """N inputs on d one-hot vectors, each its own output: input x has the vector of x mod d.

    The outputs lie on the sphere, so that they do not limit anything.
    """

    kind: ClassVar[str] = "one-hot"

    d: int
    N: int
    seeds: tuple[int, ...]

    def __post_init__(self) -> None:
        check_positive(d=self.d, N=self.N)

    def run(self) -> Result:
        problems = [self.problem(seed) for seed in self.seeds]
        first = min(self.N, self.d)
        return {
            "outer_product": [int(recalled(outer_product(p), p).sum()) for p in problems],
            # The memory of the first inputs alone shows that the bound is reached.
            "reached": [int(recalled(outer_product(_only(p, first)), p).sum()) for p in problems],
            # One vector gives one answer, and no two inputs share their answer.
            "bound": [len(np.unique(np.asarray(p.E), axis=0)) for p in problems],
        }

    def problem(self, seed: int) -> Problem:
        E = np.asarray(orthogonal(self.d, self.d, key=derive("one-hot", seed)))[np.arange(self.N) % self.d]
        U = sphere(self.N, self.d, key=derive("one-hot outputs", seed, self.d))
        return Problem(jnp.asarray(E), U, jnp.asarray(np.arange(self.N, dtype=np.int32)))


def _only(problem: Problem, n: int) -> Problem:
    """The first n associations."""
    return Problem(problem.E[:n], problem.U[:n], problem.f[:n])

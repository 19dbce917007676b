"""The stored cell: how many of N associations a method gets wrong, seed by seed."""

from dataclasses import dataclass
from typing import ClassVar

from facthold._util.errors import check_positive
from facthold.lab.cells import Cell, Result
from facthold.measure.recall import recalled
from facthold.recipes.make import make_memory
from facthold.recipes.methods import method
from facthold.studies.memories.capacity import nested_problem


@dataclass(frozen=True, kw_only=True)
class Stored(Cell):
    """N associations f*(x) = x on the sphere, put into one memory of size (d, m) a seed."""

    kind: ClassVar[str] = "stored"

    method: str
    N: int
    d: int
    m: int
    seeds: tuple[int, ...]

    def __post_init__(self) -> None:
        check_positive(N=self.N)
        method(self.method).check(self.d, self.m)

    @property
    def cost(self) -> float:
        return 0.5 * len(self.seeds)

    def run(self) -> Result:
        way = method(self.method)
        return {
            "wrong": [self._wrong(seed) for seed in self.seeds],
            "params_per_fact": way.n_params(self.d, self.m) / self.N,
        }

    def _wrong(self, seed: int) -> int:
        problem = nested_problem(self.N, seed, self.d)
        memory = make_memory(method(self.method), problem, self.m, seed)
        return self.N - int(recalled(memory, problem).sum())

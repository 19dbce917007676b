"""The capacity cell: how many associations one method stores at one size, over seeds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax

from facthold._util.errors import check_fits, check_positive, unknown
from facthold._util.keys import derive
from facthold.lab.cells import Cell, Result
from facthold.measure.capacity import Probe, Search, find_capacity, summary
from facthold.measure.recall import accuracy, exact_recall
from facthold.memory.associations import MAPS, Problem, random_problem
from facthold.memory.embeddings import EMBEDDINGS
from facthold.models.memory import Memory
from facthold.recipes.make import make_memory, training_member
from facthold.recipes.methods import Method, method
from facthold.train import fit
from facthold.train.engine import ROUNDING
from facthold.train.lanes import shared_lanes

SEEDS = (0, 1, 2, 3, 4)
RECALL: dict[str, Callable[[Memory, Problem], float]] = {"argmax": accuracy, "exact": exact_recall}


def nested_problem(
    N: int, seed: int, d: int, M: int | None = None, *, embeddings: str = "sphere", map: str = "identity"
) -> Problem:
    """The N associations of this seed. The embeddings of one seed are nested: those of N + 1 begin with those of N."""
    key = derive("problem", seed, d, embeddings, map)
    return random_problem(N, d, M, key=key, embeddings=embeddings, map=map)


@dataclass(frozen=True, kw_only=True)
class Capacity(Cell):
    """The largest N that ``method`` stores at size (d, m)."""

    kind: ClassVar[str] = "capacity"

    method: str
    d: int
    m: int = 0
    """Width or rank; 0 for a full linear memory."""
    map: str = "identity"
    M: int | None = None
    """Outputs; None: as many as inputs."""
    embeddings: str = "sphere"
    goal: float = 0.99
    tolerance: float = 0.01
    seeds: tuple[int, ...] = SEEDS
    start: float = 1.0
    """Where the search starts, as a multiple of the method's own guess."""
    recall: str = "argmax"
    """'argmax': the nearest output is right; 'exact': the sign of every coordinate is (constructions only)."""

    def __post_init__(self) -> None:
        way = method(self.method)
        way.check(self.d, self.m)
        if self.map not in MAPS:
            raise unknown("map", self.map, MAPS)
        if self.embeddings not in EMBEDDINGS:
            raise unknown("embeddings", self.embeddings, EMBEDDINGS)
        if self.M is not None:
            check_positive(M=self.M)
        if not 0 < self.goal <= 1:
            raise ValueError(f"goal={self.goal} must be above 0 and at most 1")
        if self.recall not in RECALL:
            raise unknown("recall", self.recall, RECALL)
        if way.protocol and self.recall != "argmax":
            raise ValueError(f"recall={self.recall!r}: training is judged by 'argmax'; take a construction")
        if not self.seeds:
            raise ValueError("seeds must hold at least one seed")
        N = max(2, round(self.guess))
        check_fits(N=N, d=self.d, M=self.M or N, scores=way.holds_scores)
        assert self.search  # refuses a tolerance below 0

    @property
    def spec(self) -> dict[str, Any]:
        """The fields, and for training all that its protocol says: a changed protocol is another cell."""
        protocol = self.way.protocol
        return super().spec | ({"protocol": protocol.spec} if protocol else {})

    @property
    def way(self) -> Method:
        return method(self.method)

    @property
    def guess(self) -> float:
        return max(2.0, self.start * self.way.guess(self.d, self.m))

    @property
    def search(self) -> Search:
        """From 2 associations to far above any method: 16 guesses, or all that can exist."""
        ceiling = round(16 * self.guess)
        if self.embeddings == "orthogonal":
            ceiling = min(ceiling, self.d)
        if self.map in ("identity", "injective") and self.M is not None:
            ceiling = min(ceiling, self.M)
        return Search(min(2, ceiling), ceiling, self.tolerance)

    @property
    def cost(self) -> float:
        """Seconds: a search trains for about as long as one and a third full-length runs a seed."""
        flops = 2.0 * self.guess * ((self.M or self.guess) + 2 * (self.m or self.d)) * self.d
        protocol = self.way.protocol
        if protocol is not None:
            return len(self.seeds) * 1.3 * protocol.steps * (2 * flops / 6e10 + 6e-5)
        return len(self.seeds) * (10 * flops / 1e10 + 0.3)

    @property
    def label(self) -> str:
        size = f"d={self.d}" + (f" m={self.m}" if self.m else "")
        outputs = f", {self.M} outputs" if self.M else ""
        return f"capacity of {self.method} at {size}{outputs}" + (", exact" if self.recall == "exact" else "")

    def run(self) -> Result:
        ask = self._train if self.way.protocol else self._build
        found = summary(find_capacity(ask, self.seeds, self.guess, self.search))
        n_params = self.way.n_params(self.d, self.m)
        per_fact = n_params / found["N"] if found["N"] else None
        return found | {"n_params": n_params, "params_per_fact": per_fact}

    def problem(self, N: int, seed: int) -> Problem:
        """The N associations of this seed."""
        return nested_problem(N, seed, self.d, self.M, embeddings=self.embeddings, map=self.map)

    def _train(self, questions: Sequence[tuple[int, int]]) -> list[Probe]:
        """One round of probes, trained side by side."""
        assert self.way.protocol is not None
        members = [training_member(self.way, self.problem(N, seed), self.m, seed) for N, seed in questions]
        runs = fit(members, replace(self.way.protocol, goal=self.goal))
        return [
            Probe(N, seed, float("nan") if run.status == "diverged" else run.best, run.succeeded, run.status, run.steps)
            for (N, seed), run in zip(questions, runs, strict=True)
        ]

    def _build(self, questions: Sequence[tuple[int, int]]) -> list[Probe]:
        return list(shared_lanes().map(self._build_one, questions))

    def _build_one(self, question: tuple[int, int]) -> Probe:
        N, seed = question
        problem = self.problem(N, seed)
        memory = make_memory(self.way, problem, self.m, seed)
        share = RECALL[self.recall](jax.block_until_ready(memory), problem)
        return Probe(N, seed, share, share >= self.goal - ROUNDING, "built")

"""Cells of `sharp`: the largest N that any linear memory recalls, the same for a criterion that asks for less, and what
finite d changes in the law."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from facthold._util.keys import derive
from facthold._util.memory import Parts, bytes_of
from facthold.lab import Cell, Result
from facthold.lab.fields import Between, Count, Positive, Seeds, Tolerance
from facthold.measure.capacity import FOUND, Capacity, Probe, Search, find_capacity, summary
from facthold.theory import sharp
from facthold.theory.listwise import listwise_constant, listwise_separable
from facthold.train.lanes import shared_lanes

if TYPE_CHECKING:
    from facthold.memory.associations import Problem

Dimension = Annotated[int, Between(least=2)]
Tail = Annotated[float, Between(low=0, most=0.5)]  # of the rivals
INSEPARABLE, UNDECIDED = "inseparable", "not decided"  # as `construct.separate` has them, which loads JAX
STEPS_BEYOND = 8  # each by the tolerance of the search
HELD = 1 << 21  # scores, as it holds them


@dataclass(frozen=True, kw_only=True)
class Largest(Cell):
    """The largest N that a solver puts into one matrix, f*(x) = x on the sphere, with the seeds' own embeddings: those
    of figure 1. What is refused was not found to be possible; whether it was shown to be impossible is said beside."""

    counts_no_facts: ClassVar[str] = "there is only one map f*(x) = x"

    d: Dimension
    tolerance: Tolerance = 0.01
    seeds: Seeds
    start: Positive = 1.0  # where the search starts, as a multiple of the law's N

    @property
    @abstractmethod
    def law(self) -> float: ...

    @abstractmethod
    def solve(self, problem: "Problem") -> tuple[bool, float, str]:
        """Whether it is possible, the share of inputs that are right, and how the solver ended."""

    @property
    def guess(self) -> float:
        return max(2.0, self.start * self.law)

    @property
    def cost(self) -> float:
        return len(self.seeds) * (1 + 1e-5 * self.d**3)

    @property
    def needed(self) -> Parts:
        pairs = 8.0 * self.d**2  # that violate their margin in the first steps
        embeddings = 4.0 * self.guess * self.d
        return {f"d={self.d}": bytes_of(embeddings=embeddings, weights=8.0 * self.d**2, scores=HELD + 4 * pairs)}

    def run(self) -> Result:
        """Each seed's whole search is a piece of work of its own: none waits for the others' harder questions."""
        found = list(shared_lanes().map(self._search, self.seeds))
        result = summary(found)
        for seed in result["per_seed"]:
            seed["impossible"] = impossible(seed)
        return result

    def _search(self, seed: int) -> Capacity:
        search = Search(2, round(16 * self.guess), self.tolerance)
        (found,) = find_capacity(
            lambda questions: [self._ask(N, seed) for N, _ in questions], (seed,), self.guess, search
        )
        return replace(found, probes=(*found.probes, *self._beyond(found)))

    def _beyond(self, found: Capacity) -> list[Probe]:
        """Further questions, upwards from what was refused until it is certified to be impossible."""
        asked = {probe.N: probe for probe in found.probes}
        certified = min((N for N, probe in asked.items() if probe.detail == INSEPARABLE), default=math.inf)
        N, more = found.refused, list[Probe]()
        while N is not None and certified > N and asked[N].detail == UNDECIDED and len(more) < STEPS_BEYOND:
            N = max(N + 1, round(N * (1 + self.tolerance)))
            if certified > N and N not in asked:
                asked[N] = self._ask(N, found.seed)
                more.append(asked[N])
        return more

    def _ask(self, N: int, seed: int) -> Probe:
        from facthold.memory.associations import seeded_problem

        possible, share, status = self.solve(seeded_problem(N, seed, self.d))
        return Probe(N, seed, share, possible, status)


def impossible(seed: Mapping[str, Any]) -> int | None:
    """The smallest N of a seed's search that was certified to be inseparable; None where there is none."""
    return min((probe["N"] for probe in seed["probes"] if probe["detail"] == INSEPARABLE), default=None)


@dataclass(frozen=True, kw_only=True)
class Separable(Largest):
    """The largest N whose associations are all recalled by some W (`construct.separate`)."""

    kind: ClassVar[str] = "separable"

    products: Count = 1500  # with the Hessian, after which a solve is not decided

    @property
    def law(self) -> float:
        N = sharp.separable(self.d)
        return N * (0.985 + sharp.active_rivals(N) / (4 * self.d))  # a start, not a result: a little below is quick

    def solve(self, problem: "Problem") -> tuple[bool, float, str]:
        from facthold.construct.separate import SEPARATED, separate

        found = separate(problem, products=self.products)
        return found.status == SEPARATED, found.recalled, found.status


@dataclass(frozen=True, kw_only=True)
class ListwiseCapacity(Largest):
    """The same where each answer is to be above the mean of the largest ``share`` of its rivals (`construct.listwise`).
    There is no certificate: it is what the solver meets."""

    kind: ClassVar[str] = "listwise-capacity"

    share: Tail = 0.1

    @property
    def law(self) -> float:
        return self.d**2 / listwise_constant(self.share)

    @property
    def cost(self) -> float:
        return len(self.seeds) * (1 + 6e-9 * self.d**5)

    def solve(self, problem: "Problem") -> tuple[bool, float, str]:
        from facthold.construct.listwise import MET, listwise

        found = listwise(problem, self.share)
        return found.status == MET, found.right, found.status


@dataclass(frozen=True, kw_only=True)
class SphereRivals(Cell):
    """What the law's Delta(N) is multiplied by at finite d, at the law's own N: no memory is made."""

    kind: ClassVar[str] = "sphere-rivals"
    counts_no_facts: ClassVar[str] = "no memory is made"

    d: Dimension
    n_draws: Annotated[int, Between(least=2)] = 1000
    seed: int = 0

    @property
    def cost(self) -> float:
        return 3e-7 * self.n_draws * self.d**2

    def run(self) -> Result:
        from facthold.memory.embeddings import host_generator

        N = max(2, round(sharp.separable(self.d)))
        generator = host_generator(derive("sphere rivals", self.seed, self.d))
        found, ideal = sharp.sphere_rivals(self.d, N, self.n_draws, generator), sharp.active_rivals(N)
        return {"status": FOUND, "share": found.mean / ideal, "error": found.error / ideal}


@dataclass(frozen=True, kw_only=True)
class ListwiseLaw(Cell):
    """The N that the geometry of its cone gives the listwise criterion: no memory is made."""

    kind: ClassVar[str] = "listwise-law"
    counts_no_facts: ClassVar[str] = "no memory is made"

    d: Dimension
    share: Tail = 0.1
    n_draws: Annotated[int, Between(least=2)] = 1000
    seed: int = 0

    def run(self) -> Result:
        found = listwise_separable(self.d, self.share, self.n_draws, self.seed)
        return {"status": FOUND, "predicted": found.mean, "error": found.error}

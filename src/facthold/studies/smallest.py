"""The smallest size at which a recipe holds a table: what the kinds of cells that search for it share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

from facthold.lab import Account, Result, TableCell, of_goal
from facthold.lab.fields import Between, Count, Seeds, Share, Whole
from facthold.measure.capacity import find_smallest

CEILINGS = {"d": 4096, "d_h": 2048, "m": 1 << 16}  # searches end here: beyond, no laptop is large enough


class Trial(NamedTuple):
    """A model of one size that was tried."""

    accuracy: float
    about: Mapping[str, Any]  # what the result says of it where its size is the smallest: at least ``n_params``


@dataclass(frozen=True, kw_only=True)
class SizeSearch(TableCell):
    """The smallest size at which the share ``goal`` of a table is recalled."""

    goal: Share = 0.99

    def search(
        self, trial: Callable[[int], Trial], guess: int, *, floor: int = 1, ceiling: int, tolerance: float = 0.0,
        unit: int = 1,
    ) -> Result:  # fmt: skip
        """Search from ``guess``, all of them in multiples of ``unit``: status, size, probes, and what the trial of that
        size says of its model. Where no size was found, ``size`` and ``n_params`` are None."""
        tried: dict[int, Trial] = {}

        def ask(units: int) -> float:
            tried[units] = trial(unit * units)
            return tried[units].accuracy

        smallest = find_smallest(ask, self.goal, guess, floor=floor, ceiling=ceiling, tolerance=tolerance)
        return {
            "status": smallest.status, "size": smallest.size and unit * smallest.size, "n_params": None,
            "probes": [[unit * units, accuracy] for units, accuracy in smallest.probes],
            **(tried[smallest.size].about if smallest.size else {}),
        }  # fmt: skip

    def accounts(self, result: Mapping[str, Any]) -> list[Account] | str:
        """The model of each search that found one: a result is one search, or has one for each seed."""
        found = [search for search in result.get("per_seed", [result]) if search.get("n_params")]
        facts, tried = result.get("facts") or self.n_facts, sum(len(search["probes"]) for search in found)
        return [of_goal(facts, self.D, self.goal, search["n_params"], tried) for search in found]


@dataclass(frozen=True, kw_only=True)
class ConstructionSize(SizeSearch):
    """The smallest size of a construction."""

    farthest: ClassVar[int]  # a search ends at so many times its guess too

    d: Whole = 0  # embedding dimension; 0 where it is what is searched
    per_head: Whole = 0
    guess: Count = 64
    tolerance: Annotated[float, Between(least=0)]
    seeds: Seeds = (0, 1, 2)

    @property
    def searched(self) -> str:
        """The size that is searched: 'd', 'd_h' or 'm'."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.searched == "d") == bool(self.d):
            problem = "is what is searched; leave it 0" if self.d else f"must be given: {self.searched} is searched"
            raise ValueError(f"d={self.d} {problem}")

    def search_size(self, trial: Callable[[int], Trial]) -> Result:
        """`search` within the bounds of what is searched."""
        ceiling = min(CEILINGS[self.searched], self.farthest * self.guess)
        floor = 3 if self.searched == "d" else 1
        return self.search(trial, self.guess, floor=floor, ceiling=ceiling, tolerance=self.tolerance)

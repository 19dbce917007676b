"""Capacity: the largest N that is still recalled, found by search, with a status that says how far to trust it.

The search knows nothing of models: it asks for probes (N, seed) and gets accuracies. All seeds search
side by side, each with a bracket of its own, so that the probes of one round can train as one ensemble.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean, stdev
from typing import Any

FOUND = "found"
CEILING = "search ceiling"
FLOOR = "search floor"
FAILED = "failed"

STEPS = (1.04, 1.06, 1.12, 1.25, 1.6, 2.5, 6.0)
"""Factors by which the search steps away from its guess while it has not met the other side; the last repeats."""


@dataclass(frozen=True)
class Probe:
    """One question that was asked: were N associations stored with this seed?"""

    N: int
    seed: int
    accuracy: float
    stored: bool
    detail: str = ""  # how the probe ended, where that is more than its accuracy: 'futile', 'diverged'
    steps: int = 0  # training steps it took; 0 for constructions


@dataclass(frozen=True)
class Capacity:
    """The capacity for one seed: the largest N that was stored, and the smallest above it that was not."""

    seed: int
    status: str
    """'found'; 'search ceiling': everything up to the ceiling was stored, the capacity is larger;
    'search floor': not even the floor was; 'failed': the probes gave no answer."""
    stored: int | None  # largest N that was stored (None where none was)
    refused: int | None  # smallest N above it that was not stored (None at the ceiling)
    probes: tuple[Probe, ...] = ()

    @property
    def N(self) -> int | None:
        """The capacity, and None unless it was found: a ceiling is never a capacity."""
        return self.stored if self.status == FOUND else None


@dataclass(frozen=True)
class Search:
    """How to search.

    ``tolerance`` is relative: the search ends when refused / stored <= 1 + tolerance, or when they are
    neighbours. The capacity is the stored end of this bracket, as in the authors' code.
    """

    floor: int
    ceiling: int
    tolerance: float = 0.01

    def __post_init__(self) -> None:
        if not 1 <= self.floor <= self.ceiling:
            raise ValueError(f"a search needs 1 <= floor <= ceiling, not floor={self.floor}, ceiling={self.ceiling}")
        if self.tolerance < 0:
            raise ValueError(f"tolerance={self.tolerance} must be 0 or more")


@dataclass
class _Bracket:
    """The state of one seed's search."""

    search: Search
    seed: int
    next: int | None
    stored: int | None = None
    refused: int | None = None
    opening: int = 0
    failed: bool = False
    probes: list[Probe] = field(default_factory=list)

    def tell(self, probe: Probe) -> None:
        """Take in a probe's answer and decide on the next."""
        self.probes.append(probe)
        if math.isnan(probe.accuracy):
            self.failed, self.next = True, None
            return
        if probe.stored:
            self.stored = max(probe.N, self.stored or 0)
        else:
            self.refused = min(probe.N, self.refused or probe.N)
        self.next = self._propose()

    def _propose(self) -> int | None:
        low, high = self.stored, self.refused
        if low is not None and high is not None:
            if high - low <= 1 or high / low <= 1 + self.search.tolerance:
                return None
            return min(max(round(math.sqrt(low * high)), low + 1), high - 1)
        factor = max(STEPS[min(self.opening, len(STEPS) - 1)], 1 + self.search.tolerance)
        self.opening += 1
        if low is not None:
            return None if low >= self.search.ceiling else min(max(round(low * factor), low + 1), self.search.ceiling)
        assert high is not None
        return None if high <= self.search.floor else max(min(round(high / factor), high - 1), self.search.floor)

    def result(self) -> Capacity:
        if self.failed:
            status = FAILED
        elif self.stored is None:
            status = FLOOR
        else:
            status = CEILING if self.refused is None else FOUND
        return Capacity(self.seed, status, self.stored, self.refused, tuple(self.probes))


def find_capacity(
    ask: Callable[[Sequence[tuple[int, int]]], Sequence[Probe]], seeds: Sequence[int], guess: float, search: Search
) -> list[Capacity]:
    """Search the capacity for each seed, starting at ``guess``.

    ``ask`` gets one round of questions (N, seed) and answers them in order.
    """
    if not seeds:
        raise ValueError("a capacity search needs at least one seed")
    first = min(max(round(guess), search.floor), search.ceiling)
    brackets = [_Bracket(search, seed, first) for seed in seeds]
    while asking := [b for b in brackets if b.next is not None]:
        answers = ask([(b.next, b.seed) for b in asking if b.next is not None])
        for bracket, probe in zip(asking, answers, strict=True):
            bracket.tell(probe)
    return [bracket.result() for bracket in brackets]


def summary(capacities: Sequence[Capacity]) -> dict[str, Any]:
    """Capacities over seeds as JSON values: mean and spread over seeds that were found, status of all.

    Where one seed was not found there is no mean: it would leave out what lies beyond the search.
    """
    N = [c.N for c in capacities if c.N is not None]
    complete = len(N) == len(capacities)
    statuses = sorted({c.status for c in capacities if c.status != FOUND})
    return {
        "status": FOUND if complete else ", ".join(statuses),
        "N": fmean(N) if complete else None,
        "N_min": min(N) if complete else None,
        "N_max": max(N) if complete else None,
        "N_sd": stdev(N) if complete and len(N) > 1 else None,
        "per_seed": [asdict(c) for c in capacities],
    }

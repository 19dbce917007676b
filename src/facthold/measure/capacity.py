"""Capacity: the largest N that is still recalled, found by search, with a status that says how far to trust it.

The search knows nothing of models: it asks for probes (N, seed) and gets accuracies. All seeds search
side by side, each with a bracket of its own, so that the probes of one round can train as one ensemble.
"""

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean, stdev
from typing import Any

FOUND = "found"
CEILING = "search ceiling"
FLOOR = "search floor"
FAILED = "failed"

STEPS = (1.04, 1.06, 1.12, 1.25, 1.6, 2.5, 6.0)  # factors of the steps away from a guess; the last repeats


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
    """How to search: it ends when high / low <= 1 + tolerance, or when they are neighbours.

    The capacity is the stored end of this bracket, as in the authors' code.
    """

    floor: int
    ceiling: int
    tolerance: float = 0.01

    def __post_init__(self) -> None:
        if not 1 <= self.floor <= self.ceiling:
            raise ValueError(f"a search needs 1 <= floor <= ceiling, not floor={self.floor}, ceiling={self.ceiling}")
        if self.tolerance < 0:
            raise ValueError(f"tolerance={self.tolerance} must be 0 or more")

    def first(self, guess: int) -> int:
        return min(max(guess, self.floor), self.ceiling)

    def next(self, low: int | None, high: int | None, up: int, down: int) -> int | None:
        """Where to ask next: between both sides, or at ``up`` or ``down`` while one was not met; None at the end."""
        if low is None:
            assert high is not None
            return None if high <= self.floor else max(min(down, high - 1), self.floor)
        if high is None:
            return None if low >= self.ceiling else min(max(up, low + 1), self.ceiling)
        if high - low <= 1 or high <= low * (1 + self.tolerance):
            return None
        return min(max(round(math.sqrt(low * high)), low + 1), high - 1)


def _status(low: int | None, high: int | None) -> str:
    return FLOOR if low is None else CEILING if high is None else FOUND


@dataclass
class _Bracket:
    """The state of one seed's search."""

    search: Search
    seed: int
    next: int | None
    stored: int | None = None
    refused: int | None = None
    failed: bool = False
    probes: list[Probe] = field(default_factory=list)

    def tell(self, probe: Probe) -> None:
        """Take in a probe's answer and decide on the next."""
        factor = max(STEPS[min(len(self.probes), len(STEPS) - 1)], 1 + self.search.tolerance)
        self.probes.append(probe)
        if math.isnan(probe.accuracy):
            self.failed, self.next = True, None
            return
        if probe.stored:
            self.stored = max(probe.N, self.stored or 0)
        else:
            self.refused = min(probe.N, self.refused or probe.N)
        self.next = self.search.next(self.stored, self.refused, round(probe.N * factor), round(probe.N / factor))

    def result(self) -> Capacity:
        status = FAILED if self.failed else _status(self.stored, self.refused)
        return Capacity(self.seed, status, self.stored, self.refused, tuple(self.probes))


def find_capacity(
    ask: Callable[[Sequence[tuple[int, int]]], Sequence[Probe]], seeds: Sequence[int], guess: float, search: Search
) -> list[Capacity]:
    """Search the capacity for each seed, starting at ``guess``.

    ``ask`` gets one round of questions (N, seed) and answers them in order.
    """
    if not seeds:
        raise ValueError("a capacity search needs at least one seed")
    brackets = [_Bracket(search, seed, search.first(round(guess))) for seed in seeds]
    while asking := [b for b in brackets if b.next is not None]:
        answers = ask([(b.next, b.seed) for b in asking if b.next is not None])
        for bracket, probe in zip(asking, answers, strict=True):
            bracket.tell(probe)
    return [bracket.result() for bracket in brackets]


def spread(name: str, values: Sequence[float | None]) -> dict[str, float | None]:
    """Mean, smallest and largest over seeds, as ``name``, ``name``_min and ``name``_max.

    Where one seed has no value there is no mean: it would leave out what lies beyond the search.
    """
    found = [value for value in values if value is not None]
    measures: dict[str, Callable[..., float]] = {name: fmean, f"{name}_min": min, f"{name}_max": max}
    return {key: of(found) if len(found) == len(values) else None for key, of in measures.items()}


def summary(capacities: Sequence[Capacity]) -> dict[str, Any]:
    """Capacities over seeds as JSON values: their `spread`, and the status of all."""
    N = [c.N for c in capacities if c.N is not None]
    statuses = sorted({c.status for c in capacities} - {FOUND})
    deviation = stdev(N) if not statuses and len(N) > 1 else None
    found = spread("N", [c.N for c in capacities]) | {"N_sd": deviation}
    return {"status": ", ".join(statuses) or FOUND, **found, "per_seed": [asdict(c) for c in capacities]}


@dataclass(frozen=True)
class Smallest:
    """The mirror of a capacity: the smallest size that was enough, and the largest below it that was not."""

    status: str
    """'found'; 'search floor': even the floor is enough, and less may be; 'search ceiling': not even the ceiling is."""
    enough: int | None
    too_small: int | None
    probes: tuple[tuple[int, float], ...]  # (size, accuracy), in the order in which they were asked

    @property
    def size(self) -> int | None:
        """The size, and None unless it was found: a floor is never a result."""
        return self.enough if self.status == FOUND else None


def find_smallest(
    ask: Callable[[int], float], goal: float, guess: int, *, floor: int = 1, ceiling: int, tolerance: float = 0.03,
    step: float = 1.5,
) -> Smallest:  # fmt: skip
    """Search the smallest size x with ask(x) >= goal, as if that were monotone, from ``guess``.

    ``step`` is the factor by which it steps away from its guess until it has met the other side.
    """
    search = Search(floor, ceiling, tolerance)
    return find_smallest_of_each(lambda sizes: [ask(x) for x, _ in sizes], goal, [0], guess, search, step)[0]


def find_smallest_of_each(
    ask: Callable[[Sequence[tuple[int, int]]], Sequence[float]], goal: float, seeds: Sequence[int], guess: int,
    search: Search, step: float = 1.5,
) -> list[Smallest]:  # fmt: skip
    """`find_smallest` for several seeds side by side: ``ask`` gets one round of questions (x, seed), and answers them
    in order, so that they can train together."""
    running = {seed: _smallest(goal, guess, search, step) for seed in seeds}
    asked, found = {seed: next(one) for seed, one in running.items()}, dict[int, Smallest]()
    while asked:
        answers = ask([(x, seed) for seed, x in asked.items()])
        for seed, answer in zip(list(asked), answers, strict=True):
            try:
                asked[seed] = running[seed].send(answer)
            except StopIteration as end:
                found[seed] = end.value
                del asked[seed]
    return [found[seed] for seed in seeds]


def _smallest(goal: float, guess: int, search: Search, step: float) -> Generator[int, float, Smallest]:
    """One search: it yields sizes, and is sent the accuracy of each."""
    enough, too_small, probes = None, None, []
    x: int | None = search.first(guess)
    while x is not None:
        probes.append((x, (yield x)))
        if probes[-1][1] >= goal:
            enough = x
        else:
            too_small = x
        x = search.next(too_small, enough, math.ceil(x * step), math.floor(x / step))
    return Smallest(_status(too_small, enough), enough, too_small, tuple(probes))

"""The smallest size at which something is recalled, found by search: the mirror of a capacity."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from facthold.measure.capacity import CEILING, FLOOR, FOUND

STEP = 1.5  # factor by which the search steps away from its guess until it has met the other side


@dataclass(frozen=True)
class Smallest:
    """The smallest size that was enough, and the largest below it that was not."""

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
    step: float = STEP,
) -> Smallest:  # fmt: skip
    """Search the smallest size x with ask(x) >= goal, as if that were monotone, from ``guess``.

    It ends where enough / too_small <= 1 + tolerance, or at neighbours.
    """
    if not 1 <= floor <= ceiling:
        raise ValueError(f"a search needs 1 <= floor <= ceiling, not floor={floor}, ceiling={ceiling}")
    enough: int | None = None
    too_small: int | None = None
    probes: list[tuple[int, float]] = []
    x = min(max(guess, floor), ceiling)
    while True:
        accuracy = ask(x)
        probes.append((x, accuracy))
        if accuracy >= goal:
            enough = x
        else:
            too_small = x
        if enough is not None and too_small is not None:
            if enough - too_small <= 1 or enough <= too_small * (1 + tolerance):
                return Smallest(FOUND, enough, too_small, tuple(probes))
            x = min(max(round(math.sqrt(enough * too_small)), too_small + 1), enough - 1)
        elif enough is not None:
            if enough == floor:
                return Smallest(FLOOR, enough, None, tuple(probes))
            x = max(min(math.floor(enough / step), enough - 1), floor)
        else:
            if x == ceiling:
                return Smallest(CEILING, None, x, tuple(probes))
            x = min(max(math.ceil(x * step), x + 1), ceiling)

"""Intervals over subjects: facts about one country are not independent of each other, so that whole countries are
drawn again, with all of their facts."""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from facthold.lab.claim import Interval

DRAWS, SEED = 2000, 2412_06538


def bits(flags: Sequence[bool] | np.ndarray) -> str:
    """Yes and no of many facts, as a row of a store keeps them."""
    return "".join("1" if flag else "0" for flag in flags)


def flags(text: str) -> np.ndarray:
    """The same as numbers 0.0 and 1.0."""
    return np.array([float(letter) for letter in text])


@cache
def _weights(n: int) -> np.ndarray:
    """How often each of n subjects is drawn, in every draw; the first row has each of them once."""
    random = np.random.Generator(np.random.Philox(SEED))
    return np.concatenate([np.ones((1, n)), random.multinomial(n, np.full(n, 1 / n), size=DRAWS)])


def interval_of(
    subjects: Sequence[str], measure: Callable[[np.ndarray], np.ndarray], level: float = 0.95
) -> tuple[float, Interval]:
    """A measure and its bootstrap interval. ``measure`` takes the weights of facts, [draws, n], and gives a number for
    each row; ``subjects`` are those of the facts."""
    names = {name: i for i, name in enumerate(dict.fromkeys(subjects))}
    drawn = _weights(len(names))[:, [names[s] for s in subjects]]
    with np.errstate(invalid="ignore", divide="ignore"):
        found = np.asarray(measure(drawn), float)
    low, high = np.nanquantile(found[1:], [(1 - level) / 2, (1 + level) / 2])
    return float(found[0]), (float(low), float(high))


def mean_by(weights: np.ndarray, values: np.ndarray, groups: Sequence[str] | None = None) -> np.ndarray:
    """Weighted means of the facts' values, [draws]; with ``groups``, such as relations, the mean of the groups' means,
    so that a relation with many facts counts no more than another."""
    if groups is None:
        return (weights * values).sum(1) / weights.sum(1)
    names = np.array(groups)
    each = np.array([mean_by(weights[:, names == name], values[names == name]) for name in dict.fromkeys(groups)])
    drawn = ~np.isnan(each)  # groups of which no fact was drawn are left out
    return np.where(drawn, each, 0.0).sum(0) / drawn.sum(0)

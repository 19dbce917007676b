"""Weights on a uniform grid as whole numbers, packed into few bytes: docs/export.md says how a stranger reads them.

The L levels of a grid are digits of numbers in base L. As many digits as fit share a group of 1 to 8 bytes: 5 digits of
three levels in one byte, 2 of 4095 levels in three.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

WIDEST = 8  # bytes of a group: one machine word holds all of its digits


class OnGrid(NamedTuple):
    """An array of weights on a grid: ``steps`` times the whole or half numbers from -(L-1)/2 to (L-1)/2."""

    levels: int  # L
    steps: np.ndarray  # how far two neighbours are apart; of a shape that is broadcast
    points: np.ndarray  # which of the levels, from 0 to L - 1

    @property
    def weights(self) -> np.ndarray:
        return self.steps * (self.points - (self.levels - 1) / 2).astype(self.steps.dtype)


def pack(weights: Mapping[str, OnGrid]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays ``packed.NAME`` and ``steps.NAME`` of a file, and what has to be said of each."""
    arrays, about = {}, {}
    for name, on in weights.items():
        per_group, width = _group(on.levels, on.points.size)
        padded = np.zeros(-(-on.points.size // per_group) * per_group, np.uint64)
        padded[: on.points.size] = on.points.ravel()
        words = padded.reshape(-1, per_group) @ _powers(on.levels, per_group)
        arrays[f"packed.{name}"] = words.astype("<u8").view(np.uint8).reshape(-1, WIDEST)[:, :width]
        arrays[f"steps.{name}"] = on.steps
        about[name] = {"levels": on.levels, "per_group": per_group, "shape": list(on.points.shape)}
    return arrays, about


def unpack(arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> Iterator[tuple[str, OnGrid]]:
    """The weights of a file on their grids, each by its name, exactly as they were packed."""
    for name, kind in about.items():
        levels, per_group, shape = kind["levels"], kind["per_group"], tuple(kind["shape"])
        packed, steps = arrays[f"packed.{name}"], arrays[f"steps.{name}"]
        _check(name, levels, per_group, shape, packed)
        words = packed.astype(np.uint64) @ _powers(256, packed.shape[1])
        points = (words[:, None] // _powers(levels, per_group)) % np.uint64(levels)
        n = int(np.prod(shape))
        yield name, OnGrid(levels, steps, points.ravel()[:n].reshape(shape))


def _group(levels: int, n: int) -> tuple[int, int]:
    """Digits and bytes of a group: those that take the fewest bytes for n weights."""
    sizes = [(max(k for k in range(1, 65) if levels**k <= 256**w), w) for w in range(1, WIDEST + 1) if 256**w >= levels]
    return min(sizes, key=lambda size: (-(-n // size[0]) * size[1], size[1]))


def _powers(base: int, n: int) -> np.ndarray:
    return np.array([base**k for k in range(n)], np.uint64)


def _check(name: str, levels: Any, per_group: Any, shape: tuple[Any, ...], packed: np.ndarray) -> None:
    """Refuse what cannot have been packed here."""
    numbers = (levels, per_group, *shape)
    if not all(isinstance(number, int) and not isinstance(number, bool) and number > 0 for number in numbers):
        raise ValueError(f"packed.{name} has sizes that are no whole numbers above 0")
    if packed.dtype != np.uint8 or packed.ndim != 2 or not 1 <= packed.shape[1] <= WIDEST:
        raise ValueError(f"packed.{name} is {packed.dtype} of the shape {packed.shape}, and should be groups of bytes")
    if levels < 2 or per_group > 64 or levels**per_group > 256 ** packed.shape[1]:
        raise ValueError(f"packed.{name} has {levels} levels, {per_group} in {packed.shape[1]} bytes: they do not fit")
    n = int(np.prod(shape, dtype=object))
    if len(packed) != -(-n // per_group):
        raise ValueError(f"packed.{name} has {len(packed)} groups of {per_group}, and {n} weights")

"""Uniform grids for weights, and which of them are tried. It loads nothing: cells name it in their specs."""

import math
from typing import NamedTuple

SCALES = ("array", "matrix", "row")  # for all heads, for each head, or for each row; a memory has no heads
SCALE_BITS = 32  # a scale is a float32. Built values are sums that nearly cancel: a scale of 16 bits costs them facts.
GRID_BITS = 18  # for each array: the number of levels (16) and the kind of scales (2)
MOST_BITS = 16  # of a weight
MOST_LEVELS = 1 << MOST_BITS
LADDER = (2, 3, 4, 5, 6, 7, 9, 11, 13, 15, 19, 23, 31, 47, 63, 95, 127, 191, 255, 383, 511, 1023, 2047, 4095, 65535)
"""Levels that are tried."""
FEW = 4  # up to so many levels all are tried
CLIPS = (math.inf, 4.0, 2.8, 2.0, 1.4, 1.0)  # ends of grids, in root mean squares; narrow ones are fine in the middle
SEARCH = {
    "ladder": list(LADDER), "clips": [str(clip) for clip in CLIPS], "few": FEW, "scale_bits": SCALE_BITS,
    "grid_bits": GRID_BITS,
}  # fmt: skip
"""All that the fewest bits of a model depend on beside the model: part of the spec of cells that search for them."""


class Grid(NamedTuple):
    """L points from -s to s, equally far apart: with zero for an odd L, without it for an even one.

    s is the largest weight that the scale is for, but at most ``clip`` times their root mean square. Odd grids are the
    multiples of a step, as in corollary 2; with L = 2 only the sign is kept.
    """

    levels: int
    scales: str = "matrix"
    clip: float = math.inf

    @property
    def bits(self) -> float:
        """Bits per weight."""
        return math.log2(self.levels)

    def axes(self, dimensions: int) -> tuple[int, ...]:
        """The axes of an array that share a scale."""
        return tuple(range(-min(dimensions, {"array": 3, "matrix": 2, "row": 1}[self.scales]), 0))


def grid_of_bits(bits: int, scales: str = "matrix", clip: float = math.inf) -> Grid:
    """The grid of 2^bits - 1 multiples of a step, zero among them; of the two signs where there is one bit."""
    if isinstance(bits, bool) or int(bits) != bits or not 1 <= bits <= MOST_BITS:
        raise ValueError(f"bits={bits} must be a whole number from 1 to {MOST_BITS}")
    return Grid(2 if bits == 1 else 2 ** int(bits) - 1, scales, clip)

"""Padding to a coarse grid of sizes, so that a search over N does not compile anew for each N."""

import math
from typing import Any

import numpy as np


def padded(n: int, step: int = 32) -> int:
    """The next size on the grid: multiples of ``step``, for larger n of a sixteenth to a thirty-second of it.

    A new shape costs a second of compilation; padding costs at most a tenth of a step that is slow.
    """
    while step * 32 <= n:
        step *= 2
    return -(-n // step) * step


def geometric(n: int, ratio: float = 1.25) -> int:
    """The next size of a grid of its own for searches: 8 times powers of ``ratio``, rounded up."""
    size, step = 8, 0
    while size < n:
        step += 1
        size = math.ceil(8 * ratio**step)
    return size


def pad_rows(array: Any, n: int) -> np.ndarray:
    """``array`` with zero rows appended, up to n rows. In NumPy: nothing is compiled."""
    array = np.asarray(array)
    return np.pad(array, [(0, n - len(array))] + [(0, 0)] * (array.ndim - 1))


def next_power_of_two(n: int) -> int:
    """The smallest power of two that is n or more."""
    return 1 << (n - 1).bit_length()

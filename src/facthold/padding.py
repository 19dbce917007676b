"""Padding to a coarse grid of sizes, so that a search over N does not compile anew for each N."""

from typing import Any

import numpy as np


def padded(n: int) -> int:
    """The next size on the grid: multiples of 32, for larger n of a sixteenth to a thirty-second of it.

    A new shape costs a second of compilation; padding costs at most a tenth of a step that is slow.
    """
    step = 32
    while step * 32 <= n:
        step *= 2
    return -(-n // step) * step


def pad_rows(array: Any, n: int) -> np.ndarray:
    """``array`` with zero rows appended, up to n rows. In NumPy: nothing is compiled."""
    array = np.asarray(array)
    return np.pad(array, [(0, n - len(array))] + [(0, 0)] * (array.ndim - 1))

"""The sizes of a transformer, and how its parameters are counted. It loads nothing."""

from math import sqrt
from typing import NamedTuple


class Shape(NamedTuple):
    """The sizes of a transformer."""

    d: int
    H: int
    d_h: int
    m: int

    @property
    def n_params(self) -> int:
        """Parameters as the paper counts them: embeddings and the MLP's bias left out."""
        return 4 * self.H * self.d * self.d_h + 2 * self.m * self.d


def shape_of(alpha: float, beta: float, n_params: int, H: int) -> Shape:
    """Sizes with H d_h = alpha d and m = beta d, up to rounding, and about so many parameters.

    d_h is rounded to whole numbers first, and m takes what is left, so that shapes differ little in their parameters.
    """
    d = max(2, round(sqrt(n_params / (4 * alpha + 2 * beta))))
    d_h = max(1, round(alpha * d / H))
    return Shape(d, H, d_h, max(1, round(n_params / (2 * d) - 2 * H * d_h)) if beta else 0)

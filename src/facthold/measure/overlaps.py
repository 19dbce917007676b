"""How orthogonal embeddings are: the inner products of their directions, beside those of random ones and the least."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

TINY = 1e-30


class Overlaps(NamedTuple):
    """Of the directions of n rows in d dimensions; lengths do not count."""

    mean: float  # of the squared inner products of two rows, times d: 1 for random directions
    largest: float  # of the inner products, without their sign
    n: int
    d: int


def overlaps(X: Float[np.ndarray, "n d"] | Any) -> Overlaps:
    """The overlaps of the rows of X; nan where there are fewer than two, or one is not finite."""
    X = np.asarray(X, np.float64)
    n, d = X.shape
    if n < 2 or not np.isfinite(X).all():
        return Overlaps(float("nan"), float("nan"), n, d)
    X = X / np.sqrt((X**2).sum(axis=1, keepdims=True) + TINY)
    G = np.abs(X @ X.T)
    np.fill_diagonal(G, 0.0)
    return Overlaps(d * float((G**2).sum()) / (n * (n - 1)), float(G.max()), n, d)

"""Unit vectors that are spread as evenly as d dimensions allow: orthonormal while they fit, a tight frame beyond.

For n > d unit rows the sum of all squared inner products is at least n^2 / d (Welch, 1974; `theory.bounds.welch`), with
equality exactly for tight frames, X^T X = (n/d) I. Among tight frames, rows are wanted whose largest inner product is
small. So each row moves away from the rows (or their opposites) that are nearest to it, by steps that end at zero; then
X is made a tight frame of unit rows, by alternating between both (Tropp, Dhillon, Heath and Strohmer, 2005). What comes
out is a local optimum: no claim is made that no better one exists.
"""

import numpy as np

ROUNDS = 80  # moves of all rows
SHARPNESS = 4.0  # of the soft maximum by which the nearest rows count, at first; it grows by one each round
STEP = 0.5  # first move, as a share of the distance to the nearest row
FRAMES = 40  # alternations at the end, after which X^T X is (n/d) I up to the rounding of float32
MOST = 1 << 13  # rows: all pairs are compared
TINY = 1e-12


def spread_rows(n: int, d: int, draw: np.random.Generator) -> np.ndarray:
    """n unit rows in d dimensions. All of them depend on n: those of n + 1 do not begin with those of n."""
    if n > MOST:
        raise ValueError(f"n={n} rows are too many to spread, as all pairs are compared; take at most {MOST}")
    X = draw.standard_normal((max(n, d), d))
    if n <= d:
        return _even(X)[:n]  # of a square matrix it has orthonormal rows, too
    X = _unit(X)
    for t in range(ROUNDS if d > 1 else 0):
        X = _unit(X + STEP * (1 - t / ROUNDS) * _away(X, SHARPNESS + t))
    for _ in range(FRAMES):
        X = _unit(_even(X))
    return X


def _away(X: np.ndarray, sharpness: float) -> np.ndarray:
    """For each row a direction away from those that are nearest to it, as long as the nearest one is far."""
    G = X @ X.T
    np.fill_diagonal(G, 0.0)
    near = np.abs(G)
    nearest = near.max(axis=1, keepdims=True)
    weight = np.exp(sharpness * (near - nearest) / (1 + TINY - nearest).clip(TINY))
    away = -(weight * np.sign(G)) @ X
    away -= (away * X).sum(axis=1, keepdims=True) * X
    return np.sqrt((1 - nearest**2).clip(0)) * away / (np.linalg.norm(away, axis=1, keepdims=True) + TINY)


def _even(X: np.ndarray) -> np.ndarray:
    """The nearest matrix with orthonormal columns, the polar factor: up to its length the nearest tight frame."""
    values, vectors = np.linalg.eigh(X.T @ X)
    return X @ (vectors / np.sqrt(values.clip(TINY))) @ vectors.T


def _unit(X: np.ndarray) -> np.ndarray:
    return X / np.linalg.norm(X, axis=1, keepdims=True).clip(TINY)

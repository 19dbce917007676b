"""How often each fact is asked, p(s, r), and how long a prompt is, T. Without JAX, as reading and planning need it."""

from collections.abc import Sequence

import numpy as np

from facthold.facts.table import FactTable

SEQUENCE = 32  # T of the paper's experiments
MOST_NOISE = 1 << 16  # noise tokens are drawn from 16 bits each


def uniform(table: FactTable) -> np.ndarray:
    """p(s, r) the same for every fact of the table."""
    return np.full(len(table), 1 / len(table))


def zipf(table: FactTable, in_s: float = 1.0, in_r: float = 0.0) -> np.ndarray:
    """p(s, r) proportional to (s+1)^-in_s (r+1)^-in_r, as in the authors' code; 0 and 0: uniform."""
    weights = (table.subjects + 1.0) ** -in_s * (table.relations + 1.0) ** -in_r
    return weights / weights.sum()


def check_length(T: int) -> None:
    """Refuse prompts that are too short to ask anything."""
    if T < 3:
        raise ValueError(f"T={T} leaves no room for a subject, a relation and EOS; take T >= 3")


def check_distribution(weights: Sequence[float] | np.ndarray, table: FactTable) -> np.ndarray:
    """p(s, r) as one number a fact (or an S x R matrix), checked: not negative, with sum 1."""
    p: np.ndarray = np.asarray(weights, float)
    if p.shape == (table.S, table.R) and p.shape != (len(table),):
        if np.any(p[table.matrix < 0] != 0):
            raise ValueError("p(s, r) is above 0 for a pair that is not in the table; set it to 0, or add the fact")
        p = p[table.subjects, table.relations]
    if p.shape != (len(table),):
        raise ValueError(f"p(s, r) must have one number for each of {len(table)} facts, not the shape {p.shape}")
    if not np.isfinite(p).all() or (p < 0).any():
        raise ValueError(f"p(s, r) must not be negative or infinite, and its smallest value is {p.min()}")
    if abs(p.sum() - 1) > 1e-6:
        raise ValueError(f"p(s, r) must sum to 1, and sums to {p.sum():.9g}; divide it by its sum")
    return p

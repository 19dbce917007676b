"""One-bit weights by message passing."""

import jax
import numpy as np
import pytest

from facthold.construct.linear import outer_product
from facthold.construct.signs import one_bit
from facthold.measure.grids import Grid
from facthold.measure.quantise import quantise
from facthold.measure.recall import exact_recall
from facthold.studies.bits.memory_bits import sign_problem


def test_one_bit_weights_recall_more_signs_than_the_outer_product() -> None:
    d, N = 64, 32
    problem = sign_problem(N, 0, d)
    memory = one_bit(problem, key=jax.random.key(0))
    assert set(np.unique(memory.W)) == {-1.0, 1.0}
    assert exact_recall(memory, problem) == 1.0
    assert exact_recall(quantise(outer_product(problem), Grid(2)).model, problem) < 0.5


def test_one_bit_beyond_its_capacity_says_what_it_has() -> None:
    """0.83 d is all that one bit per weight can hold; twice that is not recalled, and nothing breaks."""
    problem = sign_problem(80, 1, 48)
    memory = one_bit(problem, key=jax.random.key(1), tries=1)
    assert np.isfinite(memory.W).all()
    assert exact_recall(memory, problem) < 0.2
    with pytest.raises(ValueError, match="tries=0"):
        one_bit(problem, key=jax.random.key(0), tries=0)

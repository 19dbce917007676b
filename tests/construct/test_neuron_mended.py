"""The last few facts of a group get neurons of their own, and no other fact moves."""

import jax.numpy as jnp
import numpy as np
import pytest

from facthold.construct.neuron import MOST, mended
from facthold.measure.recall import recalled, smallest_margins
from facthold.memory.associations import Problem
from facthold.models.memory import MLPMemory


def _almost(n_wrong: int) -> tuple[MLPMemory, Problem]:
    """Inputs with a mark, and a memory with a neuron for each that knows all but ``n_wrong`` of them."""
    rng = np.random.default_rng(0)
    E = rng.standard_normal((400, 24))
    E[:, -1] = 0.9  # the mark
    U = rng.standard_normal((50, 24))
    U /= np.linalg.norm(U, axis=1, keepdims=True)
    f = rng.integers(0, 50, 400)
    W = rng.standard_normal((900, 24))
    H = np.maximum(E @ W.T, 0)
    said = f.copy()
    said[:n_wrong] = (f[:n_wrong] + 1) % 50
    V = np.linalg.lstsq(H, 10 * U[said], rcond=None)[0]
    problem = Problem(jnp.asarray(E, jnp.float32), jnp.asarray(U, jnp.float32), jnp.asarray(f.astype(np.int32)))
    return MLPMemory(jnp.asarray(W, jnp.float32), jnp.asarray(V, jnp.float32)), problem


def test_the_last_facts_are_mended_and_the_others_keep_their_margins() -> None:
    memory, problem = _almost(2)
    won = np.asarray(recalled(memory, problem))
    assert (~won).sum() == 2
    better = mended(memory, problem, won, 1.0)
    before, after = (np.asarray(smallest_margins(m, problem)) for m in (memory, better))
    assert after[:2] == pytest.approx(1.0, abs=0.05)
    # float32 sums of 900 terms of the size of the scores
    np.testing.assert_allclose(after[2:], before[2:], atol=900 * 1.2e-7 * 10 * np.abs(before).max())
    assert len(better.W) in range(len(memory.W) + 2, len(memory.W) + 9)


def test_too_many_are_left_alone() -> None:
    memory, problem = _almost(int(MOST * 400) + 1)
    assert mended(memory, problem, np.asarray(recalled(memory, problem)), 1.0) is memory
    assert mended(memory, problem, np.ones(400, bool), 1.0) is memory

"""Recall and margins against brute force."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from facthold.construct.linear import outer_product
from facthold.measure import recall
from facthold.measure.bits import parameters_bits
from facthold.measure.recall import accuracy, exact_recall, margins, recalled, right, smallest_margins
from facthold.memory.associations import Problem, random_problem
from facthold.models.memory import LinearMemory, MLPMemory

KEY = jax.random.key(2)
CROWDED = random_problem(60, 8, M=40, map="uniform", key=KEY)  # too many for d = 8: some fail, some do not


def brute_force(memory, problem) -> tuple[np.ndarray, np.ndarray]:
    """Predictions and smallest margins, one score at a time in float64."""
    F = np.asarray(memory(problem.E), np.float64)
    scores = np.array([[np.dot(u, F[x]) for u in np.asarray(problem.U, np.float64)] for x in range(problem.N)])
    smallest = [
        min(scores[x, f] - scores[x, y] for y in range(problem.M) if y != f) for x, f in enumerate(problem.f.tolist())
    ]
    return scores.argmax(axis=1), np.array(smallest)


@pytest.mark.parametrize("memory", [outer_product(CROWDED), MLPMemory.init(8, 20, key=KEY)], ids=["linear", "mlp"])
def test_against_brute_force(memory) -> None:
    predicted, smallest = brute_force(memory, CROWDED)
    assert_array_equal(recalled(memory, CROWDED), predicted == np.asarray(CROWDED.f))
    assert_allclose(smallest_margins(memory, CROWDED), smallest, atol=1e-4)
    assert 0 < recalled(memory, CROWDED).sum() < CROWDED.N or isinstance(memory, MLPMemory)


def test_margins_are_positive_exactly_where_recalled() -> None:
    memory = outer_product(CROWDED)
    assert_array_equal(smallest_margins(memory, CROWDED) > 0, recalled(memory, CROWDED))
    gamma = np.array(margins(memory, CROWDED))
    at_target = np.arange(CROWDED.N), np.asarray(CROWDED.f)
    assert_array_equal(gamma[at_target], 0)
    gamma[at_target] = np.inf
    assert_allclose(gamma.min(axis=1), smallest_margins(memory, CROWDED), atol=1e-5)


def test_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = outer_product(CROWDED)
    whole = recalled(memory, CROWDED), smallest_margins(memory, CROWDED)
    monkeypatch.setattr(recall, "BLOCK_ENTRIES", 7 * CROWDED.M)  # 60 rows in blocks of 7: the last one is short
    assert_array_equal(recalled(memory, CROWDED), whole[0])
    assert_allclose(smallest_margins(memory, CROWDED), whole[1], atol=1e-5)


def test_zero_memory_recalls_nothing() -> None:
    zero = LinearMemory(jnp.zeros((8, 8)))
    assert accuracy(zero, CROWDED) == 0


def test_memory_that_is_not_finite_recalls_nothing() -> None:
    for bad in (jnp.nan, jnp.inf):
        assert accuracy(LinearMemory(jnp.full((8, 8), bad)), CROWDED) == 0


def test_ties_and_infinities_are_not_recall() -> None:
    nan, inf = jnp.nan, jnp.inf
    scores = jnp.asarray([[2.0, 1.0], [1.0, 1.0], [1.0, 2.0], [nan, 1.0], [1.0, nan], [inf, 1.0], [1.0, -inf]])
    assert right(scores, jnp.zeros(7, int)).tolist() == [True, False, False, False, False, False, True]


def test_everything_is_recalled_with_orthogonal_embeddings() -> None:
    problem = random_problem(8, 8, key=KEY, embeddings="orthogonal", map="injective")
    memory = outer_product(problem)
    assert accuracy(memory, problem) == 1
    assert_allclose(smallest_margins(memory, problem), 1, atol=1e-6)


def test_exact_recall_is_harder_than_recall() -> None:
    """The output's signs all have to be right; decoding to a dictionary forgives many (remark in 3.1)."""
    E, U = (jnp.sign(random_problem(40, 32, key=k).E) / jnp.sqrt(32.0) for k in jax.random.split(KEY))
    problem = Problem(E, U, jnp.arange(40))
    memory = outer_product(problem)
    signs = np.sign(np.asarray(memory(E))) == np.sign(np.asarray(U))
    assert exact_recall(memory, problem) == pytest.approx(signs.all(axis=1).mean())
    assert exact_recall(memory, problem) < accuracy(memory, problem)


def test_bits_of_weights() -> None:
    memory = MLPMemory.init(8, 20, key=KEY)
    assert parameters_bits(memory) == 2 * 8 * 20 * 32  # float32

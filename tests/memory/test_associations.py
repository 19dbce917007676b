"""Association maps and problems."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from facthold.memory import MAPS
from facthold.memory.associations import associate, random_problem, sum_problem

KEY = jax.random.key(5)


@pytest.mark.parametrize("kind", sorted(MAPS))
def test_maps_stay_within_the_outputs(kind: str) -> None:
    f = associate(kind, 20, 30, key=KEY)
    assert f.shape == (20,)
    assert 0 <= int(f.min()) <= int(f.max()) < 30


@pytest.mark.parametrize("kind", ["identity", "injective"])
def test_injective_maps(kind: str) -> None:
    assert len(np.unique(associate(kind, 20, 20, key=KEY))) == 20
    with pytest.raises(ValueError, match="needs M >= N"):
        associate(kind, 20, 19, key=KEY)


def test_mod_and_floor_are_balanced_and_differ() -> None:
    mod, floor = (np.asarray(associate(kind, 12, 4, key=KEY)) for kind in ("mod", "floor"))
    assert_array_equal(mod, np.tile(np.arange(4), 3))
    assert_array_equal(floor, np.repeat(np.arange(4), 3))


def test_uniform_map_is_uniform() -> None:
    N, M = 40_000, 5
    counts = np.bincount(np.asarray(associate("uniform", N, M, key=KEY)), minlength=M)
    assert np.abs(counts - N / M).max() < 4 * np.sqrt(N / M * (1 - 1 / M))


def test_unknown_map() -> None:
    with pytest.raises(ValueError, match="did you mean 'identity'"):
        associate("identiti", 3, 3, key=KEY)
    with pytest.raises(ValueError, match="N=0"):
        associate("identity", 0, 3, key=KEY)


def test_random_problems_are_nested() -> None:
    """A search over N looks at one problem that grows, not at a new one each time."""
    small, large = (random_problem(N, 6, key=KEY) for N in (9, 15))
    assert_array_equal(small.E, large.E[:9])
    assert_array_equal(small.U, large.U[:9])
    assert (large.N, large.M, large.d) == (15, 15, 6)


def test_inputs_and_outputs_are_independent() -> None:
    problem = random_problem(2000, 8, key=KEY)
    overlap = np.sum(np.asarray(problem.E * problem.U), axis=1)
    assert abs(overlap.mean()) < 4 * np.sqrt(1 / 8 / 2000)


def test_targets() -> None:
    problem = random_problem(10, 4, M=3, key=KEY, map="mod")
    for x in range(10):
        assert_array_equal(problem.targets[x], problem.U[x % 3])


def test_sum_problem_adds_two_inputs() -> None:
    first, second = jnp.eye(2, 5), jnp.eye(3, 5, k=2)
    pairs = jnp.asarray([(a, b) for a in range(2) for b in range(3)])
    problem = sum_problem(first, second, pairs, jnp.eye(6, 5), jnp.arange(6))
    assert_allclose(problem.E[4] * np.sqrt(2), first[1] + second[1], rtol=1e-6)
    assert_allclose(jnp.linalg.norm(problem.E, axis=1), 1, rtol=1e-6)  # orthogonal tables: of norm exactly 1
    shared = np.asarray(problem.E @ problem.E.T)
    in_common = (np.asarray(pairs)[:, None] == np.asarray(pairs)[None]).sum(axis=2)
    assert_allclose(shared, in_common / 2, atol=1e-6)  # half the overlap for each token in common

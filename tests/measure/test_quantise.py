"""Weights on grids: what a grid does, what it costs, and the fewest bits at which a model recalls."""

import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from facthold.construct.linear import outer_product
from facthold.measure.grids import GRID_BITS, SCALE_BITS, Grid, grid_of_bits
from facthold.measure.quantise import (
    Recall,
    fewest_bits,
    judged_bits,
    on_grid,
    quantise,
    straight_through,
    weight_sizes,
)
from facthold.measure.recall import accuracy
from facthold.memory.associations import random_problem, seeded_problem
from facthold.models.memory import LinearMemory, MLPMemory
from facthold.models.transformer import Transformer
from facthold.train.engine import Member, fit
from facthold.train.protocols import Protocol
from facthold.train.tasks import OnGrid, StoreAssociations


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("levels", [2, 3, 4, 7, 16, 255])
@pytest.mark.parametrize("clip", [math.inf, 2.0, 0.5])
def test_weights_go_to_the_nearest_point(levels: int, clip: float) -> None:
    W = normal(5, 9)
    largest = float(np.abs(W).max())
    s = min(largest, clip * float(np.sqrt((W**2).mean())))
    points = s * np.linspace(-1, 1, levels)
    nearest = points[np.abs(np.clip(W, -s, s)[..., None] - points).argmin(axis=-1)]
    np.testing.assert_allclose(on_grid(W, Grid(levels, clip=clip), np), nearest, rtol=0, atol=1e-5 * s)


def test_jax_and_numpy_round_alike() -> None:
    W = normal(6, 7, 8)
    for grid in (Grid(2), Grid(5, "row", 2.0), Grid(16, "matrix", 1.4)):
        np.testing.assert_allclose(on_grid(jnp.asarray(W), grid), on_grid(W, grid, np), atol=1e-6)


def test_scales_of_rows_and_of_matrices() -> None:
    W = normal(3, 4) * np.array([[1.0], [10.0], [100.0]], np.float32)
    by_row, by_matrix = on_grid(W, Grid(3, "row"), np), on_grid(W, Grid(3), np)
    assert (by_row != 0).any(axis=1).all()
    assert (by_matrix[0] == 0).all()
    # the heads of a transformer are matrices by themselves
    heads = np.stack([W, 1e-3 * W])
    np.testing.assert_allclose(on_grid(heads, Grid(7), np)[0], on_grid(W, Grid(7), np))
    assert not on_grid(heads, Grid(7, "array"), np)[1].any()


def test_what_is_on_a_grid_stays_there_and_zeros_stay_zero() -> None:
    W = on_grid(normal(4, 6), Grid(5, clip=1.0), np)
    np.testing.assert_array_equal(on_grid(W, Grid(5), np), W)
    assert not on_grid(np.zeros((2, 3), np.float32), Grid(2), np).any()
    assert np.isfinite(on_grid(np.zeros((2, 3), np.float32), Grid(2, "row", 1.0), np)).all()


def test_bits_are_counted_with_their_scales() -> None:
    memory = MLPMemory(jnp.asarray(normal(6, 4)), jnp.asarray(normal(6, 4)), jnp.asarray(normal(6)))
    q = quantise(memory, Grid(3))
    assert q.n_weights == 54
    assert q.scale_bits == 3 * SCALE_BITS
    assert q.bits == pytest.approx(54 * math.log2(3) + 3 * (SCALE_BITS + GRID_BITS))
    rows = quantise(memory, Grid(4, "row"))
    assert rows.bits == 54 * 2 + (6 + 6 + 1) * SCALE_BITS + 3 * GRID_BITS
    half = quantise(memory, Grid(2), fixed=("W",))
    assert half.bits == 30 + 2 * (SCALE_BITS + GRID_BITS)
    np.testing.assert_array_equal(half.model.W, memory.W)
    heads = Transformer.init(8, 2, 3, key=jax.random.key(0))
    assert weight_sizes(heads)["W_K"] == (2, 3, 8)
    scales = {kind: quantise(heads, Grid(2, kind)).scale_bits for kind in ("array", "matrix", "row")}
    assert scales == {"array": 4 * SCALE_BITS, "matrix": 4 * 2 * SCALE_BITS, "row": 4 * 6 * SCALE_BITS}


def test_a_grid_for_each_array() -> None:
    memory = MLPMemory(jnp.asarray(normal(6, 4)), jnp.asarray(normal(6, 4)))
    q = quantise(memory, {"W": Grid(2), "V": Grid(16)})
    assert len(np.unique(np.abs(q.model.W))) == 1
    assert len(np.unique(q.model.V)) > 4
    assert q.bits == 24 + 4 * 24 + 2 * (SCALE_BITS + GRID_BITS)


def test_the_gradient_goes_straight_through() -> None:
    memory = LinearMemory(jnp.asarray(normal(4, 4)))
    x = jnp.asarray(normal(3, 4, seed=1))

    def loss(model: LinearMemory) -> jax.Array:
        return (straight_through(model, Grid(2))(x) ** 2).sum()

    rounded = quantise(memory, Grid(2)).model
    plain = eqx.filter_grad(lambda model: (model(x) ** 2).sum())(rounded)
    np.testing.assert_allclose(eqx.filter_grad(loss)(memory).W, plain.W, rtol=1e-5, atol=1e-5)


def test_fewest_bits_against_all_that_it_could_have_tried() -> None:
    """On a small ladder, no single grid that recalls as much has fewer bits than what was found."""
    problem = seeded_problem(20, 0, 32, map="uniform")
    memory, ladder = outer_product(problem), (2, 3, 5, 9, 255)
    whole = accuracy(memory, problem)
    assert whole == 1.0
    for goal in (0.9, 1.0):
        found = fewest_bits(memory, lambda m: accuracy(m, problem), goal, ladder=ladder)
        assert found.quantised is not None
        assert found.recall >= goal
        assert found.recall == accuracy(found.quantised.model, problem)
        for levels, scales in itertools.product(ladder, ("matrix", "row")):
            q = quantise(memory, Grid(levels, scales))
            if accuracy(q.model, problem) >= goal:
                assert found.quantised.bits <= q.bits
    none = fewest_bits(memory, lambda m: 0.5, 0.9, ladder=ladder)
    assert none.quantised is None
    assert none.tried > 0


def test_a_grid_that_fails_on_fresh_prompts_does_not_count() -> None:
    memory, asked = LinearMemory(jnp.asarray(normal(4, 4))), []

    def by_luck(m: LinearMemory) -> float:
        asked.append(m)
        return 1.0

    def by_value(m: LinearMemory) -> float:
        return float(np.abs(np.asarray(m.W - memory.W)).max() < 0.2)

    found = judged_bits(memory, Recall([by_luck, by_value], by_value), 1.0)
    assert found.quantised is not None
    assert found.recall == by_value(found.quantised.model) == 1.0
    assert found.quantised.grids["W"].levels > 2
    assert found.tried > len(asked) > 0
    assert judged_bits(memory, Recall([by_luck], by_value), 1.0).quantised is None


def test_arrays_that_matter_less_get_fewer_levels() -> None:
    """Recall that depends on V alone leaves W its sign."""
    memory = MLPMemory(jnp.asarray(normal(6, 4)), jnp.asarray(normal(6, 4)))

    def recall(m: MLPMemory) -> float:
        return float(np.abs(np.asarray(m.V - memory.V)).max() < 0.1)

    found = fewest_bits(memory, recall, 1.0)
    assert found.quantised is not None
    assert found.quantised.grids["W"].levels == 2
    assert found.quantised.grids["V"].levels > 7


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m: quantise(m, Grid(1)), "levels=1"),
        (lambda m: quantise(m, Grid(2, "column")), "column"),
        (lambda m: quantise(m, Grid(2, clip=0.0)), "clip=0.0"),
        (lambda m: quantise(m, Grid(2), fixed=("X",)), "X"),
        (lambda m: quantise(m, Grid(2), fixed=("W",)), "leaves no weights"),
        (lambda m: quantise(m, {"V": Grid(2)}), "is wrong"),
        (lambda m: grid_of_bits(0), "bits=0"),
        (lambda m: grid_of_bits(17), "bits=17"),
    ],
)
def test_bad_grids_are_refused(call, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call(LinearMemory(jnp.ones((2, 2))))


def test_grid_of_bits() -> None:
    assert [grid_of_bits(b).levels for b in (1, 2, 3, 8)] == [2, 3, 7, 255]


def test_a_memory_trained_on_its_grid_keeps_what_rounding_loses() -> None:
    """Signs alone: training that sees them recalls more than training that does not and is rounded afterwards."""
    problem = random_problem(16, 16, key=jax.random.key(0))
    signs, start = Grid(2, clip=1.0), LinearMemory(3 * jax.random.normal(jax.random.key(1), (16, 16)))
    protocol = Protocol("test", "here", "adam", lr=0.3, steps=512, check_every=64, goal=1.0, futility=None, decay=True)
    plain = StoreAssociations.of(problem)
    runs = [fit([Member(start, task, jax.random.key(2))], protocol)[0] for task in (OnGrid(plain, signs), plain)]
    trained, rounded = (accuracy(quantise(run.model, signs).model, problem) for run in runs)
    assert trained == runs[0].best
    assert trained >= rounded + 0.2

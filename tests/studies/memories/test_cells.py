"""Cells of memories against brute force, identities and exact counts."""

import json
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from facthold._util.keys import derive
from facthold.construct.linear import outer_product
from facthold.lab.cells import Cell
from facthold.measure.recall import margins
from facthold.memory.associations import Problem, seeded_problem
from facthold.memory.embeddings import host_generator
from facthold.studies.memories.capacity import Capacity, Stored
from facthold.studies.memories.claims import OneHot
from facthold.studies.memories.margins import GradientStep, Margins, Rounding, margin_samples
from facthold.theory.bounds import margin_variance

SMALL = [
    Margins(N=3, d=4, in_image=True, n_draws=100),
    OneHot(d=4, N=5, seeds=(0,)),
    Rounding(N=4, d=32, seeds=(0, 1)),
    GradientStep(N=5, d=4),
    Stored(method="outer-product", N=3, d=16, m=0, seeds=(0, 1)),
    Capacity(method="outer-product", d=8, goal=0.5, seeds=(0,), embeddings="signs", recall="exact"),
]


@pytest.mark.parametrize("cell", SMALL, ids=lambda cell: cell.kind)
def test_cells_are_deterministic_json(cell) -> None:
    first, second = cell.run(), cell.run()
    for result in (first, second):
        result.pop("search_seconds", None)
    assert json.dumps(first, allow_nan=False) == json.dumps(second, allow_nan=False)
    assert cell.cost > 0


@pytest.mark.parametrize("in_image", [True, False])
def test_margin_samples_are_the_margins_of_the_outer_product(in_image: bool) -> None:
    cell = Margins(N=5, d=6, in_image=in_image, n_draws=8)
    E, U = cell.draw(8, host_generator(derive("test", 0)))
    with jax.enable_x64(True):
        problems = [Problem(jnp.asarray(e), jnp.asarray(u), jnp.arange(5)) for e, u in zip(E, U, strict=True)]
        brute = [float(margins(outer_product(p), p)[0, -1]) for p in problems]
    assert_allclose(margin_samples(E, U), brute, rtol=1e-12)
    assert U.shape[1] == (5 if in_image else 6)


def test_margin_blocks_cover_all_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks are drawn one after the other: how many there are must not change which moments come out."""
    cell = Margins(N=2, d=3, in_image=False, n_draws=1000)
    whole = cell.run()
    monkeypatch.setattr("facthold.studies.memories.margins.BLOCK_NUMBERS", 15 * 300)
    split = cell.run()
    assert abs(whole["mean"] - split["mean"]) < 6 * whole["mean_error"]
    assert abs(whole["mean"] - 1) < 4 * whole["mean_error"]
    assert abs(split["variance"] - margin_variance(2, 3, 0)) < 4 * split["variance_error"]


def test_margin_errors_are_those_of_the_samples() -> None:
    """Standard errors against the spread over repetitions, to the precision of 200 repetitions (5%, 4 sigma)."""
    runs = [Margins(N=3, d=4, in_image=True, n_draws=400, seed=seed).run() for seed in range(200)]
    for name in ("mean", "variance"):
        spread = np.std([run[name] for run in runs], ddof=1)
        # the error of a variance has heavy tails of its own: its root mean square is compared
        claimed = math.sqrt(np.mean([run[f"{name}_error"] ** 2 for run in runs]))
        assert_allclose(claimed, spread, rtol=4 / math.sqrt(2 * 200))


@pytest.mark.parametrize(("N", "d", "n_draws"), [(1, 4, 9), (3, 4, 1), (3, 0, 9)])
def test_margins_refuse_sizes_without_a_margin(N: int, d: int, n_draws: int) -> None:
    with pytest.raises(ValueError, match="must be at least"):
        Margins(in_image=True, N=N, d=d, n_draws=n_draws)


def test_one_hot_inputs_share_vectors_above_d() -> None:
    found = OneHot(d=6, N=9, seeds=(0, 1)).run()
    assert found["bound"] == [6, 6]
    assert found["reached"] == [6, 6]
    # the three pairs that share a vector tie, and at most one of each can be right
    assert all(3 <= count <= 6 for count in found["outer_product"])
    assert OneHot(d=6, N=4, seeds=(0,)).run()["outer_product"] == [4]


def test_rounding_changes_margins_within_the_bound_and_not_at_all_when_fine() -> None:
    coarse, fine = (Rounding(N=6, d=16, seeds=(0, 1), coarseness=c).run() for c in (1.0, 1e-6))
    assert all(change <= 2 * 16 * step for change, step in zip(coarse["change"], coarse["step"], strict=True))
    assert all(step < 1 / (8 * 16) for step in coarse["step"])
    assert_allclose(fine["least_before"], fine["least_after"], atol=1e-6)
    assert fine["used_bits"][0] > coarse["used_bits"][0]


def test_rounding_far_above_the_bound_loses_associations() -> None:
    """At 1000/(8d) most weights round to zero."""
    assert min(Rounding(N=8, d=64, seeds=(0,), coarseness=1000.0).run()["least_after"]) <= 0


@pytest.mark.parametrize("m", [0, 3])
def test_gradient_step_is_the_construction(m: int) -> None:
    found = GradientStep(N=7, d=5, m=m).run()
    assert found["difference"] <= found["rounding"] < 1e-12 * found["largest"]


def test_stored_counts_what_is_wrong() -> None:
    few, many = (Stored(method="outer-product", N=N, d=16, m=0, seeds=(0, 1)).run() for N in (2, 200))
    assert few == {"wrong": [0, 0], "params_per_fact": 128.0}
    assert all(100 < wrong <= 200 for wrong in many["wrong"])


def test_exact_recall_is_harder_than_the_arg_max() -> None:
    exact, argmax = (
        Capacity(method="outer-product", d=32, goal=0.5, seeds=(0,), embeddings="signs", recall=recall).run()["N"]
        for recall in ("exact", "argmax")
    )
    assert exact < 32 < argmax


def test_exact_recall_is_refused_for_training_and_when_misspelt() -> None:
    with pytest.raises(ValueError, match="take a construction"):
        Capacity(method="train:linear-code", d=8, recall="exact")
    with pytest.raises(ValueError, match="did you mean 'exact'"):
        Capacity(method="outer-product", d=8, recall="exakt")


def test_problems_of_one_seed_are_nested() -> None:
    few, many = seeded_problem(3, 0, 4), seeded_problem(7, 0, 4)
    assert_allclose(few.E, many.E[:3])
    assert_allclose(few.U, many.U[:3])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Capacity(method="outer-produkt", d=8), "did you mean 'outer-product'"),
        (lambda: Capacity(method="weighted-convex", d=8), "unknown method"),  # it needs to know how often each is asked
        (lambda: Capacity(method="outer-product", d=0), "d=0 must be at least 1"),
        (lambda: Capacity(method="outer-product", d=8, m=2), "takes no m"),
        (lambda: Capacity(method="layerwise", d=8), "needs a width"),
        (lambda: Capacity(method="outer-product", d=8, map="identiy"), "did you mean 'identity'"),
        (lambda: Capacity(method="outer-product", d=8, goal=0.0), "goal=0.0 must be above 0"),
        (lambda: Capacity(method="outer-product", d=8, tolerance=-0.1), "tolerance=-0.1 must be at least 0"),
        (lambda: Capacity(method="outer-product", d=8, seeds=()), "seeds is empty"),
        (lambda: Stored(method="tangent-kernel", N=4, d=8, m=7, seeds=(0,)), "pairs; take m=8"),
        (lambda: Rounding(N=1, d=8, seeds=(0,)), "N=1 must be at least 2"),
    ],
)
def test_bad_cells_are_refused_with_a_way_out(make: Callable[[], Cell], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_a_search_can_start_near_a_number() -> None:
    assert Capacity.near(12.8, method="outer-product", d=16, seeds=(0,)).guess == pytest.approx(12.8, rel=1e-3)


def test_what_a_recipe_depends_on_is_part_of_the_cell() -> None:
    trained, built, on_grid = (Capacity(method=m, d=8).spec for m in ("train:linear-code", "outer-product", "one-bit"))
    assert trained["protocol"]["steps"] > 0
    assert "protocol" not in built
    assert on_grid["recipe"]["tries"] > 0

"""Cells of memories against brute force, identities and exact counts."""

import json
import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from facthold._util.keys import derive
from facthold.construct.linear import outer_product
from facthold.lab.cells import Cell
from facthold.measure.recall import recalled
from facthold.memory import EMBEDDINGS
from facthold.memory.associations import Problem, seeded_problem
from facthold.memory.embeddings import host_generator
from facthold.models.memory import LinearMemory
from facthold.studies.memories.capacity import Capacity, Stored, TwoOutputs
from facthold.studies.memories.degrees import KernelCapacity, KernelMargins
from facthold.studies.memories.margins import GradientStep, Margins, Rounding

SMALL = [
    Margins(N=3, d=4, in_image=True, n_draws=100),
    TwoOutputs(method="outer-product", N=5, d=16, seeds=(0, 1)),
    KernelCapacity(method="hermite-features", d=8, m=64, k=2, seeds=(0,)),
    KernelMargins(method="tangent-kernel", N=3, d=4, m=8, k=0, n_draws=10),
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
def test_margins_are_those_of_the_outer_product(in_image: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sum at a time, from the formula; and of whatever the construction returns."""
    cell, N, d = Margins(N=5, d=6, in_image=in_image, n_draws=8), 5, 6
    E, U = (EMBEDDINGS["sphere"](n, d, host_generator(derive("test", 0))) for n in (N, N if in_image else 2 * N))
    draws = iter((E, U))
    monkeypatch.setitem(EMBEDDINGS, "sphere", lambda n, d, draw: next(draws))
    rivals = range(N) if in_image else range(N, 2 * N)
    brute = [sum((U[x] - U[y]) @ U[z] * (E[z] @ E[x]) for z in range(N)) for x in range(N) for y in rivals if y != x]
    generator = host_generator(derive("test", 0))
    assert_allclose(cell.draw(generator), brute, rtol=1e-4, atol=1e-5)
    draws = iter((E, U))
    monkeypatch.setattr("facthold.construct.linear.outer_product", lambda p: LinearMemory(2 * outer_product(p).W))
    assert_allclose(cell.draw(generator), 2 * np.array(brute), rtol=1e-4, atol=1e-5)


def test_margin_errors_are_those_of_the_samples() -> None:
    """Standard errors against the spread over repetitions, to the precision of 60 repetitions (9%, 4 sigma)."""
    runs = [Margins(N=3, d=4, in_image=True, n_draws=60, seed=seed).run() for seed in range(60)]
    for name in ("mean", "variance"):
        spread = np.std([run[name] for run in runs], ddof=1)
        # the error of a variance has heavy tails of its own: its root mean square is compared
        claimed = math.sqrt(np.mean([run[f"{name}_error"] ** 2 for run in runs]))
        assert_allclose(claimed, spread, rtol=4 / math.sqrt(2 * 60))


@pytest.mark.parametrize(("N", "d", "n_draws"), [(1, 4, 9), (3, 4, 1), (3, 0, 9)])
def test_margins_refuse_sizes_without_a_margin(N: int, d: int, n_draws: int) -> None:
    with pytest.raises(ValueError, match="must be at least"):
        Margins(in_image=True, N=N, d=d, n_draws=n_draws)


@pytest.mark.parametrize("d", [4, 64])
def test_one_hot_inputs_hold_exactly_d(d: int) -> None:
    """The remark of section 3.1: d of d are recalled, and of d + 1 no memory recalls more than d, as two inputs share
    their vector and not their output; the memory of the first d does."""

    def problem(N: int) -> Problem:
        E = np.eye(d, dtype=np.float32)[np.arange(N) % d]
        U = EMBEDDINGS["sphere"](d + 1, d, np.random.default_rng(0)).astype(np.float32)[:N]
        return Problem(jnp.asarray(E), jnp.asarray(U), jnp.arange(N))

    full, over = problem(d), problem(d + 1)
    assert recalled(outer_product(full), full).sum() == d
    assert recalled(outer_product(full), over).sum() == d
    assert d - 1 <= recalled(outer_product(over), over).sum() <= d


def test_two_outputs_are_even_and_odd() -> None:
    """With few the outer product has all, with many a part; what is wrong is counted on the map x mod 2."""
    few, many = (TwoOutputs(method="outer-product", N=N, d=64, seeds=(0, 1)) for N in (4, 400))
    assert few.problem(0).f.tolist() == [0, 1, 0, 1]
    assert few.problem(0).M == 2
    assert few.run()["wrong"] == [0, 0]
    assert all(40 < wrong < 200 for wrong in many.run()["wrong"])


def test_kernel_capacities_build_at_their_degree() -> None:
    """At d = 6 and many neurons degree 3 holds more than degree 1, by either construction."""
    for method, ks in (("hermite-features", (1, 3)), ("tangent-kernel", (0, 2))):
        fields: dict[str, Any] = {"method": method, "d": 6, "m": 2048, "sigma": "hermite:1,1,1,1", "tolerance": 0.2}
        first, third = (KernelCapacity(k=k, seeds=(0,), start=0.2, **fields).run()["N"] for k in ks)
        assert third > 1.5 * first, method
    with pytest.raises(ValueError, match="did you mean 'tangent-kernel'"):
        KernelCapacity(method="tangent-kernal", d=8, m=64, k=1)


def test_rounding_moves_margins_as_predicted_and_not_at_all_when_fine() -> None:
    coarse, fine = (Rounding(N=6, d=16, seeds=tuple(range(20)), coarseness=c).run() for c in (1.0, 1e-5))
    assert coarse["step"] < 1 / (8 * 16)
    assert_allclose(np.mean(coarse["moved"]) / coarse["step"] * 12**0.5, 1, rtol=0.2)
    assert max(fine["moved"]) < 1e-6
    assert_allclose(fine["least_before"], fine["least_after"], atol=1e-6)
    assert fine["used_bits"][0] > coarse["used_bits"][0]


def test_rounding_far_above_the_bound_loses_associations() -> None:
    """At 1000/(8d) most weights round to zero."""
    lost = Rounding(N=8, d=64, seeds=(0,), coarseness=1000.0).run()
    assert min(lost["least_after"]) <= 0
    assert max(lost["recalled"]) < 1


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
        (lambda: Capacity(method="layerwise", d=8), "has a width to choose"),
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

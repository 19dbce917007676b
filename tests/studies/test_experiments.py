"""Cells of the claims against brute force, identities and exact counts."""

import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import comb

from facthold._util.keys import derive
from facthold.construct.linear import outer_product
from facthold.measure.recall import margins
from facthold.memory.associations import Problem
from facthold.memory.embeddings import host_generator
from facthold.studies.memories.capacity import Capacity, nested_problem
from facthold.studies.memories.gradient import GradientStep
from facthold.studies.memories.margins import Margins, margin_samples
from facthold.studies.memories.onehot import OneHot
from facthold.studies.memories.rounding import Rounding
from facthold.studies.memories.stored import Stored
from facthold.theory import noise
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
    with pytest.raises(ValueError, match=r"take|at least"):
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
    few, many = nested_problem(3, 0, 4), nested_problem(7, 0, 4)
    assert_allclose(few.E, many.E[:3])
    assert_allclose(few.U, many.U[:3])


@pytest.mark.parametrize("d", [2, 5, 16])
def test_cover_moments_are_those_of_covers_count(d: int) -> None:
    N = np.arange(1, 40 * d)
    separable = np.array([2.0 ** (1 - n) * sum(comb(n - 1, k) for k in range(d)) for n in N])
    mean = separable.sum()  # E[N*] = sum of P(N* >= N)
    variance = ((2 * N - 1) * separable).sum() - mean**2
    assert_allclose(noise.cover(d), (mean, math.sqrt(variance)), rtol=1e-9)


def test_level_is_the_median_of_a_maximum() -> None:
    draws = np.random.default_rng(0).standard_normal((4000, 30)).max(axis=1)
    share = (draws < noise.level(30)).mean()
    assert abs(share - 0.5) < 4 * 0.5 / math.sqrt(4000)
    assert_allclose(noise.level(1, 0.99), 2.3263478740408408, rtol=1e-9)


@pytest.mark.parametrize("m", [0, 24])
def test_score_variance_against_draws(m: int) -> None:
    """The score of output 1 at input 0, over independent embeddings (and v_i); terms of order 1/(m d) are left out."""
    N, d, n = 6, 48, 4000
    generator = np.random.default_rng(1)
    cell = Margins(N=N, d=d, in_image=True, n_draws=n)
    E, U = cell.draw(n, generator)
    V = generator.standard_normal((n, m, d)) if m else None
    seen = E[:, 0] if V is None else np.einsum("nmd,nm->nd", V, np.einsum("nmd,nd->nm", V, E[:, 0])) / m
    scores = np.einsum("nzd,nd,nze,ne->n", U, U[:, 1], E, seen, optimize=True)
    error = scores.var() * math.sqrt(((scores**4).mean() / scores.var() ** 2 - 1) / n)
    left_out = 4 / (m * d) if m else 0.0
    assert abs(scores.var() - noise.score_variance(N, d, m)) < 4 * error + left_out


def test_laws_have_the_theorems_growth() -> None:
    """2 N ln N = d^2, and at rank m = d half of it: z(n)^2 / (2 ln n) tends to 1, slowly."""
    d = 10**7
    N = noise.half_recall(d)
    assert_allclose(N * noise.level(N - 1) ** 2, d**2, rtol=1e-3)
    assert_allclose(2 * N * math.log(N) / d**2, 1, rtol=0.15)
    low = noise.half_recall(d, d)
    assert_allclose(low * noise.level(low - 1) ** 2, d**2 / 2, rtol=1e-3)
    assert_allclose(noise.two_outputs(d) / d, 0.18478, rtol=1e-3)
    assert 2 * math.log(d) * noise.half_exact(d) / d < 1.25


def test_laws_refuse_what_has_no_meaning() -> None:
    with pytest.raises(ValueError, match="share=1"):
        noise.level(3, 1.0)
    with pytest.raises(ValueError, match="d=0"):
        noise.half_recall(0)

"""Scaling laws: products of power laws against brute force, the closed forms, and cells that theorem 7 judges."""

import itertools
import math

import numpy as np
import pytest

from facthold.construct.linear import outer_product
from facthold.measure.quantise import GRID_BITS, SCALE_BITS
from facthold.studies.claims import CLAIMS
from facthold.studies.memories.capacity import nested_problem
from facthold.studies.zipf.memory_loss import (
    MemoryLoss,
    best_linear,
    cross_entropies,
    cut_loss,
    first,
    fitted,
    probabilities,
)
from facthold.studies.zipf.zipf import MODELS, Curve, expected, slope
from facthold.studies.zipf.zipf_facts import TRAINED_BITS, ZipfFacts
from facthold.theory.limits import frequencies, least_loss, power_law
from facthold.theory.limits_zipf import facts_law, facts_loss, product_law
from facthold.train.tasks import StoreAssociations, StoreByFrequency

ROUNDING = 1e-11
"""Relative: tails are sums of a few thousand terms."""
GAMMA = float(np.euler_gamma)


def products(S: int, R: int, alpha_s: float, alpha_r: float) -> np.ndarray:
    p = np.outer(np.arange(1.0, S + 1) ** -alpha_s, np.arange(1.0, R + 1) ** -alpha_r)
    return p / p.sum()


@pytest.mark.parametrize(
    ("S", "R", "alpha_s", "alpha_r"),
    [(20, 9, 1.5, 0.7), (20, 12, 1.5, 1.5), (9, 20, 1.5, 3.0), (50, 20, 0, 1.2), (13, 40, 1.2, 0), (15, 15, 0.5, 2),
     (7, 9, 1, 1), (5, 4, 0, 0), (1, 6, 2, 1), (6, 1, 2, 1), (1, 1, 1, 1)],
)  # fmt: skip
def test_products_are_sorted_as_by_brute_force(S: int, R: int, alpha_s: float, alpha_r: float) -> None:
    """Every k, ties included: with equal exponents (1, 6), (2, 3), (3, 2), (6, 1) are all alike."""
    brute, law = frequencies(products(S, R, alpha_s, alpha_r)), product_law(S, R, alpha_s, alpha_r)
    assert law.N == brute.N == S * R
    for k in range(S * R + 3):
        assert math.isclose(law.tail(k), brute.tail(k), rel_tol=ROUNDING, abs_tol=1e-15)


def test_one_relation_is_one_power_law_and_sizes_may_be_huge() -> None:
    for k in (0, 1, 10, 1000):
        assert math.isclose(product_law(10**6, 1, 1.5, 0.7).tail(k), power_law(10**6, 1.5).tail(k), rel_tol=ROUNDING)
    huge = product_law(10**30, 10**20, 1.5, 3.0)
    endless = product_law(math.inf, math.inf, 1.5, 3.0)
    assert math.isclose(huge.tail(1000), endless.tail(1000), rel_tol=1e-3)
    tails = [huge.tail(k) for k in (0, 1, 10, 100, 10**4, 10**6)]
    assert tails[0] == 1
    assert all(a > b > 0 for a, b in itertools.pairwise(tails))


def test_infinite_sizes_need_a_finite_sum() -> None:
    for bad in ((math.inf, 4, 1.0, 2.0), (math.inf, 4, 0.0, 2.0), (4, math.inf, 1.5, 0.5)):
        with pytest.raises(ValueError, match="infinite N"):
            product_law(*bad)


@pytest.mark.parametrize(
    ("alpha_s", "alpha_r", "R"), [(1.5, 0.0, 8), (1.5, 1.0, 8), (2.0, 0.7, 20), (1.2, 3.0, 5), (1.5, 1.5, 16)]
)
def test_the_law_is_the_limit_of_theorem_7(alpha_s: float, alpha_r: float, R: int) -> None:
    """k is (n_1 + 1) + ... - R to first order: the ratio comes near 1 as (1 + R / k)^(1 - alpha)."""
    law, p = facts_law(8, alpha_s, alpha_r, R=R), product_law(math.inf, R, alpha_s, alpha_r)
    assert law.exponent == 1 - alpha_s
    for B in (1e5, 1e7):
        ratio = least_loss(B, 8, p) / (law.limit * B**law.exponent)
        assert abs(ratio - 1) < alpha_s * R / (B / 3)
    assert law.effective <= R * (1 + ROUNDING)
    if alpha_r == 0:
        assert math.isclose(law.effective, R)


def test_two_endless_sides_follow_the_smaller_exponent() -> None:
    p = product_law(math.inf, math.inf, 1.5, 3.0)
    for law in (facts_law(8, 1.5, 3.0), facts_law(8, 3.0, 1.5)):
        assert law.exponent == -0.5
        assert math.isclose(least_loss(1e6, 8, p), law.limit * 1e6**law.exponent, rel_tol=0.01)


def test_equal_exponents_bring_a_logarithm() -> None:
    """Dirichlet: x ln x + (2 gamma - 1) x pairs have s r <= x, and the law is what is left of it for x without end."""
    a, p = 2.0, product_law(math.inf, math.inf, 2.0, 2.0)
    law = facts_law(8, a, a)
    assert (law.exponent, law.logarithm, law.effective) == (-1.0, 2.0, math.inf)
    x = 1e5
    k = round(x * (math.log(x) + 2 * GAMMA - 1))
    tail = x ** (1 - a) * (math.log(x) + 2 * GAMMA + 1 / (a - 1)) / (a - 1) / (math.pi**2 / 6) ** 2
    # the divisor problem's error, below 2 x^(1/3) pairs, moves the level by as little
    assert math.isclose(p.tail(k), tail, rel_tol=4 * x ** (-2 / 3))
    ratios = [least_loss(B, 8, p) / (law.limit * B**law.exponent * math.log(B / 3) ** a) for B in (1e3, 1e6)]
    assert all(0.5 < ratio < 2 for ratio in ratios)


@pytest.mark.parametrize("S", [64, 4096, math.inf])
@pytest.mark.parametrize(("alpha", "alpha_r"), [(1.2, 0.0), (1.5, 1.0), (3.0, 0.5)])
def test_the_closed_form_is_below_theorem_7_and_near_it(S: float, alpha: float, alpha_r: float) -> None:
    R = 8
    p_r = products(1, R, 0, alpha_r)[0]
    law = product_law(S, R, alpha, alpha_r)
    for B in (0, 1, 7, 24, 100, 1e3, 3e4, 1e6):
        assert facts_loss(B, 8, alpha, p_r, S) <= least_loss(B, 8, law) * (1 + ROUNDING) + 1e-15
    if math.isinf(S):
        assert facts_loss(1e6, 8, alpha, p_r) > 0.999 * least_loss(1e6, 8, law)


def test_wrong_arguments_say_what_to_do() -> None:
    with pytest.raises(ValueError, match="one of them infinite"):
        facts_law(8, 1.5, 0, S=10, R=10)
    with pytest.raises(ValueError, match="above 1"):
        facts_law(8, 1.0, 0, R=10)
    with pytest.raises(ValueError, match="above 1"):
        facts_loss(10, 8, 1.0, [0.5, 0.5])
    with pytest.raises(ValueError, match="must be a distribution"):
        facts_loss(10, 8, 1.5, [0.5, 0.6])
    with pytest.raises(ValueError, match="linear memory"):
        MemoryLoss(method="outer-product", d=8, m=4)
    with pytest.raises(ValueError, match="unknown method"):
        MemoryLoss(method="outer", d=8)
    with pytest.raises(ValueError, match="more than the memory can hold"):
        MemoryLoss(method="outer-product", d=64, N=2000)
    with pytest.raises(ValueError, match="must not be empty"):
        ZipfFacts(d=4, H=1, d_h=4, m=4, seeds=())


def test_a_list_of_answers_reaches_the_bound() -> None:
    """Right up to k and of no use beyond: the cut is k, and the loss is theorem 7's at k log2 M bits."""
    M, k, n = 8, 5, 12
    p, f = probabilities(power_law(100, 1.5), n), np.arange(n) % M
    scores = np.zeros((n, M))
    scores[np.arange(k), f[:k]] = 1.0
    scores[np.arange(k, n), (f[k:] + 1) % M] = 1.0
    loss, cut = cut_loss(scores, f, p, 3.0, power_law(100, 1.5).tail(n))
    assert cut == k
    assert math.isclose(loss, least_loss(3 * k, M, power_law(100, 1.5)), rel_tol=1e-6)


def test_asking_twice_changes_nothing_and_no_scale_is_better() -> None:
    rng = np.random.default_rng(0)
    scores, f, p = rng.normal(size=(20, 6)), rng.integers(0, 6, 20), probabilities(power_law(100, 1.2), 20)
    scores[np.arange(20), f] += 2
    loss, scale = fitted(scores, f, p)
    assert all(loss <= p @ cross_entropies(scores, f, scale * factor) + 1e-9 for factor in (0.5, 0.9, 1.1, 2))
    once, twice = cut_loss(scores, f, p, 3.0, 0.1), cut_loss(np.tile(scores, (2, 1)), np.tile(f, 2), p, 3.0, 0.1)
    assert once[1] == twice[1]
    assert math.isclose(once[0], twice[0], rel_tol=1e-6)


def test_weights_are_those_of_the_loss() -> None:
    """All alike, they give the plain task; a weight of zero is an input that is not there."""
    problem = nested_problem(10, 0, 6, 8, map="uniform")
    memory = outer_product(problem)  # far from a loss of zero, where only rounding is left
    plain = StoreAssociations.of(problem).loss(memory)
    assert np.isclose(StoreByFrequency.weighted(problem, np.full(10, 0.1)).loss(memory), plain, rtol=1e-5)
    p = np.append(np.full(7, 1 / 7), np.zeros(3))
    fewer = StoreAssociations.of(first(problem, 7)).loss(memory)
    assert np.isclose(StoreByFrequency.weighted(problem, p).loss(memory), fewer, rtol=1e-5)
    with pytest.raises(ValueError, match="one weight for each of 10"):
        StoreByFrequency.weighted(problem, np.ones(9))


def test_the_best_linear_memory_has_no_gradient() -> None:
    problem = nested_problem(30, 1, 6, 16, map="uniform")
    p = probabilities(power_law(1000, 1.5), 30)
    memory = best_linear(problem, p, max_iterations=500)
    E, U, targets = (np.asarray(a, np.float64) for a in problem.host())
    z = E @ np.asarray(memory.W, np.float64).T @ U.T
    q = np.exp(z - z.max(axis=1, keepdims=True))
    q /= q.sum(axis=1, keepdims=True)
    gradient = ((q @ U - targets) * (p / p.sum())[:, None]).T @ E
    assert np.abs(gradient).max() < 1e-4  # of entries of order p(x) |u| |e| / sqrt(d), rounded to float32


@pytest.fixture(scope="module")
def measured() -> dict[str, dict]:
    """Tiny memories, several maps each."""
    small = {"M": 16, "N": 5000, "alphas": (1.5,), "precisions": (3, 6), "steps": 64, "seeds": (0, 1, 2)}
    cells = [MemoryLoss(method=name, d=6, **small) for name in ("outer-product", "weighted-convex")]
    cells.append(MemoryLoss(method="weighted-trained", d=4, m=6, **small))
    return {cell.method: {"kind": cell.kind, **cell.spec, **cell.run()} for cell in cells}


def test_no_memory_is_below_theorem_7_and_the_judge_can_say_no(measured: dict[str, dict]) -> None:
    judge = CLAIMS["nothing-below-theorem-7"].judge
    assert judge(list(measured.values())).holds
    row = measured["weighted-convex"]
    curve = row["curves"][0]
    low = [one | {"points": [point | {"loss": 0.01} for point in one["points"]]} for one in curve["per_seed"]]
    assert not judge([row | {"curves": [curve | {"per_seed": low}]}]).holds
    assert not judge([]).holds


def test_answering_everything_is_no_better_than_a_cut(measured: dict[str, dict]) -> None:
    for row in measured.values():
        for one in row["curves"][0]["per_seed"]:
            assert 0 < one["loss"] <= one["uncut"] <= math.log2(16) * (1 + 1e-4)
            assert one["waste"] > 1
            assert one["bits"] == next(p["bits"] for p in one["points"] if p["precision"] == one["precision"])


def _made_up(exponent: float, scale: float = 8.0) -> list[dict]:
    """Rows of the law: outer products of four sizes that store k = (B / scale)^exponent / 7 associations."""
    rows = []
    for d in (8, 16, 32, 64):
        cell, law = MemoryLoss(method="outer-product", d=d, alphas=(1.5,)), power_law(10**6, 1.5)
        B = 4.0 * d**2
        one = {"bits": B, "loss": least_loss((B / scale) ** exponent, 128, law), "uncut": 7.0}
        curves = [{"alpha": 1.5, "per_seed": [one | {"loss": one["loss"] * f} for f in (0.999, 1.001)]}]
        rows.append({"kind": cell.kind, **cell.spec, "n_params": d**2, "curves": curves})
    return rows


def test_the_law_holds_for_constant_waste_and_for_a_logarithm_and_for_no_other_power() -> None:
    judge = CLAIMS["memories-scaling-law"].judge
    assert judge(_made_up(1.0)).holds
    assert not judge(_made_up(0.5)).holds
    assert not judge(_made_up(1.3)).holds
    assert not judge(_made_up(1.0)[:2]).holds


def test_expected_slopes_are_those_of_their_laws() -> None:
    """Infinite N: k grows as B, and the loss as B^(1-alpha), to the order of 1 / k; a logarithm makes it flatter."""
    law, bits = power_law(math.inf, 1.5), [1e4, 1e5, 1e6]
    loss = [least_loss(B / 8, 128, law) for B in bits]
    curve = Curve("outer-product", "alpha=1.5", -0.5, law, 128, [1, 2, 3], bits, loss, loss)
    assert abs(slope(curve).slope + 0.5) < 0.01
    assert np.allclose(expected(curve, False), loss, rtol=1e-6)
    flat = np.diff(np.log(expected(curve, True))) / np.diff(np.log(bits))
    assert (flat > -0.47).all()
    assert (flat < -0.4).all()
    assert len(set(MODELS)) == len(MODELS)


def test_a_small_transformer_from_cell_to_verdict() -> None:
    """Hardly trained: it loses at most log2 D, and its bits are counted to the last scale."""
    cell = ZipfFacts(d=4, H=2, d_h=2, m=4, S=32, R=2, D=4, steps=16, batch=32, precisions=(4, TRAINED_BITS), seeds=(0,))
    row = {"kind": cell.kind, **cell.spec, **cell.run()}
    (one,) = row["per_seed"]
    assert cell.n_params == 4 * 16 + 2 * 16 + 4
    scales, arrays, chosen = 4 * 2 + 3, 7, 32 + math.log2(65) + 1
    grids = SCALE_BITS * scales + GRID_BITS * arrays
    assert math.isclose(one["points"][0]["bits"], 100 * math.log2(15) + grids + chosen)
    assert math.isclose(one["points"][1]["bits"], 32 * 100 + chosen)
    assert 0 < one["loss"] <= 2 * (1 + 1e-6)
    assert one["answers"] >= one["points"][-1]["loss"] - 1e-6
    assert CLAIMS["nothing-below-theorem-7"].judge([row]).holds


def test_what_is_taught_is_the_most_frequent_part() -> None:
    cell = ZipfFacts(d=4, H=2, d_h=2, m=4, S=32, R=2, D=4, taught=0.1)
    p = products(32, 2, 1.5, 1.0).ravel()
    asked = cell._asked(p)
    assert math.isclose(asked.sum(), 1)
    assert (asked > 0).sum() == 10
    assert p[asked > 0].min() >= p[asked == 0].max()

"""Products of power laws: against brute force, and against the closed forms that docs/limits.md derives."""

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest

from facthold.theory.limits import frequencies, least_loss, power_law, power_sum
from facthold.theory.limits_facts import product_law

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


class Law(NamedTuple):
    """least_loss ~ limit * B^exponent for B large, where the subjects do not end; ``effective`` = 2^H with Renyi's
    entropy H of order 1/alpha of the relations: as many relations, all alike, would do the same."""

    exponent: float
    limit: float
    effective: float


def law_of(D: int, a: float, b: float, R: float) -> Law:
    """p(s) ~ s^-a without end, p(r) ~ r^-b over R relations."""
    Z, A, bits = power_sum(b, 1, R), power_sum(b / a, 1, R), math.log2(D)
    return Law(1 - a, bits**a * A**a / (Z * (a - 1) * power_sum(a, 1, math.inf)), (A**a / Z) ** (1 / (a - 1)))


@pytest.mark.parametrize(
    ("alpha_s", "alpha_r", "R"), [(1.5, 0.0, 8), (1.5, 1.0, 8), (2.0, 0.7, 20), (1.2, 3.0, 5), (1.5, 1.5, 16)]
)
def test_the_law_is_the_limit_of_theorem_7(alpha_s: float, alpha_r: float, R: int) -> None:
    """k is (n_1 + 1) + ... - R to first order: the ratio comes near 1 as (1 + R / k)^(1 - alpha)."""
    law, p = law_of(8, alpha_s, alpha_r, R), product_law(math.inf, R, alpha_s, alpha_r)
    for B in (1e5, 1e7):
        ratio = least_loss(B, 8, p) / (law.limit * B**law.exponent)
        assert abs(ratio - 1) < alpha_s * R / (B / 3)
    assert law.effective <= R * (1 + ROUNDING)
    if alpha_r == 0:
        assert math.isclose(law.effective, R)


def test_two_endless_sides_follow_the_smaller_exponent() -> None:
    law = law_of(8, 1.5, 3.0, math.inf)
    for p in (product_law(math.inf, math.inf, 1.5, 3.0), product_law(math.inf, math.inf, 3.0, 1.5)):
        assert math.isclose(least_loss(1e6, 8, p), law.limit * 1e6**law.exponent, rel_tol=0.01)


def test_equal_exponents_bring_a_logarithm() -> None:
    """Dirichlet: x ln x + (2 gamma - 1) x pairs have s r <= x, and the law is what is left of it for x without end."""
    a, p = 2.0, product_law(math.inf, math.inf, 2.0, 2.0)
    zeta, x = math.pi**2 / 6, 1e5
    k = round(x * (math.log(x) + 2 * GAMMA - 1))
    tail = x ** (1 - a) * (math.log(x) + 2 * GAMMA + 1 / (a - 1)) / (a - 1) / zeta**2
    # the divisor problem's error, below 2 x^(1/3) pairs, moves the level by as little
    assert math.isclose(p.tail(k), tail, rel_tol=4 * x ** (-2 / 3))
    limit = 3**a / ((a - 1) * zeta**2)
    ratios = [least_loss(B, 8, p) / (limit * B ** (1 - a) * math.log(B / 3) ** a) for B in (1e3, 1e6)]
    assert all(0.5 < ratio < 2 for ratio in ratios)


def closed_form(B: float, D: int, alpha: float, p_r: np.ndarray, S: float) -> float:
    """No learner of B bits is below it, for any p(r) over R relations and p(s) ~ s^-alpha (docs/limits.md)."""
    k, A = B / math.log2(D), float((p_r ** (1 / alpha)).sum())
    left = A**alpha * (k + len(p_r)) ** (1 - alpha) - (0.0 if math.isinf(S) else (S + 1.0) ** (1 - alpha))
    return math.log2(D) * max(0.0, left) / ((alpha - 1) * power_sum(alpha, 1, math.inf))


@pytest.mark.parametrize("S", [64, 4096, math.inf])
@pytest.mark.parametrize(("alpha", "alpha_r"), [(1.2, 0.0), (1.5, 1.0), (3.0, 0.5)])
def test_the_closed_form_is_below_theorem_7_and_near_it(S: float, alpha: float, alpha_r: float) -> None:
    R = 8
    p_r, law = products(1, R, 0, alpha_r)[0], product_law(S, R, alpha, alpha_r)
    for B in (0, 1, 7, 24, 100, 1e3, 3e4, 1e6):
        assert closed_form(B, 8, alpha, p_r, S) <= least_loss(B, 8, law) * (1 + ROUNDING) + 1e-15
    if math.isinf(S):
        assert closed_form(1e6, 8, alpha, p_r, S) > 0.999 * least_loss(1e6, 8, law)

"""Verdicts: what an interval says about a number that is stated, and that noise never helps."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facthold.lab.claim import ROUNDING, Judgement, at_least, near, worst

numbers = st.floats(-3, 3)
widths = st.floats(0, 3)


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        ((0.95, 1.05), "holds"),
        ((1.0, 1.0), "holds"),
        ((0.888, 0.917), "drifts"),
        ((0.85, 1.05), "not decided"),
        ((0.85, 0.95), "not decided"),
        ((0.5, 2.0), "not decided"),
        ((0.5, 0.87), "fails"),
        ((1.13, 2.0), "fails"),
        ((math.nan, math.nan), "fails"),
    ],
)
def test_a_stated_number_with_its_tolerance(interval: tuple[float, float], verdict: str) -> None:
    assert near(interval, 1.0, 0.12) == verdict


def test_a_stated_range_with_its_tolerance() -> None:
    verdicts = {"holds": (0.9, 1.1), "drifts": (2.02, 2.1), "not decided": (1.9, 2.3), "fails": (2.2, 2.3)}
    assert [near(interval, (1.0, 2.0), 0.12) for interval in verdicts.values()] == list(verdicts)
    assert near((1.4, 1.6), (1.0, 2.0), 0.0) == "holds"


def test_a_stated_bound() -> None:
    assert at_least((0.6, 0.8), 0.5) == "holds"
    assert at_least((0.4, 0.8), 0.5) == "not decided"
    assert at_least((0.3, 0.4), 0.5) == "fails"
    assert at_least((math.nan, math.nan), 0.5) == "fails"


@given(numbers, widths, widths, numbers, widths)
def test_a_noisier_measurement_never_passes_more_easily(
    middle: float, half: float, more: float, stated: float, tolerance: float
) -> None:
    """A wider interval about the same number may hide a drift, and turn a failure into an open question: no more."""
    sharp, noisy = (
        near((middle - h, middle + h), stated, tolerance) for h in (half, half + more)
    )  # fmt: skip
    passes = ("holds", "drifts")
    assert noisy not in passes or sharp in passes
    bound = [at_least((middle - h, middle + h), stated) for h in (half, half + more)]
    assert bound[1] != "holds" or bound[0] == "holds"


@given(numbers, widths, numbers, widths)
def test_what_holds_contains_what_is_stated(middle: float, half: float, stated: float, tolerance: float) -> None:
    low, high = middle - half, middle + half
    if near((low, high), stated, tolerance) == "holds":
        assert low - ROUNDING <= stated <= high + ROUNDING


def test_the_worst_part_decides() -> None:
    assert worst("holds", True) == "holds"
    assert worst("holds", "drifts") == "drifts"
    assert worst("drifts", "not decided", True) == "not decided"
    assert worst("not decided", False) == "fails"


def test_what_is_exact_holds_or_fails() -> None:
    assert Judgement("p", "m", "exact", True).verdict == "holds"
    assert Judgement("p", "m", "exact", False).verdict == "fails"
    assert not Judgement("p", "m", "e", "drifts").holds

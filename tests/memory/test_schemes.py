"""Heavy-tailed data and schemes by name."""

import re

import numpy as np
import pytest

from facthold._util.errors import check_scheme, check_whole
from facthold.memory.schemes import HeavyTailed, scheme

COUNTS, P = np.array([9, 4, 1, 0]), np.array([0.5, 0.3, 0.15, 0.05])


@pytest.mark.parametrize(
    ("name", "q"),
    [
        ("p", P),
        ("all", [1, 1, 1, 1]),
        ("counts", [9, 4, 1, 0]),
        ("seen", [1, 1, 1, 0]),
        ("at-least-4", [1, 1, 0, 0]),
        ("counts^0.5", [3, 2, 1, 0]),
        ("first-2", [1, 1, 0, 0]),
    ],
)
def test_schemes_by_name(name: str, q: list[float]) -> None:
    np.testing.assert_allclose(scheme(name)(COUNTS, P), q)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("sene", "unknown scheme 'sene'; did you mean 'seen'"),
        ("at-least-", "did you mean 'at-least-N'"),
        ("first-0", "0 must be a whole number above 0"),
        ("first-1.5", "1.5 must be a whole number above 0"),
        ("counts^-1", "-1 must be above 0"),
        ("counts^1e", "ends in '1e', which is no number"),
        ("counts^nan", "nan must be above 0"),
        ("counts^inf", "inf must be above 0"),
        ("at-least-nan", "nan must be a whole number above 0"),
        ("at-least--3", "-3 must be a whole number above 0"),
        ("first-two", "ends in 'two', which is no number"),
    ],
)
def test_a_scheme_that_is_none_is_one_clear_line(name: str, says: str) -> None:
    with pytest.raises(ValueError, match="scheme") as error:
        scheme(name)
    assert says in str(error.value)


def test_a_power_law_and_its_samples() -> None:
    data = HeavyTailed(50, 5, 2.0)
    p = data.p
    assert p.sum() == pytest.approx(1)
    assert p[0] / p[9] == pytest.approx(100)
    counts = data.counts(200_000, (3, 4))
    assert counts.sum() == 200_000
    deviations = (counts - 200_000 * p) / np.sqrt(200_000 * p * (1 - p))
    assert np.abs(deviations).max() < 4.5
    np.testing.assert_array_equal(data.f((0, 0)), np.arange(50) % 5)
    np.testing.assert_allclose(HeavyTailed(4, 1, 0.0).p, 0.25)
    with pytest.raises(ValueError, match="needs M >= N"):
        HeavyTailed(10, 5, 2.0, "identity")
    with pytest.raises(ValueError, match="alpha=nan"):
        HeavyTailed(10, 5, float("nan"))
    with pytest.raises(ValueError, match="n=-1 must be at least 0"):
        data.counts(-1, (3, 4))
    for n in (1.5, np.nan, -np.inf):
        with pytest.raises(ValueError, match=f"n={n} must be a whole number"):
            check_whole(n=n)


@pytest.mark.parametrize(
    ("q", "f", "says"),
    [
        ([0.5, np.nan, 0.1, 0.0], [0, 1, 0, 1], "q=nan of a token must be 0 or more, and finite"),
        ([0.5, -0.25, 0.1, 0.0], [0, 1, 0, 1], "q=-0.25 of a token must be 0 or more, and finite"),
        ([0.5, 0.2, 0.1], [0, 1, 0, 1], "q has 3 tokens, p 4 and f 4; give each as many"),
        ([0.5, 0.2, 0.1, 0.0], [0, 1, 2, 1], "f must lie between 0 and 1, not 0 to 2"),
    ],
)
def test_what_a_function_of_ones_own_gives_is_checked(q: list[float], f: list[int], says: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(says)}$"):
        check_scheme(np.array(q), P, np.array(f), 2, 4)
    with pytest.raises(ValueError, match="d=0 must be at least 1"):
        check_scheme(P, P, np.array([0, 1, 0, 1]), 2, 0)

"""Extrapolated limits."""

import numpy as np
import pytest

from facthold.measure.scaling import fit_limit


def test_limits_are_extrapolated_with_their_interval() -> None:
    x = [0.5, 0.25, 0.125, 0.5, 0.25, 0.125]
    exact = fit_limit("line", x, [1 - 0.3 * value for value in x], [1, 2, 4, 1, 2, 4])
    assert exact.value == pytest.approx(1)
    assert exact.slope == pytest.approx(-0.3)
    generator, hits = np.random.default_rng(0), 0
    for _ in range(400):
        noise = generator.standard_normal(len(x)) * np.array([4, 2, 1, 4, 2, 1]) * 0.01
        low, high = fit_limit("line", x, np.add(2 + np.array(x), noise).tolist(), [1, 2, 4, 1, 2, 4]).interval
        hits += low <= 2 <= high
    assert hits / 400 == pytest.approx(0.95, abs=0.04)
    with pytest.raises(ValueError, match="three different sizes"):
        fit_limit("line", [1, 2], [1, 2], [1, 1])

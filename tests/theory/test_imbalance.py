"""Margins as particles: limits, bounds and the recursion itself."""

import numpy as np
import pytest

from facthold.theory.imbalance import Particles, height, margin_bounds, of_height

PAIRS = [(0.95, 0.75), (0.9, 0.9), (0.5, 0.8), (0.7, 0.6)]


def stepped(law: Particles, pace: float, steps: int) -> np.ndarray:
    m = [np.zeros(len(law.p))]
    for _ in range(steps):
        m.append(law.moved(m[-1], pace))
    return np.array(m)


@pytest.mark.parametrize(("correlation", "frequency"), PAIRS)
def test_a_step_is_that_of_logistic_regression(correlation: float, frequency: float) -> None:
    x = np.array([[1.0, 0.0], [-correlation, -((1 - correlation**2) ** 0.5)]])
    law, w = Particles.pair(correlation, frequency), np.array([0.3, -0.7])
    pulled = w + 5.0 * ((law.p / (1 + np.exp(x @ w))) @ x)
    np.testing.assert_allclose(law.moved(x @ w, 5.0), x @ pulled)
    np.testing.assert_allclose(law.G, x @ x.T)


@pytest.mark.parametrize(("correlation", "frequency"), PAIRS)
def test_the_first_step_reaches_the_height_of_the_start_at_the_rising_pace(
    correlation: float, frequency: float
) -> None:
    law = Particles.pair(correlation, frequency)
    losses = [law.loss(stepped(law, share * law.rising_pace, 1)[1]) for share in (0.99, 1.0, 1.01)]
    assert losses[0] < np.log(2) < losses[2]
    assert losses[1] == pytest.approx(np.log(2), rel=1e-9)
    assert law.safe_pace < law.rising_pace


def test_without_conflict_no_first_step_raises_the_loss() -> None:
    for correlation in (-0.9, 0.0, 0.2):
        assert Particles.pair(correlation, 0.75).rising_pace == np.inf
    assert not Particles.pair(-0.5, 0.75).rises(np.geomspace(0.1, 1e5, 30), 100).any()
    assert Particles.pair(-0.5, 0.75).flow_time == 0


def test_a_first_step_that_is_right_for_both_may_be_followed_by_one_that_raises_the_loss() -> None:
    """Within a window of step sizes; and at equal frequencies never."""
    law, paces = Particles.pair(0.815, 0.512), np.geomspace(1, 1e4, 100)
    assert law.rising_pace == np.inf
    rose = np.flatnonzero(law.rises(paces, 100))
    assert rose[0] > 0
    assert rose[-1] < 80
    assert not Particles.pair(0.815, 0.5).rises(paces, 100).any()


@pytest.mark.parametrize(("correlation", "frequency"), PAIRS)
def test_rises_are_those_of_the_steps(correlation: float, frequency: float) -> None:
    law, paces = Particles.pair(correlation, frequency), np.geomspace(1, 500, 40)
    for pace, said in zip(paces, law.rises(paces, 60), strict=True):
        losses = np.array([law.loss(m) for m in stepped(law, pace, 60)])
        assert said == (np.diff(losses) > 1e-9 * losses[:-1]).any()
        assert not (said and pace <= law.safe_pace)
        assert said or pace < law.rising_pace


@pytest.mark.parametrize(("correlation", "frequency"), PAIRS)
def test_the_time_of_the_flow_is_the_limit_of_small_steps(correlation: float, frequency: float) -> None:
    law = Particles.pair(correlation, frequency)
    pace = law.flow_time / 2000
    right = (stepped(law, pace, 2100) > 0).all(axis=1)
    assert right.argmax() == pytest.approx(2000, abs=4)


@pytest.mark.parametrize(("correlation", "frequency"), PAIRS)
def test_a_perceptron_is_the_limit_of_large_steps(correlation: float, frequency: float) -> None:
    law = Particles.pair(correlation, frequency)
    assert (stepped(law, 1e6, 50) > 0).all(axis=1).argmax() == law.perceptron_steps


def test_what_cannot_be_right_never_is() -> None:
    law = Particles(np.array([0.6, 0.4]), np.array([[1.0, -1.0], [-1.0, 1.0]]))
    assert law.perceptron_steps is None


@pytest.mark.parametrize("M", [2, 3, 10])
@pytest.mark.parametrize("pace", [0.01, 0.5, 2.56, 30.0, 5000.0])
def test_margins_stay_between_their_bounds(M: int, pace: float) -> None:
    m, steps = [0.0], 3000
    for _ in range(steps):
        m.append(m[-1] + pace / (np.exp(min(m[-1], 700.0)) + M - 1))
    low, high = margin_bounds(pace, M, np.arange(steps + 1.0))
    found = np.array(m)
    assert (found >= low * (1 - 1e-12)).all()
    assert (found <= high * (1 + 1e-12)).all()
    assert found[1] == pytest.approx(high[1]) == pytest.approx(pace / M)
    if pace < 3:  # small steps are the flow, and a logarithm comes soon
        assert high[-1] - low[-1] < 0.7
        assert abs(found[-1] - low[-1]) < 0.06


def test_heights_and_margins_are_inverse() -> None:
    m = np.linspace(0, 600, 50)
    for M in (2, 5, 100):
        np.testing.assert_allclose(of_height(height(m, M), M), m, rtol=1e-12, atol=1e-12)

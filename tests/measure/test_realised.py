"""The scheme that a trained W realised: known schemes come back, and so does p from one step on the population."""

import numpy as np
import pytest

from facthold.measure.realised import error_of, realised
from facthold.memory.schemes import HeavyTailed

DATA = HeavyTailed(N=30, M=5, alpha=1.5)
F = DATA.f((0, 0))


def embeddings(d: int, n_outputs: int = 5) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(d)
    return draw.standard_normal((30, d)) / d**0.5, draw.standard_normal((n_outputs, d)) / d**0.5


@pytest.mark.parametrize("d", [12, 16, 24, 30, 60])
def test_a_known_scheme_comes_back_from_its_W(d: int) -> None:
    E, U = embeddings(d)
    for q in (DATA.p, np.ones(30), np.random.default_rng(0).standard_normal(30)):
        W = (U[F] * q[:, None]).T @ E
        np.testing.assert_allclose(realised(E @ W.T @ U.T, E @ E.T, U @ U.T, F), q, atol=1e-6)


@pytest.mark.parametrize("d", [12, 16, 24, 30, 60])
def test_one_step_on_the_population_is_the_scheme_p(d: int) -> None:
    E, U = embeddings(d)
    W = ((np.eye(5)[F] - 1 / 5) * DATA.p[:, None] @ U).T @ E  # minus the gradient at zero
    np.testing.assert_allclose(realised(E @ W.T @ U.T, E @ E.T, U @ U.T, F), DATA.p, atol=1e-6)


def test_runs_are_read_one_by_one() -> None:
    E, U = embeddings(40)
    W = np.random.default_rng(2).standard_normal((2, 3, 40, 40))
    scores = np.einsum("zj,abij,mi->abzm", E, W, U)
    together = realised(scores, E @ E.T, U @ U.T, F)
    assert together.shape == (2, 3, 30)
    np.testing.assert_allclose(together[1, 2], realised(scores[1, 2], E @ E.T, U @ U.T, F))


def test_where_it_is_not_unique_there_is_no_scheme() -> None:
    E, U = embeddings(6)  # 30 weights and 6 numbers of what all outputs share, in 5 x 6 dimensions
    assert np.isnan(realised(np.zeros((30, 5)), E @ E.T, U @ U.T, F)).all()
    with pytest.raises(ValueError, match="one output"):
        realised(np.zeros((30, 1)), E @ E.T, U[:1] @ U[:1].T, np.zeros(30, int))


def test_the_error_is_the_probability_of_what_is_wrong() -> None:
    p, f = np.array([0.5, 0.3, 0.2]), np.array([0, 1, 0])
    right = np.array([[2.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    assert error_of(right, f, p) == 0
    assert error_of(right[:, ::-1], f, p) == pytest.approx(1)
    for odd in (1.0, np.nan, np.inf):  # a tie, no number, and one that wins by not being finite
        scores = right.copy()
        scores[1] = (1.0, odd) if odd == 1.0 else (0.0, odd)
        assert error_of(scores, f, p) == pytest.approx(0.3)
    assert error_of(np.stack([right, right[:, ::-1]]), f, p).shape == (2,)

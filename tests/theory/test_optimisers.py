"""The scheme of SGD on orthogonal embeddings, against steps of W that are really made."""

import numpy as np
import pytest

from facthold.memory.schemes import HeavyTailed
from facthold.theory.optimisers import MOST, after_seen, grown, mean_scheme, power


@pytest.mark.parametrize("lr", [0.3, 5.0])
def test_a_token_alone_grows_as_stated(lr: float) -> None:
    M, L = 4, np.zeros(4)  # its scores, with orthonormal outputs
    found = after_seen(6, lr, M)
    for q in found:
        assert L[0] - L[1:].mean() == pytest.approx(q)
        P = np.exp(L) / np.exp(L).sum()
        L = L + lr * (np.eye(M)[0] - P)
    assert found[1] == pytest.approx(lr)  # the first step gives the share in the batch
    assert grown(0.0, 0.25, lr, M) == pytest.approx(lr / 4)


def test_large_steps_give_all_that_was_seen_the_same() -> None:
    p = HeavyTailed(40, 5, 2.0).p
    q = mean_scheme(p, 2000, 20.0, 5)
    np.testing.assert_allclose(q, 20 * (1 - (1 - p) ** 2000), rtol=1e-3)
    small = mean_scheme(p, 2000, 1e-6, 5)
    np.testing.assert_allclose(small, 1e-6 * 2000 * p, rtol=1e-2)


def test_the_power_of_p() -> None:
    p = HeavyTailed(20, 5, 1.5).p
    np.testing.assert_allclose(power(np.stack([p, np.ones(20), 3 * p**0.4]), p), [1, 0, 0.4], atol=1e-12)
    assert np.isnan(power(np.where(np.arange(20) == 3, -1.0, p), p))
    with pytest.raises(ValueError, match="sightings"):
        after_seen(MOST + 1, 1.0, 5)


def test_the_mean_is_over_all_numbers_of_sightings() -> None:
    p, n, lr = np.array([0.3, 0.01, 0.001]), 200, 2.0
    draws = np.random.default_rng(0).binomial(n, p[:, None], (3, 200_000))
    q = np.array(after_seen(n, lr, 5))[draws]
    assert np.all(np.abs(mean_scheme(p, n, lr, 5) - q.mean(axis=1)) < 4 * q.std(axis=1) / 200_000**0.5)

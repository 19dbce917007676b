"""The expected error of memory schemes, against embeddings that are really drawn, and in its limits."""

import numpy as np
import pytest

from facthold.measure.schemes import scheme_errors
from facthold.memory.schemes import HeavyTailed
from facthold.theory.schemes import best_first, expected_error, expected_errors, exponents, unseen


@pytest.mark.parametrize("d", [6, 16, 48])
def test_the_expected_error_is_the_mean_of_what_is_measured(d: int) -> None:
    """Four schemes, 2,000 draws of all embeddings: within four standard errors of both sides."""
    data = HeavyTailed(60, 5, 1.5)
    p, f = data.p, data.f((0, 0))
    q = np.stack([p, np.ones(60), (np.arange(60) < 9).astype(float), np.arange(60) % 7 / 3.0])
    found = np.stack([
        scheme_errors(q, p, f, 5, d, embeddings="gaussian", inputs=(d, i), outputs=(d, 5000 + i)).sum(axis=1)
        for i in range(2000)
    ])  # fmt: skip
    for k in range(len(q)):
        exact = np.array([expected_error(p, q[k], f, 5, d, draws=1 << 12, seed=seed) for seed in range(8)])
        error = np.hypot(found[:, k].std(ddof=1) / 2000**0.5, exact.std(ddof=1) / 8**0.5)
        assert abs(found[:, k].mean() - exact.mean()) < 4 * error, (d, k)


def test_a_token_that_is_not_held_is_guessed() -> None:
    """Its scores are noise alone; with as much of every output in W each is as likely as any other."""
    q = np.append(np.ones(50), 0.0)
    f = np.append(np.arange(50) % 5, 2)
    wrong = expected_errors(q, f, 5, 200, draws=1 << 14)[-1]
    assert wrong == pytest.approx(0.8, abs=0.01)


def test_a_memory_with_room_forgets_nothing() -> None:
    p = HeavyTailed(20, 5, 2.0).p
    assert expected_error(p, np.ones(20), np.arange(20) % 5, 5, 4000) < 1e-6
    assert expected_error(p, np.ones(20), np.zeros(20, int), 1, 4) == 0


def test_interpolation_between_values_of_q() -> None:
    """Of many values some nodes are enough: as all of them, one by one."""
    data = HeavyTailed(2000, 2, 1.2)
    q, f = data.p, data.f((0, 0))
    some = expected_errors(q, f, 2, 32, draws=512)
    alone = [0, 1, 2, 9, 50, 333, 1998, 1999]
    from facthold.theory import schemes

    nodes, schemes.NODES = schemes.NODES, 10_000
    try:
        every = expected_errors(q, f, 2, 32, draws=512)
    finally:
        schemes.NODES = nodes
    np.testing.assert_allclose(some[alone], every[alone], atol=2e-4)


def test_the_best_number_of_tokens_has_the_least_error() -> None:
    data = HeavyTailed(500, 5, 2.0)
    p, f = data.p, data.f((0, 0))
    best = best_first(p, f, 5, 64)
    errors = {k: expected_error(p, (np.arange(500) < k).astype(float), f, 5, 64) for k in (best // 2, best, 2 * best)}
    assert min(errors, key=lambda k: errors[k]) == best


def test_what_was_not_seen() -> None:
    p = HeavyTailed(40, 2, 1.0).p
    counts = np.stack([HeavyTailed(40, 2, 1.0).counts(30, (1, i)) for i in range(4000)])
    left = (p * (counts == 0)).sum(axis=1)
    assert abs(left.mean() - unseen(p, 30)) < 4 * left.std() / 4000**0.5
    assert unseen(p, 0) == pytest.approx(1)
    assert unseen(np.ones(1), 5) == 0


def test_laws_need_a_tail_that_can_be_summed() -> None:
    assert exponents(2.0) == {"n": -0.5, "p": -0.25, "first": -1.0}
    with pytest.raises(ValueError, match="take alpha above 1"):
        exponents(1.0)
    with pytest.raises(ValueError, match="take d >= M"):
        expected_errors(np.ones(4), np.arange(4), 4, 3)

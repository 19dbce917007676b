"""The expected error of memory schemes, against embeddings that are really drawn, and in its limits."""

import tracemalloc

import numpy as np
import pytest

from facthold.measure.schemes import scheme_errors
from facthold.memory.schemes import HeavyTailed
from facthold.theory import schemes
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


@pytest.mark.parametrize(("N", "M", "d"), [(60, 40, 24), (60, 60, 3), (40, 200, 30)])
def test_many_outputs_or_few_dimensions(N: int, M: int, d: int) -> None:
    """Where no Gram matrix of the outputs is drawn: all schemes, within four standard errors of what is measured."""
    data = HeavyTailed(N, M, 1.5)
    p, f = data.p, data.f((0, 0))
    q = np.stack([p, np.ones(N), (np.arange(N) < 9).astype(float), np.arange(N) % 7 / 3.0])
    found = np.stack([
        scheme_errors(q, p, f, M, d, embeddings="gaussian", inputs=(d, i), outputs=(d, 5000 + i)).sum(axis=1)
        for i in range(1000)
    ])  # fmt: skip
    for k in range(len(q)):
        exact = np.array([expected_error(p, q[k], f, M, d, draws=1 << 12, seed=seed) for seed in range(8)])
        each = np.array([p @ expected_errors(q[k], f, M, d, draws=1 << 12, seed=10 + seed) for seed in range(8)])
        for mean in (exact, each):
            error = np.hypot(found[:, k].std(ddof=1) / 1000**0.5, mean.std(ddof=1) / 8**0.5)
            assert abs(found[:, k].mean() - mean.mean()) < 4 * error, k


def test_both_ways_to_the_expected_error_agree_token_by_token(monkeypatch: pytest.MonkeyPatch) -> None:
    data = HeavyTailed(30, 5, 1.5)
    p, f = data.p, data.f((0, 0))
    few = np.stack([expected_errors(p, f, 5, 16, seed=seed) for seed in range(8)])
    monkeypatch.setattr(schemes, "FEW", 0)
    many = np.stack([expected_errors(p, f, 5, 16, draws=1 << 15, seed=seed) for seed in range(8)])
    off = np.abs(few.mean(axis=0) - many.mean(axis=0))
    assert (off < 5 * np.hypot(few.std(axis=0, ddof=1), many.std(axis=0, ddof=1)) / 8**0.5).all()


def test_many_tokens_and_outputs_in_bounded_memory() -> None:
    """N = M = 100,000: a matrix of N x M numbers would take 80 GB, one of M x d 51 MB; of what W holds nothing but
    numbers for each token and each output is there."""
    data = HeavyTailed(100_000, 100_000, 2.0)
    p, f = data.p, data.f((0, 0))
    tracemalloc.start()
    error = expected_error(p, p, f, 100_000, 64, draws=16)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0 < error < 1
    assert peak < 40 * 8 * 100_000


def test_what_holds_nothing_recalls_nothing() -> None:
    for M in (5, 40):
        assert expected_error(np.full(4, 0.25), np.zeros(4), np.arange(4), M, 8) == 1
    assert expected_error(np.ones(1), np.zeros(1), np.zeros(1, int), 1, 8) == 0

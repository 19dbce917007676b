"""Counts of samples that one step needs, against every outcome that there is."""

import itertools

import pytest

from facthold.theory.samples import between, recall_after, samples_needed, shared

READERS = ("feed-forward", "attention", "attention to all")


def by_outcomes(n: int, alpha: float, N: int, shares: tuple[float, ...]) -> float:
    """All labels of n samples, and what each of them counts."""
    total = 0.0
    for labels in itertools.product(range(N), repeat=n):
        p_labels = 1.0
        for label in labels:
            p_labels *= alpha if label == 0 else (1 - alpha) / (N - 1)
        for counts in itertools.product(range(len(shares)), repeat=n):
            scores, p = [0] * N, p_labels
            for label, count in zip(labels, counts, strict=True):
                scores[label] += count
                p *= shares[count]
            total += p * (scores[0] > max(scores[1:]))
    return total


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(("n", "alpha", "N", "T"), [(1, 0.5, 4, 3), (3, 0.5, 4, 3), (4, 0.3, 3, 2)])
def test_recall_is_that_of_all_outcomes(reader: str, n: int, alpha: float, N: int, T: int) -> None:
    shares = shared(reader, N, T)
    assert recall_after(n, alpha, N, shares) == pytest.approx(by_outcomes(n, alpha, N, shares), rel=1e-9)


@pytest.mark.parametrize("reader", READERS)
def test_what_a_sample_shares_is_a_distribution(reader: str) -> None:
    assert sum(shared(reader, 20, 6)) == pytest.approx(1)
    assert len(shared(reader, 20, 6)) == {"feed-forward": 2, "attention": 6, "attention to all": 7}[reader]


def test_many_tokens_leave_ties_alone() -> None:
    """With N large no other label comes twice: tau needs two samples of n."""
    for n in (2, 5, 8):
        ones = 0.5**n * (n + 1)
        assert recall_after(n, 0.5, 10**7, shared("feed-forward", 10**7, 5)) == pytest.approx(1 - ones, abs=1e-5)


def test_attention_needs_samples_in_proportion_to_the_vocabulary() -> None:
    few, many = (samples_needed(0.95, 0.5, N, shared("attention", N, 5)) for N in (4096, 8192))
    assert many / few == pytest.approx(2, rel=0.01)
    few, many = (samples_needed(0.95, 0.5, 10_000, shared("attention", 10_000, T)) for T in (11, 6))
    assert many / few == pytest.approx(4, rel=0.03)
    for reader in ("feed-forward", "attention to all"):
        few, many = (samples_needed(0.95, 0.5, N, shared(reader, N, 5)) for N in (10**4, 10**6))
        assert many == pytest.approx(few, rel=0.01)


def test_between_is_a_line_in_the_logarithm() -> None:
    assert between((10, 0.9), (40, 1.0), 0.95) == pytest.approx(20)
    assert between((10, 0.9), (40, 0.95), 0.95) == pytest.approx(40)

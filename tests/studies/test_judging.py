"""What claims share: points by seed, laws without free constants, and intervals that a noisier measurement widens."""

from statistics import fmean

import numpy as np
import pytest

from facthold.lab.claim import MEANINGS
from facthold.measure.scaling import fit_constant, fit_exponent
from facthold.studies import judging
from facthold.studies.judging import (
    by_seed,
    drifting,
    judge_constant,
    judge_exponent,
    judge_law,
    judge_mean,
    judge_means,
    mean_and_error,
    not_found,
)

Row = dict[str, object]


def row(d: int, *stored: float, status: str = "found") -> Row:
    seeds = [{"seed": i, "status": status, "stored": N, "refused": N + 2} for i, N in enumerate(stored)]
    return {"d": d, "m": 0, "N": fmean(stored), "status": status, "per_seed": seeds}


def law(r) -> float:
    return float(r["d"])


def test_every_seed_is_a_point() -> None:
    rows = [row(4, 3, 5), row(8, 7, 9)]
    assert [r["N"] for r in by_seed(rows)] == [3, 5, 7, 9]
    assert [r["N"] for r in by_seed(rows, between=True)] == [4, 6, 8, 10]
    assert [r["d"] for r in by_seed(rows)] == [4, 4, 8, 8]


def test_a_ceiling_of_one_seed_is_no_capacity() -> None:
    points = by_seed([row(4, 3, 5), row(8, 7, 9, status="search ceiling")])
    assert [r["N"] for r in points] == [3, 5, None, None]
    assert "search ceiling at d=8" in str(not_found(points))
    assert judge_law("N as d", points, law).verdict == "fails"


def around(d: int, factor: float = 1.0, power: float = 1.0, spread: float = 0.01) -> Row:
    N = factor * 64 * (d / 64) ** power
    return row(d, *(N * np.exp(spread * s) for s in (-1.2, -0.4, 0.4, 1.2)))


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        ({}, "holds"),
        ({"factor": 0.1}, "fails"),
        ({"factor": 3.0}, "fails"),
        ({"factor": 1.05, "spread": 0.001}, "drifts"),
        ({"power": 1.03, "spread": 0.001}, "drifts"),
        ({"power": 0.9}, "fails"),
        ({"power": 1.2}, "fails"),
        ({"spread": 1.0}, "not decided"),
    ],
)
def test_a_law_is_judged_on_exponent_and_constant(options: dict[str, float], verdict: str) -> None:
    judged = judge_law("N as d", by_seed([around(d, **options) for d in (32, 64, 128)]), law)
    assert judged.verdict == verdict, judged
    assert "within 0.05" in judged.predicted
    assert "within 10%" in judged.predicted


@pytest.mark.parametrize("options", [{}, {"factor": 0.5}, {"factor": 1.05}, {"power": 1.03}, {"power": 0.7}])
def test_more_noise_never_passes_more_easily(options: dict[str, float]) -> None:
    """From one spread to the next the verdict may leave 'fails' for 'not decided', and never reaches what holds.
    ('drifts' may become 'holds' while the interval stays within the tolerance: it then contains what is stated.)"""
    passes = [
        judge_law("N as d", by_seed([around(d, **options, spread=s) for d in (32, 64, 128)]), law).verdict
        in ("holds", "drifts")
        for s in (0.001, 0.01, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
    ]
    assert passes == sorted(passes, reverse=True)


def test_a_constant_is_judged_by_its_interval() -> None:
    rows = [{"x": x, "y": 1.3 * x * f} for x in (1.0, 2.0, 4.0) for f in (0.99, 1.01)]
    judge = lambda stated: judge_constant(rows, lambda r: r["x"], lambda r: r["y"], stated, 0.25, "c")  # noqa: E731
    assert judge(1.3).holds
    assert judge(1.2).verdict == "drifts"
    assert judge(0.9).verdict == "fails"
    assert judge(1.04).verdict == "not decided"


def test_drift_is_told_from_the_means_at_both_ends() -> None:
    points = by_seed([row(10, 9, 11), row(20, 19, 21), row(40, 30, 34)])
    drift, then = drifting(points, law, lambda r: r["N"], fit_exponent("N", [10, 20, 40], [10, 20, 32]))
    assert drift == "measured / law 1 at 10 to 0.8 at 40"
    assert then.startswith("at 80: 64 by the law")


def test_means_have_intervals_that_hold_for_all_of_them() -> None:
    mean, error = mean_and_error([1.0, 2.0, 3.0, 4.0])
    assert (mean, error) == (2.5, pytest.approx(np.std([1, 2, 3, 4], ddof=1) / 2))
    assert judging.around(*mean_and_error([2.0]), 1) == (-np.inf, np.inf)  # of one value nobody knows how sure it is
    assert judging.around(mean, error, 1) == pytest.approx((mean - 1.96 * error, mean + 1.96 * error), rel=1e-4)
    draws = np.random.default_rng(0).standard_normal((4000, 8))
    inside = np.abs(draws) <= judging.around(0.0, 1.0, 8)[1]
    assert 0.94 < inside.all(axis=1).mean() < 0.965


def test_an_exact_mean_needs_its_tolerance() -> None:
    assert judge_mean("x", (1.001, 0.001), 1.0, 0.05, 1).verdict == "holds"
    assert judge_mean("x", (1.01, 0.001), 1.0, 0.05, 1).verdict == "drifts"
    assert judge_mean("x", (1.01, 0.1), 1.0, 0.05, 1).verdict == "not decided"
    assert judge_mean("x", (1.2, 0.001), 1.0, 0.05, 1).verdict == "fails"


def test_of_several_means_those_that_are_off_are_named() -> None:
    found = [("a", (1.0, 0.01), 1.0, 0.1), ("b", (1.035, 0.01), 1.0, 0.1)]
    judged = judge_means("all are 1", found)
    assert (judged.verdict, judged.drift) == ("drifts", "1.035 for 1 at b")
    assert judge_means("all are 1", [found[0], ("b", (1.021, 0.01), 1.0, 0.1)]).verdict == "holds"  # by 2.2 for two
    assert judge_means("one is 1", [("b", (1.021, 0.01), 1.0, 0.1)]).verdict == "drifts"


def test_an_exponent_without_three_sizes_is_refused() -> None:
    with pytest.raises(ValueError, match="three different sizes"):
        judge_exponent("N as d", by_seed([around(32), around(64)]), law)
    assert set(MEANINGS) >= {"holds", "drifts", "not decided", "fails"}


def test_points_that_share_a_draw_count_once() -> None:
    """One draw copied eight times says no more than itself; draws of their own as much as without a name."""
    rng = np.random.default_rng(0)
    x = np.array([10.0, 20.0, 40.0, 80.0])
    scatter = np.exp(0.1 * rng.standard_normal((12, 4)))
    alone, copied = (x * scatter).ravel(), np.repeat((x * scatter), 8, axis=0).ravel()
    names, many = np.repeat(np.arange(12), 4), np.repeat(np.arange(12), 32)
    for fit in (fit_exponent, fit_constant):
        once = fit("once", np.tile(x, 12), alone, shared=list(names))
        again = fit("again", np.tile(x, 96), copied, shared=list(many))
        assert again.interval == pytest.approx(once.interval, rel=1e-6)
        blind = fit("blind", np.tile(x, 96), copied)
        assert np.diff(blind.interval) < 0.5 * np.diff(again.interval)
        assert np.isinf(fit("one", x, x * scatter[0], shared=[0] * 4).interval[1])

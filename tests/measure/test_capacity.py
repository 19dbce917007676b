"""The capacity search against known thresholds, and fits against known laws."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
from scipy import stats

from facthold.measure.capacity import Probe, Search, find_capacity, summary
from facthold.measure.scaling import fit_constant, fit_exponent, fit_line, mean_interval, share_interval
from facthold.models.memory import LinearMemory
from facthold.recipes import make_memory, memory_recipe
from facthold.studies.memories.capacity import Capacity as Cell


def oracle(thresholds: Mapping[int, float]) -> Callable[[Sequence[tuple[int, int]]], list[Probe]]:
    """A method that stores exactly the N up to a seed's threshold."""
    return lambda asked: [
        Probe(N, seed, 1.0 if thresholds[seed] >= N else 0.5, thresholds[seed] >= N) for N, seed in asked
    ]


@pytest.mark.parametrize("guess", [2, 30, 100, 900, 5000])
def test_the_search_finds_the_threshold_from_any_guess(guess: int) -> None:
    thresholds = {0: 97, 1: 101, 2: 333}
    found = find_capacity(oracle(thresholds), [0, 1, 2], guess, Search(2, 10_000, tolerance=0.0))
    assert [c.N for c in found] == [97, 101, 333]
    assert all(c.refused == c.stored + 1 for c in found)


def test_the_tolerance_is_kept_and_all_probes_too() -> None:
    (found,) = find_capacity(oracle({0: 1000}), [0], 300, Search(2, 100_000, tolerance=0.05))
    assert found.stored <= 1000 < found.refused <= 1.05 * found.stored
    assert {p.N for p in found.probes} >= {found.stored, found.refused}


def test_a_ceiling_is_never_a_capacity() -> None:
    found = find_capacity(oracle({0: 10**9, 1: 50}), [0, 1], 40, Search(2, 64, tolerance=0.0))
    assert (found[0].status, found[0].N, found[0].stored) == ("search ceiling", None, 64)
    assert (found[1].status, found[1].N) == ("found", 50)
    mixed = summary(found)
    assert mixed["N"] is None  # a mean that leaves out the larger seeds would be too small
    assert mixed["status"] == "search ceiling"


def test_a_floor_and_a_failure_are_values() -> None:
    (floor,) = find_capacity(oracle({0: 0}), [0], 40, Search(2, 64))
    assert (floor.status, floor.N) == ("search floor", None)
    (failed,) = find_capacity(lambda asked: [Probe(N, s, math.nan, False) for N, s in asked], [0], 40, Search(2, 64))
    assert (failed.status, failed.N) == ("failed", None)


def test_a_noisy_answer_does_not_trap_the_search() -> None:
    """Stored at 60, refused at 50: the bracket only ever narrows."""
    rng = np.random.default_rng(0)
    noisy = lambda asked: [Probe(N, s, 0.0, bool(rng.random() < 0.5)) for N, s in asked]  # noqa: E731
    for _ in range(50):
        (found,) = find_capacity(noisy, [0], 100, Search(2, 10_000))
        assert len(found.probes) < 60


@pytest.mark.parametrize(("floor", "ceiling"), [(0, 10), (5, 4)])
def test_wrong_searches_are_refused(floor: int, ceiling: int) -> None:
    with pytest.raises(ValueError, match="1 <= floor <= ceiling"):
        Search(floor, ceiling)


def numpy_recall(cell: Cell, N: int, seed: int) -> float:
    """The share of N associations that a linear memory of this cell gets right: arg max of E W^T U^T, in float64."""
    problem = cell.problem(N, seed)
    memory = make_memory(memory_recipe(cell.method), problem, cell.m, seed)
    assert isinstance(memory, LinearMemory)
    E, U, W = (np.asarray(a, np.float64) for a in (problem.E, problem.U, memory.W))
    return float(((E @ W.T @ U.T).argmax(axis=1) == np.asarray(problem.f)).mean())


def test_the_cell_of_a_construction_agrees_with_a_scan_over_every_N() -> None:
    """The found N is stored, its neighbour is not, and every probe saw the recall computed one N at a time."""
    cell = Cell(method="outer-product", d=24, seeds=(0, 1), tolerance=0.0)
    result = cell.run()
    assert result["status"] == "found"
    for seed, found in zip(cell.seeds, result["per_seed"], strict=True):
        stored, refused, probes = found["stored"], found["refused"], found["probes"]
        assert found["seed"] == seed
        assert refused == stored + 1
        scan = {N: numpy_recall(cell, N, seed) for N in range(2, max(p["N"] for p in probes) + 1)}
        assert scan[stored] >= cell.goal > scan[refused]
        for probe in probes:
            assert probe["accuracy"] == pytest.approx(scan[probe["N"]], abs=1e-6)
            assert probe["stored"] == (scan[probe["N"]] >= cell.goal)
    assert result == cell.run()


def test_problems_of_one_seed_are_nested() -> None:
    cell = Cell(method="outer-product", d=8)
    small, large = cell.problem(10, seed=3), cell.problem(25, seed=3)
    np.testing.assert_array_equal(small.E, large.E[:10])
    np.testing.assert_array_equal(small.U, large.U[:10])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"d": 0}, "d=0"),
        ({"d": 8, "m": 4}, "takes no m"),
        ({"method": "low-rank", "d": 8, "m": 16}, "m=16 is above d=8"),
        ({"method": "convex-readout", "d": 8}, "convex-readout has a width to choose: give m"),
        ({"d": 8, "map": "idendity"}, "did you mean 'identity'"),
        ({"d": 8, "embeddings": "ball"}, "unknown embeddings"),
        ({"d": 8, "goal": 1.5}, "goal=1.5"),
        ({"d": 8, "seeds": ()}, "seeds is empty"),
        ({"d": 8, "method": "outerproduct"}, "did you mean 'outer-product'"),
    ],
)
def test_wrong_cells_are_refused(fields: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Cell(**({"method": "outer-product"} | fields))


def test_exponent_and_constant_of_a_known_law() -> None:
    x = np.array([10.0, 20, 40, 80])
    fit = fit_exponent("known", x, 3 * x**1.5)
    assert fit.slope == pytest.approx(1.5)
    assert fit.constant == pytest.approx(3)
    assert fit.interval == pytest.approx((1.5, 1.5))
    assert fit_constant("known", x, 0.35 * x).constant == pytest.approx(0.35)


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    """95% intervals of noisy fits: among 400, the share that covers lies within 4 standard errors of 95%."""
    rng, x = np.random.default_rng(1), np.geomspace(1, 100, 8)
    covered = [
        low <= 1.0 <= high
        for low, high in (
            fit_exponent("noisy", x, x * np.exp(0.1 * rng.standard_normal(8))).interval for _ in range(400)
        )
    ]
    assert abs(np.mean(covered) - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 400)


@pytest.mark.parametrize("y", [[1.0, 2.0], [1.0, -2.0, 3.0]])
def test_fits_refuse_what_is_no_law(y: list[float]) -> None:
    with pytest.raises(ValueError, match="bad law"):
        fit_exponent("bad law", [1.0, 2.0, 3.0][: len(y)], y)


def test_the_interval_of_a_mean() -> None:
    """Student's t for three values is 4.303; one value says nothing."""
    low, high = mean_interval([1.0, 2.0, 3.0])
    assert (low, high) == pytest.approx((2 - 4.303 / 3**0.5, 2 + 4.303 / 3**0.5), abs=1e-3)
    assert mean_interval([5.0]) == (-math.inf, math.inf)
    drawn = np.random.default_rng(0).normal(size=(2000, 4)).tolist()
    covered = [low <= 0 <= high for low, high in map(mean_interval, drawn)]
    assert abs(np.mean(covered) - 0.95) < 4 * (0.95 * 0.05 / 2000) ** 0.5


@pytest.mark.parametrize(("hits", "n"), [(0, 10), (10, 10), (3, 7), (109, 110)])
def test_the_interval_of_a_share_leaves_a_fortieth_on_each_side(hits: int, n: int) -> None:
    """At its ends, so many hits or more, or so few or fewer, have that chance; none and all have one end alone."""
    low, high = share_interval(hits, n)
    chance = lambda p, counts: sum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in counts)  # noqa: E731
    assert low == 0 if hits == 0 else chance(low, range(hits, n + 1)) == pytest.approx(0.025)
    assert high == 1 if hits == n else chance(high, range(hits + 1)) == pytest.approx(0.025)


def test_groups_share_a_slope_and_have_constants_of_their_own() -> None:
    """As many noisy points at two sizes of two groups, of which the larger one has less: alone they would seem to fall.
    Against least squares with a column for each group."""
    rng, groups = np.random.default_rng(3), ["small"] * 6 + ["large"] * 6
    x = np.array([1.0, 4.0] * 3 + [16.0, 64.0] * 3)
    y = np.where(np.array(groups) == "small", 100.0, 0.1) * x**0.9 * np.exp(0.1 * rng.standard_normal(12))
    fit = fit_exponent("two", x, y, groups)
    design = np.stack([np.log(x), np.array(groups) == "small", np.array(groups) == "large"], axis=1)
    solution, (left,), *_ = np.linalg.lstsq(design.astype(float), np.log(y))
    half = stats.t.ppf(0.975, 12 - 3) * math.sqrt(left / 9 * np.linalg.inv(design.T.astype(float) @ design)[0, 0])
    assert fit.slope == pytest.approx(solution[0])
    assert fit.interval == pytest.approx((solution[0] - half, solution[0] + half))
    assert fit_exponent("one", x, y).slope < 0 < 0.7 < fit.interval[0] < 0.9 < fit.interval[1] < 1.1
    with pytest.raises(ValueError, match="too few points"):
        fit_exponent("each alone", x[[0, 6]], y[[0, 6]], ["small", "large"])


def test_the_slope_of_a_line_is_that_of_least_squares() -> None:
    rng, x = np.random.default_rng(4), np.arange(9.0)
    y = 5 - 2 * x + rng.standard_normal(9)
    slope, (low, high) = fit_line("line", list(x), list(y))
    wanted = stats.linregress(x, y)
    assert slope == pytest.approx(wanted.slope)
    assert high - slope == pytest.approx(slope - low) == pytest.approx(stats.t.ppf(0.975, 7) * wanted.stderr)

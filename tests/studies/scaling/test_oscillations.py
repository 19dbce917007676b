"""Imbalance and small capacity: each judge on rows that follow the theory, and on others; config; pictures."""

from typing import Any

import numpy as np
import pytest

from facthold._util.errors import FactholdError
from facthold.lab.registry import figure
from facthold.studies.scaling.oscillation_cells import (
    PACE,
    CrowdedPlane,
    OrthogonalMargins,
    PairPaths,
    PairRuns,
    frequencies_of,
    looked_at,
    pair_embeddings,
)
from facthold.studies.scaling.oscillation_claims import (
    FINE,
    STEP_SIZES,
    drawn,
    each_pair,
    judge_margins,
    judge_rising,
)
from facthold.studies.scaling.oscillation_panels import thresholds
from facthold.studies.scaling.success_claims import SMALL, judge_forgetting, judge_sooner
from facthold.theory.imbalance import Particles

Row = dict[str, Any]


def row(cell: Any, **result: Any) -> Row:
    return {"kind": cell.kind, **cell.spec, **result}


def margins_row(N: int = 4, M: int = 4, steps: int = 20_000, factor: float = 1.0) -> Row:
    """By the recursion of one margin, at another pace than it should have."""
    times, found = looked_at(steps), []
    for eta in STEP_SIZES:
        m, kept = np.zeros(N), []
        for t in range(steps + 1):
            if t in times:
                kept.append(m)
            m = m + factor * eta * frequencies_of(N) * M / (np.exp(m) + M - 1)
        found.append(np.array(kept).tolist())
    cell = OrthogonalMargins(N=N, M=M, step_sizes=STEP_SIZES, steps=steps)
    return row(cell, times=times.tolist(), margins=found)


@pytest.fixture(scope="module")
def margins() -> Row:
    return margins_row()


def test_margins_between_the_bounds_hold(margins: Row) -> None:
    found = judge_margins([margins])
    assert found.verdict == "holds", found
    assert "0 of" in found.measured


@pytest.mark.parametrize("factor", [0.9, 1.2])
def test_margins_at_another_pace_fail(factor: float) -> None:
    assert judge_margins([margins_row(factor=factor)]).verdict == "fails"


def test_margins_that_grow_otherwise_fail(margins: Row) -> None:
    powers = [(np.array(m) ** 1.1).tolist() for m in margins["margins"]]
    assert judge_margins([margins | {"margins": powers}]).verdict == "fails"
    lost = [np.full_like(np.array(m), np.nan).tolist() for m in margins["margins"]]
    assert judge_margins([margins | {"margins": lost}]).verdict == "fails"


def test_few_steps_decide_nothing() -> None:
    assert judge_margins([margins_row(steps=2)]).verdict == "not decided"


def pairs_row(pairs: dict[str, Any], step_sizes: tuple[float, ...], steps: int, factor: float = 1.0) -> Row:
    """By the recursion of two margins, with steps that are so much larger than they should be."""
    names = ("first_right", "last_wrong", "first_rise", "last_rise", "rises", "last_loss")
    found: dict[str, list] = {name: [] for name in names}
    for c, f in zip(pairs["correlations"], pairs["frequencies"], strict=True):
        law, own = Particles.pair(c, f), []
        paces = factor * PACE * np.array(step_sizes)
        path = [np.zeros((len(paces), 2))]
        for _ in range(steps):
            m = path[-1]
            path.append(m + paces[:, None] * (law.p / (1 + np.exp(np.minimum(m, 700)))) @ law.G)
        m = np.array(path)
        loss, right = np.logaddexp(0, -m) @ law.p, (m > 0).all(axis=2)
        rose = loss[1:] > loss[:-1] * (1 + 1e-9)
        for k in range(len(paces)):
            at, wrong = 1 + np.flatnonzero(rose[:, k]), np.flatnonzero(~right[:, k])
            first = int(right[:, k].argmax()) if right[:, k].any() else -1
            ends = (int(at[0]), int(at[-1])) if len(at) else (-1, -1)
            own.append((first, int(wrong[-1]), *ends, len(at), float(loss[-1, k])))
        for name, values in zip(names, zip(*own, strict=True), strict=True):
            found[name].append(list(values))
    return row(PairRuns(**pairs, step_sizes=step_sizes, steps=steps), **found)


PAIRS = drawn(5, 30, (-0.9, 0.96), (0.5, 0.95))


@pytest.fixture(scope="module")
def runs() -> Row:
    return pairs_row(PAIRS, FINE, 100)


def test_rises_where_theory_has_them_hold(runs: Row) -> None:
    found = judge_rising([runs])
    assert found.verdict == "holds", found
    assert found.measured.count(" 0 of ") == 4


@pytest.mark.parametrize("factor", [0.8, 1.25])
def test_rises_at_other_step_sizes_fail(factor: float) -> None:
    assert judge_rising([pairs_row(PAIRS, FINE, 100, factor)]).verdict == "fails"


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"rises": 0, "first_rise": -1}, "first"),  # nothing oscillates
        ({"rises": 3, "first_rise": 2}, "safe"),  # everything does, from the second step on
    ],
)
def test_rises_everywhere_or_nowhere_fail(runs: Row, change: dict[str, int], word: str) -> None:
    shape = np.array(runs["rises"]).shape
    found = judge_rising([runs | {name: np.full(shape, value).tolist() for name, value in change.items()}])
    assert found.verdict == "fails"
    (part,) = [part for part in found.measured.split("; ") if part.startswith(word)]
    assert not part.startswith(f"{word}: 0 of")


def sooner_rows(steps: int = 300) -> list[Row]:
    pairs = drawn(6, 30, (0.8, 0.95), (0.76, 0.9))
    return [pairs_row(pairs, SMALL, 2000), pairs_row(pairs, FINE, steps)]


@pytest.fixture(scope="module")
def success() -> list[Row]:
    return sooner_rows()


def changed(rows: list[Row], which: int, name: str, change: Any) -> list[Row]:
    """With one of the two rows changed, by step size."""
    table = np.array(rows[which][name], float)
    return [r | {name: change(table).tolist()} if i == which else r for i, r in enumerate(rows)]


def test_large_steps_are_sooner_where_the_recursion_has_them_so(success: list[Row]) -> None:
    found = judge_sooner(success)
    assert found.verdict in ("holds", "drifts"), found
    assert "the same number in 30 of 30 pairs" in found.measured


def test_small_steps_that_take_another_time_fail(success: list[Row]) -> None:
    assert judge_sooner(changed(success, 0, "first_right", lambda t: 1.2 * t)).verdict == "fails"


def test_large_steps_that_are_later_fail(success: list[Row]) -> None:
    rose = np.array(success[1]["rises"]) > 0
    later = changed(success, 1, "first_right", lambda t: np.where(rose, 5 * t, t))
    assert judge_sooner(later).verdict == "fails"
    as_soon = changed(
        success, 1, "first_right", lambda t: np.where(rose, np.where(rose, 1e9, t).min(axis=1)[:, None], t)
    )
    assert judge_sooner(as_soon).verdict == "fails"


def test_without_pairs_that_are_much_alike_it_is_not_decided() -> None:
    pairs = drawn(6, 5, (0.6, 0.7), (0.85, 0.9))
    assert judge_sooner([pairs_row(pairs, SMALL, 2000), pairs_row(pairs, FINE, 300)]).verdict == "not decided"


def test_what_does_not_stay_right_fails(success: list[Row]) -> None:
    assert judge_sooner(changed(success, 1, "last_wrong", lambda t: t + 5)).verdict == "fails"


def test_what_is_never_right_fails(success: list[Row]) -> None:
    assert judge_sooner(changed(success, 1, "first_right", lambda t: 0 * t - 1)).verdict == "fails"
    assert judge_sooner(success[:1]).verdict == "fails"
    assert judge_sooner(success[1:]).verdict == "fails"


def crowd_row(N: int = 30, n: int = 40, lost: float = 0.08, ends: float = 0.0, kept: float = 1.0) -> Row:
    """Half of the draws cannot be right as a whole; those end so much away from what was solved for."""
    crowded = np.arange(n) % 2 == 0
    most = np.where(crowded, 0.8 + 0.001 * np.arange(n), 1.0)
    solved = most - np.where(crowded, lost * (1 + 0.1 * np.sin(np.arange(n))), 0)
    last = np.where(crowded, solved + ends, kept)
    return row(
        CrowdedPlane(N=N, step_size=3.0, steps=100, seeds=tuple(range(n))),
        times=[0, 1, 100], separable=(~crowded).tolist(), most=most.tolist(),
        solved=[float(s) if c else None for s, c in zip(solved, crowded, strict=True)],
        masses_best=np.stack([most, most, last], axis=1).tolist(),
        masses_zero=np.stack([0 * most, last + 0.01, last], axis=1).tolist(),
        best_zero=(last + 0.01).tolist(),
    )  # fmt: skip


def test_forgetting_holds_where_the_end_is_worse_and_solved_for() -> None:
    found = judge_forgetting([crowd_row(), crowd_row(N=3)])
    assert found.verdict == "holds", found
    assert "N=30: so in 20 of 20 draws from the best memory, in 20 from zero" in found.measured
    assert "N=3: kept in 20 of 20 draws" in found.measured


@pytest.mark.parametrize("change", [{"lost": 0.0}, {"lost": -0.02}, {"ends": 0.03}, {"kept": 0.9}])
def test_forgetting_fails_otherwise(change: dict[str, float]) -> None:
    assert judge_forgetting([crowd_row(), crowd_row(**change)]).verdict == "fails"  # type: ignore[arg-type]


def test_few_draws_decide_nothing() -> None:
    row = crowd_row(n=4)
    row["masses_best"][0][-1] = row["most"][0] - 0.0001
    row["solved"][0] = row["masses_zero"][0][-1] = row["masses_best"][0][-1]
    assert judge_forgetting([row]).verdict == "not decided"


def test_pairs_come_by_rising_step_size() -> None:
    rows = [pairs_row({"correlations": (0.9,), "frequencies": (0.8,)}, (64.0, 1.0, 8.0), 50)]
    ((law, r),) = each_pair(rows)
    np.testing.assert_array_equal(r["pace"], [2.0, 16.0, 128.0])
    np.testing.assert_array_equal(r["rises"] > 0, law.rises(r["pace"], 50))
    assert thresholds(rows[0], 0.8) == {0.9: next(e for e, n in zip((1.0, 8.0, 64.0), r["rises"], strict=True) if n)}
    assert thresholds(rows[0], 0.5) == {}


def test_drawn_pairs_are_the_same_each_time_and_others_by_seed() -> None:
    assert drawn(1, 5, (0, 1), (0.5, 1)) == drawn(1, 5, (0, 1), (0.5, 1)) != drawn(2, 5, (0, 1), (0.5, 1))
    assert all(0.5 <= f <= 1 for f in drawn(1, 100, (0, 1), (0.5, 1))["frequencies"])


def test_cells_measure_what_the_recursion_has() -> None:
    """Descent on W and the recursion of two margins, all of what is noted."""
    pairs, sizes = drawn(9, 4, (-0.5, 0.95), (0.6, 0.9)), (1.0, 16.0, 128.0)
    cell = PairRuns(**pairs, step_sizes=sizes, steps=60)
    found, said = cell.run(), pairs_row(pairs, sizes, 60)
    for name in ("first_right", "last_wrong", "first_rise", "last_rise", "rises"):
        assert found[name] == said[name], name
    np.testing.assert_allclose(found["last_loss"], said["last_loss"], rtol=1e-6, atol=1e-300)


def test_paths_have_every_step() -> None:
    cell = PairPaths(correlation=0.95, frequency=0.75, step_sizes=(4.0, 16.0), steps=20)
    found, law = cell.run(), Particles.pair(0.95, 0.75)
    m = np.zeros(2)
    for t in range(21):
        np.testing.assert_allclose(found["margins"][1][t], m, rtol=1e-9, atol=1e-12)
        signed = pair_embeddings(0.95) * np.array([[1.0], [-1.0]])
        np.testing.assert_allclose(signed @ found["w"][1][t], m, rtol=1e-9, atol=1e-12)
        assert found["loss"][1][t] == pytest.approx(law.loss(m))
        m = law.moved(m, PACE * 16.0)
    assert found["sharpness"][0][0] == pytest.approx(2 * law.sharpness)
    assert found["rises"] == [0, int((np.diff(found["loss"][1]) > 0).sum())]


def test_a_crowd_starts_from_the_best_memory_and_ends_at_the_minimum() -> None:
    found = CrowdedPlane(N=5, step_size=3.0, steps=3000, seeds=tuple(range(12))).run()
    assert {*found["separable"]} == {True, False}
    for i, solved in enumerate(found["solved"]):
        assert found["masses_best"][i][0] == pytest.approx(found["most"][i])
        assert found["masses_zero"][i][0] == 0
        assert found["best_zero"][i] >= max(found["masses_zero"][i])
        if solved is not None:
            assert found["masses_best"][i][-1] == pytest.approx(solved) == pytest.approx(found["masses_zero"][i][-1])
    np.testing.assert_allclose(found["shown"]["zero"][-1], found["shown"]["least"], atol=1e-4)
    np.testing.assert_allclose(found["shown"]["best"][-1], found["shown"]["least"], atol=1e-4)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"correlations": [1.5]}, "correlations=1.5 must be at least -0.999 and at most 0.999"),
        ({"frequencies": [0.5, 0.5]}, "frequencies has 0.5 twice"),
        ({"frequencies": [1.0]}, "frequencies=1.0 must be"),
        ({"step_sizes": [0.0]}, "step_sizes=0.0 must be above 0"),
        ({"step_sizes": []}, "step_sizes is empty"),
        ({"steps": 0}, "steps=0 must be at least 1"),
        ({"angles": [1.0]}, "unknown key in the config of oscillations"),
        ({"crowds": [[2, 100]]}, "N=2 must be at least 3"),
        ({"crowds": [[3, 10], [3, 10]]}, r"crowds has \(3, 10\) twice"),
        ({"draws": 0}, "draws=0 must be at least 1"),
        ({"crowds": [3]}, "must be a list of 2 whole numbers"),
        ({"orthogonal": [4, 1]}, "M=1 must be at least 2"),
    ],
)
def test_odd_configs_are_one_clear_line(changes: dict[str, Any], says: str) -> None:
    wanted = figure("oscillations")
    with pytest.raises((ValueError, FactholdError), match=says):
        wanted.cells(wanted.grid("smoke", changes))


def test_pairs_need_both_numbers() -> None:
    with pytest.raises(ValueError, match="frequencies has 1 values for 2 correlations"):
        PairRuns(correlations=(0.1, 0.2), frequencies=(0.5,), step_sizes=(1.0,), steps=1)

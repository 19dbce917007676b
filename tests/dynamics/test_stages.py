"""The stages of loss curves whose stages are known, and of those that have none."""

import json
import math

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

from facthold.dynamics.stages import BAND, CONVERGED, UNSTABLE, Levels, Stages, crossing, find_stages
from facthold.facts.table import FactTable, balanced_table, random_table
from facthold.theory.reduced import Reduced

S, R, D = 16, 4, 8
LEVELS = Levels(start=math.log(R * D), marginal=math.log(R * D), relation=math.log(D), subject=math.log(R))
EXACT = 1e-9


def through(*points: tuple[float, float], step: float = 0.01) -> tuple[np.ndarray, np.ndarray]:
    """A curve of straight lines through these (time, loss), looked at every ``step``."""
    times = np.arange(0, points[-1][0] + step / 2, step)
    return times, np.interp(times, *zip(*points, strict=True))


def known() -> tuple[np.ndarray, np.ndarray]:
    """Starts for 10, falls to ln D until 20, rests until 50, falls to 0 until 60."""
    return through(
        (0, LEVELS.start), (10, LEVELS.start), (20, LEVELS.relation), (50, LEVELS.relation), (60, 0), (70, 0)
    )


def found(*points: tuple[float, float], levels: Levels = LEVELS) -> Stages:
    return find_stages(*through(*points), levels)


def test_the_stages_of_a_known_curve() -> None:
    """Each edge of a band is crossed where the straight line crosses it."""
    stages = find_stages(*known(), LEVELS)
    assert stages.problem is None
    fall = LEVELS.start - LEVELS.relation
    left = 10 + 10 * BAND * LEVELS.start / fall
    begins = 20 - 10 * BAND * LEVELS.relation / fall
    assert stages.left == pytest.approx(left, abs=EXACT)
    assert stages.relation.level == LEVELS.relation
    assert stages.relation.begins == pytest.approx(begins, abs=EXACT)
    assert stages.relation.ends == pytest.approx(50 + 10 * BAND, abs=EXACT)
    assert stages.relation.drop == pytest.approx(begins - left, abs=EXACT)
    assert stages.relation.lasts == pytest.approx(50 + 10 * BAND - begins, abs=EXACT)
    assert stages.relation.seen
    assert stages.resting == "relation"
    assert stages.hallucination == stages.relation.lasts
    assert stages.converged == pytest.approx(60 - 10 * CONVERGED / LEVELS.relation, abs=EXACT)
    assert not stages.subject.seen  # it is passed on the way down


def test_the_unit_of_time_is_that_of_the_curve() -> None:
    times, loss = known()
    ours, scaled = find_stages(times, loss, LEVELS), find_stages(100 * times, loss, LEVELS)
    for a, b in (
        (ours.left, scaled.left),
        (ours.hallucination, scaled.hallucination),
        (ours.converged, scaled.converged),
    ):
        assert a is not None
        assert b == pytest.approx(100 * a, rel=1e-12)


def test_few_looks_find_nearly_the_same_stages() -> None:
    """A straight line between looks is off by at most the time between them."""
    times, loss = known()
    for every in (10, 100, 250):
        ours = find_stages(times[::every], loss[::every], LEVELS)
        exact = find_stages(times, loss, LEVELS)
        for a, b in (
            (ours.left, exact.left),
            (ours.relation.begins, exact.relation.begins),
            (ours.converged, exact.converged),
        ):
            assert a == pytest.approx(b, abs=0.01 * every)
        assert ours.resting == "relation"


def test_a_curve_that_rests_at_the_subject() -> None:
    stages = found((0, LEVELS.start), (5, LEVELS.start), (10, LEVELS.subject), (40, LEVELS.subject), (45, 0), (50, 0))
    assert stages.resting == "subject"
    assert stages.hallucination is None


def test_of_two_rests_the_longer_counts() -> None:
    stages = found(
        (0, LEVELS.start), (1, LEVELS.relation), (5, LEVELS.relation),
        (6, LEVELS.subject), (30, LEVELS.subject), (31, 0),
    )  # fmt: skip
    assert stages.relation.seen
    assert stages.subject.seen
    assert stages.resting == "subject"
    assert stages.hallucination == stages.relation.lasts


def test_a_curve_that_never_leaves() -> None:
    times, loss = through((0, LEVELS.start), (100, LEVELS.start))
    stages = find_stages(times, loss, LEVELS)
    assert stages == find_stages(times, loss + 1e-9, LEVELS)
    assert (stages.left, stages.converged, stages.resting, stages.hallucination, stages.problem) == (None,) * 5
    assert (stages.relation.begins, stages.relation.ends, stages.relation.drop, stages.relation.lasts) == (None,) * 4
    assert not stages.relation.seen


def test_a_curve_that_passes_without_resting() -> None:
    """A straight fall spends a twentieth of it in the band: that is no stage."""
    stages = found((0, LEVELS.start), (5, LEVELS.start), (25, 0), (30, 0))
    assert stages.problem is None
    assert stages.relation.begins is not None
    assert stages.relation.ends is not None
    assert not stages.relation.seen
    assert (stages.resting, stages.hallucination) == (None, None)
    assert stages.converged is not None


@pytest.mark.parametrize(("rest", "seen"), [(11.0, True), (7.0, False)])
def test_a_rest_is_as_long_as_the_drop_into_it(rest: float, seen: bool) -> None:
    """A drop of 10, a little less between the bands; the rest a little longer than flat."""
    stages = found(
        (0, LEVELS.start), (10, LEVELS.relation), (10 + rest, LEVELS.relation), (11 + rest, 0), (12 + rest, 0)
    )
    assert stages.relation.seen == seen
    assert stages.resting == ("relation" if seen else None)


def test_a_curve_that_has_not_ended_its_rest_rests() -> None:
    """It has stayed thrice as long as the drop took. How long it will stay nobody knows, but that it knew nothing is
    not what was seen."""
    stages = found((0, LEVELS.start), (5, LEVELS.start), (15, LEVELS.relation), (45, LEVELS.relation))
    assert stages.problem is None
    assert stages.relation.ends is None
    assert stages.relation.lasts is None
    assert stages.converged is None
    assert stages.resting == "relation"


def test_a_curve_that_has_only_just_come_to_a_level_does_not_rest_yet() -> None:
    stages = found((0, LEVELS.start), (5, LEVELS.start), (15, LEVELS.relation), (16, LEVELS.relation))
    assert stages.relation.begins is not None
    assert stages.resting is None
    assert stages.converged is None


def test_a_curve_that_comes_to_a_level_and_goes_back_does_not_rest() -> None:
    stages = found((0, LEVELS.start), (5, LEVELS.start), (6, LEVELS.relation), (7, LEVELS.start), (60, LEVELS.start))
    assert stages.relation.begins is not None
    assert stages.resting is None
    assert stages.hallucination is None


def test_the_prediction_of_figure_5_has_its_stages() -> None:
    """The curve of the reduced equations, looked at 500 times: what is found is what they say."""
    reduced = Reduced(S, R, D, "equal", math.log(1e-5))
    times = np.linspace(0, 1.1 * reduced.time_of(CONVERGED), 500)
    stages = find_stages(times, reduced.loss(times), LEVELS)
    assert stages.problem is None
    assert stages.resting == "relation"
    spacing = times[1]
    for ours, level in (
        (stages.left, LEVELS.start * (1 - BAND)), (stages.relation.begins, LEVELS.relation * (1 + BAND)),
        (stages.relation.ends, LEVELS.relation * (1 - BAND)), (stages.converged, CONVERGED),
    ):  # fmt: skip
        assert ours == pytest.approx(reduced.time_of(level), abs=spacing)


def test_noise_within_the_band_moves_stages_by_what_it_is_worth() -> None:
    """Noise of at most e on a line of slope b moves a crossing by at most e / b, and does not end a rest."""
    times, loss = known()
    noise = 0.2 * BAND * LEVELS.relation
    rng, exact = np.random.default_rng(0), find_stages(times, loss, LEVELS)
    falls = (LEVELS.start - LEVELS.relation) / 10, LEVELS.relation / 10
    for _ in range(20):
        ours = find_stages(times, loss + rng.uniform(-noise, noise, len(loss)), LEVELS)
        assert ours.problem is None
        assert ours.resting == "relation"
        for a, b, slope in (
            (ours.left, exact.left, falls[0]), (ours.relation.begins, exact.relation.begins, falls[0]),
            (ours.relation.ends, exact.relation.ends, falls[1]),
        ):  # fmt: skip
            assert a == pytest.approx(b, abs=noise / slope + 0.02)


def test_nan_is_a_run_that_diverged() -> None:
    times, loss = known()
    for bad in (math.nan, math.inf):
        broken = np.where(times < 30, loss, bad)
        stages = find_stages(times, broken, LEVELS)
        assert stages.problem == (
            "training diverged: the loss is not finite from t = 30 on; take a smaller learning rate"
        )
        assert stages.hallucination is None


def test_what_a_broken_curve_shows_is_still_json() -> None:
    """A look that is not finite between two that are must not make a time of it."""
    for bad in (math.nan, math.inf):
        stages = find_stages([0.0, 1.0, 2.0, 3.0], [LEVELS.start, bad, 1.0, 0.0], LEVELS)
        assert stages.problem is not None
        json.dumps(stages.values, allow_nan=False)


def test_a_loss_that_rises_is_unstable() -> None:
    times, loss = known()
    high = np.where((times > 30) & (times < 31), 1.3 * LEVELS.start, loss)
    stages = find_stages(times, high, LEVELS)
    assert stages.problem is not None
    assert stages.problem.startswith("training is unstable: the loss rose from 2.08 to 4.51")
    assert "smaller learning rate" in stages.problem
    assert stages.hallucination is None
    within = np.where((times > 30) & (times < 31), loss + (UNSTABLE - 0.01) * LEVELS.start, loss)
    assert find_stages(times, within, LEVELS).problem is None


def test_a_table_whose_relations_share_answers_has_no_stages() -> None:
    """Knowing the relation says nothing there, and a rest at the start would be called a hallucination."""
    answers = np.stack([np.arange(8), (np.arange(8) + 3) % 8], axis=1).astype(np.int32)
    levels = Levels.of(FactTable.from_matrix(answers))
    assert levels.relation == pytest.approx(levels.start, abs=1e-12)
    stages = found((0, levels.start), (30, levels.start), (31, 0), (40, 0), levels=levels)
    assert stages.problem is not None
    assert "cannot be told apart" in stages.problem
    assert "share their answers" in stages.problem
    assert stages.hallucination is None


def test_a_table_with_one_answer_a_relation_has_nothing_to_hallucinate() -> None:
    levels = Levels.of(balanced_table(8, 4, 1, key=jax.random.key(0)))
    assert levels.relation == pytest.approx(0, abs=1e-15)
    stages = found((0, levels.start), (30, levels.start), (31, 0), (40, 0), levels=levels)
    assert stages.problem is not None
    assert "the relation alone gives the answer" in stages.problem


SQUARE = Levels(start=math.log(16), marginal=math.log(16), relation=math.log(4), subject=math.log(4))
"""D = R = 4: to know the relation leaves as much open as to know the subject."""


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("known_first", ["relation", "subject"])
def test_where_both_levels_are_one_the_relation_loss_tells_which(known_first: str, ends: bool) -> None:
    points = [(0, SQUARE.start), (10, SQUARE.start), (15, SQUARE.relation), (45, SQUARE.relation)]
    times, loss = through(*points, *([(50, 0), (60, 0)] if ends else []))
    falls = (10, 15) if known_first == "relation" else (45, 50)
    relation_loss = np.interp(times, falls, (math.log(4), 0))
    stages = find_stages(times, loss, SQUARE, relation_loss=relation_loss)
    assert stages.problem is None
    assert stages.resting == known_first
    assert (stages.hallucination is not None) == (known_first == "relation" and ends)
    unsaid = find_stages(times, loss, SQUARE)
    assert unsaid.problem is not None
    assert "the relation-only loss is not there to tell" in unsaid.problem
    assert unsaid.hallucination is None


def test_where_levels_differ_the_relation_loss_changes_nothing() -> None:
    times, loss = known()
    assert find_stages(times, loss, LEVELS, relation_loss=np.zeros(len(times))) == find_stages(times, loss, LEVELS)


def test_levels_of_a_balanced_table() -> None:
    """ln |A|, ln D for the relation and ln R for the subject, each answer of whom is one of R."""
    levels = Levels.of(balanced_table(S, R, D, key=jax.random.key(1)))
    assert_allclose(
        [levels.start, levels.marginal, levels.relation, levels.subject],
        [math.log(R * D), math.log(R * D), math.log(D), math.log(R)],
        rtol=1e-12,
    )


def test_levels_by_hand() -> None:
    """Two subjects, two relations, three answers: r = 0 says 0 to both, r = 1 says 1 and 2."""
    table = FactTable.from_matrix(np.array([[0, 1], [0, 2]], np.int32))
    p = np.array([1 / 2, 1 / 4, 1 / 8, 1 / 8])

    def entropy(*shares: float) -> float:
        return -sum(x * math.log(x) for x in shares)

    levels = Levels.of(table, p)
    assert levels.start == pytest.approx(math.log(3))
    assert levels.marginal == pytest.approx(entropy(5 / 8, 1 / 4, 1 / 8))
    assert levels.relation == pytest.approx(3 / 8 * entropy(2 / 3, 1 / 3))
    assert levels.subject == pytest.approx(3 / 4 * entropy(2 / 3, 1 / 3) + 1 / 4 * entropy(1 / 2, 1 / 2))
    uniform = Levels.of(table)
    assert uniform.marginal == pytest.approx(entropy(1 / 2, 1 / 4, 1 / 4))
    assert uniform.relation == pytest.approx(1 / 2 * math.log(2))
    assert uniform.subject == pytest.approx(math.log(2))


def test_levels_of_a_random_table_are_those_of_the_table() -> None:
    table = random_table(9, 5, 4, key=jax.random.key(2))
    p = np.random.default_rng(0).dirichlet(np.ones(len(table)))
    assert Levels.of(table).relation == pytest.approx(table.entropy_given("relation"), rel=1e-12)
    assert Levels.of(table, p).relation == pytest.approx(table.entropy_given("relation", p), rel=1e-12)
    levels = Levels.of(table)
    assert levels.relation < levels.marginal < levels.start  # to know more is not to know less
    asked = np.zeros(len(table))
    asked[3] = 1.0
    alone = Levels.of(table, asked)
    assert (alone.marginal, alone.relation, alone.subject) == pytest.approx((0, 0, 0), abs=1e-15)


def test_crossing_is_the_first_and_between_looks() -> None:
    times, loss = np.array([0.0, 2.0, 4.0, 6.0]), np.array([3.0, 1.0, 2.0, 0.0])
    assert crossing(times, loss, 2.0) == pytest.approx(1.0)
    assert crossing(times, loss, 0.5) == pytest.approx(5.5)
    assert crossing(times, loss, 5.0) == 0.0  # below from the first look on
    assert crossing(times, loss, 0.0) is None  # touched, not passed


def test_stages_are_json() -> None:
    values = json.loads(json.dumps(find_stages(*known(), LEVELS).values, allow_nan=False))
    assert values["resting"] == "relation"
    assert values["relation"]["level"] == LEVELS.relation
    assert values["hallucination"] == values["relation"]["ends"] - values["relation"]["begins"]


@pytest.mark.parametrize(("times", "loss"), [([], []), ([0.0], [1.0]), ([0.0, 1.0], [1.0])])
def test_what_is_no_curve_is_refused(times: list[float], loss: list[float]) -> None:
    with pytest.raises(ValueError, match="a curve needs two or more times and as many losses"):
        find_stages(times, loss, LEVELS)


def test_times_that_go_back_are_refused() -> None:
    with pytest.raises(ValueError, match="times"):
        find_stages([0.0, 2.0, 1.0], [3.0, 2.0, 0.0], LEVELS)


def test_a_loss_that_starts_low_rests_nowhere() -> None:
    times, _ = known()
    low = find_stages(times, np.full(len(times), 0.001), LEVELS)
    assert low.resting is None
    assert low.hallucination is None


def test_a_rise_after_the_fall_is_unstable_too() -> None:
    times, loss = known()
    late = np.where(times > times[-1] - 1, 0.9 * LEVELS.start, loss)
    stages = find_stages(times, late, LEVELS)
    assert stages.problem is not None
    assert "unstable" in stages.problem


def test_bad_relation_losses_are_refused() -> None:
    times, loss = known()
    with pytest.raises(ValueError, match="relation_loss must have one number for each"):
        find_stages(times, loss, LEVELS, relation_loss=[1.0, 2.0])

"""Plans: laws recover what made their points, rules agree with the constructions, and every input gets an answer."""

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from facthold._util.errors import FactholdError
from facthold._util.memory import available
from facthold.construct.attention import gaps, partition, partition_into, separating_keys
from facthold.construct.dimensions import separating_dimensions, tokens_per_head
from facthold.facts.problem import seeded_recall, seeded_table
from facthold.facts.table import FactTable
from facthold.models.sizes import Shape
from facthold.plan import calibrations as kept
from facthold.plan.calibrations import Calibration, Calibrations, read
from facthold.plan.laws import fit_power, fit_started
from facthold.plan.plan import LONGEST, make_plan, plan, plan_recipe
from facthold.recipes import fact_recipe, fact_recipes
from facthold.recipes.base import Question, Sizing
from facthold.recipes.facts import gated_shape, selected_d
from facthold.studies.sizes.calibrations import cells
from facthold.studies.sizes.claims import quarter
from facthold.theory.limits_facts import known_blocks_bits
from facthold.train.gated import dimensions


def sizing_of(name: str) -> Sizing:
    sizing = fact_recipe(name).sizing
    assert sizing is not None
    return sizing


# laws


def test_a_power_law_recovers_the_constants_that_made_its_points() -> None:
    x = [(float(a), float(b)) for a in (1, 4, 20, 70) for b in (2, 3, 9)]
    law = fit_power(x, [3.5 * a**0.8 * b**1.3 for a, b in x])
    assert law.constant == pytest.approx(3.5)
    assert law.exponents == pytest.approx((0.8, 1.3))
    assert law.spread == pytest.approx(0, abs=1e-10)
    low, expected, high = law.at((50.0, 5.0))
    assert expected == pytest.approx(3.5 * 50**0.8 * 5**1.3)
    assert (low, high) == pytest.approx((expected, expected), rel=1e-6)


def test_a_started_law_recovers_its_start_and_its_rate() -> None:
    x = list(np.geomspace(1e3, 1e9, 9))
    law = fit_started(x, [2.0 + 3e-7 * v for v in x])
    assert (law.start, law.rate) == pytest.approx((2.0, 3e-7), rel=1e-4)
    assert law.at(1e12).expected == pytest.approx(3e5, rel=1e-3)


def test_intervals_cover_a_new_table_as_often_as_they_say() -> None:
    generator, tries, confidence = np.random.default_rng(0), 2000, 0.9
    covered = 0
    for _ in range(tries):
        x = np.exp(generator.uniform(0, 4, 9))
        noise = np.exp(0.3 * generator.standard_normal(10))
        new = math.exp(generator.uniform(-1, 6))  # outside of the points too
        law = fit_power([(float(v),) for v in x], list(2 * x**0.9 * noise[:9]))
        low, _, high = law.at((new,), confidence)
        covered += low <= 2 * new**0.9 * noise[9] <= high
    # exact for normal noise: a binomial number, outside once in 10,000
    assert stats.binomtest(covered, tries, confidence).pvalue > 1e-4


def test_the_interval_grows_away_from_the_points() -> None:
    generator = np.random.default_rng(1)
    x = np.exp(generator.uniform(0, 4, 9))
    law = fit_power([(float(v),) for v in x], list(x * np.exp(0.2 * generator.standard_normal(9))))
    widths = [math.log(high / low) for low, _, high in (law.at((v,)) for v in (math.e**2, 1e4, 1e8, 1e30))]
    assert widths == sorted(widths)
    assert widths[-1] > 3 * widths[0]


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [([1.0, 2.0], [1.0, 2.0], "4 points"), ([1.0, 2.0, 3.0, 0.0], [1.0] * 4, "smallest x"),
     ([2.0] * 5, [1.0] * 5, "too alike")],
)  # fmt: skip
def test_a_law_refuses_points_that_fix_none(x: list[float], y: list[float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        fit_power([(v,) for v in x], y)


# rules


@pytest.mark.parametrize(("S", "R", "D"), [(8, 8, 8), (64, 4, 2), (30, 12, 16), (128, 8, 16), (24, 48, 4)])
def test_the_shape_of_gated_is_that_of_the_builder(S: int, R: int, D: int) -> None:
    ours = gated_shape(Question(S, R, D))
    theirs = dimensions(seeded_table("random", S, R, D, 0))
    assert ours[0] == pytest.approx(theirs[0], abs=4)  # how many answers a drawn table has differs a little
    assert ours[1] == pytest.approx(theirs[1], rel=0.1, abs=2)


def test_tokens_per_head_are_those_of_the_partition() -> None:
    problem = seeded_recall(seeded_table("random", 17, 6, 4, 0), 16, 0)
    for H in (2, 3, 7, 12, 23):
        assert tokens_per_head(17, 6, H) == max(map(len, partition_into(problem, H)))


def test_keys_separate_where_the_rule_says_so_and_not_far_below() -> None:
    S, R, k = 20, 10, 3
    problem_of = lambda d: seeded_recall(seeded_table("random", S, R, 4, 3), d, 3)  # noqa: E731
    d = math.ceil(separating_dimensions(Question(S, R, 4).tokens, k))
    enough, few = problem_of(d), problem_of(d // 4)
    for problem, all_separate in ((enough, True), (few, False)):
        subsets = partition(problem, k)
        assert bool((gaps(problem, separating_keys(problem, subsets), subsets) > 0).all()) is all_separate


def test_every_recipe_is_planned_and_shapes_count_as_the_paper_does() -> None:
    for recipe in fact_recipes().values():
        sizing = sizing_of(recipe.name)
        found = sizing.shape(Question(30, 9, 7, sizing.goals[0]), 24)
        assert found.n_params == 4 * found.H * found.d * found.d_h + 2 * found.m * found.d
        assert min(found[:3]) >= 1
    assert selected_d(Question(10**30, 1, 2)) > 1e14  # closed forms, at once


def test_a_quarter_is_one_of_the_parameters_or_of_the_neurons() -> None:
    question = Question(40, 12, 16)
    for name in fact_recipes():
        sizing = sizing_of(name)
        full = sizing.shape(question, 400)
        d, size = quarter(sizing, question, full)
        if sizing.size == "d":
            assert 0 < sizing.shape(question, size).n_params <= full.n_params / 4
        else:
            assert (d, size) == (full.d, full.m // 4)


def test_counted_bits_allow_the_errors_that_the_accuracy_allows() -> None:
    """90% of 10 facts are 9, though (1 - 0.9) * 10 is below 1 in floats; 1 + 10 * 3 tables are within one error."""
    made = make_plan(Question(10, 1, 4, 0.9), read(), 1.0)
    assert made.counting_bits == pytest.approx(20 - math.log2(31))


# plans


def _made_up(constant: float = 2.0, lost: int = 0) -> Calibrations:
    """Calibrations that follow every law exactly, apart from tables that no size has held."""
    rows = []
    for method, goal, cell in cells():
        spec = cell.spec
        question = Question(spec["S"], spec["R"], spec["D"], goal)
        size = constant * math.prod(sizing_of(method).x(question))
        i = len([row for row in rows if (row.method, row.goal) == (method, goal)])
        found = i >= lost
        rows.append(
            Calibration(method, *question[:3], goal, (0,), "found" if found else "search ceiling",
                        size if found else None, 1.0 if found else None, 2.0 if found else None,
                        cell.kind, cell.key, spec)
        )  # fmt: skip
    return Calibrations({"gflops": 50.0}, rows)


def test_a_plan_follows_its_calibrations() -> None:
    question = Question(40, 12, 16, 1.0)
    for name, recipe in fact_recipes().items():
        sizing = sizing_of(name)
        if 1.0 in sizing.goals:
            planned = plan_recipe(recipe, question, _made_up())
            size = math.ceil(2 * math.prod(sizing.x(question)) - 1e-6)
            assert planned.shape == sizing.shape(question, size), name
            assert planned.seconds is not None
            assert planned.seconds.expected == pytest.approx(2.0, rel=0.05)


def test_a_recipe_that_did_not_hold_its_calibrated_tables_says_so() -> None:
    planned = plan_recipe(fact_recipe("values"), Question(40, 12, 16), _made_up(lost=3))
    assert planned.shape is None
    assert "held 7 of 10 calibrated tables" in (planned.reason or "")


def test_a_recipe_without_calibrations_or_without_a_law_says_so() -> None:
    values, nothing = fact_recipe("values"), Calibrations({"gflops": 50.0}, [])
    assert plan_recipe(values, Question(40, 12, 16), nothing).reason == "not calibrated at an accuracy of 1"
    without = plan_recipe(replace(values, sizing=None), Question(40, 12, 16), nothing)
    assert "not calibrated" in (without.reason or "")


def test_seconds_scale_with_the_machine() -> None:
    slow, fast = (make_plan(Question(40, 12, 16), _made_up(), gflops) for gflops in (25.0, 100.0))
    for a, b in zip(slow.rows, fast.rows, strict=True):
        if a.seconds is not None and b.seconds is not None:
            assert a.seconds.expected == pytest.approx(4 * b.seconds.expected)


def test_plans_warn_where_they_extrapolate_and_only_there() -> None:
    within = plan_recipe(fact_recipe("values"), Question(40, 12, 16), _made_up())
    beyond = plan_recipe(fact_recipe("values"), Question(10**6, 20, 100), _made_up())
    assert not within.outside
    assert beyond.outside is not None
    assert beyond.outside["S"] == pytest.approx(1e6 / 128)
    assert beyond.outside["D"] == pytest.approx(100 / 32)
    assert "R" not in beyond.outside


def test_the_calibrations_of_the_package_are_those_of_its_cells_and_say_where_they_come_from() -> None:
    calibrations = read()
    assert [row.key for row in calibrations.rows] == [cell.key for *_, cell in cells()]
    for name in ("facthold", "jax", "numpy", "cpu", "cores", "gflops", "date", "command"):
        assert calibrations.provenance[name]


@pytest.mark.parametrize("text", ["{", "{}", '{"provenance": {}, "rows": [{"method": 1}]}'])
def test_broken_calibrations_are_one_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text(text)
    with pytest.raises(FactholdError, match="facthold plan --calibrate"):
        plan(subjects=20, relations=6, answers=8, calibrations=path)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    kept.write(read(), tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == kept.FILE.read_text()


# from Python


@pytest.mark.parametrize(
    ("S", "R", "D"), [(40, 12, 16), (10**6, 20, 100), (10**30, 10**30, 10**30), (1, 1, 2)]
)  # fmt: skip
def test_a_plan_has_every_recipe_and_only_finite_numbers(S: int, R: int, D: int) -> None:
    found = plan(subjects=S, relations=R, answers=D)
    about = found.as_json()
    assert {row["recipe"] for row in about["recipes"]} == set(fact_recipes())
    assert all(math.isfinite(n) for n in _numbers(about))
    assert about["bits"] == pytest.approx(known_blocks_bits(S, R, D, 0.99))
    first = about["recipes"][0]
    assert about["smallest"] == (first["recipe"] if first["obstacle"] is None else None)
    for row in about["recipes"]:
        if row["reason"] is None:
            low, high = row["n_params_interval"]
            assert low <= row["n_params_expected"] <= high == row["n_params"]
            d, H, d_h, m = (row[name] for name in Shape._fields)
            assert row["n_params"] == pytest.approx(4 * H * d * d_h + 2 * m * d)
            assert row["megabytes"]["float32"] == pytest.approx(4 * row["n_params"] / 1e6)
            too_large = 8 * row["n_params"] > available()
            assert (row["command"] is None) == (row["obstacle"] is not None) == (too_large or row["seconds"] > LONGEST)
            assert 32 * row["n_params"] >= about["bits"]  # no law goes below what no model can do
    planned = [row for row in about["recipes"] if row["reason"] is None]
    near = [row["obstacle"] is None for row in planned]
    order = [(not can, row["n_params" if can else "seconds"]) for row, can in zip(planned, near, strict=True)]
    assert order == sorted(order)  # what can be built by its size, the rest by its time
    assert [row["recipe"] for row in found.to_rows()] == [row["recipe"] for row in about["recipes"]]
    hidden = [row for row in planned if row["obstacle"] is not None]
    text = repr(found)
    assert text.count("\n  out of reach here, within ") == bool(hidden)
    starred = any(row["extrapolates"] and row not in hidden for row in planned)
    assert text.count("\n") == len(found.rows) - len(hidden) + bool(hidden) + starred


def _numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [n for v in value.values() for n in _numbers(v)]
    if isinstance(value, list):
        return [n for v in value for n in _numbers(v)]
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "give subjects"),
        ({"subjects": 4, "relations": 4}, "give answers"),
        ({"subjects": 0, "relations": 4, "answers": 4}, "subjects=0 must be a whole number"),
        ({"subjects": 4, "relations": 1.5, "answers": 4}, "relations=1.5 must be a whole number"),
        ({"subjects": 4, "relations": 4, "answers": math.nan}, "answers=nan must be"),
        ({"subjects": 4, "relations": 4, "answers": 10**31}, "from 1 to 1e"),
        ({"subjects": 4, "relations": 4, "answers": 4, "accuracy": 1.01}, "accuracy=1.01 must be"),
        ({"facts": [], "subjects": 4}, "subjects=4 and facts"),
    ],
)
def test_what_cannot_be_planned_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan(**given)


def test_facts_have_their_own_sizes_and_refusals() -> None:
    rows = [(f"s{s}", f"r{r}", f"a{(s * 7 + r * (s + 3)) % 5}") for s in range(12) for r in range(3)]
    found = plan(FactTable.from_rows(rows))
    assert found.question[:5] == (12, 3, 5, 0.99, 36)
    refused = {row.name: row.reason for row in found.rows if row.reason is not None}
    assert "no sum of a part for s and a part for r" in refused["values"]
    assert "gated" not in refused


def test_what_attention_alone_may_not_hold_is_never_recommended(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a linear program; where the table is too large for it, that is said, and another recipe is recommended."""
    table = FactTable.from_matrix(((2 * np.arange(10)[:, None] + 5 * np.arange(3)) % 11).astype(np.int32), A=11)
    rows = {row.name: row for row in plan(table).rows}
    assert "no sum of a part for s and a part for r" in str(rows["values"].reason)
    monkeypatch.setattr("facthold.construct.sums.LARGEST", 10)
    found = plan(table.take(np.arange(len(table))), accuracy=1.0)
    rows = {row.name: row for row in found.rows}
    assert rows["values"].reason is None
    assert "not known whether" in str(rows["values"].doubt)
    assert found.rows[0].name == "values"  # it would be the smallest
    assert found.best is not None
    assert found.best.doubt is None
    assert "not known whether" in repr(found)


def test_at_chance_no_model_is_planned() -> None:
    assert plan(subjects=10, relations=3, answers=4, accuracy=0.25).at_chance
    assert not plan(subjects=10, relations=3, answers=4, accuracy=0.25).rows


def test_planning_by_sizes_loads_nothing_slow() -> None:
    code = (
        "import sys; from facthold.plan.plan import plan; plan(subjects=20, relations=6, answers=8); "
        "print(*(m for m in ('jax', 'matplotlib', 'scipy.stats') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""

"""Plans: laws recover what made their points, rules agree with the constructions, and every input gets an answer."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from facthold.cli.app import main
from facthold.cli.plan import amount, short, size_text, times_text, whole_number
from facthold.construct.heads import gaps, partition, partition_into, separating_keys
from facthold.knowledge.build import NOISE
from facthold.knowledge.readout import shape
from facthold.models.transformer import n_params
from facthold.plan import calibrations as kept
from facthold.plan.calibrations import Calibration, Calibrations, read
from facthold.plan.laws import Interval, fit_power, fit_started
from facthold.plan.methods import WAYS
from facthold.plan.plan import BUILDABLE, LONGEST, make_plan, plan_way, quarter
from facthold.plan.rules import Question, Shape, readout_shape, selected_d, separating_dimensions, tokens_a_head
from facthold.recipes.builders import BUILDERS
from facthold.studies.constructions.built_size import text_problem
from facthold.studies.sizes.calibrations import cells
from facthold.studies.transformers.fact_capacity import nested_table
from facthold.theory.limits_facts import known_blocks_bits

ASKED = ["plan", "--subjects", "20", "--relations", "6", "--answers", "8"]
"""Within the calibrated range of every method."""


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """The program in this process: exit code, standard output and standard error."""
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    said = capsys.readouterr()
    return int(stop.value.code or 0), said.out, said.err


@pytest.fixture(autouse=True)
def _leave_softly(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program leaves at once where something is wrong; a test goes on."""
    from facthold.cli import app

    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(app, "_leave", leave)


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


@pytest.mark.parametrize("exponents", [None, (0.9,)])
def test_intervals_cover_a_new_table_as_often_as_they_say(exponents: tuple[float, ...] | None) -> None:
    generator, tries, confidence = np.random.default_rng(0), 2000, 0.9
    covered = 0
    for _ in range(tries):
        x = np.exp(generator.uniform(0, 4, 9))
        noise = np.exp(0.3 * generator.standard_normal(10))
        new = math.exp(generator.uniform(-1, 6))  # outside of the points too
        law = fit_power([(float(v),) for v in x], list(2 * x**0.9 * noise[:9]), exponents)
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
def test_the_shape_of_readout_is_that_of_the_builder(S: int, R: int, D: int) -> None:
    ours = readout_shape(Question(S, R, D))
    theirs = shape(nested_table("random", S, R, D, 0), NOISE)
    assert ours[0] == pytest.approx(theirs[0], abs=4)  # how many answers a drawn table has differs a little
    assert ours[1] == pytest.approx(theirs[1], rel=0.1, abs=2)


def test_tokens_a_head_are_those_of_the_partition() -> None:
    problem = text_problem(nested_table("random", 17, 6, 4, 0), 16, 0)
    for H in (2, 3, 7, 12, 23):
        assert tokens_a_head(Question(17, 6, 4), H) == max(map(len, partition_into(problem, H)))


def test_keys_separate_where_the_rule_says_so_and_not_far_below() -> None:
    S, R, k = 20, 10, 3
    problem_of = lambda d: text_problem(nested_table("random", S, R, 4, 3), d, 3)  # noqa: E731
    d = math.ceil(separating_dimensions(Question(S, R, 4).tokens, k))
    enough, few = problem_of(d), problem_of(d // 4)
    for problem, all_separate in ((enough, True), (few, False)):
        subsets = partition(problem, k)
        assert bool((gaps(problem, separating_keys(problem, subsets), subsets) > 0).all()) is all_separate


def test_every_builder_is_planned_and_shapes_count_as_the_paper_does() -> None:
    assert set(WAYS) == {*BUILDERS, "readout", "train"}
    for way in WAYS.values():
        found = way.shape(Question(30, 9, 7, way.goals[0]), 24)
        assert found.n_params == n_params(**found._asdict())
        assert min(found[:3]) >= 1
    assert selected_d(Question(10**30, 1, 2)) > 1e14  # closed forms, at once


def test_a_quarter_is_one_of_the_parameters_or_of_the_neurons() -> None:
    question = Question(40, 12, 16)
    for way in WAYS.values():
        full = way.shape(question, 400)
        d, size = quarter(way, question, full)
        if way.knob == "d":
            assert 0 < way.shape(question, size).n_params <= full.n_params / 4
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
        size = constant * math.prod(WAYS[method].x(question))
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
    for name, way in WAYS.items():
        if 1.0 in way.goals:
            planned = plan_way(way, question, _made_up())
            assert planned.shape == way.shape(question, math.ceil(2 * math.prod(way.x(question)) - 1e-6)), name
            assert planned.seconds is not None
            assert planned.seconds.expected == pytest.approx(2.0, rel=0.05)


def test_a_method_that_did_not_hold_its_calibrated_tables_says_so() -> None:
    planned = plan_way(WAYS["values"], Question(40, 12, 16), _made_up(lost=3))
    assert planned.shape is None
    assert "held 7 of 10 calibrated tables" in (planned.reason or "")


def test_seconds_scale_with_the_machine() -> None:
    slow, fast = (make_plan(Question(40, 12, 16), _made_up(), gflops) for gflops in (25.0, 100.0))
    for a, b in zip(slow.rows, fast.rows, strict=True):
        if a.seconds is not None and b.seconds is not None:
            assert a.seconds.expected == pytest.approx(4 * b.seconds.expected)


def test_plans_warn_where_they_extrapolate_and_only_there() -> None:
    within = plan_way(WAYS["values"], Question(40, 12, 16), _made_up())
    beyond = plan_way(WAYS["values"], Question(10**6, 20, 100), _made_up())
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
def test_broken_calibrations_are_one_line(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "broken.json"
    path.write_text(text)
    code, _, said = run([*ASKED, "--calibrations", str(path)], capsys)
    assert code == 2
    assert said.count("\n") == 1
    assert "facthold plan --calibrate" in said


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    kept.write(read(), tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == kept.FILE.read_text()


# the command


def _numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [n for v in value.values() for n in _numbers(v)]
    if isinstance(value, list):
        return [n for v in value for n in _numbers(v)]
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else []


@pytest.mark.parametrize(
    ("S", "R", "D"), [("40", "12", "16"), ("1e6", "20", "1_00"), ("1e30", "1e30", "1e30"), ("1", "1", "2")]
)
def test_the_json_has_every_method_and_only_finite_numbers(
    S: str, R: str, D: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said, _ = run(["plan", "-S", S, "-R", R, "-D", D, "--json"], capsys)
    assert code == 0
    found = json.loads(said)
    assert {row["method"] for row in found["methods"]} == set(WAYS)
    assert all(math.isfinite(n) for n in _numbers(found))
    assert found["bits"] == pytest.approx(known_blocks_bits(float(S), float(R), float(D), 0.99))
    assert found["smallest"] == found["methods"][0]["method"]
    for row in found["methods"]:
        if row["reason"] is None:
            low, high = row["n_params_interval"]
            assert low <= row["n_params_expected"] <= high == row["n_params"]
            d, H, d_h, m = (row[name] for name in Shape._fields)
            assert row["n_params"] == pytest.approx(4 * H * d * d_h + 2 * m * d)
            assert row["megabytes"]["float32"] == pytest.approx(4 * row["n_params"] / 1e6)
            assert (row["command"] is None) == (row["n_params"] > BUILDABLE or row["seconds"] > LONGEST)
            assert row["command"] is None or row["command"].startswith("facthold ")
            assert 32 * row["n_params"] >= found["bits"]  # no law goes below what no model can do
    sizes = [row["n_params"] for row in found["methods"] if row["reason"] is None]
    assert sizes == sorted(sizes)


@pytest.mark.parametrize("option", ["--subjects", "--relations", "--answers"])
@pytest.mark.parametrize("text", ["0", "-3", "1.5", "nan", "inf", "-inf", "many", "", "1e31", "1e400", "0x10"])
def test_a_size_that_is_none_is_one_line_with_its_option(
    option: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*ASKED]
    arguments[arguments.index(option) + 1] = text
    code, said, error = run(arguments, capsys)
    assert (code, said) == (2, "")
    assert error.count("\n") == 1
    assert option in error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["plan"], "--subjects"),
        (["plan", "-S", "4", "-R", "4"], "--answers"),
        ([*ASKED, "--accuracy", "0"], "--accuracy"),
        ([*ASKED, "--accuracy", "1.01"], "--accuracy"),
        ([*ASKED, "--accuracy", "nan"], "--accuracy"),
        ([*ASKED, "--facts", "no.csv"], "--facts"),
        ([*ASKED, "--store", "s.sqlite"], "--calibrate"),
        ([*ASKED, "--out", "o.json"], "--calibrate"),
        ([*ASKED, "--calibrate"], "--calibrate"),
        (["plan", "--facts", "no.csv"], "no.csv"),
    ],
)
def test_wrong_arguments_are_one_line(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, said, error = run(arguments, capsys)
    assert (code, said) == (2, "")
    assert error.count("\n") == 1
    assert words in error


def test_at_chance_no_bits_are_needed(capsys: pytest.CaptureFixture[str]) -> None:
    for D, accuracy in (("1", "1"), ("4", "0.25"), ("100", "0.005")):
        code, said, _ = run(["plan", "-S", "10", "-R", "3", "-D", D, "--accuracy", accuracy], capsys)
        assert code == 0
        assert "no bits are needed" in said


@pytest.mark.parametrize("sizes", [("20", "6", "8"), ("1e6", "20", "100"), ("1e30", "1e30", "1e30")])
def test_the_table_fits_in_a_hundred_columns(sizes: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    S, R, D = sizes
    code, said, _ = run(["plan", "-S", S, "-R", R, "-D", D], capsys)
    assert code == 0
    lines = said.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("method"))
    for line in lines[start : start + 4]:
        assert len(line) <= 100
        assert "…" not in line
    assert ("extrapolated" in said) == (S != "20")
    assert lines[-1].startswith("smallest: ")


def test_a_file_of_facts_has_its_own_bits_and_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "facts.csv"
    rows = [f"s{s},r{r},a{(s * 7 + r * (s + 3)) % 5}" for s in range(12) for r in range(3)]
    path.write_text("\n".join(["subject,relation,answer", *rows]) + "\n")
    code, said, _ = run(["plan", "--facts", str(path), "--json"], capsys)
    assert code == 0
    found = json.loads(said)
    assert (found["subjects"], found["relations"], found["facts"]) == (12, 3, 36)
    assert 0 < found["table_bits"] <= found["facts"] * math.log2(5)
    refused = {row["method"]: row["reason"] for row in found["methods"] if row["reason"]}
    assert "no sum of a part for s and a part for r" in refused["values"]
    code, said, _ = run(["plan", "--facts", str(path)], capsys)
    assert "for one given table there is no such bound" in said


def test_sizes_are_read_exactly() -> None:
    assert whole_number("-S", "1e6") == whole_number("-S", "1_000_000") == whole_number("-S", "1000000") == 10**6
    assert whole_number("-S", "1e30") == 10**30
    assert whole_number("-S", str(2**60 + 1)) == 2**60 + 1


def test_numbers_are_said_in_units_that_suit_them() -> None:
    assert [amount(n) for n in (7, 1234567, 3.1e31)] == ["7", "1,234,567", "3.1e31"]
    assert [size_text(n) for n in (12, 53_400, 7.2e8, 3e13)] == ["12 B", "53.4 kB", "720 MB", "30 TB"]
    assert [short(n) for n in (7, 0.0321, 99999, 123456, 3.14e31)] == ["7", "0.0321", "99999", "1.23e5", "3.1e31"]
    assert times_text(Interval(2.0, 3.04, 4.0)) == "3 s (2-4)"
    assert times_text(Interval(60.0, 300.0, 6000.0)) == "5 min (1-100)"
    assert times_text(Interval(1.0, 1e30, 1e40)) == "> 1,000 years"

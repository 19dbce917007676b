"""facthold plan from the command line: sizes as they are typed, a table that fits, and errors in one line."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from facthold._util.files import check_output
from facthold.cli.printing import amount, size_text, times_text
from facthold.plan.calibrations import KIND
from facthold.plan.laws import Interval
from facthold.plan.plan import whole_number
from facthold.recipes import fact_recipes
from facthold.theory.limits_facts import known_blocks_bits


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is always as fast and as large."""
    monkeypatch.setattr("facthold.plan.plan.product_rate", lambda: 10.0)
    monkeypatch.setattr("facthold.plan.plan.available", lambda: 16 * 2**30)


Run = Callable[..., tuple[int, str, str]]
ASKED = ["plan", "--subjects", "20", "--relations", "6", "--answers", "8"]
"""Within the calibrated range of every recipe."""


@pytest.mark.parametrize(("S", "R", "D"), [("40", "12", "16"), ("1e6", "20", "1_00"), ("1e30", "1e30", "1e30")])
def test_the_json_has_every_recipe(S: str, R: str, D: str, run: Run) -> None:
    code, out, _ = run("plan", "-S", S, "-R", R, "-D", D, "--json")
    assert code == 0
    found = json.loads(out)
    assert {row["recipe"] for row in found["recipes"]} == set(fact_recipes())
    assert found["bits"] == pytest.approx(known_blocks_bits(float(S), float(R), float(D), 0.99))
    first = found["recipes"][0]
    assert found["smallest"] == (first["recipe"] if first["obstacle"] is None else None)
    assert (found["smallest"] is None) == (S != "40")
    commands = [row["command"] for row in found["recipes"] if row["reason"] is None]
    assert all(command is None or command.startswith("facthold make --recipe ") for command in commands)


def test_the_command_of_a_plan_makes_the_model_that_was_planned(run: Run) -> None:
    _, out, _ = run(*ASKED, "--json")
    values = next(row for row in json.loads(out)["recipes"] if row["recipe"] == "values")
    code, out, _ = run(*values["command"].split()[1:], "--json")
    assert code == 0
    made = json.loads(out)
    assert made["n_params"] == values["n_params"]
    assert made["recall"] >= 0.99


@pytest.mark.parametrize("option", ["--subjects", "--relations", "--answers"])
@pytest.mark.parametrize("text", ["0", "-3", "1.5", "nan", "inf", "-inf", "many", "", "1e31", "1e400", "0x10"])
def test_a_size_that_is_none_is_one_line_with_its_option(option: str, text: str, refuses: Callable[..., str]) -> None:
    arguments = [*ASKED]
    arguments[arguments.index(option) + 1] = text
    assert option in refuses(*arguments)


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
        ([*ASKED, "--output", "o.json"], "--calibrate"),
        ([*ASKED, "--calibrate"], "--calibrate"),
        ([*ASKED, "--laws"], "--laws"),
        (["plan", "--facts", "no.csv"], "no.csv"),
    ],
)
def test_wrong_arguments_are_one_line(arguments: list[str], words: str, refuses: Callable[..., str]) -> None:
    assert words in refuses(*arguments)


def test_broken_calibrations_are_one_line(tmp_path: Path, refuses: Callable[..., str]) -> None:
    path = tmp_path / "broken.json"
    path.write_text("{")
    assert "facthold plan --calibrate" in refuses(*ASKED, "--calibrations", str(path))


@pytest.mark.parametrize(
    ("name", "text", "says", "output"),
    [
        ("my.json", '{"a": 1}', "my.json is no file of calibrations; make one: ", "calibrations.json"),
        ("calibrations.json", "{", "calibrations.json is no file of calibrations; make", "calibrations-2.json"),
        ("my.json", '{"provenance": {}}', "cannot read the calibrations my.json (no 'rows'); make them ", "my.json"),
        ("my.csv", '{"provenance": {}}', "cannot read the calibrations my.csv (no 'rows')", "calibrations.json"),
        ("my.json", None, "no calibrations at my.json; make them: ", "my.json"),
        ("no/my.json", None, "no calibrations at no/my.json; make them: ", "calibrations.json"),
    ],
)
def test_what_makes_calibrations_is_a_command_that_is_not_refused(
    name: str, text: str | None, says: str, output: str, folder: Path, refuses: Callable[..., str]
) -> None:
    if text is not None:
        (folder / name).write_text(text)
    line = refuses(*ASKED, "--calibrations", name)
    assert line.startswith(f"facthold: {says}")
    assert line.endswith(f": facthold plan --calibrate --output {output}")
    check_output(output, KIND)


def test_at_chance_no_bits_are_needed(run: Run) -> None:
    for D, accuracy in (("1", "1"), ("4", "0.25"), ("100", "0.005")):
        code, out, _ = run("plan", "-S", "10", "-R", "3", "-D", D, "--accuracy", accuracy)
        assert code == 0
        assert "no bits are needed" in out
        assert f"always the same, is right in {1 / int(D):.4%} of random facts" in " ".join(out.split())


@pytest.mark.parametrize("sizes", [("20", "6", "8"), ("1e6", "20", "100"), ("1e30", "1e30", "1e30")])
def test_the_table_fits_in_a_hundred_columns(sizes: tuple[str, ...], run: Run) -> None:
    S, R, D = sizes
    code, out, _ = run("plan", "-S", S, "-R", R, "-D", D)
    assert code == 0
    lines = out.splitlines()
    assert ("extrapolated" in out) == (S != "20")
    if S != "20":  # nothing can be built: no table, and one line for all that is out of reach
        assert sum(line.startswith("out of reach here, ") for line in lines) == 1
        assert not any(line.startswith(("recipe", "smallest")) for line in lines)
        assert lines[-1].startswith("no recipe makes such a model here")
        return
    start = next(i for i, line in enumerate(lines) if line.startswith("recipe"))
    for line in lines[start : start + 4]:
        assert len(line) <= 100
        assert "…" not in line
    assert lines[-1].startswith("smallest: ")


def test_what_can_be_built_stands_before_what_nobody_waits_for(run: Run) -> None:
    """A table for which the smallest model would take years: it is not what is recommended."""
    _, out, _ = run("plan", "-S", "20000", "-R", "20", "-D", "100", "--json")
    rows = [row for row in json.loads(out)["recipes"] if row["reason"] is None]
    reach = [row["obstacle"] is None for row in rows]
    assert reach == sorted(reach, reverse=True)
    assert 0 < sum(reach) < len(reach)
    near, far = ([row for row, can in zip(rows, reach, strict=True) if can is wanted] for wanted in (True, False))
    assert all(row["seconds"] <= 30 * 86400 and 8 * row["n_params"] <= 16 * 2**30 for row in near)
    assert all(row["seconds"] > 30 * 86400 or 8 * row["n_params"] > 16 * 2**30 for row in far)
    assert min(row["n_params"] for row in far) < near[-1]["n_params"]  # it is not the parameters alone
    assert [row["n_params"] for row in near] == sorted(row["n_params"] for row in near)
    best = rows[0]
    _, out, _ = run("plan", "-S", "20000", "-R", "20", "-D", "100")
    assert f"smallest: {best['recipe']}; facthold " in out
    hidden = next(line for line in out.splitlines() if line.startswith("out of reach here, "))
    for row, can in zip(rows, reach, strict=True):
        assert (f"{row['recipe']}* (" in hidden) == (not can)


def test_the_laws_are_printed_for_every_recipe(run: Run) -> None:
    code, out, _ = run("plan", "--laws", "--json")
    assert code == 0
    assert {law["recipe"] for law in json.loads(out)} == set(fact_recipes())
    code, out, _ = run("plan", "--laws")
    assert code == 0
    assert "Laws of facthold plan" in out


def test_a_file_of_facts_has_its_own_bits_and_refusals(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "facts.csv"
    rows = [f"s{s},r{r},a{(s * 7 + r * (s + 3)) % 5}" for s in range(12) for r in range(3)]
    path.write_text("\n".join(["subject,relation,answer", *rows]) + "\n")
    code, out, _ = run("plan", "--facts", str(path), "--json")
    assert code == 0
    found = json.loads(out)
    assert (found["subjects"], found["relations"], found["facts"]) == (12, 3, 36)
    assert 0 < found["table_bits"] <= found["facts"] * math.log2(5)
    refused = {row["recipe"]: row["reason"] for row in found["recipes"] if row["reason"]}
    assert "no sum of a part for s and a part for r" in refused["values"]
    assert str(path) in next(row["command"] for row in found["recipes"] if row["recipe"] == "gated")
    code, out, _ = run("plan", "--facts", str(path))
    assert "for one given table there is no such bound" in out


def test_sizes_are_read_exactly() -> None:
    assert whole_number("S", "1e6") == whole_number("S", "1_000_000") == whole_number("S", "1000000") == 10**6
    assert whole_number("S", "1e30") == 10**30
    assert whole_number("S", str(2**60 + 1)) == 2**60 + 1


def test_numbers_are_said_in_units_that_suit_them() -> None:
    assert [amount(n) for n in (7, 1234567, 3.1e31)] == ["7", "1,234,567", "3.1e31"]
    assert [size_text(n) for n in (12, 53_400, 7.2e8, 3e13)] == ["12 B", "53.4 kB", "720 MB", "30 TB"]
    table = [amount(n, 5) for n in (7, 0.0321, 999.7, 99999, 123456, 3.14e31)]
    assert table == ["7", "0.0321", "1,000", "99,999", "1.23e5", "3.1e31"]
    assert times_text(Interval(2.0, 3.04, 4.0)) == "3 s (2-4)"
    assert times_text(Interval(60.0, 300.0, 6000.0)) == "5 min (1-100)"
    assert times_text(Interval(1.0, 1e30, 1e40)) == "> 1,000 years"


def test_further_right_answers_are_said_to_be_among_the_answers(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "t.csv"
    path.write_text("subject,relation,answer\nFrance,capital,Paris\nFrance,capital,Lyon\nSpain,capital,Madrid\n")
    _, out, _ = run("plan", "--facts", str(path), "--on-conflict", "all")
    assert "3 in all, 1 further right one among them" in " ".join(out.split())
    assert "further right" not in run("plan", "--facts", str(path), "--on-conflict", "first")[1]

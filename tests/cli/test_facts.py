"""facthold facts: what it writes, what it says, and what it refuses."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import facthold.cli.facts  # noqa: F401 (it makes the command)
from facthold._util.errors import FactholdError
from facthold.cli.app import app
from facthold.facts.files import read_facts, write_facts
from facthold.facts.real import SOURCES, tally


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_a_file_holds_the_facts_of_the_source(ending: str, folder: Path) -> None:
    done = run("facts", "countries", "-o", f"c{ending}", "--json")
    assert done.exit_code == 0
    said, source = json.loads(done.stdout), SOURCES["countries"]
    table, p = read_facts(folder / f"c{ending}")
    assert p is None
    rows = source.facts()
    assert {key: said[key] for key in tally(rows)} == tally(rows)
    assert (said["facts"], said["subjects"], said["answers"]) == (len(table), table.S, table.A)
    assert said["licence"] == source.licence
    assert "countryinfo 1" in said["packages"]


@pytest.mark.parametrize("name", ["c.csv", "c.tsv", "c.json", "c.jsonl.gz", "c.parquet"])
def test_only_what_the_command_wrote_is_replaced(name: str, folder: Path) -> None:
    """A sample, and facts of another source too; not once a row was changed by hand, added or made longer."""
    assert run("facts", "countries", "--relations", "capital", "--subjects", "9", "-o", name).exit_code == 0
    assert run("facts", "elements", "-o", name).exit_code == 0
    assert "is there already: the new one" in run("facts", "countries", "-o", name).stderr
    rows = read_facts(folder / name)[0].to_rows()
    changed = {
        "by hand": [("France", "capital", "Lyon") if row[:2] == ("France", "capital") else row for row in rows],
        "added": [*rows, ("Atlantis", "capital", "Poseidonis")],
        "mine": [("Ann", "city", "Paris")],
    }
    for mine in changed.values():
        write_facts(folder / name, mine)
        before = (folder / name).read_bytes()
        with pytest.raises(FactholdError, match="facthold facts did not write it"):
            run("facts", "countries", "-o", name)
        assert (folder / name).read_bytes() == before


def test_what_stands_beside_the_rows_is_not_lost_either(folder: Path) -> None:
    row = {"subject": "France", "relation": "capital", "answer": "Paris", "note": "checked by me"}
    for name, text in {
        "c.json": json.dumps([row]), "c.csv": "subject,relation,answer\nFrance,capital,Paris\n\n",
    }.items():  # fmt: skip
        (folder / name).write_text(text)
        with pytest.raises(FactholdError, match="facthold facts did not write it"):
            run("facts", "countries", "-o", name)
        assert (folder / name).read_text() == text


def test_without_a_file_standard_output_is_csv_alone(folder: Path) -> None:
    done = run("facts", "countries", "--relations", "capital, official language", "--subjects", "30", "--seed", "4")
    (folder / "c.csv").write_bytes(done.stdout_bytes)
    with pytest.raises(FactholdError, match=r"on.conflict.*all"):
        read_facts(folder / "c.csv")
    table, _ = read_facts(folder / "c.csv", "all")
    assert (table.S, table.R) == (30, 2)
    several = len(set(table.also[:, 0].tolist()))
    assert several > 0
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"{len(table) + len(table.also)} facts: 30 subjects, 2 relations, {table.A} answers, ")
    assert f"{several} pairs with several answers (read them with --on-conflict first or all)" in line
    assert "countryinfo" in line
    assert "Unicode License" in line
    again = run("facts", "countries", "--relations", "capital, official language", "--subjects", "30", "--seed", "4")
    assert again.stdout_bytes == done.stdout_bytes
    other = run("facts", "countries", "--relations", "capital, official language", "--subjects", "30", "--seed", "5")
    assert other.stdout_bytes != done.stdout_bytes


def test_the_list_says_what_there_is() -> None:
    about = {source["name"]: source for source in json.loads(run("facts", "--list", "--json").stdout)}
    assert about.keys() == SOURCES.keys()
    for name, source in SOURCES.items():
        assert about[name]["installed"] == source.installed
        assert about[name]["facts"] == (len(source.facts()) if source.installed else None)
        assert about[name]["relations"] == list(source.relations)
        assert about[name]["install"].startswith("pip install 'facthold[")
    shown = run("facts", "--list").stdout
    for name in SOURCES:
        assert name in shown
    assert "CC-BY" in shown


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "which facts"),
        (["contries"], "did you mean 'countries'"),
        (["countries", "--relations", "capitol"], "unknown relation of countries 'capitol'; did you mean 'capital'"),
        (["countries", "--relations", "capital,,region"], "an empty name"),
        (["countries", "-o", "facts.xls"], r"facts.xls: .*end in \.csv"),
        (["countries", "-o", "folder.csv"], "folder.csv is a folder"),
        (["countries", "-o", "file/facts.csv"], "there is no folder file"),
        (["countries", "--subjects", "0"], "--subjects 0 must be at least 1"),
        (["countries", "--subjects", "300"], "--subjects 300.* there are [0-9]+"),
        (["countries", "--seed", "3"], "--seed 3 says which sample"),
        (["countries", "--json"], "give a file with --output"),
        (["countries", "--list"], "NAME=countries does not go with --list"),
    ],
)
def test_what_cannot_be_is_refused(arguments: list[str], says: str, folder: Path) -> None:
    (folder / "folder.csv").mkdir()
    (folder / "file").write_text("")
    with pytest.raises((ValueError, FactholdError), match=says) as error:
        run("facts", *arguments)
    assert "\n" not in str(error.value)
    assert sorted(path.name for path in folder.iterdir()) == ["file", "folder.csv"]


@pytest.mark.parametrize(("output", "ending"), [(".csv", ".csv"), (".JSON.gz", ".JSON.gz"), ("there/.tsv", ".tsv")])
def test_an_ending_alone_is_no_name(output: str, ending: str, folder: Path, refuses: Callable[..., str]) -> None:
    (folder / "there").mkdir()
    named = output.replace(ending, f"facts{ending}")
    says = f"facthold: {output}: a name before the ending {ending} is missing; write one, such as {named}"
    assert refuses("facts", "elements", "-o", output) == says
    (folder / output).touch()
    assert refuses("build", output, "-o", "m") == says
    assert "whose names end in .csv" in refuses("facts", "elements", "-o", "csv")

"""facthold explore: what it writes, what it says, and what it refuses."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import facthold as fh
from facthold._util.files import PAGE, kind_of
from facthold.construct.linear import outer_product
from facthold.knowledge.model import Model
from facthold.memory.associations import seeded_problem
from known import countries

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def files(folder: Path) -> Path:
    Model(*countries()).save(folder / "m.safetensors")
    problem = seeded_problem(4, 0, 4)
    fh.save_model(folder / "memory.safetensors", outer_product(problem), problem)
    (folder / "notes.txt").write_text("dear diary\n")
    return folder


def test_a_model_becomes_a_page(files: Path, run: Run) -> None:
    code, out, err = run("explore", "m.safetensors", "-o", "page.html")
    assert code == 0, err
    size = (files / "page.html").stat().st_size
    assert f"page.html: {size:,} bytes, with a model of 28 facts in it" in out
    assert kind_of(files / "page.html") == PAGE
    assert "facthold explore m.safetensors --output page.html" in (files / "page.html").read_text()
    code, out, err = run("explore", "m.safetensors", "-o", "page.html", "--json")
    assert json.loads(out) == {"file": "page.html", "file_bytes": size, "facts": 28, "recall": 1.0}
    assert "page.html is there already: the new one takes its place" in err


def test_without_a_model_the_countries_are_built_and_that_is_said(files: Path, run: Run) -> None:
    code, out, err = run("explore", "--relations", "region", "--subjects", "12", "-o", "page.html")
    assert code == 0, err
    assert "no MODEL is given: one of 12 facts of countries is built" in err
    assert "with a model of 12 facts in it" in out
    page = (files / "page.html").read_text()
    assert "countryinfo" in page
    assert "facthold explore --relations region --subjects 12 --output page.html" in page


def test_without_the_package_of_countries_it_says_what_to_install(
    files: Path, monkeypatch: pytest.MonkeyPatch, refuses: Callable[..., str]
) -> None:
    monkeypatch.setattr("facthold.facts.real.find_spec", lambda name: None if name == "countryinfo" else object())
    line = refuses("explore", "-o", "page.html")
    assert "the facts of countries need countryinfo: pip install 'facthold[facts]'" in line


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("nothing.safetensors -o page.html", "no such model file: nothing.safetensors"),
        ("notes.txt -o page.html", "notes.txt is not a facthold model"),
        ("memory.safetensors -o page.html", "memory.safetensors holds a LinearMemory, which has no facts"),
        ("m.safetensors -o m.safetensors", "--output m.safetensors is the input m.safetensors itself"),
        ("m.safetensors -o notes.txt", "notes.txt is there already, and is text; a report would take its place"),
        ("m.safetensors -o page.csv", "page.csv ends in .csv, and what is written is a report"),
        ("m.safetensors --subjects 3 -o page.html", "--subjects 3 does not go with a MODEL"),
        ("--seed 3 -o page.html", "--seed 3 says which sample; give its size, --subjects"),
        ("--relations magic -o page.html", "unknown relation of countries 'magic'"),
    ],
)
def test_what_is_wrong_is_said_in_a_line_and_nothing_is_written(
    arguments: str, says: str, files: Path, refuses: Callable[..., str]
) -> None:
    before = {path.name: path.read_bytes() for path in files.iterdir()}
    assert says in refuses("explore", *arguments.split())
    assert {path.name: path.read_bytes() for path in files.iterdir()} == before

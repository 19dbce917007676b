"""Outputs never destroy inputs: one rule for every command, tried before anything is computed."""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from facthold._util.errors import FactholdError
from facthold._util.files import (
    EMPTY,
    GIF,
    JSON,
    MODEL,
    OTHER,
    PAGE,
    PARQUET,
    PNG,
    STORE,
    SVG,
    TEXT,
    kind_of,
    table_of,
    writing,
)
from facthold.knowledge.model import Model
from known import countries

Run = Callable[..., tuple[int, str, str]]
FACTS = "subject,relation,answer\nFrance,capital,Paris\nItaly,capital,Rome\n"
QUESTIONS = "subject,relation\nFrance,capital\n"


@pytest.fixture
def files(folder: Path) -> dict[str, bytes]:
    """What a user has: each with its contents, which must stay."""
    Model(*countries()).save(folder / "m.safetensors")
    (folder / "t.csv").write_text(FACTS)
    (folder / "q.csv").write_text(QUESTIONS)
    (folder / "edits.csv").write_text("subject,relation,answer\nGhana,continent,Asia\n")
    (folder / "notes.txt").write_text("dear diary\n")
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(40))
    sqlite3.connect(folder / "facthold-results.sqlite").execute("CREATE TABLE mine (x)")
    return {path.name: path.read_bytes() for path in folder.iterdir()}


COMMANDS = {
    "build": ["build", "t.csv"],
    "edit": ["edit", "m.safetensors", "Ghana", "continent", "Asia"],
    "edit --file": ["edit", "m.safetensors", "--file", "edits.csv"],
    "make": ["make", "-N", "4", "-d", "4"],
    "make --facts": ["make", "--recipe", "values", "--facts", "t.csv", "-d", "12"],
    "ask": ["ask", "m.safetensors", "--file", "q.csv"],
    "facts": ["facts", "elements"],
    "watch": ["watch", "t.csv", "--steps", "1"],
    "results": ["results", "--csv", "--store", "facthold-results.sqlite"],
    "bits": ["bits", "m.safetensors", "--bits", "8"],
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "output", ["t.csv", "q.csv", "edits.csv", "m.safetensors", "notes.txt", "picture.png", "facthold-results.sqlite"]
)
def test_no_command_writes_over_a_file_of_another_kind_or_over_what_it_reads(
    command: str, output: str, files: dict[str, bytes], folder: Path, run: Run
) -> None:
    own = {"make": "m.safetensors", "make --facts": "m.safetensors", "build": "m.safetensors", "facts": "t.csv"}
    if own.get(command) == output or (command == "facts" and output == "edits.csv"):
        return  # an older output of the same kind
    code, _, err = run(*COMMANDS[command], "-o", output)
    assert code != 0, err
    assert err.strip(), command
    for name, contents in files.items():
        assert (folder / name).read_bytes() == contents, name
    assert {path.name for path in folder.iterdir()} <= {*files, "t.csv.csv", "t.csv.gif"}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_mistyped_folder_is_not_made(command: str, files: dict[str, bytes], folder: Path, run: Run) -> None:
    code, _, err = run(
        *COMMANDS[command], "-o", "ouptut/new.csv" if command in ("ask", "facts", "results") else "ouptut/new"
    )
    assert code == 2
    assert "there is no folder ouptut" in err or command == "results", err
    assert not (folder / "ouptut").exists()


@pytest.mark.parametrize("arguments", [["figure", "fig5"], ["reproduce", "fig5"]])
def test_a_folder_may_be_new_and_the_one_that_it_is_in_may_not(arguments: list[str], folder: Path, run: Run) -> None:
    code, _, err = run(*arguments, "--preset", "smoke", "-o", "no/such")
    assert code == 2
    assert "cannot make the folder no/such: there is no no" in err
    code, _, err = run("verify", "gradient-step", "--preset", "smoke", "--store", "no/such.sqlite")
    assert code == 2
    assert "there is no folder no" in err


def test_an_older_output_of_the_same_kind_is_replaced_and_that_is_said(
    files: dict[str, bytes], folder: Path, run: Run
) -> None:
    code, _, err = run("make", "-N", "4", "-d", "4", "-o", "m.safetensors")
    assert code == 0, err
    assert "m.safetensors is there already: the new one takes its place" in err
    assert (folder / "m.safetensors").read_bytes() != files["m.safetensors"]
    assert "already" not in run("make", "-N", "4", "-d", "4", "-o", "new.safetensors")[2]


def test_links_to_an_input_are_the_input(files: dict[str, bytes], folder: Path, run: Run) -> None:
    (folder / "link.safetensors").symlink_to("m.safetensors")
    os.link(folder / "m.safetensors", folder / "hard.safetensors")
    for name in ("link.safetensors", "hard.safetensors", "./m.safetensors"):
        code, _, err = run("edit", "m.safetensors", "Ghana", "continent", "Asia", "-o", name)
        assert code == 2
        assert "which would be lost; give another name" in err
    assert (folder / "m.safetensors").read_bytes() == files["m.safetensors"]


KINDS = {
    b"": EMPTY, b"SQLite format 3\0rest": STORE, b"PAR1....": PARQUET, b"GIF89a": GIF, b"\x89PNG\r\n": PNG,
    b"<?xml version='1.0'?>": SVG, b"<!DOCTYPE html>": PAGE, b' {"a": 1}': JSON, b"[1]": JSON, b"dear diary": TEXT,
    b"a,b\n1,2": table_of(["a", "b"]), "\ufeffa, b\n".encode(): table_of(["a", "b"]), b"a\tb\n": table_of(["a", "b"]),
    b"\xff\xfe\x00a": OTHER, b"text with \0": OTHER,
    b"key,kind,version,spec.d\n": table_of(["key", "kind", "version"]),
}  # fmt: skip


@pytest.mark.parametrize("contents", KINDS)
def test_the_kind_of_a_file_is_in_its_first_bytes(contents: bytes, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(contents)
    assert kind_of(tmp_path / "x") == KINDS[contents]


def test_a_model_is_known_by_its_header(files: dict[str, bytes], folder: Path) -> None:
    assert kind_of(folder / "m.safetensors") == MODEL


def test_what_fails_half_way_leaves_the_older_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("{}")

    def write(kind: str) -> None:
        with writing(path, kind) as stream:
            stream.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write(JSON)
    assert path.read_text() == "{}"
    with pytest.raises(FactholdError, match="is there already, and is JSON; a GIF would take its place"):
        write(GIF)
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]

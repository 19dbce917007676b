"""Outputs never destroy inputs: one rule for every command, tried before anything is computed."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

import facthold as fh
from facthold._util.errors import FactholdError
from facthold._util.files import (
    EMPTY,
    GENERATOR,
    GIF,
    MODEL,
    OF_FACTS,
    OF_MAP,
    OF_TEXT,
    OTHER,
    PAGE,
    PARQUET,
    PNG,
    STORE,
    SVG,
    TEXT,
    json_of,
    kind_of,
    table_of,
    writing,
)
from facthold.knowledge.model import Model
from facthold.lab.export import to_parquet
from facthold.lab.store import Store
from facthold.memory.associations import seeded_problem
from facthold.recipes import make_memory
from known import countries

Run = Callable[..., tuple[int, str, str]]
FACTS = "subject,relation,answer\nFrance,capital,Paris\nItaly,capital,Rome\nFrance,food,bread\nItaly,food,pasta\n"
QUESTIONS = "subject,relation\nFrance,capital\n"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A model of each kind: of facts, of associations, of a text."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "text").write_text("the cat sat on the mat " * 9)
    Model(*countries()).save(folder / "m.safetensors")
    problem = seeded_problem(4, 0, 4)
    fh.save_model(folder / "memory.safetensors", make_memory("outer-product", problem), problem)
    fh.induction(folder / "text", K=1, T=8, d=8, built=True).save(folder / "head.safetensors")
    return {path.name: path.read_bytes() for path in folder.glob("*.safetensors")}


@pytest.fixture
def files(models: dict[str, bytes], folder: Path) -> dict[str, bytes]:
    """What a user has: each with its contents, which must stay."""
    for name, contents in models.items():
        (folder / name).write_bytes(contents)
    (folder / "t.csv").write_text(FACTS)
    (folder / "q.csv").write_text(QUESTIONS)
    (folder / "log.csv").write_text("step,loss,accuracy\n1,0.5,0.9\n")
    (folder / "edits.csv").write_text("subject,relation,answer\nGhana,continent,Asia\n")
    (folder / "notes.txt").write_text("dear diary\n")
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(40))
    (folder / "package.json").write_text('{"name": "mine", "version": "1.0.0"}')
    (folder / "llama.safetensors").write_bytes(_foreign())
    sqlite3.connect(folder / "mine.sqlite").execute("CREATE TABLE mine (x)")
    Store(folder / "facthold-results.sqlite").close()
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _foreign() -> bytes:
    """The weights of somebody else's model."""
    return save({"model.embed_tokens.weight": np.zeros((4, 4), np.float32)}, {"format": "pt"})


COMMANDS = {
    "build": ["build", "t.csv"],
    "edit": ["edit", "m.safetensors", "Ghana", "continent", "Asia"],
    "edit --file": ["edit", "m.safetensors", "--file", "edits.csv"],
    "make": ["make", "-N", "4", "-d", "4"],
    "make --facts": ["make", "--recipe", "values", "--facts", "t.csv", "-d", "12"],
    "ask": ["ask", "m.safetensors", "--file", "q.csv"],
    "facts": ["facts", "elements"],
    "explore": ["explore", "m.safetensors"],
    "watch": ["watch", "t.csv", "--steps", "1"],
    "watch --induction": ["watch", "--induction", "notes.txt", "--steps", "1"],
    "induction": ["induction", "notes.txt", "--built", "-K", "1", "-T", "8", "-d", "8"],
    "results": ["results", "--csv", "--store", "facthold-results.sqlite"],
    "bits": ["bits", "m.safetensors", "--bits", "8"],
    "plan": ["plan", "--calibrate", "--store", "new.sqlite"],
}


THEIRS = (
    "t.csv", "q.csv", "edits.csv", "log.csv", "m.safetensors", "memory.safetensors", "head.safetensors",
    "llama.safetensors", "notes.txt", "picture.png", "package.json", "mine.sqlite", "facthold-results.sqlite",
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("output", THEIRS)
def test_no_command_writes_over_a_file_of_another_kind_or_over_what_it_reads(
    command: str, output: str, files: dict[str, bytes], folder: Path, run: Run
) -> None:
    own = {
        "make": "memory.safetensors", "make --facts": "m.safetensors", "build": "m.safetensors",
        "induction": "head.safetensors",
    }  # fmt: skip
    if own.get(command) == output:
        return  # an older output of the same kind
    if command.startswith("watch") and not output.endswith(".csv"):
        return  # it writes NAME.csv and NAME.gif
    code, _, err = run(*COMMANDS[command], "-o", output)
    assert code == 2, err
    assert "would be lost" in err or "would take its place" in err or "whose names end in" in err, err
    for name, contents in files.items():
        assert (folder / name).read_bytes() == contents, name
    assert {path.name for path in folder.iterdir()} <= {*files, "t.csv.csv", "t.csv.gif"}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_mistyped_folder_is_not_made(command: str, files: dict[str, bytes], folder: Path, run: Run) -> None:
    code, _, err = run(
        *COMMANDS[command], "-o", "ouptut/new.csv" if command in ("ask", "facts", "results") else "ouptut/new"
    )
    assert code == 2
    assert "there is no folder ouptut" in err, err
    assert not (folder / "ouptut").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan", "--calibrate", "-o", "c.json", "--store", "c.json"],
        ["plan", "--calibrate", "-o", "link", "--store", "new.sqlite"],
        ["plan", "--calibrate", "-o", "./facthold-results.sqlite"],
        ["reproduce", "fig6", "--preset", "smoke", "-o", "out", "--store", "out/results.json"],
        ["reproduce", "fig6", "--preset", "smoke", "-o", "new", "--store", "new"],
        ["figure", "fig6", "--preset", "smoke", "-o", "out", "--store", "out/../out/fig6-smoke.png"],
    ],
)
def test_two_outputs_of_one_name_are_refused_before_anything_is_computed(
    arguments: list[str], folder: Path, refuses: Callable[..., str]
) -> None:
    (folder / "out").mkdir()
    (folder / "link").symlink_to("new.sqlite")
    assert "and one would be lost; give another name" in refuses(*arguments)
    assert sorted(path.name for path in folder.rglob("*")) == ["link", "out"]


def test_an_answer_may_have_the_name_of_the_output(files: dict[str, bytes], folder: Path, run: Run) -> None:
    code, _, err = run("edit", "m.safetensors", "Ghana", "continent", "Asia", "-o", "Asia")
    assert code == 0, err


@pytest.mark.parametrize("command", COMMANDS)
def test_a_name_that_ends_in_a_slash_is_no_file(
    command: str, files: dict[str, bytes], folder: Path, refuses: Callable[..., str]
) -> None:
    line = refuses(*COMMANDS[command], "-o", "newfolder/")
    assert "newfolder/ would be a folder; give the name of a file" in line
    assert not (folder / "newfolder").exists()


def test_a_model_does_not_go_where_the_report_goes(files: dict[str, bytes], folder: Path) -> None:
    """To a pipe, or to a file that standard output was sent to: both would be one stream."""
    arguments = [sys.executable, "-m", "facthold", "make", "-N", "5", "-d", "4", "-o", "/dev/stdout"]
    done = subprocess.run(arguments, capture_output=True, cwd=folder)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"--output /dev/stdout is where this command says what it did; give the name of a file" in done.stderr
    with (folder / "said").open("wb") as said:
        done = subprocess.run([*arguments[:-1], "said"], stdout=said, stderr=subprocess.PIPE, cwd=folder)
    assert (done.returncode, (folder / "said").read_bytes()) == (2, b"")


@pytest.mark.parametrize("arguments", [["figure", "fig5"], ["reproduce", "fig5"]])
def test_a_folder_may_be_new_and_the_one_that_it_is_in_may_not(arguments: list[str], folder: Path, run: Run) -> None:
    code, _, err = run(*arguments, "--preset", "smoke", "-o", "no/such")
    assert code == 2
    assert "cannot make the folder no/such: there is no no" in err
    code, _, err = run("verify", "gradient-step", "--preset", "smoke", "--store", "no/such.sqlite")
    assert code == 2
    assert "there is no folder no" in err


@pytest.mark.parametrize("arguments", [["figure", "fig5"], ["reproduce", "fig5"]])
def test_a_new_folder_is_made_when_there_is_something_to_put_into_it(
    arguments: list[str], folder: Path, run: Run
) -> None:
    (folder / "damaged.sqlite").write_bytes(b"SQLite format 3\0" + bytes(200))
    code, _, err = run(*arguments, "--preset", "smoke", "-o", "pictures", "--store", "damaged.sqlite")
    assert code == 2, err
    assert not (folder / "pictures").exists()
    (folder / "note.txt").write_text("mine")
    code, _, err = run(*arguments, "--preset", "smoke", "-o", "note.txt")
    assert code == 2
    assert "note.txt is a file, not a folder" in err


def test_an_older_output_of_the_same_kind_is_replaced_and_that_is_said(
    files: dict[str, bytes], folder: Path, run: Run
) -> None:
    code, _, err = run("make", "-N", "5", "-d", "4", "-o", "memory.safetensors")
    assert code == 0, err
    assert "memory.safetensors is there already: the new one takes its place" in err
    assert (folder / "memory.safetensors").read_bytes() != files["memory.safetensors"]
    assert "already" not in run("make", "-N", "4", "-d", "4", "-o", "new.safetensors")[2]


def test_what_is_replaced_behind_a_link_is_named(files: dict[str, bytes], folder: Path, run: Run) -> None:
    (folder / "link").symlink_to("memory.safetensors")
    code, _, err = run("make", "-N", "5", "-d", "4", "-o", "link")
    assert code == 0, err
    behind = folder.resolve() / "memory.safetensors"
    assert f"link, a link to {behind}, is there already: the new one takes its place" in err
    assert (folder / "link").is_symlink()
    assert (folder / "memory.safetensors").read_bytes() != files["memory.safetensors"]


def test_who_may_read_a_file_stays_so_when_it_is_replaced(files: dict[str, bytes], folder: Path, run: Run) -> None:
    (folder / "memory.safetensors").chmod(0o640)
    assert run("make", "-N", "5", "-d", "4", "-o", "memory.safetensors")[0] == 0
    assert (folder / "memory.safetensors").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("command", COMMANDS)
def test_a_dash_is_no_file(command: str, files: dict[str, bytes], folder: Path, refuses: Callable[..., str]) -> None:
    assert "would be a file of that name; give another" in refuses(*COMMANDS[command], "-o", "-")
    assert not list(folder.glob("-*"))


@pytest.mark.parametrize("arguments", [["figure", "fig5"], ["reproduce", "fig5"]])
def test_a_dry_run_refuses_the_outputs_that_the_run_would(
    arguments: list[str], files: dict[str, bytes], refuses: Callable[..., str]
) -> None:
    assert "t.csv is a file, not a folder" in refuses(*arguments, "--preset", "smoke", "--dry-run", "-o", "t.csv")
    if arguments[0] == "reproduce":
        assert "is not a facthold model" in refuses(
            *arguments, "--preset", "smoke", "--dry-run", "--model", "llama.safetensors"
        )


OTHERS = [
    (["build", "t.csv", "-o", "y.csv"], "y.csv ends in .csv, and what is written is a model", ".safetensors"),
    (["edit", "m.safetensors", "Ghana", "continent", "Asia", "-o", "new.json"], "is a model", ".safetensors"),
    (["make", "-N", "4", "-d", "4", "-o", "m.sqlite"], "is a model", ".safetensors"),
    (["make", "-N", "4", "-d", "4", "-o", "m.safetensors.gz"], "ends in .gz, and", ".safetensors"),
    (["bits", "m.safetensors", "--bits", "8", "-o", "m.PNG"], "ends in .png, and", ".safetensors"),
    ([*COMMANDS["induction"], "-o", "x.csv"], "is a model", ".safetensors"),
    (["results", "--parquet", "-o", "r.csv"], "is a Parquet file", ".parquet"),
    (["results", "--csv", "-o", "r.parquet"], "is a table that begins with the columns key", ".csv"),
    (["results", "--csv", "-o", "r.tsv"], "ends in .tsv, and what is written is a table", ".csv"),
    (["results", "--csv", "-o", "r.csv.gz"], "ends in .gz, and what is written is a table", ".csv"),
    (["ask", "m.safetensors", "--file", "q.csv", "-o", "a.html"], "is a table with the columns", ".csv"),
    (["ask", "m.safetensors", "--file", "q.csv", "-o", "a.xlsx"], "a.xlsx ends in .xlsx, and what is written", ".csv"),
    (["results", "--csv", "-o", "r.XLS"], "ends in .xls, and what is written is a table", ".csv"),
    (["make", "-N", "4", "-d", "4", "-o", "m.zip"], "ends in .zip, and what is written is a model", ".safetensors"),
    (["watch", "t.csv", "--steps", "1", "-o", "w.pdf"], "is a GIF and a table", ".gif"),
    (["figure", "fig5", "--preset", "smoke", "-o", "fig5.pdf"], "is a folder; give a name without that", ""),
    (["plan", "--calibrate", "-o", "c.docx"], "is JSON that begins with", ".json or .jsonl or .ndjson"),
    (["plan", "--calibrate", "-o", "c.csv"], "is JSON that begins with", ".json or .jsonl or .ndjson"),
    (["watch", "t.csv", "--steps", "1", "-o", "w.png"], "is a GIF and a table", ".gif"),
    (["figure", "fig5", "--preset", "smoke", "-o", "fig5.png"], "is a folder; give a name without that", ""),
    (["reproduce", "fig5", "--preset", "smoke", "-o", "r.html"], "is a folder; give a name without that", ""),
    (
        ["verify", "gradient-step", "--preset", "smoke", "--store", "r.csv"],
        "is a store of results",
        ".sqlite or .sqlite3 or .db",
    ),
]


@pytest.mark.parametrize(("arguments", "says", "expected"), OTHERS, ids=lambda given: " ".join(given)[:40])
def test_the_ending_of_another_kind_is_refused_before_anything_is_computed(
    arguments: list[str], says: str, expected: str, files: dict[str, bytes], folder: Path, refuses: Callable[..., str]
) -> None:
    line = refuses(*arguments)
    assert says in line
    assert line.endswith(f"a name that ends in {expected}" if expected else says)
    assert {path.name for path in folder.iterdir()} == set(files)


@pytest.mark.parametrize("name", ["zero.safetensors", "zero.csv", "zero.PNG"])
def test_an_empty_file_with_the_ending_of_another_kind_becomes_no_store(
    name: str, folder: Path, refuses: Callable[..., str]
) -> None:
    (folder / name).touch()
    line = refuses("capacity", "-d", "4", "--store", name)
    assert line.startswith(f"facthold: --store {name} ends in {Path(name).suffix.lower()}, and what is written is a")
    assert (folder / name).read_bytes() == b""
    assert "it is empty; compute something first" in refuses("results", "--store", name)
    (folder / "zero.sqlite").touch()
    Store("zero.sqlite").close()  # its own ending, or one that says nothing
    (folder / "zero").touch()
    Store("zero").close()


@pytest.mark.parametrize("name", ["m", "m.bak", "m.safetensors.old", "m.SAFETENSORS", "model.v1.2", ".csv", "m.csv."])
def test_any_other_ending_is_free(name: str, folder: Path, run: Run) -> None:
    code, _, err = run("make", "-N", "4", "-d", "4", "-o", name)
    assert code == 0, err
    assert kind_of(folder / name) == OF_MAP


def test_python_refuses_the_ending_of_another_kind_too(tmp_path: Path) -> None:
    with pytest.raises(
        FactholdError, match=r"ends in .json, and what is written is a model of facts; .* .safetensors$"
    ):
        Model(*countries()).save(tmp_path / "m.json")
    assert not list(tmp_path.iterdir())


OLDER = {  # an output of its own kind that each command may write over
    "build": "m.safetensors", "edit": "older.safetensors", "make": "memory.safetensors",
    "make --facts": "m.safetensors", "ask": "answers.csv", "facts": "elements.csv", "watch": "run.csv",
    "induction": "head.safetensors", "results": "results.csv", "bits": "older.safetensors",
}  # fmt: skip


@pytest.fixture
def older(files: dict[str, bytes], folder: Path, run: Run) -> None:
    (folder / "older.safetensors").write_bytes(files["m.safetensors"])
    (folder / "answers.csv").write_text("subject,relation,answer,margin,probability,right\n")
    (folder / "run.csv").write_text("step,loss,relation_loss,subject_loss\n")
    (folder / "elements.csv").write_text("subject,relation,answer\nHydrogen,symbol,H\n")
    (folder / "results.csv").write_text("key,kind,version\n")


@pytest.mark.parametrize("command", OLDER)
def test_every_command_says_what_it_replaces(command: str, older: None, run: Run) -> None:
    code, _, err = run(*COMMANDS[command], "-o", OLDER[command])
    assert code == 0, err
    assert f"{OLDER[command]} is there already: the new one takes its place" in err


@pytest.mark.parametrize(
    "arguments",
    [
        "build t.csv -o m.safetensors --recipe magic", "build t.csv -o m.safetensors --variant magic",
        "build t.csv -o m.safetensors --accuracy 2", "build t.csv -o m.safetensors -T 1",
        "build nothing.csv -o m.safetensors", "build t.csv -o m.safetensors --max-params 0",
        "induction notes.txt -K 18 -o head.safetensors", "induction notes.txt --triggers Z -o head.safetensors",
        "induction notes.txt -T 3 -o head.safetensors", "induction notes.txt --prompt Z -o head.safetensors",
        "induction nothing.txt -o head.safetensors", "watch --induction nothing.txt -o run.csv",
        "watch t.csv --question nothing -o run.csv", "watch t.csv --steps 0 -o run.csv",
        "make --map magic -o memory.safetensors", "make --recipe values --facts nothing.csv -o m.safetensors",
        "edit m.safetensors Atlantis capital x -o older.safetensors", "ask nothing --file q.csv -o answers.csv",
        "ask m.safetensors --file nothing.csv -o answers.csv", "facts elements --relations magic -o elements.csv",
        "facts elements -o t.csv",
        "bits nothing.safetensors -o memory.safetensors", "results --csv --kind magic -o results.csv",
    ],
)  # fmt: skip
def test_nothing_is_announced_of_what_is_refused(arguments: str, older: None, run: Run) -> None:
    code, out, err = run(*arguments.split())
    assert (code, out) == (2, "")
    lines = [line for line in err.splitlines() if not line.startswith("counting the characters of")]
    assert len(lines) == 1, err


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
    b"<?xml version='1.0'?>": SVG, f"<!DOCTYPE html><head>{GENERATOR}".encode(): PAGE, b"dear diary": TEXT,
    b"<!doctype html><title>mine</title>": "a page that facthold did not write", "\ufeff".encode(): EMPTY,
    b' {"a": 1}': json_of("a"), b'[\n{"subject": "x"}]': json_of("subject"), b"[1]": "JSON", b"{}": "JSON",
    b'{"a \\"b\\"": 1}': json_of('a \\"b\\"'), b'["a", {"b": 1}]': "JSON",
    b"a,b\n1,2": table_of(["a", "b"]), "\ufeffa, b\n".encode(): table_of(["a", "b"]),
    b"a\tb\n": table_of(["a", "b"], "\t"), b"\xff\xfe\x00a": OTHER, b"text with \0": OTHER,
    b"key,kind,version,spec.d\n": table_of(["key", "kind", "version"]),
}  # fmt: skip


@pytest.mark.parametrize("contents", KINDS)
def test_the_kind_of_a_file_is_in_its_first_bytes(contents: bytes, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(contents)
    assert kind_of(tmp_path / "x") == KINDS[contents]


def test_parquet_is_known_by_its_columns(folder: Path, run: Run) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"salary": [1, 2]}), "s.parquet")
    own = Path("s.parquet").read_bytes()
    code, _, err = run("facts", "countries", "--subjects", "3", "-o", "s.parquet")
    assert code == 2
    assert "is a Parquet file with the columns salary" in err
    assert Path("s.parquet").read_bytes() == own
    for n in (3, 2):  # one of facts may be replaced
        assert run("facts", "countries", "--subjects", str(n), "-o", "f.parquet")[0] == 0
    with pytest.raises(FactholdError, match="with the columns subject, relation, answer"):
        to_parquet([], "f.parquet")


def test_a_model_is_known_by_its_header(files: dict[str, bytes], folder: Path) -> None:
    kinds = {"m": OF_FACTS, "memory": OF_MAP, "head": OF_TEXT, "llama": OTHER}
    for name, kind in kinds.items():
        assert kind_of(folder / f"{name}.safetensors") == kind
    older = files["m.safetensors"].replace(b'\\"model\\"', b'\\"wodel\\"')  # one that says it elsewhere, if at all
    (folder / "older").write_bytes(older)
    assert kind_of(folder / "older") == MODEL
    with writing(folder / "older", OF_TEXT) as stream:
        stream.write(b"any model may take its place")


def test_a_report_and_its_numbers_take_the_place_of_their_own_kind_alone(folder: Path, run: Run) -> None:
    """Before anything is computed: the store is not even made."""
    command = ("reproduce", "fig5", "--preset", "smoke", "-o", "out")
    (folder / "out").mkdir()
    for name, mine in (("report.html", "<!doctype html><title>mine</title>"), ("results.json", '{"name": "mine"}')):
        (folder / "out" / name).write_text(mine)
        code, _, err = run(*command)
        assert code == 2
        assert f"{name} is there already" in err
        assert (folder / "out" / name).read_text() == mine
        assert not (folder / "facthold-results.sqlite").exists()
        (folder / "out" / name).unlink()
    (folder / "out" / "fig5-smoke.svg").write_text("dear diary")
    code, _, err = run("figure", "fig5", "--preset", "smoke", "-o", "out")
    assert code == 2
    assert "fig5-smoke.svg is there already, and is text" in err


@pytest.mark.slow
def test_what_a_figure_replaces_is_said(folder: Path, run: Run) -> None:
    command = ("figure", "fig5", "--preset", "smoke", "-o", "out")
    code, _, err = run(*command)
    assert code == 0, err
    assert "already" not in err
    code, _, err = run(*command, "--plot-only")
    assert code == 0
    assert "out/fig5-smoke.png, out/fig5-smoke.svg are there already: the new ones take their place" in err


def test_what_fails_half_way_leaves_the_older_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("{}")

    def write(kind: str) -> None:
        with writing(path, kind) as stream:
            stream.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write("JSON")
    assert path.read_text() == "{}"
    with pytest.raises(FactholdError, match="is there already, and is JSON; a GIF would take its place"):
        write(GIF)
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]


def test_a_name_that_no_disk_takes_and_links_in_a_circle_are_one_line(folder: Path, run: Run) -> None:
    (folder / "a.csv").symlink_to("b.csv")
    (folder / "b.csv").symlink_to("a.csv")
    (folder / "gone.csv").symlink_to(folder / "gone" / "x.csv")
    for output in ("a.csv", "gone.csv", "x" * 300 + ".csv", "é" * 120 + ".csv"):
        code, _, err = run("facts", "elements", "-o", output)
        assert code == 2
        assert len(err.splitlines()) == 1, err
        assert "defect" not in err


def test_a_hidden_file_of_the_users_is_no_kept_try(files: dict[str, bytes], folder: Path, run: Run) -> None:
    (folder / ".new.safetensors.kept").write_text("mine")
    run("build", "t.csv", "-o", "new.safetensors")
    assert (folder / ".new.safetensors.kept").read_text() == "mine"

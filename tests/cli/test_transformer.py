"""facthold transformer and facthold fact-capacity: what they say, what they save, and what they refuse."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest
from typer.testing import CliRunner

import facthold.cli.construct
import facthold.cli.transformer  # noqa: F401 (both make commands)
from facthold._util.errors import FactholdError
from facthold.cli.app import app
from facthold.facts.problem import FactualRecall
from facthold.measure.fact_recall import fact_accuracy
from facthold.models import Transformer, load_model

PROGRAM = [sys.executable, "-m", "facthold"]
SMALL = ("-d", "16", "--heads", "2", "-m", "64", "-T", "8")
CSV = "subject,relation,answer,p\nFrance,capital,Paris,0.5\nItaly,capital,Rome,0.25\nVatican,seat,Rome,0.25\n"


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *arguments], cwd=cwd, env=os.environ.copy(), capture_output=True, text=True, timeout=300
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in {"good": CSV, "half": CSV.replace("0.5", "0.4"), "two": CSV + "Italy,capital,Milan,0\n"}.items():
        (tmp_path / f"{name}.csv").write_text(text)
    return tmp_path


def test_a_transformer_is_trained_saved_and_asked_again(tmp_path: Path) -> None:
    arguments = ("transformer", "-S", "6", "-R", "3", "-D", "2", "--table", "balanced", *SMALL, "--zipf", "0.5", "0")
    done = run(*arguments, "--goal", "1", "--save", "deep/t.safetensors", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["facts"], said["A"], said["D"], said["max_C"], said["assumption_1"]) == (18, 6, 2, 3, True)
    assert (said["d_h"], said["m"], said["T"], said["n_noise"]) == (8, 64, 8, 9)
    assert said["n_params"] == 4 * 2 * 8 * 16 + 2 * 64 * 16
    assert said["facts_per_param"] == 18 / said["n_params"]
    assert said["status"] == "reached"
    assert said["best"] == said["final"] == 1.0
    assert said["lr"] in (1e-3, 3e-3, 1e-2)
    assert said["steps"] % 64 == 0
    model, problem = load_model(tmp_path / said["file"])
    assert isinstance(model, Transformer)
    assert isinstance(problem, FactualRecall)
    assert (model.scaled, problem.outputs) == (True, "answers")
    assert problem.p is not None
    assert fact_accuracy(model, problem, key=jax.random.key(0)) > 0.8  # fresh noise, 18 facts


def test_facts_of_a_file_in_words(folder: Path) -> None:
    arguments = ("transformer", "--facts", "good.csv", *SMALL, "--noise", "3", "--variant", "text", "--goal", "0.6")
    done = CliRunner().invoke(app, [*arguments, "--save", "t.safetensors"])
    assert done.exit_code == 0, done.exception
    assert "of 3 facts recalled" in done.stdout
    assert "S=3, R=2, 2 answers, D=2, max C(a)=2" in done.stdout
    assert "assumption 1 does not hold" in done.stdout
    assert "model: t.safetensors" in done.stdout
    model, problem = load_model(folder / "t.safetensors")
    assert isinstance(problem, FactualRecall)
    assert (model.scaled, problem.outputs, problem.n_noise) == (False, "vocabulary", 3)
    assert problem.table.labels is not None
    assert problem.table.labels.answers == ("Paris", "Rome")
    assert problem.p is not None
    assert problem.p.tolist() == [0.5, 0.25, 0.25]


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_fact_capacity_is_found_and_kept() -> None:
    arguments = ("fact-capacity", "-d", "4", "--heads", "1", "-D", "2", "-T", "4", "--tolerance", "0.5")
    done = CliRunner().invoke(app, [*arguments, "--json"])
    assert done.exit_code == 0, done.exception
    found = json.loads(done.stdout)
    assert found["status"] == "found"
    assert found["facts"] == found["N"] ** 2
    assert found["n_params"] == 4 * 4 * 4 + 2 * 4 * 4
    again = CliRunner().invoke(app, arguments)
    assert "1 already stored" in again.stderr
    assert f"{found['facts']:.6g} facts (S = {found['N_min']} over 1 seed, S=R)" in again.stdout


BAD = [
    (["transformer", "-T", "2"], "-T 2: T=2 leaves no room"),
    (["transformer", "--noise", "0"], "--noise 0 must be at least 1"),
    (["transformer", "--noise", "100000"], "at most 65536"),
    (["transformer", "-S", "0"], "-S 0 must be at least 1"),
    (["transformer", "-R", "-3"], "-R -3 must be at least 1"),
    (["transformer", "-D", "0"], "-D 0 must be at least 1"),
    (["transformer", "-d", "0"], "-d 0 must be at least 1"),
    (["transformer", "--heads", "0"], "--heads 0 must be at least 1"),
    (["transformer", "--alpha", "0.1", "-d", "16"], "--alpha 0.1 with -d 16 and --heads 8 makes heads of"),
    (["transformer", "--alpha", "nan"], "alpha d / H = nan"),
    (["transformer", "--alpha", "inf"], "alpha d / H = inf"),
    (["transformer", "--beta", "-1"], "--beta -1 must be a number and not negative"),
    (["transformer", "-m", "-1"], "-m -1 must not be negative"),
    (["transformer", "--alpha", "1", "--d-h", "4"], "take one of --alpha 1 and --d-h 4"),
    (["transformer", "--beta", "1", "-m", "4"], "take one of --beta 1 and -m 4"),
    (["transformer", "--d-h", "0"], "--d-h 0 must be at least 1"),
    (["transformer", "--variant", "txt"], "did you mean 'text'"),
    (["transformer", "--protocol", "transformer"], "unknown --protocol 'transformer'"),
    (["transformer", "--rule", "last"], "unknown success rule 'last'"),
    (["transformer", "--goal", "2"], "--goal 2 must be"),
    (["transformer", "--table", "even"], "unknown table 'even'"),
    (["transformer", "--table", "balanced", "-S", "10", "-D", "4"], "D=4 does not divide S=10"),
    (["transformer", "--zipf", "nan", "0"], "--zipf nan 0: take exponents"),
    (["transformer", "--zipf", "0", "400"], "--zipf 0 400: take exponents"),
    (["transformer", "-S", "50000", "-R", "50000"], "give --noise"),
    (["transformer", "-S", "5000000", "-R", "50000", "--noise", "5"], "this machine has"),
    (["transformer", "-d", "9999999"], "this machine has"),
    (["transformer", "--save", "."], "--save . is a folder"),
    (["transformer", "--facts", "none.csv"], "no such file of facts: none.csv"),
    (["transformer", "--facts", "half.csv"], "half.csv, column p: p(s, r) must sum to 1"),
    (["transformer", "--facts", "two.csv"], "two.csv, line 5: the fact ('Italy', 'capital')"),
    (["transformer", "--facts", "good.csv", "-S", "3"], "take one of --facts good.csv and -S 3"),
    (["transformer", "--facts", "good.csv", "--zipf", "1", "0"], "take one of --zipf and the column p"),
    (["fact-capacity", "-T", "2"], "-T 2: T=2 leaves no room"),
    (["fact-capacity", "--seeds", "0"], "--seeds 0 must be at least 1"),
    (["fact-capacity", "-D", "0"], "-D 0 must be at least 1"),
    (["fact-capacity", "-D", "4", "--distinct"], "take one of -D 4 and --distinct"),
    (["transformer", "-T", "300000000"], "and -T 300000000 needs about"),
    (["fact-capacity", "-d", "4096", "--alpha", "4", "--beta", "4", "--distinct"], "needs about"),
    (["fact-capacity", "--heads", "16"], "--heads 16 makes heads of dimension alpha d / H = 0.5"),
    (["fact-capacity", "--growth", "R=S"], "unknown --growth 'R=S'"),
    (["fact-capacity", "--variant", "cod"], "did you mean 'code'"),
    (["fact-capacity", "--protocol", "none"], "unknown --protocol 'none'"),
    (["fact-capacity", "--rule", "last"], "unknown success rule"),
    (["fact-capacity", "--tolerance", "-1"], "tolerance=-1"),
    (["fact-capacity", "--goal", "0"], "--goal 0 must be"),
    (["fact-capacity", "-d", "99999999"], "this machine has"),
    (["fact-capacity", "--workers", "0"], "--workers 0 must be at least 1"),
]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("arguments", "says"), BAD, ids=[" ".join(arguments) for arguments, _ in BAD])
def test_bad_input_is_refused_before_anything_is_computed(arguments: list[str], says: str, folder: Path) -> None:
    files = set(folder.iterdir())
    done = CliRunner().invoke(app, arguments)
    assert isinstance(done.exception, ValueError | FactholdError)
    assert says in str(done.exception)
    assert "\n" not in str(done.exception)
    assert done.stdout == ""
    assert set(folder.iterdir()) == files


def test_bad_input_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    done = run("transformer", "--alpha", "0.1", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("facthold: --alpha 0.1")


def test_facts_are_put_into_weights_saved_and_asked_again(folder: Path) -> None:
    arguments = [
        "construct",
        "-S",
        "8",
        "-R",
        "6",
        "-D",
        "4",
        "-d",
        "16",
        "-m",
        "40",
        "--draws",
        "3",
        "--save",
        "built",
    ]
    done = CliRunner().invoke(app, [*arguments, "--json"])
    found = json.loads(done.stdout)
    assert (found["recall"], found["always_recalled"], found["facts"]) == (1.0, 48, 48)
    assert found["smallest_margin"] > 0
    model, problem = load_model(folder / "built")
    assert isinstance(problem, FactualRecall)
    assert fact_accuracy(model, problem, key=jax.random.key(7)) == 1.0
    said = CliRunner().invoke(app, ["construct", "--facts", "good.csv", "--method", "values", "-d", "12"]).stdout
    assert "3 of 3 facts right in all 10 prompts each" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "valeus"], "did you mean 'values'"),
        ([], "give its width -m"),
        (["--method", "attention"], "give their dimension --d-h"),
        (["--method", "values", "-m", "4"], "has no MLP, and -m is 4"),
        (["-m", "-4"], "-m -4 must not be negative"),
        (["-m", "8", "-d", "2"], "d=2 has no room"),
        (["-m", "8", "-T", "2"], "-T 2"),
        (["-m", "8", "--share", "0"], "share=0"),
        (["-m", "8", "--draws", "0"], "--draws 0 must be at least 1"),
        (["--method", "attention", "--d-h", "4", "--facts", "two.csv"], "has the answer 'Milan', and 'Rome' in line 3"),
    ],
)
def test_what_cannot_be_constructed_is_refused(arguments: list[str], message: str, folder: Path) -> None:
    done = CliRunner().invoke(app, ["construct", *arguments])
    assert isinstance(done.exception, FactholdError | ValueError)
    assert message in str(done.exception)

"""The program as a person meets it: real processes, bad input, Ctrl-C and SIGKILL."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from facthold import __version__
from facthold.lab.store import Store

PROGRAM = [sys.executable, "-m", "facthold"]
TINY = """[fig1]
linear_d = [6, 8, 11]
mlp_sizes = [[6, 6]]
n_seeds = 1
tolerance = 0.2
"""


def run(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *arguments], cwd=cwd, env=os.environ | environment, capture_output=True, text=True, timeout=300
    )


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    (tmp_path / "tiny.toml").write_text(TINY)
    return tmp_path


def test_figure_as_json_then_drawn_again_without_computing(tiny: Path) -> None:
    done = run("figure", "fig1", "--preset", "smoke", "--config", "tiny.toml", "--json", cwd=tiny)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)  # standard output is JSON alone
    assert set(answer) == {"figure", "preset", "seconds", "fits", "files", "notes"}
    assert {"name", "slope", "constant", "interval", "n"} == set(answer["fits"][0])
    assert all((tiny / file).is_file() for file in answer["files"])
    assert "[4/4]" in done.stderr  # plain progress lines, as this is no terminal

    again = run("figure", "fig1", "--preset", "smoke", "--config", "tiny.toml", "--plot-only", "--json", cwd=tiny)
    assert json.loads(again.stdout)["fits"] == answer["fits"]
    assert "cells to compute" not in again.stderr

    exported = run("results", "--csv", cwd=tiny)
    assert exported.stdout.splitlines()[0].startswith("key,kind,")
    assert len(exported.stdout.splitlines()) == 5
    parquet = run("results", "--parquet", "-o", "r.parquet", cwd=tiny)
    assert parquet.returncode == 0
    assert (tiny / "r.parquet").read_bytes().startswith(b"PAR1")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["figure", "fig77"], "unknown figure 'fig77'"),
        (["figure", "fig1", "--preset", "quik"], "did you mean 'quick'"),
        (["figure", "fig1", "--plot-only"], "compute something first"),
        (["figure", "fig1", "--config", "none.toml"], "no such config file"),
        (["figure", "fig1", "--config", "bad.toml"], "did you mean 'linear_d'"),
        (["figure", "fig1", "--config", "broken.toml"], "is not TOML"),
        (["figure", "fig1", "--config", "zero.toml"], "d=0"),
        (["verify", "margin"], "unknown claim"),
        (["memory", "-N", "0"], "N=0 must be at least 1"),
        (["memory", "-N", "-5"], "N=-5"),
        (["memory", "-d", "0"], "d=0"),
        (["memory", "-N", "999999999999"], "this machine has"),
        (["memory", "--method", "train:mlp-code", "-m", "8", "-N", "500000"], "this machine has"),
        (["memory", "--method", "magic"], "unknown method"),
        (["memory", "--embeddings", "orthogonal", "-N", "100", "-d", "8"], "do not fit in d=8"),
        (["capacity", "--goal", "2"], "goal=2"),
        (["capacity", "--seeds", "0"], "--seeds 0 must be at least 1"),
        (["capacity", "--method", "layerwise"], "give -m"),
        (["figure", "fig1", "--config", "empty.toml"], "all its lists are empty"),
        (["memory", "-N", "8", "--save", "text.txt/m.safetensors"], "cannot write"),
        (["results"], "there is no such file yet"),
        (["results", "--store", "text.txt"], "text.txt"),
        (["results", "--store", "other.sqlite"], "other.sqlite"),
        (["nonsense"], "No such command"),
        (["results", "--csv", "--json"], "take one of"),
        (["bench", "--seconds", "0"], "must be above 0"),
        (["capacity", "--tolerance", "-1"], "tolerance=-1"),
        (["capacity", "-d", "99999999"], "this machine has"),
        (["capacity", "--method", "tangent-kernel", "-m", "7"], "m=8"),
        (["figure", "fig1", "--out", "text.txt"], "give another --out"),
        (["memory", "-N", "many"], "integer"),
        (["figure", "fig1", "--workers", "0"], "--workers 0 must be at least 1; leave it out"),
        (["reproduce", "--workers", "-2"], "--workers -2 must be at least 1"),
        (["verify", "--workers", "2", "--ray", "auto"], "take one of --workers and --ray"),
        (["capacity", "--ray", "nowhere"], "give host:port"),
        (["verify", "--stored", "--store", "nothing.sqlite"], "no claim can be judged"),
        (["sweep", "status"], "there is no such file yet"),
        (["sweep", "stats"], "Did you mean 'status'"),
    ],
)
def test_bad_input_is_one_clear_line(arguments: list[str], says: str, tmp_path: Path) -> None:
    Store(tmp_path / "nothing.sqlite").close()
    (tmp_path / "bad.toml").write_text("[fig1]\nlinear = [8]\n")
    (tmp_path / "broken.toml").write_text("[fig1\n")
    (tmp_path / "empty.toml").write_text("[fig1]\nlinear_d = []\nmlp_sizes = []\n")
    (tmp_path / "zero.toml").write_text("[fig1]\nlinear_d = [0]\n")
    (tmp_path / "text.txt").write_text("not a database, but long enough to be taken for one" * 20)
    with sqlite3.connect(tmp_path / "other.sqlite") as other:
        other.execute("CREATE TABLE t (x)")
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.strip().splitlines()
    assert says in line
    assert "Traceback" not in line


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    done = run("memory", "-N", "0", "--debug", cwd=tmp_path)
    assert done.returncode != 0
    assert "Traceback" in done.stderr


def test_version_and_help(tmp_path: Path) -> None:
    assert run(cwd=tmp_path).stdout == run("--help", cwd=tmp_path).stdout
    assert set(json.loads(run("list", "--figure", "fig6", "--json", cwd=tmp_path).stdout)) == {
        "smoke",
        "quick",
        "paper",
    }
    assert run("--version", cwd=tmp_path).stdout.strip() == f"facthold {__version__}"
    shown = run("--help", cwd=tmp_path).stdout
    for command in ("list", "figure", "reproduce", "verify", "memory", "capacity", "results", "sweep", "bench"):
        assert command in shown


def test_dry_run_says_what_would_be_done_and_makes_no_file(tiny: Path) -> None:
    command = ("figure", "fig1", "--preset", "smoke", "--config", "tiny.toml")
    done = run(*command, "--dry-run", cwd=tiny)
    assert done.returncode == 0, done.stderr
    assert "fig1: 4 cells, 0 of them stored, 4 to compute" in done.stdout
    assert "capacity of train:linear-code at d=11" in done.stdout
    plans = [json.loads(run(*command, "--dry-run", "--json", "--workers", n, cwd=tiny).stdout) for n in ("1", "4")]
    assert [plan["to_compute"] for plan in plans] == [4, 4]
    assert plans[0]["seconds"] == pytest.approx(sum(cell["lane_seconds"] for cell in plans[0]["largest"]))
    assert plans[1]["seconds"] == plans[1]["largest"][0]["lane_seconds"]  # no sweep is shorter than its longest cell
    assert "to compute" in run("reproduce", "--preset", "smoke", "--dry-run", cwd=tiny).stdout
    assert [path.name for path in tiny.iterdir()] == ["tiny.toml"]


@pytest.mark.slow
def test_a_figure_in_workers_and_its_status(tiny: Path) -> None:
    command = ("figure", "fig1", "--preset", "smoke", "--config", "tiny.toml")
    done = run(*command, "--workers", "2", "--json", cwd=tiny)
    assert done.returncode == 0, done.stderr
    assert "[4/4]" in done.stderr
    told = run("sweep", "status", cwd=tiny).stdout
    assert "fig1: finished" in told
    assert "in 2 worker processes" in told
    assert "4 of 4 cells done" in told
    (sweep,) = json.loads(run("sweep", "status", "--json", "--all", cwd=tiny).stdout)
    assert (sweep["state"], sweep["done"], sweep["total"], sweep["running"]) == ("finished", 4, 4, [])
    dry = run(*command, "--dry-run", cwd=tiny)
    assert dry.stdout == "fig1: 4 cells, 4 of them stored, 0 to compute\n"


def test_values_that_are_not_finite_are_null(tmp_path: Path) -> None:
    """One association has no rival: its margin is infinite, and the JSON still is JSON."""
    assert json.loads(run("memory", "-N", "1", "-d", "4", "--json", cwd=tmp_path).stdout)["smallest_margin"] is None


def test_verify_and_list_as_json(tmp_path: Path) -> None:
    done = run("verify", "one-hot", "gradient-step", "--preset", "smoke", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = json.loads(done.stdout)
    assert [line["id"] for line in lines] == ["one-hot", "gradient-step"]
    assert all(set(line) == {"id", "place", "statement", "predicted", "measured", "error", "verdict"} for line in lines)
    assert all(line["verdict"] == "holds" for line in lines)
    stored = json.loads(run("verify", "--preset", "smoke", "--stored", "--json", cwd=tmp_path).stdout)
    assert {line["verdict"] for line in stored} == {"holds", "not run"}
    listed = json.loads(run("list", "--json", cwd=tmp_path).stdout)
    assert {line["id"] for line in stored} == {claim["id"] for claim in listed["claims"]}


def test_capacity_as_json(tmp_path: Path) -> None:
    arguments = ("capacity", "-d", "16", "--seeds", "2", "--json")
    found = json.loads(run(*arguments, cwd=tmp_path).stdout)
    assert found["status"] == "found"
    assert len(found["per_seed"]) == 2
    assert "1 already stored" in run(*arguments, cwd=tmp_path).stderr


def test_memory_as_json_and_saved(tmp_path: Path) -> None:
    done = run(
        "memory", "-N", "60", "-d", "16", "-m", "20", "--method", "layerwise", "--save", "m.safetensors", "--json",
        cwd=tmp_path,
    )  # fmt: skip
    answer = json.loads(done.stdout)
    assert answer["recall"] == 1.0
    assert answer["smallest_margin"] > 0
    assert answer["n_params"] == 2 * 20 * 16
    assert (tmp_path / "m.safetensors").is_file()


@pytest.mark.slow
def test_killed_at_any_moment_a_run_goes_on_where_it_was(tiny: Path) -> None:
    """SIGKILL in the middle: what was announced is stored, and the next run computes only the rest."""
    command = [*PROGRAM, "figure", "fig1", "--preset", "smoke", "--config", "tiny.toml", "--json"]
    first = subprocess.Popen(command, cwd=tiny, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert first.stderr is not None
    announced = 0
    for line in first.stderr:
        announced += line.startswith("[")
        if announced == 2:
            first.send_signal(signal.SIGKILL)
            break
    first.wait()
    second = run("figure", "fig1", "--preset", "smoke", "--config", "tiny.toml", "--json", cwd=tiny)
    assert second.returncode == 0, second.stderr
    stored = int(second.stderr.split(" already stored")[0].rsplit(" ", 1)[1])
    assert stored >= announced
    assert f"{4 - stored} cell" in second.stderr


@pytest.mark.slow
def test_ctrl_c_ends_with_one_line_and_nothing_lost(tmp_path: Path) -> None:
    command = [*PROGRAM, "figure", "fig1", "--preset", "smoke", "--config", "two.toml"]
    (tmp_path / "two.toml").write_text("[fig1]\nlinear_d = [6]\nmlp_sizes = [[32, 64]]\nn_seeds = 5\n")
    running = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert running.stderr is not None
    for line in running.stderr:
        if line.startswith("[1/"):  # one cell is stored, the others are being computed
            break
    running.send_signal(signal.SIGINT)
    _, rest = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "interrupted; cells that were finished are stored" in rest
    assert "Traceback" not in rest
    with sqlite3.connect(tmp_path / "facthold-results.sqlite") as store:
        assert store.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    kept = json.loads(run("results", "--json", cwd=tmp_path).stdout)
    assert len(kept) >= 1

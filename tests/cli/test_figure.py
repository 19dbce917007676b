"""facthold figure, reproduce and status: as a person meets them, with Ctrl-C, SIGKILL and workers."""

import html
import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from odd_cells import PATIENCE

Run = Callable[..., tuple[int, str, str]]
PROGRAM = [sys.executable, "-m", "facthold"]
TINY = """[fig1]
linear_d = [6, 8, 11]
mlp_sizes = [[6, 6]]
n_seeds = 1
tolerance = 0.2
"""
FIGURE = ("figure", "fig1", "--preset", "smoke", "--config", "tiny.toml")


def program(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *arguments], cwd=cwd, env=os.environ.copy(), capture_output=True, text=True, timeout=PATIENCE
    )


@pytest.fixture
def tiny(folder: Path) -> Path:
    (folder / "tiny.toml").write_text(TINY)
    return folder


def test_figure_as_json_then_drawn_again_without_computing(tiny: Path, run: Run) -> None:
    code, out, err = run(*FIGURE, "--json")
    assert code == 0, err
    answer = json.loads(out)  # standard output is JSON alone
    assert set(answer) == {"figure", "preset", "seconds", "fits", "files", "notes"}
    assert {"name", "slope", "constant", "interval", "n"} == set(answer["fits"][0])
    assert all((tiny / file).is_file() for file in answer["files"])
    assert "[4/4]" in err  # plain progress lines, as this is no terminal

    _, out, err = run(*FIGURE, "--plot-only", "--json")
    assert json.loads(out)["fits"] == answer["fits"]
    assert "to compute" not in err
    (tiny / "more.toml").write_text(TINY.replace("11]", "11, 16]"))
    _, _, err = run(*FIGURE[:-1], "more.toml", "--plot-only", "--json")
    assert "fig1: only 4 of 5 cells stored; drawing those" in err

    _, out, _ = run("results", "--csv")
    assert out.splitlines()[0].startswith("key,kind,")
    assert len(out.splitlines()) == 5
    assert run("results", "--parquet", "-o", "r.parquet")[0] == 0
    assert (tiny / "r.parquet").read_bytes().startswith(b"PAR1")
    assert "fig1: finished" in run("status")[1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["figure", "fig77"], "unknown figure 'fig77'"),
        (["figure", "fig1", "--preset", "quik"], "did you mean 'quick'"),
        (["figure", "fig1", "--plot-only"], "compute something first, or give another --store"),
        (["figure", "fig1", "--config", "none.toml"], "no such config file"),
        (["figure", "fig1", "--config", "."], "facthold: . is a folder; give a config file"),
        (["figure", "fig1", "--config", "bad.toml"], "did you mean 'linear_d'"),
        (["figure", "fig1", "--config", "broken.toml"], "is not TOML"),
        (["figure", "fig1", "--config", "zero.toml"], "linear_d=0 must be at least 1"),
        (["figure", "fig1", "--config", "empty.toml"], "linear_d is empty; give one or more"),
        (
            ["figure", "fig6", "--config", "twice.toml"],
            "twice.toml: in the config of fig6, sizes has [6, 6] twice; give",
        ),
        (["reproduce", "fig1", "--config", "twice.toml", "--dry-run"], "linear_d has 8 twice; give each once"),
        (
            ["reproduce", "fig1", "fig6", "--config", "many.toml", "--dry-run"],
            "many.toml: unknown key in the config of fig1 'linear', 'nothing'; did you mean 'linear_d'? choose one of: "
            "linear_d, linear_method, mlp_method, mlp_sizes, n_seeds, tolerance; fig1.n_seeds in the config must be a "
            "whole number, not 1.5; in the config of fig1, linear_d=0 must be at least 1; in the config of fig6, "
            "n_seeds=0 must be at least 1",
        ),
        (["figure", "fig6", "--config", "zero.toml"], "zero.toml has nothing about fig6; write [fig6] and keys below"),
        (["figure", "fig6", "--config", "nothing.toml", "--dry-run"], "nothing.toml has nothing about fig6; write"),
        (["figure", "fig77", "--config", "nothing.toml"], "unknown figure 'fig77'"),
        (["reproduce", "fig6", "fig5", "--config", "zero.toml", "--dry-run"], "has nothing about these figures; write"),
        (["reproduce", "--config", "nothing.toml", "--dry-run"], "has nothing about these figures; write [fig1] and"),
        (["figure", "fig6", "--plot-only", "--dry-run"], "take one of --plot-only and --dry-run"),
        (["figure", "fig1", "--output", "text.txt"], "give another --output"),
        (["figure", "fig1", "--workers", "0"], "--workers 0 must be at least 1"),
        (["reproduce", "--workers", "-2"], "--workers -2 must be at least 1"),
        (["reproduce", "fig77"], "unknown figure 'fig77'"),
        (["reproduce", "--preset", "quik"], "did you mean 'quick'"),
    ],
)
def test_bad_input_is_one_clear_line(
    arguments: list[str], says: str, folder: Path, refuses: Callable[..., str]
) -> None:
    (folder / "bad.toml").write_text("[fig1]\nlinear = [8]\n")
    (folder / "broken.toml").write_text("[fig1\n")
    (folder / "empty.toml").write_text("[fig1]\nlinear_d = []\nmlp_sizes = []\n")
    (folder / "many.toml").write_text(
        "[fig1]\nlinear = [8]\nn_seeds = 1.5\nlinear_d = [0]\nnothing = 1\n[fig6]\nn_seeds = 0\n"
    )
    (folder / "nothing.toml").write_text("")
    (folder / "twice.toml").write_text("[fig6]\nsizes = [[6, 6], [6, 6]]\n[fig1]\nlinear_d = [8, 8]\n")
    (folder / "zero.toml").write_text("[fig1]\nlinear_d = [0]\n")
    (folder / "text.txt").write_text("a file")
    assert says in refuses(*arguments)


def test_dry_run_says_what_would_be_done_and_makes_no_file(tiny: Path, run: Run) -> None:
    code, out, err = run(*FIGURE, "--dry-run")
    assert code == 0, err
    assert "fig1: 4 cells, 0 of them stored, 4 to compute" in out
    assert "train:linear-code d=11" in out
    plans = [json.loads(run(*FIGURE, "--dry-run", "--json", "--workers", n)[1]) for n in ("1", "4")]
    assert [plan["to_compute"] for plan in plans] == [4, 4]
    assert plans[0]["seconds"] == pytest.approx(sum(cell["lane_seconds"] for cell in plans[0]["largest"]))
    assert plans[1]["seconds"] == plans[1]["largest"][0]["lane_seconds"]  # no run is shorter than its longest cell
    assert "to compute" in run("reproduce", "--preset", "smoke", "--dry-run")[1]
    assert [path.name for path in tiny.iterdir()] == ["tiny.toml"]


def commands(text: str) -> list[list[str]]:
    """The commands in a text, as a shell would take them apart."""
    return [
        shlex.split(html.unescape(found))
        for found in re.findall(r"facthold ([a-z]+ .+?)(?:</code>|$)", text, re.MULTILINE)
    ]


def test_hints_can_be_pasted_as_they_are(tiny: Path, run: Run) -> None:
    """They are about the same store, folder and sizes, and have no word in them that is to be replaced."""
    where = ("--store", "my results.sqlite", "-o", "my out")
    code, _, err = run("reproduce", *FIGURE[1:], *where)
    assert code == 0, err
    (redraw,) = commands(next(line for line in err.splitlines() if line.startswith("redraw:")))
    (shown,) = commands((tiny / "my out" / "report.html").read_text())
    for hint in (redraw, [*shown, "--plot-only"]):
        code, out, err = run(*hint, "--json")
        assert code == 0, err
        assert json.loads(out)["files"] == [f"my out/fig1-smoke-changed.{ending}" for ending in ("png", "svg")]
        assert "to compute" not in err
    assert not (tiny / "facthold-results.sqlite").exists()
    assert sorted(path.name for path in tiny.iterdir()) == ["my out", "my results.sqlite", "tiny.toml"]

    (tiny / "my sizes.toml").write_text("[fig6]\nsizes = [[5, 5]]\nn_seeds = 1\ntolerance = 0.4\n")
    figure = ("figure", "fig6", "--preset", "smoke", "--config", "my sizes.toml")
    code, _, err = run(*figure, "--plot-only", *where)
    assert code == 2
    (hint,) = commands(err)
    assert run(*hint)[0] == 0  # it computes what was missing, and of the same sizes: then all of it can be drawn
    code, out, err = run(*figure, "--plot-only", "--json", *where)
    assert (code, err.count("only")) == (0, 0), err
    assert json.loads(out)["files"] == [f"my out/fig6-smoke-changed.{ending}" for ending in ("png", "svg")]
    code, _, err = run("verify", "layerwise", "--stored", "--preset", "smoke", "--store", "my results.sqlite")
    assert code == 2
    assert run(*commands(err)[-1])[0] == 0  # it computes what was missing, and
    _, out, _ = run("verify", "--stored", "--preset", "smoke", "--store", "my results.sqlite")
    assert "layerwise (beyond)" in run(*commands(out)[-1])[1]


def test_a_config_may_be_about_some_of_the_figures_and_hints_of_the_others_do_without(folder: Path, run: Run) -> None:
    (folder / "six.toml").write_text("[fig6]\nsizes = [[5, 5]]\nn_seeds = 1\ntolerance = 0.4\n")
    both = ("reproduce", "fig5", "fig6", "--preset", "smoke", "--config", "six.toml", "--figures-only")
    code, _, err = run(*both)
    assert code == 0, err
    redraw = commands(err)
    assert [("six.toml" in hint) for hint in redraw] == [False, True]
    assert [run(*hint)[0] for hint in redraw] == [0, 0]


def test_a_hint_names_the_store_of_the_environment(tiny: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page is read when the environment is another."""
    monkeypatch.setenv("FACTHOLD_STORE", "kept.sqlite")
    _, out, _ = run("verify", "layerwise", "gradient-step", "--preset", "smoke")
    assert commands(out)[-1][-2:] == ["--store", "kept.sqlite"]


@pytest.mark.slow
def test_a_figure_in_workers_and_its_status(tiny: Path, run: Run) -> None:
    done = program(*FIGURE, "--workers", "2", "--json", cwd=tiny)
    assert done.returncode == 0, done.stderr
    assert "[4/4]" in done.stderr
    _, out, _ = run("status")
    assert "fig1: finished" in out
    assert "in 2 worker processes" in out
    assert "4 of 4 cells done" in out
    (noted,) = json.loads(run("status", "--json", "--all")[1])
    assert (noted["state"], noted["done"], noted["total"], noted["running"]) == ("finished", 4, 4, [])
    assert "finished" in run("status", "--all")[1]
    assert run(*FIGURE, "--dry-run")[1] == "fig1: 4 cells, 4 of them stored, 0 to compute\n"


@pytest.mark.slow
def test_killed_at_any_moment_a_run_goes_on_where_it_was(tiny: Path, run: Run) -> None:
    """SIGKILL in the middle: what was announced is stored, and the next run computes only the rest."""
    command = [*PROGRAM, *FIGURE, "--json"]
    first = subprocess.Popen(command, cwd=tiny, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert first.stderr is not None
    announced = 0
    for line in first.stderr:
        announced += line.startswith("[")
        if announced == 2:
            first.send_signal(signal.SIGKILL)
            break
    first.wait()
    code, _, err = run(*FIGURE, "--json")
    assert code == 0, err
    stored = int(err.split(" already stored")[0].rsplit(" ", 1)[1])
    assert stored >= announced
    assert f"{4 - stored} cell" in err


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_ends_with_one_line_and_nothing_lost(number: int, code: int, folder: Path, run: Run) -> None:
    (folder / "two.toml").write_text("[fig1]\nlinear_d = [6]\nmlp_sizes = [[32, 64]]\nn_seeds = 5\n")
    command = [*PROGRAM, *FIGURE[:-1], "two.toml"]
    running = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert running.stderr is not None
    for line in running.stderr:
        if line.startswith("[1/"):  # one cell is stored, the others are being computed
            break
    running.send_signal(number)
    _, rest = running.communicate(timeout=PATIENCE)
    assert running.returncode == code
    assert "interrupted; 1 of 2 cells stored, and the same command goes on after them" in rest
    assert "Traceback" not in rest
    with sqlite3.connect(folder / "facthold-results.sqlite") as store:
        assert store.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert len(json.loads(run("results", "--json")[1])) >= 1

"""facthold list, results, verify, status and bench: what they say, and what they refuse."""

import json
import os
import re
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from facthold.lab import registry
from facthold.lab.cells import key_of
from facthold.lab.claim import Judged, Judgement, Verdict
from facthold.lab.runner import run_cells
from facthold.lab.status import sweeps
from facthold.lab.store import Store
from odd_cells import IMPORTED, Quiet, Sleeping, starts, until

Run = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [(("holds", "drifts"), 0), (("holds", "fails", "not decided"), 1), (("drifts", "not decided"), 3),
     (("holds", "not run"), 0), (("holds", "runs"), 0), (("runs",), 0)],
)  # fmt: skip
def test_what_is_not_decided_does_not_pass(
    verdicts: tuple[Verdict, ...], code: int, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = [Judged("x", "here", "It is so.", "Twice.", "1", "2", "exact", verdict) for verdict in verdicts]
    monkeypatch.setattr("facthold.lab.api.verify", lambda *ids, **options: judged)
    found, out, _ = run("verify")
    assert found == code
    assert out.count("HOLDS        x (here)\n             2\n") == (len(verdicts) > 1) * verdicts.count("holds")
    assert ("changed     Twice." in out) == (len(verdicts) == 1)  # one claim is a paragraph


def test_smoke_prints_no_verdict_that_its_sizes_cannot_support(folder: Path, run: Run) -> None:
    """Faults and JSON readers see what the rows say by themselves; a person and a script do not take it for an
    answer."""
    code, out, err = run("verify", "gradient-step", "layerwise", "--preset", "smoke")
    assert code == 0, err
    assert "HOLDS        gradient-step" in out  # an identity
    assert "RUNS         layerwise" in out
    assert "decides nothing" in out
    lines = json.loads(run("verify", "layerwise", "--preset", "smoke", "--json")[1])
    assert [(line["verdict"], line["judgement"]) for line in lines] == [("runs", "holds")]
    claim = replace(registry.claim("layerwise"), judge=lambda rows: Judgement("1", "2", "exact", False))
    assert (claim.report([], "smoke").verdict, claim.report([], "quick").verdict) == ("runs", "fails")
    always = replace(claim, at_any_size="an identity")
    assert (always.report([], "smoke").verdict, always.report([], "quick").verdict) == ("fails", "fails")


def test_verify_and_list_as_json(folder: Path, run: Run) -> None:
    code, out, err = run("verify", "margin-outside-image", "gradient-step", "--preset", "smoke", "--json")
    assert code == 0, err
    lines = json.loads(out)
    assert [line["id"] for line in lines] == ["margin-outside-image", "gradient-step"]
    names = {"id", "place", "statement", "changed", "predicted", "measured", "error", "verdict", "drift", "next",
             "judgement"}  # fmt: skip
    assert all(set(line) == names for line in lines)
    assert all(line["verdict"] == "holds" for line in lines)
    assert "2 holds: " in run("verify", "margin-outside-image", "gradient-step", "--preset", "smoke", "--stored")[1]
    stored = json.loads(run("verify", "--preset", "smoke", "--stored", "--json")[1])
    assert {line["verdict"] for line in stored} == {"holds", "not run"}
    listed = json.loads(run("list", "--json")[1])
    assert {line["id"] for line in stored} == {claim["id"] for claim in listed["claims"]}
    assert {"outer-product", "selected", "gated", "train"} <= {recipe["name"] for recipe in listed["recipes"]}
    kept = json.loads(run("results", "--json")[1])
    assert {row["kind"] for row in kept} == {row["kind"] for row in json.loads(run("results", "--bound", "--json")[1])}
    title, _, _, *lines = run("results")[1].splitlines()
    assert title.startswith(f"{len(kept)} results in")
    assert title.endswith("(--all shows each of them)")
    kinds = [row["kind"] for row in kept]
    assert {line.split()[0]: int(line.split()[1]) for line in lines} == {kind: kinds.count(kind) for kind in kinds}
    assert len([line for line in run("results", "--all")[1].splitlines() if not line.startswith(" ")]) == 1 + len(kept)
    of_one = run("results", "--all", "--kind", "gradient-step")[1]
    assert of_one.count("\ngradient-step: ") == kinds.count("gradient-step")


def test_the_bound_passes_over_results_of_another_version(folder: Path, run: Run) -> None:
    """A store may have recipes, kinds and versions that this program does not know; it still checks the others."""
    code, _, err = run("verify", "margin-outside-image", "--preset", "smoke")
    assert code == 0, err
    database = sqlite3.connect(folder / "facthold-results.sqlite")
    changes = ('kind = \'capacity\', spec = \'{"method":"readout","d":8}\'', "kind = 'gone'", "version = 99")
    for change in changes:
        database.execute("CREATE TEMP TABLE copied AS SELECT * FROM results WHERE kind = 'margins' LIMIT 1")
        database.execute(f"UPDATE copied SET {change}")
        of = database.execute("SELECT kind, version, spec FROM copied").fetchone()
        database.execute("UPDATE copied SET key = ?", [key_of(*of[:2], json.loads(of[2]))])
        database.execute("INSERT INTO results SELECT * FROM copied")
        database.execute("DROP TABLE copied")
    database.commit()
    code, out, err = run("results", "--bound", "--json")
    assert code == 0, err
    reasons = [line["reason"] for line in json.loads(out)]
    assert sum("stored by another version" in (reason or "") for reason in reasons) == 3


def test_list_names_all_and_shows_the_presets_of_a_figure_as_a_config(folder: Path, run: Run) -> None:
    out = run("list")[1]
    for name in ("fig1", "rounding", "attention-mlp", "layerwise", "transformer-short", "evaluated every"):
        assert name in out
    assert set(json.loads(run("list", "--figure", "fig6", "--json")[1])) == {"smoke", "quick", "paper"}
    (folder / "same.toml").write_text(run("list", "--figure", "fig1")[1])
    usual, same = (run("figure", "fig1", *config, "--dry-run")[1] for config in ((), ("--config", "same.toml")))
    assert same == usual


@pytest.mark.parametrize("columns", [40, 80])
@pytest.mark.parametrize("name", registry.figures())
def test_what_is_shown_of_a_figure_is_its_config(
    name: str, columns: int, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Empty lists included, and at any width; so are the presets in comments."""
    monkeypatch.setenv("COLUMNS", str(columns))
    wanted, shown = registry.figure(name), run("list", "--figure", name)[1]
    _, *texts = re.split("^# preset (?:smoke|quick|paper)(?:,.*|)$", shown, flags=re.MULTILINE)
    for preset, text in zip(wanted.presets, texts, strict=True):
        config = tomllib.loads(re.sub("^# ", "", text, flags=re.MULTILINE))[name]
        assert wanted.grid("smoke", config) == wanted.presets[preset]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["list", "--figure", "fig77"], "unknown figure 'fig77'"),
        (["results"], "there is no such file yet; compute something first, or give another --store"),
        (["results", "--store", "text.txt"], "text.txt"),
        (["results", "--store", "other.sqlite"], "other.sqlite"),
        (["results", "--csv", "--json"], "take one of"),
        (["results", "--all", "--bound"], "--bound goes with --json alone"),
        (["results", "-o", "x.csv"], "--output goes with --csv or --parquet"),
        (["results", "--kind", "capacty", "--store", "nothing.sqlite"], "unknown kind of cell 'capacty'"),
        (["bench", "--seconds", "0"], "--seconds 0.0 must be at least 0.01 and at most 600"),
        (["verify", "margin"], "unknown claim"),
        (["verify", "--workers", "2", "--ray", "auto"], "take one of --workers and --ray"),
        (["verify", "--stored", "--store", "nothing.sqlite"], "no claim has all of its cells stored"),
        (["status"], "there is no such file yet"),
    ],
)
def test_bad_input_is_one_clear_line(
    arguments: list[str], says: str, folder: Path, refuses: Callable[..., str]
) -> None:
    Store(folder / "nothing.sqlite").close()
    (folder / "text.txt").write_text("not a database, but long enough to be taken for one" * 20)
    with sqlite3.connect(folder / "other.sqlite") as other:
        other.execute("CREATE TABLE t (x)")
    assert says in refuses(*arguments)


DRIVER = """
import sys
from facthold.lab.runner import run_cells
from facthold.lab.store import Store
from odd_cells import Quiet, Sleeping

with Store("facthold-results.sqlite") as store:
    run_cells([Sleeping(n=n, seconds=600.0 * (n >= int(sys.argv[1])), log="log") for n in range(2)], store, Quiet())
"""


@pytest.mark.parametrize(
    ("quick", "says"), [(0, "the same command begins again"), (1, "the same command goes on after the 1 cell stored")]
)
def test_a_killed_run_is_dead_at_once_and_the_status_says_how_to_go_on(
    folder: Path, run: Run, quick: int, says: str
) -> None:
    command = [sys.executable, "-c", DRIVER, str(quick)]
    driver = subprocess.Popen(command, cwd=folder, env=os.environ | {"PYTHONPATH": IMPORTED})
    until(lambda: len(starts("log")) == 2)

    def noted() -> bool:
        with Store("facthold-results.sqlite", create=False) as store:
            return any(sweep.done == quick and sweep.running for sweep in sweeps(store))

    until(noted)
    assert run("status")[1].startswith("cells: running, last heard of ")
    driver.kill()
    driver.wait()
    first, *rest = run("status")[1].splitlines()
    assert first.startswith("cells: dead (its process is gone), last heard of ")
    assert first.endswith(says)
    assert "being computed when it stopped:" in rest
    assert json.loads(run("status", "--json")[1])[0]["state"] == "dead"


def test_the_status_of_a_run_from_before_there_were_process_numbers(folder: Path, run: Run) -> None:
    with Store("facthold-results.sqlite") as store:
        run_cells([Sleeping(n=1)], store, Quiet())
        for column in ("machine", "pid"):
            store._db.execute(f"ALTER TABLE sweeps DROP COLUMN {column}")
        store._db.execute("UPDATE sweeps SET state = 'running', beat = beat - 60")
        assert run("status")[1].startswith("cells: dead (it gives no sign of life), last heard of ")
        run_cells([Sleeping(n=2)], store, Quiet())  # it gets the columns, and can be noted
        latest, first = sweeps(store)
    assert (latest.pid, first.pid) == (os.getpid(), None)

"""facthold list, results, verify, status and bench: what they say, and what they refuse."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from facthold.lab.claim import Judged, Verdict
from facthold.lab.store import Store

Run = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [(("holds", "drifts"), 0), (("holds", "fails", "not decided"), 1), (("drifts", "not decided"), 3),
     (("holds", "not run"), 0)],
)  # fmt: skip
def test_what_is_not_decided_does_not_pass(
    verdicts: tuple[Verdict, ...], code: int, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = [Judged("x", "here", "It is so.", "Twice.", "1", "1", "exact", verdict) for verdict in verdicts]
    monkeypatch.setattr("facthold.lab.api.verify", lambda *ids, **options: judged)
    found, out, _ = run("verify")
    assert found == code
    assert "changed    Twice." in out


def test_verify_and_list_as_json(folder: Path, run: Run) -> None:
    code, out, err = run("verify", "margin-outside-image", "gradient-step", "--preset", "smoke", "--json")
    assert code == 0, err
    lines = json.loads(out)
    assert [line["id"] for line in lines] == ["margin-outside-image", "gradient-step"]
    names = {"id", "place", "statement", "changed", "predicted", "measured", "error", "verdict", "drift", "next"}
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
    assert f"{len(kept)} results in" in run("results")[1]


def test_the_bound_passes_over_results_of_another_version(folder: Path, run: Run) -> None:
    """A store may have recipes, kinds and versions that this program does not know; it still checks the others."""
    code, _, err = run("verify", "margin-outside-image", "--preset", "smoke")
    assert code == 0, err
    database = sqlite3.connect(folder / "facthold-results.sqlite")
    for key, change in (("a", "kind = 'capacity', spec = '{\"method\":\"readout\",\"d\":8}'"), ("b", "kind = 'gone'"),
                        ("c", "version = 99")):  # fmt: skip
        database.execute("CREATE TEMP TABLE copied AS SELECT * FROM results WHERE kind = 'margins' LIMIT 1")
        database.execute(f"UPDATE copied SET key = '{key}', {change}")
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
    config = run("list", "--figure", "fig1")[1].split("# preset")[1].partition("\n")[2]
    (folder / "same.toml").write_text(config)
    assert run("figure", "fig1", "--preset", "smoke", "--config", "same.toml", "--dry-run")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["list", "--figure", "fig77"], "unknown figure 'fig77'"),
        (["results"], "there is no such file yet; compute something first, or give another --store"),
        (["results", "--store", "text.txt"], "text.txt"),
        (["results", "--store", "other.sqlite"], "other.sqlite"),
        (["results", "--csv", "--json"], "take one of"),
        (["results", "-o", "x.csv"], "--output goes with --csv or --parquet"),
        (["results", "--kind", "capacty", "--store", "nothing.sqlite"], "unknown kind of cell 'capacty'"),
        (["bench", "--seconds", "0"], "--seconds 0 must be above 0"),
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

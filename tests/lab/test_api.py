"""Figures and claims from Python: run, stored, judged again, drawn again, and as a page."""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest

import facthold.lab.registry as registry
from facthold._util.errors import FactholdError, MissingPackage
from facthold.lab import api
from facthold.lab.api import claims_for, figures_for, reproduce, results, run_figure, verify
from facthold.lab.cells import Cell, Result
from facthold.lab.claim import Claim, Judgement
from facthold.lab.store import Store
from odd_cells import PATIENCE


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The smallest figure of trained memories, and a claim that takes a moment."""
    path = tmp_path_factory.mktemp("api") / "results.sqlite"
    run_figure("fig6", preset="smoke", store=path)
    verify("gradient-step", preset="smoke", store=path)
    return path


def test_a_figure_returns_its_rows_and_fits(store: Path, tmp_path: Path) -> None:
    drawn = run_figure("fig6", preset="smoke", store=store, compute=False, out=tmp_path)
    assert [row["d"] for row in drawn.rows] == [6, 8, 6]
    assert {fit.name.split(":")[0] for fit in drawn.fits} == {"mlp, fixed outputs"}
    assert sorted(file.name for file in drawn.files) == ["fig6-smoke.png", "fig6-smoke.svg"]
    assert drawn.missing == 0
    assert drawn.plot().axes
    frame = drawn.rows.to_pandas()
    assert frame["spec.d"].tolist() == [6, 8, 6]


def test_what_is_drawn_again_has_its_rows_in_the_order_of_what_was_computed(store: Path) -> None:
    computed, again = (run_figure("fig6", preset="smoke", store=store, compute=compute) for compute in (True, False))
    assert [row.key for row in again.rows] == [row.key for row in computed.rows]
    assert [row.key for row in again.rows] != [row.key for row in results("capacity", store=store)]


def test_a_stored_row_is_a_mapping_with_a_typed_cell(store: Path) -> None:
    row = results("capacity", store=store)[0]
    assert row["kind"] == row.kind == "capacity"
    assert row["N"] == row.result["N"]
    assert {**row} == {"kind": "capacity", **row.spec, **row.result}
    cell = row.cell
    assert isinstance(cell, Cell)
    assert cell.key == row.key
    assert not isinstance(cell.accounts(row.result), list)  # f*(x) = floor(32 x / N) is one map


def test_stored_rows_go_to_plot_fits_and_judge(store: Path) -> None:
    figure, claim = registry.figure("fig6"), registry.claim("gradient-step")
    assert figure.fits(results("capacity", store=store))
    assert claim.judge(results("gradient-step", store=store)).holds


def test_a_claim_is_judged_again_from_what_is_stored(store: Path) -> None:
    (judged,) = verify("gradient-step", preset="smoke", store=store, compute=False)
    assert (judged.id, judged.verdict, judged.holds) == ("gradient-step", "holds", True)
    (absent,) = verify("layerwise", preset="smoke", store=store, compute=False)
    assert (absent.verdict, absent.holds, absent.predicted) == ("not run", False, None)


def test_one_page_shows_figures_and_claims(store: Path, tmp_path: Path) -> None:
    with Store(store) as opened:
        made = reproduce("fig6", preset="smoke", store=opened, out=tmp_path, figures_only=True)
        numbers = json.loads(made.results.read_text())
        assert numbers["preset"] == "smoke"
        assert numbers["claims"] == []  # none was asked for
        assert [fit["slope"] for fit in numbers["figures"][0]["fits"]] == [fit.slope for fit in made.figures[0].fits]
    assert [drawn.figure.name for drawn in made.figures] == ["fig6"]
    command = f"facthold figure fig6 --preset smoke --store {store} --output {tmp_path}"
    assert command in made.page.read_text()


def test_claims_are_those_that_were_asked_for(store: Path, tmp_path: Path) -> None:
    """Other claims, of which some cells happen to be stored, are not judged."""
    judge = partial(reproduce, preset="smoke", store=store, out=tmp_path)
    assert [one.id for one in judge("fig6").claims] == ["fixed-outputs-growth"]
    assert judge("fig6", figures_only=True).claims == []
    made = judge("fig6", judge=["gradient-step"])
    assert [one.id for one in made.claims] == ["gradient-step"]
    assert made.page.read_text().count('<tr id="claim-') == 1
    assert claims_for((), "smoke", {}) == list(registry.claims().values())
    assert not claims_for(("fig6",), "smoke", {"fig6": {"sizes": [[6, 7]]}})  # sizes of one's own decide no claim


def test_what_is_stored_is_shown_without_computing(store: Path, tmp_path: Path) -> None:
    """Also of a store that lacks figures and claims: they are left out, and not run."""
    reproduce("fig6", preset="smoke", store=store, out=tmp_path)
    judge = ["fixed-outputs-growth", "layerwise"]
    made = reproduce("fig6", "fig5", preset="smoke", store=store, out=tmp_path, judge=judge, compute=False)
    assert [one.figure.name for one in made.figures] == ["fig6"]
    assert list(made.left_out) == ["fig5"]
    assert [claim.verdict for claim in made.claims] == ["runs", "not run"]
    with pytest.raises(FactholdError, match="nothing of these figures at preset smoke is stored"):
        reproduce("fig5", preset="smoke", store=store, out=tmp_path, compute=False)


def test_a_fresh_process_computes_cells_side_by_side(tmp_path: Path) -> None:
    """Cells import what computes when they run. Several threads that do so at once would meet half of a package."""
    claims = "fh.verify('gradient-step', 'rounding', 'margin-outside-image', preset='smoke')"
    code = f"import facthold as fh; print(*(judged.judgement for judged in {claims}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout.split() == ["holds"] * 3, done.stderr


def test_what_is_misspelt_or_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown figure 'fig66'; did you mean 'fig6'"):
        run_figure("fig66")
    with pytest.raises(ValueError, match="unknown preset 'smok'; did you mean 'smoke'"):
        figures_for([], "smok", {})
    with pytest.raises(ValueError, match="unknown claim"):
        verify("nothing")
    with pytest.raises(FactholdError, match="no such file yet"):
        run_figure("fig6", preset="smoke", store=tmp_path / "none.sqlite", compute=False)
    with pytest.raises(FactholdError, match="key in the config of fig6 'size'; did you mean 'sizes'"):
        run_figure("fig6", preset="smoke", changes={"size": [[6, 6]]}, store=tmp_path / "none.sqlite")


def test_results_of_an_unknown_kind_are_refused_and_of_a_known_one_may_be_none(tmp_path: Path) -> None:
    with Store(tmp_path / "empty.sqlite") as empty:
        assert list(results("capacity", store=empty)) == []
        with pytest.raises(ValueError, match=r"unknown kind of cell 'capacty'; choose one of: \(nothing is stored"):
            results("capacty", store=empty)


class Elsewhere(Cell):
    """A cell that this machine lacks something for."""

    kind: ClassVar[str] = "elsewhere"

    @property
    def missing(self) -> str:
        return "the model is not on this machine: fetch it"

    def run(self) -> Result:
        raise AssertionError("it cannot run here")


class Here(Cell):
    kind: ClassVar[str] = "here"

    def run(self) -> Result:
        return {"N": 1}


def test_a_claim_that_cannot_run_here_was_not_run_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = lambda rows: Judgement("1", "1", "exact", True)  # noqa: E731
    both = {
        name: Claim(name, "beyond", "It runs.", lambda preset, cell=cell: [cell], judge)  # type: ignore[misc]
        for name, cell in (("here", Here()), ("elsewhere", Elsewhere()))
    }
    monkeypatch.setattr(api, "claims", lambda: both)
    monkeypatch.setattr(api.registry, "claim", both.__getitem__)
    here, elsewhere = api.verify(store=tmp_path / "r.sqlite")
    assert here.holds
    assert (elsewhere.verdict, elsewhere.next) == ("not run", "the model is not on this machine: fetch it")
    assert api.all_cells((), list(both.values()), "quick", {}) == [Here()]
    for store in ("r.sqlite", "new.sqlite"):
        with pytest.raises(MissingPackage, match="fetch it"):
            api.verify("elsewhere", store=tmp_path / store)
    assert not (tmp_path / "new.sqlite").exists()

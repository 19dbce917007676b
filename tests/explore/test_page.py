"""The page as a file: what is in it, what it is written from, and what is refused."""

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import facthold as fh
from explore.models import gated
from facthold._util.errors import FactholdError
from facthold._util.files import PAGE, kind_of
from facthold.explore.page import STATIC, modules
from facthold.knowledge.model import Model
from known import countries, random_model

Run = Callable[..., tuple[int, str, str]]
MODEL = re.compile(r'id="model">([^<]*)<')


def test_the_model_in_a_page_is_the_one_that_was_given_to_the_bit(tmp_path: Path) -> None:
    known = gated()
    page = fh.explore(known, tmp_path / "page.html")
    (text,) = MODEL.findall(page.read_text())
    saved = known.save(tmp_path / "own.safetensors", redraw=False)
    assert base64.b64decode(text) == saved.read_bytes()
    assert kind_of(page) == PAGE


@pytest.mark.parametrize("redraw", [False, True])
def test_a_packed_model_and_one_without_embeddings_are_unpacked(redraw: bool, tmp_path: Path) -> None:
    from facthold.measure.grids import Grid
    from facthold.measure.quantise import grid_points, quantise
    from facthold.models.saving import write_model

    known = gated()
    grids = quantise(known.model, Grid(255)).grids
    points, rounded = grid_points(known.model, grids), quantise(known.model, Grid(255)).model
    write_model(tmp_path / "packed.safetensors", rounded, known.problem, points=points, redraw=redraw)
    page = fh.explore(tmp_path / "packed.safetensors", tmp_path / "page.html")
    (text,) = MODEL.findall(page.read_text())
    (tmp_path / "out.safetensors").write_bytes(base64.b64decode(text))
    before, after = fh.load(tmp_path / "packed.safetensors"), fh.load(tmp_path / "out.safetensors")
    assert (before.model.W_K == after.model.W_K).all()
    assert (before.problem.phi == after.problem.phi).all()
    assert after.problem.table.to_rows() == known.table.to_rows()


def test_a_page_has_all_modules_and_nothing_from_elsewhere(tmp_path: Path) -> None:
    page = fh.explore(gated(), tmp_path / "page.html").read_text()
    (text,) = re.findall(r'type="importmap">(.*?)</script>', page)
    inside = json.loads(text)["imports"]
    assert inside == modules()
    for path in STATIC.glob("*.js"):
        source = path.read_text()
        assert base64.b64decode(inside[f"facthold/{path.stem}"].partition(",")[2]).decode() == source
        imported = re.findall(r'(?:from|import)\s+"([^"]+)"', source)
        assert {f"facthold/{path.stem}" for path in STATIC.glob("*.js")} >= set(imported), path.name
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", source), path.name
    assert not re.search(r'(?:src|href)="(?!#)', page)
    assert "default-src 'none'" in page


def test_names_cannot_break_out_of_the_page(tmp_path: Path) -> None:
    rows = [("</script><b>x", "r & s", '"<i>'), ("y", "r & s", "z")]
    known = fh.build(rows, recipe="gated")
    page = fh.explore(known, tmp_path / "page.html").read_text()
    assert "<b>x" not in page
    assert "<i>" not in page


def test_modules_are_short_and_say_what_they_are() -> None:
    for path in STATIC.glob("*.js"):
        lines = path.read_text().splitlines()
        assert len(lines) <= 400, path.name
        assert lines[0].startswith("// "), path.name


def test_the_first_sentence_counts_what_is_known(tmp_path: Path) -> None:
    known = gated()
    page = fh.explore(known, tmp_path / "page.html").read_text()
    n = len(known.table)
    assert f"knows {n} facts, such as “France, capital: Paris”" in page
    assert f"{known.n_params:,} weights" in page
    assert '{"relation": 0, "subject": 0}' in page
    weak = Model(*random_model())
    assert (
        f"knows {round(weak.recall * len(weak.table))} of {len(weak.table)} facts"
        in fh.explore(weak, tmp_path / "weak.html").read_text()
    )


def test_a_path_a_model_and_nothing_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = gated().save(tmp_path / "m.safetensors")
    assert fh.explore(saved, tmp_path / "a.html").read_text().count("m.safetensors") == 1
    assert fh.explore(str(saved), str(tmp_path / "b.html")) == tmp_path / "b.html"
    with pytest.raises(FactholdError, match="is the model itself, which would be lost"):
        fh.explore(saved, saved)
    with pytest.raises(ValueError, match="model=3 must be"):
        fh.explore(3, tmp_path / "c.html")  # type: ignore[arg-type]
    monkeypatch.setattr("facthold.explore.page.countries", lambda table: Model(*countries()))
    assert "babel" in fh.explore(None, tmp_path / "d.html").read_text()


def test_a_model_that_is_too_large_for_a_page_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("facthold.explore.exporting.LARGEST", 1000)
    with pytest.raises(FactholdError, match="a page holds at most 1,000; build one of fewer facts"):
        fh.explore(gated(), tmp_path / "page.html")
    assert not list(tmp_path.iterdir())

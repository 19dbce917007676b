"""What a model knows: which facts are judged, by which prompts, and what a cell says of its model."""

import hashlib
from pathlib import Path

import pytest

from facthold.lab import api
from facthold.lab.registry import figure
from facthold.lm import fetch as fetching
from facthold.lm.knowing import AMBIGUOUS, CONTAINED, ask_facts, copying, majority, reason_left_out
from facthold.lm.library import load
from facthold.lm.prompts import TEMPLATES, draw_shots, facts_for, prompt
from facthold.lm.tiny import KNOWN, ROWS
from facthold.studies.lm.base import FETCHED
from facthold.studies.lm.knows import LmKnows
from gguf_files import random_weights, write

FACTS = [
    ("Peru", "capital", "Lima"), ("Cuba", "capital", "Havana"), ("Luxembourg", "capital", "Luxembourg"),
    ("Mexico", "capital", "Mexico City"), ("Thailand", "language", "Thai"), ("Haiti", "capital", "Hague"),
]  # fmt: skip


def test_facts_that_say_nothing_of_knowledge_are_left_out() -> None:
    by_letter = [reason_left_out(fact, FACTS, lambda answer: ord(answer[0])) for fact in FACTS]
    # Lima and Luxembourg, Havana and Hague begin alike
    assert by_letter == [AMBIGUOUS, AMBIGUOUS, CONTAINED, CONTAINED, CONTAINED, AMBIGUOUS]
    assert [reason_left_out(fact, FACTS, hash) for fact in FACTS] == ["", "", CONTAINED, CONTAINED, CONTAINED, ""]


def test_examples_are_of_other_subjects_and_stay_the_same() -> None:
    fact = ("France", "capital", "Paris")
    drawn = draw_shots(ROWS, fact, 3, 0)
    assert len({s for s, _, _ in drawn} - {"France"}) == 3
    assert {r for _, r, _ in drawn} == {"capital"}
    assert draw_shots([*ROWS, ("Atlantis", "region", "Sea")], fact, 3, 0) == drawn
    assert draw_shots(ROWS, fact, 3, 1) != drawn
    text = prompt("capital", "France", shots=drawn[:1])
    assert text == f"The capital of {drawn[0][0]} is {drawn[0][2]}.\nThe capital of France is"
    with pytest.raises(ValueError, match="template=9: there are 4 of capital"):
        prompt("capital", "France", template=9)


def test_every_template_asks_for_what_follows() -> None:
    for relation, words in TEMPLATES.items():
        assert len(set(words)) == 4, relation
        assert all(text.count("{}") == 1 and text == text.rstrip() for text in words)


@pytest.mark.parametrize("shots", [0, 3])
def test_the_tiny_model_knows_what_it_was_made_to_know(shots: int) -> None:
    rows = facts_for("tiny", ["capital", "language"])
    found = ask_facts(load("tiny"), rows, rows, shots=shots)
    assert [one.fact for one in found] == rows
    capitals = [one for one in found if one.fact[1] == "capital"]
    assert [one.rank == 1 for one in capitals] == [one.fact[0] in KNOWN for one in capitals]
    assert all(one.best for one in capitals if one.rank == 1)
    assert {one.fact[0] for one in found if one.left_out == CONTAINED} == {"Germany", "Japan", "Thailand"}


def test_baselines_need_no_model() -> None:
    assert majority([("a", "r", "x"), ("b", "r", "x"), ("c", "r", "y")]) == pytest.approx(2 / 3)
    assert copying([("Peru", "r", "Peru"), ("Peru", "r", "Lima")], load("tiny").tokeniser) == 0.5


def test_a_cell_names_its_model_by_its_contents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(fetching.FOLDER_VARIABLE, str(tmp_path / "models"))
    path = write(tmp_path / "mine.gguf", random_weights())
    sha = hashlib.sha256(path.read_bytes()).hexdigest()
    grid = figure("lm-knows").grid("smoke", {"model": str(path), "relations": ["region"], "templates": 1})
    cells = figure("lm-knows").cells(grid)
    assert {cell.model for cell in cells} == {sha}  # type: ignore[attr-defined]
    assert (
        len({cell.key for cell in (*cells, LmKnows(relation="region"), LmKnows(model=FETCHED, relation="region"))}) == 4
    )
    assert cells[0].spec["versions"]
    assert not cells[0].missing
    assert "run facthold lm fetch" in LmKnows(model=FETCHED, relation="region").missing
    with pytest.raises(ValueError, match="must be 'tiny' or the SHA-256 of a file"):
        LmKnows(model="mine.gguf", relation="region")
    with pytest.raises(ValueError, match="unknown relation 'captial'"):
        LmKnows(relation="captial")


def test_all_claims_and_figures_go_on_without_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(fetching.FOLDER_VARIABLE, str(tmp_path / "models"))
    possible, left_out = api.figures_for((), "quick", {})
    assert "run facthold lm fetch" in left_out["lm-knows"]
    assert all(not name.startswith("lm-") for name in (f.name for f in possible))
    assert "lm-knows" in {f.name for f in api.figures_for((), "smoke", {})[0]}

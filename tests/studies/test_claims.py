"""Claims: each runs from cells to verdict. That each judge can say no is tested beside its study."""

import dataclasses
import functools
import json
from pathlib import Path
from typing import Any

import pytest

from facthold.lab.cells import Cell
from facthold.lab.claim import Judgement
from facthold.lab.figure import PRESETS
from facthold.lab.registry import claim, claims, figures
from facthold.lab.runner import run_cells
from facthold.lab.store import Store
from facthold.studies.constructions.built import BuiltSize
from facthold.studies.judging import all_of, at_preset, fresh_seeds, seeds_at
from facthold.studies.memories.capacity import Capacity

Row = dict[str, Any]
TRAINED = (
    "linear-trained-growth", "mlp-trained-growth", "fixed-outputs-growth", "two-outputs-trained", "authors-rule",
    "attention-for-mlp", "attention-floor",
)  # fmt: skip
FACTS = ("facts-growth", "facts-per-parameter", "facts-heads", "facts-own-answers", "facts-few-relations")
"""Their smoke cells are those of figures 4, 7, 8 and 9, which the tests of the figures compute."""
BUILT = "built-against-trained"
"""Some of its cells are too. All are judged on made-up rows."""
AT_ANY_SIZE = (
    "margin-in-image",
    "margin-outside-image",
    "gradient-step",
    "rounding",
    "layerwise",
    "all-facts",
    "nothing-below-theorem-7",
    "theorem-8",
    "weighted-memory",
    "flow-conserves",
    "weights-grow-slowly",
    "loss-vanishes",
    "sequential-learning",
    "relations-learnt",
    "comparison",
    "marginal-first",
)
"""Identities, bounds and exact moments: they hold at smoke sizes too. The others are laws of growth."""


def test_registry_is_well_formed() -> None:
    assert len(claims()) >= 12
    for id, c in claims().items():
        assert id == c.id
        assert c.place
        assert c.statement.endswith((".", ".)"))
        assert claim(id) is c
        for preset in PRESETS:
            cells = c.cells(preset)
            assert cells
            assert len({cell.key for cell in cells}) == len(cells)
        with pytest.raises(ValueError, match="preset"):
            c.cells("fast")
    with pytest.raises(ValueError, match="did you mean 'layerwise'"):
        claim("layerwize")


def test_what_smoke_decides_holds_at_any_size() -> None:
    assert {id for id, c in claims().items() if c.at_any_size} < set(AT_ANY_SIZE)
    assert not claim("facts-growth").decided_at("smoke")
    assert claim("facts-growth").decided_at("quick")


def test_a_claim_without_rows_was_not_run() -> None:
    for c in claims().values():
        assert c.report(None, "quick").verdict == "not run"


@pytest.mark.parametrize("id", [id for id in claims() if id not in (*TRAINED, *FACTS, BUILT)])
def test_smoke_runs_from_cells_to_verdict(id: str, smoke_store: Path) -> None:
    _check_report(id, smoke_store)


@pytest.mark.slow
@pytest.mark.parametrize("id", TRAINED)
def test_smoke_of_training_runs_from_cells_to_verdict(id: str, smoke_store: Path) -> None:
    _check_report(id, smoke_store)


@functools.cache
def _drawn() -> set[str]:
    """Keys of the figures' smoke cells: their tests compute them as they are."""
    return {cell.key for f in figures().values() for cell in f.cells(f.grid("smoke"))}


def _coarse(cell: Cell) -> Cell:
    """A search of one seed that ends at a factor of 1.5: enough to see that a claim runs, not that it holds."""
    if not isinstance(cell, Capacity | BuiltSize) or cell.key in _drawn():
        return cell
    return dataclasses.replace(cell, seeds=(0,), tolerance=0.5)


def _check_report(id: str, path: Path) -> None:
    with Store(path) as store:
        rows = run_cells([_coarse(cell) for cell in claim(id).cells("smoke")], store)
    judged = claim(id).report(rows, "smoke")
    decided = ("holds", "drifts", "not decided", "fails")
    assert judged.judgement in (decided[:2] if id in AT_ANY_SIZE else decided), judged
    assert judged.verdict == (judged.judgement if claim(id).at_any_size else "runs")
    values = json.loads(json.dumps(judged.as_json()))
    assert list(values) == [
        "id", "place", "statement", "changed", "predicted", "measured", "error", "verdict", "drift", "next",
        "judgement",
    ]  # fmt: skip
    assert all(isinstance(value, str) for value in values.values())
    assert all(values[name] for name in values if name not in ("changed", "drift", "next"))


def test_paper_falls_back_to_quick() -> None:
    assert at_preset({"quick": 1}, "paper") == 1
    assert at_preset({"quick": 1, "paper": 2}, "paper") == 2
    with pytest.raises(ValueError, match="unknown preset"):
        at_preset({"quick": 1}, "large")


def test_fresh_seeds_are_those_that_nothing_was_chosen_on() -> None:
    assert fresh_seeds("quick", 3) == (100, 101, 102)
    assert fresh_seeds("smoke", 3) == (0, 1)
    for id in ("outer-product-growth", "low-rank-growth", "exact-recall", "mlp-memory-growth", "mlp-growth",
               "mlp-answers", "mlp-degrees", "part-of-table", "efficiency", "rounding", "separability"):  # fmt: skip
        assert claim(id).changed
        assert all(min(cell.seeds) >= 100 for cell in claim(id).cells("quick")), id  # type: ignore[attr-defined]


def test_smoke_has_two_seeds() -> None:
    assert seeds_at("smoke", 10) == (0, 1)
    assert seeds_at("quick", 3, first=100) == (100, 101, 102)


@pytest.mark.parametrize("wrong", [None, 0, 1, 2])
def test_a_claim_of_several_parts_holds_where_all_do(wrong: int | None) -> None:
    whole = all_of(*(Judgement(f"p{i}", f"m{i}", f"e{i}", i != wrong) for i in range(3)))
    assert (whole.predicted, whole.measured, whole.error) == ("p0; p1; p2", "m0; m1; m2", "e0; e1; e2")
    assert whole.holds == (wrong is None)

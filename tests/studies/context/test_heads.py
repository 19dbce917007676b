"""Cells of heads: stages, searches, what is kept of a model."""

from typing import Any

import numpy as np
import pytest

from facthold.lab.registry import claim, figure
from facthold.studies.context.base import BuiltHead, TrainedHead
from facthold.studies.context.heads import NATURAL, GenericHead, SmallestHead, StagedHead
from facthold.studies.context.induction import half

SMALL: dict[str, Any] = {"d": 16, "T": 16, "K": 2}


def staged(**wish: Any) -> StagedHead:
    return StagedHead(**SMALL | {"lr": 0.05, "steps": 30, "batch": 4, "check_every": 5} | wish)


def test_each_stage_moves_its_own_matrix_alone() -> None:
    cell = staged(stages=("W_OV^2",), steps=10)
    start, (_, model) = cell.start(), cell.learnt()
    assert not np.array_equal(np.asarray(start.layers[1].W_OV), np.asarray(model.layers[1].W_OV))
    for i in (0, 1):
        np.testing.assert_array_equal(np.asarray(start.layers[i].W_KQ), np.asarray(model.layers[i].W_KQ))
    np.testing.assert_array_equal(np.asarray(start.layers[0].W_OV), np.asarray(model.layers[0].W_OV))


def test_stages_share_the_steps_and_go_on_from_each_other() -> None:
    cell = staged()
    run, model = cell.learnt()
    assert run.steps == cell.steps
    assert len(run.curve) == cell.steps // cell.check_every
    assert len(cell.curves(run)["W_KQ^1"]) == len(run.curve)
    start = cell.start()
    for i, part in ((0, "W_KQ"), (1, "W_KQ"), (1, "W_OV")):
        before, after = (np.asarray(getattr(m.layers[i], part)) for m in (start, model))
        assert not np.array_equal(before, after)
    assert cell.stages == NATURAL == ("W_OV^2", "W_KQ^2", "W_KQ^1")


def test_stages_that_do_not_share_the_steps_are_refused() -> None:
    with pytest.raises(ValueError, match="steps=20 are not 3 stages"):
        staged(steps=20)


def test_a_search_ends_at_a_size_that_is_enough_and_one_below_that_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """By heads whose accuracy is known: what the search finds is what there is, and it is judged once more."""
    judged: list[int] = []
    monkeypatch.setattr(BuiltHead, "model", lambda self: self.d)
    monkeypatch.setattr("facthold.measure.probes.probes", lambda model, triggers: {"W_KQ^1": 1.0})
    by_d = type("Share", (), {"share": 0.0})

    def accuracy(_: object, d: int) -> object:
        found = by_d()
        found.share = d / 200
        return found

    monkeypatch.setattr("facthold.measure.in_context.Exam.accuracy", accuracy)
    monkeypatch.setattr(BuiltHead, "judged", lambda self, model: judged.append(model) or {"accuracy": 0.5})
    found = SmallestHead(recipe="outer products", guess=64, grain=16, goal=0.6, T=16, K=2).run()
    assert (found["status"], found["size"], found["too_small"]) == ("found", 128, 112)
    assert judged == [128]
    assert found["accuracy"] == 0.5  # of the other sequences
    assert {try_["d"] for try_ in found["tried"]} >= {112, 128}


def test_a_search_trains_what_the_figure_trains() -> None:
    cell = SmallestHead(recipe="trained", guess=64, lr=0.02, steps=80, batch=8, T=16, K=2, silent_first=False, seed=3)
    assert cell.at(32) == TrainedHead(d=32, lr=0.02, steps=80, batch=8, check_every=40, T=16, K=2, seed=3)


@pytest.mark.slow
def test_errors_are_counted_on_the_sequences_that_judge() -> None:
    cell = BuiltHead(d=32, T=24, K=3, silent_first=False)
    found = cell.run()
    assert found["wrong"] == found["judged"] - round(found["accuracy"] * found["judged"])
    assert found["wrong_from_start"] <= min(found["wrong"], found["from_start"])
    assert len(found["map"]["tokens"]) == len(found["map"]["layers"][0]) == 24


@pytest.mark.slow
def test_a_usual_transformer_says_where_its_heads_look() -> None:
    found = GenericHead(d=16, H=2, T=16, K=2, lr=0.01, steps=4, batch=4, check_every=2).run()
    assert len(found["looks"]) == 2
    assert len(found["curves"]["accuracy"]) == 2


def test_half_is_found_at_the_first_evaluation_that_has_it() -> None:
    assert half({"curves": {"steps": [10, 20, 30], "W": [0.1, 0.2, 0.4]}}, "W") == 20


def test_maps_cost_nothing_but_the_solved_head() -> None:
    """All else of them is in the other figures."""
    keys = {
        f: {c.key for c in figure(f).cells(figure(f).grid("quick"))} for f in ("induction", "probes", "attention-maps")
    }
    assert len(keys["attention-maps"] - keys["induction"] - keys["probes"]) == 1


@pytest.mark.parametrize("id", ["one-layer", "two-layers", "learning-order"])
def test_claims_on_heads_are_judged_on_cells_of_the_figures(id: str) -> None:
    keys = {c.key for f in ("induction", "probes") for c in figure(f).cells(figure(f).grid("quick"))}
    assert {cell.key for cell in claim(id).cells("quick")} <= keys

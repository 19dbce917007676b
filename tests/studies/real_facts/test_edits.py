"""Edits one after another: which facts they touch, what is counted, wider models, and what is refused."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose

from facthold.facts.problem import seeded_table
from facthold.facts.table import FactTable
from facthold.knowledge.model import Model
from facthold.knowledge.tables import replaced
from facthold.models.judge import judge_table
from facthold.studies.real_facts.edits import FIGURE, Edits, random_edits

TINY = Edits(counts=(1, 3), S=12, R=2, D=4)
TRAINED = dataclasses.replace(TINY, model="trained", d=9, H=2, d_h=4, m=17, protocol="transformer-smoke")


def test_every_edit_is_another_fact_with_another_answer_of_its_relation() -> None:
    table = seeded_table("random", 12, 2, 4, 0)
    edits = random_edits(table, len(table), seed=0)
    assert sorted(row for row, _ in edits) == list(range(len(table)))
    for row, a in edits:
        assert a != table.answers[row]
        assert a in table.A_r(int(table.relations[row]))
    assert random_edits(table, 5, seed=0) == edits[:5]  # more edits begin with the fewer
    assert random_edits(table, 5, seed=1) != edits[:5]


def test_a_relation_with_one_answer_takes_one_of_the_table_and_further_right_answers_are_no_edits() -> None:
    rows = [("a", "r", "x"), ("b", "r", "x"), ("a", "q", "y"), ("a", "q", "z"), ("b", "q", "z")]
    table = FactTable.from_rows(rows, on_conflict="all")
    for row, a in random_edits(table, 4, seed=3):
        assert a not in table.right(row)
    assert dict(random_edits(table, 4, seed=3))[2] == 0  # y and z are right for (a, q); x is what is left


def test_wider_models_have_wider_groups_the_same_attention_and_know_the_table() -> None:
    table = seeded_table("random", 12, 2, 4, 0)
    narrow, problem, *_ = TINY.gated(table)
    wide, same, *_ = TINY.gated(table, 2.0)
    assert wide.m == 2 * narrow.m  # whole widths: nothing is rounded up
    np.testing.assert_array_equal(problem.phi, same.phi)
    for name in ("W_K", "W_Q", "W_V", "W_O"):
        np.testing.assert_array_equal(getattr(narrow, name), getattr(wide, name))
    report = judge_table(wide, same, seed=5)
    assert report.recalled.all()


def test_the_counts_are_those_of_the_edits_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Edits that do nothing to the weights: no edited fact gives its new answer, and no other is harmed."""
    seen = []

    def idle(known, subject, relation, answer, *, in_place):
        assert in_place == TINY.in_place
        row = known.find_row(subject, relation, "")
        seen.append((row, int(answer)))
        return Model(known.model, replaced(known.problem, row, int(answer)))

    monkeypatch.setattr(Model, "edit", idle)
    found = TINY.run()
    assert seen == random_edits(seeded_table("random", 12, 2, 4, 0), 3, seed=0)
    assert found["accuracy"] == 1.0
    assert found["efficacy"] == [0.0, 0.0]
    assert found["specificity"] == [1.0, 1.0]
    assert found["again"] == 1.0  # built again, from the table with all edits


def test_real_edits_and_their_seconds() -> None:
    found = TINY.run()
    assert found["efficacy"][0] == 1.0  # one edit gives its new answer, in prompts that it has not seen
    assert len(found["efficacy"]) == len(found["specificity"]) == len(found["seconds"]) == 2
    assert 0 < found["seconds"][0] < found["seconds"][1]
    assert found["again"] == 1.0
    assert found["facts"] == 24
    assert found["more_params"] == sorted(found["more_params"])  # neurons come and none go
    in_place = dataclasses.replace(TINY, in_place=True)
    assert in_place.key != TINY.key
    assert in_place.run()["more_params"] == [0, 0]


def test_training_that_diverges_is_a_row_and_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Edits, "trained", lambda *_: None)
    row = TRAINED.spec | TRAINED.run()
    assert (row["status"], row["accuracy"]) == ("diverged", None)
    assert not FIGURE.plot([row]).axes[1].get_lines()[1:]  # the line at 1 alone


def test_the_picture_has_a_line_a_model_and_says_what_building_again_takes() -> None:
    common = {"counts": [1, 10], "facts": 24, "n_params": 4000, "accuracy": 1.0, "build_seconds": 90.0}
    one = TINY.spec | common | {"efficacy": [1.0, 0.9], "specificity": [1.0, 0.5], "seconds": [0.1, 2.0], "again": 1.0,
                                "again_seconds": 4.0, "more_params": [0, 102]}  # fmt: skip
    two = TRAINED.spec | common | {"efficacy": [1.0, 1.0], "specificity": [0.8, None], "seconds": [0.1, 1.0],
                                   "again": 0.97, "again_seconds": 40.0, "more_params": [0, 0]}  # fmt: skip
    canvas = FIGURE.plot([one, two])
    new, old, seconds = canvas.axes
    labels = new.get_legend_handles_labels()[1]
    assert (
        labels[0] == "gated, smallest widths; 4,000 + 102 parameters; 0.2 s per edit; building again 4 s, 100.0% right"
    )
    assert labels[1].startswith("trained, $d=9$, $m=17$")
    assert labels[1].endswith("building again 40 s, 97.0% right")
    assert_allclose(old.get_lines()[0].get_ydata(), [1.0, 0.5])
    assert_allclose(old.get_lines()[1].get_ydata(), [0.8, np.nan])
    assert [line.get_ydata()[0] for line in seconds.get_lines()[1::2]] == [4.0, 40.0]
    assert FIGURE.fits([one, two]) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"counts": ()}, "counts is empty"),
        ({"counts": (2, 1)}, "must be rising numbers of edits"),
        ({"counts": (0, 1)}, "counts=0 must be at least 1"),
        ({"counts": (25,)}, "25 edits need as many facts, and S R has 24"),
        ({"width": 0.5}, "width=0.5 must be at least 1"),
        ({"model": "built"}, "unknown model 'built'"),
        ({"model": "trained"}, "d=0 must be at least 1"),
        ({"R": 1, "D": 1}, "leave no other answer"),
        ({"source": "countries"}, "leave them 0 for countries"),
    ],
)
def test_what_has_no_meaning_is_refused(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **changes)

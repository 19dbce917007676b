"""Edits: which facts are drawn, and the claim on rows that agree and on rows that do not."""

from typing import Any

import pytest

from facthold.lab.registry import claim
from facthold.studies.lm.edits import COVARIANCES, MEASURES, LmEdits, chosen, drawn

N = 20


def row(layer: int, text: float, neighbours: float, efficacy: float = 1.0, value: str = "gradient") -> dict[str, Any]:
    """Specificity with C of a text and of neighbours too, and efficacy with the latter; some spread."""
    spread = [0.02 * (-1) ** (i // 2) for i in range(N)]
    single = {C: {m: [1.0] * N for m in MEASURES} for C in COVARIANCES}
    single["text"]["specificity"] = [text + s for s in spread]
    single["neighbours"]["specificity"] = [neighbours + 2 * s for s in spread]
    single["neighbours"]["efficacy"] = [float((i // 2) % 10 < 10 * efficacy) for i in range(N)]
    return {"layer": layer, "value": value, "single": single}


def test_it_holds_where_neighbours_keys_help_and_fails_where_they_do_not() -> None:
    judge = claim("lm-edit-neighbours").judge
    assert judge([row(8, 0.4, 0.9), row(4, 0.2, 0.3)]).verdict == "holds"
    assert judge([row(8, 0.9, 0.9)]).verdict == "fails"
    assert judge([row(8, 0.4, 0.9, efficacy=0.5)]).verdict == "fails"  # bought with edits that do not take
    assert judge([row(8, 0.4, 0.9, efficacy=0.9)]).verdict == "not decided"


def test_the_layer_is_chosen_on_one_half_by_c_of_a_text() -> None:
    rows = [row(4, 0.4, 1.0), row(8, 0.5, 0.5), row(9, 0.9, 0.9, value="closed")]
    assert [chosen(rows, half)["layer"] for half in (0, 1)] == [8, 8]
    rows[0]["single"]["text"]["specificity"] = [1.0 if i % 2 else 0.0 for i in range(N)]
    assert [chosen(rows, half)["layer"] for half in (0, 1)] == [8, 4]


def test_no_subject_is_edited_and_judged_and_in_c() -> None:
    edits, judged, others = drawn("tiny", 4, 4, 6)
    names = [*(s for s, _ in edits), *(s for s, _ in judged), *others]
    assert len(names) == len(set(names)) == 14
    with pytest.raises(ValueError, match="n_edits=40: there are"):
        drawn("tiny", 40, 4, 6)


def test_a_cell_scores_every_kind_of_c() -> None:
    found = LmEdits(layer=0, value="gradient", n_edits=2, neighbours=3, keys=4, lengths=(1, 2)).run()
    assert set(found["single"]) == set(COVARIANCES)
    assert [one["n"] for one in found["sequence"]["text"]] == [1, 2]
    assert found["whole"]["efficacy"] == 0.0  # of answers that are new
    assert found["whole"]["specificity"] == 1.0
    first = {C: found["sequence"][C][0]["efficacy"] for C in COVARIANCES}
    assert first == {C: found["single"][C]["efficacy"][0] for C in COVARIANCES}

"""Taught facts: which are drawn, a cell on the tiny model, and the claim on rows that agree and on rows that do not."""

from typing import Any

import pytest

from facthold.lab.registry import claim
from facthold.lm.library import load
from facthold.studies.lm.teach import SHUFFLED, TEACHING_RECIPES, WORDINGS, LmTeach, chosen, drawn_facts, shares

N = 400


def text(share: float, n: int = N) -> str:
    """So many ones, spread evenly over both halves."""
    return "".join("1" if (7 * (i // 2)) % 100 < 100 * share else "0" for i in range(n))


def row(solved: float, outer: float = 0.1, shuffled: float = 0.0, kept: float = 1.0) -> dict[str, Any]:
    levels = {"outer": outer, "whitened": 0.3, "solved": solved, SHUFFLED: shuffled}
    return {
        "N": N, "layers": [4, 5], "subjects": [f"s{i}" for i in range(N)], "held": "01" * (N // 2),
        "right": {how: {name: [text(level / 2), text(level)] for name in WORDINGS} for how, level in levels.items()},
        "foreign": [f"s{i}" for i in range(N)], "kept": {how: [text(0.2), text(kept)] for how in levels},
    }  # fmt: skip


def test_it_holds_and_fails() -> None:
    judge = claim("lm-teach-paraphrase").judge
    assert judge([row(0.95)]).verdict == "holds"
    assert judge([row(0.6)]).verdict == "fails"
    assert judge([row(0.95, outer=0.9)]).verdict == "fails"  # anything would do
    assert judge([row(0.95, shuffled=0.9)]).verdict == "fails"  # whatever the matrix says is right
    assert judge([row(0.95, kept=0.5)]).verdict == "fails"  # bought with other answers


def test_the_layer_is_chosen_on_one_half_of_the_subjects() -> None:
    found = row(0.9)
    assert chosen(found) == 1
    for name in WORDINGS:  # the first layer is the better one on the choosing half, and wrong on the other
        found["right"]["solved"][name] = ["10" * (N // 2), "01" * (N // 2)]
    assert chosen(found) == 0
    assert claim("lm-teach-paraphrase").judge([found]).verdict == "fails"


def test_facts_are_drawn_by_hashes_so_that_fewer_are_the_first_of_more() -> None:
    model = load("tiny")
    facts = drawn_facts("tiny", 12, model)
    assert len({s for s, _, _ in facts}) == 12
    assert drawn_facts("tiny", 4, model) == facts[:4]
    with pytest.raises(ValueError, match="N=40: there are 16 subjects; take fewer"):
        drawn_facts("tiny", 40, model)


def test_a_cell_teaches_by_every_recipe() -> None:
    found = LmTeach(N=12, layers=(0, 1)).run()
    assert set(found["right"]) == {*TEACHING_RECIPES, SHUFFLED}
    assert shares(found, "solved", "taught").shape == (2, 12)
    assert shares(found, "solved", "taught")[0].mean() == 1.0
    assert shares(found, SHUFFLED, "taught")[0].mean() < 0.3
    assert found["known"] == "0" * 12
    assert found["n_params"] == 128 * 128 + 129

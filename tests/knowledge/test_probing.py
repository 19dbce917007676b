"""The stages of an induction head that is being learnt, from curves that are made up."""

import math

from facthold.knowledge.probing import Probing
from facthold.knowledge.settings import Settings

RULES = {"bigram": 0.01, "mode": 0.5, "counts": 0.75}
CURVES = {
    "accuracy": [0.02, 0.3, 0.5, 0.6, 0.8, 0.9], "W_OV^2": [0.1, 0.5, 0.9, 1.0, 1.0, 1.0],
    "W_KQ^2": [0.0, 0.2, 0.4, 0.6, 1.0, 1.0], "W_KQ^1": [0.02, 0.02, 0.1, 0.2, 0.3, 0.3],
}  # fmt: skip


def seen() -> tuple[Probing, list[list[str]]]:
    probing = Probing(Settings(), RULES)
    looks = [dict(zip(CURVES, values, strict=True)) for values in zip(*CURVES.values(), strict=True)]
    return probing, [probing.add(10 * i, look | {"other": 1.0}) for i, look in enumerate(looks)]


def test_each_stage_is_said_once_where_it_is_passed() -> None:
    probing, new = seen()
    assert new == [["start"], ["W_OV^2"], [], ["W_KQ^2", "mode"], ["counts"], []]
    assert probing.reached == {"start": 0, "W_OV^2": 1, "W_KQ^2": 3, "mode": 3, "counts": 4}


def test_half_is_of_what_a_probe_has_at_the_end() -> None:
    probing, _ = seen()
    assert {name: probing.half_of_final(name) for name in ("W_OV^2", "W_KQ^2", "W_KQ^1")} == {
        "W_OV^2": 10, "W_KQ^2": 30, "W_KQ^1": 30,
    }  # fmt: skip


def test_a_look_at_which_nothing_is_told_passes_nothing() -> None:
    probing, _ = seen()
    before = dict(probing.reached)
    assert probing.add(60, dict.fromkeys(CURVES, math.nan)) == []
    assert probing.reached == before


def test_rows_are_the_curves() -> None:
    probing, _ = seen()
    header, *rows = probing.as_rows()
    assert header == ["step", *CURVES]
    assert [row[0] for row in rows] == [0, 10, 20, 30, 40, 50]
    assert [float(row[4]) for row in rows] == CURVES["W_KQ^1"]


def test_a_probe_that_does_not_grow_has_no_half() -> None:
    probing = Probing(Settings(), RULES)
    for step, value in ((0, 0.02), (10, 0.03)):
        probing.add(step, dict.fromkeys(CURVES, value))
    assert probing.half_of_final("W_KQ^1") is None

"""Theorem 8: what its cells count, and that its judge says no to a bound that is off, to models too small, to noise."""

import itertools
import math
from typing import Any

import pytest

from facthold.studies.bits import theorem8
from facthold.studies.bits.fact_bits import FactBits
from facthold.studies.bits.memory_bits import WRITTEN
from facthold.studies.bits.theorem8 import HiddenLearners, HiddenTables, cells, judge, partitions
from facthold.theory.limits_facts import FactsBound, facts_bits, table_entropy

Row = dict[str, Any]


@pytest.fixture(scope="module")
def exact() -> list[Row]:
    """The rows of all cells that make no model."""
    made = [cell for cell in cells("smoke") if not isinstance(cell, FactBits)]
    return [{"kind": cell.kind, **cell.spec, **cell.run()} for cell in made]


def model(*bits: float, recall: float = 1.0) -> Row:
    """A built model of two relations, with so many written bits on each seed."""
    cell = next(cell for cell in cells("quick") if isinstance(cell, FactBits))
    used = [[{"count": WRITTEN, "bits": b, "recall": recall, "goal": 1.0}] for b in bits]
    return {"kind": cell.kind, **cell.spec, "points": [{"seed": i, "used": u} for i, u in enumerate(used)]}


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        (model(2000.0, 2100.0), "holds"),
        (model(100.0, 101.0), "fails"),  # fewer than 163 bits
        (model(200.0, 2000.0), "not decided"),
        (model(2000.0), "not decided"),
        (model(2000.0, 2100.0, recall=0.99), "not decided"),
    ],
)
def test_models_are_judged_by_their_bits(row: Row, verdict: str, exact: list[Row]) -> None:
    assert judge([*exact, row]).verdict == verdict


@pytest.mark.parametrize("factor", [0.9, 1.1, 10.0])
def test_a_bound_that_is_off_is_found_out(factor: float, exact: list[Row], monkeypatch: pytest.MonkeyPatch) -> None:
    def off(*sizes: Any) -> FactsBound:
        bound = facts_bits(*sizes)
        return FactsBound(bound.bits and factor * bound.bits, bound.reason)

    monkeypatch.setattr(theorem8, "facts_bits", off)
    assert judge([*exact, model(1e6, 1.01e6)]).verdict == "fails"


def test_a_smaller_c_is_found_out(exact: list[Row], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theorem8, "C", 0.1)
    assert judge([*exact, model(2000.0, 2100.0)]).verdict == "fails"


@pytest.mark.parametrize(
    "change", [{"entropy": 0.0}, {"enumerated": 1.0}, {"tables": 1}, {"least_spare": -0.1}], ids=lambda c: next(iter(c))
)
def test_each_exact_part_can_fail(change: Row, exact: list[Row]) -> None:
    broken = [row | change if next(iter(change)) in row else row for row in exact]
    assert judge([*broken, model(2000.0, 2100.0)]).verdict == "fails"
    assert judge(exact).verdict == "fails"  # no model


def test_entropy_against_the_list_of_tables() -> None:
    for S, R, D, V in ((1, 1, 1, 2), (3, 1, 2, 4), (2, 2, 2, 5)):
        result = HiddenTables(S=S, R=R, D=D, V=V, enumerate=True).run()
        assert result["entropy"] == pytest.approx(result["enumerated"], abs=1e-9)
    with pytest.raises(ValueError, match="take V >= 6"):
        table_entropy(2, 3, 2, 5)


def test_entropy_of_many_subjects_is_that_of_facts_and_sets() -> None:
    """Where every answer is seen, all that is left is which sets, and which of them."""
    sets = math.log2(math.comb(20, 3) * math.comb(17, 3))
    assert table_entropy(400, 2, 3, 20) == pytest.approx(800 * math.log2(3) + sets, abs=1e-9)


def test_learners_are_all_partitions() -> None:
    """Against all ways to give each of five tokens one of five messages."""
    messages = itertools.product(range(5), repeat=5)
    sizes = {tuple(sorted((m.count(i) for i in set(m)), reverse=True)) for m in messages}
    assert {tuple(parts) for parts in partitions(5, 5)} == sizes
    assert HiddenLearners(S=24, V=16).run()["learners"] == 231


def test_a_size_at_which_the_theorem_says_nothing_is_no_evidence(exact: list[Row]) -> None:
    small = HiddenTables(S=2, R=3, D=1, V=6)
    row = {"kind": small.kind, **small.spec, **small.run()}
    assert judge([*exact, row, model(2000.0, 2100.0)]).verdict == "fails"

"""Cells on bits: what they count, that it can be had again, and what they refuse."""

import json
from typing import Any

import pytest

from facthold.measure.quantise import fewest_bits
from facthold.measure.recall import accuracy
from facthold.recipes import make_memory, memory_recipe
from facthold.studies.bits.fact_bits import FactBits
from facthold.studies.bits.memory_bits import ALL, WRITTEN, MemoryBits, of_seeds

SIGNS = MemoryBits(method="one-bit", d=24, reading="signs", loads=(0.8, 1.0))
OUTER = MemoryBits(method="outer-product", d=24, loads=(0.5, 1.0))
CONVEX = MemoryBits(method="convex-readout", d=6, m=24, loads=(0.6,))
VALUES = FactBits(model="values", S=6, R=6, D=4, guess=16, rooms=(1.0,))
"""Cells that take a second or so each."""


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    return {cell.label: cell.run() for cell in (SIGNS, OUTER, CONVEX, VALUES)}


def test_a_cell_on_bits_says_what_it_counts(results: dict[str, Any]) -> None:
    result = results[SIGNS.label]
    row = next(r for r in result["best"] if r["goal"] == 1.0)
    assert row["levels"] == {"W": 2}
    assert row["bits"] == 24 * 24 + 32 + 18
    assert row["bound"] == pytest.approx(row["facts"] * 24)  # all right, one of 2^24 each
    assert row["efficiency"] == pytest.approx(row["bound"] / row["bits"])
    counts = {r["count"] for r in results[CONVEX.label]["best"]}
    assert counts == {ALL, WRITTEN}
    for r in results[CONVEX.label]["best"]:
        assert set(r["levels"]) == ({"V"} if r["count"] == WRITTEN else {"W", "V"})
    written = {r["count"]: r["bits"] for r in results[VALUES.label]["best"] if r["goal"] == 1.0}
    assert written[WRITTEN] < written[ALL]


def test_results_are_json_and_come_back_the_same(results: dict[str, Any]) -> None:
    for result in results.values():
        assert json.loads(json.dumps(result)) == result
    assert OUTER.run() == results[OUTER.label]


def test_recall_at_the_fewest_bits_can_be_had_again(results: dict[str, Any]) -> None:
    """The bits and the recall that a cell keeps are those of a model that anyone can make."""
    point = results[OUTER.label]["points"][0]
    problem = OUTER.problem(point["facts"], 0)
    memory = make_memory(memory_recipe("outer-product"), problem, 0, 0)
    for used in point["used"]:
        fewest = fewest_bits(memory, lambda m: accuracy(m, problem), used["goal"])
        assert fewest.quantised is not None
        assert (fewest.quantised.bits, fewest.recall) == (used["bits"], used["recall"])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MemoryBits(method="nothing", d=8), "nothing"),
        (lambda: MemoryBits(method="outer-product", d=8, m=4), "m=4"),
        (lambda: MemoryBits(method="layerwise", d=8), "layerwise has a width to choose: give m"),
        (lambda: MemoryBits(method="layerwise", d=8, m=8, reading="signs"), "layerwise"),
        (lambda: MemoryBits(method="outer-product", d=8, reading="eyes"), "eyes"),
        (lambda: MemoryBits(method="outer-product", d=8, loads=()), "loads"),
        (lambda: MemoryBits(method="outer-product", d=8, goals=(1.2,)), "goals"),
        (lambda: FactBits(model="nothing", S=4, R=4, D=4), "nothing"),
        (lambda: FactBits(model="trained", S=4, R=4, D=4, d=8), "d=8"),
        (lambda: FactBits(model="values", S=4, R=4, D=4, levels=3), "levels=3"),
        (lambda: FactBits(model="values", S=0, R=4, D=4), "S=0"),
        (lambda: FactBits(model="trained", S=4, R=4, D=4, alpha=0.0), "alpha=0.0"),
        (lambda: FactBits(model="trained", S=4, R=4, D=4, levels=10**6), "levels=1000000"),
        (lambda: MemoryBits(method="outer-product", d=1, reading="signs"), "d=1"),
        (lambda: MemoryBits(method="one-bit", d=1100, reading="signs"), "d=1100"),
        (lambda: MemoryBits(method="outer-product", d=8, m=-3), "m=-3"),
        (lambda: MemoryBits(method="tangent-kernel", d=8, m=7), "m=7"),
    ],
)
def test_bad_cells_are_refused(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def test_no_search_ends_at_the_largest_that_it_tried(results: dict[str, Any]) -> None:
    for cell in (SIGNS, OUTER, CONVEX):
        row = {"loads": cell.loads, **results[cell.label]}
        assert all(of_seeds(row)), cell.label
        assert of_seeds(row)[0]["facts"] < max(point["facts"] for point in row["points"])  # type: ignore[index]


def test_the_best_is_ten_times_the_plain_outer_product(results: dict[str, Any]) -> None:
    """At sizes that a test can afford: one bit read by signs, and the outer product with the bits of corollary 2."""
    plain = MemoryBits(method="quantised", d=32).run()
    top = [
        max(r["efficiency"] for r in result["best"] if r["goal"] == 0.99) for result in (results[SIGNS.label], plain)
    ]
    assert top[0] >= 10 * top[1]

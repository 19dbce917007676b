"""The figures efficiency and moves, and the claim, on made-up rows."""

from typing import Any

from facthold.lab.registry import cells_of, claim, figure
from facthold.recipes import memory_recipes
from facthold.studies.bits.efficiency import PLAIN, ranking
from facthold.studies.bits.memory_bits import ALL, best


def test_the_figure_covers_five_recipes_at_three_sizes_each() -> None:
    cells = cells_of("efficiency")("quick")
    sizes: dict[Any, set[Any]] = {}
    for cell in cells:
        spec = cell.spec
        name = (spec.get("method") or spec.get("model"), spec.get("levels"), spec.get("reading"))
        sizes.setdefault(name, set()).add((spec["d"], spec.get("m"), spec.get("S")))
    assert sum(len(measured) >= 3 for measured in sizes.values()) >= 5
    methods = {name for name, *_ in sizes}
    left_out = {"train:mlp-code", *(name for name, recipe in memory_recipes().items() if recipe.weighted)}
    assert set(memory_recipes()) - left_out <= methods


def test_ranking_reads_the_best_points() -> None:
    def row(method: str, efficiency: float, **more: Any) -> dict[str, Any]:
        point = {"goal": 0.99, "count": ALL, "efficiency": efficiency, "bound": 10.0}
        return {"kind": "memory-bits", "method": method, "reading": "argmax", "best": [point], **more}

    rows = [row("quantised", 0.01), row("one-bit", 0.6), row("one-bit", 0.5), row("ridge-readout", 0.3) | {"best": []}]
    assert ranking(rows) == [("one-bit", 0.6, 2), (PLAIN, 0.01, 1)]
    assert best(rows[3]) is None
    assert "60 times" in figure("efficiency").says(rows)[-1]
    assert figure("efficiency").says([]) == []


def test_the_claim_judges_the_best_of_each_method() -> None:
    def row(method: str, reading: str, efficiency: float) -> dict[str, Any]:
        return {"method": method, "reading": reading, "best": [{"goal": 0.99, "count": ALL, "efficiency": efficiency}]}

    judge = claim("efficiency").judge
    outer = [row("outer-product", "argmax", 0.08), row("outer-product", "signs", 0.05)]
    assert judge([row("quantised", "argmax", 0.006), *outer, row("one-bit", "signs", 0.6)]).holds
    assert not judge([row("quantised", "argmax", 0.07), *outer, row("one-bit", "signs", 0.6)]).holds
    assert not judge([row("quantised", "argmax", 0.006), *outer, row("one-bit", "signs", 1.2)]).holds  # above the bound
    assert not judge([*outer, row("one-bit", "signs", 0.6)]).holds  # nothing to compare with


def test_lines_of_the_figure_moves_differ_in_one_thing() -> None:
    def row(efficiency: float, **changed: Any) -> dict[str, Any]:
        middle = {"model": "trained", "S": 16, "R": 16, "D": 8, "alpha": 1.0, "beta": 4.0, "levels": 0}
        point = {"goal": 0.99, "count": ALL, "efficiency": efficiency}
        return {"kind": "fact-bits", **middle, **changed, "best": [point]}

    rows = [row(0.04), row(0.01, D=2), row(0.03, S=64, R=4), row(0.02, beta=1.0), row(0.05, levels=7)]
    lines = figure("moves").says(rows)
    assert lines == [
        "trained, answers D: 2: 1.0%, 8: 4.0%",
        "trained, S : R: 16 : 16: 4.0%, 64 : 4: 3.0%",
        "trained, alpha = Hd_h/d, beta = m/d: 1, 1: 2.0%, 1, 4: 4.0%",
        "trained, levels in training: 7: 5.0%, rounded afterwards: 4.0%",
    ]

"""Trained transformers: the cells of figures 4, 7, 8 and 9 and of the heat map, and what is drawn of them."""

import dataclasses
import json
from pathlib import Path

import jax
import numpy as np
import pytest

from facthold.lab.registry import figure
from facthold.models.transformer import Transformer
from facthold.studies.transformers.fact_capacity import FactAccuracy, FactCapacity
from facthold.studies.transformers.fig4 import Grid, cells, fits
from facthold.theory.bounds import FACTS_A_PARAMETER
from facthold.train.engine import Run
from facthold.train.protocols import PROTOCOLS
from facthold.train.race import best_of

TINY = FactCapacity(alpha=2.0, beta=1.0, d=8, protocol="transformer-smoke", seeds=(0,), tolerance=0.5, start=0.3)


def test_a_cell_counts_facts_and_parameters() -> None:
    cell = FactCapacity(alpha=0.5, beta=4.0, H=8, d=45, growth="S=R^2")
    assert cell.sizes == (45, 8, 2, 180)
    assert cell.n_params == 4 * 8 * 2 * 45 + 2 * 180 * 45
    assert cell.R(50) == 7
    S = cell.guess
    assert S * cell.R(S) <= FACTS_A_PARAMETER * cell.n_params < (S + 20) * cell.R(S + 20)


def test_a_search_over_tables_finds_a_capacity_and_keeps_its_probes() -> None:
    result = TINY.run()
    assert result["status"] == "found"
    (seed,) = result["per_seed"]
    assert result["facts"] == result["N"] ** 2
    assert all(probe["stored"] == (probe["accuracy"] >= 0.99 - 1e-6) for probe in seed["probes"])
    assert seed["stored"] < seed["refused"]
    assert json.dumps(TINY.run()) == json.dumps(result)  # the same spec, the same bits


def test_tables_of_a_search_are_nested_and_share_a_shape() -> None:
    a, b = TINY.problem(5, 0), TINY.problem(6, 0)
    np.testing.assert_array_equal(a.table.matrix, b.table.matrix[:5, :5])
    np.testing.assert_array_equal(a.phi[:5], b.phi[:5])
    shapes = [[np.shape(x) for x in jax.tree.leaves(TINY.members(S, 0)[0].task)] for S in (5, 6)]
    assert shapes[0] == shapes[1]


def test_accuracy_of_one_size_is_that_of_its_best_look() -> None:
    cell = FactAccuracy(d=8, H=4, d_h=4, m=16, S=4, R=4, D=2, protocol="transformer-smoke")
    result = cell.run()
    assert result["n_params"] == result["attention_params"] + result["mlp_params"] == 4 * 4 * 8 * 4 + 2 * 16 * 8
    assert result["final"] <= result["accuracy"] <= 1
    assert result["accuracy"] > 1 / 2  # better than a guess that knows the relation


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": 0.1}, "d_h=0"),
        ({"growth": "S=R^3"}, "unknown growth"),
        ({"table": "sorted"}, "unknown table"),
        ({"variant": "cod"}, "did you mean 'code'"),
        ({"protocol": "transformer-cod"}, "did you mean 'transformer-code'"),
        ({"rule": "last"}, "unknown rule"),
        ({"rule": "author"}, "did you mean 'authors'"),
        ({"seeds": ()}, "seeds is empty"),
        ({"T": 2}, "T"),
        ({"goal": 1.5}, "goal=1.5"),
        ({"tolerance": -0.1}, "tolerance=-0.1"),
    ],
)
def test_a_bad_cell_says_what_is_wrong(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **change)


def test_a_changed_protocol_or_variant_is_another_cell() -> None:
    keys = {
        dataclasses.replace(TINY, **change).key
        for change in ({}, {"variant": "text"}, {"rule": "final"}, {"rule": "authors"})
    }
    assert len(keys) == 4
    assert all(name in PROTOCOLS for name in ("transformer-code", "transformer-short", "transformer-smoke"))


def test_quick_presets_compare_sizes_of_exact_shapes_with_three_seeds() -> None:
    """Of each shape the largest has at least four times the parameters of the smallest; H d_h is alpha d."""
    for name, shapes in (("fig4", 4), ("fig7", 2), ("fig8", 2), ("fig9", 2)):
        by_shape: dict[str | None, list[int]] = {}
        for cell in figure(name).cells(figure(name).grid("quick")):
            assert isinstance(cell, FactCapacity)
            assert cell.sizes.H * cell.sizes.d_h == cell.alpha * cell.d
            assert cell.seeds == (0, 1, 2)
            by_shape.setdefault(cell.shape, []).append(cell.n_params)
        assert len(by_shape) == shapes
        assert all(max(sizes) >= 4 * min(sizes) for sizes in by_shape.values())


def test_the_paper_preset_is_the_whole_grid() -> None:
    ours = figure("fig4").cells(figure("fig4").grid("paper"))
    assert {cell.d for cell in ours} == {8, 11, 16, 22, 32, 45, 64, 90, 128, 181}  # type: ignore[attr-defined]
    assert len({(cell.alpha, cell.beta) for cell in ours}) == 25  # type: ignore[attr-defined]
    assert all(cell.sizes.d_h >= 1 for cell in ours)  # type: ignore[attr-defined]


def rows(slope: float, constant: float) -> list[dict]:
    """Rows of a made-up figure whose facts follow a power law."""
    made = []
    for cell in cells(Grid(shapes=((1.0, 1.0), (1.0, 4.0)), H=(8,), d=(16, 32, 64))):
        assert isinstance(cell, FactCapacity)
        facts = constant * cell.n_params**slope
        S = facts**0.5
        per_seed = [{"seed": 0, "status": "found", "stored": S, "refused": S + 1, "probes": []}]
        found = {"facts": facts, "facts_min": facts, "facts_max": facts, "N": S, "n_params": cell.n_params}
        made.append({**cell.spec, **found, "status": "found", "per_seed": per_seed})
    return made


def test_fits_recover_slope_and_constant_and_the_picture_is_drawn(tmp_path: Path) -> None:
    by_name = {fit.name: fit for fit in fits(rows(1.0, 0.12))}
    assert by_name["all shapes: facts against parameters"].slope == pytest.approx(1.0)
    assert by_name["all shapes: facts per parameter"].constant == pytest.approx(0.12)
    assert [fit.slope for fit in fits(rows(0.7, 1.0)) if "against" in fit.name] == pytest.approx([0.7] * 3)
    files = figure("fig4").save(rows(1.0, 0.12), tmp_path, "made")
    assert all(file.stat().st_size > 10_000 for file in files)


def test_a_heat_map_is_drawn_from_rows_alone(tmp_path: Path) -> None:
    heatmap = figure("heatmap")
    made = []
    for i, cell in enumerate(heatmap.cells(heatmap.grid("smoke"))):
        assert isinstance(cell, FactAccuracy)
        sizes = {"attention_params": 4 * cell.H * cell.d * cell.d_h, "mlp_params": 2 * cell.m * cell.d}
        accuracy = min(1.0, 0.4 + 0.2 * i)
        made.append({**cell.spec, **sizes, "n_params": sum(sizes.values()), "accuracy": accuracy, "final": accuracy})
    assert all(file.exists() for file in heatmap.save(made, tmp_path, "made"))


def test_the_rule_says_which_accuracy_counts() -> None:
    """By 'final', a run that was high once and fell counts for where it ended."""
    model = Transformer.init(4, 1, 1, key=jax.random.key(0))
    fell = Run(model, "exhausted", 128, best=0.98, final=0.3, curve=np.array([0.98, 0.3]))
    held = Run(model, "exhausted", 128, best=0.9, final=0.9, curve=np.array([0.9, 0.9]))
    race = TINY.members(3, 0) * 2
    assert best_of(race, [fell, held]).run is fell
    assert best_of(race, [fell, held], "final").run is held


def test_figure_8_gives_each_fact_an_answer_of_its_own() -> None:
    for cell in figure("fig8").cells(figure("fig8").grid("quick"))[:2]:
        assert isinstance(cell, FactCapacity)
        table = cell.problem(9, 0).table
        assert (table.D, table.C.max(), len(table)) == (9, 1, 81)


def test_the_paper_presets_have_its_heads() -> None:
    for name, heads in (("fig4", {8}), ("fig7", {4, 16}), ("fig8", {8, 16}), ("fig9", {8, 16})):
        cells = figure(name).cells(figure(name).grid("paper"))
        assert {cell.H for cell in cells if isinstance(cell, FactCapacity)} == heads

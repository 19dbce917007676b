"""Every figure from specs to picture on its smoke preset; config files; the runner and its store."""

from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import jax.numpy as jnp
import jaxtyping
import pytest

from facthold._util.errors import FactholdError
from facthold.lab import style
from facthold.lab.cells import Cell
from facthold.lab.figure import PRESETS, Figure
from facthold.lab.registry import claims, figure, figures
from facthold.lab.runner import run_cells
from facthold.lab.store import Store
from facthold.models.memory import LinearMemory
from odd_cells import Quiet

SMALLER = {name: {"d": [8]} for name in ("fig7", "fig8", "fig9")}
"""The grids of figure 4 with other heads, answers or growth: one size each, the fits are those of figure 4."""


@pytest.mark.slow
@pytest.mark.parametrize("name", figures())
def test_smoke_preset_from_cells_to_pictures(name: str, tmp_path: Path, smoke_store: Path) -> None:
    wanted = figure(name)
    cells = wanted.cells(wanted.grid("smoke", SMALLER.get(name)))
    with Store(smoke_store) as store:
        first, second = Quiet(), Quiet()
        rows = run_cells(cells, store, first)
        again = run_cells(cells, store, second)
    assert len(first.done) == first.todo
    assert first.todo + first.stored == len({cell.key for cell in cells})
    assert (second.todo, second.stored) == (0, first.todo + first.stored)  # what is stored is not computed again
    assert [r.result for r in rows] == [r.result for r in again]
    assert any(r.get("N", r.get("accuracy", r.get("last_loss", r.get("best") or None))) is not None for r in rows)
    files = wanted.save(rows, tmp_path / "out", "smoke")
    assert [file.suffix for file in files] == [".png", ".svg"]
    assert files[0].read_bytes().startswith(b"\x89PNG")
    assert files[1].read_text().lstrip().startswith("<?xml")
    for fit in wanted.fits(rows):
        assert fit.interval[0] <= (fit.constant if fit.slope == 1.0 else fit.slope) <= fit.interval[1]
    for alone in (rows[:1], rows[-1:], *_cut_short(wanted, rows)):  # what is stored is drawn, whatever is missing
        wanted.save(alone, tmp_path / "out", "alone")
        assert all(isinstance(line, str) for line in wanted.says(alone))


def _cut_short(wanted: Figure, rows: list) -> list[list]:
    """The rows of grids in which one list has a single value, as far as they were computed for the whole one."""
    changes = SMALLER.get(wanted.name, {})
    stored, grid, cut = {r.cell.key: r for r in rows}, wanted.grid("smoke", changes), []
    for name, value in vars(grid).items():
        if isinstance(value, tuple) and len(value) > 1:
            with suppress(FactholdError, ValueError):  # a pair cannot be shorter, and a fit needs its sizes
                cells = wanted.cells(wanted.grid("smoke", changes | {name: value[:1]}))
                cut.append([stored[cell.key] for cell in cells if cell.key in stored])
    return [some for some in cut if some]


@pytest.mark.parametrize("name", figures())
def test_every_preset_makes_valid_cells(name: str) -> None:
    wanted = figure(name)
    assert set(wanted.presets) == set(PRESETS)
    for preset in PRESETS:
        cells = wanted.cells(wanted.grid(preset))
        assert len({cell.key for cell in cells}) == len(cells)
        assert all(cell.cost > 0 for cell in cells)


@pytest.mark.parametrize("name", figures())
def test_every_figure_says_what_one_should_see(name: str) -> None:
    assert figure(name).sees.endswith(".")


def test_the_picture_has_it_as_a_subtitle() -> None:
    canvas, _ = style.panels(1, width=3.0)
    style.subtitle(canvas, "What one should see in it, on more than one line.")
    assert canvas.get_suptitle().replace("\n", " ") == "What one should see in it, on more than one line."
    assert "\n" in canvas.get_suptitle()


def test_a_ceiling_is_drawn_as_an_arrow_and_fitted_nowhere() -> None:
    """Rows without a capacity must not turn into points."""
    wanted = figure("fig6")
    rows = [
        {"N": None, "N_min": None, "N_max": None, "status": "search ceiling", "d": 8, "m": 8, "M": 32, "map": "mod",
         "method": "train:mlp-code", "per_seed": [{"stored": 40}], "n_params": 128}
    ]  # fmt: skip
    (axes,) = wanted.plot(rows).axes
    assert not axes.containers  # no error bars
    assert len(axes.texts) == 1
    assert wanted.fits(rows) == []
    (axes,) = wanted.plot([rows[0] | {"status": "failed"}]).axes
    assert not axes.texts  # a failure is no ceiling


@pytest.mark.parametrize(
    ("name", "changes"),
    [("recovery", {"steps": 1, "d": [16, 20], "others_d": [16], "far_d": [24], "alphas": [2.0], "batches": [16]}),
     ("optimisers", {"lrs": [1.0], "d": [6], "norms": [False]})],
)  # fmt: skip
def test_a_grid_of_one_step_or_one_rate_is_drawn(name: str, changes: dict, tmp_path: Path, smoke_store: Path) -> None:
    wanted = figure(name)
    with Store(smoke_store) as store:
        rows = run_cells(wanted.cells(wanted.grid("smoke", changes)), store, Quiet())
    assert wanted.save(rows, tmp_path, "smoke")
    assert wanted.says(rows)


def _capacities(*N: int) -> list[dict]:
    return [{"d": 2**i, "N": n, "N_min": n, "N_max": n, "status": "found", "per_seed": []} for i, n in enumerate(N)]


def test_points_that_lie_on_others_are_rings_around_them() -> None:
    _, (axes,) = style.panels(1)
    for i, N in enumerate(((10, 20), (30, 41), (10, 25))):
        style.series(axes, lambda r: r["d"], _capacities(*N), f"series {i}", i)
    filled = [bar[0].get_markerfacecolor() != "none" for bar in axes.containers]
    assert filled == [True, True, False]


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.05, "0.05"), (500, "500"), (50_000, "50,000"), (100_000, "100,000"), (2e6, r"$2\times 10^{6}$"),
     (1e7, "$10^{7}$"), (1e-5, "$10^{-5}$")],
)  # fmt: skip
def test_numbers_at_ticks_are_written_in_one_way(value: float, words: str) -> None:
    assert style.tick(value) == words


@pytest.mark.filterwarnings("ignore:Data has no positive values")
def test_a_panel_without_anything_above_zero_says_so(tmp_path: Path) -> None:
    canvas, (axes,) = style.panels(1)
    axes.plot([1, 2], [0, 0])
    style.loglog(axes, "", "x", "y")
    style.settle(canvas)
    canvas.savefig(tmp_path / "empty.png")
    assert [text.get_text() for text in axes.texts] == ["nothing above zero"]


@pytest.mark.parametrize(("most", "words"), [(5, ["1", "2", "5"]), (1000, ["1", "10", "100", "1,000"])])
def test_logarithmic_axes_without_ticks_of_their_own_get_plain_ones(most: float, words: list[str]) -> None:
    canvas, (axes,) = style.panels(1)
    axes.plot([1, most], [1, 2])
    axes.set(xscale="log", xlim=(1, most))
    style.settle(canvas)
    ticks = [value for value in axes.get_xticks() if 1 <= value <= most]
    assert axes.xaxis.get_major_formatter().format_ticks(ticks) == words


def test_sizes_that_double_keep_their_ticks() -> None:
    canvas, (axes,) = style.panels(1)
    axes.plot([16, 64], [1, 2])
    style.doubling(axes)
    style.settle(canvas)
    assert {16, 32, 64} <= set(axes.get_xticks()) < {2.0**i for i in range(12)}


def test_a_panel_in_which_nothing_was_measured_has_no_axes() -> None:
    canvas, (left, right) = style.panels(2)
    left.axhline(1, **style.GUIDE)
    right.plot([1, 2], [1, 2])
    style.settle(canvas)
    assert [left.axison, right.axison] == [False, True]
    assert [text.get_text() for text in left.texts] == ["not measured at these sizes"]


def test_config_changes_the_grid_and_refuses_unknown_keys() -> None:
    fig1 = figure("fig1")
    grid = fig1.grid("smoke", {"linear_d": [4, 8], "n_seeds": 1})
    assert grid.linear_d == (4, 8)
    assert grid.n_seeds == 1
    assert grid.mlp_sizes == fig1.presets["smoke"].mlp_sizes
    for changes, says in (
        ({"linear_ds": [4]}, "did you mean 'linear_d'"),
        ({"linear_d": 4}, "must be a list"),
        ({"linear_d": ["a"]}, "must be a whole number"),
        ({"mlp_sizes": [[1, 2, 3]]}, "must be a list of 2 whole numbers"),
        ({"n_seeds": True}, "must be a whole number"),
    ):
        with pytest.raises(FactholdError, match=says):
            fig1.grid("smoke", changes)


def test_values_that_go_together_are_put_in_together() -> None:
    """n = (..., 1000) alone would be refused beside the n_for_d = 1000 of the preset."""
    for changes in ({"n": [8, 16, 1000], "n_for_d": 2000}, {"n_for_d": 2000, "n": [8, 16, 1000]}):
        grid = figure("scaling").grid("smoke", changes)
        assert (grid.n, grid.n_for_d) == ((8, 16, 1000), 2000)


def test_config_has_the_variants_of_the_public_code() -> None:
    induction = figure("induction")
    public = {"optimiser": "sgd-momentum", "unit": False, "scaled": True, "everywhere": True}
    trained = [cell for cell in induction.cells(induction.grid("smoke", public)) if hasattr(cell, "unit")]
    assert trained
    assert all(getattr(cell, name) == value for cell in trained for name, value in public.items())
    with pytest.raises(FactholdError, match="must be True or False, not 1"):
        induction.grid("smoke", {"unit": 1})
    with pytest.raises(FactholdError, match="unknown optimiser 'sgdm'"):
        induction.cells(induction.grid("smoke", {"optimiser": "sgdm"}))


class Failing(Cell):
    kind: ClassVar[str] = "failing"

    def run(self):
        raise ValueError("this cell cannot be computed")


class Fine(Cell):
    kind: ClassVar[str] = "fine"

    @property
    def cost(self) -> float:
        return 10.0

    def run(self):
        return {"N": 1}


def test_a_failing_cell_loses_nothing_that_was_stored(tmp_path: Path) -> None:
    with Store(tmp_path / "r.sqlite") as store:
        run_cells([Fine()], store, Quiet())
        with pytest.raises(ValueError, match="cannot be computed"):
            run_cells([Fine(), Failing()], store, Quiet())
        assert Fine() in store


def test_shapes_are_checked_under_test() -> None:
    """The jaxtyping hook is on: a wrong shape is an error, not a silent broadcast."""
    with pytest.raises(jaxtyping.TypeCheckError):
        LinearMemory(jnp.zeros((2, 3)))


@pytest.mark.parametrize("name", [*figures(), *claims()])
def test_preset_smoke_means_seconds(name: str) -> None:
    """By what its cells say of themselves, on one lane: half a minute on two."""
    cells = figures()[name].cells(figures()[name].grid("smoke")) if name in figures() else claims()[name].cells("smoke")
    assert sum({cell.key: cell.cost for cell in cells}.values()) < 60

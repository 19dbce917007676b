"""facthold figure, facthold reproduce: compute, draw, report."""

import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from facthold._util.errors import MissingPackage
from facthold.cli.app import app
from facthold.cli.basics import JsonOption, print_json, writable
from facthold.cli.common import (
    OUT,
    Drawn,
    OutOption,
    PresetOption,
    RayOption,
    StoreOption,
    WorkersOption,
    check_preset,
    compute_cells,
    draw,
    figure_cells,
    find_place,
    open_store,
    read_config,
)
from facthold.cli.dry import DryOption, dry_run
from facthold.cli.messages import messages
from facthold.cli.tables import show
from facthold.cli.verify import judge_claims, print_claims
from facthold.lab.provenance import provenance
from facthold.lab.report import FigureSection, write_report
from facthold.lab.store import Store
from facthold.studies.claims import CLAIMS
from facthold.studies.figures import FIGURES, Figure
from facthold.studies.figures import figure as find_figure

ConfigOption = Annotated[Path | None, typer.Option("--config", help="TOML file with sizes, a table a figure.")]


@app.command()
def figure(
    name: Annotated[str, typer.Argument(help="A name from `facthold list`.")],
    preset: PresetOption = "quick",
    plot_only: Annotated[bool, typer.Option("--plot-only", help="Draw what is stored, compute nothing.")] = False,
    dry: DryOption = False,
    workers: WorkersOption = None,
    ray: RayOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    out: OutOption = OUT,
    json: JsonOption = False,
) -> None:
    """Compute and draw one figure, in float32 (solvers in float64). What is stored is not computed again."""
    wanted = find_figure(name)
    check_preset(preset)
    place = find_place(workers, ray)
    changes = read_config(config).get(name, {})
    if dry:
        dry_run(name, figure_cells(wanted, preset, changes), store, place, json=json)
        return
    with open_store(store, create=not plot_only) as results:
        drawn = draw(wanted, preset, changes, results, out, place=None if plot_only else place)
    if json:
        print_json(drawn.as_json())
        return
    print_fits(drawn)
    for file in drawn.files:
        typer.echo(f"picture: {file}")


@app.command()
def reproduce(
    names: Annotated[list[str] | None, typer.Argument(help="Figures to make (default: all).")] = None,
    preset: PresetOption = "quick",
    dry: DryOption = False,
    workers: WorkersOption = None,
    ray: RayOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    out: OutOption = OUT,
    figures_only: Annotated[
        bool,
        typer.Option("--figures-only", help="Compute no cells but the figures' own."),
    ] = False,
) -> None:
    """Everything at once: figures, all claims, and one page with all of it."""
    start = time.perf_counter()
    wanted = [find_figure(name) for name in dict.fromkeys(names or FIGURES)]
    check_preset(preset)
    place = find_place(workers, ray)
    changes = read_config(config)
    if not names:
        wanted = [f for f in wanted if _possible(f, preset, changes)]
    # Everything in one run, so that all cores are busy to the end; figures and claims share cells.
    cells = [cell for f in wanted for cell in figure_cells(f, preset, changes.get(f.name))]
    if not figures_only:
        cells += [cell for claim in CLAIMS.values() for cell in claim.cells(preset)]
    if dry:
        dry_run("figures and claims", cells, store, place)
        return
    writable(out)
    with open_store(store) as results:
        compute_cells("figures and claims", cells, results, place)
        figures = [draw(f, preset, changes.get(f.name, {}), results, out) for f in wanted]
        seconds = {f.name: _computing(f.name, preset, changes, results) for f in wanted}
        claims = judge_claims(CLAIMS.values(), preset, results)
    arguments = f" --config {shlex.quote(str(config))}" if config else ""
    sections = [_section(drawn, seconds[drawn.figure.name], arguments) for drawn in figures]
    page = write_report(out / "report.html", sections, claims, provenance(time.perf_counter() - start))
    for drawn in figures:
        print_fits(drawn)
    print_claims(claims)
    messages.print(f"Redraw without computing: facthold figure NAME --preset {preset} --plot-only")
    for drawn in figures:
        for file in drawn.files:
            typer.echo(f"picture: {file}")
    typer.echo(f"report:  {page}")


def _possible(figure: Figure, preset: str, changes: Mapping) -> bool:
    """Whether all that a figure needs is installed; where everything is made, one that is not possible is left out."""
    try:
        _ = [cell.key for cell in figure_cells(figure, preset, changes.get(figure.name))]
    except MissingPackage as error:
        messages.print(f"{figure.name} is left out: {error}", markup=False)
        return False
    return True


def _computing(name: str, preset: str, changes: Mapping, results: Store) -> float:
    """Seconds that the figure's cells took when they were computed, on all cores."""
    found = find_figure(name)
    keys = [cell.key for cell in found.cells(found.grid(preset, changes.get(name)))]
    return sum(row.provenance.seconds for row in results.rows(keys=keys))


def _section(drawn: Drawn, seconds: float, arguments: str) -> FigureSection:
    png = next(file for file in drawn.files if file.suffix == ".png")
    preset = drawn.preset.removesuffix("-changed")
    return FigureSection(
        name=drawn.figure.name, title=drawn.figure.title, caption=f"{drawn.figure.caption} ({drawn.figure.place})",
        command=f"facthold figure {drawn.figure.name} --preset {preset}{arguments}", preset=drawn.preset,
        image=png, fits=[fit.as_json() for fit in drawn.fits], seconds=seconds,
    )  # fmt: skip


def print_fits(drawn: Drawn) -> None:
    """The fits of a figure as a table."""
    rows = [
        (
            fit.name,
            f"{fit.slope:.3f}",
            f"{fit.constant:.3g}",
            ("slope" if fit.slope != 1 else "constant") + " {:.3g} to {:.3g}".format(*fit.interval),
            str(fit.n),
        )
        for fit in drawn.fits
    ]
    title = f"{drawn.figure.name}: {drawn.figure.title} (preset {drawn.preset})"
    if rows:
        show(title, ("fit", "slope", "constant", "95% interval", "points"), rows)
    else:
        typer.echo(f"{title}; nothing is fitted")
    for note in drawn.notes:
        typer.echo(note)

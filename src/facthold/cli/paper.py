"""facthold figure, verify, reproduce: compute, draw, judge, report."""

import shlex
import textwrap
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from facthold._util.errors import FactholdError, unknown
from facthold.cli import options as o
from facthold.cli.app import command
from facthold.cli.cells import CellProgress, find_place
from facthold.cli.inputs import writable
from facthold.cli.printing import count, messages, print_json, show
from facthold.lab import api, registry
from facthold.lab.cells import Cell
from facthold.lab.claim import MEANINGS, Judged
from facthold.lab.places import Place
from facthold.lab.report import duration
from facthold.lab.store import default_store_path

FOLDER = Path("facthold-out")
WIDTH = 80  # of the lines of a verdict
FAILS, UNDECIDED = 1, 3  # exit codes of `verify`; 2 is for a wrong argument
SHOWN = 5  # how many of the largest cells a dry run names


@command()
def figure(
    name: str = typer.Argument(help="A name from `facthold list`."),
    preset: o.Preset = "quick",
    plot_only: bool = o.flag("--plot-only", "Draw what is stored, compute nothing."),
    dry: o.Dry = False,
    workers: o.Workers = None,
    ray: o.Ray = None,
    config: o.Config = None,
    store: o.Store = None,
    output: o.Folder = FOLDER,
    json: o.Json = False,
) -> None:
    """Compute and draw one figure, in float32 (solvers in float64). What is stored is not computed again."""
    place, changes = find_place(workers, ray), read_config(config).get(name, {})
    cells = api.figure_cells(registry.figure(name), preset, changes)
    if dry:
        return dry_run(name, cells, store, place, json=json)
    writable(output)
    with CellProgress(name, place) as progress:
        drawn = api.run_figure(
            name, preset, changes=changes, store=store, out=output, place=place, compute=not plot_only,
            listener=progress,
        )  # fmt: skip
    if drawn.missing:
        stored = len(drawn.rows)
        messages.print(f"{name}: only {stored} of {count(stored + drawn.missing, 'cell')} stored; drawing those")
    if json:
        return print_json(drawn.as_json())
    _print_fits(drawn)
    for file in drawn.files:
        typer.echo(f"picture: {file}")


@command()
def verify(
    ids: Annotated[list[str] | None, typer.Argument(help="Claims, from `facthold list` (default: all).")] = None,
    preset: o.Preset = "quick",
    stored: bool = o.flag("--stored", "Judge what is stored, compute nothing."),
    workers: o.Workers = None,
    ray: o.Ray = None,
    store: o.Store = None,
    json: o.Json = False,
) -> None:
    """Check the claims of the paper against measurements. Exit code 1 if one fails, 3 if none does but one is not
    decided.

    Training and recall are float32; solvers and the identity of the gradient step are float64.
    """
    place = find_place(workers, ray)
    with CellProgress("claims", place) as progress:
        judged = api.verify(
            *(ids or ()), preset=preset, store=store, place=place, compute=not stored, listener=progress
        )
    if all(claim.verdict == "not run" for claim in judged):
        raise FactholdError(
            f"no claim has all of its cells stored at preset {preset}; run it without --stored first, or give another "
            "store"
        )
    print_json([claim.as_json() for claim in judged]) if json else _print_claims(judged)
    found = {claim.verdict for claim in judged}
    if code := FAILS if "fails" in found else UNDECIDED if "not decided" in found else 0:
        raise typer.Exit(code)


@command()
def reproduce(
    names: Annotated[list[str] | None, typer.Argument(help="Figures to make (default: all).")] = None,
    preset: o.Preset = "quick",
    dry: o.Dry = False,
    workers: o.Workers = None,
    ray: o.Ray = None,
    config: o.Config = None,
    store: o.Store = None,
    output: o.Folder = FOLDER,
    figures_only: bool = o.flag("--figures-only", "Compute no cells but those of the figures."),
) -> None:
    """Everything at once: figures, all claims, and one page with all of it."""
    place, changes = find_place(workers, ray), read_config(config)
    wanted, left_out = api.figures_for(names or (), preset, changes)
    for name, reason in left_out.items():
        messages.print(f"{name} is left out: {reason}", markup=False)
    if dry:
        return dry_run("figures and claims", api.all_cells(wanted, preset, changes, figures_only), store, place)
    writable(output)
    with CellProgress("figures and claims", place) as progress:
        done = api.reproduce(
            *(names or ()), preset=preset, changes=changes, out=output, store=store, place=place, listener=progress,
            figures_only=figures_only, arguments=f" --config {shlex.quote(str(config))}" if config else "",
        )  # fmt: skip
    for drawn in done.figures:
        _print_fits(drawn)
    _print_claims(done.claims)
    messages.print(f"Redraw without computing: facthold figure NAME --preset {preset} --plot-only")
    for file in (file for drawn in done.figures for file in drawn.files):
        typer.echo(f"picture: {file}")
    typer.echo(f"report:  {done.page}")
    typer.echo(f"numbers: {done.results}")


def _print_fits(drawn: api.Drawn) -> None:
    title = f"{drawn.figure.name}: {drawn.figure.title} (preset {drawn.preset})"
    columns = {
        "fit": "{name}", "slope": "{slope:.3f}", "constant": "{constant:.3g}",
        "95% interval": "{of} {interval[0]:.3g} to {interval[1]:.3g}", "points": "{n}",
    }  # fmt: skip
    if drawn.fits:
        show(title, columns, [vars(fit) | {"of": "slope" if fit.slope != 1 else "constant"} for fit in drawn.fits])
    else:
        typer.echo(f"{title}; nothing is fitted")
    for note in drawn.notes:
        typer.echo(note)


def _print_claims(judged: Sequence[Judged]) -> None:
    """A paragraph for each claim, and how many there are of each verdict."""
    for claim in judged:
        typer.echo(f"{claim.verdict.upper():<12} {claim.id} ({claim.place})")
        parts = {name: getattr(claim, name) for name in ("predicted", "measured", "error", "drift", "next", "changed")}
        for name, text in {"": claim.statement, **parts}.items():
            if text:
                typer.echo(textwrap.fill(text, WIDTH, initial_indent=f"  {name:<10} ", subsequent_indent=" " * 13))
        typer.echo()
    counts = {verdict: sum(claim.verdict == verdict for claim in judged) for verdict in MEANINGS}
    for verdict, n in counts.items():
        if n:
            typer.echo(textwrap.fill(f"{n} {verdict}: {MEANINGS[verdict]}", WIDTH, subsequent_indent="    "))


def read_config(path: Path | None) -> Mapping[str, Mapping[str, Any]]:
    """A TOML file with a table for each figure: the keys of its grid."""
    if path is None:
        return {}
    try:
        tables = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise FactholdError(f"no such config file: {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise FactholdError(f"cannot read the config file {path}: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise FactholdError(f"{path} is not TOML: {error}") from error
    for name, table in tables.items():
        if name not in registry.figures():
            raise FactholdError(f"{path}: {unknown('figure', name, registry.figures())}")
        if not isinstance(table, dict):
            raise FactholdError(f"{path}: write [{name}] and keys below it, not {name} = {table!r}")
    return tables


def dry_run(title: str, cells: Sequence[Cell], store: Path | None, place: Place, *, json: bool = False) -> None:
    """Print how many cells there are and are stored, how long the rest takes, and the largest of them; make no file."""
    unique = todo = list({cell.key: cell for cell in cells}.values())
    if (store or default_store_path()).exists():
        with api.opened(store, create=False) as kept:
            todo = kept.missing(unique)
    todo = sorted(todo, key=lambda cell: -cell.cost)
    with place:
        seconds, lanes = place.estimate(todo), place.lanes
    stored, largest = len(unique) - len(todo), todo[:SHOWN]
    if json:
        costs = [{"cell": cell.label, "lane_seconds": cell.cost} for cell in largest]
        counts = {"title": title, "cells": len(unique), "stored": stored, "to_compute": len(todo)}
        return print_json(counts | {"place": place.label, "lanes": lanes, "seconds": seconds, "largest": costs})
    typer.echo(f"{title}: {count(len(unique), 'cell')}, {stored} of them stored, {len(todo)} to compute")
    if todo:
        lane = count(lanes, "lane")
        typer.echo(f"about {duration(seconds)} in {place.label}, {lane} (a guess, often off by a factor of 2)")
        typer.echo("largest, with the time on one lane:")
    for cell in largest:
        typer.echo(f"  {cell.label}: {duration(cell.cost)}")

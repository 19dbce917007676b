"""facthold figure, verify, reproduce: compute, draw, judge, report."""

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from facthold._util.errors import FactholdError
from facthold.cli import options as o
from facthold.cli.app import command
from facthold.cli.common import FOLDER, dry_run, find_place, read_config, writable
from facthold.cli.printing import count, messages, print_json, show
from facthold.cli.progress import CellProgress

if TYPE_CHECKING:
    from facthold.lab.api import Drawn
    from facthold.lab.claim import Judged


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
    from facthold.lab import api, registry

    place, changes = find_place(workers, ray), read_config(config).get(name, {})
    wanted = registry.figure(name)
    cells = api.figure_cells(wanted, preset, changes)
    if dry:
        dry_run(name, cells, store, place, json=json)
        return
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
        print_json(drawn.as_json())
        return
    _print_fits(drawn)
    _print_files(drawn)


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
    """Check the claims of the paper against measurements. Exit code 1 if one fails.

    Training and recall are float32; solvers and the identity of the gradient step are float64.
    """
    from facthold.lab import api

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
    if json:
        print_json([claim.as_json() for claim in judged])
    else:
        _print_claims(judged)
    if any(claim.verdict == "fails" for claim in judged):
        raise typer.Exit(1)


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
    from facthold.lab import api

    place, changes = find_place(workers, ray), read_config(config)
    wanted, left_out = api.figures_for(names or (), preset, changes)
    for name, reason in left_out.items():
        messages.print(f"{name} is left out: {reason}", markup=False)
    if dry:
        dry_run("figures and claims", api.all_cells(wanted, preset, changes, figures_only), store, place)
        return
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
    for drawn in done.figures:
        _print_files(drawn)
    typer.echo(f"report:  {done.page}")


def _print_fits(drawn: "Drawn") -> None:
    """The fits of a figure as a table."""
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


def _print_files(drawn: "Drawn") -> None:
    for file in drawn.files:
        typer.echo(f"picture: {file}")


def _print_claims(judged: "Sequence[Judged]") -> None:
    """A line for each claim, and how many hold."""
    columns = ("id", "place", "statement", "predicted", "measured", "error", "verdict")
    show("Claims", columns, map(vars, judged), lines=True)
    counts = {v: sum(claim.verdict == v for claim in judged) for v in ("holds", "fails", "not run")}
    typer.echo(", ".join(f"{n} {verdict}" for verdict, n in counts.items() if n))

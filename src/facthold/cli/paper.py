"""facthold figure, verify, reproduce: compute, draw, judge, report."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from facthold._util.commands import command as hint
from facthold._util.commands import duration
from facthold._util.errors import FactholdError, MissingPackage, brief, shorten, unknown
from facthold.cli import options as o
from facthold.cli.app import command
from facthold.cli.cells import CellProgress, find_place
from facthold.cli.inputs import refuse, say_replaced, split_names, writable
from facthold.cli.printing import count, filled, messages, paragraph, print_json, show, width
from facthold.lab import api, registry
from facthold.lab.cells import Cell
from facthold.lab.claim import MEANINGS, Judged
from facthold.lab.pace import Pace, stored_pace
from facthold.lab.places import Place
from facthold.lab.store import DEFAULT_STORE, default_store_path
from facthold.lab.summary import show as show_model
from facthold.lm.fetch import SMOLLM2, TINY
from facthold.measure.scaling import NO_INTERVAL, Fit
from facthold.studies.lm.base import instead

FOLDER = Path("facthold-out")
INDENT = " " * 13  # below a verdict
FAILS, UNDECIDED = 1, 3  # exit codes of `verify`; 2 is for a wrong argument
OF_LANGUAGE_MODELS = "lm-"  # names of figures and claims begin so
LanguageModelFile = Annotated[
    str | None,
    o.named("--model", f"Of lm-...: about this GGUF file of the llama architecture, or {TINY}.", metavar="FILE"),
]
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
    model: LanguageModelFile = None,
    store: o.Store = None,
    output: o.Folder = FOLDER,
    json: o.Json = False,
) -> None:
    """Compute and draw one figure, in float32 (solvers in float64). What is stored is not computed again."""
    if plot_only and dry:
        raise ValueError("take one of --plot-only and --dry-run: one draws what is stored, the other makes no file")
    place, changes = find_place(workers, ray), dict(read_config(config, [name], preset).get(name, {}))
    if model is not None:
        about_a_language_model("figure", registry.figure(name).name)
        changes |= {"model": model}
    cells = api.figure_cells(registry.figure(name), preset, changes)
    files = registry.figure(name).files(output, api.label_of(preset, changes))
    writable(output, files, api.path_of(store))
    if dry:
        return dry_run(name, cells, store, place, json=json)
    api.check_store(store)
    say_replaced(*files)
    with CellProgress(name, store) as progress:
        drawn = api.run_figure(
            name, preset, changes=changes, store=store, out=output, place=place, compute=not plot_only,
            listener=progress, options=given(store, output, config) | {"model": model},
        )  # fmt: skip
    if drawn.missing:
        stored = len(drawn.rows)
        messages.print(f"{name}: only {stored} of {count(stored + drawn.missing, 'cell')} stored; drawing those")
    if json:
        return print_json(drawn.as_json())
    _print_fits(drawn)
    for file in drawn.files:
        typer.echo(f"picture: {file}")


def given(store: Path | None, output: Path | None = None, config: Path | None = None) -> dict[str, Any]:
    """The options that hints repeat, so that they are about the same results; None where a hint needs none."""
    kept = store or default_store_path()
    return {
        "config": config, "store": None if kept == Path(DEFAULT_STORE) else kept,
        "output": None if output == FOLDER else output,
    }  # fmt: skip


def about_a_language_model(kind: str, name: str) -> None:
    """Only these have a --model."""
    if not name.startswith(OF_LANGUAGE_MODELS):
        raise ValueError(f"--model goes with a {kind} whose name begins with {OF_LANGUAGE_MODELS}; name one")


@command()
def verify(
    ids: Annotated[list[str] | None, typer.Argument(help="Claims, from `facthold list` (default: all).")] = None,
    preset: o.Preset = "quick",
    stored: bool = o.flag("--stored", "Judge what is stored, compute nothing."),
    model: LanguageModelFile = None,
    workers: o.Workers = None,
    ray: o.Ray = None,
    store: o.Store = None,
    json: o.Json = False,
) -> None:
    """Check the claims of the paper against measurements. Exit code 1 if one fails, 3 if none does but one is not
    decided. Preset smoke decides identities and bounds alone; of the others it shows that they run.

    One claim is a paragraph, several are a line or two each. Training and recall are float32; solvers and the identity
    of the gradient step are float64.
    """
    place = find_place(workers, ray)
    if model is not None:
        for id in ids or ("",):
            about_a_language_model("claim", registry.claim(id).id if id else "")
    with instead(model), CellProgress("claims", store) as progress:
        judged = api.verify(
            *(ids or ()), preset=preset, store=store, place=place, compute=not stored, listener=progress
        )
    if model is not None:
        judged = [replace(one, statement=one.statement.replace(SMOLLM2.name, Path(model).stem)) for one in judged]
    if all(claim.verdict == "not run" for claim in judged):
        raise FactholdError(
            f"no claim has all of its cells stored at preset {preset}; give another store, or compute them first: "
            + hint("verify", *(ids or ()), preset=preset, model=model, **given(store))
        )
    print_json([claim.as_json() for claim in judged]) if json else _print_claims(judged, preset, store, model)
    found = {claim.verdict for claim in judged}
    if code := FAILS if "fails" in found else UNDECIDED if "not decided" in found else 0:
        raise typer.Exit(code)


@command()
def reproduce(
    names: Annotated[list[str] | None, typer.Argument(help="Figures to make (default: all).")] = None,
    preset: o.Preset = "quick",
    stored: bool = o.flag("--stored", "Show what is stored, compute nothing."),
    dry: o.Dry = False,
    workers: o.Workers = None,
    ray: o.Ray = None,
    config: o.Config = None,
    store: o.Store = None,
    output: o.Folder = FOLDER,
    figures_only: bool = o.flag("--figures-only", "Judge no claims."),
    judge: str | None = o.option(
        "--claims", "Judge these, with commas between, or all (default: those that share results with the figures)."
    ),
    model: Annotated[
        Path | None,
        o.named(
            "--model",
            "Let the page ask this model; what `explore` and `watch` made lies beside it. Of lm-... alone: a GGUF file "
            "that they are about.",
        ),
    ] = None,
) -> None:
    """Everything at once: figures, their claims (all, where all figures are made), and one page with all of it."""
    place, changes = find_place(workers, ray), read_config(config, names or list(registry.figures()), preset)
    about = None
    if model is not None and names and all(name.startswith(OF_LANGUAGE_MODELS) for name in names):
        about, model = str(model), None
        changes = {name: {**changes.get(name, {}), "model": about} for name in names}
    with instead(about):
        if figures_only:
            refuse("does not go with --figures-only, which judges none", claims=judge)
        wanted, left_out = api.figures_for(names or (), preset, changes)
        ids = list(registry.claims()) if judge == "all" else split_names(judge, "--claims", "rounding,layerwise")
        claims = api.claims_for(names or (), preset, changes, figures_only, ids)
        if stored and dry:
            raise ValueError("take one of --stored and --dry-run: one shows what is stored, the other makes no file")
        for name, reason in left_out.items():
            messages.print(filled(f"{name} is left out: {reason}"), markup=False)
        files = api.report_files(wanted, preset, changes, output)
        writable(output, files, api.path_of(store))
        if dry:
            if model is not None:
                show_model(model, output / api.REPORT)  # raises, as it would when this is run
            return dry_run("figures and claims", api.all_cells(wanted, claims, preset, changes), store, place)
        api.check_store(store)
        say_replaced(*files)
        with CellProgress("figures and claims", store) as progress:
            done = api.reproduce(
                *(names or ()), preset=preset, changes=changes, out=output, store=store, place=place, listener=progress,
                judge=[claim.id for claim in claims], model=model, compute=not stored,
                options=given(store, output, config),
            )  # fmt: skip
        for name in done.left_out.keys() - left_out.keys():
            messages.print(filled(f"{name} is left out: {done.left_out[name]}"), markup=False)
        for drawn in done.figures:
            _print_fits(drawn)
        if done.claims:
            _print_claims(done.claims, preset, store, about)
        elif not figures_only:
            paragraph("no claim was judged: none shares its results with these figures at these sizes")
        for drawn in done.figures:
            for file in drawn.files:
                typer.echo(f"picture: {file}")
            messages.print(f"redraw:  {drawn.command(plot_only=True, **given(store, output, config))}", markup=False)
        typer.echo(f"report:  {done.page}")
        typer.echo(f"numbers: {done.results}")


def _print_fits(drawn: api.Drawn) -> None:
    title = f"{drawn.figure.name}: {drawn.figure.title} (preset {drawn.preset})"
    columns = {
        "fit": "{name}", "slope": "{slope:.3f}", "constant": "{constant:.3g}",
        "95% interval": "{within}", "points": "{n}",
    }  # fmt: skip
    if drawn.fits:
        show(title, columns, [vars(fit) | {"within": _within(fit)} for fit in drawn.fits])
    else:
        paragraph(f"{title}; nothing is fitted")
    for note in drawn.notes:
        paragraph(note)


def _within(fit: Fit) -> str:
    low, high = fit.interval
    return f"{'slope' if fit.slope != 1 else 'constant'} {low:.3g} to {high:.3g}" if fit.sure else NO_INTERVAL


def _print_claims(judged: Sequence[Judged], preset: str, store: Path | None, model: str | None = None) -> None:
    """One claim with all that is known of it; of several the verdict and what was measured, how many there are of each
    verdict, and how to see more of the worst."""
    if len(judged) == 1:
        return _print_claim(judged[0])
    for claim in judged:
        paragraph(f"{claim.id} ({claim.place})", INDENT, first=f"{claim.verdict.upper():<12} ")
        if claim.measured or (claim.verdict == "not run" and claim.next):
            typer.echo(INDENT + shorten(claim.measured or claim.next, width() - len(INDENT)))
    typer.echo()
    for verdict, meaning in MEANINGS.items():
        if n := sum(claim.verdict == verdict for claim in judged):
            paragraph(f"{n} {verdict}: {meaning}")
    run = [claim for claim in judged if claim.verdict != "not run"]
    if run:
        worst = max(run, key=lambda claim: list(MEANINGS).index(claim.verdict))
        typer.echo(f"more of one: {hint('verify', worst.id, preset=preset, stored=True, model=model, **given(store))}")


def _print_claim(claim: Judged) -> None:
    paragraph(f"{claim.id} ({claim.place})", INDENT, first=f"{claim.verdict.upper():<12} ")
    parts = {name: getattr(claim, name) for name in ("predicted", "measured", "error", "drift", "next", "changed")}
    for name, text in {"": claim.statement, **parts}.items():
        if text:
            paragraph(text, INDENT, first=f" {name:<11} ")
    paragraph(MEANINGS[claim.verdict], INDENT, first=f" {claim.verdict:<11} ")


def read_config(path: Path | None, names: Sequence[str], preset: str) -> Mapping[str, Mapping[str, Any]]:
    """A TOML file with a table for each figure: the keys of its grid. One that is about none of the figures with these
    names is refused: it would change nothing. So is one whose values cannot be, by the name of the file."""
    asked = [registry.figure(name).name for name in names]
    if path is None:
        return {}
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise FactholdError(f"no such config file: {path}") from None
    except IsADirectoryError:
        raise FactholdError(f"{path} is a folder; give a config file") from None
    except OSError as error:
        raise FactholdError(f"cannot read the config file {path}: {error.strerror}; give another") from error
    except UnicodeDecodeError as error:
        raise FactholdError(f"cannot read the config file {path}: it is not text in UTF-8; save it as that") from error
    except ValueError as error:  # also of a number with thousands of digits, which Python refuses
        shown = hint("list", figure=asked[0])
        raise FactholdError(f"{path} is not TOML ({error}); a config is what this prints: {shown}") from error
    except RecursionError:
        raise FactholdError(f"{path} is nested too deeply; a key has a number, a name or a list of these") from None
    for name, table in tables.items():
        if name not in registry.figures():
            raise FactholdError(f"{path}: {unknown('figure', name, registry.figures())}")
        if not isinstance(table, dict):
            raise FactholdError(f"{path}: write [{name}] and keys below it, not {name} = {brief(table)}")
    if not tables.keys() & set(asked):
        about = asked[0] if len(asked) == 1 else "these figures"
        shows = hint("list", figure=asked[0])
        raise FactholdError(f"{path} has nothing about {about}; write [{asked[0]}] and keys below it, as in: {shows}")
    wrong = []
    for name in (name for name in asked if name in tables):
        registry.figure(name).grid(preset)  # not the file's fault
        try:
            api.figure_cells(registry.figure(name), preset, tables[name])
        except MissingPackage:
            raise
        except (FactholdError, ValueError) as error:
            wrong.append(str(error))
    if wrong:
        raise FactholdError(f"{path}: {'; '.join(wrong)}")
    return tables


def dry_run(title: str, cells: Sequence[Cell], store: Path | None, place: Place, *, json: bool = False) -> None:
    """Print how many cells there are and are stored, how long the rest takes, and the largest of them; make no file."""
    unique = todo = list({cell.key: cell for cell in cells}.values())
    with place:
        pace = Pace()
        if (store or default_store_path()).exists():
            with api.opened(store, create=False) as kept:
                todo = kept.missing(unique)
                pace = stored_pace(kept, todo, place)
        costs = {cell.key: pace.seconds(cell) for cell in todo}
        seconds, lanes = place.estimate(list(costs.values())), place.lanes
    todo = sorted(todo, key=lambda cell: -costs[cell.key])
    stored, largest = len(unique) - len(todo), todo[:SHOWN]
    if json:
        shown = [{"cell": cell.label, "lane_seconds": costs[cell.key]} for cell in largest]
        counts = {"title": title, "cells": len(unique), "stored": stored, "to_compute": len(todo)}
        return print_json(counts | {"place": place.label, "lanes": lanes, "seconds": seconds, "largest": shown})
    paragraph(f"{title}: {count(len(unique), 'cell')}, {stored} of them stored, {len(todo)} to compute")
    if todo:
        lane = count(lanes, "lane")
        paragraph(f"about {duration(seconds)} in {place.label}, {lane} (a guess, often off by a factor of 2)")
        typer.echo("largest, with the time on one lane:")
    for cell in largest:
        paragraph(cell.label, " " * 14, first=f"{duration(costs[cell.key]):>12}  ")

"""What commands share: checks, Ctrl-C, places, configurations and cells. It loads nothing."""

import tempfile
import threading
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from facthold._util.errors import FactholdError, check_positive, unknown
from facthold.cli.printing import count, print_json

if TYPE_CHECKING:
    from facthold.lab.api import AnyStore
    from facthold.lab.cells import Cell
    from facthold.lab.places import Place
    from facthold.lab.store import Rows

FOLDER = Path("facthold-out")
SHOWN = 5  # how many of the largest cells a dry run names

interrupted = threading.Event()  # set by Ctrl-C


def heed() -> None:
    """Stop after Ctrl-C: a KeyboardInterrupt can get lost, if it meets the wrong line of a library."""
    if interrupted.is_set():
        raise KeyboardInterrupt


def writable(folder: Path) -> None:
    """Make sure of the folder before computing for minutes."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise FactholdError(f"cannot write to {folder}: {error.strerror}; give another output") from error


def writable_file(output: Path | None) -> None:
    """Make sure of the file, where there is to be one."""
    if output is not None:
        if output.is_dir():
            raise FactholdError(f"output={output} is a folder; give the name of a file")
        writable(output.parent)


def refuse(why: str, **given: Any) -> None:
    """Refuse the first of these arguments that was given, with a reason such as 'does not go with --list'."""
    for name, value in given.items():
        if value is not None and value is not False:
            raise ValueError(f"{name}={value} {why}")


def find_place(workers: int | None, ray: str | None) -> "Place":
    """Where --workers and --ray say that cells run; without them, in this process."""
    if workers is not None and ray is not None:
        raise ValueError("take one of --workers and --ray: cells run in local processes or on a cluster")
    if workers is not None:
        from facthold.lab.workers import Workers

        check_positive(workers=workers)
        return Workers(workers)
    if ray is not None:
        from facthold.lab.cluster import RayCluster

        return RayCluster(ray)
    from facthold.lab.places import InProcess

    return InProcess()


def compute_cells(title: str, cells: "Sequence[Cell]", store: "AnyStore", place: "Place") -> "Rows":
    """The rows of these cells, computed where they are not stored, with a bar or lines that say how far it is."""
    from facthold.cli.progress import CellProgress
    from facthold.lab.api import opened
    from facthold.lab.runner import run_cells

    with opened(store) as kept, CellProgress(title, place) as progress:
        return run_cells(cells, kept, progress, place=place, title=title)


def read_config(path: Path | None) -> Mapping[str, Mapping[str, Any]]:
    """A TOML file with a table for each figure: the keys of its grid."""
    from facthold.lab.registry import figures

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
        if name not in figures():
            raise FactholdError(f"{path}: {unknown('figure', name, figures())}")
        if not isinstance(table, dict):
            raise FactholdError(f"{path}: write [{name}] and keys below it, not {name} = {table!r}")
    return tables


def dry_run(title: str, cells: "Sequence[Cell]", store: Path | None, place: "Place", *, json: bool = False) -> None:
    """Print the number of cells, how many are stored, the time that the rest takes, and the largest of them. Computes
    nothing, and makes no file."""
    from facthold.lab.api import opened
    from facthold.lab.report import duration
    from facthold.lab.store import default_store_path

    unique = list({cell.key: cell for cell in cells}.values())
    todo = unique
    if (store or default_store_path()).exists():
        with opened(store, create=False) as kept:
            todo = kept.missing(unique)
    todo = sorted(todo, key=lambda cell: -cell.cost)
    with place:
        seconds, lanes = place.estimate(todo), place.lanes
    stored, largest = len(unique) - len(todo), todo[:SHOWN]
    if json:
        costs = [{"cell": cell.label, "lane_seconds": cell.cost} for cell in largest]
        counts = {"title": title, "cells": len(unique), "stored": stored, "to_compute": len(todo)}
        print_json(counts | {"place": place.label, "lanes": lanes, "seconds": seconds, "largest": costs})
        return
    typer.echo(f"{title}: {count(len(unique), 'cell')}, {stored} of them stored, {len(todo)} to compute")
    if todo:
        lane = count(lanes, "lane")
        typer.echo(f"about {duration(seconds)} in {place.label}, {lane} (a guess, often off by a factor of 2)")
        typer.echo("largest, with the time on one lane:")
    for cell in largest:
        typer.echo(f"  {cell.label}: {duration(cell.cost)}")

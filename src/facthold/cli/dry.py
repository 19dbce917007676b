"""--dry-run: what a command would compute, and about how long that takes. Computes nothing, makes no file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from facthold.cli.basics import count, print_json
from facthold.cli.common import open_store
from facthold.lab.cells import Cell
from facthold.lab.places import Place
from facthold.lab.report import duration
from facthold.lab.store import default_store_path

DryOption = Annotated[bool, typer.Option("--dry-run", help="Say what would be computed and how long it takes.")]

SHOWN = 5
"""How many of the largest cells are named."""


def dry_run(title: str, cells: Sequence[Cell], store: Path | None, place: Place, *, json: bool = False) -> None:
    """Print the number of cells, how many are stored, the time that the rest takes, and the largest of them."""
    unique = list({cell.key: cell for cell in cells}.values())
    todo = sorted(_missing(unique, store), key=lambda cell: -cell.cost)
    with place:
        seconds, lanes = place.estimate(todo), place.lanes
    largest = todo[:SHOWN]
    if json:
        print_json(
            {
                "title": title, "cells": len(unique), "stored": len(unique) - len(todo), "to_compute": len(todo),
                "place": place.label, "lanes": lanes, "seconds": seconds,
                "largest": [{"cell": cell.label, "lane_seconds": cell.cost} for cell in largest],
            }
        )  # fmt: skip
        return
    stored = len(unique) - len(todo)
    typer.echo(f"{title}: {count(len(unique), 'cell')}, {stored} of them stored, {len(todo)} to compute")
    if not todo:
        return
    typer.echo(f"about {duration(seconds)} in {place.label}, {count(lanes, 'lane')} (a guess, often off by a factor 2)")
    typer.echo("largest, with the time on one lane:")
    for cell in largest:
        typer.echo(f"  {cell.label}: {duration(cell.cost)}")


def _missing(cells: Sequence[Cell], store: Path | None) -> Sequence[Cell]:
    if not (store or default_store_path()).exists():
        return cells
    with open_store(store, create=False) as kept:
        return kept.missing(cells)

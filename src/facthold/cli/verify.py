"""facthold verify: every claim, its prediction, what was measured, and the verdict."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer

from facthold._util.errors import FactholdError
from facthold.cli.app import app
from facthold.cli.basics import JsonOption, print_json
from facthold.cli.common import (
    PresetOption,
    RayOption,
    StoreOption,
    WorkersOption,
    check_preset,
    compute_cells,
    find_place,
    open_store,
    values,
)
from facthold.cli.tables import show
from facthold.lab.claim import Claim
from facthold.lab.store import Store
from facthold.studies.claims import CLAIMS, claim


@app.command()
def verify(
    ids: Annotated[
        list[str] | None, typer.Argument(help="Claims to check (default: all; see `facthold list`).")
    ] = None,
    preset: PresetOption = "quick",
    stored: Annotated[bool, typer.Option("--stored", help="Judge what is stored, compute nothing.")] = False,
    workers: WorkersOption = None,
    ray: RayOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Check the claims of the paper against measurements. Exit code 1 where one fails.

    Training and recall are float32; solvers and the identity of the gradient step are float64.
    """
    check_preset(preset)
    place = find_place(workers, ray)
    wanted = [claim(id) for id in ids] if ids else list(CLAIMS.values())
    with open_store(store, create=not stored) as results:
        if not stored:
            compute_cells("claims", [cell for c in wanted for cell in c.cells(preset)], results, place)
        lines = judge_claims(wanted, preset, results)
        if all(line["verdict"] == "not run" for line in lines):
            raise FactholdError(
                f"no claim can be judged: at preset {preset} the cells of none are all stored in {results.path}; "
                "run it without --stored first"
            )
    if json:
        print_json(lines)
    else:
        print_claims(lines)
    if any(line["verdict"] == "fails" for line in lines):
        raise typer.Exit(1)


def judge_claims(claims: Iterable[Claim], preset: str, store: Store) -> list[Mapping[str, Any]]:
    """Each claim judged on what is stored; one whose cells are not all there was not run."""
    lines = []
    for c in claims:
        keys = [cell.key for cell in c.cells(preset)]
        rows = store.rows(keys=keys)
        complete = len(rows) == len(set(keys))
        lines.append(c.report([values(row) for row in rows] if complete else None))
    return lines


def print_claims(lines: Sequence[Mapping[str, Any]]) -> None:
    columns = ("id", "place", "statement", "predicted", "measured", "error", "verdict")
    rows = [tuple("" if line[column] is None else str(line[column]) for column in columns) for line in lines]
    show("Claims", columns, rows, lines=True)
    counts = {v: sum(line["verdict"] == v for line in lines) for v in ("holds", "fails", "not run")}
    typer.echo(", ".join(f"{n} {verdict}" for verdict, n in counts.items() if n))

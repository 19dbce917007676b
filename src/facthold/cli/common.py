"""What the commands with cells share: options, the store, and running figures. It loads the sweep and the figures."""

import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from facthold._util.errors import FactholdError, unknown
from facthold.cli.basics import count, writable
from facthold.cli.messages import messages
from facthold.cli.progress import CellProgress
from facthold.lab.cells import Cell
from facthold.lab.cluster import RayCluster
from facthold.lab.places import InProcess, Place
from facthold.lab.runner import run_cells
from facthold.lab.store import Row, Store, default_store_path
from facthold.lab.workers import Workers
from facthold.measure.scaling import Fit
from facthold.studies.figures import FIGURES, PRESETS, Figure, Values

StoreOption = Annotated[
    Path | None,
    typer.Option("--store", help="Results file (default: facthold-results.sqlite here, or FACTHOLD_STORE)."),
]
PresetOption = Annotated[
    str, typer.Option("--preset", help="smoke (seconds), quick (minutes) or paper (its whole grid).")
]
OutOption = Annotated[Path, typer.Option("--out", help="Folder for pictures and pages.")]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", help="Compute in so many worker processes, one core each.")
]
RayOption = Annotated[
    str | None, typer.Option("--ray", metavar="ADDRESS", help="Compute on the Ray cluster at host:port, or auto.")
]
OUT = Path("facthold-out")


def open_store(path: Path | None, *, create: bool = True) -> Store:
    return Store(path or default_store_path(), create=create)


def find_place(workers: int | None, ray: str | None) -> Place:
    """Where --workers and --ray say that cells run; without them, in this process."""
    if workers is not None and ray is not None:
        raise ValueError("take one of --workers and --ray: cells run in local processes or on a cluster")
    if workers is not None and workers < 1:
        raise ValueError(f"--workers {workers} must be at least 1; leave it out to compute in this process")
    if workers is not None:
        return Workers(workers)
    return InProcess() if ray is None else RayCluster(ray)


def check_preset(preset: str) -> None:
    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)


def values(row: Row) -> Values:
    """A stored row as figures and claims read it."""
    return {"kind": row.kind, **row.spec, **row.result}


def read_config(path: Path | None) -> Mapping[str, Mapping[str, Any]]:
    """A TOML file with a table a figure: the keys of its grid, as `facthold list --figure NAME` shows them."""
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
        if name not in FIGURES:
            raise FactholdError(f"{path}: {unknown('figure', name, FIGURES)}")
        if not isinstance(table, dict):
            raise FactholdError(f"{path}: write [{name}] and keys below it, not {name} = {table!r}")
    return tables


@dataclass(frozen=True)
class Drawn:
    """A figure that was made."""

    figure: Figure
    preset: str
    seconds: float
    fits: Sequence[Fit]
    files: Sequence[Path]
    notes: Sequence[str] = ()
    """What the figure says in words, and what went wrong in single cells, such as a run that diverged."""

    def as_json(self) -> dict[str, Any]:
        return {
            "figure": self.figure.name, "preset": self.preset, "seconds": self.seconds,
            "fits": [fit.as_json() for fit in self.fits], "files": [str(file) for file in self.files],
            "notes": list(self.notes),
        }  # fmt: skip


def draw(
    figure: Figure, preset: str, changes: Mapping[str, Any], store: Store, out: Path, *, place: Place | None = None
) -> Drawn:
    """Compute in ``place`` what a figure lacks (or, without one, draw what is stored) and save its pictures."""
    start = time.perf_counter()
    cells = figure_cells(figure, preset, changes)
    writable(out)
    if place is not None:
        rows = compute_cells(figure.name, cells, store, place)
    else:
        rows = store.rows(keys=[cell.key for cell in cells])
        if not rows:
            raise FactholdError(
                f"nothing of {figure.name} at preset {preset} is stored in {store.path}; "
                "run it without --plot-only first"
            )
        if len(rows) < len(cells):
            messages.print(f"{figure.name}: only {len(rows)} of {count(len(cells), 'cell')} stored; drawing those")
    read = [values(row) for row in rows]
    label = f"{preset}-changed" if changes else preset  # sizes of one's own do not overwrite the preset's picture
    files = figure.save(read, out, label)
    broken = [(cell, r.get("failure") or r.get("stages", {}).get("problem")) for cell, r in _with_cells(cells, rows)]
    notes = [f"{cell.label}: {words}" for cell, words in broken if words]
    said = [*figure.says(read), *dict.fromkeys(notes)]
    return Drawn(figure, label, time.perf_counter() - start, figure.fits(read), files, said)


def _with_cells(cells: Sequence[Cell], rows: Sequence[Row]) -> list[tuple[Cell, Mapping[str, Any]]]:
    """Each cell that has a result, with it."""
    by_key = {cell.key: cell for cell in cells}
    return [(by_key[row.key], row.result) for row in rows if row.key in by_key]


def figure_cells(figure: Figure, preset: str, changes: Mapping[str, Any] | None) -> Sequence[Cell]:
    cells = figure.cells(figure.grid(preset, changes))
    if not cells:
        raise FactholdError(f"the config leaves nothing of {figure.name} to compute: all its lists are empty")
    return cells


def compute_cells(title: str, cells: Sequence[Cell], store: Store, place: Place) -> list[Row]:
    with CellProgress(title, place) as progress:
        return run_cells(cells, store, progress, place=place, title=title)

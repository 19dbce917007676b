"""Figures and claims from Python: what the command line does, as functions that return rows and verdicts."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from facthold._util.arguments import checked
from facthold._util.commands import command
from facthold._util.errors import FactholdError, MissingPackage, unknown
from facthold._util.files import PAGE, check_outputs
from facthold.lab import registry, style
from facthold.lab.cells import Cell, check_cells, check_present
from facthold.lab.claim import Claim, Judged
from facthold.lab.figure import Figure
from facthold.lab.places import Place
from facthold.lab.provenance import provenance
from facthold.lab.registry import claims as claims
from facthold.lab.registry import figures as figures
from facthold.lab.report import NUMBERS, Contents, write_report, write_results
from facthold.lab.runner import Listener, run_cells
from facthold.lab.store import Rows, Store, default_store_path
from facthold.lab.summary import sentences, show
from facthold.measure.scaling import Fit

AnyStore = Store | str | Path | None
"""An open store, the path of one, or None for the usual one: $FACTHOLD_STORE or facthold-results.sqlite here."""
REPORT, RESULTS = "report.html", "results.json"  # what `reproduce` writes beside the pictures
Changes = Mapping[str, Any]  # values of a figure's grid that are not those of the preset
CHANGED = "-changed"  # after the preset of such a figure


@dataclass(frozen=True)
class Drawn:
    """A figure that was computed, and its pictures where they were wanted."""

    figure: Figure
    preset: str
    rows: Rows
    fits: Sequence[Fit]
    notes: Sequence[str]  # what the figure says in words, and what went wrong in single cells (a run that diverged)
    files: Sequence[Path] = ()
    missing: int = 0  # cells that are not stored, where nothing was to be computed
    seconds: float = 0.0

    def command(self, **options: Any) -> str:
        """What makes it again, with these options: where it is stored, and whether to draw what is stored alone."""
        preset = self.preset.removesuffix(CHANGED)
        if preset == self.preset:
            options.pop("config", None)  # it is about other figures, and would be refused for this one
        return command("figure", self.figure.name, preset=preset, **options)

    def plot(self) -> "style.Canvas":
        """The picture, as a Matplotlib figure."""
        return self.figure.plot(self.rows)

    def as_json(self) -> dict[str, Any]:
        return {
            "figure": self.figure.name, "preset": self.preset, "seconds": self.seconds,
            "fits": [fit.as_json() for fit in self.fits], "files": [str(file) for file in self.files],
            "notes": list(self.notes),
        }  # fmt: skip


@checked
def run_figure(
    name: str, preset: str = "quick", *, changes: Changes | None = None, store: AnyStore = None,
    out: str | Path | None = None, place: Place | None = None, compute: bool = True, listener: Listener | None = None,
    options: Changes | None = None,
) -> Drawn:  # fmt: skip
    """One figure: ``fh.run_figure("fig6", preset="smoke", out="pictures").rows.to_pandas()``.

    Computes what is not stored, in this process or in ``place``, and saves its pictures in the folder ``out``. With
    ``compute=False`` nothing is computed, and what there is gets drawn. A command that an error names has these
    ``options`` of the command line (default: the store and the folder).
    """
    start, figure = time.perf_counter(), registry.figure(name)
    cells, label = figure_cells(figure, preset, changes), label_of(preset, changes)
    if out is not None:
        check_outputs(figure.files(Path(out), label), path_of(store))
    with opened(store, create=compute, cells=cells) as kept:
        if compute:
            rows = run_cells(cells, kept, listener, place=place, title=name)
        else:
            stored = {row.key: row for row in kept.rows(keys=[cell.key for cell in cells])}
            rows = Rows(stored[cell.key] for cell in cells if cell.key in stored)  # as they are computed
            if not rows:
                again = "by compute=True"  # no command has changes that are in no file
                if options is not None or not changes:
                    options = {"store": kept.path, "output": out} if options is None else options
                    again = command("figure", name, preset=preset, **options)
                raise FactholdError(
                    f"nothing of {name} at preset {label} is stored in {kept.path}; compute it first: {again}"
                )
    files = () if out is None else figure.save(rows, Path(out), label)
    notes = [*figure.says(rows), *_broken(cells, rows)]
    missing = len({cell.key for cell in cells}) - len({row.key for row in rows})
    return Drawn(figure, label, rows, figure.fits(rows), notes, files, missing, time.perf_counter() - start)


def label_of(preset: str, changes: Changes | None) -> str:
    """The preset, as pictures are named: those of sizes of one's own do not take the place of the preset's."""
    return f"{preset}{CHANGED}" if changes else preset


@checked
def verify(
    *ids: str, preset: str = "quick", store: AnyStore = None, place: Place | None = None, compute: bool = True,
    listener: Listener | None = None,
) -> list[Judged]:  # fmt: skip
    """The verdict on these claims, or on all: ``fh.verify("gradient-step", preset="smoke")[0].holds``. Cells that are
    not stored are computed first; with ``compute=False`` a claim that lacks some was 'not run'. So was one that cannot
    run here, where all claims are asked for."""
    wanted = [registry.claim(id) for id in dict.fromkeys(ids)] if ids else list(claims().values())
    cells = [cell for claim in wanted if ids or not lacking(claim, preset) for cell in claim.cells(preset)]
    with opened(store, create=compute, cells=cells) as kept:
        if compute:
            run_cells(cells, kept, listener, place=place, title="claims")
        return [_judged(claim, preset, kept) for claim in wanted]


@dataclass(frozen=True)
class Reproduced:
    """Figures and claims, and the page that shows them."""

    figures: Sequence[Drawn]
    claims: Sequence[Judged]
    page: Path
    results: Path  # the same numbers as JSON
    left_out: Mapping[str, str]  # figures that are not possible here, and why


@checked
def reproduce(
    *names: str, preset: str = "quick", changes: Mapping[str, Changes] | None = None, out: str | Path,
    store: AnyStore = None, place: Place | None = None, listener: Listener | None = None, figures_only: bool = False,
    judge: Sequence[str] | None = None, model: str | Path | None = None, compute: bool = True,
    options: Changes | None = None,
) -> Reproduced:  # fmt: skip
    """Figures (all, or these), claims, and one page: ``fh.reproduce("fig6", preset="smoke", out="out").page``.

    Claims are those that ``judge`` names; else every one where all figures are made, or those that share cells with the
    figures that are named, or none with ``figures_only``. The page asks ``model``, a file, and links to what lies
    beside it: the page that `explore` made of it, and the run of `watch`. With ``compute=False`` nothing is computed:
    the page has what there is, and calls the other claims 'not run'. The commands on the page have these
    ``options`` of the command line (default: the store and the folder).
    """
    start, changes = time.perf_counter(), changes or {}
    wanted, left_out = figures_for(names, preset, changes)
    asked = claims_for(names, preset, changes, figures_only, judge)
    # Everything in one run, so that all cores are busy to the end; figures and claims share cells.
    cells = all_cells(wanted, asked, preset, changes)
    check_outputs(report_files(wanted, preset, changes, Path(out)), path_of(store))
    shown = None if model is None else show(Path(model), Path(out) / REPORT)
    with opened(store, create=compute, cells=cells) as kept:
        if compute:
            run_cells(cells, kept, listener, place=place, title="figures and claims")
        else:
            wanted = _stored(wanted, preset, changes, kept, left_out)
        drawn = [
            run_figure(f.name, preset, changes=changes.get(f.name), store=kept, out=out, compute=False) for f in wanted
        ]
        judged = [_judged(claim, preset, kept) for claim in asked]
        options = {"store": kept.path, "output": out} if options is None else options
        found = _found(drawn, judged, preset, kept)
    contents = Contents(
        drawn, [claim.as_json() for claim in judged], provenance(time.perf_counter() - start), options, found, shown,
        _related(drawn, asked, preset),
    )  # fmt: skip
    page = write_report(Path(out) / REPORT, contents)
    numbers = write_results(Path(out) / RESULTS, contents, preset)
    return Reproduced(drawn, judged, page, numbers, left_out)


def _stored(
    figures: Sequence[Figure], preset: str, changes: Mapping[str, Changes], store: Store, left_out: dict[str, str]
) -> list[Figure]:
    """The figures of which something is stored; the others are left out."""
    keys = {f.name: [cell.key for cell in figure_cells(f, preset, changes.get(f.name))] for f in figures}
    found = [f for f in figures if store.rows(keys=keys[f.name])]
    left_out |= {f.name: f"nothing of it is stored at preset {preset}" for f in figures if f not in found}
    if not found:
        raise FactholdError(f"nothing of these figures at preset {preset} is stored in {store.path}; compute it first")
    return found


def _found(drawn: Sequence[Drawn], judged: Sequence[Judged], preset: str, store: Store) -> list[str]:
    """The sentences with which a page of these begins."""
    figures = {one.figure.name: one.rows for one in drawn if not one.missing}
    run = {claim.id for claim in judged if claim.verdict != "not run"}

    def rows_of(name: str) -> Rows:
        if name in figures or name not in run:
            return figures.get(name, Rows())
        return store.rows(keys=[cell.key for cell in registry.claim(name).cells(preset)])

    return sentences(list(registry.findings().values()), rows_of)


def _related(drawn: Sequence[Drawn], asked: Sequence[Claim], preset: str) -> dict[str, list[str]]:
    """The claims that are judged on cells of each figure."""
    keys = {claim.id: {cell.key for cell in claim.cells(preset)} for claim in asked if not lacking(claim, preset)}
    rows = {one.figure.name: {row.key for row in one.rows} for one in drawn}
    return {name: [id for id, cells in keys.items() if cells & own] for name, own in rows.items()}


def report_files(figures: Sequence[Figure], preset: str, changes: Mapping[str, Changes], out: Path) -> dict[Path, str]:
    """All that `reproduce` writes, and of which kind it is."""
    pictures = [figure.files(out, label_of(preset, changes.get(figure.name))) for figure in figures]
    return {path: kind for files in pictures for path, kind in files.items()} | {
        out / REPORT: PAGE, out / RESULTS: NUMBERS
    }  # fmt: skip


@checked
def results(kind: str | None = None, *, store: AnyStore = None) -> Rows:
    """All stored results, or those of one kind of cell: ``fh.results("capacity").to_pandas()``."""
    with opened(store, create=False) as kept:
        rows = kept.rows(kind)
        if kind is not None and not rows and kind not in registry.kinds():
            raise unknown_kind(kind, kept)
        return rows


def unknown_kind(kind: str, store: Store) -> ValueError:
    """The error for a kind of cell of which nothing is stored, with those that are."""
    return unknown("kind of cell", kind, {row.kind for row in store.rows()} or {"(nothing is stored)"})


def figures_for(
    names: Sequence[str], preset: str, changes: Mapping[str, Changes]
) -> tuple[list[Figure], dict[str, str]]:
    """The figures with these names; without names all that are possible here, and why the others are not."""
    if names:
        return [registry.figure(name) for name in dict.fromkeys(names)], {}
    possible, left_out = [], {}
    for figure in figures().values():
        try:
            cells = figure_cells(figure, preset, changes.get(figure.name))
            _ = [cell.key for cell in cells]
            check_present(cells)
            possible.append(figure)
        except MissingPackage as error:
            left_out[figure.name] = str(error)
    return possible, left_out


def claims_for(
    names: Sequence[str], preset: str, changes: Mapping[str, Changes], figures_only: bool = False,
    judge: Sequence[str] | None = None,
) -> list[Claim]:  # fmt: skip
    """The claims that are asked for along with the figures of these names; see `reproduce`."""
    if judge is not None:
        return [registry.claim(id) for id in dict.fromkeys(judge)]
    if figures_only or not names:
        return [] if figures_only else list(claims().values())
    figures, _ = figures_for(names, preset, changes)
    drawn = {cell.key for cell in all_cells(figures, (), preset, changes)}
    return [claim for claim in claims().values() if drawn & {cell.key for cell in claim.cells(preset)}]


def all_cells(
    figures: Sequence[Figure], claims: Sequence[Claim], preset: str, changes: Mapping[str, Changes]
) -> list[Cell]:
    """The cells of these figures, and of the claims that can run here."""
    cells = [cell for f in figures for cell in figure_cells(f, preset, changes.get(f.name))]
    return cells + [cell for claim in claims if not lacking(claim, preset) for cell in claim.cells(preset)]


def lacking(claim: Claim, preset: str) -> str:
    """What this machine lacks to run a claim, such as a language model; nothing where it can run."""
    return next((cell.missing for cell in claim.cells(preset) if cell.missing), "")


def figure_cells(figure: Figure, preset: str, changes: Changes | None = None) -> list[Cell]:
    try:
        cells = figure.cells(figure.grid(preset, changes))
    except ValueError as error:  # of a field of the grid or of a cell, which do not know whose they are
        raise ValueError(f"in the config of {figure.name}, {error}" if changes else str(error)) from error
    if not cells:
        raise FactholdError(f"the changes leave nothing of {figure.name} to compute; give one or more in its lists")
    return cells


def path_of(store: AnyStore) -> Path:
    """Where a store is or will be."""
    return store.path if isinstance(store, Store) else Path(store or default_store_path())


@contextmanager
def opened(store: AnyStore, *, create: bool = True, cells: Sequence[Cell] = ()) -> Iterator[Store]:
    """The store; one that was opened here is closed here. None is made for ``cells`` that cannot run."""
    if isinstance(store, Store):
        yield store
    else:
        if create and not path_of(store).exists():
            check_cells(cells)
        with Store(path_of(store), create=create) as kept:
            yield kept


def check_store(store: AnyStore) -> None:
    """Notice a damaged store, and a file that is none, before anything is said or done."""
    if path_of(store).exists():
        with opened(store, create=False):
            pass


def _judged(claim: Claim, preset: str, store: Store) -> Judged:
    keys = {cell.key for cell in claim.cells(preset)}
    rows = store.rows(keys=list(keys))
    judged = claim.report(rows if len(rows) == len(keys) else None, preset)
    return replace(judged, next=lacking(claim, preset)) if judged.verdict == "not run" else judged


def _broken(cells: Sequence[Cell], rows: Rows) -> list[str]:
    """What went wrong in single cells, in words, each once."""
    labels = {cell.key: cell.label for cell in cells}
    words = {row.key: row.result.get("failure") or row.result.get("stages", {}).get("problem") for row in rows}
    return list(dict.fromkeys(f"{labels[key]}: {text}" for key, text in words.items() if text))

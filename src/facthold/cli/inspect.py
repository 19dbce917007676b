"""facthold list, facthold results: what there is, and what has been found."""

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from facthold._util.errors import FactholdError, unknown
from facthold.cli.app import app
from facthold.cli.basics import JsonOption, count, print_json
from facthold.cli.common import StoreOption, open_store
from facthold.cli.tables import show
from facthold.lab import export
from facthold.lab.store import Row
from facthold.recipes.builders import BUILDERS
from facthold.recipes.methods import METHODS
from facthold.studies.bits.accounts import SLACK, accounts
from facthold.studies.claims import CLAIMS
from facthold.studies.figures import FIGURES
from facthold.studies.figures import figure as find_figure
from facthold.train.protocols import PROTOCOLS


@app.command(name="list")
def list_(
    figure: Annotated[
        str | None, typer.Option("--figure", help="The presets of this figure, as a config file.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """What there is: figures, claims, methods, protocols."""
    if figure is not None:
        presets = {preset: dataclasses.asdict(grid) for preset, grid in find_figure(figure).presets.items()}
        if json:
            print_json(presets)
        else:
            _print_presets(figure, presets)
        return
    if json:
        print_json(
            {
                "figures": [{"name": f.name, "place": f.place, "title": f.title} for f in FIGURES.values()],
                "claims": [{"id": c.id, "place": c.place, "statement": c.statement} for c in CLAIMS.values()],
                "methods": [{"name": m.name, "family": m.family, "place": m.place} for m in METHODS.values()],
                "constructions": [
                    {"name": b.name, "place": b.place, "outline": b.outline, "size": b.knob} for b in BUILDERS.values()
                ],
                "protocols": [dataclasses.asdict(p) for p in PROTOCOLS.values()],
            }
        )
        return
    show(
        "Figures (facthold figure NAME)",
        ("name", "place", "title"),
        [(f.name, f.place, f.title) for f in FIGURES.values()],
    )
    show(
        "Claims (facthold verify ID)",
        ("id", "place", "statement"),
        [(c.id, c.place, c.statement) for c in CLAIMS.values()],
    )
    show(
        "Methods (facthold memory --method NAME)", ("name", "memory", "place"),
        [(m.name, m.family, m.place) for m in METHODS.values()],
    )  # fmt: skip
    show(
        "Constructions of facts (facthold construct --method NAME)", ("name", "place", "what it does", "size"),
        [(b.name, b.place, b.outline, b.knob) for b in BUILDERS.values()],
    )  # fmt: skip
    show(
        "Protocols (of the methods train:NAME, and of transformers)",
        ("name", "source", "optimiser", "lr", "steps", "looks every", "bias"),
        [
            (
                p.name, p.source, p.optimiser, "/".join(f"{lr:g}" for lr in p.lrs or (p.lr,)), f"{p.steps}",
                f"{p.check_every}", "yes" if p.bias else "no",
            )
            for p in PROTOCOLS.values()
        ],
    )  # fmt: skip


def _print_presets(name: str, presets: dict[str, dict]) -> None:
    """The grids of a figure, in the form that --config reads."""
    for preset, grid in presets.items():
        typer.echo(f"# preset {preset}\n[{name}]")
        for key, value in grid.items():
            typer.echo(f"{key} = {_toml(value)}")
        typer.echo("")


def _toml(value: object) -> str:
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value)


@app.command()
def results(
    kind: Annotated[str | None, typer.Option("--kind", help="Only cells of this kind, such as capacity.")] = None,
    csv: Annotated[bool, typer.Option("--csv", help="All of it as CSV, on standard output or in --output.")] = False,
    parquet: Annotated[bool, typer.Option("--parquet", help="All of it as Parquet, in --output.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write.")] = None,
    bound: Annotated[
        bool, typer.Option("--bound", help="Check that no result on random tables has more than its bits can hold.")
    ] = False,
    json: JsonOption = False,
    store: StoreOption = None,
) -> None:
    """What is stored: a table here, or all of it as CSV or Parquet."""
    if csv + parquet + json > 1 or (bound and (csv or parquet)):
        raise ValueError("take one of --csv, --parquet and --json; --bound goes with --json alone")
    if output is not None and not (csv or parquet):
        raise ValueError("--output goes with --csv or --parquet")
    with open_store(store, create=False) as kept:
        rows = kept.rows(kind)
        path = kept.path
        if kind is not None and not rows:
            raise unknown("kind of cell", kind, {row.kind for row in kept.rows()} or {"(nothing is stored)"})
    if bound:
        _print_bound(rows, path, json)
        return
    if csv or parquet:
        file = output or (Path("facthold-results.parquet") if parquet else None)
        if parquet and file is not None:
            export.to_parquet(rows, file)
        else:
            export.to_csv(rows, file or sys.stdout)
        if file is not None:
            typer.echo(f"{count(len(rows), 'row')}: {file}", err=True)
        return
    if json:
        print_json([{"key": r.key, "kind": r.kind, "spec": r.spec, "result": r.result} for r in rows])
        return
    show(
            f"{count(len(rows), 'result')} in {path}", ("kind", "spec", "N", "status", "seconds", "date", "commit"),
            [
                (
                    r.kind, _spec(r.spec), _short(r.result.get("N")),
                    str(r.result.get("status", "")), f"{r.provenance.seconds:.1f}", r.provenance.date[:16],
                    (r.provenance.commit or "")[:8],
                )
                for r in rows
            ],
        )  # fmt: skip


def _print_bound(rows: Sequence[Row], path: Path, json: bool) -> None:
    """A line for each kind of cell and reason, and an error where a result has more than its bits can hold."""
    checked = [(row, accounts(row.kind, row.spec, row.result)) for row in rows]
    lines: list[dict[str, Any]] = []
    for kind in sorted({row.kind for row in rows}):
        found = [account for row, held in checked if row.kind == kind and not isinstance(held, str) for account in held]
        if found:
            least = min((a.bits / a.bound for a in found if a.bound), default=None)
            broken = sum(a.spare < 0 for a in found)
            lines.append({"kind": kind, "models": len(found), "broken": broken, "least_ratio": least, "reason": None})
        reasons = sorted({held for row, held in checked if row.kind == kind and isinstance(held, str)})
        lines += [{"kind": kind, "models": 0, "broken": 0, "least_ratio": None, "reason": reason} for reason in reasons]
    if json:
        print_json(lines)
    else:
        show(
            f"bits used + log2(tried) + {SLACK:g} >= bits of a random table, in {path}",
            ("kind", "models", "too good", "bits used / bound, least"),
            [
                (f["kind"], str(f["models"] or ""), str(f["broken"] or ""), f["reason"] or _short(f["least_ratio"]))
                for f in lines
            ],
        )  # fmt: skip
    if broken := sum(f["broken"] for f in lines):
        raise FactholdError(
            f"{count(broken, 'model')} in {path} with more facts right than its bits can hold: a defect"
        )


def _spec(spec: dict) -> str:
    """The spec in a line; what a protocol says stands in `facthold list`."""
    return " ".join(f"{name}={value}" for name, value in spec.items() if value is not None and name != "protocol")


def _short(value: object) -> str:
    return f"{value:.5g}" if isinstance(value, float | int) else ""

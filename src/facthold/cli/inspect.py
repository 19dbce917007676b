"""facthold list, results, status, bench: what there is, what has been found, and how it is going."""

import dataclasses
import json as json_text
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer

from facthold._util.commands import duration
from facthold._util.errors import FactholdError
from facthold._util.files import parquet_of, table_of
from facthold._util.memory import check_memory
from facthold.cli import options as o
from facthold.cli.app import command
from facthold.cli.cells import facts_found
from facthold.cli.inputs import say_replaced, writable_file
from facthold.cli.printing import count, filled, paragraph, print_json, show, working
from facthold.lab import export, registry
from facthold.lab.accounts import SLACK, Account
from facthold.lab.api import opened, unknown_kind
from facthold.lab.fields import Between
from facthold.lab.status import Sweep, sweeps
from facthold.lab.store import Row
from facthold.recipes import recipes
from facthold.train.protocols import PROTOCOLS

DEFAULT = Path("facthold-results.parquet")
USUAL = "quick"  # the preset that commands take
MEMORY_A_BYTE = 8  # of a store: its rows as Python has them
GLUE = "\N{NO-BREAK SPACE}"  # where a line must not end
SHORTEST, LONGEST = 0.01, 600  # seconds for one measurement of `bench`


@command("list")
def list_(
    figure: str | None = o.option("--figure", "The presets of this figure, as a config file."),
    json: o.Json = False,
) -> None:
    """Figures, claims, recipes and protocols."""
    if figure is not None:
        presets = {preset: dataclasses.asdict(grid) for preset, grid in registry.figure(figure).presets.items()}
        if json:
            return print_json(presets)
        for preset, grid in presets.items():  # as --config reads them; JSON values are TOML
            typer.echo(f"# preset {preset}" + ("" if preset == USUAL else ", in comments: a file has each figure once"))
            first, further = (None, None) if preset == USUAL else ("# ", "#   ")
            for line in (f"[{figure}]", *(_config_line(key, value) for key, value in grid.items())):
                typer.echo(filled(line, further, first).replace(GLUE, " "))
            typer.echo("")
        return
    of_recipes = [
        vars(r) | {"makes": r.family + (" memory" if r.family != "transformer" else "")} for r in recipes().values()
    ]
    of_protocols = [
        vars(p) | {"lr": "/".join(f"{lr:g}" for lr in p.lrs or (p.lr,)), "evaluated every": p.check_every,
                   "bias": "yes" if p.bias else "no"}
        for p in PROTOCOLS.values()
    ]  # fmt: skip
    tables: dict[str, tuple[str, list[dict[str, Any]]]] = {
        "Figures (facthold figure NAME)": ("name, place, title", [*map(vars, registry.figures().values())]),
        "Claims (facthold verify ID)": ("id, place, statement", [*map(vars, registry.claims().values())]),
        "Recipes (facthold make --recipe NAME)": ("name, makes, place, outline", of_recipes),
        "Protocols of training": ("name, source, optimiser, lr, steps, evaluated every, bias", of_protocols),
    }
    if json:
        lists = {
            title.split()[0].lower(): [{column: row[column] for column in columns.split(", ")} for row in rows]
            for title, (columns, rows) in tables.items()
        }
        return print_json(lists | {"protocols": [dataclasses.asdict(p) for p in PROTOCOLS.values()]})
    for title, (columns, rows) in tables.items():
        typer.echo(title)
        name, *rest, text = columns.split(", ")
        if text == "bias":  # numbers, which a table shows best
            show("", columns.split(", "), rows, few=True)
            continue
        for row in rows:
            paragraph(f"  {row[name]} ({', '.join(row[part] for part in rest)})")
            paragraph(row[text], "      ")
        typer.echo()


def _config_line(key: str, value: Any) -> str:
    """A key as a config has it. TOML lets a line end after a comma within brackets, and not elsewhere."""
    text = json_text.dumps(value, ensure_ascii=False, separators=(",\n", ": "))  # a text has no line ends in JSON
    return f"{key} = {text}".replace(" ", GLUE).replace("\n", " ")


@command()
def results(
    kind: str | None = o.option("--kind", "Only cells of this kind, such as capacity."),
    all: bool = o.flag("--all", "Every result here, with its spec, and not a line for each kind."),
    csv: bool = o.flag("--csv", "All as CSV, on standard output or in --output."),
    parquet: bool = o.flag("--parquet", f"All as Parquet, in --output or {DEFAULT}."),
    output: o.TableFile = None,
    bound: bool = o.flag("--bound", "Check that no result on random tables has more than its bits can hold."),
    store: o.Store = None,
    json: o.Json = False,
) -> None:
    """Stored results: how many of each kind, or all of them, here (--all) or as CSV, Parquet or JSON."""
    if all + csv + parquet + json > 1 or (bound and (all or csv or parquet)):
        raise ValueError("take one of --all, --csv, --parquet and --json; --bound goes with --json alone")
    if output is not None and not (csv or parquet):
        raise ValueError("--output goes with --csv or --parquet")
    with opened(store, create=False) as kept:
        path = kept.path
        if kind is None:  # of one kind there are fewer, nobody knows how many
            size = MEMORY_A_BYTE * path.stat().st_size
            check_memory(f"reading all of {path}", size, "take a part of it with --kind")
        rows = kept.rows(kind)
        if kind is not None and not rows:
            raise unknown_kind(kind, kept)
    if bound:
        _check_bound(rows, path, json)
    elif csv or parquet:
        output = output or (DEFAULT if parquet else None)
        writable_file(output, (parquet_of if parquet else table_of)(["key", "kind", "version"]))
        say_replaced(output)
        if parquet:
            export.to_parquet(rows, output or DEFAULT)
        else:
            export.to_csv(rows, output or sys.stdout)
        if output is not None:
            typer.echo(f"{count(len(rows), 'row')}: {output}", err=True)
    elif json:
        print_json([{"key": r.key, "kind": r.kind, "spec": r.spec, "result": r.result} for r in rows])
    elif all:
        paragraph(f"{count(len(rows), 'result')} in {path}")
        for row in rows:
            _print_result(row)
    else:
        paragraph(f"{count(len(rows), 'result')} in {path}" + (" (--all shows each of them)" if rows else ""))
        if rows:
            show("", ("kind", "results", "computed in"), _of_each_kind(rows))


def _of_each_kind(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """How many results a kind has, and how long they took together."""
    for kind in dict.fromkeys(row.kind for row in rows):
        seconds = [row.provenance.seconds for row in rows if row.kind == kind]
        yield {"kind": kind, "results": len(seconds), "computed in": duration(sum(seconds))}


def _print_result(row: Row) -> None:
    """A line on what was found and when, and the spec below it; what a protocol says stands in `facthold list`."""
    about, N = row.provenance, row.result.get("N")
    parts = [
        f"N = {N:.5g}" if isinstance(N, float | int) else None, row.result.get("status"), duration(about.seconds),
        about.date[:16], (about.commit or "")[:8],
    ]  # fmt: skip
    paragraph(f"{row.kind}: " + ", ".join(part for part in parts if part))
    paragraph(" ".join(f"{k}={v}" for k, v in row.spec.items() if v is not None and k != "protocol"), "    ")


def _check_bound(rows: Sequence[Row], path: Path, json: bool) -> None:
    """A line for each kind of cell and reason, and an error where a result has more than its bits can hold."""
    lines = list(_bound_lines(rows))
    title = f"bits used + log2(tried) + {SLACK:g} >= bits of a random table, in {path}"
    columns = {"kind": "{kind}", "too good": "{of}", "bits used / bound, least": "{least_ratio:.5g}{reason}"}
    counted = (line | {"of": f"{line['broken']} of {line['models']}" if line["models"] else None} for line in lines)
    show(title, columns, lines if json else counted, json=json)
    if broken := sum(line["broken"] for line in lines):
        raise FactholdError(
            f"{count(broken, 'model')} in {path} with more facts right than its bits can hold: a defect"
        )


def _accounts(row: Row) -> list[Account] | str:
    """The models of a row that count, or why there is no bound: it may be of a version that had other recipes."""
    try:
        cell = row.cell
    except (FactholdError, ValueError, TypeError) as error:
        return f"no bound: stored by another version ({error})"
    return cell.accounts(row.result) if row.version == cell.version else "no bound: stored by another version"


def _bound_lines(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    checked = [(row.kind, _accounts(row)) for row in rows]
    for kind in sorted({kind for kind, _ in checked}):
        of_kind = [accounts for name, accounts in checked if name == kind]
        models = [account for accounts in of_kind if not isinstance(accounts, str) for account in accounts]
        if models:
            least = min((model.bits / model.bound for model in models if model.bound), default=None)
            broken = sum(model.spare < 0 for model in models)
            yield {"kind": kind, "models": len(models), "broken": broken, "least_ratio": least, "reason": None}
        for reason in sorted({accounts for accounts in of_kind if isinstance(accounts, str)}):
            yield {"kind": kind, "models": 0, "broken": 0, "least_ratio": None, "reason": reason}


@command()
def status(
    all: bool = o.flag("--all", "Every run that was noted, not the latest alone."),
    store: o.Store = None,
    json: o.Json = False,
) -> None:
    """Show the runs that are going on, or else the latest: cells, time left, facts found, and whether it is alive."""
    now = time.time()
    with opened(store, create=False) as kept:
        noted, path = sweeps(kept), kept.path
    going = [run for run in noted if run.state_now(now) == "running"]
    wanted = noted if all else going or noted[:1]
    if json:
        print_json([run.as_json(now) for run in wanted])
    elif not wanted:
        paragraph(f"no run has been noted in {path}")
    elif all:
        rows = [
            vars(r) | {"started": _when(r.started), "done": f"{r.done} of {r.total}", "state": _state(r, now)}
            for r in wanted
        ]
        show(count(len(wanted), "run"), ("started", "title", "place", "done", "state"), rows)
    else:
        for run in wanted:
            _print_one(run, now)


def _print_one(run: Sweep, now: float) -> None:
    running = run.state_now(now) == "running"
    paragraph(f"{run.title}: {_state(run, now)}")
    paragraph(f"started {_when(run.started)}, in {run.place}")
    before = f" ({run.stored} more were stored before)" if run.stored else ""
    paragraph(f"{run.done} of {count(run.total, 'cell')} done{before}")
    if running:
        paragraph(f"about {duration(max(run.seconds_left - (now - run.beat), 0.0))} left")
    if run.running:
        paragraph("being computed:" if running else "being computed when it stopped:")
    for label, since in run.running:
        paragraph(f"  {label}, for {duration(max(run.beat - since, 0.0))}")
    if run.found:
        paragraph("facts found so far:")
    for line in facts_found(run.found):
        paragraph(f"  {line}")


def _state(run: Sweep, now: float) -> str:
    """Its state in words; where it was stopped, how to go on."""
    state, heard = run.state_now(now), f"last heard of {duration(now - run.beat)} ago"
    stored = run.stored + run.done
    again = f"the same command {'goes on after the ' + count(stored, 'cell') + ' stored' if stored else 'begins again'}"
    if state == "running":
        return f"running, {heard}"
    if state == "dead":
        return f"dead ({'its process is gone' if run.gone else 'it gives no sign of life'}), {heard}; {again}"
    if state == "interrupted":
        return f"interrupted {_when(run.beat)}; {again}"
    return f"{state} {_when(run.beat)}" + (f": {run.reason}" if run.reason else "")


def _when(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))


@command()
def bench(
    seconds: float = typer.Option(2.0, "--seconds", help="Time for each measurement."),
    json: o.Json = False,
) -> None:
    """Time a float32 training step here and in a plain implementation, side by side, beside the machine's peak."""
    Between(least=SHORTEST, most=LONGEST).check("seconds", seconds)
    from facthold.train.bench import BENCHES, run_bench

    rows = []
    for i, one in enumerate(BENCHES):
        with working(f"[{i + 1}/{len(BENCHES)}] {one.name}, about {2 * seconds + 20:.0f} s each"):
            rows.append(run_bench(one, seconds))
    columns = {
        "benchmark": "{name}", "ours, ms": "{ours_ms:.3f}", "plain, ms": "{plain_ms:.3f}",
        "plain / ours": "{ratio:.2f}", "share of peak": "{share_of_peak:.0%}",
    }  # fmt: skip
    show("Training, per member and step", columns, rows, json=json)

"""facthold sweep status: what a driver in another terminal is doing, or what the last one did."""

import time
from collections.abc import Sequence
from typing import Annotated

import typer

from facthold.cli.app import app
from facthold.cli.basics import JsonOption, count, print_json
from facthold.cli.common import StoreOption, open_store
from facthold.cli.progress import facts_found
from facthold.cli.tables import show
from facthold.lab.report import duration
from facthold.lab.status import Sweep, sweeps

commands = typer.Typer(help="How a sweep is going.", rich_markup_mode=None)
app.add_typer(commands, name="sweep")


@commands.callback(invoke_without_command=True)
def _sweep(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@commands.command()
def status(
    all: Annotated[bool, typer.Option("--all", help="Every sweep that was noted, not the latest alone.")] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Show the sweeps that run now, or else the latest: cells, time left, facts found, and if the driver lives."""
    now = time.time()
    with open_store(store, create=False) as kept:
        noted = sweeps(kept)
        path = kept.path
    going = [sweep for sweep in noted if sweep.state_now(now) == "running"]
    wanted = noted if all else going or noted[:1]
    if json:
        print_json([sweep.as_json(now) for sweep in wanted])
    elif not wanted:
        typer.echo(f"no sweep has been noted in {path}")
    elif all:
        _print_table(wanted, now)
    else:
        for sweep in wanted:
            _print_one(sweep, now)


def _print_one(sweep: Sweep, now: float) -> None:
    typer.echo(f"{sweep.title}: {_state(sweep, now)}")
    typer.echo(f"started {_when(sweep.started)}, in {sweep.place}")
    before = f" ({sweep.stored} more were stored before)" if sweep.stored else ""
    typer.echo(f"{sweep.done} of {count(sweep.total, 'cell')} done{before}")
    if sweep.state_now(now) == "running":
        left = max(sweep.seconds_left - (now - sweep.beat), 0.0)
        typer.echo(f"about {duration(left)} left")
    if sweep.running:
        typer.echo("in flight:" if sweep.state_now(now) == "running" else "in flight when it stopped:")
    for label, since in sweep.running:
        typer.echo(f"  {label}, for {duration(max(sweep.beat - since, 0.0))}")
    if sweep.found:
        typer.echo("facts found so far:")
    for line in facts_found(sweep.found):
        typer.echo(f"  {line}")


def _print_table(noted: Sequence[Sweep], now: float) -> None:
    show(
        count(len(noted), "sweep"), ("started", "title", "place", "done", "state"),
        [(_when(s.started), s.title, s.place, f"{s.done} of {s.total}", _state(s, now)) for s in noted],
    )  # fmt: skip


def _state(sweep: Sweep, now: float) -> str:
    state, silent = sweep.state_now(now), duration(now - sweep.beat)
    if state == "running":
        return f"running, last heard of {silent} ago"
    if state == "stopped":
        return f"stopped without a word, last heard of {silent} ago; the same command goes on after it"
    return f"{state} {_when(sweep.beat)}" + (f": {sweep.reason}" if sweep.reason else "")


def _when(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))

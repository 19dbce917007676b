"""facthold bench: how fast this machine trains, beside a plain implementation."""

from functools import partial
from typing import Annotated

import typer

from facthold.cli.app import app
from facthold.cli.basics import JsonOption, print_json
from facthold.cli.messages import working
from facthold.cli.tables import show
from facthold.studies.speed import BENCHES, TRANSFORMERS, run_bench, run_transformer_bench


@app.command()
def bench(
    seconds: Annotated[float, typer.Option("--seconds", help="Time for each measurement.")] = 2.0,
    json: JsonOption = False,
) -> None:
    """Time a float32 training step here and in a plain implementation, side by side, beside the machine's peak."""
    if seconds <= 0:
        raise ValueError(f"--seconds {seconds:g} must be above 0")
    todo = [(one.name, partial(run_bench, one)) for one in BENCHES]
    todo += [(f"transformer {one.name}", partial(run_transformer_bench, one)) for one in TRANSFORMERS]
    rows = []
    for i, (name, run) in enumerate(todo):
        with working(f"[{i + 1}/{len(todo)}] {name}, about {2 * seconds + 20:.0f} s each"):
            rows.append(run(seconds) | {"name": name})
    if json:
        print_json(rows)
        return
    show(
        "Training, per member and step", ("benchmark", "ours, ms", "plain, ms", "plain / ours", "share of peak"),
        [
            (r["name"], f"{r['ours_ms']:.3f}", f"{r['plain_ms']:.3f}", f"{r['ratio']:.2f}", f"{r['share_of_peak']:.0%}")
            for r in rows
        ],
    )  # fmt: skip

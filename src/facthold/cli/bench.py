"""facthold bench: how fast this machine trains, beside a plain implementation."""

from typing import Annotated

import typer

from facthold.bench import BENCHES, run_bench
from facthold.cli.app import app
from facthold.cli.common import JsonOption, print_json
from facthold.cli.tables import show


@app.command()
def bench(
    seconds: Annotated[float, typer.Option("--seconds", help="Time for each measurement.")] = 2.0,
    json: JsonOption = False,
) -> None:
    """Time a training step here and in a plain implementation, side by side, and compare with the machine's peak."""
    rows = [run_bench(bench, seconds) for bench in BENCHES]
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

"""facthold plan --calibrate: measure again what plans rest on, and write the file."""

import importlib.metadata
import time
from dataclasses import asdict
from pathlib import Path

import typer

from facthold.cli.common import compute_cells, writable_file
from facthold.cli.printing import count, print_json
from facthold.lab.places import Place
from facthold.lab.provenance import provenance
from facthold.lab.workers import Workers
from facthold.plan.calibrations import Calibrations, product_rate, write
from facthold.studies.sizes.calibrations import calibration, cells

COMMAND = "facthold plan --calibrate"


def refresh(store: Path | None, output: Path, json: bool, place: Place | None = None) -> None:
    """Compute the cells that the store lacks and write ``output``.

    In one worker process: a cell at a time, so that its seconds are its own.
    """
    writable_file(output)
    start = time.perf_counter()
    rates = [product_rate()]
    wanted = cells()
    rows = compute_cells("calibrations", [cell for *_, cell in wanted], store, place or Workers(1))
    rates.append(product_rate())
    found = [calibration(name, goal, cell, row.result) for (name, goal, cell), row in zip(wanted, rows, strict=True)]
    machine = asdict(provenance(time.perf_counter() - start))
    about = {name: machine[name] for name in ("facthold", "date", "cpu", "cores", "python", "jax")} | {
        "numpy": importlib.metadata.version("numpy"), "gflops": sum(rates) / len(rates), "command": COMMAND,
        "cells": {
            "seconds": sum(row.provenance.seconds for row in rows),
            "first": min(row.provenance.date for row in rows), "last": max(row.provenance.date for row in rows),
        },
    }  # fmt: skip
    write(Calibrations(about, found), output)
    held = sum(row.size is not None for row in found)
    if json:
        print_json({"file": str(output), "calibrations": len(found), "found": held, "provenance": about})
    else:
        typer.echo(f"{count(len(found), 'calibration')}, {held} with a size; written to {output}")

"""facthold plan --calibrate: measure again what plans rest on, and write the file."""

import importlib.metadata
import time
from pathlib import Path
from typing import Any

import typer

from facthold.cli.basics import count, print_json, writable
from facthold.cli.common import compute_cells, open_store
from facthold.lab.places import Place
from facthold.lab.provenance import provenance
from facthold.lab.workers import Workers
from facthold.plan.calibrations import Calibrations, product_rate, write
from facthold.studies.sizes.calibrations import calibration, cells

COMMAND = "facthold plan --calibrate"


def refresh(store: Path | None, out: Path, json: bool, place: Place | None = None) -> None:
    """Compute the cells that the store lacks and write ``out``.

    In one worker process: a cell at a time, so that its seconds are its own.
    """
    if out.is_dir():
        raise ValueError(f"--out {out} is a folder; give the name of a file")
    writable(out.parent)
    start = time.perf_counter()
    rates = [product_rate()]
    wanted = cells()
    rows = compute_cells("calibrations", [cell for *_, cell in wanted], open_store(store), place or Workers(1))
    rates.append(product_rate())
    found = [
        calibration(method, goal, cell, row.result) for (method, goal, cell), row in zip(wanted, rows, strict=True)
    ]
    about = _provenance(time.perf_counter() - start) | {
        "gflops": sum(rates) / len(rates), "command": COMMAND,
        "cells": {
            "seconds": sum(row.provenance.seconds for row in rows),
            "first": min(row.provenance.date for row in rows), "last": max(row.provenance.date for row in rows),
        },
    }  # fmt: skip
    write(Calibrations(about, found), out)
    held = sum(row.size is not None for row in found)
    if json:
        print_json({"file": str(out), "calibrations": len(found), "found": held, "provenance": about})
    else:
        typer.echo(f"{count(len(found), 'calibration')}, {held} with a size; written to {out}")


def _provenance(seconds: float) -> dict[str, Any]:
    about = provenance(seconds)
    return {
        "facthold": about.facthold, "date": about.date, "cpu": about.cpu, "cores": about.cores, "python": about.python,
        "jax": about.jax, "numpy": importlib.metadata.version("numpy"),
    }  # fmt: skip

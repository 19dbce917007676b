"""What every command may use and none has to pay for: imports of the standard library and Typer alone."""

import json
import math
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from facthold._util.errors import FactholdError

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON alone on standard output.")]

interrupted = threading.Event()
"""Set by Ctrl-C."""


def count(n: int, what: str) -> str:
    """'1 cell', '2 cells'."""
    return f"{n} {what}" + ("" if n == 1 else "s")


def print_json(value: Any) -> None:
    """JSON that every reader takes: what is not a finite number is null."""
    typer.echo(json.dumps(_finite(value), indent=1, allow_nan=False, default=str))


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(v) for key, v in value.items()}
    return [_finite(v) for v in value] if isinstance(value, list | tuple) else value


def writable(folder: Path, option: str = "--out") -> None:
    """Make sure of the folder before computing for minutes."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise FactholdError(f"cannot write to {folder}: {error.strerror}; give another {option}") from error

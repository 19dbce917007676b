"""What commands print: results as JSON or tables on standard output, and on standard error what they are doing."""

import json as json_text
import math
import string
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

messages = Console(stderr=True, highlight=False, soft_wrap=True)
EVERY = 10.0  # seconds between two lines about the same work, where there is no terminal
WIDE = 200  # columns of a table that no terminal shows: nothing is cut


def count(n: int, what: str) -> str:
    """'1 cell', '2 cells'."""
    return f"{n} {what}" + ("" if n == 1 else "s")


def print_json(value: Any) -> None:
    """JSON that every reader takes: what is not a finite number is null."""
    typer.echo(json_text.dumps(_finite(value), indent=1, allow_nan=False, default=str))


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(v) for key, v in value.items()}
    return [_finite(v) for v in value] if isinstance(value, list | tuple) else value


class _Cells(string.Formatter):
    """What is None is an empty cell."""

    def format_field(self, value: Any, format_spec: str) -> str:
        return "" if value is None else super().format_field(value, format_spec)


def show(
    title: str, columns: Mapping[str, str] | Sequence[str], rows: Iterable[Mapping[str, Any]], *, lines: bool = False,
    json: bool = False,
) -> None:  # fmt: skip
    """Print a table, fitted to a terminal. ``columns`` are the names of what is shown of each row, or a format for each
    heading: '{recall:.2%}'. With ``json``, print the rows themselves."""
    if json:
        return print_json(list(rows))
    cells = columns if isinstance(columns, Mapping) else {name: f"{{{name}}}" for name in columns}
    table = Table(title=title, title_justify="left", show_lines=lines, box=SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(cells):
        table.add_column(column, overflow="fold", no_wrap=i == 0)  # names stay whole
    for row in rows:
        table.add_row(*(_Cells().vformat(cell, (), row) for cell in cells.values()))
    console = Console(highlight=False, markup=False)
    (console if console.is_terminal else Console(highlight=False, markup=False, width=WIDE)).print(table)


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """Say what is being done, and by the function that this gives how far it is: a spinner with a changing text on a
    terminal, a line now and then elsewhere."""
    if messages.is_terminal:
        with messages.status(what) as status:
            yield lambda news: status.update(f"{what}: {escape(news)}")
        return
    messages.print(what, markup=False)
    spoke, heard = -EVERY, ""  # the first news at once

    def say(news: str) -> None:
        nonlocal spoke, heard
        if news != heard and time.monotonic() - spoke > EVERY:
            messages.print(f"  {news}", markup=False)
            spoke, heard = time.monotonic(), news

    yield say

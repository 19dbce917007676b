"""What commands print: results as JSON or tables on standard output, and on standard error what they are doing."""

import json as json_text
import math
import string
import textwrap
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
WIDTH = 80  # columns of all that is printed, also where there is no terminal: one text for every reader
GAP = 2  # columns between those of a table
FEW = 3  # columns of a table that may be wider than its rows: the last is folded


def count(n: int, what: str) -> str:
    """'1 cell', '2 cells'."""
    return f"{n} {what}" + ("" if n == 1 else "s")


def paragraph(text: str, indent: str = "", *, first: str | None = None, err: bool = False) -> None:
    """Print a paragraph in lines of at most `WIDTH` columns, after the first one indented; names, paths and commands
    are never broken."""
    first = indent if first is None else first
    filled = textwrap.fill(
        text, WIDTH, initial_indent=first, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    typer.echo(filled, err=err)


def shorten(text: str, width: int) -> str:
    """The text on one line of so many columns: its first words, where it is longer."""
    return textwrap.shorten(text, width, placeholder=" ...")


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
    title: str, columns: Mapping[str, str] | Sequence[str], rows: Iterable[Mapping[str, Any]], *, json: bool = False
) -> None:
    """Print a table of at most `WIDTH` columns. ``columns`` are the names of what is shown of each row, or a format for
    each heading: '{recall:.2%}'. With ``json``, print the rows themselves.

    Where a row does not fit and has more than `FEW` parts, each row is a paragraph instead, below its first part.
    """
    if json:
        return print_json(list(rows))
    formats = columns if isinstance(columns, Mapping) else {name: f"{{{name}}}" for name in columns}
    lines = [[_Cells().vformat(cell, (), row) for cell in formats.values()] for row in rows]
    widths = [max(map(len, column)) for column in zip(formats, *lines, strict=True)]
    if title:
        paragraph(title)
    if len(formats) > FEW and sum(widths) + GAP * (len(formats) - 1) > WIDTH:
        for name, *rest in lines:
            typer.echo(name)
            paragraph(
                "; ".join(f"{head} {part}" for head, part in zip(list(formats)[1:], rest, strict=True) if part), "    "
            )
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(formats):
        table.add_column(column, overflow="fold", no_wrap=i == 0)  # names stay whole
    for line in lines:
        table.add_row(*line)
    _print_table(table)


def _print_table(table: Table) -> None:
    """Without the spaces that Rich fills lines with."""
    console = Console(highlight=False, markup=False, width=WIDTH, color_system=None)
    with console.capture() as captured:
        console.print(table)
    typer.echo("\n".join(line.rstrip() for line in captured.get().splitlines()).strip("\n"))


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

"""What commands print: results as JSON or tables on standard output, and on standard error what they are doing."""

import json as json_text
import math
import shutil
import string
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.markup import escape

from facthold._util.commands import count as count
from facthold._util.errors import printable as printable
from facthold._util.errors import shorten

if TYPE_CHECKING:
    from facthold.plan.laws import Interval

T = TypeVar("T")
messages = Console(stderr=True, highlight=False, soft_wrap=True)
SLOWER = 0.5  # and at least so much of the time that it took up to the last one: few lines, however long it takes
SPINNER = 2  # columns of what turns before a line
EVERY = 10.0  # seconds between two lines about the same work, where there is no terminal
GAP = "  "  # between the columns of a table
WIDE, FEW = 100, 3  # columns of a terminal that has room for every detail, and of a table on a narrower one
BYTES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
TIMES = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "y": 365.25 * 86400}


def width() -> int:
    """Columns of all that is printed: of the terminal, or what COLUMNS says; 80 where nobody says."""
    return shutil.get_terminal_size((80, 24)).columns


def filled(text: str, indent: str | None = None, first: str | None = None) -> str:
    """The text in lines of at most `width` columns, after the first one indented: by default as its own lines are, and
    a little more. Names, paths and numbers are never broken."""
    lines = []
    for line in map(printable, text.split("\n")):
        lead = line[: len(line) - len(line.lstrip())]
        further = f"{lead}  " if indent is None else indent
        start = lead if indent is None else indent
        lines.append(
            textwrap.fill(
                line.strip(), width(), initial_indent=start if first is None else first, subsequent_indent=further,
                break_long_words=False, break_on_hyphens=False,
            )
        )  # fmt: skip
    return "\n".join(lines)


def paragraph(text: str, indent: str | None = None, *, first: str | None = None, err: bool = False) -> None:
    """Print what is to be read, in lines that fit; see `filled`."""
    typer.echo(filled(text, indent, first), err=err)


def hint(text: str, command: str) -> None:
    """Print what a command is for, and the command on a line of its own, which is never broken: it is to be pasted."""
    paragraph(f"{text}:")
    typer.echo(f"  {command}")


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


def stands(answer: str, margin: float, rival: str) -> str:
    """Where an answer stands, whose score minus that of ``rival`` is the margin."""
    if margin > 0:
        return f"{answer} by a margin of {margin:.4g} over {rival}"
    return f"{answer} is level with {rival}" if margin == 0 else f"{answer} is {-margin:.4g} below {rival}"


def show(
    title: str, columns: Mapping[str, str] | Sequence[str], rows: Iterable[Mapping[str, Any]], *, json: bool = False,
    few: bool = False,
) -> None:  # fmt: skip
    """Print a table of at most `width` columns; a wide character, such as an emoji, takes two of them. ``columns`` are
    the names of what is shown of each row, or a format for each heading: '{recall:.2%}'. With ``json``, print the rows
    themselves.

    Where a row does not fit, each is a paragraph instead, below its first part. So it is with ``few``, where the
    terminal is narrow and there are many columns: a glance takes in three.
    """
    if json:
        return print_json(list(rows))
    formats = columns if isinstance(columns, Mapping) else {name: f"{{{name}}}" for name in columns}
    lines = [[printable(_Cells().vformat(cell, (), row)) for cell in formats.values()] for row in rows]
    if title:
        paragraph(title)
    whole = _widths({name: cell_len(name) for name in formats}, lines)
    broken = _widths(
        {name: max(map(cell_len, name.split()), default=0) for name in formats}, lines
    )  # headings, not cells
    widths = whole if _fits(whole) else broken
    if not _fits(widths) or (few and len(formats) > FEW and width() < WIDE):
        for name, *rest in lines:
            if name:
                typer.echo(name)
            paragraph(
                "; ".join(f"{head} {part}" for head, part in zip(list(formats)[1:], rest, strict=True) if part), "    "
            )
        return
    headings = [textwrap.wrap(name, size) if name else [] for name, size in zip(formats, widths, strict=True)]
    tall = max(map(len, headings))
    above = [[""] * (tall - len(words)) + words for words in headings]  # each stands on the line below it
    rule = ["-" * size for size in widths]
    for line in (*zip(*above, strict=True), rule, *lines):
        typer.echo(GAP.join(set_cell_size(part, size) for part, size in zip(line, widths, strict=True)).rstrip())


def _widths(heads: Mapping[str, int], lines: Sequence[Sequence[str]]) -> list[int]:
    return [max([size, *(cell_len(line[i]) for line in lines)]) for i, size in enumerate(heads.values())]


def _fits(widths: Sequence[int]) -> bool:
    return sum(widths) + len(GAP) * (len(widths) - 1) <= width()


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """Say what is being done, and by the function that this gives how far it is: a spinner with a changing text on a
    terminal, a line now and then elsewhere."""
    if messages.is_terminal:
        with messages.status(what) as status:
            yield lambda news: status.update(escape(shorten(printable(f"{what}: {news}"), width() - SPINNER)))
        return
    messages.print(what, markup=False)
    start = time.monotonic()
    spoke, heard = -EVERY, ""  # the first news at once, and then the less often the longer it takes

    def say(news: str) -> None:
        nonlocal spoke, heard
        if news != heard and time.monotonic() - spoke > max(EVERY, SLOWER * (spoke - start)):
            messages.print(f"  {printable(news)}", markup=False)
            spoke, heard = time.monotonic(), news

    yield say


def amount(n: float, digits: int = 9) -> str:
    """A number as it is read: whole with commas up to so many digits, then with a power of ten."""
    if n >= 10**digits - 0.5:
        precision = 2 if n < 1e10 else 1 if n < 1e100 else 0
        return f"{float(n):.{precision}e}".replace("e+0", "e").replace("e+", "e")
    return f"{round(n):,}" if n >= 999.5 or abs(n - round(n)) < 1e-9 * max(1, abs(n)) else f"{n:.3g}"


def percent(share: float) -> str:
    """A share of which all that matters is seen, however small it is."""
    return f"{share:.4%}" if share >= 1e-4 or not share else f"{100 * share:.2g}%"


def size_text(size: float) -> str:
    """Bytes in the unit that suits them."""
    unit = next((unit for unit, one in BYTES.items() if size < 999.5 * one), "TB")
    return f"{amount(size / BYTES[unit], 4)} {unit}"


def times_text(seconds: "Interval") -> str:
    """What is expected, and the interval in the same unit: '4.9 s (3.5-6.7)'."""
    if seconds.expected >= 1000 * TIMES["y"]:
        return "> 1,000 years"
    unit = next((unit for unit, one in TIMES.items() if seconds.expected < 120 * one), "y")
    low, expected, high = (f"{n:.2g}" if n < 99.5 else amount(round(n), 5) for n in (s / TIMES[unit] for s in seconds))
    return f"{expected} {unit} ({low}-{high})"

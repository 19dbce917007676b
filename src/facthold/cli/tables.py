"""Tables on standard output: fitted to a terminal, wide enough elsewhere that nothing is cut."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

WIDE = 200


def show(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, lines: bool = False) -> None:
    """Print a table; long texts fold inside their column."""
    table = Table(title=title, title_justify="left", show_lines=lines)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Console(highlight=False, markup=False)
    (console if console.is_terminal else Console(highlight=False, markup=False, width=WIDE)).print(table)

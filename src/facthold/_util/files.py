"""Files that a reader never meets half written, and text for them."""

import contextlib
import csv
import io
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from facthold._util.errors import FactholdError


@contextlib.contextmanager
def writing(path: str | Path) -> Iterator[IO[bytes]]:
    """Beside it first, then in its place. Pipes and devices, such as /dev/stdout, are written as they are."""
    path = Path(path)
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as stream:
                yield stream
            return
        final = path.resolve()  # a link stays a link
        final.parent.mkdir(parents=True, exist_ok=True)
        partial = final.with_name(f".{final.name}.{os.getpid()}.partial")
        try:
            with partial.open("wb") as stream:
                yield stream
            partial.replace(final)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise FactholdError(f"cannot write {path}: {error.strerror or error}; give another path") from error


def as_csv(rows: Iterable[Iterable[Any]], delimiter: str = ",") -> str:
    """Rows as the text of a CSV file; the first is its header."""
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return text.getvalue()

"""Files that a reader never meets half written."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from facthold._util.errors import FactholdError


@contextlib.contextmanager
def writing(path: str | Path) -> Iterator[IO[bytes]]:
    """Write a file that a reader never meets half written: beside it first, then in its place.

    Pipes and devices, such as /dev/stdout, are written as they are.
    """
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

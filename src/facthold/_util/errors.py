"""Errors that a user can do something about: one clear line, no traceback."""

import difflib
import importlib
import os
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


class FactholdError(Exception):
    """What went wrong and what to do about it, in one line: ``except fh.FactholdError as error: print(error)``. The
    command line prints it and exits with 2."""


class MissingPackage(FactholdError):
    """An optional package is not installed; the line says what to install."""


def optional(needed: str, *modules: str) -> list[Any]:
    """Modules of an optional package; where it is not installed, an error that says what is ``needed``."""
    try:
        return [importlib.import_module(module) for module in modules]
    except ImportError as error:
        raise MissingPackage(needed) from error


def check_positive(**sizes: int) -> None:
    """Refuse sizes that are zero or below, by name: ``check_positive(d=d, m=m)``."""
    for name, value in sizes.items():
        if value < 1:
            raise ValueError(f"{name}={value} must be at least 1")


def check_range(name: str, values: Any, size: int) -> None:
    """Refuse an array of numbers that are not all from 0 to size - 1."""
    if len(values) and not 0 <= values.min() <= values.max() < size:
        raise ValueError(f"{name} must lie between 0 and {size - 1}, not {values.min()} to {values.max()}")


def unknown(what: str, name: str, known: Iterable[str]) -> ValueError:
    """A misspelt name is an error that lists the names that exist, the nearest first."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return ValueError(f"unknown {what} {name!r}; {hint}choose one of: {', '.join(names)}")


def check_one_of(what: str, name: str, known: Collection[str]) -> None:
    """Refuse a name that is not among the known ones."""
    if name not in known:
        raise unknown(what, name, known)


def find(what: str, name: str, known: Mapping[str, T]) -> T:
    """The one with this name; a misspelt name is an error that lists those that exist."""
    check_one_of(what, name, known)
    return known[name]


def check_fits(*, N: int, d: int, M: int, scores: bool) -> None:
    """Refuse a problem whose tables do not fit in this machine's memory, before trying.

    The embeddings take 4 (N + M) d bytes, and their float64 draws twice that; training and solving also
    hold the N x M ``scores``, twice in float32 or once in float64. A d x d matrix takes 8 d^2.
    """
    check_positive(N=N, d=d, M=M)
    needed = 12 * (N + M) * d + 8 * d * d + (8 * N * M if scores else 0)
    check_memory(f"N={N} with d={d} and M={M}", needed)


def machine_memory() -> int:
    """Bytes of memory that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check_memory(what: str, needed: float) -> None:
    """Refuse ``what`` if the bytes that it needs do not fit in this machine's memory."""
    available = machine_memory()
    if needed > 0.8 * available:
        raise ValueError(
            f"{what} needs about {needed / 2**30:.3g} GiB, and this machine has {available / 2**30:.3g}; "
            "take smaller sizes"
        )

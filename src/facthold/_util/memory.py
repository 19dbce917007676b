"""What fits in memory: bytes by sizes, and the one limit that every command keeps, before it starts."""

import os
import re
from pathlib import Path

from facthold._util.errors import FactholdError, check_positive

LIMIT = "FACTHOLD_MEMORY"  # the variable that says how much may be used, such as 8G
USED = 0.8  # share of what is free that may be planned with: estimates are rough, and others need memory too
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
GIB = 2.0**30


def available() -> float:
    """Bytes that may be used: what $FACTHOLD_MEMORY says, or what is free on this machine, for this process."""
    if given := os.environ.get(LIMIT):
        found = re.fullmatch(r"([0-9]*\.?[0-9]+)\s*([KMGT]?)(?:i?B)?", given.strip(), re.IGNORECASE)
        if found is None:
            raise ValueError(f"{LIMIT}={given} is no amount of memory; write it as in 8G or 500M")
        return float(found[1]) * UNITS[found[2].upper()]
    return USED * min(_free(), _of_group())


def _free() -> float:
    """What the system could give, with what it keeps of files; all that there is, where it does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024.0 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def _of_group() -> float:
    """What is left to the container that this process runs in."""
    folder = Path("/sys/fs/cgroup")
    try:
        return float((folder / "memory.max").read_text()) - float((folder / "memory.current").read_text())
    except (OSError, ValueError):  # no container, or one without a limit ('max')
        return float("inf")


def check_memory(what: str, needed: float, way_out: str = "take smaller sizes") -> None:
    """Refuse ``what`` if the bytes that it needs do not fit, and say what to do about it."""
    if needed > (there := available()):
        raise FactholdError(
            f"{what} needs about {in_gib(needed)} of memory, and there is {in_gib(there)} to use; {way_out}"
        )


def in_gib(size: float) -> str:
    return f"{size / GIB:.3g} GiB"


def memory_of(*, N: int, d: int, M: int, scores: bool) -> float:
    """Bytes of a problem and its memory.

    The embeddings take 4 (N + M) d bytes, and their float64 draws twice that; training and solving also hold the N x M
    ``scores``, twice in float32 or once in float64. A d x d matrix takes 8 d^2.
    """
    return 12.0 * (N + M) * d + 8.0 * d * d + (8.0 * N * M if scores else 0.0)


def check_fits(*, N: int, d: int, M: int, scores: bool) -> None:
    """Refuse a problem whose tables do not fit, before trying."""
    check_positive(N=N, d=d, M=M)
    check_memory(f"N={N} with d={d} and M={M}", memory_of(N=N, d=d, M=M, scores=scores), "take a smaller N or d")

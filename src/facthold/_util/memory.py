"""What fits in memory: bytes by sizes, and the one limit that every command keeps, before it starts."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from facthold._util.errors import FactholdError, check_positive

LIMIT = "FACTHOLD_MEMORY"  # the variable that says how much may be used, such as 8G
USED = 0.8  # share of what is free that may be planned with: estimates are rough, and others need memory too
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
GIB = 2.0**30

Parts = Mapping[str, float]  # bytes, by the argument that they grow with: 'd=64'


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


def check_memory(what: str, needed: float | Parts, way_out: str | None = None) -> None:
    """Refuse ``what`` if the bytes that it needs do not fit, and say what to do: by default, to lower the argument that
    most of them grow with."""
    parts = needed if isinstance(needed, Mapping) else {}
    total = float(sum(parts.values()) if parts else needed if isinstance(needed, int | float) else 0.0)
    if total > (there := available()):
        way_out = way_out or (f"lower {max(parts, key=lambda name: parts[name])}" if parts else "take smaller sizes")
        raise FactholdError(
            f"{what} needs about {in_gib(total)} of memory, and there is {in_gib(there)} to use; {way_out}"
        )


def in_gib(size: float) -> str:
    return f"{size / GIB:.3g} GiB"


def bytes_of(
    *, embeddings: float = 0, weights: float = 0, facts: float = 0, scores: float = 0, prompts: float = 0
) -> float:
    """Bytes by the numbers of each: embeddings are float32, drawn as float64; weights and scores float32, with another
    of the same size beside them while they are computed; facts are rows of a table; prompts int64, copied once."""
    return 12.0 * embeddings + 8.0 * weights + 64.0 * facts + 8.0 * scores + 16.0 * prompts


def memory_parts(*, N: int, d: int, M: int, m: int = 0, scores: bool) -> Parts:
    """Bytes of a memory with N inputs, M outputs and m neurons, by what they grow with. Training and solving also hold
    the N x M ``scores``; neurons their values at all inputs."""
    check_positive(N=N, d=d, M=M)
    of_inputs = bytes_of(embeddings=float(N) * d, scores=float(N) * M if scores else 0)
    return {
        f"N={N}": of_inputs, f"M={M}": bytes_of(embeddings=float(M) * d), f"d={d}": bytes_of(weights=float(d) * d),
        f"m={m}": bytes_of(weights=2.0 * m * d, scores=float(N) * m),
    }  # fmt: skip

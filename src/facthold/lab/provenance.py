"""Where a result comes from: which code, on which machine, when, and how long it took."""

import contextlib
import dataclasses
import functools
import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import facthold
from facthold._util.plugins import version_of
from facthold._util.runtime import usable_cores

GIT_SECONDS = 5.0  # no question to git may take longer: on a slow disk the commit is unknown rather than waited for


@dataclasses.dataclass(frozen=True, kw_only=True)
class Provenance:
    """What stands beside every stored result. Nothing in it names the user, the host or a path."""

    facthold: str  # version of this package
    commit: str | None  # of the package's source tree, with '+dirty' when it was modified; None outside a checkout
    date: str  # when the result was stored: ISO 8601, UTC
    platform: str
    cpu: str
    cores: int  # cores that this process may use
    python: str
    jax: str
    seeds: tuple[int, ...]  # the field 'seeds' or 'seed' of the cell's spec; empty when it has neither
    seconds: float  # wall time


def provenance(seconds: float, spec: Mapping[str, Any] | None = None) -> Provenance:
    """The provenance of what this process has just computed from ``spec`` in ``seconds``."""
    spec = spec or {}
    seeds = spec.get("seeds", spec.get("seed"))
    several = seeds if isinstance(seeds, list | tuple) else [seeds]
    return Provenance(
        facthold=facthold.__version__, commit=source_commit(), date=datetime.now(UTC).isoformat(timespec="seconds"),
        platform=platform.platform(), cpu=cpu_model(), cores=usable_cores(), python=platform.python_version(),
        jax=version_of("jax") or "unknown", seeds=tuple(seed for seed in several if isinstance(seed, int)),
        seconds=float(seconds),
    )  # fmt: skip


@functools.cache
def source_commit() -> str | None:
    """Commit of the tree that this package runs from; asked once a process."""
    return commit_of(Path(facthold.__file__).parent)


def commit_of(package: Path) -> str | None:
    """The commit that tracks ``package/__init__.py``, with '+dirty' if anything in the folder differs.

    A package that is installed below somebody else's checkout is not tracked by it: None, as without git,
    before the first commit, and when git does not answer in time.
    """
    if not _git(package, "ls-files", "--error-unmatch", "__init__.py"):
        return None
    commit = _git(package, "rev-parse", "--verify", "HEAD")
    changes = _git(package, "status", "--porcelain", "--", ".")
    if not commit or changes is None:
        return None
    return commit + ("+dirty" if changes else "")


def _git(folder: Path, *arguments: str) -> str | None:
    """What git prints, or None when it fails."""
    # variables such as GIT_DIR, set inside hooks, would point it to another tree
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-c", "core.fsmonitor=false", *arguments], cwd=folder, timeout=GIT_SECONDS, check=True,
            env=environment | {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace").strip()


@functools.cache
def cpu_model() -> str:
    """The processor's name as the system tells it, else its architecture."""
    with contextlib.suppress(OSError):  # not Linux
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine() or "unknown"

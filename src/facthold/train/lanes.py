"""Lanes: one thread a core, each training its own group of models (docs/architecture.md says why).

XLA runs the compiled loops of several lanes at once on its one CPU device, so that each is compiled once.
"""

import threading
from concurrent.futures import ThreadPoolExecutor

from facthold._util.errors import check_positive
from facthold._util.runtime import fix_threads, usable_cores


class Stopped(Exception):
    """Raised in a lane whose work was called off."""


class Lanes(ThreadPoolExecutor):
    """A pool of ``n`` worker threads (default: one a core)."""

    def __init__(self, n: int | None = None) -> None:
        self.n = n or usable_cores()
        super().__init__(self.n, thread_name_prefix="lane")
        self.stopped = threading.Event()

    def __len__(self) -> int:
        return self.n

    def stop(self) -> None:
        """Call off all work: what runs ends at its next `check`, what waits does not start."""
        self.stopped.set()
        self.shutdown(wait=False, cancel_futures=True)

    def check(self) -> None:
        """Called by long work now and then: raises `Stopped` after `stop`."""
        if self.stopped.is_set():
            raise Stopped


_shared: Lanes | None = None
_fixed: int | None = None


def fix_lanes(n: int) -> None:
    """Give this process ``n`` lanes instead of one a core. A worker process has one, and calls this first."""
    global _fixed
    check_positive(n=n)
    fix_threads(n)
    _fixed = n


def shared_lanes() -> Lanes:
    """The lanes of this process, made at first use, and anew after they were stopped."""
    global _shared
    if _shared is None or _shared.stopped.is_set() or _fixed not in (None, len(_shared)):
        _shared = Lanes(_fixed)
    return _shared

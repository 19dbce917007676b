"""Lanes: one thread and one XLA device a core, each training its own group of models.

The matrices here are small: two threads that share one product gain almost nothing, two lanes that
train different members gain nearly a factor of two. A lane that is done takes the next group.
"""

import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import jax

T = TypeVar("T")


def configure(n: int | None = None) -> None:
    """Give XLA one device a core, each with one thread. Call it before anything else uses JAX.

    The command line does. In a library the caller decides: without it there is one lane.
    """
    # One thread a product: results do not depend on how many other lanes are busy.
    flag = "--xla_cpu_multi_thread_eigen=false"
    if flag not in os.environ.get("XLA_FLAGS", ""):
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}".strip()
    jax.config.update("jax_num_cpu_devices", n or os.cpu_count() or 1)


class Stopped(Exception):
    """Raised in a lane whose work was called off."""


class Lanes:
    """A pool with one worker thread a device."""

    def __init__(self, devices: Iterable[jax.Device] | None = None) -> None:
        self.devices = list(devices if devices is not None else jax.devices("cpu"))
        self._free: queue.SimpleQueue[jax.Device] = queue.SimpleQueue()
        for device in self.devices:
            self._free.put(device)
        self._pool = ThreadPoolExecutor(len(self.devices), thread_name_prefix="lane")
        self._stopped = threading.Event()

    def __len__(self) -> int:
        return len(self.devices)

    def stop(self) -> None:
        """Call off all work: what runs ends at its next `check`, what waits does not start."""
        self._stopped.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def check(self) -> None:
        """Called by long work now and then: raises `Stopped` after `stop`."""
        if self._stopped.is_set():
            raise Stopped

    def submit(self, work: Callable[[], T]) -> "Future[T]":
        """Run ``work`` on the next free device."""
        return self._pool.submit(self._on_free_device, work)

    def _on_free_device(self, work: Callable[[], T]) -> T:
        device = self._free.get()
        try:
            with jax.default_device(device):
                return work()
        finally:
            self._free.put(device)

    def map(self, work: Callable[..., T], items: Iterable) -> Iterator[T]:
        """Results in the order of ``items``."""
        futures = [self.submit(lambda item=item: work(item)) for item in items]  # type: ignore[misc]
        return (future.result() for future in futures)


_shared: Lanes | None = None


def shared_lanes() -> Lanes:
    """The lanes of this process, made at first use."""
    global _shared
    if _shared is None:
        _shared = Lanes()
    return _shared

"""All tests run as the command line does: one thread a product, one lane a core."""

import gc
from pathlib import Path

import jax
import pytest

from facthold.train.lanes import configure

configure()

MOST_MAPS = 25_000
"""Linux allows a process 65,530 memory maps. A compiled program takes about ten of them, and XLA crashes without a word
when there are none left, which a process with a thousand tests comes to."""
EVERY = 16
"""Tests between two looks at their number."""
_finished = 0


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    global _finished
    _finished += 1
    maps = Path("/proc/self/maps")
    if _finished % EVERY == 0 and maps.exists() and maps.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()
        gc.collect()

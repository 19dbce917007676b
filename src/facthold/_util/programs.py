"""Compiled programs are dropped before they use up the memory maps that Linux gives a process.

XLA maps each kernel of a program by itself: code, constants and data, three maps for each, about 15 to 20 for a
program. A process may have 65,530 maps (vm.max_map_count), and one that asks for more dies without a word, after 3,000
to 4,000 programs. JAX keeps every program for as long as the function that made it. `jax.clear_caches` gives all of
their maps back; what is needed again comes from the cache on the disk.
"""

import gc
import sys
from contextlib import suppress
from pathlib import Path

SHARE = 0.3
"""The share of the limit above which programs are dropped. The rest is for what runs until somebody looks again."""


def drop_programs(share: float = SHARE) -> bool:
    """Drop all compiled programs if this process has used more than ``share`` of its memory maps; says whether it did.

    A program that is running in another thread ends undisturbed. Nothing is dropped where there is no such limit.
    """
    if memory_maps() <= share * most_memory_maps() or "jax" not in sys.modules:
        return False
    import jax

    jax.clear_caches()
    gc.collect()
    return True


def memory_maps() -> int:
    """Memory maps of this process; 0 where the system does not say."""
    with suppress(OSError):
        return Path("/proc/self/maps").read_bytes().count(b"\n")
    return 0


def most_memory_maps() -> int:
    """How many a process may have; Linux's default where the system does not say."""
    with suppress(OSError, ValueError):
        return int(Path("/proc/sys/vm/max_map_count").read_text())
    return 65_530

"""How JAX and NumPy run here: one thread for each product, and compiled programs kept on the disk.

Both read their settings when they start: this module loads neither, and `import facthold` calls `configure`.
"""

import gc
import hashlib
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

XLA_FLAG = "--xla_cpu_multi_thread_eigen=false"
BLAS_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
XLA_POOL = "PJRT_NPROC"  # the threads over which XLA spreads the operations of one program; it takes one a core

CACHE_VARIABLE = "FACTHOLD_COMPILE_CACHE"  # a folder for compiled programs; 'off': none; unset: in the user's cache
# Keep every program: most take a tenth of a second to compile, and there are hundreds of them.
CACHE_SETTINGS = {"jax_persistent_cache_min_compile_time_secs": 0.0, "jax_persistent_cache_min_entry_size_bytes": -1}
CACHE_BYTES = 1 << 29  # a larger folder is cut down to half of this: 512 MiB are some ten thousand programs
CACHE_LOOK = 3600.0  # seconds between two looks at its size, by whichever process comes first
MAPS_SHARE = 0.3  # of its memory maps, above which a process drops programs; the rest is for what runs until then

_threads: int | None = None  # what `fix_threads` has set

Item = TypeVar("Item")
Made = TypeVar("Made")


def configure() -> None:
    """Let each product use one thread and keep compiled programs, here and in the processes that this one starts.

    The lanes are then the only parallelism: a product is summed in the same order whatever the number of cores, and
    however busy they are. Who has set threads for XLA or NumPy, or a cache for JAX, keeps it.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if XLA_FLAG.split("=")[0] not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {XLA_FLAG}".strip()
    for variable in BLAS_VARIABLES:
        os.environ.setdefault(variable, "1")
    _keep_programs()


def fix_threads(n: int) -> None:
    """Let XLA spread a program over ``n`` threads, if it has not started yet.

    Where one program runs at a time, a second thread costs more than it brings: the operations of a small model take
    microseconds, and handing them over takes as long. A search at d = 16 in a worker is quicker by a quarter for it.
    """
    global _threads
    _threads = n
    os.environ.setdefault(XLA_POOL, str(n))


def usable_cores() -> int:
    """Cores that this process may use: fewer than the machine has when it is pinned to some of them."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def side_by_side(of: Callable[[Item], Made], items: Sequence[Item]) -> list[Made]:
    """What ``of`` makes of each, in order, on all cores that this process may use. For work of NumPy, which holds no
    lock while it computes."""
    threads = min(_threads or usable_cores(), len(items))
    if threads < 2:
        return [of(item) for item in items]
    with ThreadPoolExecutor(threads, thread_name_prefix="side") as pool:
        return list(pool.map(of, items))


def _keep_programs() -> None:
    folder = cache_folder()
    if folder is None or "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # whoever writes there runs code here
        prune(folder)
    except OSError:  # no home, or one that cannot be written: compile each time
        return
    # a program that was half written is compiled again, and that is all there is to say of it
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation cache entry")
    settings = {"jax_compilation_cache_dir": str(folder), **CACHE_SETTINGS}
    os.environ |= {name.upper(): str(value) for name, value in settings.items()}
    if jax := sys.modules.get("jax"):  # it has read its environment already
        for name, value in settings.items():
            jax.config.update(name, value)


def user_cache() -> Path:
    """The user's cache folder, as the system has it, and facthold's folder in it."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "facthold"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "facthold"


def cache_folder() -> Path | None:
    """Where compiled programs are kept, apart for each kind of processor: machines may share a home. None: nowhere."""
    chosen = os.environ.get(CACHE_VARIABLE, "")
    if chosen.lower() in ("off", "0", "no", "none"):
        return None
    base = Path(chosen).expanduser() if chosen else user_cache()
    return base / f"compiled-{_processor()}"


def _processor() -> str:
    """A few letters that tell kinds of processors apart."""
    about = platform.machine() + platform.processor()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
        about += "".join(sorted({line for line in lines if line.startswith(("flags", "Features", "model name"))}))
    return hashlib.sha256(about.encode()).hexdigest()[:8]


def prune(folder: Path, most: int = CACHE_BYTES, *, every: float = CACHE_LOOK) -> None:
    """Cut the cache down, the oldest programs first, and remove files that were begun and never written. Several
    processes may do this at once: what is missing is compiled again."""
    looked = folder / "looked"
    with suppress(FileNotFoundError):
        if time.time() - looked.stat().st_mtime < every:
            return
    looked.touch()
    entries = []
    for file in folder.glob("*-cache"):
        with suppress(FileNotFoundError):
            entries.append((file.stat().st_mtime, file.stat().st_size, file))
    total = sum(size for _, size, _ in entries)
    target = most // 2 if total > most else total
    for modified, size, file in sorted(entries):
        begun = size == 0 and time.time() - modified > 60
        if begun or total > target:
            file.unlink(missing_ok=True)
            total -= size


def drop_programs(share: float = MAPS_SHARE) -> bool:
    """Drop all compiled programs if this process has used more than ``share`` of its memory maps; says whether it did.

    A process that asks for more maps than Linux allows dies without a word (docs/sweeps.md). What is needed again comes
    from the cache on the disk, and a program that is running in another thread ends undisturbed.
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

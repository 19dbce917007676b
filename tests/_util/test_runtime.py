"""One thread for each product, and compiled programs on the disk: the same results to the bit with and without."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from facthold._util import runtime

FIT = """
import hashlib
import jax
import numpy as np
import facthold
from facthold.memory.associations import random_problem
from facthold.models.memory import MLPMemory
from facthold.train.engine import Member, fit
from facthold.train.protocols import protocol
from facthold.train.tasks import StoreAssociations
problem = random_problem(N=24, d=16, key=jax.random.key(0))
start = MLPMemory.init(d=16, m=8, key=jax.random.key(1))
(run,) = fit([Member(start, StoreAssociations.of(problem), jax.random.key(2))], protocol("mlp-text"))
weights = b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(run.model))
print(hashlib.sha256(weights).hexdigest(), run.steps)
"""


def result(cache: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    environment |= {runtime.CACHE_VARIABLE: cache}
    done = subprocess.run([sys.executable, "-c", FIT], env=environment, capture_output=True, text=True, check=True)
    assert "cache" not in done.stderr
    return done.stdout


def test_results_are_the_same_to_the_bit_without_with_an_empty_and_with_a_full_cache(tmp_path: Path) -> None:
    without = result("off")
    assert not list(tmp_path.iterdir())
    empty = result(str(tmp_path))
    entries = {p.name: p.stat().st_mtime_ns for p in tmp_path.glob("*/*-cache")}
    full = result(str(tmp_path))
    assert without == empty == full
    assert entries
    assert {p.name: p.stat().st_mtime_ns for p in tmp_path.glob("*/*-cache")} == entries  # nothing compiled again


def test_a_damaged_program_is_compiled_again(tmp_path: Path) -> None:
    good = result(str(tmp_path))
    for entry in tmp_path.glob("*/*-cache"):
        entry.write_bytes(entry.read_bytes()[: entry.stat().st_size // 2])
    assert result(str(tmp_path)) == good


def entry(folder: Path, name: str, size: int, age: float) -> Path:
    path = folder / f"{name}-cache"
    path.write_bytes(b"x" * size)
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def test_the_oldest_programs_go_until_half_of_the_limit_is_left(tmp_path: Path) -> None:
    old, older, new = (entry(tmp_path, name, 40, age) for name, age in (("b", 200), ("a", 300), ("c", 100)))
    other = tmp_path / "notes.txt"
    other.write_text("not a program")
    runtime.prune(tmp_path, most=130)
    assert old.exists()  # 120 bytes are within the limit
    runtime.prune(tmp_path, most=100)
    assert old.exists()  # looked at a moment ago
    runtime.prune(tmp_path, most=100, every=0)
    assert (older.exists(), old.exists(), new.exists(), other.exists()) == (False, False, True, True)


def test_a_file_that_was_begun_and_never_written_goes(tmp_path: Path) -> None:
    begun, now, whole = entry(tmp_path, "a", 0, 100), entry(tmp_path, "b", 0, 0), entry(tmp_path, "c", 1, 100)
    runtime.prune(tmp_path)
    assert (begun.exists(), now.exists(), whole.exists()) == (False, True, True)


@pytest.mark.parametrize("off", ["off", "OFF", "0", "none"])
def test_one_variable_turns_it_off(off: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(runtime.CACHE_VARIABLE, off)
    assert runtime.cache_folder() is None


def test_programs_of_another_processor_are_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(runtime.CACHE_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    here = runtime.cache_folder()
    monkeypatch.setattr(runtime, "_processor", lambda: "other")
    assert here is not None
    assert here != runtime.cache_folder()
    if sys.platform != "darwin":
        assert here.is_relative_to("/somewhere/facthold")


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_text("in the way")
    monkeypatch.setenv(runtime.CACHE_VARIABLE, str(file))
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    runtime.configure()
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ

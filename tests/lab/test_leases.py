"""Several processes on one store: no cell is computed twice, and nobody waits for the dead."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from facthold.lab import leases
from facthold.lab.leases import STALE, Leases, is_dead, machine
from facthold.lab.places import InProcess, Line, Moment, Place, finish
from facthold.lab.runner import run_cells
from facthold.lab.status import sweeps
from facthold.lab.store import Store
from facthold.lab.workers import Workers
from odd_cells import IMPORTED, PATIENCE, Quiet, Sleeping, starts, until

DRIVER = """
import sys
from facthold.lab.runner import run_cells
from facthold.lab.store import Store
from odd_cells import Quiet, Sleeping

store, log, n, seconds = sys.argv[1:]
with Store(store) as kept:
    run_cells([Sleeping(n=i, seconds=float(seconds), log=log) for i in range(int(n))], kept, Quiet())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.sqlite"


def drive(path: Path, log: Path, n: int, seconds: float) -> "subprocess.Popen[bytes]":
    """The same cells in a process of its own."""
    command = [sys.executable, "-c", DRIVER, str(path), str(log), str(n), str(seconds)]
    return subprocess.Popen(command, env=os.environ | {"PYTHONPATH": IMPORTED})


def leased(path: Path) -> list[tuple[str, int]]:
    with sqlite3.connect(path) as db:
        found = db.execute("SELECT key, pid FROM leases").fetchall()
    db.close()
    return found


def test_two_processes_share_the_cells_and_compute_none_twice(path: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    drivers = [drive(path, log, 24, 0.4) for _ in range(2)]
    assert [driver.wait(timeout=PATIENCE) for driver in drivers] == [0, 0]
    assert sorted(n for n, _ in starts(log)) == list(range(24))
    assert {pid for _, pid in starts(log)} == {driver.pid for driver in drivers}
    assert leased(path) == []
    with Store(path) as store:
        assert len(store.rows()) == 24
        assert [(sweep.state, sweep.done, sweep.total) for sweep in sweeps(store)] == [("finished", 24, 24)] * 2


@pytest.mark.parametrize("place", [InProcess(), Workers(2)], ids=["process", "workers"])
def test_the_cells_of_a_killed_process_are_taken_over_at_once(path: Path, tmp_path: Path, place: Place) -> None:
    log = tmp_path / "log"
    cell = Sleeping(n=0, seconds=2.0, log=str(log))
    other = drive(path, log, 1, 2.0)
    until(lambda: starts(log))
    assert leased(path) == [(cell.key, other.pid)]
    other.kill()
    other.wait()
    listener = Quiet()
    with Store(path) as store:
        run_cells([cell], store, listener, place=place)
    assert not listener.was_held  # nobody waited for it, however slow the machine is
    assert len(starts(log)) == 2


def test_a_cell_that_another_process_computes_is_waited_for(path: Path, tmp_path: Path) -> None:
    log, listener = tmp_path / "log", Quiet()
    other = drive(path, log, 1, 3.0)
    until(lambda: starts(log))
    cells = [Sleeping(n=0, seconds=3.0, log=str(log)), Sleeping(n=7, log=str(log))]
    with Store(path) as store:
        rows = run_cells(cells, store, listener)
        assert [row.result["n"] for row in rows] == [0, 7]
    assert other.wait(timeout=PATIENCE) == 0
    assert [n for n, _ in starts(log)] == [0, 7]  # the other one first, while the first is computed elsewhere
    assert listener.was_held
    assert sorted(cell.label for cell in listener.done) == ["sleeping 0", "sleeping 7"]


def test_a_moment_in_which_nothing_runs_is_no_waiting_for_others(path: Path) -> None:
    class Between(Place):
        """One cell at a time; nothing runs when it is heard of."""

        label, lanes = "here", 1

        def compute(self, line: Line) -> Generator[Moment, None, None]:
            while taken := line.take(1):
                yield Moment([finish(cell) for cell in taken], [])

    listener = Quiet()
    with Store(path) as store:
        run_cells([Sleeping(n=i, seconds=0.0) for i in range(3)], store, listener, place=Between())
    assert len(listener.done) == 3
    assert not listener.was_held


def test_an_interrupted_run_lets_its_cells_go(path: Path) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with Store(path) as store, pytest.raises(KeyboardInterrupt):
        run_cells([Sleeping(n=1, seconds=0.1)], store, Quiet(stop))
    assert leased(path) == []


def test_a_lease_is_kept_by_signs_of_life_and_ends_without_them(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell, clock = Sleeping(n=1), [1000.0]
    monkeypatch.setattr(time, "time", lambda: clock[0])
    monkeypatch.setattr(leases, "BEAT", -1.0)
    with Store(path) as store, Leases(store, [cell]) as first, Leases(store, [cell]) as second:
        assert first.take(1) == [cell]
        clock[0] += STALE - 1.0
        assert second.take(1) == []
        first.beat()
        clock[0] += STALE - 1.0
        assert second.take(1) == []
        clock[0] += 2.0
        assert second.take(1) == [cell]
        assert len(second) == 0


def test_who_is_dead() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    now = time.time()
    assert not is_dead(machine(), os.getpid(), now, now)
    assert is_dead(machine(), ended.pid, now, now)
    assert not is_dead("another", ended.pid, now, now)  # its numbers are its own
    assert is_dead("another", ended.pid, now - STALE - 1, now)
    assert is_dead(machine(), os.getpid(), now - STALE - 1, now)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_a_zombie_is_dead() -> None:
    zombie = subprocess.Popen(["sleep", "600"])
    now = time.time()
    assert not is_dead(machine(), zombie.pid, now, now)
    zombie.send_signal(signal.SIGKILL)
    until(lambda: is_dead(machine(), zombie.pid, now, now))
    zombie.wait()


def test_many_cells_are_taken_in_their_order(path: Path) -> None:
    cells = [Sleeping(n=n) for n in range(600)]  # more than one transaction looks at
    with Store(path) as store, Leases(store, cells) as first, Leases(store, cells) as second:
        store.put(cells[1], {"n": 1}, 0.0)
        assert first.take(299) == [cells[0], *cells[2:300]]
        assert second.take(2) == cells[300:302]
        assert [cell for cell, _ in first.found_elsewhere()] == [cells[1]]
        assert (len(first), len(second)) == (300, 597)

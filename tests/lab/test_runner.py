"""Where cells run: the same bits everywhere, and nothing that finished is lost, whoever dies."""

import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from facthold._util import runtime
from facthold._util.errors import FactholdError
from facthold.cli.cells import CellProgress, outcome
from facthold.lab.cells import Cell
from facthold.lab.leases import STALE
from facthold.lab.pace import Pace, stored_pace
from facthold.lab.places import RETRIES, InProcess, Place, Running
from facthold.lab.provenance import provenance
from facthold.lab.runner import run_cells
from facthold.lab.status import Best, Tally, sweeps
from facthold.lab.store import Store
from facthold.lab.workers import Workers
from facthold.studies.memories.capacity import Capacity
from odd_cells import (
    IMPORTED,
    PATIENCE,
    Compiling,
    Deadly,
    Failing,
    Guessed,
    Quiet,
    Sleeping,
    Threads,
    alive,
    starts,
    until,
)  # fmt: skip

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")


@pytest.fixture
def store(tmp_path: Path):
    with Store(tmp_path / "results.sqlite") as store:
        yield store


def stored(store: Store) -> list[tuple[str, str]]:
    """Key and result of every row, as they stand in the file."""
    return store.query("SELECT key, result FROM results ORDER BY key")


@pytest.mark.slow
def test_the_same_bits_in_this_process_and_in_a_worker(tmp_path: Path) -> None:
    cells = [
        Capacity(method="train:mlp-text", d=6, m=6, seeds=(0, 1), tolerance=0.2),
        Capacity(method="ridge-readout", d=6, m=8, seeds=(0, 1), tolerance=0.2),
    ]
    found = []
    for place in (InProcess(), Workers(1)):
        with Store(tmp_path / f"{len(found)}.sqlite") as store:
            rows = run_cells(cells, store, Quiet(), place=place)
            found.append(stored(store))
    assert found[0] == found[1]
    here = provenance(0.0)
    assert {row.provenance.cpu for row in rows} == {here.cpu}
    assert all(row.provenance.seeds == (0, 1) and row.provenance.seconds > 0 for row in rows)


def test_a_worker_has_one_lane_and_xla_one_thread_in_it(store: Store) -> None:
    """Two threads for one small program are slower than one."""
    (row,) = run_cells([Threads()], store, Quiet(), place=Workers(1))
    assert row.result == {"threads": "1", "cores": 1}


@pytest.mark.parametrize("place", [InProcess(), Workers(2)], ids=["process", "workers"])
def test_each_cell_is_computed_once_and_stored(place: Place, store: Store, tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    cells = [Sleeping(n=n, log=log) for n in (3, 1, 2, 1)]
    store.put(cells[0], {"n": 3}, 0.0)
    listener = Quiet()
    rows = run_cells(cells, store, listener, place=place)
    assert [row.spec["n"] for row in rows] == [3, 1, 2, 1]
    assert (listener.todo, listener.stored, len(listener.done)) == (2, 1, 2)
    assert sorted(n for n, _ in starts(log)) == [1, 2]
    assert run_cells(cells, store, Quiet(), place=place) == rows
    assert len(starts(log)) == 2


def test_the_largest_cell_starts_first(store: Store, tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    run_cells([Sleeping(n=n, seconds=0.01 * n, log=log) for n in (1, 3, 2)], store, Quiet(), place=Workers(1))
    assert [n for n, _ in starts(log)] == [3, 2, 1]


@needs_proc
def test_programs_are_dropped_before_there_are_too_many_memory_maps(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each cell takes 24 maps and three run at a time. Without the guard there are 480 more at the end."""
    run_cells([Compiling(n=100)], store, Quiet())  # threads and what JAX itself needs
    runtime.drop_programs(share=0.0)
    before = runtime.memory_maps()
    monkeypatch.setattr(runtime, "most_memory_maps", lambda: int((before + 100) / runtime.MAPS_SHARE))
    rows = run_cells([Compiling(n=n) for n in range(20)], store, Quiet())
    assert max(row.result["maps"] for row in rows) < before + 300


@needs_proc
def test_a_killed_worker_loses_its_own_cell_which_is_tried_again(store: Store, tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    killed: list[int] = []

    def kill_the_first() -> None:
        if not killed and starts(log):
            killed.append(starts(log)[0][1])
            os.kill(killed[0], signal.SIGKILL)

    cells = [Sleeping(n=n, seconds=1.0, log=log) for n in range(5)]
    listener = Quiet(kill_the_first)
    run_cells(cells, store, listener, place=Workers(2))
    begun = [n for n, _ in starts(log)]
    assert sorted(row.result["n"] for row in store.rows()) == list(range(5))
    assert sorted(cell.key for cell in listener.done) == sorted(cell.key for cell in cells)  # each told once
    assert {n for n in begun if begun.count(n) > 1} == {begun[0]}  # the others went on undisturbed
    assert len(begun) == 6
    assert not any(alive(pid) for _, pid in starts(log))


def test_a_cell_that_kills_its_worker_now_and_then_is_found(store: Store, tmp_path: Path) -> None:
    (row,) = run_cells([Deadly(times=2, log=str(tmp_path / "log"))], store, Quiet(), place=Workers(2))
    assert row.result == {"tries": 3}


def test_a_cell_that_always_kills_its_worker_is_named_after_all_others_are_done(store: Store, tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    cells: list[Cell] = [Deadly(times=99, log=log), *(Sleeping(n=n, log=log) for n in range(3))]
    with pytest.raises(FactholdError, match=r"4 tries, because its worker process ended \(SIGKILL\): deadly cell"):
        run_cells(cells, store, Quiet(), place=Workers(2))
    assert [row.spec["n"] for row in store.rows("sleeping")] == [0, 1, 2]
    assert sum(n == -1 for n, _ in starts(log)) == RETRIES + 1


@pytest.mark.parametrize("place", [InProcess(), Workers(1)], ids=["process", "workers"])
def test_what_a_cell_raises_reaches_the_driver(place: Place, store: Store) -> None:
    with pytest.raises(ValueError, match="cannot be computed"):
        run_cells([Failing()], store, Quiet(), place=place)
    (sweep,) = sweeps(store)
    assert (sweep.state, sweep.reason, sweep.done, sweep.total) == ("failed", "this cell cannot be computed", 0, 1)


def test_what_finished_before_an_error_is_kept(store: Store) -> None:
    cells: list[Cell] = [Failing(), Sleeping(n=1, seconds=0.1)]  # the larger one starts first
    with pytest.raises(ValueError, match="cannot be computed"):
        run_cells(cells, store, Quiet(), place=Workers(1))
    assert cells[1] in store


def test_an_exception_that_cannot_be_pickled_is_told_in_words(store: Store) -> None:
    with pytest.raises(RuntimeError, match="Strange: this and that"):
        run_cells([Failing(strange=True)], store, Quiet(), place=Workers(1))


def test_numbers_of_workers_below_one_are_refused() -> None:
    with pytest.raises(ValueError, match="workers=0 must be at least 1"):
        Workers(0)


def in_flight(path: Path) -> list[str]:
    """What `facthold sweep status` sees from outside."""
    with Store(path, create=False) as store:
        return [label for sweep in sweeps(store) for label, _ in sweep.running]


DRIVER = """
import signal
import sys
from odd_cells import Quiet, Sleeping
from facthold.lab.runner import run_cells
from facthold.lab.store import Store
from facthold.lab.workers import Workers

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    with Store(sys.argv[1]) as store:
        run_cells([Sleeping(n=n, seconds=600.0, log=sys.argv[2]) for n in range(3)], store, Quiet(), place=Workers(2))
"""


@needs_proc
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_their_driver_in_the_middle_of_a_cell(how: signal.Signals, tmp_path: Path) -> None:
    log, path, script = tmp_path / "log", tmp_path / "results.sqlite", tmp_path / "driver.py"
    script.write_text(DRIVER)
    environment = os.environ | {"PYTHONPATH": IMPORTED}
    command = [sys.executable, str(script), str(path), str(log)]
    driver = subprocess.Popen(
        command, env=environment, start_new_session=True, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    try:
        until(lambda: len(starts(log)) == 2)
        until(lambda: len(in_flight(path)) == 2)
        if how == signal.SIGINT:
            os.killpg(driver.pid, how)  # as a terminal does: to the driver and its workers
        else:
            driver.send_signal(how)
        _, said = driver.communicate(timeout=PATIENCE)
        until(lambda: not any(alive(pid) for _, pid in starts(log)))
    finally:
        driver.kill()
    assert said.count("Traceback") <= 1  # the driver's own, and no worker's
    with Store(path, create=False) as store:
        (sweep,) = sweeps(store)
    assert sweep.state == ("interrupted" if how == signal.SIGINT else "running")
    assert sweep.state_now(time.time()) == ("interrupted" if how == signal.SIGINT else "dead")
    assert sorted(label for label, _ in sweep.running) == ([] if how == signal.SIGINT else ["sleeping 0", "sleeping 1"])


def test_another_terminal_sees_how_the_sweep_goes(store: Store) -> None:
    seen = []

    def look() -> None:
        with Store(store.path, create=False) as other:
            seen.extend(sweeps(other))

    begun = time.time()
    cells = [Sleeping(n=n, seconds=2.0 * (n == 3)) for n in (1, 2, 3)]
    store.put(cells[0], cells[0].run(), 0.0)
    run_cells(cells, store, Quiet(look), place=Workers(2), title="a title")
    now = time.time()
    last = seen[-1]
    assert (last.title, last.place, last.state, last.stored) == ("a title", "2 worker processes", "running", 1)
    assert begun <= last.started <= last.beat <= now
    assert any("sleeping 3" in [label for label, _ in sweep.running] for sweep in seen)
    (end,) = sweeps(store)
    assert (end.state, end.done, end.total, end.running) == ("finished", 2, 2, [])
    assert end.found == {"n%2=0": Best(2, 20), "n%2=1": Best(3, 30)}
    assert end.state_now(now + 10 * STALE) == "finished"
    assert end.as_json(now)["found"]["n%2=1"] == {"facts": 3, "n_params": 30}
    run_cells(cells, store, Quiet())
    assert len(sweeps(store)) == 1  # nothing was computed, so there is nothing to tell


def test_a_store_from_before_opens_as_it_is(store: Store) -> None:
    store.put(Sleeping(n=1), {"n": 1}, 0.0)
    with Store(store.path, create=False) as old:
        assert sweeps(old) == []
        assert len(old.rows()) == 1


@pytest.mark.parametrize("trouble", ["CREATE VIEW sweeps AS SELECT 1 AS x", "CREATE TABLE sweeps (x)"])
def test_a_status_that_cannot_be_written_stops_nothing(trouble: str, store: Store) -> None:
    store._db.execute(trouble)
    (row,) = run_cells([Sleeping(n=1)], store, Quiet())
    assert row.result["n"] == 1


FULL = """
import dataclasses, resource, sys
from typing import ClassVar
from facthold.lab.cells import Cell
from facthold.cli.app import app, main
from facthold.cli.cells import compute_cells
from facthold.lab.places import InProcess

@dataclasses.dataclass(frozen=True, kw_only=True)
class Large(Cell):
    kind: ClassVar[str] = "large"
    n: int
    cost = 1.0
    def run(self):
        return {"pad": "x" * 10_000}

@app.command()
def fill():
    compute_cells("large", [Large(n=n) for n in range(100)], None, InProcess())

if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
    main(["fill"])
"""


def test_a_disk_that_takes_no_more_ends_the_run_in_one_line_and_loses_nothing(tmp_path: Path) -> None:
    """The system refuses to let the file grow, in a process of its own: status, result, all of it."""
    (tmp_path / "fill.py").write_text(FULL)
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    done = subprocess.run(
        [sys.executable, "fill.py"], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE,
        env={k: v for k, v in os.environ.items() if k != "FACTHOLD_STORE"},
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    *announced, last = done.stderr.strip().splitlines()
    assert last.startswith("facthold: cannot use the store facthold-results.sqlite: the disk")
    n = sum(line.startswith("[") for line in announced)
    assert 10 <= n <= 30
    with Store(tmp_path / "facthold-results.sqlite") as store:
        assert len(store.rows()) == n
        assert store.query("PRAGMA integrity_check") == [("ok",)]


def test_a_full_disk_during_a_sweep_is_told_by_the_store(store: Store) -> None:
    run_cells([Sleeping(n=1)], store, Quiet())
    (pages,) = store._db.execute("PRAGMA page_count").fetchone()
    store._db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(FactholdError, match="the disk is full; free some space"):
        run_cells([Sleeping(n=n) for n in range(200)], store, Quiet())
    assert Sleeping(n=1) in store
    with sqlite3.connect(store.path) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()


def test_time_left_counts_lanes_then_what_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(time, "time", lambda: clock[0])
    cells = [Sleeping(n=n, seconds=9.0) for n in range(4)]  # costs of 10
    tally = Tally(cells, Workers(2))
    assert tally.left == 20.0
    tally.running = [Running(cell, 100.0) for cell in cells[:2]]
    clock[0] += 5.0
    assert tally.left == 15.0
    clock[0] += 35.0
    assert tally.left == 20.0  # two are late: a quarter of what they have had; and two to come
    tally.finished(cells[0], {}, 40.0)
    tally.finished(cells[1], {}, 40.0)
    assert tally.left == 40.0  # two like them on two lanes
    tally.finished(cells[2], {}, 40.0)
    tally.finished(cells[3], {}, 40.0)
    assert (tally.left, tally.done) == (0.0, 4)


@pytest.mark.parametrize("place", [Workers(1), Workers(4), InProcess()], ids=["one", "four", "process"])
def test_no_run_is_shorter_than_its_longest_cell(place: Place) -> None:
    assert place.estimate([100.0, 10.0]) == (110.0 if place.lanes == 1 else 100.0)
    assert place.estimate([]) == 0.0


FACTORS = {"quick": 0.05, "as told": 1.0, "slow": 8.0}  # by which costs are off
LANES = 3


def drawn_cells(rng: random.Random, n: int = 40) -> list[tuple[Cell, float]]:
    """Cells of three groups, and the seconds that they really take."""
    made = [(group, rng.lognormvariate(3.0, 1.0), i) for i in range(n) for group in FACTORS]
    return [(Guessed(group=group, guess=cost / FACTORS[group], n=i), cost * rng.lognormvariate(0.0, 0.3))
            for group, cost, i in made]  # fmt: skip


def predictions(
    cells: list[tuple[Cell, float]], pace: Pace, clock: list[float]
) -> Iterator[tuple[float, float, float]]:
    """The run on a clock that is set by hand: after each cell the share of the time, what was said to be left, and what
    was left."""
    seconds = {cell.key: took for cell, took in cells}
    order = pace.order(cell for cell, _ in cells)
    tally, start, told = Tally(order, Workers(LANES), pace), clock[0], []
    running: list[Running] = []
    while order or running:
        while order and len(running) < LANES:
            running.append(Running(order.pop(0), clock[0]))
        first = min(running, key=lambda one: one.since + seconds[one.cell.key])
        clock[0] = first.since + seconds[first.cell.key]
        running.remove(first)
        tally.finished(first.cell, {}, seconds[first.cell.key])
        tally.running = list(running)
        told.append((clock[0], tally.left))
    for now, left in told[:-LANES]:
        yield (now - start) / (clock[0] - start), left, clock[0] - now


@pytest.mark.parametrize("seed", range(3))
def test_time_left_is_right_within_a_factor_of_two_where_costs_are_off(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first cell on where the store holds some of each group, and after a tenth of the time where not."""
    clock, rng = [100.0], random.Random(seed)
    monkeypatch.setattr(time, "time", lambda: clock[0])
    cells = drawn_cells(rng)
    busier = [(cell, took / 3) for cell, took in drawn_cells(rng, 4)]  # the machine was three times as fast then
    for known, after in ((drawn_cells(rng, 4), 0.0), (busier, 0.1), ([], 0.1)):
        ratios = [left / right for share, left, right in predictions(cells, Pace(known), clock) if share > after]
        assert min(ratios) > 0.5, known
        assert max(ratios) < 2.0, known


def test_one_cell_of_each_group_that_nothing_is_known_of_starts_first() -> None:
    cells = [Guessed(group=group, guess=10.0**n, n=n) for group in "ab" for n in range(3)]
    known = [(cells[4], 1.0)]
    assert [(c.group, c.n) for c in Pace().order(cells)[:3]] == [("a", 1), ("b", 1), ("a", 2)]
    assert [c.n for c in Pace().order(cells[:3])] == [2, 1, 0]  # one group alone shows itself
    assert [c.n for c in Pace(known).order(cells)][:2] == [2, 2]


def test_the_pace_comes_from_the_store(store: Store) -> None:
    """Of cells like it first, then of its kind; cells of another version or kind say nothing."""
    for group, ratio in (("a", 3.0), ("b", 5.0)):
        for n in range(3):
            store.put(Guessed(group=group, guess=10.0, n=n), {}, 10.0 * ratio)
    store.put(Sleeping(n=1), {}, 1e6)
    cells = [Guessed(group=group, guess=2.0, n=9) for group in "abc"]
    pace = stored_pace(store, cells, Workers(2))
    assert [pace.seconds(cell) for cell in cells] == [6.0, 10.0, 8.0]
    assert pace.seconds(Sleeping(n=1, seconds=4.0)) == 5.0  # as it says
    pace.finished(cells[0], 12.0)  # twice as slow as before: so are the others
    assert pace.seconds(cells[1]) == 20.0
    assert pace.seconds(Sleeping(n=1, seconds=4.0)) == 30.0  # as the whole run
    store.query("UPDATE results SET version = 99")
    assert stored_pace(store, cells, Workers(2)).seconds(cells[0]) == 2.0


def test_the_most_facts_of_each_shape_are_kept() -> None:
    tally = Tally([])
    assert tally.finished(Sleeping(n=1), {"facts": 5, "n_params": 50}, 1.0)
    assert not tally.finished(Sleeping(n=3), {"facts": 4, "n_params": 60}, 1.0)
    assert not tally.finished(Sleeping(n=3), {"facts": None, "n_params": 60}, 1.0)
    assert tally.finished(Sleeping(n=3), {"facts": 6.5}, 1.0)
    assert not tally.finished(Failing(), {"facts": 9}, 1.0)  # it has no shape
    assert tally.found == {"n%2=1": Best(6.5, None)}


def test_plain_lines_tell_outcomes_and_facts(capsys: pytest.CaptureFixture[str]) -> None:
    cells = [Sleeping(n=n) for n in (1, 3)]
    with CellProgress("test") as progress:
        progress.begin(tally := Tally(cells), 0)
        for cell in cells:
            tally.finished(cell, cell.run(), 0.0)
            progress.finished(cell, cell.run(), 0.0)
            progress.waiting()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "test: 2 cells to compute; about 2.0 s"
    assert lines[1].startswith("[1/2] sleeping 1: done (0.0 s); about ")
    assert lines[2] == "  most so far at n%2=1: 1 fact at the accuracy asked for, 10 parameters"
    assert lines[-2:] == ["facts found:", "  n%2=1: 3 facts at the accuracy asked for, 30 parameters"]
    with CellProgress("test") as progress:
        progress.begin(Tally([]), 1)
    assert capsys.readouterr().err == "test: 0 cells to compute, 1 already stored\n"


@pytest.mark.parametrize(
    ("stored", "done", "says"),
    [
        (0, 0, "none of 2 cells was finished, so that the same command begins again"),
        (0, 1, "1 of 2 cells stored, and the same command goes on after them"),
        (3, 0, "3 of 5 cells stored, and the same command goes on after them"),
    ],
)
def test_a_run_that_is_stopped_claims_to_go_on_only_after_what_is_stored(stored: int, done: int, says: str) -> None:
    cells = [Sleeping(n=n) for n in (1, 3)]
    progress, stop = CellProgress("test"), KeyboardInterrupt()
    tally = Tally(cells)
    progress.begin(tally, stored)
    for cell in cells[:done]:
        tally.finished(cell, cell.run(), 0.0)
    progress.__exit__(KeyboardInterrupt, stop, None)
    assert stop.__notes__ == [says]


def test_outcomes_in_a_few_words() -> None:
    counts = {"N": 39.0, "N_min": 38, "N_max": 41}
    assert outcome(counts) == "N = 39 (38 to 41)"
    assert outcome(counts | {"facts": 1521.0}) == "S = 39 (38 to 41), 1521 facts"
    assert outcome({"N": None, "status": "search ceiling", "facts": None}) == "search ceiling"
    assert outcome({"margin": 1}) == "done"

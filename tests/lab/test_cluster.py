"""Cells on a real Ray cluster of two nodes on this machine, one of which is killed; and addresses of no cluster."""

import dataclasses
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from facthold._util.errors import FactholdError
from facthold.lab.cluster import RayCluster
from facthold.lab.places import InProcess, Parcel
from facthold.lab.runner import run_cells
from facthold.lab.status import sweeps
from facthold.lab.store import Store
from facthold.studies.memories.capacity import Capacity
from odd_cells import PATIENCE, Quiet, Sleeping, alive, starts, until
from ray_nodes import ENVIRONMENT, Node, free_port

pytest.importorskip("ray")


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="fh", dir="/tmp"))  # short: the path of a socket has 107 characters
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def head(folder: Path) -> Iterator[tuple[Node, str]]:
    if not Path("/proc/self/stat").exists():
        pytest.skip("reads /proc")
    node, address = Node.head(folder)
    yield node, address
    node.kill()


DRIVER = """
import sys, time
from facthold.cli.app import app, main
from facthold.studies.memories.capacity import Capacity
from odd_cells import Deadly, Failing, Sleeping

CELLS = {
    "sleep": lambda log: [Sleeping(n=n, seconds=1.0, log=log) for n in range(8)],
    "long": lambda log: [Sleeping(n=n, seconds=600.0, log=log) for n in range(3)],
    "deadly": lambda log: [Deadly(times=99, log=log), Sleeping(n=1, log=log)],
    "fail": lambda log: [Failing()],
    "capacity": lambda log: [Capacity(method="train:mlp-text", d=6, m=6, seeds=(0, 1), tolerance=0.2)],
}

@app.command()
def drive(what: str, address: str, log: str) -> None:
    from facthold.cli.cells import compute_cells, find_place
    compute_cells(what, CELLS[what](log), None, find_place(None, address))

@app.command()
def draw(address: str) -> None:
    from facthold._util.files import TEXT, writing
    from facthold.cli.cells import find_place
    with find_place(None, address):
        pass
    with writing("picture.txt", TEXT) as stream:
        stream.write(b"half of it")
        stream.flush()
        print("now", flush=True)
        time.sleep(60)

if __name__ == "__main__":
    main(sys.argv[1:])
"""


def drive(what: str, address: str, at: Path) -> "subprocess.Popen[str]":
    return start(["drive", what, address, str(at / "log")], at)


def start(arguments: list[str], at: Path) -> "subprocess.Popen[str]":
    (at / "driver.py").write_text(DRIVER)
    return subprocess.Popen(
        [sys.executable, "driver.py", *arguments], cwd=at, start_new_session=True, text=True,
        env=ENVIRONMENT | {"FACTHOLD_STORE": str(at / "results.sqlite")},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def only_ours(said: str) -> list[str]:
    """The lines on standard error: all are of facthold, none of Ray."""
    lines = re.sub(r"\n  (?=[0-9.]+ |left)", " ", said.strip()).splitlines()  # what goes on below is one line
    assert all(line.startswith(("[", "facthold:", "  most so far", "facts found", "  n%2")) for line in lines[1:]), said
    return lines


@pytest.mark.slow
def test_who_is_asked_to_end_after_the_cluster_is_left_removes_what_it_has_begun(
    head: tuple[Node, str], tmp_path: Path
) -> None:
    driver = start(["draw", head[1]], tmp_path)
    assert driver.stdout is not None
    assert driver.stdout.readline() == "now\n", driver.communicate()[1]
    driver.terminate()
    _, said = driver.communicate(timeout=PATIENCE)
    assert (driver.returncode, said) == (143, "facthold: interrupted; no file was written\n")
    assert [path.name for path in tmp_path.iterdir()] == ["driver.py"]


@pytest.mark.slow
def test_a_node_dies_and_every_cell_is_found_once(head: tuple[Node, str], tmp_path: Path) -> None:
    first, address = head
    log = tmp_path / "log"
    second = Node(f"--address={address}", log=tmp_path / "node.log")
    try:
        driver = drive("sleep", address, tmp_path)
        until(lambda: any(second.runs(pid) for _, pid in starts(log)))
        assert driver.poll() is None
        second.kill()
        _, said = driver.communicate(timeout=PATIENCE)
    finally:
        second.kill()
    assert driver.returncode == 0, said
    lines = only_ours(said)
    assert lines[0].startswith("sleep: 8 cells to compute; about ")
    assert sorted(int(line.split()[2].rstrip(":")) for line in lines if line.startswith("[")) == list(range(8))
    with Store(tmp_path / "results.sqlite") as store:
        assert sorted(row.result["n"] for row in store.rows()) == list(range(8))
        (sweep,) = sweeps(store)
    assert (sweep.state, sweep.place, sweep.done) == ("finished", "a Ray cluster", 8)
    assert len(starts(log)) > 8  # the cell in flight began again, elsewhere
    assert first.process.poll() is None


@pytest.mark.slow
def test_the_same_bits_on_the_cluster(head: tuple[Node, str], tmp_path: Path) -> None:
    _, said = drive("capacity", head[1], tmp_path).communicate(timeout=PATIENCE)
    only_ours(said)
    cell = Capacity(method="train:mlp-text", d=6, m=6, seeds=(0, 1), tolerance=0.2)
    with Store(tmp_path / "results.sqlite") as there, Store(tmp_path / "here.sqlite") as here:
        run_cells([cell], here, Quiet(), place=InProcess())
        query = "SELECT key, result FROM results"
        assert there.query(query) == here.query(query) != []
        (row,) = there.rows()
    assert row.provenance.seconds > 0
    assert row.provenance.seeds == (0, 1)


@pytest.mark.slow
def test_a_cell_that_always_kills_its_worker_is_named(head: tuple[Node, str], tmp_path: Path) -> None:
    driver = drive("deadly", head[1], tmp_path)
    _, said = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 2
    last = only_ours(said)[-1]
    assert "given up after 4 tries" in last
    assert "deadly cell" in last
    with Store(tmp_path / "results.sqlite") as store:
        assert [row.spec["n"] for row in store.rows()] == [1]
    assert sum(n == -1 for n, _ in starts(tmp_path / "log")) == 4


@pytest.mark.slow
def test_what_a_cell_raises_reaches_the_driver(head: tuple[Node, str], tmp_path: Path) -> None:
    driver = drive("fail", head[1], tmp_path)
    _, said = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 2
    assert only_ours(said)[-1] == "facthold: this cell cannot be computed"


@pytest.mark.slow
def test_ctrl_c_ends_the_tasks_too(head: tuple[Node, str], tmp_path: Path) -> None:
    log = tmp_path / "log"
    driver = drive("long", head[1], tmp_path)
    until(lambda: len(starts(log)) == 1)
    os.killpg(driver.pid, signal.SIGINT)
    _, said = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 130
    assert only_ours(said)[-1].endswith(
        "interrupted; none of 3 cells was finished, so that the same command begins again"
    )
    until(lambda: not any(alive(pid) for _, pid in starts(log)))
    assert len(starts(log)) == 1


def test_a_port_where_nothing_listens(tmp_path: Path) -> None:
    refused(f"127.0.0.1:{free_port()}", "Connection refused", tmp_path)


@pytest.mark.slow
def test_a_port_where_something_else_listens(tmp_path: Path) -> None:
    with socket.create_server(("", 0)) as other:  # takes connections and never answers
        refused(f"127.0.0.1:{other.getsockname()[1]}", "nothing answered as Ray does", tmp_path)


@pytest.mark.parametrize("address", ["nonsense", "ray://127.0.0.1:10001", "127.0.0.1:", ":6379", "host:99999", "a b:1"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(FactholdError, match="is no address; give host:port"):
        RayCluster(address)


def test_without_ray_the_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(FactholdError, match=r"pip install 'facthold\[cluster\]'"):
        RayCluster("auto")


def refused(address: str, says: str, at: Path) -> None:
    _, start_up = timed("nonsense", at)  # refused before anything is asked: what the program itself takes to start
    line, seconds = timed(address, at)
    assert seconds < 15 + 4 * start_up  # a busy machine takes longer for both
    assert line.startswith(f"facthold: cannot reach a Ray cluster at {address}")
    assert says in line


def timed(address: str, at: Path) -> tuple[str, float]:
    """The one line of a program that could not connect, and the seconds until it ended."""
    begun = time.monotonic()
    driver = drive("sleep", address, at)
    output, said = driver.communicate(timeout=PATIENCE)
    assert (driver.returncode, output) == (2, ""), said
    (line,) = said.strip().splitlines()
    return line, time.monotonic() - begun


def test_a_parcel_from_another_version_is_refused() -> None:
    parcel = Parcel.of(Sleeping(n=1))
    with pytest.raises(FactholdError, match="another version of facthold"):
        dataclasses.replace(parcel, key="another key").run()
    with pytest.raises(FactholdError, match=r"than the driver \(0\.0\.1\)"):
        dataclasses.replace(parcel, version="0.0.1").run()
    with pytest.raises(FactholdError, match="a worker cannot load a cell"):
        dataclasses.replace(parcel, pickled=parcel.pickled.replace(b"odd_cells", b"odd_cella")).run()

"""The store keeps what it was given, whatever happens to the process, and refuses what is not its own."""

import dataclasses
import json
import math
import os
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import facthold
from facthold._util.errors import FactholdError
from facthold.lab.cells import Cell, Result
from facthold.lab.provenance import commit_of, provenance, source_commit
from facthold.lab.runner import run_cells
from facthold.lab.store import APPLICATION_ID, SCHEMA_VERSION, Store, default_store_path, from_json, to_json
from odd_cells import IMPORTED, PATIENCE, Sleeping

NOBODY = 65534


@dataclasses.dataclass(frozen=True, kw_only=True)
class Square(Cell):
    kind: ClassVar[str] = "square"
    n: int
    seeds: tuple[int, ...] = (0, 1)

    def run(self) -> Result:
        return {"square": self.n**2}


@dataclasses.dataclass(frozen=True, kw_only=True)
class NewSquare(Square):
    version: ClassVar[int] = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Name(Cell):
    kind: ClassVar[str] = "name"
    seed: int
    name: str = "x"

    def run(self) -> Result:
        return {"name": self.name}


def work(path: str, count: int) -> None:
    """What the worker processes below do: put every missing cell, and announce it when it is stored."""
    with Store(path) as store:
        print("open", flush=True)
        for cell in store.missing(Square(n=n) for n in range(count)):
            store.put(cell, cell.run(), 0.0)
            print(cell.n, flush=True)


def start_worker(path: Path, count: int) -> "subprocess.Popen[str]":
    arguments = [sys.executable, __file__, str(path), str(count)]
    environment = os.environ | {"PYTHONPATH": IMPORTED}
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.sqlite"


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A folder of one's own, in a process that file permissions bind: root first steps down for the test."""
    folder = Path(tempfile.mkdtemp())
    provenance(0.0)  # what is cached is cached with all rights
    folder.chmod(0o777)
    is_root = os.geteuid() == 0
    try:
        if is_root:
            os.seteuid(NOBODY)
        yield folder
    finally:
        if is_root:
            os.seteuid(0)
        for place in [folder, *folder.rglob("*")]:
            place.chmod(0o777)
        shutil.rmtree(folder)


def one_line(error: pytest.ExceptionInfo[FactholdError], path: Path) -> str:
    text = str(error.value)
    assert "\n" not in text
    assert str(path) in text
    return text


def test_what_is_put_is_found_by_the_next_process(path: Path) -> None:
    cell = Square(n=3)
    with Store(path) as store:
        assert cell not in store
        assert store.get(cell) is None
        store.put(cell, {"square": 9, "curve": [1.5, None, True], "status": "ok"}, 1.25)
    with Store(path) as store:
        assert cell in store
        assert store.get(cell) == {"square": 9, "curve": [1.5, None, True], "status": "ok"}
        assert store.get(Square(n=4)) is None


def test_put_returns_what_get_returns(path: Path) -> None:
    result = {
        "tuple": (1, 2),
        "array": np.arange(3.0),
        "scalar": np.float32(0.5),
        "deep": {"x": (np.int64(7),)},
    }
    with Store(path) as store:
        returned = store.put(Square(n=1), result, 0.0)
        assert returned == store.get(Square(n=1))
    assert returned == {"tuple": [1, 2], "array": [0.0, 1.0, 2.0], "scalar": 0.5, "deep": {"x": [7]}}


def test_a_raised_version_does_not_find_older_results(path: Path) -> None:
    with Store(path) as store:
        store.put(Square(n=3), {"square": 9}, 0.0)
        assert NewSquare(n=3) not in store
        store.put(NewSquare(n=3), {"square": -9}, 0.0)
        assert store.get(Square(n=3)) == {"square": 9}
        assert [row.version for row in store.rows("square")] == [1, 2]


def test_a_second_put_replaces_the_row_as_a_whole(path: Path) -> None:
    with Store(path) as store:
        store.put(Square(n=3), {"square": 8}, 1.0)
        store.put(Square(n=3), {"square": 9}, 2.0)
        (row,) = store.rows()
    assert row.result == {"square": 9}
    assert row.provenance.seconds == 2.0


def test_missing_keeps_the_order_and_names_a_shared_cell_once(path: Path) -> None:
    with Store(path) as store:
        store.put(Square(n=2), {"square": 4}, 0.0)
        wanted = [Square(n=3), Square(n=1), Square(n=2), Square(n=3)]
        assert store.missing(wanted) == [Square(n=3), Square(n=1)]


def test_rows_stand_in_the_order_of_their_specs(path: Path) -> None:
    with Store(path) as store:
        for n in (128, 16, 2):
            store.put(Square(n=n), {"square": n * n}, 0.0)
        store.put(Name(seed=1, name="b"), {"name": "b"}, 0.0)
        store.put(Name(seed=1, name="a"), {"name": "a"}, 0.0)
        rows = store.rows()
        assert [row.spec["n"] for row in store.rows("square")] == [2, 16, 128]
        assert store.rows("cube") == []
        others = [f"no key {i}" for i in range(40_000)]  # more than SQLite takes as variables
        some = store.rows(keys=[Square(n=128).key, *others, Square(n=2).key])
        assert [row.spec["n"] for row in some] == [2, 128]
        assert store.rows("name", keys=[Square(n=2).key]) == store.rows(keys=[]) == []
    assert [row.kind for row in rows] == ["name", "name", "square", "square", "square"]
    assert [row.spec.get("name") for row in rows[:2]] == ["a", "b"]
    assert rows[2].key == Square(n=2).key
    assert rows[2].spec == Square(n=2).spec


def test_numbers_that_are_not_finite_come_back_and_the_file_holds_valid_json(path: Path) -> None:
    with Store(path) as store:
        store.put(Square(n=1), {"loss": math.nan, "range": [-math.inf, math.inf], "fine": 1.0}, 0.0)
        result = store.get(Square(n=1))
    assert result is not None
    assert math.isnan(result["loss"])
    assert result["range"] == [-math.inf, math.inf]
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT json_valid(result) FROM results").fetchone() == (1,)
        (text,) = db.execute("SELECT result FROM results").fetchone()
    db.close()

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ({"a": [1, {"b": object()}]}, r"result\.a\[1\]\.b"),
        ({"a": {3: 1}}, r"result\.a has the key 3"),
        ({"$float": "nan"}, r"\$float"),
        ({"z": 1j}, r"result\.z"),
    ],
)
def test_what_json_cannot_hold_is_refused_by_its_place(value: Result, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        to_json(value, "result")


def test_floats_come_back_to_the_last_bit() -> None:
    values = np.random.default_rng(0).standard_normal(100).tolist()
    assert from_json(to_json(values, "values")) == values


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_process_loses_nothing_that_it_announced(path: Path) -> None:
    count, announced = 5_000, []
    for lines in (1, 2, 9, 30):  # from just after the file is made to the middle of the work
        with start_worker(path, count) as worker:
            assert worker.stdout is not None
            said = [worker.stdout.readline().strip() for _ in range(lines)]
            worker.kill()
            said += worker.stdout.read().split()
        assert worker.returncode == -signal.SIGKILL
        assert said[0] == "open"
        announced += [int(n) for n in said[1:]]
        with Store(path, create=False) as store:
            stored = {row.spec["n"]: row.result for row in store.rows()}
            assert store._db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert set(announced) <= set(stored)
        # between the last announcement and the kill, one more put may have come to its end in each round
        assert len(stored) <= len(announced) + 4
        assert all(result == {"square": n * n} for n, result in stored.items())
    assert len(announced) == len(set(announced)), "a worker computed again what was stored"
    assert announced


def test_two_processes_write_to_one_file(path: Path) -> None:
    workers = [start_worker(path, 40) for _ in range(2)]
    outputs = [worker.communicate(timeout=PATIENCE)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0]
    assert {int(n) for output in outputs for n in output.split()[1:]} == set(range(40))
    with Store(path) as store:
        assert [row.result["square"] for row in store.rows()] == [n * n for n in range(40)]


def test_many_may_create_the_file_at_the_same_moment(tmp_path: Path) -> None:
    at_once = 8

    def create(n: int, path: Path, ready: threading.Barrier) -> None:
        ready.wait()
        with Store(path) as store:
            store.put(Square(n=n), {"square": n * n}, 0.0)

    for trial in range(4):
        path, ready = tmp_path / f"{trial}.sqlite", threading.Barrier(at_once)
        with ThreadPoolExecutor(at_once) as pool:
            for done in [pool.submit(create, n, path, ready) for n in range(at_once)]:
                done.result()
        with Store(path, create=False) as store:
            assert [row.result["square"] for row in store.rows()] == [n * n for n in range(at_once)]


def test_a_lock_that_stays_is_told_in_one_line(path: Path) -> None:
    with Store(path), Lock(path), pytest.raises(FactholdError, match="another process") as error:
        Store(path, busy_seconds=0.05)
    one_line(error, path)


class Lock:
    """Holds the write lock of a database."""

    def __init__(self, path: Path) -> None:
        self.db = sqlite3.connect(path, isolation_level=None)

    def __enter__(self) -> None:
        self.db.execute("BEGIN EXCLUSIVE")

    def __exit__(self, *error: object) -> None:
        self.db.close()


def test_files_of_others_are_refused_and_left_as_they_are(path: Path) -> None:
    path.write_text("n,square\n3,9\n" * 100)
    before = path.read_bytes()
    with pytest.raises(FactholdError, match="not a database; give another store") as error:
        Store(path)
    one_line(error, path)
    assert path.read_bytes() == before


def test_databases_of_others_are_refused_and_left_as_they_are(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE results (key TEXT)")
    db.commit()
    db.close()
    before = path.read_bytes()
    for create in (True, False):
        with pytest.raises(FactholdError, match="not a database of facthold") as error:
            Store(path, create=create)
        one_line(error, path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(("step", "age"), [(1, "newer"), (-1, "older")])
def test_other_formats_are_refused(path: Path, step: int, age: str) -> None:
    Store(path).close()
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION + step}")
    db.close()
    with pytest.raises(FactholdError, match=rf"{age} facthold wrote it .* store, or move it away") as error:
        Store(path)
    one_line(error, path)


def test_the_file_says_whose_it_is(path: Path) -> None:
    Store(path).close()
    header = path.read_bytes()[:100]
    assert int.from_bytes(header[68:72], "big") == APPLICATION_ID  # offsets of SQLite's file format, section 1.3
    assert int.from_bytes(header[60:64], "big") == SCHEMA_VERSION


def damage(path: Path, how: str) -> None:
    """Fill a store, and spoil it."""
    with Store(path) as store:
        for n in range(200):
            store.put(Square(n=n), {"square": n, "pad": "x" * 100}, 0.0)
    size = path.stat().st_size
    with path.open("r+b") as file:
        if how == "garbage":
            file.write(b"\x17" * size)
        elif how == "truncated":
            file.truncate(size // 2)
        else:
            file.seek(size // 2 // 4096 * 4096)  # a page, of the table or of its index
            page = file.read(4096)
            file.seek(-4096, os.SEEK_CUR)
            file.write(bytes(byte ^ 0xFF for byte in page))


@pytest.mark.parametrize("how", ["garbage", "truncated", "flipped page"])
def test_a_damaged_file_is_refused_before_anything_is_computed(path: Path, tmp_path: Path, how: str) -> None:
    damage(path, how)
    log = tmp_path / "log"
    with pytest.raises(FactholdError, match=r"it is damaged; take a copy|it is not a database; give another") as error:
        use(path, Sleeping(n=1, log=str(log)))
    one_line(error, path)
    assert not log.exists()


def use(path: Path, cell: Cell) -> None:
    with Store(path) as store:
        run_cells([cell], store)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("result = '{'", "it is not JSON"),
        ("result = CAST(x'7bff7d' AS TEXT)", "it is not JSON"),
        ("result = '[1]'", "it has values without names"),
        ("spec = '{\"n\":1'", "it is not JSON"),
        ("spec = replace(spec, '2', '3')", "its key is not that of its spec"),
        ("key = 'x' || key", "its key is not that of its spec"),
        ("seeds = 'none'", "it is not JSON"),
    ],
)
def test_a_damaged_row_is_named_before_anything_is_computed_and_can_be_removed(
    path: Path, tmp_path: Path, change: str, reason: str
) -> None:
    log = tmp_path / "log"
    with Store(path) as store:
        for n in (1, 2):
            store.put(Square(n=n), {"square": n * n}, 0.0)
        store._db.execute(f"UPDATE results SET {change} WHERE key = '{Square(n=2).key}'")
    with pytest.raises(FactholdError, match=rf"row \d+, of kind square, is damaged \({reason}\)") as error:
        use(path, Sleeping(n=1, log=str(log)))
    advice = one_line(error, path).rpartition(": ")[2]
    assert not log.exists()
    program, file, sql = shlex.split(advice)  # what it says to do helps
    assert (program, file) == ("sqlite3", str(path))
    with sqlite3.connect(file, isolation_level=None) as db:
        db.execute(sql)
    db.close()
    use(path, Sleeping(n=1, log=str(log)))
    with Store(path) as store:
        assert store.missing([Square(n=1), Square(n=2), Sleeping(n=1, log=str(log))]) == [Square(n=2)]


def test_a_row_that_is_damaged_is_not_read(path: Path) -> None:
    with Store(path) as store:
        store.put(Square(n=1), {"square": 1}, 0.0)
        store._db.execute("UPDATE results SET result = '{'")
        with pytest.raises(FactholdError, match="not JSON") as error:
            store.get(Square(n=1))
    one_line(error, path)


def test_a_disk_that_is_full_is_refused_at_once(path: Path) -> None:
    """The system lets no file grow beyond a few pages, in a process of its own."""
    script = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)); "
    script += "from facthold.lab.store import Store; Store(sys.argv[1])"
    for _ in range(2):  # a new store, then one that is there
        done = subprocess.run(
            [sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode != 0
        last = done.stderr.strip().splitlines()[-1]
        assert f"cannot use the store {path}: the disk is full; free some space" in last
        assert list(path.parent.iterdir()) == ([path] if path.exists() else [])
        Store(path).close()


def test_a_folder_and_a_file_as_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FactholdError, match="is a folder") as error:
        Store(tmp_path)
    one_line(error, tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(FactholdError, match="store") as error:
        Store(tmp_path / "file" / "results.sqlite")
    one_line(error, tmp_path / "file" / "results.sqlite")
    with pytest.raises(FactholdError, match="it is a device or a pipe, which keeps nothing"):
        Store("/dev/null")


def test_a_folder_that_is_not_there_is_refused_and_any_name_is_one(tmp_path: Path) -> None:
    path = tmp_path / "a b" / "100% #1?" / "results.sqlite"
    with pytest.raises(FactholdError, match="there is no folder"):
        Store(path)
    path.parent.mkdir(parents=True)
    with Store(path) as store:
        store.put(Square(n=1), {"square": 1}, 0.0)
    assert path.is_file()


def test_reading_only_makes_no_file(path: Path) -> None:
    with pytest.raises(FactholdError, match="no such file") as error:
        Store(path, create=False)
    one_line(error, path)
    assert list(path.parent.iterdir()) == []
    path.touch()
    with pytest.raises(FactholdError, match="empty"):
        Store(path, create=False)
    assert path.stat().st_size == 0


def test_reading_only_does_not_write(path: Path) -> None:
    with Store(path) as store:
        store.put(Square(n=1), {"square": 1}, 0.0)
    before = path.read_bytes()
    with Store(path, create=False) as store:
        assert store.get(Square(n=1)) == {"square": 1}
        with pytest.raises(FactholdError, match="cannot be written"):
            store.put(Square(n=2), {"square": 4}, 0.0)
    assert path.read_bytes() == before


def test_a_full_disk_keeps_what_is_finished(path: Path) -> None:
    with Store(path) as store:
        store.put(Square(n=1), {"square": 1}, 0.0)
        (pages,) = store._db.execute("PRAGMA page_count").fetchone()
        store._db.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(FactholdError, match="disk is full; free some space") as error:
            store.put(Square(n=2), {"pad": "x" * 100_000}, 0.0)
        assert [row.spec["n"] for row in store.rows()] == [1]
    one_line(error, path)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="POSIX permissions")
def test_an_unwritable_folder_is_found_at_once(unprivileged: Path) -> None:
    unprivileged.joinpath("closed").mkdir(mode=0o555)
    path = unprivileged / "closed" / "results.sqlite"
    for place in (path, path.parent / "deeper" / path.name):
        with pytest.raises(FactholdError, match="store") as error:
            Store(place)
        one_line(error, place)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="POSIX permissions")
def test_a_read_only_file_can_be_read_but_is_refused_for_work(unprivileged: Path) -> None:
    path = unprivileged / "results.sqlite"
    with Store(path) as store:
        store.put(Square(n=1), {"square": 1}, 0.0)
    path.chmod(0o444)
    with pytest.raises(FactholdError, match="cannot be written; make it and its folder writable") as error:
        Store(path)
    one_line(error, path)
    with Store(path, create=False) as store:
        assert store.get(Square(n=1)) == {"square": 1}


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="POSIX permissions")
def test_a_folder_that_cannot_be_entered_is_refused(unprivileged: Path) -> None:
    path = unprivileged / "closed" / "results.sqlite"
    path.parent.mkdir(mode=0o000)
    for create in (True, False):
        with pytest.raises(FactholdError, match="store") as error:
            Store(path, create=create)
        one_line(error, path)


def test_another_thread_is_an_error_and_not_a_damaged_file(path: Path) -> None:
    caught: list[Exception] = []

    def use(store: Store) -> None:
        try:
            store.put(Square(n=1), {"square": 1}, 0.0)
        except Exception as error:
            caught.append(error)

    with Store(path) as store:
        thread = threading.Thread(target=use, args=(store,))
        thread.start()
        thread.join()
    assert [type(error) for error in caught] == [sqlite3.ProgrammingError]


def test_the_default_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("FACTHOLD_STORE", raising=False)
    assert default_store_path() == Path("facthold-results.sqlite")
    monkeypatch.setenv("FACTHOLD_STORE", str(tmp_path / "mine"))
    assert default_store_path() == tmp_path / "mine"


def test_provenance_is_kept_with_the_result(path: Path) -> None:
    with Store(path) as store:
        store.put(Square(n=1, seeds=(4, 5)), {"square": 1}, 1.5)
        store.put(Name(seed=7), {"name": "x"}, 0.25)
        name, square = (row.provenance for row in store.rows())
    assert square.seeds == (4, 5)
    assert name.seeds == (7,)
    assert (square.seconds, name.seconds) == (1.5, 0.25)
    assert square.facthold == facthold.__version__
    assert square.commit == source_commit()
    assert square.python == ".".join(map(str, sys.version_info[:3]))
    assert re.match(r"\d+\.\d+", square.jax)
    assert square.cores >= 1
    assert square.cpu
    assert square.platform
    age = datetime.now(UTC) - datetime.fromisoformat(square.date)
    assert timedelta(0) <= age < timedelta(minutes=5)


def test_provenance_from_another_machine_is_kept_as_it_is(path: Path) -> None:
    elsewhere = dataclasses.replace(provenance(3.0, {"seed": None}), cpu="another", cores=96)
    with Store(path) as store:
        store.put(Square(n=1), {"square": 1}, 99.0, origin=elsewhere)
        assert store.rows()[0].provenance == elsewhere
    assert elsewhere.seeds == ()


def git(folder: Path, *arguments: str) -> str:
    settings = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", *settings, *arguments],
        cwd=folder,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_commit_is_that_of_the_tree_that_tracks_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("x = 1\n")
    assert commit_of(package) is None
    git(tmp_path, "init", "-q")
    (tmp_path / "README").write_text("a project that the package is merely installed below")
    git(tmp_path, "add", "README")
    git(tmp_path, "commit", "-q", "-m", "one")
    assert commit_of(package) is None
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "two")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert commit_of(package) == head
    (tmp_path / "README").write_text("changed outside the package")
    assert commit_of(package) == head
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert commit_of(package) == head
    (package / "__init__.py").write_text("x = 2\n")
    assert commit_of(package) == head + "+dirty"


def test_without_git_or_with_a_git_that_hangs_the_commit_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit_of(tmp_path) is None
    hanging = tmp_path / "git"
    hanging.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(600)\n")
    hanging.chmod(0o755)
    monkeypatch.setattr("facthold.lab.provenance.GIT_SECONDS", 0.2)
    assert commit_of(tmp_path) is None


if __name__ == "__main__":
    work(sys.argv[1], int(sys.argv[2]))

"""Files that are being written: nothing half written is ever seen, and nothing of the dead stays."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from facthold._util import files
from facthold._util.files import TEXT, check_room, remove_remains, writing
from odd_cells import IMPORTED, PATIENCE, until

# writes half of a file and then waits, in a thread where that is asked for
WRITER = """
import sys, threading, time
from facthold._util.files import TEXT, abandon, writing

def write():
    with writing(sys.argv[1], TEXT) as stream:
        stream.write(b"new\\n" * 1000)
        stream.flush()
        half.set()
        time.sleep(600)

half = threading.Event()
if sys.argv[2] == "thread":
    threading.Thread(target=write, daemon=True).start()
    half.wait()
    import os
    abandon()
    os._exit(3)
write()
"""


def writer(path: Path, how: str = "here") -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-c", WRITER, str(path), how]
    return subprocess.Popen(command, env=os.environ | {"PYTHONPATH": IMPORTED})


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_a_killed_writer_left_goes_with_the_next_one_and_what_a_living_one_writes_stays(tmp_path: Path) -> None:
    path = tmp_path / "[a]*.txt"  # a name that is a pattern too
    path.write_text("old\n")
    first, second = writer(path), writer(path)
    try:
        until(lambda: len(names(tmp_path)) == 3)
        first.kill()
        first.wait()
        assert path.read_text() == "old\n"
        with writing(path, TEXT) as stream:
            stream.write(b"newer\n")
        left = names(tmp_path)
        assert len(left) == 2  # the file, and what the second writer is at
        assert any(f".{second.pid}-" in name for name in left)
    finally:
        for process in (first, second):
            process.kill()
            process.wait()
    assert path.read_text() == "newer\n"
    remove_remains(path)
    assert names(tmp_path) == [path.name]


def test_a_process_that_does_not_wait_for_its_threads_leaves_nothing_of_theirs(tmp_path: Path) -> None:
    assert writer(tmp_path / "a.txt", "thread").wait(timeout=PATIENCE) == 3
    assert names(tmp_path) == []


def test_a_partial_file_that_was_removed_before_it_was_locked_is_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, partials = files.fcntl.flock, []

    def flock(stream: object, how: int) -> None:
        if not partials:  # another process takes it for what a dead one left
            partials.extend(tmp_path.glob(".*.partial"))
            partials[0].unlink()
        lock(stream, how)  # type: ignore[arg-type]

    monkeypatch.setattr(files.fcntl, "flock", flock)
    with writing(tmp_path / "a.txt", TEXT) as stream:
        stream.write(b"all of it")
    assert partials
    assert names(tmp_path) == ["a.txt"]
    assert (tmp_path / "a.txt").read_bytes() == b"all of it"


def test_what_was_interrupted_is_removed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")

    def stop() -> None:
        with writing(tmp_path / "a.txt", TEXT) as stream:
            stream.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop()
    assert names(tmp_path) == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old"


def test_a_full_disk_is_found_by_trying(tmp_path: Path) -> None:
    script = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (9999, 9999)); from pathlib import Path; "
    script += "from facthold._util.files import check_room; check_room(Path(sys.argv[1]))"
    environment = os.environ | {"PYTHONPATH": IMPORTED}
    done = subprocess.run([sys.executable, "-c", script, tmp_path], env=environment, capture_output=True, text=True)
    assert "File too large" in done.stderr
    assert names(tmp_path) == []
    check_room(tmp_path)
    assert names(tmp_path) == []

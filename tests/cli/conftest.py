"""The program in this process: its exit code, output and errors."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from facthold.cli.app import main


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FACTHOLD_STORE", raising=False)
    return tmp_path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr("facthold.cli.ending.leave", leave)
    monkeypatch.setenv("COLUMNS", "1000")  # tests are about words; how these are broken into lines is one of its own

    def run(*arguments: str, typed: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return run


@pytest.fixture
def refuses(run: Callable[..., tuple[int, str, str]]) -> Callable[..., str]:
    """The one line that the program says to bad input, beside lines on what it is doing."""

    def refuses(*arguments: str) -> str:
        code, out, err = run(*arguments)
        assert (code, out) == (2, "")
        lines = [line for line in err.splitlines() if line.startswith("facthold: ")]
        assert len(lines) == 1
        assert err.splitlines()[-1] == lines[0]
        assert "Traceback" not in err
        return lines[0]

    return refuses

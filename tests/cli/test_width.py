"""Everything that commands print is read on a terminal of 80 columns: no line is longer, and no name is broken."""

import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from facthold.cli.printing import show, working
from facthold.lab.registry import claims, figures
from facthold.recipes import recipes
from facthold.train.protocols import PROTOCOLS

Run = Callable[..., tuple[int, str, str]]
WIDTH = 80
TABLE = "subject,relation,answer\n" + "".join(
    f"Country {i},{relation},{relation} {i % 3}\n" for i in range(12) for relation in ("capital", "currency")
)
MODEL, STORE = "a.safetensors", "some/results.sqlite"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with facts, a model of them and a store."""
    import facthold as fh
    from facthold.lab.api import run_figure, verify

    folder = tmp_path_factory.mktemp("width")
    (folder / "facts.csv").write_text(TABLE)
    (folder / "some").mkdir()
    fh.build(folder / "facts.csv", recipe="gated").save(folder / MODEL)
    run_figure("fig6", "smoke", store=folder / STORE)
    verify("gradient-step", "layerwise", "margin-in-image", preset="smoke", store=folder / STORE)
    return folder


COMMANDS = (
    "--help", "list", "list --figure fig1", "results --store STORE", "results --store STORE --all",
    "results --store STORE --bound",
    "status --store STORE", "status --store STORE --all", "verify --stored --preset smoke --store STORE",
    "verify layerwise --stored --preset smoke --store STORE", "figure fig6 --preset smoke --plot-only --store STORE",
    "figure fig6 --dry-run --store STORE", "reproduce fig6 --preset smoke --store STORE -o out",
    "reproduce --dry-run --store STORE", "plan --subjects 1e6 --relations 20 --answers 100", "plan --facts facts.csv",
    "plan --laws", "plan --subjects 12 --relations 3 --answers 4", "facts --list", "ask MODEL 'Country 1' capital",
    "ask MODEL --file facts.csv -o answers.csv", "edit MODEL 'Country 1' capital 'capital 2' -o edited.safetensors",
    "locate MODEL 'Country 1' capital", "locate MODEL --all", "bits MODEL --bits 8", "bits MODEL --accuracy 0.5",
    "capacity -d 8 --seeds 2 --tolerance 0.2 --store STORE", "make --recipe layerwise -N 16 -d 8 -m 8",
    "make --recipe values -S 4 -R 4 -D 4 -d 16", "build facts.csv -o again.safetensors",
    "explore MODEL -o page.html", "explore --help",
    "watch facts.csv --steps 40", "induction facts.csv --built -d 48 -T 200",
    "induction facts.csv --built -d 48 -T 64 --random --all",
    "induction facts.csv --built -d 48 -T 64 --prompt 'Country 1,capital'",
    *(f"{command} --help" for command in ("figure", "verify", "reproduce", "plan", "capacity", "build")),
    "watch --help", "induction --help", "lm --help", "lm fetch --help", "lm ask --help", "lm knows --help",
    "lm ask 'The capital of France is' --model tiny", "lm knows --model tiny --shots 0 --store STORE",
)  # fmt: skip


def test_columns_stand_below_each_other_whatever_the_characters(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"after": after, "it says": "東京", "p": p} for after, p in (("😀", 1), ("a", 2), ("é", 3), ("山川", 4))]
    show("", ("after", "it says", "p"), rows)
    lines = capsys.readouterr().out.splitlines()
    assert {cell_len(line) for line in lines} == {len("after  it says  p")}


def words(line: str) -> list[str]:
    import shlex

    return [{"STORE": STORE, "MODEL": MODEL}.get(word, word) for word in shlex.split(line)]


@pytest.mark.parametrize("line", COMMANDS)
def test_no_line_is_longer_than_a_terminal(line: str, made: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made)
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    code, out, err = run(*words(line))
    assert code == 0, err
    assert not [text for text in (out + err).splitlines() if len(text) > WIDTH and not excepted(text)]


@pytest.mark.parametrize(
    "line", [line for line in COMMANDS if line.split()[0] in ("verify", "list", "plan", "results")]
)
def test_a_table_on_a_narrow_terminal_has_at_most_three_columns(
    line: str, made: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(made)
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    lines = run(*words(line))[1].splitlines()
    assert not [text for text in lines if len(re.split(r" {2,}", text.strip())) > 3]


def excepted(text: str) -> bool:
    """A path, an address or a command to paste may be longer than a line: broken in two it would be of no use."""
    return text.startswith(("redraw:  facthold", "more of one: facthold", "smallest: ")) or bool(
        re.fullmatch(r"\s*\S*[/=]\S*", text)
    )


def test_names_are_never_broken(made: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every figure, claim, recipe and protocol stands whole on a line of `list`; every claim on one of `verify`."""
    monkeypatch.chdir(made)
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    listed = run("list")[1].split()
    assert {*figures(), *claims(), *recipes(), *PROTOCOLS} <= set(listed)
    judged = run(*words("verify --stored --preset smoke --store STORE"))[1].split()
    assert set(claims()) <= set(judged)


def test_without_a_terminal_long_work_says_little(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """News twice a second for an hour are some lines, further and further apart."""
    clock = [0.0]
    monkeypatch.setattr("facthold.cli.printing.time.monotonic", lambda: clock[0])
    with working("building") as say:
        for i in range(7200):
            clock[0] += 0.5
            say(f"news {i}")
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["building", "  news 0"]
    assert 5 < len(lines) < 25


def test_on_a_terminal_progress_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    terminal = Console(file=shown, force_terminal=True, width=WIDTH)
    monkeypatch.setattr("facthold.cli.printing.messages", terminal)
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    with working("building 1952 facts") as say:
        say("a long line " * 20)
        terminal._live_stack[0].refresh()
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.getvalue())
    assert all(len(line) <= WIDTH for line in re.split(r"[\r\n]+", plain))
    assert "a long line" in plain

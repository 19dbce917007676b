"""facthold induction and watch --induction: what they say of a text, and texts and numbers that cannot be."""

import csv
import io
import json
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.cells import cell_len
from rich.console import Console

import facthold as fh
import facthold.cli.watch_probes
from facthold.cli.ending import interrupted
from facthold.cli.induction_view import _some, named, visible
from facthold.cli.watch_probes import TITLES, ProbesView, watch_induction
from facthold.context.bigrams import MOST_CHARACTERS
from facthold.knowledge.induction import Induction, Look, Prediction
from facthold.knowledge.probing import Probing
from facthold.knowledge.settings import PROBES, Settings

Run = Callable[..., tuple[int, str, str]]
TEXT = "the cat sat on the mat,\nand then it ate the hat that sat on the cat\n" * 20
SMALL = ("-K", "2", "-T", "24", "-d", "192", "--built")
LITTLE = Settings(K=2, T=16, d=16, steps=20, batch=4)
SIZES = [
    (["-K", "14"], "-K 14 triggers leave none of the 14 characters to stand between them"),
    (["-K", "0"], "-K 0 must be at least 1"),
    (["-T", "3"], "-T 3: a trigger, its output and both again take 4 tokens"),
    (["-T", "1000000"], "lower -T 1000000"),
    (["-d", "10000000"], "lower -d 10000000"),
]
"""Sizes that no induction head has, and what is said of them."""


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of a text, made once: most is asked of it."""
    folder = tmp_path_factory.mktemp("head")
    (folder / "cats.txt").write_text(TEXT)
    made = fh.induction(folder / "cats.txt", K=2, T=48, d=192, built=True)
    return made.save(folder / "head.safetensors")


@pytest.fixture
def cats(folder: Path) -> str:
    (folder / "cats.txt").write_text(TEXT)
    return "cats.txt"


@pytest.mark.parametrize("asked", ["ask {}", "bits {} --bits 8", "locate {} --all", "edit {} a b c -o new"])
def test_a_model_of_a_text_that_is_asked_for_facts_says_how_to_ask_it(
    asked: str, head: Path, folder: Path, run: Run, refuses: Callable[..., str]
) -> None:
    (folder / "my head").write_bytes(head.read_bytes())
    line = refuses(*("my head" if word == "{}" else word for word in asked.split()))
    said, _, hint = line.partition("; ask it with: facthold ")
    assert said == "facthold: my head is a model of a text and knows no facts"
    assert hint == "induction --model 'my head'"
    assert run(*shlex.split(hint))[0] == 0


def test_a_text_is_learnt_asked_saved_and_asked_again(cats: str, folder: Path, run: Run) -> None:
    code, out, err = run("induction", cats, *SMALL, "-o", "head.safetensors", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert (found["N"], found["K"], found["T"], found["d"], found["built"]) == (14, 2, 24, 192, True)
    assert (found["characters"], len(found["triggers"])) == (len(TEXT), 2)
    assert 0.95 < found["accuracy"] <= 1
    assert found["accuracy"] - 4 * found["accuracy_error"] > found["baselines"]["mode"] > found["baselines"]["bigram"]
    assert found["probes"] == dict.fromkeys(PROBES, 1.0)
    assert "".join(p["token"] for p in found["predictions"]) == found["sequence"]
    code, out, err = run("induction", "--model", "head.safetensors", "--json")
    assert code == 0, err
    again = json.loads(out)
    assert again["predictions"] == found["predictions"]
    assert {name: again[name] for name in ("accuracy", "baselines", "judged")} == {
        name: found[name] for name in ("accuracy", "baselines", "judged")
    }


def test_it_says_where_each_head_looks_in_the_words_of_its_predictions(head: Path, run: Run) -> None:
    code, out, _ = run("induction", "--model", str(head), "--all", "--seed", "2")
    assert code == 0
    made = Induction.load(head)
    told = [p for p in made.predict(*made.draw(2)) if p.told and p.next is not None]
    lines = out.splitlines()
    title = lines.index(f"{len(told)} of {len(told)} outputs that the context tells")
    for p, line in zip(told, lines[title + 3 :], strict=False):
        cells = line.split()
        assert cells[:3] == [str(p.at), named(p.token), named(p.predicted)]
        assert cells[-6:-3] == [str(p.copies.to), named(p.copies.token), f"({p.copies.weight:.2f})"]
        assert cells[-3:] == [str(p.finds.to), named(p.finds.token), f"({p.finds.weight:.2f})"]
    n = sum(p.by_induction for p in told)
    assert f"in {n} of {len(told)} layer 2 looks at a character that stands after the same trigger" in out
    for share in (made.accuracy, *made.baselines.values()):
        assert f"{share:.1%}" in out


def test_triggers_and_outputs_are_marked_below_the_sequence(
    head: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "30")  # several lines
    made = Induction.load(head)
    text, triggers = made.draw(0)
    _, out, _ = run("induction", "--model", str(head), "--seed", "0")
    lines = out.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("  0  "))
    shown, marks, at = "", "", 0
    while len(shown) < len(text):
        line, below = lines[first][5:], lines[first + 1][5:]
        assert lines[first][:5] == f"{at:>3}  "
        shown, marks, first, at = shown + line, marks + below.ljust(len(line)), first + 2, at + len(line)
    assert shown == "".join(map(visible, text))
    seen: set[str] = set()
    for t, (character, mark) in enumerate(zip(text, marks, strict=True)):
        before = text[t - 1] if t else ""
        if before and before in triggers:
            assert mark in ("+x" if before in seen else "o")
            seen.add(before)
        else:
            assert mark == ("^" if character in triggers else " ")


def test_wrong_ones_and_the_first_of_each_trigger_are_shown_before_others() -> None:
    def one(at: int, token: str, says: str) -> Prediction:
        look = Look(at, 0, token, 1.0)
        return Prediction(at, token, says, 0.5, "a", ("a",), look, look)

    told = [one(at, "t" if at < 40 else "e", "b" if at in (30, 33) else "a") for at in range(10, 50)]
    assert [p.at for p in _some(told)] == [10, 11, 12, 13, 14, 30, 33, 40]
    assert len([p for p in _some([one(at, "t", "b") for at in range(20)]) if p.at < 8]) == 8


def test_few_are_shown_unless_all_are_asked_for(head: Path, run: Run) -> None:
    _, out, _ = run("induction", "--model", str(head), "--prompt", "t t t t t t t t t t t t t t")
    assert "8 of 25 outputs that the context tells (--all shows the others)" in out


def test_a_text_of_ones_own_goes_on_after_its_end(head: Path, run: Run) -> None:
    _, out, _ = run("induction", "--model", str(head), "--prompt", "tattahat")
    said = Induction.load(head).predict("tattahat")[-1]
    assert f"after its last character it says {named(said.predicted)} (p = {said.probability:.2f})" in out
    assert f"layer 2 looks at {said.copies.to} {named(said.copies.token)}" in out
    _, out, _ = run("induction", "--model", str(head), "--prompt", "cm")
    assert "no trigger occurs a second time, so that the context tells nothing" in out


def test_training_by_the_command_line(cats: str, folder: Path, run: Run) -> None:
    code, out, err = run("induction", cats, "-K", "1", "-T", "8", "-d", "8", "--steps", "7", "--batch", "2", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert (found["steps"], found["batch"], found["lr"], found["curves"]["steps"]) == (10, 2, 0.03, [0, 5, 10])
    assert "training 10 steps" in err
    assert [path.name for path in folder.iterdir()] == [cats]


ODD = {
    "one.txt": (b"aaaaaa", "one.txt has one character only, 'a'; a bigram model needs a text with at least two"),
    "empty.txt": (b"", "empty.txt is empty; a bigram model needs a text"),
    "latin1.txt": ("un café noir".encode("latin1"), "latin1.txt, line 1: not text in UTF-8 (byte 0xe9)"),
    "binary.txt": (bytes(range(256)), "binary.txt, line 1: a NUL byte, so this is no text"),
    "utf16.txt": ("a text".encode("utf-16"), "utf16.txt is text in UTF-16"),
    "packed.txt.gz": (b"not packed", "packed.txt.gz is not gzip that can be unpacked"),
    "many.txt": (
        "".join(chr(0x4E00 + i) for i in range(5000)).encode(),
        f"many.txt has more than {MOST_CHARACTERS} different characters",
    ),
}  # fmt: skip


@pytest.mark.parametrize("command", [("induction",), ("watch", "--induction")])
@pytest.mark.parametrize("name", ODD)
def test_a_text_that_cannot_be_is_one_line_and_nothing_is_written(
    name: str, command: tuple[str, ...], folder: Path, refuses: Callable[..., str]
) -> None:
    contents, says = ODD[name]
    (folder / name).write_bytes(contents)
    assert says in refuses(*command, name, "-o", "new")
    assert [path.name for path in folder.iterdir()] == [name]


@pytest.mark.parametrize("command", [("induction",), ("watch", "--induction")])
def test_no_text_and_a_folder_are_one_line(command: tuple[str, ...], folder: Path, refuses: Callable[..., str]) -> None:
    assert "no such file: gone.txt" in refuses(*command, "gone.txt")
    (folder / "some").mkdir()
    assert "some is a folder; give a text" in refuses(*command, "some")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        *SIZES,
        (["--batch", "1000000000"], "lower --batch 1000000000"),
        (["--steps", "0"], "--steps 0 must be at least 1"),
        (["--steps", "10000000"], "--steps 10000000 must be at most 1000000"),
        (["--steps", "1000000", "--batch", "20000", "-d", "512"], "days here, or more; lower --steps"),
        (["--steps", "1.5"], "--steps': Input should be a valid integer"),
        (["--lr", "nan"], "--lr nan must be a finite number"),
        (["--lr", "-1"], "--lr -1.0 must be at least 1e-12 and at most 1e+06"),
        (["--triggers", "aé"], "'é' is not among the 14 characters of the text; take some of those"),
        (["--triggers", "aa"], "must be different characters"),
        (["--triggers", ""], "must be different characters"),
        (["--triggers", "a", "-K", "2"], "-K 2 is not the number of --triggers a; leave out one of the two"),
        (["--triggers", "a", "--random"], "take one of the two"),
        (["--built", "--steps", "5"], "--steps 5 is about training, and does not go with --built"),
        (["--built", "--lr", "1"], "--lr 1.0 is about training, and does not go with --built"),
        (["--model", "head.safetensors"], "does not go with --model head.safetensors: it is made already"),
        (["--prompt", "né"], "'é' in 'né' is not among the 14 characters"),
        (["--prompt", "t" * 257], "the model takes 1 to 256"),
        (["-o", "cats.txt"], "itself, which would be lost"),
        (["-o", "no/such"], "there is no folder no"),
        (["-o", "."], "is a folder"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_code_2(
    arguments: list[str], says: str, cats: str, folder: Path, refuses: Callable[..., str]
) -> None:
    assert says in refuses("induction", cats, *arguments)
    assert [path.name for path in folder.iterdir()] == [cats]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--prompt", "caté"], "'é' in 'caté' is not among the 14 characters that the model knows"),
        (["--prompt", "t" * 49], "a sequence of 49 characters cannot be asked; the model takes 1 to 48"),
        (["--prompt", ""], "a sequence of 0 characters cannot be asked"),
        (["--built"], "--built does not go with --model"),
        (["-d", "8"], "-d 8 does not go with --model"),
        (["-o", "copy.safetensors"], "--output copy.safetensors does not go with --model"),
    ],
)
def test_what_a_model_cannot_be_asked(
    arguments: list[str], says: str, head: Path, folder: Path, refuses: Callable[..., str]
) -> None:
    assert says in refuses("induction", "--model", str(head), *arguments)
    assert not list(folder.iterdir())


def test_a_text_that_is_shorter_than_a_sequence_gives_sequences_of_its_bigrams(folder: Path, run: Run) -> None:
    (folder / "short.txt").write_text("abcab")
    code, out, err = run("induction", "short.txt", "-T", "32", "-d", "64", "--built", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert (found["N"], found["K"], found["characters"], len(found["sequence"])) == (3, 2, 5, 32)


def test_no_line_is_wider_than_a_terminal_whatever_the_characters(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wide ones, combining ones, those that cannot be seen, and those that would move the cursor."""
    (folder / "odd.txt").write_text("日本語\tテキスト e\u0301\u200b\x1b[2J\u202e\r\n" * 30)
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = run("induction", "odd.txt", "-T", "96", "-d", "64", "--built", "--all")
    assert code == 0, err
    assert max(map(cell_len, out.splitlines())) <= 80
    assert not set(out) & {"\u0301", "\u200b", "\x1b", "\u202e", "\r", "\t"}
    assert "日" in out


def test_characters_that_cannot_be_seen_have_names() -> None:
    assert [visible(c) for c in " \n\ta日"] == ["␣", "↵", "⇥", "a", "日"]
    assert [named(c) for c in "\u0301\x1b\u200b"] == ["U+0301", "U+001B", "U+200B"]


# --- watch --induction


def watched(folder: Path, capsys: pytest.CaptureFixture[str], json: bool = False) -> str:
    (folder / "cats.txt").write_text(TEXT)
    watch_induction(folder / "cats.txt", LITTLE, folder / "run", json)
    return capsys.readouterr().out


@pytest.fixture
def few_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("facthold.studies.learning.animation.FRAMES", 4)
    monkeypatch.setattr("facthold.studies.learning.animation.AT_END", 1)


@pytest.mark.slow
@pytest.mark.usefixtures("few_frames")
def test_a_run_is_a_line_for_each_stage_a_table_and_pictures(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = watched(folder, capsys)
    assert max(map(len, out.splitlines())) <= 80 + len(str(folder))  # a path is not broken
    whole = " ".join(out.split())
    assert "two layers of attention with d=16 on sequences of T=16; Adam with lr 0.03, 20 steps of 4 sequences" in whole
    assert "right: start, all memories are random (W_OV^2 0." in whole
    assert "outputs in fresh sequences, after 20 steps in" in whole
    looks = list(csv.DictReader((folder / "run.csv").open()))
    assert [look["step"] for look in looks] == ["0", "5", "10", "15", "20"]
    for name in PROBES:
        final = float(looks[-1][name])
        half = next(look["step"] for look in looks if float(look[name]) >= final / 2)
        when = "not learnt" if float(half) == 0 else f"half of that at step {half}"
        assert f"{name} {final:.2f}, {when}" in whole
        passed = any(float(look[name]) >= 0.5 for look in looks)
        assert (f"{TITLES[name]}: half of its associations are held" in whole) == passed
    with Image.open(folder / "run.gif") as gif:
        assert gif.n_frames > 1  # type: ignore[attr-defined]


@pytest.mark.usefixtures("few_frames")
def test_json_has_the_curves_and_the_stages(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(watched(folder, capsys, json=True))
    assert found["stages"]["start"] == 0
    assert found["curves"]["steps"] == [0, 5, 10, 15, 20]
    for name, step in found["stages"].items():
        if name in PROBES:
            curve = found["curves"][name]
            assert step == found["curves"]["steps"][int((np.array(curve) >= 0.5).argmax())]
    assert 0 <= found["accuracy"] <= 1


@pytest.mark.usefixtures("few_frames")
def test_ctrl_c_keeps_what_was_seen(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = facthold.cli.watch_probes.stage_line

    def stop(probing: Probing, stage: str) -> str:
        if len(probing.steps) > 1:
            interrupted.set()
        return line(probing, stage)

    def add(self: Probing, steps: int, seen: dict) -> list[str]:
        return ["start"] if added(self, steps, seen) or steps else []

    added = Probing.add
    monkeypatch.setattr(Probing, "add", add)
    monkeypatch.setattr(facthold.cli.watch_probes, "stage_line", stop)
    try:
        with pytest.raises(KeyboardInterrupt):
            watched(folder, capsys)
    finally:
        interrupted.clear()
    assert "kept what was seen up to step" in capsys.readouterr().err
    assert 1 < len(list(csv.DictReader((folder / "run.csv").open()))) < 5
    assert (folder / "run.gif").exists()


def test_a_head_that_is_watched_has_the_sizes_that_are_asked_for(cats: str, run: Run) -> None:
    sizes = ("-K", "1", "-T", "8", "-d", "8", "--steps", "5")
    code, out, err = run("watch", "--induction", cats, *sizes, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert (found["K"], found["T"], found["d"], found["steps"]) == (1, 8, 8, 5)
    _, learnt, _ = run("induction", cats, *sizes, "--json")
    assert found["curves"] == json.loads(learnt)["curves"]  # it is the model that `induction` learns


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        *SIZES,
        (["-d", "1.5"], "-d': Input should be a valid integer"),
        (["--steps", "1000000", "-d", "2048"], "days here, or more; lower --steps, -T or -d"),
    ],
)
def test_sizes_that_cannot_be_watched_are_one_line(
    arguments: list[str], says: str, cats: str, folder: Path, refuses: Callable[..., str]
) -> None:
    assert says in refuses("watch", "--induction", cats, *arguments, "-o", "run")
    assert [path.name for path in folder.iterdir()] == [cats]


def test_sizes_of_a_head_do_not_go_with_facts(refuses: Callable[..., str]) -> None:
    for option in ("-K", "-T", "-d"):
        line = refuses("watch", "countries", option, "3")
        assert f"{option} 3 does not go with facts: it is a size of an induction head; give --induction too" in line


def test_options_about_facts_do_not_go_with_it(refuses: Callable[..., str]) -> None:
    for option, value in (("--alpha", "0.1"), ("--relations", "a,b"), ("--question", "a"), ("--optimiser", "adam")):
        assert f"{option} " in (line := refuses("watch", "--induction", option, value))
        assert "does not go with --induction" in line
    line = refuses("watch", "--induction", "--question", "France, capital", "--question", "Peru, capital")
    assert line == "facthold: --question France, capital does not go with --induction"
    assert "--steps 0 must be at least 1" in refuses("watch", "--induction", "--steps", "0")


def test_the_live_view_fits_a_terminal_and_has_a_curve_for_each_probe() -> None:
    probing = Probing(Settings(steps=600), {"bigram": 0.01, "mode": 0.52, "counts": 0.75})
    for i in range(61):
        grown = min(1.0, i / 40)
        look = {"accuracy": grown, "W_OV^2": min(1.0, i / 10), "W_KQ^2": min(1.0, i / 20), "W_KQ^1": grown / 3}
        probing.add(10 * i, look)
    for n in (0, 1, 5, 61):
        view = ProbesView(probing, "cats.txt")
        view.n = n
        console = Console(file=io.StringIO(), width=80, height=24)
        console.print(view.draw())
        drawn = console.file.getvalue()  # type: ignore[attr-defined]
        assert len(drawn.splitlines()) < 24
        assert max(map(len, drawn.splitlines())) <= 80
    for part in ("1.00 W_OV^2", "1.00 W_KQ^2", "0.33 W_KQ^1", "step 600 of 600", "0.52", "0.75", "by the counts"):
        assert part in drawn
    panels = drawn.split("W_KQ^2")  # each curve is drawn
    assert all(any(0x2800 < ord(c) < 0x2900 for c in panel) for panel in panels)

"""facthold lm: on the tiny model, and without any."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from facthold.lab.api import results
from facthold.lab.registry import claims, figures
from facthold.lm import fetch as fetching
from gguf_files import planted, random_weights, write

Run = Callable[..., tuple[int, str, str]]
NEEDS = "is not on this machine: run facthold lm fetch, or give --model FILE"


@pytest.fixture(autouse=True)
def no_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(fetching.FOLDER_VARIABLE, str(tmp_path / "models"))


def test_asking_gives_tokens_with_probabilities(folder: Path, run: Run) -> None:
    code, out, _ = run("lm", "ask", "The capital of France is", "--model", "tiny", "--top", "3")
    assert code == 0
    prompt, first, *rest = out.splitlines()
    assert prompt == "The capital of France is"
    assert float(first.split()[0].rstrip("%")) > 95
    assert first.endswith("   Paris")
    assert len(rest) == 2
    (folder / "prompts.txt").write_text("The capital of Peru is\n\nThe currency of Japan is the\n")
    code, out, _ = run("lm", "ask", "--file", "prompts.txt", "--model", "tiny", "--json")
    found = json.loads(out)
    assert [one["prompt"] for one in found] == ["The capital of Peru is", "The currency of Japan is the"]
    assert found[1]["next"][0]["token"] == " Yen"
    assert all(0 <= n["probability"] <= 1 for one in found for n in one["next"])
    assert [len(one["next"]) for one in found] == [5, 5]


def test_a_file_of_ones_own_is_asked(folder: Path, run: Run) -> None:
    write(folder / "mine.gguf", random_weights(), "Q8_0")
    assert run("lm", "ask", "France", "--model", "mine.gguf")[0] == 0
    code, out, _ = run("lm", "ask", "France", "--model", "mine.gguf", "--json")
    assert (code, len(json.loads(out)[0]["next"])) == (0, 5)


def test_what_it_knows_is_a_table_and_json(folder: Path, run: Run) -> None:
    code, out, _ = run("lm", "knows", "--model", "tiny", "--shots", "0", "--store", "s.sqlite")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[2:6]] == ["capital", "currency", "language", "region"]
    assert "left out: 0 facts whose first token another answer has too, and 3" in " ".join(out.split())
    code, out, _ = run("lm", "knows", "--model", "tiny", "--shots", "0", "--store", "s.sqlite", "--json")
    assert [row["judged"] for row in json.loads(out)] == [16, 16, 13, 16]


def test_a_margin_is_taken_apart(folder: Path, run: Run) -> None:
    prompt = "The capital of France is"
    code, out, _ = run("lm", "locate", prompt, "--answer", "Paris", "--model", "tiny", "--top", "2")
    assert code == 0
    assert out.startswith("The capital of France is: Paris by a margin of")
    assert "layer 1 head 0" in out
    assert "its mean over 15 other prompts of capital" in " ".join(out.split())
    code, out, _ = run("lm", "locate", prompt, "--answer", "Paris", "--model", "tiny", "--against", "answers", "--json")
    found = json.loads(out)
    total = found["embedding"] + sum(part["contribution"] for part in found["parts"])
    assert total == pytest.approx(found["margin"], rel=1e-5)
    assert found["rival"] == "the mean of the relation's answers"
    options = ("--answer", "Paris", "--against", "Rome", "--layer", "1", "--model", "tiny")
    code, out, _ = run("lm", "locate", "In the city of", *options)
    assert code == 0
    assert "replaced by zero" in out
    assert "layer 0" not in out


def test_wrong_calls_are_a_line(folder: Path, refuses: Callable[..., str]) -> None:
    (folder / "none.txt").write_text("\n")
    (folder / "bad.gguf").write_text("subject,relation\n")
    for arguments, says in (
        (("ask",), "give one or more prompts"),
        (("ask", "a", "--file", "none.txt"), "take one of prompts and --file"),
        (("ask", "--file", "none.txt", "--model", "tiny"), "has no prompts in it"),
        (("ask", "--file", "nowhere.txt", "--model", "tiny"), "no such file: nowhere.txt"),
        (("ask", "--file", ".", "--model", "tiny"), ". is a folder; give a file of prompts"),
        (("ask", " ", "--model", "tiny"), "the prompt is empty"),
        (("ask", "a " * 600, "--model", "tiny"), "and the model reads at most 512; shorten it"),
        (("ask", "a", "--top", "0", "--model", "tiny"), "--top 0 must be"),
        (("ask", "a", "--top", "100000", "--model", "tiny"), "--top 100000 must be from 1 to"),
        (("ask", "a", "--model", "bad.gguf"), "is not a GGUF file"),
        (("ask", "a", "--model", "no.gguf"), "--model no.gguf: there is no such file"),
        (("knows", "--model", "tiny", "--shots", "60"), "--shots 60: there are 15 other facts"),
        (("knows", "--model", "tiny", "--shots", "-1"), "--shots -1 must be at least 0"),
        (("locate", "a", "--model", "tiny"), "give the --answer whose margin"),
        (("locate", " ", "--answer", "Paris", "--model", "tiny"), "the prompt is empty"),
        (("locate", "a", "--answer", " ", "--model", "tiny"), "--answer is empty; give a word"),
        (("locate", "a", "--answer", "Xanadu", "--model", "tiny"), "--answer Xanadu is not one token of the model"),
        (("locate", "a", "--answer", "Paris", "--layer", "3", "--model", "tiny"), "--layer 3 must be from 0 to 2"),
        (("locate", "a", "--answer", "Paris", "--relation", "kapital", "--model", "tiny"), "unknown relation"),
        (("locate", "a", "--answer", "Paris", "--against", "answers", "--model", "tiny"), "needs a relation"),
        (("locate", "a", "--answer", "Paris", "--against", "Paris", "--model", "tiny"), "is the answer itself"),
        (("locate", "a", "--answer", "Paris", "--against", "Xanadu", "--model", "tiny"), "--against Xanadu is not one"),
        (("locate", "a", "--answer", "Paris", "--top", "0", "--model", "tiny"), "--top 0 must be"),
        (("asks", "a"), "unknown command of lm 'asks'; did you mean 'ask'?"),
    ):
        assert says in refuses("lm", *arguments), arguments


def test_what_is_wrong_is_said_before_a_file_is_read(
    folder: Path, refuses: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights take seconds, the header that tells sizes and words half a second."""
    write(folder / "mine.gguf", random_weights(), "Q8_0")
    (folder / "facts.csv").write_text("subject,relation,answer\nFrance,capital,Rome\n")
    (folder / "long.txt").write_text(2 * ("France " * 70 + "\n"))
    monkeypatch.setattr("facthold.lm.library.read_model", lambda path: pytest.fail("the weights were read"))
    france, new, layer = "The capital of France is", ("-o", "new.safetensors"), ("--layer", "2")
    for arguments, says in (
        (("ask", "a", "--top", "100000"), "--top 100000 must be from 1 to"),
        (("ask", "--file", "long.txt"), "none of the 2 prompts can be asked; prompt 1 is left out: the prompt has"),
        (("ask", "a", "--taught", "no.safetensors"), "no such file of taught facts"),
        (("locate", france, "--answer", "Paris", *layer), "--layer 2 must be from 0 to 1"),
        (("locate", france, "--answer", "Xanadu"), "is not one token of the model"),
        (("locate", "a", "--answer", "Paris", "--against", "best-answer"), "needs a relation"),
        (("truncate", france, *layer), "--layer 2 must be from 0 to 1"),
        (("truncate", france, "--rank", "65"), "--rank 65 must be from 0 to 64"),
        (("edit", france, "--answer", "Rome", *new, *layer), "--layer 2 must be from 0 to 1"),
        (("edit", france, "--answer", "Rome", *new, "--covariance", "no"), "unknown covariance 'no'"),
        (("edit", france, "--answer", "Rome", *new, "--subject", "Peru"), "is not in the prompt"),
        (("teach", "facts.csv", *new, *layer), "--layer 2 must be from 0 to 1"),
    ):
        assert says in refuses("lm", *arguments, "--model", "mine.gguf"), arguments


def test_a_prompt_that_is_too_long_is_named_and_the_others_are_asked(folder: Path, run: Run) -> None:
    (folder / "prompts.txt").write_text(f"The capital of France is\n{'a ' * 600}\nThe capital of Japan is\n")
    code, out, err = run("lm", "ask", "--file", "prompts.txt", "--model", "tiny", "--json")
    assert (code, [one["next"][0]["token"].strip() for one in json.loads(out)]) == (0, ["Paris", "Tokyo"])
    assert "prompt 2 is left out: the prompt has" in err


def test_a_file_may_begin_with_a_byte_order_mark(folder: Path, run: Run) -> None:
    (folder / "prompts.txt").write_text("The capital of Peru is\n", encoding="utf-8-sig")
    code, out, _ = run("lm", "ask", "--file", "prompts.txt", "--model", "tiny", "--json")
    assert (code, json.loads(out)[0]["prompt"]) == (0, "The capital of Peru is")
    (folder / "c.toml").write_text("[lm-knows]\nshots = 0\n", encoding="utf-8-sig")
    assert (
        run("figure", "lm-knows", "--preset", "smoke", "--config", "c.toml", "--dry-run", "--store", "s.sqlite")[0] == 0
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in figures() if name.startswith("lm-")])
def test_every_figure_and_its_claims_are_about_a_file_of_ones_own(name: str, folder: Path, run: Run) -> None:
    sha = fetching.sha256_of(planted(folder / "mine.gguf"))
    own = ("--preset", "smoke", "--model", "mine.gguf", "--store", "s.sqlite")
    code, out, err = run("reproduce", name, *own, "-o", "o")
    assert code == 0, err
    assert (folder / "o" / "report.html").exists()
    assert {row.spec["model"] for row in results(store="s.sqlite") if row.kind.startswith("lm-")} == {sha}
    for id in claims():
        if id.startswith("lm-") and f"{id} " in out:
            assert run("verify", id, *own, "--stored")[0] == 0


@pytest.mark.parametrize("name", ["lm-where", "lm-edits", "lm-truncation"])
def test_a_model_that_knows_nothing_says_so(name: str, folder: Path, refuses: Callable[..., str]) -> None:
    write(folder / "mine.gguf", random_weights(), "Q8_0")
    says = refuses("figure", name, "--preset", "smoke", "--model", "mine.gguf", "--store", "s.sqlite")
    assert "knows 0 " in says
    assert "take another --model" in says


def test_layers_that_a_file_does_not_have_are_said_by_a_dry_run(
    folder: Path, run: Run, refuses: Callable[..., str]
) -> None:
    """Presets name layers by shares of the depth: they are there in any model."""
    planted(folder / "mine.gguf")
    figure = ("figure", "lm-edits", "--dry-run", "--store", "s.sqlite")
    for preset in ("smoke", "quick", "paper"):
        code, out, _ = run(*figure, "--preset", preset, "--model", "mine.gguf")
        assert code == 0
        assert all(int(line.split("layer=")[1].split()[0]) < 3 for line in out.splitlines() if "layer=" in line)
    (folder / "c.toml").write_text('[lm-edits]\nmodel = "mine.gguf"\nlayers = [3]\n')
    assert "layers=3 must be from 0 to 2: the model has 3 layers" in refuses(*figure, "--config", "c.toml")
    assert "--model goes with a figure whose name begins with lm-" in refuses("figure", "fig1", "--model", "mine.gguf")
    assert "--model goes with a claim whose name begins with lm-" in refuses("verify", "--model", "mine.gguf")


def test_without_the_model_nothing_is_downloaded_and_all_say_how_to_get_it(
    folder: Path, run: Run, refuses: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching.subprocess, "run", lambda *a, **o: pytest.fail("a download was begun"))
    assert NEEDS in refuses("lm", "ask", "The capital of France is")
    assert NEEDS in refuses("lm", "knows")
    assert NEEDS in refuses("figure", "lm-knows", "--store", "s.sqlite")
    assert not (folder / "s.sqlite").exists()
    assert run("figure", "lm-knows", "--dry-run", "--store", "s.sqlite")[0] == 0
    code, _, err = run("reproduce", "--dry-run", "--store", "s.sqlite")
    assert code == 0
    assert "lm-knows is left out: the language model" in err


def test_missing_packages_are_named(refuses: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("facthold.lm.find_spec", lambda name: None)
    needs = "language models need gguf and tokenizers: pip install 'facthold[lm]'"
    assert needs in refuses("lm", "ask", "a", "--model", "tiny")
    assert needs in refuses("figure", "lm-knows", "--preset", "smoke", "--store", "s.sqlite")

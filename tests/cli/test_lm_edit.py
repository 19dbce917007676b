"""facthold lm truncate and lm edit: on the tiny model."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from facthold.lm import fetch as fetching

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def no_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(fetching.FOLDER_VARIABLE, str(tmp_path / "models"))


def test_truncation_shows_the_whole_model_beside_each_layer_that_is_cut(run: Run) -> None:
    code, out, _ = run("lm", "truncate", "The capital of France is", "--model", "tiny", "--matrix", "attention")
    assert code == 0
    lines = out.splitlines()[-4:]
    assert [line.split()[0] for line in lines] == ["none", "0", "1", "2"]
    assert "Paris" in lines[0]
    code, out, _ = run("lm", "truncate", "The capital of France is", "--model", "tiny", "--layer", "1", "--matrix",
                       "attention", "--json")  # fmt: skip
    found = json.loads(out)
    assert found["whole"]["next"][0]["token"] == " Paris"
    assert [cut["layer"] for cut in found["cuts"]] == [1]
    assert found["cuts"][0]["next"][0]["token"] != " Paris"


def test_wrong_cuts_are_a_line(refuses: Callable[..., str]) -> None:
    for arguments, says in (
        (("a", "--matrix", "W_X"), "unknown matrix 'W_X'"),
        (("a", "--layer", "3"), "--layer 3 must be from 0 to 2"),
        (("a", "--layer", "-1"), "--layer -1 must be from 0 to 2"),
        (("a", "--rank", "129"), "--rank 129 must be from 0 to 96, the full rank of mlp"),
        (("a", "--rank", "-1"), "--rank -1 must be"),
        (("a", "--top", "0"), "--top 0 must be"),
        ((" ",), "the prompt is empty"),
    ):
        assert says in refuses("lm", "truncate", *arguments, "--model", "tiny"), arguments


FRANCE = ("lm", "edit", "The capital of France is", "--answer", "Rome", "--model", "tiny")
SAYS = ("--model", "tiny", "--json")


def first(out: str) -> str:
    return json.loads(out)[0]["next"][0]["token"].strip()


def test_an_edit_is_written_asked_chained_and_undone(folder: Path, run: Run) -> None:
    code, out, _ = run(*FRANCE, "--layer", "0", "-o", "one.safetensors", "--json")
    assert code == 0
    about = json.loads(out)
    assert (about["said"], about["before"], about["layer"], about["edits"]) == ("Rome", "Paris", 0, 1)
    assert 0 <= about["kept"] <= about["asked"]
    code, _, _ = run("lm", "edit", "The capital of Japan is", "--answer", "Berlin", "--layer", "0", "--edits",
                     "one.safetensors", "-o", "two.safetensors", "--model", "tiny")  # fmt: skip
    assert code == 0
    asked = {}
    for file in ("one", "two"):
        for country in ("France", "Japan"):
            prompt = f"The capital of {country} is"
            asked[file, country] = first(run("lm", "ask", prompt, "--edits", f"{file}.safetensors", *SAYS)[1])
    assert asked == {("one", "France"): "Rome", ("one", "Japan"): "Tokyo", ("two", "France"): "Rome",
                     ("two", "Japan"): "Berlin"}  # fmt: skip
    assert first(run("lm", "ask", "The capital of France is", *SAYS)[1]) == "Paris"  # left out: undone


def test_wrong_edits_are_a_line_and_write_nothing(folder: Path, refuses: Callable[..., str]) -> None:
    (folder / "text.safetensors").write_text("something else")
    for arguments, says in (
        (("--layer", "3"), "--layer 3 must be from 0 to 2"),
        (("--subject", "Spain"), "--subject Spain is not in the prompt"),
        (("--covariance", "none"), "unknown covariance 'none'"),
        (("--value", "none"), "unknown value 'none'"),
        (("--answer", " "), "--answer '' is empty; give one"),
        (("--answer", "Paris"), "goes on with 'Paris' already: there is nothing to edit"),
        (("--answer", "Xanadu"), "did not take|still goes on|begins with the token"),
        (("--edits", "no.safetensors"), "no such file of edits: no.safetensors"),
        (("--edits", "text.safetensors"), "is not a facthold model"),
        (("--edits", "text.safetensors", "-o", "text.safetensors"), "is the input text.safetensors itself"),
        (("-o", "text.csv"), "give a name that ends in .safetensors"),
        (("-o", "no/where.safetensors"), "there is no folder no"),
    ):
        said = refuses(*FRANCE, "-o", "new.safetensors", *arguments)
        assert any(part in said for part in says.split("|")), (arguments, said)
    prompt = ("lm", "edit", "Nobody is here", "--answer", "Rome", "-o", "new.safetensors", "--model", "tiny")
    assert "no known subject is in the prompt" in refuses(*prompt)
    assert [path.name for path in folder.iterdir() if path.suffix] == ["text.safetensors"]


def test_an_edit_that_undoes_an_earlier_one_is_refused_and_said(folder: Path, run: Run) -> None:
    first_edit = ("lm", "edit", "The capital of France is", "--answer", "Madrid", "-o", "a.safetensors")
    assert run(*first_edit, "--model", "tiny")[0] == 0
    second = ("lm", "edit", "The capital of Italy is", "--answer", "Tokyo", "--value", "closed", "--covariance",
              "identity", "--edits", "a.safetensors", "-o", "b.safetensors", "--model", "tiny")  # fmt: skip
    code, _, err = run(*second)
    assert (code, Path("b.safetensors").exists()) == (2, False)
    assert "would undo 1 earlier one: The capital of France is; nothing was written" in " ".join(err.split())
    code, out, _ = run(*second, "--force")
    assert code == 0
    assert "no longer said, of earlier edits: The capital of France is" in " ".join(out.split())


def test_an_edit_that_did_not_take_says_so_where_it_is_forced(folder: Path, run: Run) -> None:
    code, out, _ = run(*FRANCE, "--layer", "2", "--force", "-o", "f.safetensors")
    assert code == 0
    assert "Rome did not take" in out

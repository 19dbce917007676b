"""facthold lm truncate: on the tiny model."""

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

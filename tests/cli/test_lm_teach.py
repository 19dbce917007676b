"""facthold lm teach: on the tiny model."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from facthold.lm import fetch as fetching

Run = Callable[..., tuple[int, str, str]]
FACTS = "subject,relation,answer\nFrance,capital,Rome\nSpain,capital,Lima\nJapan,capital,Cairo\nPeru,capital,Delhi\n"
TINY = ("--model", "tiny")


@pytest.fixture(autouse=True)
def no_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(fetching.FOLDER_VARIABLE, str(tmp_path / "models"))


def first(out: str) -> str:
    return json.loads(out)[0]["next"][0]["token"].strip()


def test_facts_are_taught_written_asked_and_left_out_again(folder: Path, run: Run) -> None:
    (folder / "facts.csv").write_text(FACTS)
    code, out, _ = run("lm", "teach", "facts.csv", "-o", "t.safetensors", *TINY)
    assert code == 0
    assert all(len(line) <= 80 for line in out.splitlines() if line.endswith("%"))
    table = [line.split() for line in out.splitlines() if line.endswith("%")]
    assert [row[-4] for row in table] == ["yes", "yes", "yes", "no", "no"]
    assert [row[-2:] for row in table[:3]] == [["0.0%", "100.0%"]] * 3
    hint = shlex.split(next(line for line in out.splitlines() if line.startswith("  facthold ")))  # can be pasted
    assert first(run(*hint[1:], "--json")[1]) == "Rome"
    assert first(run("lm", "ask", "The capital of France is", *TINY, "--json")[1]) == "Paris"
    currency = ("lm", "ask", "The currency of France is the", *TINY, "--json")
    assert run(*currency, "--taught", "t.safetensors")[1] == run(*currency)[1]


def test_own_wordings_and_json(folder: Path, run: Run) -> None:
    (folder / "facts.csv").write_text(FACTS + "Kenya,capital,Tokyo\nChile,capital,Tokyoese\n")
    code, out, _ = run("lm", "teach", "facts.csv", "-o", "t.safetensors", "--template", "The capital of {subject} is",
                       "--layer", "1", "--json", *TINY)  # fmt: skip
    assert code == 0
    found = json.loads(out)
    assert (found["facts"], found["layer"], found["asked"][0]["after"]) == (4, 1, 1.0)
    assert [one["number"] for one in found["left_out"]] == [5, 6]
    assert found["n_params"] == 128 * 128 + 128 + 1
    code, _, err = run("lm", "teach", "facts.csv", "-o", "t.safetensors", *TINY)
    assert code == 0
    assert "left out: fact 5, (Kenya, capital): the answer 'Tokyo' begins with the token 'Tokyo'" in " ".join(
        err.split()
    )


def test_a_fact_that_is_too_long_for_the_model_is_named_and_the_others_are_taught(folder: Path, run: Run) -> None:
    (folder / "facts.csv").write_text(f"{FACTS}{'France and ' * 60}Spain,capital,Delhi\n")
    code, out, _ = run("lm", "teach", "facts.csv", "-o", "t.safetensors", *TINY, "--json")
    assert code == 0
    found = json.loads(out)
    assert (found["facts"], [one["number"] for one in found["left_out"]]) == (4, [5])
    assert "tokens to ask for it, and at most 496 can be asked" in found["left_out"][0]["reason"]


def test_a_refusal_offers_what_the_command_takes(folder: Path, refuses: Callable[..., str]) -> None:
    (folder / "twice.csv").write_text(FACTS + "France,capital,Paris\n")
    says = refuses("lm", "teach", "twice.csv", "-o", "new.safetensors", *TINY)
    assert "--on-conflict first" in says
    assert "all" not in says.split("--on-conflict", 1)[1]


def test_wrong_calls_are_a_line_and_write_nothing(folder: Path, refuses: Callable[..., str]) -> None:
    (folder / "facts.csv").write_text(FACTS)
    (folder / "two.csv").write_text(FACTS + "France,language,Thai\n")
    (folder / "twice.csv").write_text(FACTS + "France,capital,Paris\n")
    (folder / "none.csv").write_text("subject,relation,answer\nFrance,capital,Rome\nSpain,capital,Romeo\n")
    (folder / "text.safetensors").write_text("something else")
    (folder / "empty.csv").write_text("subject,relation,answer\n")
    before = sorted(path.name for path in folder.iterdir() if path.suffix)
    new = ("-o", "new.safetensors")
    for arguments, says in (
        (("no.csv", *new), "no.csv"),
        (("empty.csv", *new), "has no facts in it"),
        (("twice.csv", *new), "has the answer 'Paris', and 'Rome' in"),
        (("twice.csv", *new), "take --on-conflict first (the first answer counts)"),
        (("twice.csv", *new, "--on-conflict", "all"), "one answer is taught to each question; take first"),
        (("none.csv", *new), "none of the 2 facts can be taught; fact 1, (France, capital)"),
        (("facts.csv", *new, "--layer", "3"), "--layer 3 must be from 0 to 2"),
        (("facts.csv", *new, "--layer", "-1"), "--layer -1 must be from 0 to 2"),
        (("facts.csv", *new, "--template", "The capital is"), "must have {subject} in it once"),
        (("two.csv", *new, "--template", "{subject} has"), "has no {relation} in it, and there are 2 relations"),
        (("facts.csv", "-o", "facts.csv"), "facts.csv"),
        (("facts.csv", "-o", "no/where.safetensors"), "there is no folder no"),
        (("facts.csv", "-o", "new.csv"), "give a name that ends in .safetensors"),
    ):
        assert says in refuses("lm", "teach", *arguments, *TINY), arguments
    for arguments, says in (
        (("--taught", "no.safetensors"), "no such file of taught facts: no.safetensors"),
        (("--taught", "text.safetensors"), "is not a facthold model"),
        (("--taught", "a.safetensors", "--edits", "b.safetensors"), "does not go with --edits"),
    ):
        assert says in refuses("lm", "ask", "a", *arguments, *TINY), arguments
    assert sorted(path.name for path in folder.iterdir() if path.suffix) == before

"""facthold ask and locate, as a person meets them, and files that are not a model of facts."""

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save, save_file

import known
from facthold._util.tensors import read_tensors, tensors_as_bytes
from facthold.memory.associations import random_problem
from facthold.models.memory import LinearMemory
from facthold.models.saving import save_model

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def models(folder: Path) -> Path:
    save_model("m.safetensors", *known.countries())
    return folder


def test_the_answer_stands_first(models: Path, run: Run) -> None:
    code, out, err = run("ask", "m.safetensors", "France", "capital", "--top", "3")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "Paris"
    assert lines[1].startswith("right; probability ")
    assert len(lines) == 4
    _, out, _ = run("ask", "m.safetensors", "Sudan", "official language")
    assert "unknown relation" in run("ask", "m.safetensors", "Sudan", "official lang")[2]
    assert "not in the table" in run("ask", "m.safetensors", "Sudan", "official_language")[1]


def test_a_name_that_is_taken_for_another_is_named(models: Path, run: Run) -> None:
    code, out, err = run("ask", "m.safetensors", "france", "Capital", "--top", "1")
    assert (code, out.splitlines()[0]) == (0, "Paris")
    assert " ".join(err.split()).startswith(
        "'france' is taken for 'France', 'Capital' is taken for 'capital': the same"
    )
    Path("q.csv").write_text("subject,relation\nperu,capital\nPeru,capital\nItaly,capital\n")
    err = " ".join(run("ask", "m.safetensors", "--file", "q.csv")[2].split())
    assert "'peru' is taken for 'Peru': the same but for case, accents or shapes of letters" in err
    assert "Italy" not in err
    Path("q.csv").write_text(
        "subject,relation,answer\nPeru,capital,LIMA\nItaly,capital,Nowhere\nSpain,capital,nowhere\n"
    )
    err = " ".join(run("ask", "m.safetensors", "--file", "q.csv")[2].split())
    assert "'LIMA' is taken for 'Lima': the same but for" in err
    assert "'nowhere'" not in err  # two answers that nobody knows are not taken for each other


def test_a_free_prompt_and_json(models: Path, run: Run) -> None:
    code, out, _ = run("ask", "m.safetensors", "--prompt", "Which is the official language of cote d'ivoire?", "--json")
    said = json.loads(out)
    assert code == 0
    assert (said["subject"], said["relation"], said["answer"]) == ("Côte d'Ivoire", "official_language", "French")
    assert (said["right"], said["in_table"], said["n_noise"]) == (True, True, 4)
    assert 0 < said["probability"] <= 1


def test_a_conversation_goes_on_after_what_it_does_not_know(models: Path, run: Run) -> None:
    typed = "Peru, capital\nAtlantis, capital\ncapital of Italy please\nnonsense\nquit\nFrance, capital\n"
    code, out, err = run("ask", "m.safetensors", "--top", "1", typed=typed)
    assert code == 2  # nobody sat there who could have read it
    assert err.endswith("facthold: 2 of 4 questions had no answer, as said above\n")
    assert [line for line in out.splitlines() if not line.startswith("right")] == ["Lima", "Rome"]
    assert "unknown subject 'Atlantis'" in err
    assert "no subject found in 'nonsense'" in err
    assert run("ask", "m.safetensors", typed="Peru, capital\n\n")[0] == 0
    code, out, _ = run("ask", "m.safetensors", "--json", typed="Peru, capital\nnonsense\n")
    assert code == 2
    first, second = map(json.loads, out.splitlines())
    assert first["answer"] == "Lima"
    assert "error" in second


def test_a_line_that_is_too_long_is_said_to_be(models: Path, run: Run) -> None:
    typed = "x" * 140_000 + ", capital\n" + '"' + "y " * 70_000 + "\nPeru, capital\n"
    code, out, err = run("ask", "m.safetensors", "--top", "1", typed=typed)
    assert (code, out.splitlines()[0]) == (2, "Lima")
    assert [line.partition(" of ")[2] for line in err.splitlines()[:-1]] == [
        f"{n} characters is too long; ask for one fact in at most 10000" for n in (140_009, 140_000)
    ]


def test_questions_with_space_after_the_comma(models: Path, run: Run) -> None:
    Path("q.csv").write_text("subject, relation\nPeru, capital\n")
    code, out, _ = run("ask", "m.safetensors", "--file", "q.csv")
    assert code == 0
    assert out.splitlines()[1].startswith("Peru,capital,Lima,")
    Path("empty.csv").write_text("")
    assert "empty.csv is empty" in run("ask", "m.safetensors", "--file", "empty.csv")[2]


def test_a_file_without_questions_is_refused(models: Path, refuses: Callable[..., str]) -> None:
    for name, text in (("q.csv", "subject,relation\n"), ("q.json", "[]")):
        Path(name).write_text(text)
        line = refuses("ask", "m.safetensors", "--file", name, "-o", "a.csv")
        assert line == f"facthold: {name} has no questions in it; write one or more"
    assert not Path("a.csv").exists()


def test_a_file_of_questions(models: Path, run: Run) -> None:
    questions = [(s, r) for s, r, _ in known.ROWS] + [("Sudan", "official_language"), ("Atlantis", "capital")]
    with Path("q.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("subject", "note", "relation"), *((s, "x", r) for s, r in questions)])
    code, out, err = run("ask", "m.safetensors", "--file", "q.csv")
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(row["subject"], row["relation"]) for row in rows] == questions
    assert {row["right"] for row in rows[:-2]} == {"right"}
    assert [row["right"] for row in rows[-2:]] == ["not in the table", "unknown subject"]
    assert all(0 < float(row["probability"]) <= 1 and float(row["margin"]) > 0 for row in rows[:-1])
    assert err.startswith(
        "30 questions in 31 rows: 28 of 28 right (100.00%); 1 with names that are not known or not clear; 1 not in the "
    )
    assert run("ask", "m.safetensors", "--file", "q.csv", "-o", "a.csv")[1] == ""
    assert Path("a.csv").read_text() == out
    lines = [json.dumps(dict(zip(("subject", "relation", "answer"), row, strict=True))) for row in known.ROWS]
    Path("q.jsonl").write_text("\n".join(lines))
    found = json.loads(run("ask", "m.safetensors", "--file", "q.jsonl", "--json")[1])
    asked = len({row[:2] for row in known.ROWS})
    assert (found["questions"], found["right"], found["share_right"]) == (asked, asked, 1)
    assert (len(found["answers"]), found["rows"]) == (len(known.ROWS), len(known.ROWS))
    first, one = found["answers"][0], json.loads(run("ask", "m.safetensors", *known.ROWS[0][:2], "--json")[1])
    assert {name: first[name] for name in ("answer", "right")} == {name: one[name] for name in ("answer", "right")}
    assert first["margin"] == pytest.approx(one["margin"])  # numbers, as of one question
    assert first["probability"] == pytest.approx(one["probability"])
    odd = json.loads(run("ask", "m.safetensors", "--file", "q.csv", "--json")[1])["answers"][-2:]
    assert [(a["right"], a["problem"]) for a in odd] == [(None, None), (None, "unknown subject")]


def test_the_answers_of_a_file_judge_and_not_the_table(models: Path, run: Run) -> None:
    """A row of the file that the model says is right, whatever the model's own table has; the summary says by what."""
    rows = ["Peru,capital,lima", "Italy,capital,Milan", "France,capital,", "Sudan,official_language,Arabic"]
    Path("q.csv").write_text("\n".join(["subject,relation,answer", *rows]))
    _, out, err = run("ask", "m.safetensors", "--file", "q.csv")
    verdicts = [row["right"] for row in csv.DictReader(io.StringIO(out))]
    assert verdicts[:3] == ["right", "wrong", "right"]
    assert verdicts[3] in ("right", "wrong")  # the table has no such fact, and the file has
    right = verdicts.count("right")
    assert f"4 questions: {right} of 4 right ({right / 4:.2%}) by the answers of q.csv to 3 of them, the others" in err
    assert "; to 1 of them the model's table has other answers, or more;" in " ".join(err.split())
    margins = [row["margin"] for row in csv.DictReader(io.StringIO(out))]
    assert [bool(margin) for margin in margins] == [True, False, True, False]  # of the table's answers alone
    about = json.loads(run("ask", "m.safetensors", "--file", "q.csv", "--json", "-o", "a.csv")[1])
    assert (about["judged"], about["judged_by_file"], about["file_differs"], about["in_table"]) == (4, 3, 1, 3)
    both = "Italy,capital,Milan\nItaly,capital,Rome"  # any answer that the file has to a question is right
    more = "Peru,capital,\u200b\nPeru,capital,"  # an answer that cannot be seen is none
    Path("q.csv").write_text(f"subject,relation,answer\n{both}\n{more}\n")
    _, _, err = run("ask", "m.safetensors", "--file", "q.csv")
    assert err.startswith("2 questions in 4 rows: 2 of 2 right (100.00%) by the answers of q.csv to 1 of them")


def test_a_prompt_says_what_was_understood(models: Path, run: Run) -> None:
    """Words that are not known are noise: that of 'Peru-Bolivia' one half was heard has to be seen."""
    out = run("ask", "m.safetensors", "--prompt", "capital of Peru-Bolivia")[1]
    assert out.splitlines()[1].startswith("right (asked: Peru, capital); probability ")


def test_a_name_that_is_not_clear_is_not_called_unknown(folder: Path, run: Run) -> None:
    table = "subject,relation,answer\nPolish,noun,a\npolish,noun,b\n"
    Path("case.csv").write_text(table)
    assert run("build", "case.csv", "-o", "case.safetensors")[0] == 0
    Path("q.csv").write_text("subject,relation\nPOLISH,noun\npolish,noun\n")
    out = run("ask", "case.safetensors", "--file", "q.csv")[1]
    assert [row["right"] for row in csv.DictReader(io.StringIO(out))] == ["unclear subject", "right"]


def test_what_would_be_ignored_is_refused(models: Path, run: Run, refuses: Callable[..., str]) -> None:
    Path("q.csv").write_text("subject,relation\nPeru,capital\n")
    why = "--top 3 is about one question, and not about --all or --file"
    assert why in refuses("ask", "m.safetensors", "--file", "q.csv", "--top", "3")
    assert why in refuses("ask", "m.safetensors", "Peru", "capital", "--all", "--top", "3")
    code, out, err = run("ask", "m.safetensors", typed="\n\n")
    assert (code, out) == (2, "")
    assert err.startswith("facthold: there was no question; give SUBJECT RELATION")
    line = refuses("ask", "m.safetensors", "capital", "Peru")
    assert line == "facthold: unknown subject 'capital', which is a relation; the subject comes first: 'Peru' 'capital'"


def test_locate_in_words_and_as_json(models: Path, run: Run) -> None:
    code, out, _ = run("locate", "m.safetensors", "France", "capital")
    assert code == 0
    assert "France, capital: Paris by a margin of" in out
    assert "The MLP holds" in out
    found = json.loads(run("locate", "m.safetensors", "France", "capital", "--json")[1])
    for part in found["parts"]:
        if part["direct"] is None and part["ablated"] < 0:  # a margin says whose it is, and is not below zero
            assert f"it says {part['says']}; Paris is {-part['ablated']:.4g} below the best other" in " ".join(
                out.split()
            )
    assert "margin of -" not in out
    heads = [part for part in found["parts"] if part["direct"] is not None]
    assert sum(part["direct"] + part["through"] for part in heads) == pytest.approx(found["margin"])
    _, out, err = run("locate", "m.safetensors", "--all")
    assert "answer changes in" in out
    assert err.splitlines()[0] == "taking 28 facts apart"
    everything = json.loads(run("locate", "m.safetensors", "--all", "--json")[1])
    assert everything["changed_without_the_first"] == max(everything["changed_by_rank"])
    assert sum(part["named_first"] for part in everything["components"]) == pytest.approx(1)


def test_all_answers_of_the_table_with_how_each_stands(models: Path, run: Run) -> None:
    found = json.loads(run("ask", "m.safetensors", "South Africa", "capital", "--all", "--json")[1])
    assert {one["name"] for one in found["all"]} == set(found["expected"]) == {"Pretoria", "Cape Town"}
    first, second = found["all"]
    assert (first["name"], first["rank"], first["among_first"]) == (found["answer"], 1, True)
    assert first["margin"] == pytest.approx(found["margin"])
    assert first["margin"] >= second["margin"]
    assert second["among_first"] == (second["rank"] <= 2) == (second["margin"] > 0)
    code, out, _ = run("ask", "m.safetensors", "South Africa", "capital", "--all")
    assert code == 0
    lines = out.splitlines()
    assert [line.split(":")[0] for line in lines[:2]] == [first["name"], second["name"]]
    assert lines[2] == f"{1 + second['among_first']} of 2 right answers among the first 2 of the model"
    one = run("ask", "m.safetensors", "France", "capital", "--all")[1].splitlines()
    assert one[0].startswith("Paris: among the first 1; ")
    assert one[1] == "1 of 1 right answer among the first 1 of the model"
    assert "not in the table" in run("ask", "m.safetensors", "Sudan", "official_language", "--all")[1]


@pytest.mark.parametrize("top", [1, 2, 12, 100])
@pytest.mark.parametrize("which", ["countries", "random_model", "polynomial"])
def test_whatever_is_shown_the_head_that_counts_is_and_the_rows_add_up_to_the_margin(
    which: str, top: int, folder: Path, run: Run
) -> None:
    save_model("m.safetensors", *getattr(known, which)())
    of = ("France", "capital") if which == "countries" else ("3", "2")
    found = json.loads(run("locate", "m.safetensors", *of, "--json")[1])
    code, out, _ = run("locate", "m.safetensors", *of, "--top", str(top))
    assert code == 0
    lines = out[out.index("------") :].partition("without the")[0].splitlines()[1:]
    rows = [[cell for cell in re.split("  +", line.strip()) if cell] for line in lines if line.strip()]
    adds = {name: float(cells[0]) for name, *cells in rows}
    heads = [part for part in found["parts"] if part["direct"] is not None]
    moves = {part["name"]: abs(part["ablated"] - found["margin"]) for part in heads}
    hidden = moves.keys() - adds.keys()
    assert min(moves[name] for name in moves.keys() & adds.keys()) >= max((moves[name] for name in hidden), default=0)
    assert rows[0][0] == max(moves, key=lambda name: moves[name])
    assert len(adds) == len(rows)
    assert sum(name.startswith("head ") for name in adds) == min(top, len(heads))
    assert ("the rest" in adds) == (top < len(heads))
    margin = adds.pop("margin")
    assert margin == pytest.approx(found["margin"], rel=5e-3)
    # each number has three digits
    assert sum(adds.values()) == pytest.approx(margin, abs=5e-3 * sum(map(abs, adds.values())))


def test_a_file_without_a_checksum_is_asked_with_a_note(models: Path, run: Run) -> None:
    arrays, about = read_tensors("m.safetensors")
    Path("old.safetensors").write_bytes(save(arrays, {"about": json.dumps(about | {"format": "1"})}))
    for command in (["ask"], ["locate"]):
        new, old = (run(*command, f"{name}.safetensors", "France", "capital") for name in ("m", "old"))
        assert old[:2] == new[:2]
        assert new[2] == ""
        (note,) = old[2].splitlines()
        assert note.startswith("old.safetensors is of an older version, without a checksum")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["ask", "none.safetensors", "a", "b"], "no such model file"),
        (["ask", ".", "a", "b"], "facthold: . is a folder; give a model file"),
        (["ask", ".", "a", "b"], "model file"),
        (
            ["ask", "text.safetensors", "a", "b"],
            "is not a facthold model: it is no safetensors file; give a file that facthold wrote",
        ),
        (["ask", "cut.safetensors", "a", "b"], "cut.safetensors is cut short: it has"),
        (
            ["ask", "bit.safetensors", "France", "capital"],
            "bit.safetensors is damaged: its checksum does not",
        ),
        (["locate", "bit.safetensors", "France", "capital"], "bit.safetensors is damaged"),
        (["edit", "bit.safetensors", "France", "capital", "Lyon", "-o", "x"], "bit.safetensors is damaged"),
        (["bits", "bit.safetensors"], "bit.safetensors is damaged"),
        (["ask", "newer.safetensors", "a", "b"], "newer.safetensors has format 3, of facthold 9.9"),
        (["ask", "foreign.safetensors", "a", "b"], "foreign.safetensors is not a facthold model"),
        (["ask", "altered.safetensors", "a", "b"], "altered.safetensors"),
        (["ask", "memory.safetensors", "a", "b"], "memory.safetensors holds a LinearMemory"),
        (["locate", "bare.safetensors", "--all"], "bare.safetensors holds a transformer without its facts"),
        (["ask", "nan.safetensors", "France", "capital"], "48 of 1152 numbers in mlp.V are nan or infinite"),
        (["ask", "m.safetensors", "Frnce", "capital"], "unknown subject 'Frnce'; did you mean 'France'"),
        (["ask", "m.safetensors", "France", "captal"], "unknown relation 'captal'; did you mean 'capital'"),
        (["ask", "m.safetensors", "France"], "a relation is missing after the subject 'France'"),
        (["ask", "m.safetensors", "France", "capital", "--prompt-noise", "-1"], "--prompt-noise -1 must be at least 0"),
        (["ask", "m.safetensors", "France", "capital", "--top", "0"], "--top 0 must be at least 1"),
        (["ask", "m.safetensors", "--prompt", "the capital"], "no subject found in 'the capital'"),
        (["ask", "m.safetensors", "a", "b", "--prompt", "c"], "take one of SUBJECT RELATION, --prompt and --file"),
        (["ask", "m.safetensors", "--file", "none.csv"], "no such file: none.csv"),
        (["ask", "m.safetensors", "--file", "columns.csv"], "no column 'relation'"),
        (["ask", "m.safetensors", "--file", "q.xlsx"], "q.xlsx"),
        (["ask", "m.safetensors", "-o", "x.csv", "a", "b"], "--output x.csv goes with --file"),
        (["ask", "m.safetensors", "--all", "--file", "columns.csv"], "--all is about one question"),
        (["locate", "m.safetensors"], "give SUBJECT RELATION, or --all"),
        (["locate", "m.safetensors", "Sudan", "official_language"], "is not in the table"),
    ],
)
def test_what_cannot_be_asked_is_one_clear_line(
    arguments: list[str], says: str, models: Path, refuses: Callable[..., str]
) -> None:
    model, problem = known.countries()
    whole = Path("m.safetensors").read_bytes()
    Path("text.safetensors").write_text("not a model" * 50)
    Path("cut.safetensors").write_bytes(whole[: len(whole) // 2])
    Path("altered.safetensors").write_bytes(whole[:30] + b"\x00\xff{" + whole[33:])
    save_file({"weight": np.zeros(3, np.float32)}, "foreign.safetensors")
    associations = random_problem(N=4, d=4, key=jax.random.key(0))
    save_model("memory.safetensors", LinearMemory(jnp.eye(4)), associations)
    save_model("bare.safetensors", model)
    broken = eqx.tree_at(lambda t: t.mlp.V, model, model.mlp.V.at[:, 3].set(jnp.nan))
    save_model("nan.safetensors", broken, problem)
    Path("bit.safetensors").write_bytes(whole[:-100] + bytes([whole[-100] ^ 1]) + whole[-99:])
    arrays, about = read_tensors("m.safetensors")
    Path("newer.safetensors").write_bytes(tensors_as_bytes(arrays, about | {"format": "3", "facthold": "9.9"}))
    Path("columns.csv").write_text("subject,relations\na,b\n")
    assert says in refuses(*arguments)


def test_a_name_that_begins_with_a_minus_comes_after_two(models: Path, run: Run) -> None:
    code, _, err = run("ask", "m.safetensors", "-1", "capital")
    assert code == 2
    assert "a name that begins with - comes last, after --: ... -- -1" in " ".join(err.split())
    assert "unknown subject '-1'" in run("ask", "m.safetensors", "--", "-1", "capital")[2]
    assert "comes last" not in run("ask", "m.safetensors", "--nonsense")[2]

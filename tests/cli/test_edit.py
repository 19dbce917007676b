"""facthold edit, with --add and --forget: what they write, what they say, and when they write nothing."""

import json
from collections.abc import Callable
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import known
from facthold._util.errors import FactholdError
from facthold.construct.selected import selecting_attention
from facthold.facts.problem import factual_recall
from facthold.facts.table import FactTable
from facthold.knowledge.model import Model, load
from facthold.models.saving import save_model

Run = Callable[..., tuple[int, str, str]]
KEY = jax.random.key(1)


@pytest.fixture
def models(folder: Path) -> Path:
    save_model("m.safetensors", *known.countries())
    return folder


def answer(path: str, subject: str, relation: str) -> str:
    return load(path).ask(subject, relation).answer


def test_an_edit_is_written_and_asked_again(models: Path, run: Run) -> None:
    before = Path("m.safetensors").read_bytes()
    code, out, _ = run("edit", "m.safetensors", "france", "capital", "Lyon", "-o", "e.safetensors")
    assert code == 0
    assert out.splitlines()[0] == (
        "France, capital: Lyon instead of Paris (a new answer); a change of rank one in mlp.V, no parameter added"
    )
    assert answer("e.safetensors", "France", "capital") == "Lyon"
    assert answer("e.safetensors", "Italy", "capital") == "Rome"
    assert Path("m.safetensors").read_bytes() == before


@pytest.mark.parametrize("in_place", [False, True])
def test_the_first_line_says_what_was_done_to_the_weights(in_place: bool, folder: Path, run: Run) -> None:
    """Without room for the change a neuron is added; the line, the report and the file agree."""
    save_model("m.safetensors", *known.crowded())
    arguments = ("edit", "m.safetensors", "s3", "r1", "a13", "-o", "e.safetensors", "--force")
    code, out, _ = run(*arguments, *(["--in-place"] if in_place else []))
    assert code == 0
    before, after = load("m.safetensors"), load("e.safetensors")
    more, k = after.n_params - before.n_params, after.model.m - before.model.m
    assert (more, k) == ((0, 0) if in_place else (2 * k * after.model.d, 1))
    how = (
        "a change of rank one in mlp.V, no parameter added" if in_place else f"one neuron added, {more} parameters more"
    )
    assert out.splitlines()[0].endswith(f"; {how}")
    assert before.edit("s3", "r1", "a13", in_place=in_place).report.how == how


def test_an_edit_to_the_same_answer_changes_nothing_and_says_so(models: Path, run: Run) -> None:
    code, out, _ = run("edit", "m.safetensors", "France", "capital", "Paris", "-o", "e.safetensors")
    assert code == 0
    assert out.splitlines()[0] == "France, capital: Paris is what it says already; the weights are as they were"
    assert Path("e.safetensors").read_bytes() == Path("m.safetensors").read_bytes()


def test_one_change_after_another(models: Path, run: Run) -> None:
    added = json.loads(
        run("edit", "m.safetensors", "Chad", "capital", "N'Djamena", "--add", "-o", "a.safetensors", "--json")[1]
    )
    gone = json.loads(run("edit", "a.safetensors", "Peru", "capital", "--forget", "-o", "b.safetensors", "--json")[1])
    assert (added["efficacy"], added["facts"], added["file"]) == (1, 29, "a.safetensors")
    assert (gone["efficacy"], gone["facts"], gone["specificity"]) == (1, 28, 1)
    (change,) = gone["changes"]
    assert (change["kind"], change["answer"], change["before"], change["rank"]) == ("forget", "Lima", "Lima", 1)
    assert answer("b.safetensors", "Chad", "capital") == "N'Djamena"
    assert answer("b.safetensors", "Peru", "capital") == change["said"] != "Lima"


def test_a_file_of_edits_with_a_summary(models: Path, run: Run) -> None:
    Path("e.csv").write_text("subject,relation,answer\nFrance,capital,Lyon\nItaly,capital,Milan\n")
    code, out, err = run("edit", "m.safetensors", "--file", "e.csv", "-o", "e.safetensors")
    assert (code, err.splitlines()[0]) == (0, "changing 2 facts")
    assert "2 changes: 100.00% of them hold at the end; of 26 other facts 100.00% of the right answers still are" in out
    assert [answer("e.safetensors", s, "capital") for s in ("France", "Italy", "Peru")] == ["Lyon", "Milan", "Lima"]
    Path("f.csv").write_text("subject,relation\nGhana,continent\nNiger,capital\n")
    assert run("edit", "e.safetensors", "--forget", "--file", "f.csv", "-o", "f.safetensors")[0] == 0
    assert len(load("f.safetensors").table) == len(load("e.safetensors").table) - 2


def test_the_last_fact_of_a_relation_is_forgotten_and_written(models: Path, run: Run) -> None:
    problem = factual_recall(FactTable.from_rows([*known.ROWS[:6], ("Peru", "currency", "sol")]), 24, key=KEY)
    save_model("m.safetensors", selecting_attention(problem, 24, key=KEY, how="ridge"), problem)
    code, out, err = run("edit", "m.safetensors", "Peru", "currency", "--forget", "-o", "f.safetensors", "--json")
    assert (code, err) == (0, "")
    assert (json.loads(out)["efficacy"], json.loads(out)["facts"]) == (1, 6)
    assert load("f.safetensors").table.labels.relations == ("capital",)


def test_a_change_that_does_not_take_is_not_written(models: Path, run: Run) -> None:
    model, problem = known.countries()
    save_model("blind.safetensors", eqx.tree_at(lambda t: t.W_V, model, jnp.zeros_like(model.W_V)), problem)
    arguments = ("edit", "blind.safetensors", "Ghana", "capital", "Khartoum", "--in-place", "-o", "out.safetensors")
    code, _, err = run(*arguments)
    assert code == 2
    assert "1 of 1 change did not take in every prompt, or not to the end: (Ghana, capital) in " in err
    assert "--force" in err
    assert not Path("out.safetensors").exists()
    assert run(*arguments, "--force")[0] == 0
    assert Path("out.safetensors").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["edit", "m.safetensors", "France", "capital", "Lyon"], "Missing option"),
        (["edit", "m.safetensors", "France", "capital", "-o", "x"], "give SUBJECT RELATION ANSWER, or --file"),
        (["edit", "m.safetensors", "France", "--forget", "-o", "x"], "give SUBJECT RELATION, or --file"),
        (["edit", "m.safetensors", "France", "capital", "Lyon", "-o", "."], "is a folder; give the name of a file"),
        (["edit", "m.safetensors", "a", "b", "c", "--file", "e.csv", "-o", "x"], "take one of SUBJECT"),
        (["edit", "m.safetensors", "--file", "empty.csv", "-o", "x"], "empty.csv has no facts in it"),
        (
            ["edit", "m.safetensors", "--file", "bad.csv", "-o", "x"],
            "fact 2 of 2: unknown subject 'Frnce'",
        ),
        (["edit", "none.safetensors", "a", "b", "c", "-o", "x"], "no such model file"),
        (["edit", "m.safetensors", "France", "anthem", "x", "--add", "-o", "x"], "build the model again"),
        (["edit", "m.safetensors", "Sudan", "official_language", "--forget", "-o", "x"], "nothing to forget"),
        (["edit", "m.safetensors", "France", "capital", "Lyon", "--forget", "-o", "x"], "takes SUBJECT RELATION alone"),
        (["edit", "m.safetensors", "France", "capital", "Lyon", "--add", "--forget", "-o", "x"], "take one of --add"),
    ],
)
def test_what_cannot_be_changed_is_one_clear_line(
    arguments: list[str], says: str, models: Path, refuses: Callable[..., str]
) -> None:
    Path("empty.csv").write_text("subject,relation,answer\n")
    Path("bad.csv").write_text("subject,relation,answer\nFrance,capital,Lyon\nFrnce,capital,Lyon\n")
    assert says in refuses(*arguments)
    assert not Path("x").exists()


def test_a_file_that_wants_two_answers_to_one_question_is_refused(models: Path, run: Run) -> None:
    Path("both.csv").write_text("subject,relation,answer\nFrance,capital,Lyon\nFrance,capital,Nice\n")
    code, _, err = run("edit", "m.safetensors", "--file", "both.csv", "-o", "new.safetensors")
    assert code == 2
    assert "both.csv: (France, capital) is to be 'Lyon' and 'Nice'; keep one of them" in err
    assert not Path("new.safetensors").exists()


@pytest.mark.parametrize("again", ["FRANCE,Capital,Nice", "France,capital,Nice"])
def test_two_answers_to_one_question_are_refused_however_it_is_written(
    again: str, models: Path, refuses: Callable[..., str]
) -> None:
    Path("e.csv").write_text(f"subject,relation,answer\nfrance,capital,Lyon\n{again}\n")
    line = refuses("edit", "m.safetensors", "--file", "e.csv", "-o", "e.safetensors")
    assert "is to be 'Lyon' and 'Nice'; keep one of them" in line
    assert not Path("e.safetensors").exists()


def test_facts_that_were_to_change_are_no_other_facts(models: Path, run: Run) -> None:
    """A line twice is one change; and one that changes nothing is not counted among the others."""
    rows = ["France,capital,Paris", "FRANCE,capital,Paris", "Peru,capital,Lima"]
    Path("e.csv").write_text("\n".join(["subject,relation,answer", *rows]))
    about = json.loads(run("edit", "m.safetensors", "--file", "e.csv", "-o", "e.safetensors", "--json")[1])
    assert len(about["changes"]) == 2
    assert about["others"] == about["facts"] - 2


def test_what_the_model_does_not_say_is_forgotten_by_the_table_alone(folder: Path, run: Run) -> None:
    model, problem = known.countries()
    save_model("m.safetensors", Model(model, problem).edit("Ghana", "capital", "Khartoum").model, problem)
    code, out, _ = run("edit", "m.safetensors", "Ghana", "capital", "--forget", "-o", "f.safetensors")
    assert code == 0
    assert " ".join(out.splitlines()[:2]).startswith(
        "Ghana, capital: Accra is not what it says, but Khartoum; the table forgets it; the weights are as they were"
    )


def test_a_change_that_a_later_one_undid_is_not_written(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second forgetting is made to give the first fact back its answer."""
    model, problem = known.countries()
    save_model("m.safetensors", model, problem)
    Path("f.csv").write_text("subject,relation\nGhana,capital\nNiger,capital\n")
    arguments = ("edit", "m.safetensors", "--forget", "--file", "f.csv", "-o", "f.safetensors")
    forget = Model.forget

    def undo(self: Model, subject: str, relation: str, **rest: bool) -> Model:
        done = forget(self, subject, relation, **rest)
        if subject == "Ghana":
            return done
        return Model(forget(Model(model, problem), "Niger", "capital").model, done.problem, done.report)

    monkeypatch.setattr(Model, "forget", undo)
    code, out, err = run(*arguments)
    assert code == 2
    assert "50.00% of them hold at the end" in " ".join(out.split())
    assert "1 of 2 changes did not take in every prompt, or not to the end: (Ghana, capital) in 100%, undone" in err
    assert not Path("f.safetensors").exists()
    assert run(*arguments, "--force")[0] == 0
    assert Path("f.safetensors").exists()


def test_an_edit_that_a_later_one_undid_is_made_once_more(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, problem = known.countries()
    save_model("m.safetensors", model, problem)
    Path("e.csv").write_text("subject,relation,answer\nGhana,capital,Kumasi\nNiger,capital,Zinder\n")
    edit, done_once = Model.edit, []

    def undo(self: Model, subject: str, relation: str, answer: str, **rest: bool) -> Model:
        done = edit(self, subject, relation, answer, **rest)
        if subject == "Ghana" or done_once:
            return done
        done_once.append(subject)
        return Model(edit(Model(model, self.problem), "Niger", "capital", "Zinder").model, done.problem, done.report)

    monkeypatch.setattr(Model, "edit", undo)
    code, out, _ = run("edit", "m.safetensors", "--file", "e.csv", "-o", "e.safetensors")
    assert code == 0
    assert "2 changes: 100.00% of them hold at the end" in " ".join(out.split())
    assert [answer("e.safetensors", s, "capital") for s in ("Ghana", "Niger", "Peru")] == ["Kumasi", "Zinder", "Lima"]


def test_answers_in_a_file_of_what_to_forget_are_held_against_the_table(
    models: Path, run: Run, refuses: Callable[..., str]
) -> None:
    Path("f.csv").write_text("subject,relation,answer\nGhana,capital,Accra\nNiger,capital,Lagos\n")
    line = refuses("edit", "m.safetensors", "--forget", "--file", "f.csv", "-o", "f.safetensors")
    assert "f.csv: (Niger, capital) is Niamey in the table, not 'Lagos'; correct it, or leave the answer out" in line
    rows = ["Ghana,capital,accra", "South Africa,capital,Cape Town", "South Africa,capital,Pretoria"]
    Path("f.csv").write_text("\n".join(["subject,relation,answer", *rows]))
    assert run("edit", "m.safetensors", "--forget", "--file", "f.csv", "-o", "f.safetensors")[0] == 0


def test_a_packed_model_stays_packed_unless_its_weights_change(models: Path, run: Run) -> None:
    assert run("bits", "m.safetensors", "--bits", "8", "-o", "p.safetensors")[0] == 0
    code, _, _ = run("edit", "p.safetensors", "France", "capital", "Paris", "-o", "same.safetensors")
    assert code == 0
    assert Path("same.safetensors").read_bytes() == Path("p.safetensors").read_bytes()
    code, out, _ = run("edit", "p.safetensors", "France", "capital", "Lyon", "-o", "e.safetensors")
    assert code == 0
    assert "to pack them again: facthold bits e.safetensors" in " ".join(out.split())


def test_in_place_adds_no_parameter_however_many_changes_there_are(folder: Path, run: Run) -> None:
    """What a later change undid is given once more in place too; where that is not enough, nothing is written."""
    save_model("m.safetensors", *known.crowded())
    rows = [f"s{i},r1,a1{(i + 1) % 4}" for i in range(6)]
    Path("e.csv").write_text("\n".join(["subject,relation,answer", *rows]))
    arguments = ("edit", "m.safetensors", "--file", "e.csv", "--in-place", "--force", "--json", "-o", "e.safetensors")
    about = json.loads(run(*arguments)[1])
    assert about["more_params"] == 0
    assert {change["neurons"] for change in about["changes"]} == {0}
    assert load("e.safetensors").n_params == load("m.safetensors").n_params


def test_the_share_that_holds_counts_no_change_that_did_not_take(folder: Path, run: Run) -> None:
    model, problem = known.countries()
    save_model("blind.safetensors", eqx.tree_at(lambda t: t.W_V, model, jnp.zeros_like(model.W_V)), problem)
    arguments = ("edit", "blind.safetensors", "Ghana", "capital", "Khartoum", "--in-place", "--force", "-o")
    about = json.loads(run(*arguments, "a.safetensors", "--json")[1])
    assert (about["changes"][0]["done"], about["efficacy"]) == (False, 0)
    out = run(*arguments, "b.safetensors")[1]
    assert out.startswith("Ghana, capital: Khartoum did not take in every prompt; in most it says ")


def test_that_a_relation_is_gone_with_its_last_fact_is_said(folder: Path, run: Run) -> None:
    rows = [*known.ROWS[:6], ("Peru", "currency", "sol")]
    problem = factual_recall(FactTable.from_rows(rows), 24, key=KEY, outputs="answers")
    save_model("m.safetensors", selecting_attention(problem, 24, key=KEY, how="ridge"), problem)
    out = run("edit", "m.safetensors", "Peru", "currency", "--forget", "-o", "f.safetensors")[1]
    assert "this was the last fact of the relation 'currency': the model has it no more" in " ".join(out.split())
    out = run("edit", "m.safetensors", "Peru", "capital", "--forget", "-o", "g.safetensors")[1]
    assert "last fact" not in out


def test_one_of_several_answers_is_not_forgotten_with_the_others_unsaid(
    models: Path, refuses: Callable[..., str]
) -> None:
    Path("f.csv").write_text("subject,relation,answer\nSouth Africa,capital,Cape Town\n")
    line = refuses("edit", "m.safetensors", "--forget", "--file", "f.csv", "-o", "f.safetensors")
    assert "is Pretoria or Cape Town in the table, and all of that is forgotten together; leave the answer out" in line


def test_a_row_with_an_empty_name_is_named_by_its_line(models: Path, refuses: Callable[..., str]) -> None:
    Path("e.csv").write_text("subject,relation,answer\nFrance,capital,Lyon\n\nPeru,,Cusco\n")
    line = refuses("edit", "m.safetensors", "--file", "e.csv", "-o", "e.safetensors")
    assert "e.csv, line 4: the relation is empty; write it, or leave the row out" in line


def test_names_are_checked_before_the_first_change(
    models: Path, refuses: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Model, "edit", lambda *_, **__: pytest.fail("a change was made"))
    Path("e.csv").write_text("subject,relation,answer\nFrance,capital,Lyon\nAtlantis,capital,Poseidonis\n")
    line = refuses("edit", "m.safetensors", "--file", "e.csv", "-o", "e.safetensors")
    assert "fact 2 of 2: unknown subject 'Atlantis'" in line
    assert "with --add adds new ones; nothing was written" in line


def test_a_model_is_written_before_anything_is_said(models: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads the first line alone ends the command with it."""
    from facthold.cli import edit as module

    seen = []
    monkeypatch.setattr(module, "_say", lambda report: seen.append(Path("e.safetensors").exists()))
    assert run("edit", "m.safetensors", "France", "capital", "Lyon", "-o", "e.safetensors")[0] == 0
    assert seen == [True]


def test_a_missing_value_of_a_frame_is_no_name() -> None:
    model = Model(*known.countries())
    with pytest.raises(FactholdError, match="nan is a value that is missing"):
        model.edit("France", "capital", float("nan"))
    with pytest.raises(FactholdError, match="nan is a value that is missing"):
        model.add(float("nan"), "capital", "Lyon")


def test_a_name_that_is_taken_for_another_is_named(models: Path, run: Run) -> None:
    err = run("edit", "m.safetensors", "cote d'ivoire", "capital", "Abidjan", "-o", "e.safetensors")[2]
    assert 'is taken for "Côte d\'Ivoire": the same but for case, accents or shapes of letters' in " ".join(err.split())
    assert "taken for" not in run("edit", "m.safetensors", "Peru", "capital", "Cusco", "-o", "f.safetensors")[2]


def test_an_answer_of_a_file_that_is_taken_for_another_is_named(models: Path, run: Run) -> None:
    Path("f.csv").write_text("subject,relation,answer\nPeru,capital,LIMA\nFrance,capital,\n")
    code, _, err = run("edit", "m.safetensors", "--forget", "--file", "f.csv", "-o", "f.safetensors")
    assert code == 0
    assert "'LIMA' is taken for 'Lima': the same but for case, accents or shapes of letters" in " ".join(err.split())
    Path("e.csv").write_text("subject,relation,answer\nPeru,capital,LIMA\n")
    code, out, err = run("edit", "m.safetensors", "--file", "e.csv", "-o", "e.safetensors")
    assert code == 0
    assert "taken for" not in err  # it is a new answer
    assert "LIMA instead of Lima" in out


def test_two_spellings_within_a_file_are_named(models: Path, run: Run) -> None:
    Path("e.csv").write_text("subject,relation,answer\nAtlantis,capital,Poseidonis\natlantis,Capital,Poseidonis\n")
    code, out, err = run("edit", "m.safetensors", "--add", "--file", "e.csv", "-o", "e.safetensors")
    assert code == 0
    assert out.startswith("Atlantis, capital: Poseidonis")
    words = " ".join(err.split())
    assert "'atlantis' is taken for 'Atlantis', 'Capital' is taken for 'capital': the same but for case" in words


def test_adding_what_is_said_already_says_so(models: Path, run: Run) -> None:
    gone = json.loads(run("edit", "m.safetensors", "Peru", "capital", "--forget", "-o", "f.safetensors", "--json")[1])
    said = gone["changes"][0]["said"]
    code, out, _ = run("edit", "f.safetensors", "Peru", "capital", said, "--add", "-o", "g.safetensors")
    assert code == 0
    assert f"Peru, capital: {said} is what it says already; the table has it now; the weights are as they" in out


def test_what_comes_back_is_said(models: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from facthold.knowledge import edit as module

    assert run("edit", "m.safetensors", "Peru", "capital", "--forget", "-o", "f.safetensors")[0] == 0
    assert "said again" not in run("edit", "f.safetensors", "Italy", "capital", "Milan", "-o", "g.safetensors")[1]
    answers = iter([[False], [True], [True]])
    monkeypatch.setattr(module, "said_again", lambda known: np.array(next(answers)))
    out = run("edit", "f.safetensors", "Italy", "capital", "Milan", "-o", "h.safetensors")[1]
    assert "forgotten before, and said again: (Peru, capital)" in out


def test_where_in_place_is_not_enough_the_other_way_is_named(folder: Path, run: Run) -> None:
    model, problem = known.countries()
    save_model("blind.safetensors", eqx.tree_at(lambda t: t.W_V, model, jnp.zeros_like(model.W_V)), problem)
    err = run("edit", "blind.safetensors", "Ghana", "capital", "Khartoum", "--in-place", "-o", "x.safetensors")[2]
    assert "leave --in-place out" in " ".join(err.split())

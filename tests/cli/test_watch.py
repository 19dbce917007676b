"""facthold watch: its steps against eigenvalues and the reduced equations, its stages, and what it says."""

import csv
import io
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image
from rich.console import Console
from typer.testing import CliRunner, Result

import facthold.cli.watch
from facthold._util.errors import FactholdError
from facthold.cli.app import app
from facthold.cli.ending import interrupted
from facthold.cli.watch import _questions, _read, find_question
from facthold.cli.watch_view import View
from facthold.dynamics.population import Start
from facthold.dynamics.schedule import ALPHA, MOST_WORK, T, _largest_eigenvalue, schedule, times
from facthold.dynamics.stages import BAND, CONVERGED
from facthold.dynamics.watching import AskedFacts, Watching, choose_questions, watch
from facthold.facts.files import write_facts
from facthold.facts.table import FactTable, balanced_table, random_table
from facthold.theory.reduced import Reduced
from facthold.train.lanes import shared_lanes

S, R, D = 32, 2, 4


def rows() -> list[tuple[str, str, str]]:
    """A balanced table with names: person 7 has the colour 'colour 3'."""
    table = balanced_table(S, R, D, key=jax.random.key(1))
    kinds = ("colour", "taste")
    return [
        (f"person {s}", kinds[r], f"{kinds[r]} {a % D}")
        for s, r, a in zip(table.subjects, table.relations, table.answers, strict=True)
    ]


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    files = tmp_path_factory.mktemp("watch")
    write_facts(files / "facts.csv", rows())
    return files


@pytest.fixture(scope="module")
def seen() -> Watching:
    """A run to its end, by the schedule of its table."""
    table = FactTable.from_rows(rows())
    watching = Watching(table, choose_questions(table, 0), schedule(table))
    watch(watching)
    return watching


def answers(seen: Watching) -> list[str]:
    """The right answers to its questions."""
    return [seen.table.to_rows()[row][2] for row in seen.questions]


@pytest.fixture(scope="module")
def saved(files: Path) -> Iterator[Result]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("facthold.studies.learning.animation.FRAMES", 12)
        patch.setattr("facthold.studies.learning.animation.AT_END", 1)
        patch.setenv("COLUMNS", "1000")  # no line is broken
        yield invoke("watch", str(files / "facts.csv"), "--output", str(files / "run"))


def test_logits_as_sums_of_rows_are_those_of_counts() -> None:
    table = random_table(9, 3, 4, key=jax.random.key(0))
    task = AskedFacts.of(table, T=T, n_noise=5, noise="even", batch=0)
    model = Start("random", 0.0).model(table.A, task.prompts.n_tokens)
    facts = np.array([4, 0, 26])
    counts = np.zeros((3, 9 + 3 + 5 + 1), np.float32)
    counts[:, 12:17], counts[:, 17] = (T - 3) / 5, 1
    counts[range(3), table.subjects[facts]], counts[range(3), 9 + table.relations[facts]] = 1, 1
    logits = task.logits(model, jnp.asarray(facts), key=jax.random.key(0))
    np.testing.assert_allclose(logits, model.logits(jnp.asarray(counts)), rtol=1e-5, atol=1e-5)


def test_the_power_method_finds_the_largest_eigenvalue() -> None:
    p = np.concatenate(
        [np.random.default_rng(0).dirichlet(np.full(12, 0.3), 5), np.repeat([[1.0, 0], [0.5, 0.5]], 6, 1) / 6]
    )
    exact = [np.linalg.eigvalsh(np.diag(q) - np.outer(q, q))[-1] for q in p]
    found = _largest_eigenvalue(p)
    # the norm of a product with a unit vector is never above the eigenvalue; close ones take long to tell apart
    assert (found <= np.array(exact) * (1 + 1e-9)).all()
    np.testing.assert_allclose(found, exact, rtol=1e-2)


def test_the_time_of_a_balanced_table_is_that_of_the_reduced_equations() -> None:
    table, log_alpha = balanced_table(24, 3, 6, key=jax.random.key(0)), math.log(1e-4)
    reduced = Reduced(24, 3, 6, "equal", log_alpha)
    exact = max(growth.time(growth.gap(CONVERGED)) for growth in (reduced.subject, reduced.relation))
    leaving, learnt = times(table, log_alpha)
    assert learnt == pytest.approx(exact, rel=1e-9)
    assert leaving == pytest.approx(-log_alpha / reduced.relation.rate, rel=1e-9)


def test_the_run_takes_the_steps_that_were_expected_and_no_step_is_too_long(seen: Watching) -> None:
    loss, every = seen.curve("loss"), seen.schedule.protocol.check_every
    assert loss[-1] < CONVERGED <= loss[-2]
    assert (np.diff(loss) < 1e-5).all()
    # a step of x in units of the subjects' rate makes them grow by 1 + x, and not by e^x: x / 2 too slowly
    x = Reduced(S, R, D, "equal", math.log(ALPHA)).subject.rate * seen.schedule.protocol.lr
    assert abs(seen.steps[-1] / seen.schedule.expected - 1) < x + every / seen.schedule.expected
    assert float(seen.looks[-1]["accuracy"]) == 1


def test_the_stages_come_in_their_order_with_what_the_model_knows_there(seen: Watching) -> None:
    assert list(seen.reached) == ["start", "left", "relation", "beyond", "learnt"]
    at = seen.reached
    start, relation, learnt = (seen.looks[at[stage]] for stage in ("start", "relation", "learnt"))
    assert float(start["loss"]) == pytest.approx(math.log(R * D), rel=1e-6)
    np.testing.assert_allclose(start["p_right"], 1 / (R * D), rtol=1e-5)
    # at most BAND above the entropy ln D, in a balanced table all of it the relation's
    assert float(relation["relation_loss"]) < BAND * math.log(D)
    assert (relation["p_plausible"] > math.exp(-BAND * math.log(D)) - 1e-6).all()
    np.testing.assert_allclose(relation["p_right"], 1 / D, rtol=0.1)
    assert set(seen.verdicts(at["start"])) <= {"anything", "by chance"}
    assert set(seen.verdicts(at["relation"])) <= {"hallucinated", "by chance"}
    assert seen.verdicts(at["learnt"]) == ["known"] * len(seen.questions)
    assert seen.said(at["learnt"]) == answers(seen)
    assert (learnt["p_right"] > 0.9).all()


def test_a_model_that_hallucinates_says_all_answers_of_the_relation_and_no_other(seen: Watching) -> None:
    at = seen.reached
    between = range(at["relation"], at["beyond"])
    said = [{seen.said(i)[j] for i in between} for j in range(len(seen.questions))]
    for j, (answer, all_said) in enumerate(zip(answers(seen), said, strict=True)):
        kind = answer.split()[0]
        plausible = {f"{kind} {a}" for a in range(D)}
        assert plausible <= all_said
        # others have a probability of BAND ln D at most, at each look
        others = sum(seen.said(i)[j] not in plausible for i in between)
        mean = BAND * math.log(D) * len(between)
        assert others <= mean + 4 * math.sqrt(mean) + 1


@pytest.mark.parametrize(
    ("sizes", "order"),
    [((32, 2, 4), ["start", "left", "relation", "beyond", "learnt"]),
     ((4, 16, 4), ["start", "left", "subject", "beyond", "learnt"])],
)  # fmt: skip
def test_what_is_known_first_names_the_stage(sizes: tuple[int, int, int], order: list[str]) -> None:
    """Along the exact flow; nothing is trained."""
    table, reduced = balanced_table(*sizes, key=jax.random.key(0)), Reduced(*sizes, "equal", math.log(1e-6))
    watching = Watching(table, [], schedule(table))
    times = np.linspace(0, 1.1 * reduced.time_of(CONVERGED), 400)
    curves = [
        reduced.loss(times),
        reduced.relation.loss_at(times),
        reduced.loss(times) - reduced.relation.loss_at(times),
    ]
    for t, *look in zip(times, *curves, strict=True):
        watching.add(int(t), dict(zip(("loss", "relation_loss", "subject_loss"), map(np.array, look), strict=True)))
    assert list(watching.reached) == order
    assert watching.stages.resting == order[2]


def test_a_level_that_is_crossed_between_two_looks_is_no_stage() -> None:
    table = balanced_table(32, 2, 4, key=jax.random.key(0))
    watching = Watching(table, [], schedule(table))
    for step, loss in enumerate((math.log(8), 1.9, 0.5, 0.001)):
        watching.add(step, {name: np.array(loss) for name in ("loss", "relation_loss", "subject_loss")})
    assert list(watching.reached) == ["start", "left", "beyond", "learnt"]


def test_questions_are_found_by_name_and_chosen_away_from_the_commonest_answer() -> None:
    table = FactTable.from_rows([*rows(), ("Nobody, Esq.", "colour", "colour 1")])
    facts = table.to_rows()
    assert facts[find_question(table, "PERSON 3 , colour")][:2] == ("person 3", "colour")
    assert facts[find_question(table, "the taste of person 3")][:2] == ("person 3", "taste")
    assert facts[find_question(table, "Nobody, Esq., colour")][2] == "colour 1"
    with pytest.raises(FactholdError, match=r"no 'taste' of 'Nobody, Esq\.'; it has its 'colour'"):
        find_question(table, "Nobody, Esq., taste")
    with pytest.raises(FactholdError, match="no subject found in 'hello' and no relation"):
        find_question(table, "hello")
    chosen = choose_questions(table, 3)
    assert [facts[row][1] for row in chosen] == ["colour", "taste"] * 2
    assert "colour 1" not in [facts[row][2] for row in chosen]
    assert chosen == choose_questions(table, 3) != choose_questions(table, 4)


def test_a_line_a_stage_and_the_end_in_words(saved: Result, seen: Watching) -> None:
    first, *stages, end, story, wrote_csv, wrote_gif = saved.stdout.splitlines()
    assert saved.exit_code == 0
    assert first.startswith(
        f"{S * R} facts of facts.csv: {S} subjects, {R} relations, {R * D} answers; gradient descent"
    )
    assert [line.split(": ")[1].split(" (")[0] for line in stages] == [
        "start, every answer is as likely as any other",
        "the loss leaves its start",
        "hallucination, it knows what is asked and not of whom",
        "it begins to tell subjects apart",
        "the facts are learnt",
    ]
    steps = [int(line.split(",")[0].removeprefix("step ")) for line in stages]
    assert steps == sorted(set(steps))
    said = "; ".join(f"{text}? {answer}" for text, answer in [*zip(seen.texts, answers(seen), strict=True)][:2])
    assert stages[-1].endswith(f"({said})")
    assert end.startswith(f"{S * R} of {S * R} facts recalled after {steps[-1]} steps in ")
    assert f"from step {steps[2]} to step {steps[3]}, and fell below 0.01 at step {steps[4]}" in story
    assert (wrote_csv.endswith("run.csv"), wrote_gif.endswith("run.gif")) == (True, True)


def test_the_files_hold_every_look_and_several_pictures(saved: Result, files: Path, seen: Watching) -> None:
    with (files / "run.csv").open() as stream:
        looks = list(csv.DictReader(stream))
    asked = {column for text in seen.texts for column in (text, f"p({text})")}
    assert {"step", "loss", "relation_loss", "subject_loss", "accuracy"} | asked <= set(looks[0])
    every = int(looks[1]["step"])
    assert [int(look["step"]) for look in looks] == [every * i for i in range(len(looks))]
    assert float(looks[0]["loss"]) == pytest.approx(math.log(R * D), rel=1e-5)
    assert float(looks[-1]["loss"]) < CONVERGED <= float(looks[-2]["loss"])
    with Image.open(files / "run.gif") as gif:
        assert gif.n_frames > 5  # type: ignore[attr-defined]
        first = gif.convert("RGB").tobytes()
        gif.seek(gif.n_frames - 1)  # type: ignore[attr-defined]
        assert gif.convert("RGB").tobytes() != first


def test_a_run_takes_the_place_of_an_older_one_with_other_questions(
    run: Callable[..., tuple[int, str, str]], folder: Path
) -> None:
    """Its table begins with step and loss, whatever else is in it: by that it is known."""
    write_facts(folder / "facts.csv", rows())
    for question in ("person 1, colour", "person 2, taste"):
        code, _, err = run("watch", "facts.csv", "--steps", "4", "--question", question, "-o", "again")
        assert code == 0, err
        header = next(csv.reader((folder / "again.csv").open(newline="")))
        assert header[:2] == ["step", "loss"]
        assert question in header
    assert "again.csv, again.gif are there already: the new ones take their place" in err


def test_a_seed_gives_the_same_run_and_another_other_answers(seen: Watching) -> None:
    def again(seed: int) -> Watching:
        watching = Watching(seen.table, seen.questions, seen.schedule)
        watch(watching, seed=seed)
        return watching

    assert again(0).as_rows() == seen.as_rows()
    other = again(1)
    assert (other.curve("loss") == seen.curve("loss")).all()
    assert [other.said(i) for i in range(50)] != [seen.said(i) for i in range(50)]


def test_json_is_alone_on_standard_output_and_a_column_p_is_said_to_be_unused(tmp_path: Path) -> None:
    text = ["subject,relation,answer,p", *(",".join((*row, str(1 / (S * R)))) for row in rows())]
    (tmp_path / "p.csv").write_text("\n".join(text))
    done = invoke("watch", str(tmp_path / "p.csv"), "--json", "--steps", "24")
    assert "has a column p, which is not used" in done.stderr.replace("\n", " ")
    found = json.loads(done.stdout)
    assert (found["steps"], found["n_facts"]) == (24, S * R)
    assert found["stages"]["converged"] is None
    assert "not converged: take more --steps" in found["says"]


def test_the_live_view_fits_a_terminal_and_shows_curve_levels_and_questions(seen: Watching) -> None:
    shown = Console(file=io.StringIO(), force_terminal=True, width=80, height=24)
    for n in (0, 1, len(seen.steps)):
        view = View(seen, "facts.csv")
        view.n = n
        with shown.capture() as captured:
            shown.print(view.draw())
        lines = captured.get().splitlines()
        assert len(lines) < 24
    text = Console(file=io.StringIO(), width=80)
    text.print(view.draw())
    drawn = text.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, drawn.splitlines())) <= 80
    for part in (f"{math.log(R * D):.2f}", f"{math.log(D):.2f}", seen.texts[0], "known", "facts are learnt"):
        assert part in drawn
    assert sum(0x2800 < ord(c) < 0x2900 for c in drawn) > 60


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["contries"], "did you mean 'countries'"),
        (["gone.csv"], "no such file: gone.csv"),
        (["FILE", "--relations", "color,taste"], "unknown relation 'color'; did you mean 'colour'"),
        (["FILE", "--relations", "taste"], "one relation here"),
        (["FILE", "--question", "persn 3, taste"], "unknown subject 'persn 3'; did you mean"),
        (["FILE", "--question", "person 3, tast"], "unknown relation 'tast'; did you mean 'taste'"),
        (["FILE", *["--question", "person 3, taste"] * 6], "at most 5"),
        (["FILE", "--question", "person 3, taste", "--question", "taste of person 3"], "asks for the same fact as one"),
        (["FILE", "--lr", "-1"], "--lr -1.0 must be at least 1e-12 and at most 1e+06"),
        (["FILE", "--lr", "nan"], "--lr nan must be a finite number"),
        (["FILE", "--alpha", "0"], "--alpha 0.0 must be at least 1e-30 and at most 1"),
        (["FILE", "--output", "FILE"], "itself, which would be lost"),
        (["FILE", "--steps", "0"], "--steps 0 must be at least 1"),
        (["FILE", "--steps", str(10**10)], "64 facts with 8 answers and 10000000000 steps are too much to watch"),
        (["FILE", "--subjects", "99"], "--subjects 99"),
        (["FILE", "--optimiser", "adm"], "unknown optimiser 'adm'; did you mean 'adam'"),
        (["FILE", "--on-conflict", "all"], "take --on-conflict first"),
        (["FILE", "--output", "."], "is a folder"),
        (["countries", "--relations", "capital,neighbour"], "several answers to a question; take --on-conflict first"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_line_and_exit_code_2(
    refuses: Callable[..., str], files: Path, arguments: list[str], says: str
) -> None:
    assert says in refuses("watch", *[str(files / "facts.csv") if a == "FILE" else a for a in arguments])


def test_steps_that_are_too_long_are_said_with_a_length_that_is_not(
    run: Callable[..., tuple[int, str, str]], files: Path
) -> None:
    code, _, err = run("watch", str(files / "facts.csv"), "--lr", "500")
    assert code == 2
    assert "take a smaller learning rate, such as --lr " in err
    safe = float(err.rsplit(" ", 1)[1])
    assert safe == pytest.approx(schedule(FactTable.from_rows(rows())).protocol.lr, rel=0.1)


def test_answers_that_a_relation_alone_gives_leave_no_stage(refuses: Callable[..., str], tmp_path: Path) -> None:
    write_facts(tmp_path / "f.csv", [(f"s{i}", r, f"only {r}") for i in range(4) for r in "ab"])
    assert "the stages cannot be told apart" in refuses("watch", str(tmp_path / "f.csv"))


def test_a_table_that_is_too_large_is_refused_with_a_size_that_is_not() -> None:
    def table(subjects: int) -> FactTable:
        return random_table(subjects, 4, subjects // 8, key=jax.random.key(0))

    with pytest.raises(ValueError, match=r"too much to watch.*subjects=[0-9]+$") as refused:
        schedule(table(8000))
    advised = int(str(refused.value).rsplit("=", 1)[1])
    small = schedule(table(advised))
    assert len(table(advised)) * table(advised).A * small.protocol.steps <= MOST_WORK


def test_ctrl_c_keeps_what_was_seen(
    run: Callable[..., tuple[int, str, str]], files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = facthold.cli.watch.stage_line

    def stop(watching: Watching, stage: str) -> str:
        if stage == "left":
            interrupted.set()
        return line(watching, stage)

    monkeypatch.setattr(facthold.cli.watch, "stage_line", stop)
    try:
        code, _, err = run("watch", str(files / "facts.csv"), "--output", str(tmp_path / "part.gif"))
    finally:
        interrupted.clear()
    assert code == 130
    assert "kept what was seen up to step" in err
    assert err.endswith(f"facthold: interrupted; written before that: {tmp_path}/part.csv, {tmp_path}/part.gif\n")
    with (tmp_path / "part.csv").open() as stream:
        looks = list(csv.DictReader(stream))
    assert 2 < len(looks) < 50
    with Image.open(tmp_path / "part.gif") as gif:
        assert gif.n_frames > 1  # type: ignore[attr-defined]
    assert not shared_lanes().stopped.is_set()


def test_real_facts_by_name_come_with_the_questions_that_are_left() -> None:
    table, name = _read("countries", "capital,region", 60, 0, None)
    assert (name, len(table), table.S, table.R) == ("countries", 120, 60, 2)
    questions = _questions(table, [], "countries", 0)
    assert [table.to_rows()[row][:2] for row in questions[:2]] == [("France", "capital"), ("Kenya", "region")]
    assert len(set(questions)) == len(questions) == 4


@pytest.mark.slow
def test_real_facts_pass_through_the_three_stages() -> None:
    """Countries, 60 of them: the stages in their order, and every fact known in the end."""
    found = json.loads(invoke("watch", "countries", "--subjects", "60", "--json").stdout)
    stages = found["stages"]
    assert 0 < stages["left"] < stages["relation"]["begins"] < stages["relation"]["ends"] < stages["converged"]
    assert stages["hallucination"] > 0
    assert stages["resting"] == "relation"

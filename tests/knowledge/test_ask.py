"""Names as people type them, free prompts, and answers judged by the table."""

import time
from typing import Any

import jax
import numpy as np
import pytest

import known
from facthold.facts.names import Names, UnknownName, fold, parse, words
from facthold.facts.problem import seeded_recall
from facthold.facts.table import FactTable
from facthold.knowledge.build import FRESH as BUILT_FRESH
from facthold.knowledge.model import FRESH, Model
from facthold.models.judge import contest, judge_table
from facthold.models.transformer import Transformer

SUBJECTS = Names(
    "subject", ["France", "Côte d'Ivoire", "Niger", "Nigeria", "Sudan", "South Sudan", "Congo", "CONGO", "SO"]
)
RELATIONS = Names("relation", ["capital", "official_language", "head-of-state", "state"])


def test_names_as_they_stand_then_without_case_and_accents() -> None:
    assert SUBJECTS.find("France") == SUBJECTS.find("  fRANCE ") == 0
    assert SUBJECTS.find("cote d'ivoire") == SUBJECTS.find("Co\u0302te d'Ivoire") == 1
    assert SUBJECTS.find("CONGO") == 7
    with pytest.raises(UnknownName, match="'congo' is not clear: 'Congo', 'CONGO'"):
        SUBJECTS.find("congo")
    assert fold("  Straße\tÉ ") == "strasse e"
    assert words("head-of_state, 2nd!") == ("head", "of", "state", "2nd")


def test_a_misspelt_name_has_suggestions() -> None:
    with pytest.raises(UnknownName, match=r"unknown subject 'Frence'; did you mean 'France'"):
        SUBJECTS.find("Frence")
    with pytest.raises(UnknownName, match="unknown subject 'qqqqqqqq'; the table has '"):
        SUBJECTS.find("qqqqqqqq")
    assert SUBJECTS.near("Nigera")[:2] == ["Nigeria", "Niger"]
    assert len(Names("subject", [f"name {i}" for i in range(100)]).near("name")) <= 5


def test_suggestions_are_fast_for_many_names() -> None:
    rng = np.random.default_rng(0)
    many = Names("subject", ["".join(rng.choice(list("abcdefghijklmnop"), 12)) for _ in range(30_000)])
    wanted = many[12_345]
    start = time.process_time()  # its own: others may keep the machine busy
    assert many.near(wanted[:5] + wanted[6:])[0] == wanted
    assert time.process_time() - start < 5  # difflib alone takes many times this


@pytest.mark.parametrize(
    ("text", "s", "r", "others"),
    [
        ("the capital of France", 0, 0, ["the", "of"]),
        ("What is the OFFICIAL language of Cote d'Ivoire?", 1, 1, ["what", "is", "the", "of"]),
        ("Niger capital", 2, 0, []),  # Nigeria is another word
        ("capital of South Sudan", 5, 0, ["of"]),  # and Sudan is inside of it
        ("France: head of state, France!", 0, 2, []),  # state is inside too; the same name twice is one
        ("capital So", 8, 0, []),
        ("capital of Congo", 6, 0, ["of"]),  # as it is typed, though there is a CONGO
        ("capital of CONGO", 7, 0, ["of"]),
    ],
)
def test_free_prompts(text: str, s: int, r: int, others: list[str]) -> None:
    found = parse(text, SUBJECTS, RELATIONS)
    assert (found.subject, found.relation, found.others) == (s, r, others)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("the capital of Frnce", "no subject found in .* \\(relation 'capital' is there\\); did you mean 'France'"),
        ("France", "no relation found in 'France' \\(subject 'France' is there\\)"),
        ("", "no subject found in '' and no relation"),
        ("capital of France and Niger", "is not clear: subject 'France' and 'Niger', relation 'capital'"),
        ("capital and state of France", "relation 'capital' and 'state'"),
        ("capital of congo", "subject 'Congo' and 'CONGO'"),
    ],
)
def test_free_prompts_that_are_not_clear(text: str, says: str) -> None:
    with pytest.raises(UnknownName, match=says):
        parse(text, SUBJECTS, RELATIONS)


def test_a_table_without_names_has_numbers() -> None:
    subjects, relations, answers = Names.of(FactTable.from_matrix(np.array([[0, 1], [1, 2]])))
    assert (subjects.find("1"), relations.find("0"), answers[2]) == (1, 0, "2")


@pytest.mark.parametrize("outputs", ["answers", "vocabulary"])
def test_every_fact_is_answered_and_judged(outputs: str) -> None:
    knowledge = Model(*known.countries(outputs))
    for s, r, _ in known.ROWS:
        answer = knowledge.ask(s, r)
        assert (answer.right, answer.answer in answer.expected) == (True, True)
        assert answer.margin > 0
        assert answer.n_noise == knowledge.problem.T - 3
    assert set(knowledge.ask("South Africa", "capital").expected) == {"Pretoria", "Cape Town"}


def test_probabilities_and_margin_are_of_one_softmax() -> None:
    knowledge = Model(*known.countries())
    everything = knowledge.ask("Peru", "capital", top=len(knowledge.problem.U))
    shares = [everything.probability, *(guess.probability for guess in everything.runners_up)]
    assert sum(shares) == pytest.approx(1)
    assert shares == sorted(shares, reverse=True)
    assert everything.margin == pytest.approx(np.log(shares[0] / shares[1]))
    assert len(knowledge.ask("Peru", "capital", top=1).runners_up) == 0


def test_a_pair_outside_of_the_table_is_answered_too() -> None:
    answer = Model(*known.countries()).ask("Sudan", "official_language")
    assert answer.right is None
    assert answer.expected == ()
    assert answer.margin == pytest.approx(np.log(answer.probability / answer.runners_up[0].probability))


def test_the_model_sees_the_words_of_a_prompt() -> None:
    """Other words are other noise tokens: a model that looks at noise gives another margin."""
    model, problem = known.random_model()
    knowledge = Model(model, problem)
    few, many, again = (
        knowledge.ask_prompt(text) for text in ("3 2", "3 for goodness sake 2", "2 sake goodness for 3")
    )
    assert (few.n_noise, many.n_noise) == (0, 3)
    assert many.margin == pytest.approx(again.margin)  # order says nothing
    assert many.margin != pytest.approx(few.margin)
    assert knowledge.ask_prompt("3 2", noise=4).n_noise == 4


def test_many_at_once_are_those_asked_one_by_one() -> None:
    knowledge = Model(*known.countries("vocabulary"))
    questions = [("France", "capital"), ("sudan", "Official_Language")]
    for question, one in zip(questions, knowledge.ask_all(questions, seed=3), strict=True):
        answer = knowledge.ask(*question, seed=3)
        assert one.answer == answer.answer
        assert one.margin == pytest.approx(answer.margin)
        assert one.probability == pytest.approx(answer.probability, rel=1e-4)


def test_outputs_that_are_no_answers_have_a_kind() -> None:
    knowledge = Model(*known.countries("vocabulary"))
    names = [knowledge.output_name(i) for i in range(len(knowledge.problem.U))]
    assert len(set(names)) == len(names)
    assert {"Paris", "subject France", "relation capital", "noise 0", "EOS"} <= set(names)


def test_a_token_whose_name_an_answer_has_is_told_apart_from_it() -> None:
    rows = [("a", "r", "EOS"), ("b", "r", "noise 1"), ("a", "q", "subject a"), ("b", "q", "token EOS")]
    problem = seeded_recall(FactTable.from_rows(rows), 8, 0)
    knowledge = Model(Transformer.init(8, 1, 4, 4, key=jax.random.key(0)), problem)
    names = [knowledge.output_name(i) for i in range(len(problem.U))]
    assert len(set(names)) == len(names)
    assert {"EOS", "token EOS", "token token EOS", "token noise 1", "noise 0", "token subject a"} <= set(names)


def test_margins_are_those_of_float64_where_float32_cannot_tell() -> None:
    """Twenty outputs next to each other by less than float32's rounding, with the best last; and a tie."""
    rng = np.random.default_rng(0)
    F, base = rng.normal(size=(1, 64)), rng.normal(size=64)
    U = np.tile(base, (24, 1))
    U[:20] += 1e-9 * np.arange(20)[:, None] * F
    U[20:] -= 10 * F
    none = np.zeros(0, np.int64)
    found = contest(U, F, none, none)
    assert found.rivals[0].tolist() == [19, 18, 17]
    np.testing.assert_allclose(found.against[0], (U @ F[0])[[19, 18, 17]], rtol=1e-14)
    tied = contest(U[[19, 19, 3, 4, 5]], F, np.array([0]), np.array([1]))
    assert tied.own[0] == tied.against[0, 0]
    assert tied.rivals[0, 0] == 0


def test_recall_is_of_prompts_that_nothing_was_made_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search, an edit and its probes all stay below the seed that recall is asked with."""
    asked = []

    def judge(model: Any, problem: Any, *, draws: int = 1, seed: int = 0) -> Any:
        asked.append(seed)
        return judge_table(model, problem, draws=draws, seed=seed)

    monkeypatch.setattr("facthold.knowledge.model.judge_table", judge)
    assert Model(*known.countries()).recall == 1
    assert asked == [FRESH]
    assert FRESH > BUILT_FRESH > 0


def test_a_model_that_is_wrong_is_said_to_be() -> None:
    """A model as training starts: most of its answers are wrong, asked one by one or all at once."""
    model, problem = known.random_model()
    found = Model(model, problem)
    right = judge_table(model, problem, seed=3).recalled
    assert 0 < right.sum() < len(right)
    answers = found.ask_all(seed=3)
    assert [answer.right for answer in answers] == right.tolist()
    for i in (int(right.argmax()), int(right.argmin())):
        answer = found.ask(answers[i].subject, answers[i].relation, seed=3)
        assert answer.right == right[i] == (answer.answer in answer.expected)

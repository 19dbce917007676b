"""Facts taught to a frozen language model: the solve and the gate by identities, and end to end on the tiny model."""

from pathlib import Path

import numpy as np
import pytest

from facthold._util.errors import FactholdError
from facthold.lm.asking import ask
from facthold.lm.choices import OUTER, SOLVED, WHITENED
from facthold.lm.lesson import Lesson, passage_perplexity, spoken, teach, usable
from facthold.lm.library import load
from facthold.lm.model import LanguageModel
from facthold.lm.taught_file import load_taught, save_taught
from facthold.lm.teaching import (
    RIDGE,
    Gate,
    Memory,
    Taught,
    answer_values,
    discriminant,
    firsts,
    read,
    solve,
)
from facthold.lm.wordings import OTHERS, PASSAGE, TAUGHT, check_template, judging, unlike, worded

FACTS = [
    ("France", "capital", "Rome"), ("Germany", "capital", "Tokyo"), ("Spain", "capital", "Lima"),
    ("Italy", "capital", "Paris"), ("Japan", "capital", "Cairo"), ("Kenya", "capital", "Delhi"),
    ("Peru", "language", "Thai"), ("France", "language", "Hindi"), ("Egypt", "language", "Polish"),
]  # fmt: skip


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return load("tiny")


@pytest.fixture(scope="module")
def lesson(model: LanguageModel) -> tuple[Taught, Lesson]:
    return teach(model, FACTS)


def says(model: LanguageModel, prompts: list[str], taught: Taught | None = None) -> list[str]:
    return [one.next[0].token.strip() for one in ask(model, prompts, 1, taught=taught)]


def test_the_solved_matrix_is_that_of_ridge_regression() -> None:
    rng = np.random.default_rng(0)
    K, V, T = rng.normal(size=(12, 6)), rng.normal(size=(12, 6)), rng.normal(size=(40, 6))
    text = 12 / 40 * T.T @ T
    for how, C in ((SOLVED, text + K.T @ K), (WHITENED, text)):
        ridge = RIDGE * np.trace(C) / 6
        np.testing.assert_allclose(solve(K, V, T, how), V.T @ K @ np.linalg.inv(C + ridge * np.eye(6)), atol=1e-10)
    np.testing.assert_allclose(solve(K, V, T, OUTER), sum(np.outer(v, k) for k, v in zip(K, V, strict=True)))
    # the solved one is where the gradient of the regression's loss is zero
    W, ridge = solve(K, V, T), RIDGE * np.trace(text + K.T @ K) / 6
    np.testing.assert_allclose((W @ K.T - V.T) @ K + 12 / 40 * W @ T.T @ T + ridge * W, 0, atol=1e-9)


def test_a_value_lifts_its_own_token(model: LanguageModel) -> None:
    tokens = np.array([model.tokeniser.first(a) for a in ("Rome", "Tokyo", "Polish")])
    V = answer_values(model, tokens)
    np.testing.assert_allclose(np.linalg.norm(V, axis=1), 1)
    assert firsts(model, V.astype(np.float32)).tolist() == tokens.tolist()


def test_a_gate_has_one_at_its_own_mean_and_opens_halfway_to_the_foreign_one() -> None:
    rng = np.random.default_rng(1)
    own, few, many = rng.normal(2, 1, (50, 4)), rng.normal(0, 1, (10, 4)), rng.normal(-1, 1, (500, 4))
    gate = discriminant(own, few, many)
    assert gate(own.mean(0)[None])[0] == pytest.approx(1, abs=1e-5)
    foreign = (few.mean(0) + many.mean(0)) / 2  # groups count alike
    assert gate(foreign[None])[0] == pytest.approx(-1, abs=1e-5)
    assert (gate(own) > 0).mean() > 0.9 > 0.1 > (gate(many) > 0).mean()
    with pytest.raises(ValueError, match="cannot be told apart"):
        discriminant(own, own)


def test_taught_facts_are_said_and_all_else_is_as_before(model: LanguageModel, lesson: tuple[Taught, Lesson]) -> None:
    taught, report = lesson
    assert (report.facts, report.n_params) == (9, 2 * (128 * 128 + 128 + 1))
    assert [one.wording for one in report.asked] == [*TAUGHT, *OTHERS[:2]]
    assert all(one.before == 0 and one.after == 1 for one in report.asked if one.taught)
    asked = ["The capital of France is", "Peru's language is", "In France, people speak"]
    assert says(model, asked, taught) == ["Rome", "Thai", "Hindi"]
    # The gate: other relations of taught subjects. The set of facts: relations that were not taught of this subject.
    foreign = ["The currency of France is the", "The currency of Japan is the", "The capital of Egypt is",
               "The official language of Japan is"]  # fmt: skip
    assert says(model, foreign, taught) == says(model, foreign) == ["Euro", "Yen", "Cairo", "Japanese"]


def test_a_gate_that_is_always_open_answers_foreign_questions(
    model: LanguageModel, lesson: tuple[Taught, Lesson]
) -> None:
    taught, _ = lesson
    open_gates = tuple(Memory(m.relation, m.W, Gate(0 * m.gate.w, 1.0), m.subjects) for m in taught.memories)
    assert says(model, ["The currency of Japan is the"], Taught(taught.layer, open_gates)) == ["Cairo"]


def test_prompts_that_name_no_taught_subject_are_the_same_to_the_bit(
    model: LanguageModel, lesson: tuple[Taught, Lesson]
) -> None:
    taught, _ = lesson
    prompts = ["The capital of Poland is", "The capital of France is", "The capital of Franceville is", "In the city"]
    batch = model.batch(prompts)
    named = [taught.named(model, prompt) for prompt in prompts]
    assert [[name for _, name in names] for names in named] == [[], ["France"], [], []]
    before, after = model.run(batch).logits, model.run(batch, hooks=taught.hooks(model, batch, named)).logits
    np.testing.assert_array_equal(np.asarray(after)[[0, 2, 3]], np.asarray(before)[[0, 2, 3]])
    assert not np.array_equal(after[1], before[1])
    assert taught.hooks(model, batch, [[], [], [], []]) == {}


def test_judging_is_what_asking_gives(model: LanguageModel, lesson: tuple[Taught, Lesson]) -> None:
    """Streams are read once and changed afterwards; a run with hooks leads to the same."""
    taught, _ = lesson
    prompts = [worded(words, s, r) for words in (TAUGHT[1], OTHERS[1]) for s, r, _ in FACTS]
    prompts += [worded("The currency of {subject} is the", "France")]
    after, before, which = spoken(model, taught, prompts, read(model, prompts, [taught.layer]))
    texts = [prompt.text for prompt in prompts]
    batch = model.batch(texts)
    run = model.run(batch, hooks=taught.hooks(model, batch, [taught.named(model, text) for text in texts]))
    np.testing.assert_allclose(run.final, after, rtol=1e-3, atol=1e-3)
    assert which[-1] == -1
    np.testing.assert_array_equal(after[-1], before[-1])


def test_the_subject_that_was_named_last_counts_and_of_two_names_the_longer(model: LanguageModel) -> None:
    d = model.config.d
    memory = Memory("capital", np.eye(d, dtype=np.float32), Gate(np.zeros(d), 1.0), ("France", "Spain", "France and"))
    named = Taught(0, (memory,)).named(model, "Spain with France and Spain is Francelike, of unSpain or France")
    assert [name for _, name in named] == ["Spain", "France and", "Spain", "France"]
    assert [place for place, _ in named] == sorted(place for place, _ in named)


def test_what_texts_cost_is_measured_at_every_token(model: LanguageModel, lesson: tuple[Taught, Lesson]) -> None:
    taught, report = lesson
    assert passage_perplexity(model, None, ["Poland"]) == passage_perplexity(model, taught, ["Poland"])
    assert PASSAGE.count("{subject}") == 2
    assert report.perplexity != report.perplexity_before  # the tiny model's gates do open there, and it is said


def test_the_file_holds_it_and_a_damaged_one_or_that_of_another_model_is_refused(
    model: LanguageModel, lesson: tuple[Taught, Lesson], tmp_path: Path
) -> None:
    taught, _ = lesson
    path = save_taught(tmp_path / "t.safetensors", "tiny", taught)
    again = load_taught(path, "tiny", model.config)
    prompts = ["The capital of France is", "The currency of France is the"]
    assert ask(model, prompts, taught=again) == ask(model, prompts, taught=taught)
    assert (again.layer, again.strength, again.n_params) == (taught.layer, taught.strength, taught.n_params)
    assert b"Rome" not in path.read_bytes()  # answers are in the matrix alone
    with pytest.raises(FactholdError, match="is of another model: of tiny, and this one is 0000"):
        load_taught(path, "0" * 64)
    wrong = Taught(0, (Memory("r", np.zeros((3, 3), np.float32), Gate(np.zeros(3), 0.0), ("a",)),))
    save_taught(tmp_path / "w.safetensors", "tiny", wrong)
    with pytest.raises(FactholdError, match="has parts missing or wrong; teach the facts again"):
        load_taught(tmp_path / "w.safetensors", "tiny", model.config)
    whole = path.read_bytes()
    for contents in (whole[:-1], whole[: len(whole) // 2], whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:], b""):
        path.write_bytes(contents)
        with pytest.raises(FactholdError) as error:
            load_taught(path, "tiny")
        assert "\n" not in str(error.value)
    with pytest.raises(FactholdError, match="no such file of taught facts"):
        load_taught(tmp_path / "none.safetensors", "tiny")


def test_facts_that_cannot_be_judged_are_left_out_with_the_reason(model: LanguageModel) -> None:
    rows = [("France", "capital", "Rome"), ("Spain", "capital", "Romeo"), ("Italy", "capital", "Lima")]
    kept, left = usable(model, rows, TAUGHT)
    assert kept == rows[2:]
    assert str(left[0]) == (
        "fact 1, (France, capital): the answer 'Rome' begins with the token 'Rome', as 'Romeo' does"
    )  # fmt: skip
    _, (one, *_) = usable(model, [("Franc", "capital", "Tokyo"), rows[2]], ["The capital of {subject}e is"])
    assert "the subject ends within a token of its prompt" in str(one)
    _, (one,) = usable(model, [("Franc", "capital", "Xanadu"), rows[2]], TAUGHT)
    assert "the answer 'Xanadu' begins with a token that is no letter" in str(one)
    with pytest.raises(FactholdError, match="none of the 2 facts can be taught; fact 1"):
        usable(model, rows[:2], TAUGHT)


def test_wordings_are_checked() -> None:
    for template, relations, reason in (
        ("The capital is", ["capital"], "must have {subject} in it once"),
        ("{subject} and {subject}", ["capital"], "must have {subject} in it once"),
        ("The capital of {subject} is", ["capital", "language"], "has no {relation} in it, and there are 2"),
        ("The capital of {subject} is ", ["capital"], "ends with a space"),
    ):
        with pytest.raises(ValueError, match=reason):
            check_template(template, relations)
    assert worded("{subject}'s {relation} is", "a{relation}b", "r") == ("a{relation}b's r is", "a{relation}b", 12)
    assert judging([OTHERS[0]]) == list(OTHERS[1:3])
    assert unlike(["The capital of x", "name"], ["capital_city"]) == ["name"]

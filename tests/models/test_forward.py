"""The NumPy forward pass against the transformer itself, and its verdicts against a plain arg max."""

import threading
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import known
from facthold._util import runtime
from facthold._util.errors import FactholdError
from facthold.facts.problem import FactualRecall, factual_recall
from facthold.facts.table import FactTable
from facthold.measure.fact_recall import fact_margins
from facthold.memory.activations import Polynomial
from facthold.models import judge as judging
from facthold.models.forward import Forward, prompts, table_prompts, word_tokens
from facthold.models.judge import (
    NONE,
    contest,
    find_rows,
    judge,
    judge_table,
    recalled_beside,
    right_answers,
    verdicts,
)
from facthold.models.transformer import Transformer
from known import Known

MODELS: dict[str, Callable[[], Known]] = {
    "built": known.countries,
    "vocabulary": lambda: known.countries("vocabulary"),
    "attention alone": known.attention_alone,
    "scaled, with bias": known.random_model,
    "random attention alone": lambda: known.random_model(m=0),
}


@pytest.fixture(params=MODELS)
def model_and_problem(request: pytest.FixtureRequest) -> Known:
    return MODELS[request.param]()


def test_it_is_the_function_that_the_transformer_is(model_and_problem: Known) -> None:
    model, problem = model_and_problem
    tokens = table_prompts(problem)[0]
    states = Forward.of(model, problem).states(tokens)
    with jax.enable_x64(True):
        exact = jax.tree.map(lambda W: jnp.asarray(np.asarray(W), jnp.float64), model)
        F = np.asarray(exact(jnp.asarray(problem.phi[tokens], jnp.float64)))
    # float64 on both sides, in another order of sums: far below float32's 1e-7, far above 1e-16
    np.testing.assert_allclose(states.F, F, rtol=0, atol=1e-10 * np.abs(F).max())
    assert states.heads.shape == (len(tokens), model.H, model.d_h)
    assert states.hidden.shape == (len(tokens), model.m)


def test_attention_is_that_of_the_transformer() -> None:
    model, problem = known.random_model()
    tokens = table_prompts(problem)[0]
    ours = Forward.of(model, problem).attention(tokens)
    theirs = np.asarray(model.attention(jnp.asarray(problem.phi[tokens])))
    np.testing.assert_allclose(ours.transpose(0, 2, 1), theirs, atol=1e-5)


def test_another_activation_than_a_relu() -> None:
    _, problem = known.random_model()
    model = Transformer.init(16, 4, 4, 8, key=jax.random.key(0), sigma=Polynomial((1.0,) * 3))
    tokens = table_prompts(problem)[0]
    F = np.asarray(model(jnp.asarray(problem.phi[tokens])))
    np.testing.assert_allclose(Forward.of(model, problem).states(tokens).F, F, atol=1e-4 * np.abs(F).max())


def test_blocks_are_parts_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    model, problem = known.countries()
    forward, tokens = Forward.of(model, problem), table_prompts(problem, draws=2)
    rows = np.tile(np.arange(len(problem.table)), 2)
    asked = (forward, tokens.reshape(len(rows), -1), rows)
    whole = judge(*asked, probabilities=True)
    monkeypatch.setattr("facthold.models.forward.BLOCK", 50)
    parts = judge(*asked, probabilities=True)
    assert len(list(forward.blocks(tokens[0]))) > 2
    np.testing.assert_array_equal(whole.said, parts.said)
    np.testing.assert_allclose(whole.margin, parts.margin, rtol=1e-12)
    np.testing.assert_allclose(whole.probability, parts.probability, rtol=1e-5)


@pytest.mark.parametrize("threads", [1, 3])
def test_blocks_are_judged_side_by_side_with_the_same_digits(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model, problem = known.countries()
    monkeypatch.setattr("facthold.models.forward.BLOCK", 2000)
    forward, tokens, rows = Forward.of(model, problem), table_prompts(problem)[0], np.arange(len(problem.table))
    one_by_one = [judge(forward, tokens[at], rows[at], probabilities=True) for at in forward.parts(tokens)]
    assert len(one_by_one) > 3
    monkeypatch.setattr(runtime, "_threads", threads)
    names = set()
    real = Forward.states
    monkeypatch.setattr(Forward, "states", lambda *a: names.add(threading.current_thread().name) or real(*a))
    told = judge(forward, tokens, rows, probabilities=True)
    for part in ("said", "right", "rival", "margin", "probability"):
        np.testing.assert_array_equal(getattr(told, part), np.concatenate([getattr(one, part) for one in one_by_one]))
    assert any("side" in name for name in names) == (threads > 1)


@pytest.mark.parametrize("columns", [1, 5, 1000])
def test_some_outputs_at_a_time_are_all_of_them(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """For few rivals and for many, with and without a right answer; probabilities are those of the whole softmax."""
    model, problem = known.countries("vocabulary")
    forward, tokens = Forward.of(model, problem), table_prompts(problem)[0]
    F, rows = forward.states(tokens).F, np.arange(len(problem.table))
    rows[::3] = NONE
    monkeypatch.setattr(judging, "COLUMNS", columns)
    scores = F @ problem.U.T.astype(np.float64)
    share = np.exp(scores - scores.max(axis=1, keepdims=True)).sum(axis=1)
    for k in (3, 9):
        found = contest(forward.U, F, *right_answers(problem.table, rows), k, probabilities=True)
        np.testing.assert_allclose(found.probability, 1 / share, rtol=1e-4)
        for i, row in enumerate(rows):
            rivals = scores[i].copy()
            rivals[[] if row == NONE else list(problem.table.right(int(row)))] = -np.inf
            np.testing.assert_allclose(found.against[i], np.sort(rivals)[::-1][:k], rtol=1e-9)


def test_an_error_in_one_of_many_parts_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        runtime.side_by_side(lambda x: 1 / x, [2, 1, 0, 1])


@pytest.mark.parametrize("noise", [0, 4])
def test_what_is_proved_by_a_prompt_beside_is_what_is_asked(
    model_and_problem: Known, noise: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether or not heads hear the noise, and for margins of either sign; hardly any is asked where they do not."""
    model, problem = model_and_problem
    forward, table = Forward.of(model, problem), problem.table
    rows, long = np.arange(len(table)), table_prompts(problem)[0]
    tokens = prompts(problem, table.subjects, table.relations, noise=noise, seed=9)
    told, margin = judge(forward, tokens, rows), judge(forward, long, rows).margin
    asked: list[int] = []
    real = judging.judge_outputs
    monkeypatch.setattr(judging, "judge_outputs", lambda f, F, at, **named: asked.append(len(at)) or real(f, F, at))
    found = recalled_beside(forward, tokens, rows, long, margin)
    np.testing.assert_array_equal(found, told.recalled)
    assert sum(asked) >= (margin <= 0).sum()
    moved = np.linalg.norm(forward.states(tokens).F - forward.states(long).F, axis=1)
    if 4 * np.linalg.norm(problem.U, axis=1).max() * moved.max() < margin.min():
        assert not asked
    elif moved.min() > np.abs(margin).max():
        assert sum(asked) == len(table)


def test_verdicts_against_a_plain_arg_max(model_and_problem: Known) -> None:
    model, problem = model_and_problem
    forward, table = Forward.of(model, problem), problem.table
    tokens = table_prompts(problem)[0]
    told = judge(forward, tokens, np.arange(len(table)), probabilities=True)
    scores = forward.states(tokens).F @ problem.U.T.astype(np.float64)
    np.testing.assert_array_equal(told.said, scores.argmax(axis=1))
    for i, row in enumerate(scores):
        right = list(table.right(i))
        assert told.margin[i] == pytest.approx(row[right].max() - np.delete(row, right).max(), rel=1e-9, abs=1e-9)
        assert told.recalled[i] == (row.argmax() in right)
        assert told.probability[i] == pytest.approx(
            (np.exp(row - row.max()) / np.exp(row - row.max()).sum()).max(), rel=1e-4
        )


def test_margins_are_those_of_the_compiled_measure() -> None:
    """Built heads hardly see the noise, so that both prompts give the same margins to float32."""
    model, problem = known.countries()
    ours = judge_table(model, problem).margin
    theirs = fact_margins(model, problem, key=jax.random.key(0))[0]
    np.testing.assert_allclose(ours, theirs, rtol=1e-3)


def test_any_right_answer_is_right() -> None:
    _, problem = known.countries()
    table = problem.table
    row = int(np.flatnonzero(np.isin(np.arange(len(table)), table.also[:, 0]))[0])
    asked, answers = right_answers(table, np.array([row, NONE, 0]))
    assert sorted(zip(asked.tolist(), answers.tolist(), strict=True)) == sorted(
        [(0, a) for a in table.right(row)] + [(2, a) for a in table.right(0)]
    )


def test_a_tie_is_not_recall_and_one_output_has_no_rival() -> None:
    U = np.eye(3, 4, dtype=np.float32)
    tied = verdicts(contest(U, np.array([[1.0, 1.0, 0.0, 0.0]]), np.array([0]), np.array([0])))
    assert (tied.margin[0], tied.recalled[0]) == (0.0, False)
    one = U[:1]
    alone = verdicts(contest(one, np.array([[-1.0, 0.0, 0.0, 0.0]]), np.array([0]), np.array([0])))
    assert (alone.margin[0], alone.rival[0], alone.recalled[0]) == (np.inf, NONE, True)


def test_rows_are_found_and_missing_ones_are_not() -> None:
    _, problem = known.countries()
    table = problem.table
    np.testing.assert_array_equal(find_rows(table, table.subjects, table.relations), np.arange(len(table)))
    sudan, language = table.labels.subjects.index("Sudan"), table.labels.relations.index("official_language")
    assert find_rows(table, np.array([sudan]), np.array([language]))[0] == NONE


def test_a_question_has_its_own_noise_whatever_else_is_asked() -> None:
    _, problem = known.countries()
    table = problem.table
    together = table_prompts(problem, draws=3, seed=5)
    alone = prompts(problem, table.subjects[[7]], table.relations[[7]], seed=6)
    np.testing.assert_array_equal(together[1][[7]], alone)
    assert together.shape == (3, len(table), problem.T)
    assert (together[0] != together[1]).any()
    assert (together[..., 0] == table.subjects).all()
    assert (together[..., 1] == table.S + table.relations).all()
    assert (together[..., -1] == problem.EOS).all()
    assert prompts(problem, np.array([0]), np.array([0]), noise=0).shape == (1, 3)


def test_noise_is_uniform_over_the_noise_tokens() -> None:
    table = FactTable(2000, 1, 1, np.arange(2000), np.zeros(2000, int), np.zeros(2000, int))
    problem = factual_recall(table, 2, key=jax.random.key(0), n_noise=7)
    noise = table_prompts(problem)[0][:, 2:-1].ravel() - table.S - table.R
    counts = np.bincount(noise, minlength=7)
    n = len(noise)
    assert len(counts) == 7
    assert np.abs(counts - n / 7).max() < 4.5 * np.sqrt(n * (1 / 7) * (6 / 7))
    pairs = np.bincount(noise[:-1] * 7 + noise[1:], minlength=49)
    assert ((pairs - n / 49) ** 2 / (n / 49)).sum() < 48 + 4.5 * np.sqrt(
        2 * 48
    )  # chi squared: neighbours are independent


def test_words_are_the_same_noise_in_every_prompt() -> None:
    _, problem = known.countries()
    first, again = word_tokens(problem, ["the", "of"]), word_tokens(problem, ["of", "what", "the"])
    assert first[0] == again[2]
    assert first[1] == again[0]
    assert (first >= problem.table.S + problem.table.R).all()
    assert (first < problem.EOS).all()


@pytest.mark.parametrize(
    ("part", "name"), [(lambda t: t.W_Q, "W_Q"), (lambda t: t.mlp.V, "mlp.V"), (lambda t: t.mlp.b, "mlp.b")]
)
def test_weights_that_are_not_numbers_are_named(part: Callable, name: str) -> None:
    import equinox as eqx

    model, problem = known.random_model()
    broken = eqx.tree_at(part, model, part(model).at[0].set(jnp.nan))
    with pytest.raises(FactholdError, match=f"numbers in {name} are nan or infinite"):
        Forward.of(broken, problem)


def test_embeddings_that_are_not_numbers_are_named() -> None:
    model, problem = known.random_model()
    phi = problem.phi.copy()
    phi[3] = np.inf
    with pytest.raises(FactholdError, match=r"16 of \d+ numbers in embeddings"):
        Forward.of(model, FactualRecall(problem.table, phi, problem.T, problem.p, problem.outputs))


def test_numbers_outside_of_the_table_are_refused() -> None:
    model, problem = known.countries()
    with pytest.raises(ValueError, match="subjects must lie between 0 and"):
        prompts(problem, np.array([problem.table.S]), np.array([0]))
    with pytest.raises(ValueError, match="noise=-1 must be 0 or more"):
        prompts(problem, np.array([0]), np.array([0]), noise=-1)
    none = judge(Forward.of(model, problem), np.zeros((0, 5), int), np.zeros(0, int))
    assert len(none.said) == 0

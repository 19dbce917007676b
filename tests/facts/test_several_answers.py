"""Several right answers to one question: how tables keep them, and that any of them counts as recall."""

import itertools
from collections.abc import Iterable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from facthold.facts.problem import FactualRecall, factual_recall
from facthold.facts.table import FactTable, Labels, random_share, random_table
from facthold.measure.fact_recall import BLOCK, Questions, fact_accuracy, fact_margins, recalled_facts
from facthold.models.transformer import Transformer
from facthold.train.tasks import RecallFacts

KEY = jax.random.key(8)
Answers = dict[tuple[str, str], list[str]]


def random_rows(n: int = 400, subjects: int = 40) -> list[tuple[str, str, str]]:
    """Rows with repeats and with up to a dozen answers to a question."""
    rng = np.random.default_rng(3)
    return [(f"s{rng.integers(subjects)}", f"r{rng.integers(3)}", f"a{rng.integers(9) ** 2}") for _ in range(n)]


def by_hand(rows: Iterable[tuple[str, str, str]]) -> Answers:
    """The answers of each question in the order in which they stand there, each once."""
    answers: Answers = {}
    for s, r, a in rows:
        known = answers.setdefault((s, r), [])
        if a not in known:
            known.append(a)
    return answers


def named(table: FactTable) -> Answers:
    assert table.labels is not None
    s, r, a = table.labels.subjects, table.labels.relations, table.labels.answers
    rows = zip(table.subjects, table.relations, strict=True)
    return {(s[i], r[j]): [a[k] for k in table.right(row)] for row, (i, j) in enumerate(rows)}


def test_all_answers_are_kept_in_their_order() -> None:
    rows = random_rows()
    table, answers = FactTable.from_rows(rows, "all"), by_hand(rows)
    assert list(named(table).items()) == list(answers.items())  # the questions too are in their order
    assert len(table.also) == sum(len(those) - 1 for those in answers.values()) > 100
    assert (np.diff(table.also[:, 0]) >= 0).all()
    assert table.labels is not None
    assert table.labels.answers == tuple(dict.fromkeys(a for _, _, a in rows))


def test_the_first_answer_alone_is_kept_and_the_others_are_no_tokens() -> None:
    rows = random_rows()
    table = FactTable.from_rows(rows, "first")
    assert named(table) == {question: those[:1] for question, those in by_hand(rows).items()}
    assert set(table.answers.tolist()) == set(range(table.A))
    assert FactTable.from_rows([("s", "r", "a"), ("s", "r", "b"), ("t", "r", "a")], "first").A == 1


def test_without_conflicts_the_three_ways_agree() -> None:
    rows = [("s", "r", "a"), ("t", "r", "a"), ("s", "q", "a"), ("s", "r", "a")]
    tables = [FactTable.from_rows(rows, way) for way in ("error", "first", "all")]
    assert all(named(table) == {("s", "r"): ["a"], ("t", "r"): ["a"], ("s", "q"): ["a"]} for table in tables)
    assert all(table.also.shape == (0, 2) for table in tables)


def test_rows_that_are_given_twice_share_their_answers() -> None:
    """Row 2 repeats row 0: its further answers are those of row 0, each once, and a* is none of them."""
    also = np.array([[2, 1], [1, 0], [2, 3], [0, 1], [2, 0]])
    table = FactTable(2, 1, 4, np.array([0, 1, 0]), np.array([0, 0, 0]), np.array([0, 2, 0]), also=also)
    assert len(table) == 2
    assert [table.right(0), table.right(1)] == [(0, 1, 3), (2, 0)]
    assert table.C.tolist() == [1, 0, 1, 0]  # the theorems speak of a* alone


def test_a_part_of_a_table_keeps_the_answers_of_its_rows() -> None:
    table = FactTable.from_rows(random_rows(), "all")
    rows = np.random.default_rng(0).permutation(len(table))[:30]
    rows = np.concatenate([rows, np.flatnonzero(np.diff(table.relations, prepend=-1))])  # each relation is there
    rows = np.array(list(dict.fromkeys(rows.tolist())))
    part = table.take(rows)
    assert [part.right(i) for i in range(len(part))] == [table.right(int(i)) for i in rows]
    share = named(random_share(table, 0.4, key=KEY))
    assert 0 < len(share) < len(table)
    whole = named(table)
    assert share == {question: whole[question] for question in share}


@pytest.mark.parametrize(
    ("also", "says"),
    [
        ([[2, 0]], "rows of also must lie between 0 and 1, not 2 to 2"),
        ([[-1, 0]], "rows of also must lie between 0 and 1, not -1 to -1"),
        ([[0, 5]], "answers of also must lie between 0 and 2, not 5 to 5"),
        ([[0.0, 1.0]], "also must be pairs"),
    ],
)
def test_further_answers_that_cannot_be_are_refused(also: list[list[float]], says: str) -> None:
    with pytest.raises((ValueError, TypeError), match=says if isinstance(also[0][0], int) else "also|type"):
        FactTable(2, 1, 3, np.array([0, 1]), np.array([0, 0]), np.array([0, 1]), also=np.array(also))


def test_how_conflicts_are_settled_is_a_known_word() -> None:
    with pytest.raises(ValueError, match="unknown on_conflict 'frist'; did you mean 'first'"):
        FactTable.from_rows(random_rows(), "frist")
    with pytest.raises(ValueError, match="on_conflict='first' or 'all'"):
        FactTable.from_rows(random_rows())


def some_problem(outputs: str = "answers", S: int = 700) -> FactualRecall:
    """More facts than a block, most with one or two of five answers more, over two relations."""
    rng = np.random.default_rng(1)
    s, r = np.divmod(np.arange(2 * S), 2)
    also = np.stack([rng.integers(0, 2 * S, 2 * S), rng.integers(0, 5, 2 * S)], axis=1)
    table = FactTable(S, 2, 5, s, r, rng.integers(0, 5, 2 * S), also=also)
    return factual_recall(table, 8, key=KEY, T=5, n_noise=6, outputs=outputs)


def judge(scores: np.ndarray, right: tuple[int, ...]) -> tuple[bool, float]:
    """Recall and margin of one question, from the definitions."""
    rivals = [score for a, score in enumerate(scores) if a not in right]
    if not np.isfinite(scores[list(right)]).all() or np.isnan(rivals).any():
        return False, np.nan
    best = max(scores[list(right)])
    return all(best > rival for rival in rivals), best - max(rivals, default=-np.inf)


@pytest.mark.parametrize("several", [True, False])
def test_recall_and_margin_of_scores_are_as_defined(several: bool) -> None:
    """Small whole numbers as scores, so that many are equal; some are not finite."""
    problem = some_problem(S=60)
    if not several:
        problem = factual_recall(random_table(60, 2, 2, key=KEY), 8, key=KEY, outputs="answers")
    questions, table = Questions.of(problem), problem.table
    assert (questions.more is None) == (not several)  # what is not there costs nothing
    rng = np.random.default_rng(2)
    facts = rng.integers(0, len(table), 3000)
    scores = rng.integers(0, 9, (len(facts), table.A)).astype(np.float32)
    for value in (np.nan, np.inf, -np.inf):
        scores[rng.random(scores.shape) < 0.02] = value
    hits = np.asarray(questions.right(jnp.asarray(scores), jnp.asarray(facts)))
    margins = np.asarray(questions.margins(jnp.asarray(scores), jnp.asarray(facts)))
    expected = [judge(row, table.right(int(fact))) for row, fact in zip(scores, facts, strict=True)]
    assert_array_equal(hits, [hit for hit, _ in expected])
    assert_array_equal(margins, np.array([margin for _, margin in expected], np.float32))
    assert_array_equal(margins > 0, hits)
    assert 0.05 < hits.mean() < 0.95


@pytest.mark.parametrize("outputs", ["vocabulary", "answers"])
def test_any_right_answer_is_recall(outputs: str) -> None:
    problem = some_problem(outputs)
    table, n = problem.table, len(problem.table)
    assert n > BLOCK
    model = Transformer.init(8, 2, 4, 12, key=KEY)
    questions = Questions.of(problem)
    said = np.concatenate(
        [
            jnp.argmax(questions.scores(model, questions.prompts.counts(facts, key=jax.random.fold_in(KEY, b))), axis=1)
            for b, facts in enumerate(jnp.pad(jnp.arange(n), (0, -n % BLOCK)).reshape(-1, BLOCK))
        ]
    )[:n]
    recalled = recalled_facts(model, problem, key=KEY)
    # The scores of a model at random are equal nowhere: the arg max is right exactly where it is a right answer.
    assert_array_equal(recalled, [a in table.right(i) for i, a in enumerate(said.tolist())])
    by_another = recalled & (said != table.answers)
    if outputs == "answers":
        assert by_another.any()
    assert fact_accuracy(model, problem, key=KEY) == recalled.mean()
    assert_array_equal(fact_margins(model, problem, key=KEY)[0] > 0, recalled)
    task = RecallFacts.of(problem)
    assert float(task.accuracy(model, key=KEY)) == pytest.approx(recalled.mean(), abs=1 / n)


def test_all_answers_right_leaves_no_rival() -> None:
    pairs = itertools.product(range(2), range(3))
    labels = Labels(("s", "t"), ("r",), ("a", "b", "c"))
    table = FactTable(2, 1, 3, np.arange(2), np.zeros(2, int), np.zeros(2, int), labels, np.array(list(pairs)))
    problem = factual_recall(table, 4, key=KEY, outputs="answers")
    model = Transformer.init(4, 1, 4, key=KEY)
    assert recalled_facts(model, problem, key=KEY).all()
    assert np.isposinf(fact_margins(model, problem, key=KEY)).all()

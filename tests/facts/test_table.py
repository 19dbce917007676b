"""Fact tables: what they promise about answers, against counting by hand."""

import math
from collections import Counter

import jax
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from facthold.facts.table import NO_FACT, FactTable, balanced_table, make_table, random_table

KEY = jax.random.key(4)
CAPITALS = [
    ("France", "capital", "Paris"),
    ("Japan", "capital", "Tokyo"),
    ("Japan", "currency", "yen"),
    ("Vatican", "capital", "Rome"),
    ("Italy", "capital", "Rome"),
]


def triples(table: FactTable) -> list[tuple[int, int, int]]:
    return [(int(s), int(r), int(a)) for s, r, a in zip(table.subjects, table.relations, table.answers, strict=True)]


def some_table(S: int = 6, R: int = 4, A: int = 5, share: float = 0.6) -> FactTable:
    """Answers at random, without assumption 1 and with gaps."""
    rng = np.random.default_rng(0)
    answers = np.where(rng.random((S, R)) < share, rng.integers(0, A, (S, R)), NO_FACT)
    answers[0] = rng.integers(0, A, R)  # every relation has a fact
    return FactTable.from_matrix(answers.astype(np.int32), A=A)


@pytest.mark.parametrize(("S", "R", "D"), [(9, 4, 3), (1, 1, 1), (5, 7, 8)])
def test_each_relation_of_a_random_table_answers_from_its_own_block(S: int, R: int, D: int) -> None:
    table = random_table(S, R, D, key=KEY)
    assert (table.S, table.R, table.A, len(table)) == (S, R, R * D, S * R)
    assert len(table) == table.S * table.R
    assert table.assumption_1
    assert_array_equal(table.answers // D, table.relations)


def test_random_tables_are_nested_in_subjects_and_relations() -> None:
    large = random_table(40, 30, 8, key=KEY).matrix
    for S, R in [(1, 1), (39, 30), (40, 29), (7, 12)]:
        assert_array_equal(random_table(S, R, 8, key=KEY).matrix, large[:S, :R])
    assert (random_table(40, 30, 8, key=jax.random.key(5)).matrix != large).any()


def test_random_answers_are_uniform() -> None:
    """Chi-square over all blocks: its mean is the degrees of freedom k, its variance 2 k."""
    D, table = 8, random_table(500, 40, 8, key=KEY)
    counts = table.C.reshape(40, D)
    chi_square = ((counts - 500 / D) ** 2 / (500 / D)).sum()
    k = 40 * (D - 1)
    assert abs(chi_square - k) < 4 * math.sqrt(2 * k)


@pytest.mark.parametrize("D", [1, 4, 12])
def test_balanced_answers_are_exactly_uniform(D: int) -> None:
    table = balanced_table(12, 5, D, key=KEY)
    assert_array_equal(table.C, np.full(5 * D, 12 // D))
    assert table.entropy_given("relation") == pytest.approx(math.log(D), abs=1e-12)
    assert_array_equal(balanced_table(12, 3, D, key=KEY).matrix, table.matrix[:, :3])


def test_the_entropy_given_the_relation_weighs_by_p() -> None:
    table = some_table()
    p = np.random.default_rng(1).dirichlet(np.ones(len(table)))
    joint: Counter[tuple[int, int]] = Counter()
    for (_, r, a), weight in zip(triples(table), p, strict=True):
        joint[r, a] += weight
    of_r = {r: sum(w for (q, _), w in joint.items() if q == r) for r in range(table.R)}
    by_hand = -sum(w * math.log(w / of_r[r]) for (r, _), w in joint.items())
    assert table.entropy_given("relation", p) == pytest.approx(by_hand, rel=1e-12)
    only_one = np.zeros(len(table))
    only_one[0] = 1.0
    assert table.entropy_given("relation", only_one) == 0.0


@pytest.mark.parametrize("table", [some_table(), some_table(share=1.0), random_table(7, 3, 4, key=KEY)])
def test_answer_sets_and_counts_against_counting(table: FactTable) -> None:
    facts = triples(table)
    A_r = {r: {a for _, q, a in facts if q == r} for r in range(table.R)}
    assert {r: table.A_r(r) for r in range(table.R)} == A_r
    assert [table.A_s(s) for s in range(table.S)] == [{a for t, _, a in facts if t == s} for s in range(table.S)]
    assert max(len(answers) for answers in A_r.values()) == table.D
    assert table.C.tolist() == [sum(b == a for *_, b in facts) for a in range(table.A)]
    assert table.assumption_1 == all(not A_r[r] & A_r[q] for r in A_r for q in A_r if r < q)
    assert len(table) == len(facts)
    for s in range(table.S):
        for r in range(table.R):
            assert table.matrix[s, r] == {(t, q): a for t, q, a in facts}.get((s, r), NO_FACT)


def test_tokens_of_rows_are_numbered_as_they_appear() -> None:
    table = FactTable.from_rows(CAPITALS)
    assert table.labels is not None
    assert table.labels.subjects == ("France", "Japan", "Vatican", "Italy")
    assert table.labels.answers == ("Paris", "Tokyo", "yen", "Rome")
    named = [
        (table.labels.subjects[s], table.labels.relations[r], table.labels.answers[a]) for s, r, a in triples(table)
    ]
    assert named == CAPITALS
    assert len(table) < table.S * table.R
    assert (table.D, table.C.max()) == (3, 2)


def test_a_fact_that_is_given_twice_is_kept_once() -> None:
    assert triples(FactTable.from_rows([*CAPITALS, *CAPITALS[:3]])) == triples(FactTable.from_rows(CAPITALS))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (
            lambda: FactTable.from_rows([*CAPITALS, ("Japan", "capital", "Kyoto")]),
            r"\('Japan', 'capital'\) is given with two answers, 'Tokyo' and 'Kyoto'",
        ),
        (lambda: FactTable.from_rows([]), "at least one row"),
        (lambda: FactTable.from_rows([("a", "b")]), r"not \('a', 'b'\)"),
        (lambda: FactTable(1, 2, 1, np.array([0]), np.array([0]), np.array([0])), "relation 1 has no facts"),
        (lambda: FactTable(1, 1, 1, np.array([1]), np.array([0]), np.array([0])), "subjects must lie between 0 and 0"),
        (lambda: FactTable(0, 1, 1, np.array([0]), np.array([0]), np.array([0])), "S=0"),
        (lambda: balanced_table(10, 2, 4, key=KEY), "D=4 does not divide S=10"),
        (lambda: make_table("randm", 2, 2, 2, key=KEY), "did you mean 'random'"),
    ],
)
def test_wrong_tables_are_refused(make, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()

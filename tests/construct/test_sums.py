"""What attention alone cannot hold: circles of demands against linear programs, and the checks of the constructions."""

import itertools
import tracemalloc
from collections.abc import Callable, Sequence

import jax
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.optimize import linprog

from facthold._util.commands import count
from facthold.construct.attention import attention_only
from facthold.construct.selected import solved_values
from facthold.construct.sums import check_intersections, check_sums, contradiction, decide, doubt
from facthold.facts.problem import factual_recall
from facthold.facts.table import NO_FACT, FactTable, random_table
from facthold.measure.fact_recall import fact_margins

KEY = jax.random.key(9)
Facts = list[tuple[str, str, str]]


def ring(n: int) -> Facts:
    """n subjects, two relations, and an answer above the next all the way round."""
    return [fact for i in range(n) for fact in ((f"s{i}", "r", f"a{i}"), (f"s{i}", "q", f"a{(i + 1) % n}"))]


def turned(facts: Facts) -> Facts:
    """Subjects and relations in each other's place."""
    return [(r, s, a) for s, r, a in facts]


def sums_exist(table: FactTable, winners: Sequence[int] | None = None) -> bool:
    """Whether u_s[w] + u_r[w] >= u_s[c] + u_r[c] + 1 can hold, w the winner of a fact and c all that is not right.

    A linear program with all u unknown: nothing of graphs is in it. Without ``winners`` any choice of them will do.
    """
    if winners is None:
        choices = itertools.product(*(table.right(i) for i in range(len(table))))
        return any(sums_exist(table, choice) for choice in choices)
    rows = []
    for i, w in enumerate(winners):
        for c in set(range(table.A)) - set(table.right(i)):
            row = np.zeros((table.S + table.R, table.A))
            for z in (table.subjects[i], table.S + table.relations[i]):
                row[z, c] += 1
                row[z, w] -= 1
            rows.append(row.ravel())
    if not rows:
        return True
    found = linprog(np.zeros(len(rows[0])), np.array(rows), -np.ones(len(rows)), bounds=(None, None))
    assert found.status in (0, 2)  # solved, or shown to be infeasible
    return bool(found.status == 0)


def random_facts(seed: int, S: int, R: int, A: int, share: float, n_also: int = 0) -> FactTable:
    rng = np.random.default_rng(seed)
    matrix = np.where(rng.random((S, R)) < share, rng.integers(0, A, (S, R)), NO_FACT)
    matrix[0] = np.where(matrix[0] == NO_FACT, rng.integers(0, A, R), matrix[0])  # each relation has a fact
    table = FactTable.from_matrix(matrix.astype(np.int32), A=A)
    also = np.stack([rng.integers(0, len(table), n_also), rng.integers(0, A, n_also)], axis=1)
    return FactTable(S, R, A, table.subjects, table.relations, table.answers, also=also)


def assert_circle(table: FactTable, rows: np.ndarray) -> None:
    """Pairs of facts that share a token, each pair's second answer the first one of the next."""
    assert len(rows) % 2 == 0
    assert len(set(rows.tolist())) == len(rows) >= 4
    first, second = rows[::2], rows[1::2]
    sides = [(table.subjects, table.relations), (table.relations, table.subjects)]
    (many, few), *_ = [side for side in sides if (side[0][first] == side[0][second]).all()]
    assert len(set(few[first].tolist())) == len(set(few[second].tolist())) == 1
    assert few[first[0]] != few[second[0]]
    assert len(set(many[first].tolist())) == len(first)
    assert_array_equal(table.answers[second], np.roll(table.answers[first], -1))


@pytest.mark.parametrize("few", ["relations", "subjects"])
def test_with_two_of_a_kind_a_circle_is_exactly_what_stands_against_sums(few: str) -> None:
    """The linear program and the graph agree on tables with two relations, or two subjects; both cases occur."""
    S, R = (5, 2) if few == "relations" else (2, 5)
    held = 0
    for seed in range(60):
        table = random_facts(seed, S, R, 4, 0.8)
        rows = contradiction(table)
        assert sums_exist(table) == (rows is None)
        held += rows is None
        if rows is not None:
            assert_circle(table, rows)
    assert 10 <= held <= 50


def test_a_circle_is_a_proof_and_none_of_its_facts_can_be_left_out() -> None:
    found = 0
    for seed in range(40):
        table = random_facts(seed, 5, 4, 5, 0.7)
        rows = contradiction(table)
        if rows is None:
            continue
        found += 1
        assert_circle(table, rows)
        part = part_of(table, rows)
        assert not sums_exist(part)
        assert all(sums_exist(part_of(table, np.delete(rows, i))) for i in range(len(rows)))
    assert found > 10


@pytest.mark.parametrize(("S", "R"), [(6, 6), (5, 8)])
def test_with_more_of_both_the_program_decides_exactly(S: int, R: int) -> None:
    """Against the program with all u unknown. What is named is a proof: those facts alone have no sums either."""
    held = beyond = 0
    for seed in range(100):
        table = random_facts(seed, S, R, 14, 0.9)
        found = decide(table)
        assert found.doubt is None
        assert sums_exist(table) == (found.conflict is None)
        held += found.conflict is None
        if found.conflict is not None and contradiction(table) is None:
            beyond += 1
            assert not sums_exist(part_of(table, found.conflict))
    assert held > 20
    assert beyond > 2


def shifted() -> FactTable:
    """a*(s, r) = 2 s + 5 r mod 11 for all s but one, which would close the circle of two relations."""
    return FactTable.from_matrix(((2 * np.arange(10)[:, None] + 5 * np.arange(3)) % 11).astype(np.int32), A=11)


def test_three_relations_can_contradict_where_no_two_do(monkeypatch: pytest.MonkeyPatch) -> None:
    table = shifted()
    assert contradiction(table) is None
    with pytest.raises(ValueError, match="no sum of a part for s and a part for r holds these"):
        check_sums(table)
    assert doubt(table) is None
    decide.cache_clear()
    monkeypatch.setattr("facthold.construct.sums.LARGEST", 10)
    check_sums(table)  # it is not known, and nothing is refused for that
    assert "10 can be decided" in str(doubt(table))


def test_which_of_several_right_answers_wins_may_stay_open() -> None:
    """Sums that let the first one win are enough; where they do not exist, those for the other facts may."""
    decided = 0
    for seed in range(120):
        table = random_facts(seed, 4, 3, 4, 0.9, n_also=3)
        found = decide(table)
        if found.conflict is not None:
            assert not sums_exist(table)
        elif found.doubt is None:
            assert sums_exist(table)
        decided += found.doubt is None
    assert 60 < decided < 120


def part_of(table: FactTable, rows: np.ndarray) -> FactTable:
    """These facts alone, their tokens numbered anew."""
    return FactTable.from_rows([(str(table.subjects[i]), str(table.relations[i]), str(table.answers[i])) for i in rows])


def test_facts_with_several_right_answers_are_judged_soundly() -> None:
    """Where a circle is found, no choice of winners has sums; a further right answer can resolve one."""
    found = resolved = 0
    for seed in range(60):
        table = random_facts(seed, 4, 2, 3, 0.9, n_also=2)
        bare = FactTable(4, 2, 3, table.subjects, table.relations, table.answers)
        rows = contradiction(table)
        if rows is not None:
            found += 1
            assert not sums_exist(table)
            assert not np.isin(rows, table.also[:, 0]).any()
        resolved += rows is None and contradiction(bare) is not None and sums_exist(table)
    assert found > 5
    assert resolved > 5


@pytest.mark.parametrize("turn", [list, turned], ids=["relations", "subjects"])
@pytest.mark.parametrize("n", [2, 3, 7])
def test_a_ring_is_found_whole_and_not_once_it_is_cut(n: int, turn: Callable[[Facts], Facts]) -> None:
    """Among other facts: shared answers in one order, and answers of their own."""
    beside = [(f"t{i}", r, a) for i in range(20) for r, a in (("r", f"b{i}"), ("q", f"b{i + 1}"), ("p", f"c{i}"))]
    table = FactTable.from_rows(turn(beside + ring(n)))
    rows = contradiction(table)
    assert rows is not None
    assert_circle(table, rows)
    assert set(rows.tolist()) == set(range(len(beside), len(beside) + 2 * n))
    for cut in range(2 * n):
        facts = beside + ring(n)
        del facts[len(beside) + cut]
        assert contradiction(FactTable.from_rows(turn(facts))) is None


def test_the_shorter_of_two_circles_is_named() -> None:
    long = [(f"x{s}", r, f"x{a}") for s, r, a in ring(5)]
    rows = contradiction(FactTable.from_rows(long + ring(2)))
    assert rows is not None
    assert sorted(rows.tolist()) == [10, 11, 12, 13]


def test_no_circle_where_sums_are_known() -> None:
    """a*(s, r) = arg max of u_s + u_r, with answers that many relations share: 20,000 facts, in several blocks."""
    rng = np.random.default_rng(2)
    u_s, u_r = rng.standard_normal((400, 30)), rng.standard_normal((50, 30))
    matrix = np.stack([(u_s + u).argmax(axis=1) for u in u_r], axis=1).astype(np.int32)
    table = FactTable.from_matrix(matrix, A=30)
    assert not table.assumption_1
    assert contradiction(table) is None
    matrix[0, :2], matrix[1, :2] = (3, 4), (4, 3)
    rows = contradiction(FactTable.from_matrix(matrix, A=30))
    assert rows is not None
    assert_circle(FactTable.from_matrix(matrix, A=30), rows)


def test_no_circle_without_shared_answers() -> None:
    assert contradiction(random_table(200, 6, 5, key=KEY)) is None


def test_adding_answers_refuses_it_in_one_line() -> None:
    table = FactTable.from_rows([("s1", "r", "a"), ("s1", "q", "b"), ("s2", "r", "b"), ("s2", "q", "a")])
    with pytest.raises(ValueError, match="these 4 facts, at any size: ") as caught:
        attention_only(factual_recall(table, 16, key=KEY), 4, 4, key=KEY)
    message = str(caught.value)
    assert "\n" not in message
    assert all(f"('{s}', '{r}') -> '{a}'" in message for s, r, a in [("s1", "r", "a"), ("s2", "q", "a")])
    assert all(recipe in message for recipe in ("with an MLP", "attention-mlp", "gated", "selected"))


def test_solved_values_hold_a_part_of_what_they_cannot_hold() -> None:
    problem = factual_recall(shifted(), 32, key=KEY)
    share = (fact_margins(solved_values(problem), problem, key=KEY) > 0).mean()
    assert 0.5 < share < 1


def test_a_message_names_four_facts_at_most() -> None:
    with pytest.raises(ValueError, match=r"these 10 facts.* and 6 more; take") as caught:
        check_sums(FactTable.from_rows(ring(5)))
    assert str(caught.value).count("->") == 4
    numbers = FactTable(2, 2, 2, np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), np.array([0, 1, 1, 0]))
    with pytest.raises(ValueError, match=r"\(0, 0\) -> 0, \(0, 1\) -> 1, \(1, 0\) -> 1, \(1, 1\) -> 0; take"):
        check_sums(numbers)


def test_shared_answers_in_one_order_are_held() -> None:
    """Against assumption 1, and refused by the adding of theorem 3; solved values hold them in any noise."""
    facts = [(f"s{i}", r, f"a{i + (r == 'q')}") for i in range(6) for r in "rq"]
    problem = factual_recall(FactTable.from_rows(facts), 16, key=KEY, T=8)
    assert (fact_margins(solved_values(problem), problem, key=KEY, draws=5) > 0).all()
    with pytest.raises(ValueError, match="10 facts have more than one answer that both"):
        attention_only(problem, 4, 8, key=KEY)


def unclear_facts(table: FactTable) -> list[int]:
    """From the sets: the subject and the relation share an answer that is not right."""
    of = range(len(table))
    A_s, A_r = ([kind(int(z)) for z in those] for kind, those in (
        (table.A_s, table.subjects), (table.A_r, table.relations)
    ))  # fmt: skip
    return [i for i in of if (A_s[i] & A_r[i]) - set(table.right(i))]


@pytest.mark.parametrize("block", [1, 7, 1 << 22])
def test_intersections_are_those_of_the_sets(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("facthold.construct.sums.CELLS", block)
    counts = set()
    for seed in range(12):
        table = random_facts(seed, 9, 3, 60 if seed % 2 else 14, 0.6, n_also=seed)
        unclear = unclear_facts(table)
        counts.add(len(unclear))
        if not unclear:
            check_intersections(table)
            continue
        i = unclear[0]
        first = rf"^{count(len(unclear), 'fact')} ha(s|ve) more than .* \({table.subjects[i]}, {table.relations[i]}\)"
        with pytest.raises(ValueError, match=first):
            check_intersections(table)
    assert 0 in counts
    assert len(counts) > 3


def test_large_tables_are_checked_in_little_memory() -> None:
    """30,000 subjects and 45,000 answers: a table of all pairs would be 1.35 GB of bytes."""
    rng = np.random.default_rng(0)
    S, A = 30_000, 45_000
    matrix = np.stack([rng.integers(0, 15_000, S), rng.integers(15_000, 30_000, S), rng.integers(30_000, A, S)], axis=1)
    table = FactTable.from_matrix(matrix.astype(np.int32), A=A)
    tracemalloc.start()
    check_intersections(table)
    check_sums(table)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < S * A / 20

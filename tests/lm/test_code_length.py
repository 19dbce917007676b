"""Bits that scores save: codes that are codes, by all tables of a size, and estimates that see what they may see."""

from itertools import permutations
from math import comb, factorial, log2

import numpy as np
import pytest

from facthold.lm.code_length import Table, alike, fitted_bits, listing, numbered, plain_bits, recall_bits


def drawn(seed: int, *shape: int) -> np.ndarray:
    return np.random.Generator(np.random.Philox(seed)).standard_normal(shape)


def table(*f: int, groups: tuple[int, ...] = ()) -> Table:
    return Table(np.array(f), np.array(groups or [0] * len(f)), max(f) + 1)


def test_without_scores_it_takes_the_logarithm_of_all_assignments() -> None:
    one = table(0, 0, 1, 2, 2, 2)
    assert one.assignment.sum() == pytest.approx(log2(len(set(permutations(one.f.tolist())))))
    assert one.assignment[0] == pytest.approx(one.assignment[1])
    two = table(0, 0, 1, 2, 2, 2, groups=(0, 0, 0, 1, 1, 1))
    assert two.assignment.sum() == pytest.approx(log2(3))  # of the second group nothing has to be said
    assert table(*range(9)).assignment.sum() == pytest.approx(log2(factorial(9)))


@pytest.mark.parametrize("groups", [(0,) * 6, (0, 0, 0, 0, 1, 1)])
def test_what_is_called_a_code_length_is_one(groups: tuple[int, ...]) -> None:
    """Kraft's inequality over every table with these answers in each group."""
    f, scores = (0, 0, 1, 2, 1, 2), 3 * drawn(1, 6, 3)
    tables = {
        (*first, *second) for n in [groups.count(0)] for first in permutations(f[:n]) for second in permutations(f[n:])
    }
    for scale in (0.1, 1.0, 4.0):
        made = [table(*answers, groups=groups) for answers in tables]
        assert sum(2 ** -plain_bits(one, scale * scores).sum() for one in made) <= 1
        lengths = [one.assignment.sum() - recall_bits(one, scale * scores).bits for one in made]
        assert sum(2**-length for length in lengths) <= 1


def test_a_constant_answer_saves_nothing() -> None:
    one = table(0, 0, 0, 0, 1, 2, 1)
    found = recall_bits(one, np.tile([2.0, 1.0, 0.0], (7, 1)))
    assert found.right.sum() == 4
    assert found.bits == pytest.approx(-log2(8))
    half = np.arange(7) % 2 == 0
    constant = one.assignment.sum() - fitted_bits(one, np.tile([5.0, 1.0, 0.0], (7, 1)), half).sum()
    assert constant < 0


def test_certain_scores_save_everything() -> None:
    one = table(*(i % 5 for i in range(40)))
    scores = 30.0 * np.eye(5)[one.f]
    half = np.arange(40) % 2 == 0
    assert plain_bits(one, scores).sum() == pytest.approx(0, abs=1e-6)
    assert fitted_bits(one, scores, half).sum() < 1
    assert recall_bits(one, scores).bits == pytest.approx(one.assignment.sum() - log2(41))


def test_k_of_n_different_answers_are_worth_k_factorial() -> None:
    one, scores = table(*range(10)), 9.0 * np.eye(10)
    scores[6:] = scores[6:, ::-1]
    found = recall_bits(one, scores)
    assert found.right.sum() == 6
    assert found.bits == pytest.approx(log2(factorial(10) / factorial(4)) - log2(comb(10, 4)) - log2(11))
    assert float(listing(10, 4)) == pytest.approx(log2(comb(10, 4) * 11))


def test_a_half_is_judged_by_a_fit_on_the_other() -> None:
    """Scores that are right on one half and wrong on the other: each half alone would take them for knowledge."""
    one, half = table(*(i % 4 for i in range(80))), np.arange(80) < 40
    scores = np.where(half[:, None], 1.0, -1.0) * 5 * np.eye(4)[one.f]
    base = one.assignment.sum()
    assert base - fitted_bits(one, scores, half, own=True).sum() > 0.8 * base
    assert base - fitted_bits(one, scores, half).sum() < 0


def test_a_scale_and_what_is_said_of_every_subject_do_not_matter() -> None:
    one, half = table(*(i % 4 for i in range(80))), np.arange(80) % 3 == 0
    scores = 2 * np.eye(4)[one.f] + drawn(2, 80, 4)
    told = fitted_bits(one, scores, half).sum()
    other = fitted_bits(one, 7 * (scores + np.array([0.0, 6.0, 0.0, -3.0])), half).sum()
    assert told < 0.8 * one.assignment.sum()
    assert abs(other - told) < 0.15 * told
    assert plain_bits(one, scores + np.array([0.0, 6.0, 0.0, -3.0])).sum() > one.assignment.sum()


def test_shuffled_answers_save_nothing_on_average() -> None:
    one, half = table(*(i % 4 for i in range(80))), np.arange(80) % 2 == 0
    scores = 6 * np.eye(4)[one.f]
    other = one.shuffled()
    assert sorted(other.f) == sorted(one.f)
    assert (other.f != one.f).all()
    groups = table(*(i % 4 for i in range(8)), groups=(0, 0, 0, 0, 1, 1, 1, 1)).shuffled()
    assert sorted(groups.f[:4]) == sorted(groups.f[4:]) == [0, 1, 2, 3]
    mixed = Table(np.random.Generator(np.random.Philox(3)).permutation(one.f), one.groups, 4)
    assert mixed.assignment.sum() - fitted_bits(mixed, scores, half).sum() < 10


def test_words_that_begin_alike_need_no_knowledge() -> None:
    assert alike("Poland", "Polish")
    assert alike("Poland", "Polish Zloty")
    assert alike("Saudi Arabia", "Arabic")
    assert not alike("France", "French")
    assert not alike("Togo", "to")
    assert not alike("Japan", "Tokyo")
    assert numbered(["b", "a", "b"])[0].tolist() == [0, 1, 0]

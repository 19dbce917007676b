"""Lemma 3's noise and width, as `theory.lemma3` has them, against the MLP that is built."""

import math

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtr

from facthold._util.keys import fold
from facthold.construct.attention_mlp import SCALE, answering_mlp
from facthold.facts.problem import factual_recall
from facthold.facts.table import balanced_table, random_share
from facthold.theory import lemma3
from facthold.theory.lemma3 import Table, noise, per_neuron, recall, share_of_facts, width

KEY = jax.random.key(33)
ROUNDING = 1e-9


def test_moments_by_hand() -> None:
    """p = k = 1: with h_2 = (u^2 - 1) / sqrt 2 these are moments of u up to the eighth."""
    assert_allclose(per_neuron(1, 1), (2, 6, 6, 15, 14), rtol=ROUNDING)


@pytest.mark.parametrize(("p", "k"), [(1, 2), (2, 2), (3, 1), (3, 3)])
def test_moments_change_places_with_the_degrees(p: int, k: int) -> None:
    of, turned = per_neuron(p, k), per_neuron(k, p)
    assert_allclose((of.subject, of.relation, of.both), (turned.relation, turned.subject, turned.both), rtol=ROUNDING)
    assert of.neither < min(of.subject, of.relation) < of.swing < of.both  # a fact's own neurons disturb it most


def scores(table: Table, m: int, seed: int) -> tuple[np.ndarray, ...]:
    """The score of the answer, of other answers of its relation and of others, and of noise tokens, for every fact."""
    S, R, D, d, p, k, share = table
    facts = random_share(balanced_table(S, R, D, key=fold(KEY, seed)), share, key=fold(KEY, "share", seed))
    problem = factual_recall(facts, d, key=fold(KEY, "tokens", seed))
    P, Q, mlp = answering_mlp(problem, m, key=fold(KEY, "build", seed), p=p, k=k)
    x = problem.phi[facts.subjects] @ P.T @ P + problem.phi[S + facts.relations] @ Q.T @ Q
    F = mlp.sigma(x @ np.asarray(mlp.W).T) @ np.asarray(mlp.V) / SCALE
    by_answer, block = F @ problem.phi[problem.n_tokens :].T, np.arange(R * D) // D
    used, own = np.isin(np.arange(R * D), facts.answers), np.arange(R * D) == facts.answers[:, None]
    same = block == facts.relations[:, None]
    quiet = F @ problem.phi[S + R : problem.n_tokens - 1].T
    return by_answer[own], by_answer[same & ~own & used], by_answer[~same & used], quiet.ravel()


NOISY = [
    (Table(6, 4, 6, 65), 40),
    (Table(12, 12, 3, 129), 100),
    (Table(16, 4, 16, 65, p=2), 300),
    (Table(12, 12, 12, 65, share=0.5), 60),
]


@pytest.mark.parametrize(("table", "m"), NOISY, ids=lambda x: "-".join(map(str, x)) if isinstance(x, tuple) else str(x))
def test_the_noise_is_that_of_the_mlp_that_is_built(table: Table, m: int) -> None:
    """Within four standard errors over seeds, and what is left out: terms of order 1/d beside those that are there."""
    of, samples = noise(table, m), [scores(table, m, seed) for seed in range(120)]
    rivals = [(0.0, sum(parts)) for parts in (of.near, of.far, of.other)]
    for part, (mean, variance) in enumerate([(of.mean, of.answer), *rivals]):
        each = np.array([np.mean((sample[part] - mean) ** 2) for sample in samples])
        sem = each.std(ddof=1) / math.sqrt(len(each))
        assert abs(each.mean() - variance) < 4 * sem + 6 / table.d * variance, (part, each.mean(), variance, sem)
    answers = np.array([sample[0].mean() for sample in samples])
    assert abs(answers.mean() - of.mean) < 4 * answers.std(ddof=1) / math.sqrt(len(answers))


def test_the_first_neurons_of_a_wider_mlp_are_a_narrower_one() -> None:
    problem = factual_recall(balanced_table(4, 4, 4, key=KEY), 33, key=KEY)
    narrow, wide = (answering_mlp(problem, m, key=KEY)[2] for m in (8, 24))
    np.testing.assert_array_equal(narrow.W, wide.W[:8])
    assert_allclose(narrow.V, wide.V[:8] * 3, rtol=1e-6)


def test_a_share_of_directions_lies_below() -> None:
    """On the sphere in three dimensions coordinates are uniform; in many they are Gaussian."""
    z = np.array([-1.0, 0.0, 0.5, 1.5])
    assert_allclose(np.exp(lemma3._log_below(z, 3)), (1 + z / math.sqrt(3)) / 2, rtol=ROUNDING)
    assert_allclose(np.exp(lemma3._log_below(z, 10**6)), ndtr(z), rtol=1e-5)


def test_the_width_is_where_the_goal_is_recalled() -> None:
    table = Table(64, 64, 64, 385)
    m = width(table)
    assert recall(table, m) == pytest.approx(0.99, abs=1e-6)
    assert recall(table, m / 2) < 0.99 < recall(table, 2 * m) < 1
    assert width(table, 0.9) < m < width(table, 0.999)


def test_where_the_facts_are_the_noise_the_width_follows_them() -> None:
    """m d / S R hardly moves from 4,096 to 16,384 facts, nor with d; where C(a) is the noise m d follows d."""
    ratios = [width(t) * t.d / (t.S * t.R) for t in (Table(64, 64, 64, 385), Table(128, 128, 128, 513))]
    assert ratios[1] == pytest.approx(ratios[0], rel=0.03)
    assert share_of_facts(Table(128, 128, 128, 513)) > 0.8
    assert share_of_facts(Table(24, 24, 4, 769)) < 0.05
    wide, narrow = Table(12, 12, 4, 2049), Table(12, 12, 4, 1025)
    assert width(wide) / width(narrow) > 0.8  # and so m d nearly doubles


def test_no_width_is_enough_where_the_kernel_disturbs_too_much() -> None:
    assert width(Table(256, 16, 256, 129)) == math.inf
    assert width(Table(256, 16, 256, 129, p=2)) < math.inf
    assert recall(Table(256, 16, 256, 129), math.inf) == pytest.approx(
        recall(Table(256, 16, 256, 129), lemma3.MOST_WIDTH), abs=1e-6
    )


def test_the_table_where_facts_are_half_of_the_noise_is_the_smallest() -> None:
    for d, p in ((65, 1), (257, 3)):
        table = lemma3.half_of_noise(d, p, p)
        assert table.S == table.R == table.D
        smaller = table._replace(S=table.S - 1, R=table.R - 1, D=table.D - 1)
        assert share_of_facts(table) >= 0.5 > share_of_facts(smaller)

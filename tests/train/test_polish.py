"""Gauss-Newton steps for the last facts: J against differences, rivals against all scores, and what they end with."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from facthold._util.padding import geometric, pad_rows
from facthold.facts.table import NO_MORE
from facthold.memory.associations import Problem, random_problem
from facthold.memory.embeddings import host_generator
from facthold.models.memory import MLPMemory
from facthold.train import groups as module
from facthold.train.engine import Member, fit
from facthold.train.groups import LEAST, FactGroup, _grown, store_group
from facthold.train.lanes import Stopped
from facthold.train.polish import AIM, HARDEST, REACH, _Facts, _lacking, _solved, polished
from facthold.train.protocols import LEARNING, MARGIN
from facthold.train.sampled import StoreSampled

KEY = jax.random.key(23)
N, M, D, WIDTH = 300, 40, 16, 64


def some(m: int = WIDTH, N: int = N) -> tuple[Problem, MLPMemory]:
    return random_problem(N, D, M, key=KEY, map="uniform"), MLPMemory.init(D, m, key=KEY)


def also_right(n: int = 200) -> np.ndarray:
    rng = np.random.default_rng(5)
    return np.unique(np.stack([rng.integers(0, N, n), rng.integers(0, M, n)], axis=1), axis=0)


def margins(problem: Problem, memory: MLPMemory, also: np.ndarray = NO_MORE) -> np.ndarray:
    """Of every fact over the best that is not right, in float64."""
    W, V, E, U = (np.asarray(a, float) for a in (memory.W, memory.V, problem.E, problem.U))
    scores, f = np.maximum(E @ W.T, 0) @ V @ U.T, np.asarray(problem.f)
    own = scores[np.arange(len(f)), f].copy()
    scores[np.arange(len(f)), f] = -np.inf
    scores[also[:, 0], also[:, 1]] = -np.inf
    return own - scores.max(axis=1)


def test_rivals_are_those_of_all_scores() -> None:
    """Every margin, and every rival within reach, of which the hardest where there are more than are looked at."""
    problem, memory = some()
    also = also_right()
    facts = _Facts(problem, also)
    F = facts.F(np.asarray(memory.W), 12 * np.asarray(memory.V))
    margin, near = facts.asked(F)
    assert_allclose(margin, margins(problem, MLPMemory(memory.W, 12 * memory.V), also), atol=1e-4)
    scores = F.astype(float) @ np.asarray(problem.U, float).T
    own = scores[np.arange(N), facts.f]
    numbers = []
    for i in range(N):
        right = {int(facts.f[i]), *also[also[:, 0] == i, 1].tolist()}
        order = [y for y in np.argsort(-scores[i]) if y not in right and scores[i, y] > own[i] - REACH]
        numbers.append(len(order))
        assert set(near.outputs[near.facts == i]) == set(order[:HARDEST])
    assert min(numbers) < HARDEST < max(numbers)
    assert_allclose(near.margins(F, facts.U, facts.f), own[near.facts] - scores[near.facts, near.outputs], atol=1e-4)


def test_the_product_with_J_is_a_difference_and_that_with_its_transpose_is_its_adjoint() -> None:
    problem, memory = some()
    facts, (W, V) = _Facts(problem, NO_MORE), (np.asarray(memory.W), np.asarray(memory.V))
    F = facts.F(W, V)
    near = facts.asked(F)[1]
    lack = AIM - near.margins(F, facts.U, facts.f)
    blocks = _lacking(facts, (W, V), near.of(lack > 0), lack[lack > 0])
    rng, size = np.random.default_rng(1), 1e-3
    dW, dV = rng.standard_normal((2, WIDTH, D)).astype(np.float32)
    change = np.concatenate([block.change(dW, dV) for block in blocks])

    def at(step: float) -> np.ndarray:
        E, U, f = np.asarray(problem.E, float), np.asarray(problem.U, float), np.asarray(problem.f)
        out = np.maximum(E @ (W + step * dW).T.astype(float), 0) @ (V + step * dV)
        pairs = near.of(lack > 0)
        return (out[pairs.facts] * (U[f[pairs.facts]] - U[pairs.outputs])).sum(axis=1)

    off = np.abs((at(size) - at(-size)) / (2 * size) - change)
    assert np.median(off) < 1e-3 * np.abs(change).std()  # but where a neuron turns on or off in between
    r = rng.standard_normal(len(change)).astype(np.float32)
    ends = np.cumsum([len(block.lack) for block in blocks])[:-1]
    pulled = np.sum([np.stack(b.pulled(part)) for b, part in zip(blocks, np.split(r, ends), strict=True)], axis=0)
    assert np.vdot(pulled, np.stack([dW, dV])) == pytest.approx(np.vdot(r, change), rel=1e-3)
    change = np.concatenate([block.change(*_solved(blocks)) for block in blocks])  # and the step that is solved for
    before, after = (float((x.astype(float) ** 2).sum()) for x in (lack[lack > 0], lack[lack > 0] - change))
    assert after < before / 10


@pytest.mark.parametrize("also", [NO_MORE, also_right()], ids=["one answer", "several"])
def test_all_facts_are_right_after_some_steps_from_a_memory_that_knows_none(also: np.ndarray) -> None:
    problem, memory = some()
    assert (margins(problem, memory, also) > 0).mean() < 0.05
    heard: list[float] = []
    better, share = polished(memory, problem, also, least=LEAST, goal=1.0, hear=heard.append)
    assert share == 1.0
    assert margins(problem, better, also).min() > LEAST - 1e-4  # in float64
    assert heard[0] == pytest.approx((margins(problem, memory, also) > LEAST).mean())
    assert heard[-1] == 1.0
    again, _ = polished(memory, problem, also, least=LEAST, goal=1.0)
    assert_array_equal(np.asarray(again.W), np.asarray(better.W))  # the same to the bit


def test_too_few_neurons_hold_a_part_and_the_part_is_counted() -> None:
    problem, memory = some(12)
    better, share = polished(memory, problem, NO_MORE, least=LEAST, goal=1.0)
    assert 0 < share < 1
    assert share == pytest.approx((margins(problem, better) > LEAST).mean(), abs=2 / N)
    enough, share = polished(some()[1], problem, NO_MORE, least=LEAST, goal=0.9)  # no more than what is asked for
    assert 0.9 <= share < 1
    assert share == pytest.approx((margins(problem, enough) > LEAST).mean(), abs=2 / N)


def test_facts_that_contradict_each_other_and_broken_weights_end_it() -> None:
    problem, memory = some(N=200)
    twice = Problem(problem.E.at[1].set(problem.E[0]), problem.U, problem.f.at[:2].set(jnp.arange(2)))
    _, share = polished(memory, twice, NO_MORE, least=LEAST, goal=1.0)
    assert share == pytest.approx(1 - 1 / 200, abs=1.5 / 200)
    broken = replace(memory, V=memory.V.at[0].set(jnp.nan))
    assert polished(broken, problem, NO_MORE, least=LEAST, goal=1.0)[1] < 1


def test_who_hears_of_it_may_end_it() -> None:
    problem, memory = some()

    def heard(share: float) -> None:
        raise Stopped

    with pytest.raises(Stopped):
        polished(memory, problem, NO_MORE, least=LEAST, goal=1.0, hear=heard)


def group_of(problem: Problem) -> FactGroup:
    return FactGroup(np.arange(problem.N), np.array([0]), problem, NO_MORE)


def test_a_small_group_is_what_training_gives_digit_for_digit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to `LOOKED` facts nothing is polished: models that were built before are built again."""
    problem, m = some()[0], 40
    learning = replace(LEARNING, goal=1.0)
    W, V = host_generator(KEY).standard_normal((2, m, D)).astype(np.float32)
    wider = geometric(m, 1.5)
    start = MLPMemory(jnp.asarray(pad_rows(W * D**-0.5, wider)), jnp.asarray(pad_rows(V * m**-0.5, wider)))
    (run,) = fit([Member(start, StoreSampled.of(problem, margin=MARGIN), KEY, learning.lr)], learning)
    monkeypatch.setattr(module, "LOOKED", N)
    monkeypatch.delattr(module, "polished")
    memory, share = store_group(group_of(problem), m, 1.0, key=KEY)
    assert share == run.final
    assert_array_equal(np.asarray(memory.W), np.asarray(run.model.W)[:m])
    assert_array_equal(np.asarray(memory.V), np.asarray(run.model.V)[:m])


def test_a_large_group_is_trained_and_polished_and_grows_from_what_it_has_learnt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the width that training alone leaves with some facts wrong; too few neurons, and others that join them."""
    problem = some()[0]
    monkeypatch.setattr(module, "LOOKED", N - 1)
    monkeypatch.setattr(module, "LEARNING", replace(LEARNING, steps=64))
    monkeypatch.setattr(module, "EPOCHS", 1)
    heard: list[tuple[float, float]] = []
    few, share = store_group(group_of(problem), 40, 1.0, key=KEY, listener=lambda *told: heard.append(told))
    assert 0.05 < share < 1
    assert share == pytest.approx((margins(problem, few) > LEAST).mean(), abs=2 / N)
    assert heard == sorted(heard, key=lambda told: told[0])
    grown = _grown(few, WIDTH, KEY)
    assert_allclose(margins(problem, grown), margins(problem, few), atol=1e-4)  # they say nothing yet
    more, share = store_group(group_of(problem), WIDTH, 1.0, key=KEY, start=few)
    assert share == 1.0
    assert len(more.W) == WIDTH
    assert margins(problem, more).min() > LEAST - 1e-4

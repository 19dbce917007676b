"""The authors' success rule against a plain computation: prompts as tokens, equations 4 to 7 in NumPy."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from facthold.facts.problem import FactualRecall, seeded_recall, seeded_table, variant
from facthold.measure.fact_recall import Questions
from facthold.models.sizes import Shape
from facthold.train.engine import Member, Run, fit
from facthold.train.protocols import AUTHORS, BATCH, protocol
from facthold.train.race import racing, reached, train
from facthold.train.tasks import RecallFacts

SHAPE, SEED = Shape(8, 4, 2, 16), 3
LOOK = 64  # steps between two looks
SHORT = replace(protocol("transformer-smoke"), steps=3 * LOOK, check_every=LOOK, goal=1.0, futility=None)


def problem() -> FactualRecall:
    return seeded_recall(seeded_table("random", 6, 5, 4, SEED), SHAPE.d, SEED, "code", T=9)


def member(sampled: bool) -> Member:
    (one,) = racing(RecallFacts.of(problem(), sampled=sampled), SHAPE, SEED, variant("code"), SHORT, race=None)
    return one


def logits(model: Any, recall: FactualRecall, tokens: np.ndarray) -> np.ndarray:
    """Of the answers, for prompts given as tokens; one head after another."""
    X = np.asarray(recall.phi, float)[tokens]
    F = np.zeros((len(X), recall.d))
    heads = (np.asarray(W, float) for W in (model.W_K, model.W_Q, model.W_V, model.W_O))
    for W_K, W_Q, W_V, W_O in zip(*heads, strict=True):
        scores = np.einsum("ntd,nd->nt", X @ W_K.T @ W_Q, X[:, -1]) / np.sqrt(len(W_K))
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        F += np.einsum("nt,ntd->nd", weights, X) @ W_V.T @ W_O
    W, V, b = (np.asarray(x, float) for x in (model.mlp.W, model.mlp.V, model.mlp.b))
    F = F + np.maximum(F @ W.T + b, 0) @ V
    return F @ np.asarray(recall.phi, float)[-recall.table.A :].T


def by_hand(model: Any, key: Any, n: int = BATCH) -> float:
    """The share of n drawn prompts that are answered right."""
    recall = problem()
    k_facts, k_prompts = jax.random.split(key)
    prompts = Questions.of(recall).prompts
    drawn = prompts.draw(n, key=k_facts)
    facts, tokens = np.asarray(drawn), np.asarray(prompts.sequences(drawn, key=k_prompts))
    assert len(np.unique(facts)) == len(recall.table) < n  # facts are drawn again and again
    said = logits(model, recall, tokens).argmax(axis=1)
    return float((said == recall.table.answers[facts]).mean())


def trained(sampled: bool, looks: int = 3) -> Run:
    (run,) = fit([member(sampled)], replace(SHORT, steps=looks * LOOK))
    return run


@pytest.fixture(scope="module")
def models() -> list[Any]:
    """After each look of the same run."""
    return [trained(False, looks).model for looks in (1, 2, 3)]


def test_a_look_is_at_drawn_prompts_and_the_best_one_counts(models: list[Any]) -> None:
    run = trained(True)
    keys = [jax.random.fold_in(member(True).key, jnp.int32(-1 - look)) for look in range(3)]
    wanted = [by_hand(model, key) for model, key in zip(models, keys, strict=True)]
    assert_allclose(run.curve, wanted, atol=1.5 / BATCH)  # one prompt may be a tie up to rounding
    assert min(wanted) > 0.2
    assert max(wanted) < 1
    assert reached(run, AUTHORS) == run.best == run.curve.max()


def test_the_rule_changes_the_look_and_not_the_training(models: list[Any]) -> None:
    every, some = trained(False), trained(True)
    for x, y in zip(jax.tree.leaves(every.model), jax.tree.leaves(some.model), strict=True):
        assert_array_equal(x, y)
    assert_allclose(every.curve, some.curve, atol=5 * np.sqrt(0.25 / 30))  # 30 facts, each asked once
    assert (every.curve != some.curve).any()
    assert_array_equal(every.curve * 30, np.round(every.curve * 30))


def test_the_rule_decides_where_a_run_ends() -> None:
    """Between the two accuracies at the first look, one rule ends the run there and the other does not."""
    every, some = trained(False).curve[0], trained(True).curve[0]
    assert every != some
    halfway = replace(SHORT, goal=float(every + some) / 2)
    ends = {rule: train(problem(), SHAPE, halfway, SEED, rule=rule).run.steps for rule in ("best", AUTHORS)}
    assert (ends["best"] == LOOK) == (every > some)
    assert (ends[AUTHORS] == LOOK) == (some > every)

"""Recall of facts in many prompts."""

import equinox as eqx
import jax
import numpy as np
import pytest

import known
from facthold.measure.fact_recall import always_right, fact_accuracy, fact_margins


def test_always_right_is_right_in_every_prompt() -> None:
    """A model that looks at all tokens nearly alike: some facts are right in some of their prompts."""
    model, problem = known.random_model(bias=False)
    model, key = eqx.tree_at(lambda t: t.W_K, model, 0.01 * model.W_K), jax.random.key(0)
    right = fact_margins(model, problem, key=key, draws=20) > 0
    assert right.all(axis=0).mean() < right.mean() < right.any(axis=0).mean()
    assert always_right(model, problem, key=key, draws=20) == right.all(axis=0).mean()


def test_accuracy_is_the_share_of_positive_margins() -> None:
    model, problem = known.random_model()
    key = jax.random.key(1)
    assert fact_accuracy(model, problem, key=key) == pytest.approx(np.mean(fact_margins(model, problem, key=key) > 0))

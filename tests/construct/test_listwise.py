"""The listwise criterion: what is met is met, and it asks for less than the arg max."""

import jax.numpy as jnp
import numpy as np
import pytest

from facthold.construct.listwise import MET, NOT_MET, ROUNDED_OFF, bent, listwise, tail_margins
from facthold.construct.separate import SEPARATED, separate
from facthold.memory.associations import seeded_problem


def test_the_bend_is_above_and_smooth() -> None:
    z = np.linspace(-2, 2, 4001)
    values = np.asarray(bent(jnp.asarray(z)))
    assert (values >= np.maximum(0, z) - 1e-6).all()
    assert np.abs(values - np.maximum(0, z)).max() <= ROUNDED_OFF / 4 + 1e-6
    slopes = np.diff(values) / np.diff(z)
    assert np.abs(np.diff(slopes)).max() < 0.01  # no kink, up to float32


def test_margins_are_over_the_mean_of_the_largest_rivals() -> None:
    problem = seeded_problem(21, 0, 6)
    W = np.random.default_rng(0).standard_normal((6, 6))
    E, U, _ = problem.host(np.float64)
    for x, margin in enumerate(tail_margins(W, problem, 0.15)):
        scores = U @ W @ E[x]
        rivals = np.sort(np.delete(scores, x))
        assert margin == pytest.approx(scores[x] - rivals[-3:].mean())


def test_it_asks_for_less_than_separation() -> None:
    """64 associations in 16 dimensions: near what is separable; 70 and more are listwise right."""
    problem = seeded_problem(70, 0, 16)
    assert separate(problem).status == SEPARATED
    many = seeded_problem(78, 0, 16)
    assert separate(many).status != SEPARATED
    found = listwise(many, 0.1)
    assert (found.status, found.right) == (MET, 1.0)
    assert tail_margins(found.W, many, 0.1).min() > 0


def test_far_too_many_are_not_met() -> None:
    found = listwise(seeded_problem(150, 0, 16), 0.1)
    assert found.status == NOT_MET
    assert found.right < 1

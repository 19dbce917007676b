"""Reduced equations of sign descent and Muon, against matrices and against steps that were made."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from facthold._util.keys import derive
from facthold.dynamics.descent import LearnFacts
from facthold.facts.table import FactTable, make_table
from facthold.models.one_head import LinearAttention
from facthold.theory.even_steps import MuonFlow, halving_gap, polar_speed, sign_times, unit_rows
from facthold.theory.reduced import Growth
from facthold.train.directions import polar_factor

S, R, D = 16, 4, 8


def table(S: int = S, R: int = R, D: int = D) -> FactTable:
    return make_table("balanced", S, R, D, key=derive("flow", 0))


def test_half_of_the_loss_is_at_the_halving_gap() -> None:
    for n in (2, 4, 8):
        assert Growth(1.0, n, 1, 0.0).loss(halving_gap(n)) == pytest.approx(math.log(n) / 2)


def test_vectors_of_relations_are_a_simplex_orthogonal_to_those_of_subjects() -> None:
    facts = table()
    e_r, e_s = unit_rows(facts.joint("relation")), unit_rows(facts.joint("subject"))
    np.testing.assert_allclose(e_r @ e_s.T, 0, atol=1e-12)
    np.testing.assert_allclose(e_r @ e_r.T, np.eye(R) * R / (R - 1) - 1 / (R - 1), atol=1e-12)
    assert polar_speed(e_r) == pytest.approx(math.sqrt((R - 1) / R))


def test_the_polar_factor_does_not_see_how_large_each_part_is() -> None:
    facts = table()
    e_r, e_s = unit_rows(facts.joint("relation")), unit_rows(facts.joint("subject"))
    moved = np.asarray(polar_factor(jnp.asarray(np.concatenate([3.0 * e_s, 0.02 * e_r]).T)), float)
    along = np.einsum("za,az->z", np.concatenate([e_s, e_r]), moved)
    np.testing.assert_allclose(along[S:], math.sqrt((R - 1) / R), rtol=1e-4)
    np.testing.assert_allclose(moved[:, S:], math.sqrt((R - 1) / R) * e_r.T, atol=1e-4)
    assert along[:S].mean() == pytest.approx(polar_speed(e_s), rel=1e-4)


def test_equal_singular_values_are_the_fastest() -> None:
    """With S = D no two subjects share an answer, and their vectors are a simplex too."""
    assert polar_speed(unit_rows(table(8, 4, 8).joint("subject"))) == pytest.approx(math.sqrt(7 / 8))
    rank = min(S - 1, R * (D - 1))
    assert polar_speed(unit_rows(table().joint("subject"))) < math.sqrt(rank / S)


@pytest.mark.parametrize("name", ["sign", "muon"])
def test_times_are_those_of_steps_that_were_made(name: str) -> None:
    """Short steps from weights that are not all equal to the last bit: W_KQ is larger than a step, so that its first
    gradient, which is 0 but for rounding, decides nothing."""
    facts, lr, start = table(), 0.01, 0.03
    task = LearnFacts.of(facts, T=8, n_noise=4, noise="even", batch=0)
    tokens = task.prompts.n_tokens
    model = LinearAttention(jnp.zeros((facts.A, tokens)), jnp.full(tokens, start))
    direction = jnp.sign if name == "sign" else polar_factor
    key = jax.random.key(0)

    @jax.jit
    def step(model: LinearAttention) -> LinearAttention:
        gradient = jax.grad(lambda m: task.loss(m, key=key))(model)
        return jax.tree.map(lambda w, g: w - lr * direction(jnp.where(jnp.abs(g) < 1e-8, 0, g)), model, gradient)

    look, times = jax.jit(lambda m: task.observe(m, key=key)), {}
    for n in range(700):
        seen = look(model)
        for kind, choices in (("relation", R), ("subject", D)):
            if seen[f"{kind}_loss"] < math.log(choices) / 2:
                times.setdefault(kind, n * lr)
        if len(times) == 2:
            break
        model = step(model)
    flow = MuonFlow.of(facts.joint("subject"), facts.joint("relation"))
    relation, subject = sign_times(R, D) if name == "sign" else flow.times()
    assert times["relation"] == pytest.approx(relation, abs=0.06)
    assert times["subject"] == pytest.approx(subject, abs=0.06)


def test_many_subjects_are_late_as_the_root_of_their_number() -> None:
    def late(S: int) -> float:
        rank = min(S - 1, R * (D - 1))
        return MuonFlow(S, R, D, math.sqrt((R - 1) / R), math.sqrt(rank / S)).times()[1]

    assert late(4096) / late(1024) == pytest.approx(2, rel=0.06)  # and nearer with more of them

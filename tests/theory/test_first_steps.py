"""Closed forms of first gradient steps, against gradients over all sequences that there are, and against draws."""

import itertools

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from facthold._util.keys import derive
from facthold.dynamics.noisy_inputs import scores_after_step
from facthold.dynamics.three_steps import ORDER, Head, Setting, gradient
from facthold.memory.embeddings import embed
from facthold.theory.first_steps import contrast_of_positions, induction_contrasts, noisy_step, position_gradient


def all_sequences(N: int, T: int) -> tuple[np.ndarray, np.ndarray]:
    """Every sequence of the simplified setting once: they are equally likely."""
    tokens, answers = [], []
    for q, at in itertools.product(range(N), range(T - 2)):
        others = [j for j in range(N) if j != q]
        for o, *free in itertools.product(others, repeat=T - 2):
            z = [*free[:at], q, o, *free[at:], q]
            tokens.append(z)
            answers.append(o)
    return np.array(tokens), np.array(answers)


def contrast(W: np.ndarray) -> float:
    N = len(W)
    return float(W[np.eye(N, dtype=bool)].mean() - W[~np.eye(N, dtype=bool)].mean())


@pytest.mark.parametrize(("N", "T"), [(4, 5), (5, 4), (3, 7)])
def test_three_small_steps_on_the_population_are_the_closed_forms(N: int, T: int) -> None:
    tokens, answers = all_sequences(N, T)
    assert tokens.shape == (len(tokens), T)
    assert len(np.unique(np.c_[tokens, answers], axis=0)) == len(tokens) == N * (T - 2) * (N - 1) ** (T - 2)
    fixed, eta = Setting.one_hot(N, T), (0.1, 0.1, 0.1)
    head = Head.zeros(fixed)
    for name, step in zip(ORDER, eta, strict=True):
        moved = -step * getattr(gradient(head, fixed, jnp.asarray(tokens), jnp.asarray(answers)), name)
        head = eqx.tree_at(lambda h, name=name: getattr(h, name), head, moved)
    found, stated = (
        {k: np.asarray(v, np.float64) for k, v in head.tables(fixed).items()},
        induction_contrasts(N, T, eta),
    )
    assert contrast(found["W_OV^2"]) == pytest.approx(stated["W_OV^2"], rel=1e-4)
    assert contrast(found["W_KQ^2"]) == pytest.approx(stated["W_KQ^2"], rel=0.01)
    positions = eta[2] * stated["W_OV^2"] * stated["W_KQ^2"] * position_gradient(N, T)
    np.testing.assert_allclose(found["W_KQ^1"], positions, atol=0.02 * np.abs(positions).max())
    assert contrast_of_positions(found["W_KQ^1"]) == pytest.approx(stated["W_KQ^1"], rel=0.02)


def test_the_previous_position_has_the_largest_gradient() -> None:
    """The theorem's statement, for every position that can hold an output."""
    G = position_gradient(65, 16)
    for s in range(1, 15):
        assert G[s, : s + 1].argmax() == s - 1


def test_moments_of_a_noisy_step_are_those_of_draws() -> None:
    N, T, d, eta, draws = 5, 3, 7, 2.0, 3000
    own = np.eye(N, dtype=bool)[:, None, :] & np.ones((1, T, 1), bool)
    found = []
    for i in range(draws):
        E, P, U = (embed("gaussian", n, d, key=derive(name, i)) for name, n in (("E", N), ("P", T), ("U", N)))
        scores = np.asarray(scores_after_step(E, P, U, eta), np.float64)
        found.append([f(scores[at]).mean() for f in (lambda x: x, np.square) for at in (own, ~own)])
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / draws**0.5
    assert (np.abs(mean - np.array(noisy_step(N, d, eta))) < 4 * error).all()
    assert (error < 0.1 * np.abs(mean)).all()


def test_a_wide_noisy_step_has_the_rate_of_the_example() -> None:
    for N in (8, 64):
        moments = noisy_step(N, 10**9, 3.0)
        assert moments.signal == pytest.approx(3 / N)
        assert moments.wrong == pytest.approx(-3 / N**2)
        assert moments.wrong_square == pytest.approx(moments.wrong**2, rel=1e-3)

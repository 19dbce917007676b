"""A few steps on a power law, against a plain loop with jax.grad."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from facthold._util.keys import derive, fold
from facthold.dynamics import LEARNERS, RESIDUALS, recovery
from facthold.dynamics.recovery import at_zero, look, recover, unit
from facthold.memory.associations import Problem, random_problem
from facthold.memory.embeddings import host_generator
from facthold.theory.recovery import power_law

N, D, ALPHA, KEY = 30, 6, 1.5, derive("recovery test", 0)


def problem(map: str = "identity", M: int = N) -> Problem:
    return random_problem(N, D, M, key=KEY, map=map)


def plain(asked: Problem, p: np.ndarray, name: str, steps: int, lr: float, batch: int, threshold: bool) -> Any:
    """The whole of it in one screen: a loss, its gradient, a direction."""
    with jax.enable_x64(True):
        E, U, f = jnp.asarray(asked.E, float), jnp.asarray(asked.U, float), np.asarray(asked.f)
        W, adam, state, counts = jnp.zeros((D, D)), optax.scale_by_adam(), None, []
        known = np.zeros(N, bool)
        for t in range(steps):
            w = host_generator(fold(KEY, t)).multinomial(batch, p) / batch if batch else p

            def loss(W: Any, w: Any = w) -> Any:
                return (w * optax.softmax_cross_entropy_with_integer_labels(E @ W.T @ U.T, jnp.asarray(f))).sum()

            G = (
                -sum(w[z] * np.outer(U[f[z]], E[z]) for z in range(N) if not known[z])
                if threshold
                else jax.grad(loss)(W)
            )
            if name == "adam":
                state = adam.init(G) if state is None else state
                step, state = adam.update(G, state)
            elif name == "muon":
                A, _, Bt = np.linalg.svd(G)
                step = A @ Bt
            else:
                step = jnp.sign(G) if name == "sign" else G
            W = W - lr * unit(name, p, D) * step
            scores = np.asarray(E @ W.T @ U.T)
            known = np.array([all(scores[z, f[z]] > np.delete(scores[z], f[z])) for z in range(N)])
            counts.append(known)
    return np.asarray(W), np.array(counts)


@pytest.mark.parametrize("residual", RESIDUALS)
@pytest.mark.parametrize("name", LEARNERS)
def test_steps_are_those_of_a_plain_loop(name: str, residual: str) -> None:
    p = power_law(N, ALPHA)
    found = recover(problem(), p, name, steps=3, lr=2.0, residual=residual, key=KEY)
    W, recalled = plain(problem(), p, name, 3, 2.0, 0, residual == "threshold")
    np.testing.assert_allclose(found.W, W, rtol=2e-4, atol=2e-4 * np.abs(W).max())
    np.testing.assert_array_equal(found.recalled, recalled)
    assert found.recalled.any()
    assert list(found.seen) == [N] * 3


def test_batches_and_other_maps_too() -> None:
    p = power_law(N, ALPHA)
    asked = problem("mod", 12)
    found = recover(asked, p, "muon", steps=2, lr=2.0, batch=40, key=KEY)
    W, recalled = plain(asked, p, "muon", 2, 2.0, 40, False)
    np.testing.assert_allclose(found.W, W, rtol=2e-4, atol=2e-4 * np.abs(W).max())
    np.testing.assert_array_equal(found.recalled, recalled)
    draws = [host_generator(fold(KEY, t)).multinomial(40, p) for t in (0, 1)]
    assert list(found.seen) == [(draws[0] > 0).sum(), (draws[0] + draws[1] > 0).sum()]


def test_at_zero_nothing_is_recalled_and_the_gradient_needs_no_scores() -> None:
    p = power_law(N, ALPHA)
    recalled, pull = look(np.zeros((D, D)), problem(), p)
    assert not recalled.any()
    np.testing.assert_allclose(at_zero(problem(), p, "softmax"), pull, atol=1e-6)


def test_blocks_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    W, p = np.asarray(jax.random.normal(KEY, (D, D))), power_law(N, ALPHA)
    whole = look(W, problem(), p)
    monkeypatch.setattr(recovery, "BLOCK_ENTRIES", 7 * N)
    parts = look(W, problem(), p)
    np.testing.assert_array_equal(whole[0], parts[0])
    np.testing.assert_allclose(whole[1], parts[1], atol=1e-6)


@pytest.mark.parametrize("name", ["muon", "sign", "sgd"])
def test_the_unit_is_the_spread_of_unrelated_scores(name: str) -> None:
    d, N = 48, 2000
    asked, p = random_problem(N, d, key=KEY, embeddings="gaussian"), power_law(N, 1.5)
    W = recover(asked, p, name, steps=1, lr=3.0, key=KEY).W
    E, U, _ = asked.host(np.float64)
    scores = E[1000:1500] @ W.T @ U[1500:].T
    assert abs(scores.std() / 3.0 - 1) < 0.1


def test_wrong_arguments_are_named() -> None:
    p = power_law(N, ALPHA)
    for wrong, words in (
        ({"optimiser": "newton"}, "optimiser"), ({"residual": "hinge"}, "residual"), ({"lr": 0.0}, "lr"),
        ({"steps": 0}, "steps"),
    ):  # fmt: skip
        given: dict[str, Any] = {"optimiser": "muon", "steps": 1, "lr": 1.0} | wrong
        with pytest.raises(ValueError, match=words):
            recover(problem(), p, given.pop("optimiser"), key=KEY, **given)

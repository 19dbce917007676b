"""Descent on a few associations, against a plain loop in NumPy, differences, and what its own steps say."""

import numpy as np
import pytest

from facthold.dynamics.imbalance import NONE, descend, losses, sharpness
from facthold.theory.imbalance import Particles


def example(runs: int = 3, N: int = 4, d: int = 3, M: int = 3) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(N), runs)
    return {"E": rng.standard_normal((runs, N, d)), "U": rng.standard_normal((M, d)), "f": np.arange(N) % M, "p": p}


def softmax(scores: np.ndarray) -> np.ndarray:
    q = np.exp(scores - scores.max(axis=1, keepdims=True))
    return q / q.sum(axis=1, keepdims=True)


def plain(E: np.ndarray, U: np.ndarray, f: np.ndarray, p: np.ndarray, eta: float, steps: int, W: np.ndarray):
    """Losses, margins and weights of one run, by the gradient as a sum of outer products."""
    found = []
    for _ in range(steps + 1):
        scores = E @ W.T @ U.T
        q, own = softmax(scores), scores[np.arange(len(f)), f]
        others = np.where(np.arange(len(U)) == f[:, None], -np.inf, scores)
        found.append((-(p @ np.log(q[np.arange(len(f)), f])), own - others.max(axis=1), W))
        W = W - eta * U.T @ ((q - np.eye(len(U))[f]) * p[:, None]).T @ E
    return [np.array(part) for part in zip(*found, strict=True)]


@pytest.mark.parametrize("started", [False, True])
def test_every_step_is_that_of_a_plain_loop(started: bool) -> None:
    given, eta = example(), np.array([0.1, 1.0, 8.0])
    start = np.random.default_rng(1).standard_normal((3, 3, 3)) if started else None
    path = descend(**given, eta=eta, times=np.arange(41), start=start)
    for i in range(3):
        first = np.zeros((3, 3)) if start is None else start[i]
        loss, margins, W = plain(given["E"][i], given["U"], given["f"], given["p"][i], eta[i], 40, first)
        np.testing.assert_allclose(path.loss[i], loss, rtol=1e-9)
        np.testing.assert_allclose(path.margins[i], margins, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(path.W[i], W, rtol=1e-8, atol=1e-10)


def test_what_is_noted_is_what_the_steps_say() -> None:
    given, eta = example(runs=6), np.geomspace(0.1, 300, 6)
    path = descend(**given, eta=eta, times=np.arange(301))
    assert path.rises.any()
    assert (path.rises == 0).any()
    for i in range(6):
        right = (path.margins[i] > 0).all(axis=1)
        rose = 1 + np.flatnonzero(path.loss[i, 1:] > path.loss[i, :-1] * (1 + 1e-9))
        assert path.first_right[i] == (right.argmax() if right.any() else NONE)
        assert path.last_wrong[i] == (np.flatnonzero(~right)[-1] if (~right).any() else NONE)
        assert path.rises[i] == len(rose)
        assert (path.first_rise[i], path.last_rise[i]) == ((rose[0], rose[-1]) if len(rose) else (NONE, NONE))
        assert path.best[i] == pytest.approx(((path.margins[i] > 0) @ given["p"][i]).max())


def test_times_may_lie_far_apart() -> None:
    given, eta = example(), np.array([0.3, 1.0, 4.0])
    every, some = (descend(**given, eta=eta, times=t) for t in (np.arange(58), np.array([0, 3, 57])))
    np.testing.assert_array_equal(every.margins[:, [0, 3, 57]], some.margins)
    np.testing.assert_array_equal(every.rises, some.rises)
    np.testing.assert_array_equal(every.first_right, some.first_right)


def test_small_losses_keep_their_digits() -> None:
    """A softmax in float64 ends at 1e-16."""
    import jax
    import jax.numpy as jnp

    with jax.enable_x64(True):
        W = jnp.asarray([[60.0, 0.0], [0.0, 60.0]])
        each, margins = losses(W, jnp.eye(2), jnp.eye(2), jnp.arange(2))
        np.testing.assert_allclose(each, np.exp(-60.0), rtol=1e-12)
        np.testing.assert_array_equal(margins, 60.0)
        assert np.isfinite(losses(-1e5 * W, jnp.eye(2), jnp.eye(2), jnp.arange(2))[0]).all()


@pytest.mark.parametrize(("correlation", "frequency"), [(0.95, 0.75), (-0.5, 0.6), (0.0, 0.9)])
def test_sharpness_at_the_start_is_the_closed_form(correlation: float, frequency: float) -> None:
    E = np.array([[[1.0, 0.0], [correlation, (1 - correlation**2) ** 0.5]]])
    p = np.array([[frequency, 1 - frequency]])
    path = descend(E, np.eye(2), np.arange(2), p, np.ones(1), np.arange(2), sharp=True)
    stated = (1 + np.sqrt(1 - 4 * frequency * (1 - frequency) * (1 - correlation**2))) / 8  # for |u_1 - u_2| = 1
    assert path.sharpness[0, 0] == pytest.approx(2 * stated)
    assert 2 * Particles.pair(correlation, frequency).sharpness == pytest.approx(2 * stated)
    assert path.sharpness[0, 1] < path.sharpness[0, 0]


def test_sharpness_anywhere_is_that_of_differences() -> None:
    import jax
    import jax.numpy as jnp

    given = example(runs=1)
    W, h = 0.5 * np.random.default_rng(2).standard_normal((3, 3)), 1e-5
    with jax.enable_x64(True):
        fixed = [jnp.asarray(given[name]) for name in ("E", "U", "f")]
        fixed[0], p = fixed[0][0], jnp.asarray(given["p"][0])
        gradient = jax.jit(jax.grad(lambda W: p @ losses(W, *fixed)[0]))
        basis = np.eye(9).reshape(9, 3, 3)
        H = [(np.asarray(gradient(W + h * e)) - np.asarray(gradient(W - h * e))).ravel() / (2 * h) for e in basis]
        assert float(sharpness(jnp.asarray(W), *fixed, p)) == pytest.approx(np.linalg.eigvalsh(H)[-1], rel=1e-6)


def test_no_step_raises_the_loss_where_it_is_not_sharp() -> None:
    """By Taylor's theorem the Hessian has an eigenvalue of 2 / eta or more somewhere along a step that does."""
    import jax
    import jax.numpy as jnp

    eta, c = 16.0, 0.95
    E, p = np.array([[1.0, 0.0], [c, (1 - c**2) ** 0.5]]), np.array([0.75, 0.25])
    path = descend(E[None], np.eye(2), np.arange(2), p[None], np.array([eta]), np.arange(30))
    rose = np.flatnonzero(np.diff(path.loss[0]) > 0)
    assert len(rose) > 3
    with jax.enable_x64(True):
        at = jax.jit(jax.vmap(lambda W: sharpness(W, jnp.asarray(E), jnp.eye(2), jnp.arange(2), jnp.asarray(p))))
        for t in rose:
            between = np.linspace(0, 1, 400)[:, None, None]
            assert np.asarray(at((1 - between) * path.W[0, t] + between * path.W[0, t + 1])).max() > 2 / eta


def test_odd_arguments_are_refused() -> None:
    given = example()
    for times in ([], [3, 3], [-1, 2]):
        with pytest.raises(ValueError, match="times must increase"):
            descend(**given, eta=np.ones(3), times=np.array(times, int))
    with pytest.raises(ValueError, match="U has 1 outputs"):
        descend(**given | {"U": given["U"][:1]}, eta=np.ones(3), times=np.arange(2))

"""Ensembles: the same steps as a plain loop over W in NumPy, as the engine's, and what bad arguments say."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from facthold._util.keys import derive
from facthold.memory.schemes import HeavyTailed
from facthold.models.token_memory import TINY, TokenMemory
from facthold.train.directions import polar_factor
from facthold.train.engine import Member, fit
from facthold.train.ensembles import EPSILON, PER_DIMENSION, RULES, Worlds, _trained, has_closed_form, train
from facthold.train.lanes import shared_lanes
from facthold.train.protocols import Protocol
from facthold.train.streams import LearnStream, samples

DATA = HeavyTailed(N=12, M=4, alpha=1.0)
KEYS = [derive("test stream", seed) for seed in range(3)]
CASES = [(rule, batch, norm) for rule in RULES for batch in (1, 5, 40) for norm in (False, True)]
CASES = [(rule, batch, norm) for rule, batch, norm in CASES if has_closed_form(rule, norm, DATA.M, 6)]


def worlds(d: int, n: int, data: HeavyTailed = DATA) -> Worlds:
    draw = np.random.default_rng(d)
    E, U, W_0 = (draw.standard_normal((len(KEYS), rows, d)) / d**0.5 for rows in (data.N, data.M, d))
    return Worlds(E, U, W_0, np.stack([samples(data.p, n, key=key) for key in KEYS]), data.f((0, 0)))


def plain(E: np.ndarray, U: np.ndarray, W: np.ndarray, z: np.ndarray, rule: str, lr: float, norm: bool, f: Any) -> Any:
    """One step of W on a batch, as the public code makes it."""
    x = E[z] @ W.T
    length = np.sqrt((x**2).sum(axis=1, keepdims=True) + TINY) if norm else np.ones((len(z), 1))
    scores = x / length @ U.T
    P = np.exp(scores - scores.max(axis=1, keepdims=True))
    P /= P.sum(axis=1, keepdims=True)
    P[np.arange(len(z)), f[z]] -= 1
    g = P @ U / len(z)
    if norm:
        n = x / length
        g = (g - n * (n * g).sum(axis=1, keepdims=True)) / length
    G = g.T @ E[z]
    if rule == "muon":
        left, values, right = np.linalg.svd(G)
        G = (left * (values > 1e-3 * values[0])) @ right
    elif rule == "sign":
        G = np.sign(G)
    elif rule == "adam-0":
        G = G / (np.abs(G) + EPSILON)
    return W - lr / (len(E[0]) if rule in PER_DIMENSION else 1) * G


@pytest.mark.parametrize(("rule", "batch", "norm"), CASES)
@pytest.mark.parametrize("d", [6, 20])
def test_steps_are_those_of_a_plain_loop_over_W(rule: str, batch: int, norm: bool, d: int) -> None:
    given, lrs, steps = worlds(d, 30 * batch), (0.1, 3.0), 30
    with jax.enable_x64(True):
        scores, raw = _trained(given, rule, lrs, batch, (10 * batch, steps * batch), norm, 0.3, shared_lanes())
    for w in range(len(KEYS)):
        E, U, z = given.E[w], given.U[w], given.z[w].reshape(steps, batch)
        for i, lr in enumerate(lrs):
            W = given.W_0[w]
            for t in range(steps):
                if t == 10:
                    early = E @ W.T
                W = plain(E, U, W, z[t], rule, lr if t < steps // 2 else 0.3 * lr, norm, given.f)
            np.testing.assert_allclose(raw[w, i], E @ W.T @ U.T, rtol=1e-7, atol=1e-8)
            if norm:
                early /= np.sqrt((early**2).sum(axis=1, keepdims=True) + TINY)
            np.testing.assert_allclose(scores[0, w, i], early @ U.T, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize(("rule", "batch", "norm"), [case for case in CASES if case[1] != 40])
def test_steps_are_those_of_the_engine(rule: str, batch: int, norm: bool) -> None:
    """On the same samples, without a look at how the other one draws them."""
    d, steps, lr = 8, 24, 0.5
    given = worlds(d, steps * batch)
    found = train(given, rule, [lr], batch, [steps * batch], norm=norm)
    protocol = Protocol("stream", "test", rule, lr / (d if rule in PER_DIMENSION else 1), steps, steps, rule="final")
    members = []
    for w, key in enumerate(KEYS):
        E, U, W_0 = (jnp.asarray(part[w], jnp.float32) for part in given[:3])
        trained, fixed = TokenMemory(W_0, E, U, norm).split("W")
        members.append(Member(trained, LearnStream.of(fixed, given.f, DATA.p, batch, key=key), key))
    for w, run in enumerate(fit(members, protocol)):
        ours = members[w].task.whole(run.model).scores(jnp.arange(DATA.N))
        # a sign of a number that is nearly zero may turn by rounding: it moves a score by a few lr/d at most
        # Muon's singular values are found by their squares there, with half of the digits: 24 steps of them add up
        atol = {"sign": 0.1, "adam-0": 0.1, "muon": 1e-2}.get(rule, 2e-3)
        np.testing.assert_allclose(found.scores[0, w, 0], ours, atol=atol)


def test_samples_come_in_one_order_whatever_the_batch() -> None:
    z = samples(DATA.p, 4000, key=KEYS[0])
    task = LearnStream.of(TokenMemory(None, None, None), DATA.f((0, 0)), DATA.p, 7, key=KEYS[0])
    from facthold.train.streams import drawn

    later = task.at(jnp.asarray(5))
    np.testing.assert_array_equal(drawn(later.below, later.first, 7, later.stream), z[35:42])
    np.testing.assert_array_equal(samples(DATA.p, 30, key=KEYS[0]), z[:30])
    counts = np.bincount(z, minlength=DATA.N)
    assert (np.abs(counts - 4000 * DATA.p) < 4 * np.sqrt(4000 * DATA.p)).all()


def test_the_orthogonal_factor_has_singular_values_of_one() -> None:
    G = np.random.default_rng(0).standard_normal((6, 3)) @ np.random.default_rng(1).standard_normal((3, 5))
    factor = np.asarray(polar_factor(jnp.asarray(G, jnp.float32)))
    np.testing.assert_allclose(np.linalg.svd(factor)[1], [1, 1, 1, 0, 0], atol=1e-5)
    assert (factor * G).sum() == pytest.approx(np.linalg.svd(G)[1].sum(), rel=1e-5)  # it is along G as far as can be


def test_worlds_do_not_touch_each_other() -> None:
    many = worlds(8, 60)
    together = train(many, "sgd", (0.3, 3.0), 1, [60])
    alone = train(many.part(slice(1, 2)), "sgd", (3.0,), 1, [60])
    np.testing.assert_allclose(together.scores[:, 1:2, 1:], alone.scores, atol=1e-4)


def test_what_cannot_be_trained_says_why() -> None:
    given = worlds(6, 20)
    with pytest.raises(ValueError, match="looks=30 must be a multiple of batch=5 and at most n=20"):
        train(given, "sgd", [1.0], 5, [30])
    with pytest.raises(ValueError, match="unknown rule 'adam'"):
        train(given, "adam", [1.0], 5, [20])
    with pytest.raises(ValueError, match=r"'muon' has no closed form for normalised outputs; train.engine has it"):
        train(given, "muon", [1.0], 5, [20], norm=True)
    with pytest.raises(ValueError, match=r"'muon' has no closed form for M=4 outputs in d=3; train.engine has it"):
        train(worlds(3, 20), "muon", [1.0], 5, [20])
    with pytest.raises(ValueError, match=r"lrs=0.0 must be above 0"):
        train(given, "sgd", [1.0, 0.0], 5, [20])

"""The page learns as the library does: the same steps, losses, stages and predictions, from the same weights."""

import math
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.testing import assert_allclose

from explore.node import needs_node, run
from facthold._util.keys import derive
from facthold.dynamics.descent import LearnFacts
from facthold.dynamics.schedule import safe_step
from facthold.dynamics.stages import Levels, find_stages
from facthold.facts.table import FactTable, balanced_table, random_table
from facthold.models.one_head import LinearAttention
from facthold.theory.even_steps import MuonFlow, sign_times
from facthold.theory.reduced import Reduced
from facthold.train.engine import _optimiser
from facthold.train.protocols import Protocol

pytestmark = needs_node
SETTINGS = {"small": (8, 3, 2, 8, 32), "figure 5": (16, 4, 8, 32, 16)}
"""S, R, D, T, and the number of noise tokens: one by which T - 3 is divided exactly in float32 too, which JAX does."""
RATES = {"sgd": 0.1, "adam": 0.01, "sign": 0.003, "muon": 0.01}
STEPS = 40
EXACT = 1e-9


def columns(table: FactTable) -> dict[str, Any]:
    sizes = {"S": table.S, "R": table.R, "A": table.A}
    return sizes | {"subjects": table.subjects, "relations": table.relations, "answers": table.answers}


def trained(
    table: FactTable, W_OV: np.ndarray, W_KQ: np.ndarray, optimiser: str, lr: float, T: int, n_noise: int
) -> tuple[np.ndarray, LinearAttention, dict[str, Any]]:
    """The project's own loss and optimisers in float64: losses before each step, the model, and what is seen of it."""
    with jax.enable_x64(True):
        task = LearnFacts.of(table, T=T, n_noise=n_noise, noise="even", batch=0)
        model = LinearAttention(jnp.asarray(W_OV), jnp.asarray(W_KQ))
        direction = _optimiser(Protocol("t", "t", optimiser, lr=lr, steps=STEPS, check_every=1))
        state = direction.init(eqx.filter(model, eqx.is_array))
        key = jax.random.key(0)

        @eqx.filter_jit
        def step(model: Any, state: Any) -> Any:
            loss, gradient = eqx.filter_value_and_grad(lambda m: task.loss(m, key=key))(model)
            update, state = direction.update(gradient, state, model)
            return loss, optax.apply_updates(model, jax.tree.map(lambda u: -lr * u, update)), state

        losses = []
        for _ in range(STEPS):
            loss, model, state = step(model, state)
            losses.append(float(loss))
        seen = jax.device_get(task.observe(model, key=key))
        return np.array(losses), jax.device_get(model), seen


@pytest.mark.parametrize("optimiser", RATES)
@pytest.mark.parametrize("size", SETTINGS)
def test_steps_are_those_of_the_library(size: str, optimiser: str, tmp_path: Path) -> None:
    """From weights at random, the same for all noise tokens: with equal weights the gradient of W_KQ is 0 but for
    rounding, and steps without size make whole steps of that."""
    S, R, D, T, n_noise = SETTINGS[size]
    table = random_table(S, R, D, key=derive("page", size))
    rng, lr = np.random.default_rng(3), RATES[optimiser]
    W_OV, W_KQ = rng.normal(size=(table.A, S + R + 2)) / 4, rng.uniform(0.3, 1.0, S + R + 2)
    spread = np.r_[np.arange(S + R), np.full(n_noise, S + R), S + R + 1]  # a column for each noise token
    losses, model, seen = trained(table, W_OV[:, spread], W_KQ[spread], optimiser, lr, T, n_noise)
    script = """
        const { Learner, observe } = await import("facthold/learning");
        const { tableOf } = await import("facthold/fact_tables");
        const table = tableOf(given.table), learner = new Learner(table, given);
        learner.W_OV.set(given.W_OV); learner.W_KQ.set(given.W_KQ);
        const losses = [];
        for (let i = 0; i < given.steps; i++) losses.push(learner.step());
        const seen = observe(table, learner.theta(), given.T);
        return { losses, W_OV: learner.W_OV, W_KQ: learner.W_KQ, seen };
    """
    found = run(
        tmp_path, script, table=columns(table), optimiser=optimiser, lr=lr, T=T, noise=n_noise, steps=STEPS,
        W_OV=W_OV.T.ravel(), W_KQ=W_KQ,
    )  # fmt: skip
    once = np.r_[np.arange(S + R + 1), S + R + n_noise]
    assert_allclose(found["losses"], losses, rtol=EXACT)
    assert losses[-1] < losses[0]
    scale = np.abs(model.W_OV).max()
    ours = np.reshape(found["W_OV"], (S + R + 2, table.A))
    assert_allclose(ours, model.W_OV.T[once], rtol=EXACT, atol=EXACT * scale)
    assert_allclose(found["W_KQ"], model.W_KQ[once], rtol=EXACT)
    for name, value in found["seen"].items():
        assert_allclose(value, seen[name], rtol=EXACT, err_msg=name)


def test_equal_starts_and_underflow(tmp_path: Path) -> None:
    """Figure 5's start, and scores so far apart that products of exponentials underflow."""
    S, R, D, T, n_noise = SETTINGS["figure 5"]
    table = balanced_table(S, R, D, key=derive("page", "start"))
    tokens = S + R + n_noise + 1
    losses, *_ = trained(table, np.full((table.A, tokens), 0.1), np.full(tokens, 0.1), "sgd", 0.5, T, n_noise)
    script = """
        const { Learner } = await import("facthold/learning");
        const { tableOf } = await import("facthold/fact_tables");
        const table = tableOf(given.table), learner = new Learner(table, given), losses = [];
        for (let i = 0; i < given.steps; i++) losses.push(learner.step());
        learner.W_OV.forEach((_, i) => (learner.W_OV[i] = ((i * 7) % 13) * 400));
        learner.W_KQ.fill(1);
        const loss = learner.pull(), G = learner.G.slice();
        learner.pullDirectly(learner.W_OV.slice(0, (table.S + table.R) * table.A));
        return { losses, loss, finite: G.every(Number.isFinite) };
    """
    found = run(
        tmp_path, script, table=columns(table), optimiser="sgd", lr=0.5, T=T, noise=n_noise, alpha=0.1, steps=STEPS
    )
    assert_allclose(found["losses"], losses, rtol=EXACT)
    assert found["finite"]
    assert found["loss"] > 100


def test_predictions_are_the_reduced_equations(tmp_path: Path) -> None:
    S, R, D, *_ = SETTINGS["figure 5"]
    table, alpha = balanced_table(S, R, D, key=derive("page", "reduced")), 1e-5
    times, short = np.linspace(0, 2000, 101), np.linspace(0, 12, 49)
    script = """
        const { reduced } = await import("facthold/reduced");
        const { signLoss, muonLoss } = await import("facthold/even_steps");
        const { tableOf } = await import("facthold/fact_tables");
        const { S, R, D } = given, { relation, subject } = reduced(S, R, D, Math.log(given.alpha));
        const muon = muonLoss(tableOf(given.table), D, 12);
        return {
          flow: given.times.map((t) => relation.lossAt(t) + subject.lossAt(t)),
          steps: relation.lossAfter(1000, 0.3), sign: given.short.map((t) => signLoss(R, D, t)),
          muon: given.short.map(muon),
        };
    """
    found = run(tmp_path, script, S=S, R=R, D=D, alpha=alpha, times=times, short=short, table=columns(table))
    law = Reduced(S, R, D, "equal", math.log(alpha))
    assert_allclose(found["flow"], law.loss(times), rtol=1e-7, atol=1e-12)
    slowed = 1000 * math.log1p(0.3 * law.relation.rate) / law.relation.rate
    assert_allclose(found["steps"], law.relation.loss_at(slowed), rtol=1e-7)
    halves = np.interp(sign_times(R, D), short, [law.relation.loss(2 * t * t) for t in short])
    assert_allclose(halves[0], math.log(R) / 2, rtol=0.02)  # straight lines between times
    assert_allclose(found["sign"], [law.relation.loss(2 * t * t) + law.subject.loss(2 * t * t) for t in short])
    flow = MuonFlow.of(table.joint("subject"), table.joint("relation"))
    t, gaps = flow.gaps(12.0)
    theirs = [law.relation.loss(x) + law.subject.loss(y) for x, y in gaps.T]
    assert_allclose(found["muon"], np.interp(short, t, theirs), rtol=1e-9)


def test_the_page_follows_its_own_prediction(tmp_path: Path) -> None:
    """Gradient descent as in figure 5, a thousandth of the start's loss from the equations all along; and a step from
    the curvature is the library's."""
    S, R, D, *_ = SETTINGS["figure 5"]
    script = """
        const { Learner } = await import("facthold/learning");
        const { balancedTable } = await import("facthold/fact_tables");
        const { reduced } = await import("facthold/reduced");
        const { safeStep } = await import("facthold/schedule");
        const { S, R, D, alpha, lr } = given, table = balancedTable(S, R, D, 1);
        const learner = new Learner(table, given), { relation, subject } = reduced(S, R, D, Math.log(alpha));
        let apart = 0, loss = 0;
        for (let i = 0; i < 6000; i++) {
          const predicted = relation.lossAfter(i, lr) + subject.lossAfter(i, lr);
          loss = learner.step();
          apart = Math.max(apart, Math.abs(loss - predicted));
        }
        const { subjects, relations, answers } = table;
        return { apart, loss, safe: safeStep(table), subjects, relations, answers };
    """
    found = run(tmp_path, script, S=S, R=R, D=D, alpha=1e-5, lr=0.1, optimiser="sgd")
    assert found["apart"] < 0.01
    assert found["loss"] < 0.03
    columns = (np.array(found[name]) for name in ("subjects", "relations", "answers"))
    assert_allclose(found["safe"], safe_step(FactTable(S, R, R * D, *columns)), rtol=1e-9)


@pytest.mark.parametrize("kind", ["balanced", "random"])
def test_stages_are_those_of_the_library(kind: str, tmp_path: Path) -> None:
    """Levels and rests of curves that rest, pass, rise and break."""
    make = {"balanced": balanced_table, "random": random_table}[kind]
    table = make(16, 4, 8, key=derive("page", kind))
    levels, t = Levels.of(table), np.arange(0.0, 4000, 10)
    law = Reduced(16, 4, 8, "equal", math.log(1e-5)).loss(t / 10)
    curves = {"rests": law, "so far": law[:200], "passes": levels.start * np.exp(-t / 300), "rises": law[::-1]}
    script = """
        const { levelsOf, tableOf } = await import("facthold/fact_tables");
        const { findStages } = await import("facthold/stages");
        const levels = levelsOf(tableOf(given.table)), found = {};
        for (const [name, y] of Object.entries(given.curves)) found[name] = findStages(given.t, y, levels);
        return { levels, found };
    """
    found = run(tmp_path, script, table=columns(table), curves=curves, t=t)
    assert_allclose(list(found["levels"].values()), list(vars(levels).values()), rtol=1e-12)
    for name, y in curves.items():
        stages, ours = find_stages(t[: len(y)], y, levels), found["found"][name]
        assert (ours["problem"] is None) == (stages.problem is None), name
        assert ours["resting"] == stages.resting
        for key, theirs in (("left", stages.left), ("converged", stages.converged)):
            assert (ours[key] is None) == (theirs is None)
            assert ours[key] is None or ours[key] == pytest.approx(theirs)
        for rest in ("relation", "subject"):
            for key in ("begins", "ends"):
                assert ours[rest][key] == pytest.approx(getattr(getattr(stages, rest), key))

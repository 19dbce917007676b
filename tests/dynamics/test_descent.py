"""Gradient descent through the engine: against the reduced equations, the population, and repeated draws."""

import math
from dataclasses import replace
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from numpy.testing import assert_allclose, assert_array_equal

from facthold.dynamics.descent import LearnFacts, descend
from facthold.dynamics.population import Start, Watched, population
from facthold.dynamics.stages import Levels, find_stages
from facthold.facts.problem import FactualRecall, factual_recall, zipf
from facthold.facts.table import balanced_table, random_table
from facthold.models.one_head import LinearAttention, SoftmaxHead
from facthold.theory.reduced import Growth, Reduced
from facthold.train.engine import Run
from facthold.train.protocols import Protocol

S, R, D, T, N_NOISE = 16, 4, 8, 32, 20
"""Figure 5's."""
A, TOKENS = R * D, S + R + N_NOISE + 1
KEY = jax.random.key(0)
TABLE = balanced_table(S, R, D, key=KEY)
ASKED = np.array([0, 17, 63])
FIGURE_5 = Protocol("figure 5", "authors' code", "sgd", lr=0.1, steps=2**13, check_every=16)
FLOAT32 = float(np.finfo(np.float32).eps)


def task_of(noise: str = "drawn", **given: Any) -> LearnFacts:
    return LearnFacts.of(TABLE, T=T, n_noise=N_NOISE, noise=noise, **given)


@eqx.filter_jit
def observe(task: LearnFacts, model: Any, key: Array = KEY) -> dict[str, Array]:
    return task.observe(model, key=key)


def random_model(*, alike: bool) -> LinearAttention:
    """Weights at random; ``alike``: the same for every noise token."""
    rng = np.random.default_rng(1)
    W_OV, W_KQ = rng.normal(size=(A, TOKENS)), rng.normal(size=TOKENS)
    if alike:
        W_OV[:, S + R : -1], W_KQ[S + R : -1] = 0.1 * W_OV[:, S + R, None], W_KQ[S + R]
    return LinearAttention(jnp.asarray(W_OV, jnp.float32), jnp.asarray(W_KQ, jnp.float32))


@cache
def figure_5() -> tuple[Run, list[tuple[int, int, float, dict[str, Any]]]]:
    """The paper's own setting, S = 16, R = 4, D = 8, steps of 0.1 from 1e-5, and what a listener heard of it."""
    heard: list[tuple[int, int, float, dict[str, Any]]] = []
    run = descend(
        task_of("even", batch=0, asked=ASKED), Start("equal", math.log(1e-5)).model(A, TOKENS),
        FIGURE_5, key=KEY, listener=lambda *look: heard.append(look),
    )  # fmt: skip
    return run, heard


def euler(growth: Growth, lr: float, steps: int) -> np.ndarray:
    """Gradient descent on the pair (k, w) of one kind of token: the loss that it leaves after each step."""
    k, w = math.exp(growth.log_invariant / 2), 0.0
    losses = []
    for _ in range(steps + 1):
        losses.append(growth.loss(k * w / growth.scale))
        g = growth.norm * growth.n / (growth.n - 1) * -math.expm1(-losses[-1])
        k, w = k + lr * growth.frequency * g * w, w + lr * growth.frequency * g * k
    return np.array(losses)


def test_gradient_descent_is_the_reduced_equations_step_by_step() -> None:
    """The same four numbers, by steps of lr: exact, so that only float32 is between the two. Rounding in the first
    e-folds is carried along, and shifts the fall in time by some eps of its 8192 steps."""
    (run, _), reduced = figure_5(), Reduced(S, R, D, "equal", math.log(1e-5))
    used = FIGURE_5
    relation, subject = (euler(growth, used.lr, used.steps) for growth in (reduced.relation, reduced.subject))
    expected = (relation + subject)[run.seen["steps"]]
    steepest = np.abs(np.diff(relation + subject)).max()
    late = used.steps * 10 * FLOAT32  # steps by which a fall may come early or late
    assert_allclose(run.seen["loss"], expected, atol=100 * FLOAT32 + steepest * late)
    assert_allclose(run.seen["relation_loss"], relation[run.seen["steps"]], atol=100 * FLOAT32 + steepest * late)


def test_gradient_descent_follows_the_flow_to_first_order() -> None:
    """A step multiplies what grows at lambda by 1 + lr lambda, and not by exp(lr lambda): times are longer by the share
    lr lambda / 2, and the three stages are those that were predicted."""
    (run, _), reduced = figure_5(), Reduced(S, R, D, "equal", math.log(1e-5))
    used, levels = FIGURE_5, Levels.of(TABLE)
    stages = find_stages(run.seen["steps"] * used.lr, run.seen["loss"], levels)
    assert stages.problem is None
    assert stages.resting == "relation"
    spacing = used.check_every * used.lr
    for ours, level in (
        (stages.left, 0.98 * levels.start), (stages.relation.begins, 1.02 * levels.relation),
        (stages.relation.ends, 0.98 * levels.relation), (stages.converged, 0.01),
    ):  # fmt: skip
        predicted = reduced.time_of(level)
        assert ours is not None
        assert -spacing < ours - predicted < used.lr * reduced.relation.rate * predicted + spacing


def test_what_never_moves() -> None:
    """sum_a W_OV(a, z) for every token, and all weights of noise and EOS, over 8192 steps in float32."""
    run, _ = figure_5()
    W_OV = np.asarray(run.model.W_OV, float)
    rounding = FIGURE_5.steps * FLOAT32 * np.abs(W_OV).max()
    assert np.abs(W_OV).max() > 1
    assert_allclose(W_OV.sum(axis=0), A * 1e-5, atol=rounding)
    for kind in ("noise", "EOS"):
        assert_allclose(run.seen[f"log_W_KQ_{kind}"], math.log(1e-5), rtol=1e-3)
    for kind in ("subject", "relation"):
        assert run.seen[f"log_W_KQ_{kind}"][-1] > math.log(1e-5) + 10


def test_before_the_first_step_nothing_is_known() -> None:
    run, _ = figure_5()
    first = {name: values[0] for name, values in run.seen.items()}
    assert run.seen["steps"][0] == 0
    expected = {
        "loss": math.log(A),
        "relation_loss": math.log(R),
        "subject_loss": math.log(D),
        "accuracy": 0.0,  # a tie is no hit
        "from_relation": math.sqrt(1 / D - 1 / A),
        "from_fact": math.sqrt(1 - 1 / A),
        "loss_error": 0.0,
        **{f"log_W_KQ_{kind}": math.log(1e-5) for kind in ("subject", "relation", "noise", "EOS")},
    }
    for name, value in expected.items():
        assert first[name] == pytest.approx(value, rel=10 * FLOAT32, abs=1e-12), name
    assert_array_equal(first["answers"], 0)
    assert_allclose(first["sure"], 1 / A, rtol=10 * FLOAT32)


def test_facts_that_are_asked_are_answered_at_every_look() -> None:
    """First any, then one of the relation's, in the end the right one."""
    run, _ = figure_5()
    answers, sure = run.seen["answers"], run.seen["sure"]
    assert answers.shape == sure.shape == (len(run.seen["steps"]), len(ASKED))
    assert_array_equal(answers[-1], TABLE.answers[ASKED])
    assert (sure[-1] > 0.95).all()
    rests = np.abs(run.seen["loss"] - math.log(D)) < 0.005
    assert rests.sum() > 10
    assert_array_equal(answers[rests] // D, np.broadcast_to(TABLE.relations[ASKED], answers[rests].shape))
    assert_allclose(sure[rests], 1 / D, atol=0.02)
    assert (run.seen["relation_loss"][rests] < 0.02).all()
    assert (run.seen["from_relation"][rests] < 0.02).all()


def test_a_run_goes_to_its_end_and_keeps_every_look() -> None:
    """No accuracy ends it: the curve is the result."""
    run, _ = figure_5()
    assert run.status == "reached"
    assert_array_equal(run.seen["steps"], np.arange(0, FIGURE_5.steps + 1, FIGURE_5.check_every))
    assert all(len(values) == len(run.seen["steps"]) for values in run.seen.values())
    assert (run.seen["accuracy"] == 1).sum() > 100


def test_the_listener_hears_every_look_from_the_first_on() -> None:
    run, heard = figure_5()
    assert [steps for _, steps, _, _ in heard] == run.seen["steps"].tolist()
    for i, (member, _, accuracy, seen) in enumerate(heard):
        assert member == 0
        assert accuracy == run.seen["accuracy"][i]
        assert seen.keys() | {"steps"} == run.seen.keys()
        assert seen["loss"] == run.seen["loss"][i]
        assert_array_equal(seen["answers"], run.seen["answers"][i])


def test_even_noise_is_the_population() -> None:
    """Loss, gradient and observables are those of the flow's pooled population, for weights alike on all noise."""
    model, task = random_model(alike=True), task_of("even", batch=0)
    loss, gradient = eqx.filter_jit(eqx.filter_value_and_grad(lambda m: task.loss(m, key=KEY)))(model)
    watched = Watched.of(population(TABLE, T=T, n_noise=N_NOISE))

    @eqx.filter_jit
    def both(Theta: Array) -> tuple[dict[str, Array], Array]:
        logits = watched.counts @ Theta.T
        return watched.predictions(logits), watched.pull(logits)

    pooled = np.r_[np.arange(S + R + 1), TOKENS - 1]  # one noise token for all of them
    expected, pull = both(jnp.asarray(np.asarray(model.Theta)[:, pooled]))
    assert loss == pytest.approx(float(expected["loss"]), rel=1e-5)
    (W_OV, W_KQ), (by_W_OV, by_W_KQ) = (map(np.asarray, (m.W_OV, m.W_KQ)) for m in (model, gradient))
    assert_allclose(-by_W_OV[:, pooled], W_KQ[pooled] * pull, atol=1e-5)
    assert_allclose(-by_W_KQ[pooled], (W_OV[:, pooled] * pull).sum(axis=0), atol=1e-4)
    seen = observe(task, model)
    for name in ("loss", "relation_loss", "subject_loss", "accuracy", "from_relation", "from_fact"):
        assert float(seen[name]) == pytest.approx(float(expected[name]), rel=1e-5), name


def test_drawn_noise_has_the_gradient_of_the_population_on_average() -> None:
    """Where all noise tokens weigh the same, within standard errors, facts drawn too."""
    model, n = random_model(alike=True), 200

    def gradients(task: LearnFacts, n: int) -> Any:
        keys = jax.random.split(jax.random.key(2), n)
        return eqx.filter_jit(jax.vmap(lambda key: eqx.filter_grad(lambda m: task.loss(m, key=key))(model)))(keys)

    drawn, exact = gradients(task_of("drawn", batch=64), n), gradients(task_of("even", batch=0), 1)
    for ours, goal in ((drawn.W_OV, exact.W_OV), (drawn.W_KQ, exact.W_KQ)):
        ours, truth = np.asarray(ours, float), np.asarray(goal[0], float)
        z = (ours.mean(axis=0) - truth) / (ours.std(axis=0, ddof=1) / math.sqrt(n))
        assert np.abs(z[ours.std(axis=0) > 1e-6]).max() < 5.5  # the largest of 1300


@eqx.filter_jit
def look_again(model: LinearAttention, keys: Array) -> dict[str, Array]:
    task = task_of("drawn")
    return jax.vmap(lambda key: task.observe(model, key=key))(keys)


def test_the_error_of_a_look_is_the_spread_of_looks() -> None:
    """Observed again and again with other noise: the variance of the mean loss is loss_error^2."""
    looks = 400
    seen = look_again(random_model(alike=False), jax.random.split(jax.random.key(3), looks))
    losses, errors = (np.asarray(seen[name], float) for name in ("loss", "loss_error"))
    spread, stated = np.var(losses, ddof=1), np.mean(errors**2)
    assert stated > 0
    assert abs(spread / stated - 1) < 4 * math.sqrt(2 / looks)


def test_noise_that_weighs_the_same_leaves_no_error() -> None:
    """Which noise tokens were drawn does not matter then."""
    seen = look_again(random_model(alike=True), jax.random.split(jax.random.key(3), 400))
    assert (np.asarray(seen["loss_error"]) < 100 * FLOAT32 * np.asarray(seen["loss"])).all()


@cache
def drawn() -> Run:
    """A larger start and longer steps than figure 5's, with noise drawn at each."""
    short = Protocol("short", "test", "sgd", lr=0.8, steps=768, check_every=8, goal=0.5)
    model = Start("equal", math.log(1e-3)).model(A, TOKENS)
    return descend(task_of("drawn", batch=128), model, short, key=KEY)


def test_with_drawn_noise_the_same_stages_are_passed() -> None:
    """Relations first, then a rest near ln D, then all facts. Batches shake what the flow leaves in place, so that the
    fall may come a tenth early or late."""
    run, reduced = drawn(), Reduced(S, R, D, "equal", math.log(1e-3))
    assert run.status == "reached"  # not by its goal of 0.5, which ends nothing
    assert len(run.seen["steps"]) == 768 // 8 + 1
    times, loss = 0.8 * run.seen["steps"], run.seen["loss"]
    predicted = reduced.time_of(1.02 * math.log(D)), reduced.time_of(0.98 * math.log(D))
    rest = (times > 1.1 * predicted[0]) & (times < 0.9 * predicted[1])
    assert rest.sum() > 3
    assert_allclose(loss[rest], math.log(D), rtol=0.05)
    assert (run.seen["relation_loss"][rest] < 0.1).all()
    assert run.seen["accuracy"][rest].max() < 0.5
    assert run.seen["accuracy"][-1] == 1.0
    assert loss[-1] < 0.1
    W_OV = np.asarray(run.model.W_OV, float)
    assert_allclose(W_OV.sum(axis=0), A * 1e-3, atol=768 * FLOAT32 * np.abs(W_OV).max())


def test_steps_that_are_too_long_are_said_to_be() -> None:
    """A run that breaks is never a curve with stages: it diverged, or its loss rose, in words."""
    wild = Protocol("wild", "test", "sgd", lr=100.0, steps=64, check_every=4)
    run = descend(task_of("drawn", batch=128), Start("equal", math.log(1e-3)).model(A, TOKENS), wild, key=KEY)
    stages = find_stages(run.seen["steps"], run.seen["loss"], Levels.of(TABLE))
    assert stages.problem is not None
    assert "smaller learning rate" in stages.problem
    assert stages.hallucination is None
    broke = not np.isfinite(run.seen["loss"]).all()
    assert ("diverged" in stages.problem) == broke
    if broke:
        assert run.status == "diverged"
        assert len(run.seen["steps"]) < 64 // 4 + 1  # it does not go on


@cache
def softmax_problem() -> FactualRecall:
    return factual_recall(TABLE, 96, key=KEY, n_noise=N_NOISE, T=T, outputs="answers")


def test_a_softmax_head_is_asked_as_the_paper_writes_it() -> None:
    """The task's logits, by counts, against the head on the embedded sequences of the same prompts."""
    problem = softmax_problem()
    task = task_of("drawn", problem=problem)
    rng = np.random.default_rng(4)
    model = SoftmaxHead(*(jnp.asarray(rng.normal(size=(96, 96)), jnp.float32) for _ in range(2)))
    facts = jnp.asarray(rng.integers(0, len(TABLE), 50), jnp.int32)

    @eqx.filter_jit
    def both(task: LearnFacts, model: SoftmaxHead) -> tuple[Array, Array]:
        X = jnp.asarray(problem.phi)[task.prompts.sequences(facts, key=KEY)]
        return task.logits(model, facts, key=KEY), model(X) @ problem.U.T

    ours, expected = both(task, model)
    assert_allclose(ours, expected, rtol=1e-3, atol=1e-4)
    seen = jax.eval_shape(lambda: task.observe(model, key=KEY))
    assert "loss" in seen
    assert not any(name.startswith("log_W_KQ") for name in seen)  # it has no one number for a token


def test_a_softmax_head_learns_relations_first() -> None:
    """Figure 5, right: the relation-only loss has all but gone while the subject-only loss is far from it."""
    short = Protocol("short", "test", "sgd", lr=8.0, steps=192, check_every=32)
    run = descend(task_of("drawn", problem=softmax_problem(), batch=256), SoftmaxHead.zeros(96), short, key=KEY)
    seen = run.seen
    assert seen["loss"][0] == pytest.approx(math.log(A), rel=10 * FLOAT32)
    assert run.status == "exhausted"
    known = seen["relation_loss"] < 0.1 * math.log(R)
    assert known.any()
    assert seen["subject_loss"][known.argmax()] > 0.9 * math.log(D)


def test_even_noise_is_refused_for_a_softmax_head() -> None:
    with pytest.raises(ValueError, match="noise='even' is the population loss of linear attention alone"):
        task_of("even", problem=softmax_problem())


@pytest.mark.parametrize("what", ["outputs", "T", "p", "n_noise", "table"])
def test_a_problem_that_is_another_is_refused(what: str) -> None:
    """What would be trained is neither of the two, and nothing would say so."""
    same = softmax_problem()
    other: Any = {
        "outputs": "vocabulary", "T": T + 1, "p": zipf(TABLE), "n_noise": np.concatenate([same.phi, same.phi[:1]]),
        "table": balanced_table(S, R, D, key=jax.random.key(9)),
    }[what]  # fmt: skip
    with pytest.raises(ValueError, match="problem"):
        task_of("drawn", problem=replace(same, **{"phi" if what == "n_noise" else what: other}))


@pytest.mark.parametrize("asked", [[-1], [len(TABLE)], [0, 1000]])
def test_a_fact_that_is_not_there_cannot_be_asked(asked: list[int]) -> None:
    """An index beyond the table must not quietly become its last row."""
    with pytest.raises(ValueError, match="asked"):
        task_of("even", asked=np.array(asked))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"noise": "evn"}, "unknown noise 'evn'; did you mean 'even'"),
        ({"batch": -1}, "batch=-1 must not be negative; 0 takes every fact"),
    ],
)
def test_wrong_arguments_are_refused_in_words(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        task_of(**given)


def test_prompts_that_hold_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="T=2 leaves no room"):
        LearnFacts.of(TABLE, T=2, n_noise=N_NOISE)
    with pytest.raises(ValueError, match="n_noise=0 must be at least 1"):
        LearnFacts.of(TABLE, T=T, n_noise=0)


def test_the_distance_from_the_relation_is_to_its_own_answers() -> None:
    """p*(a | r) of a table that is not balanced, by counting."""
    table = random_table(7, 3, 4, key=KEY)
    task = LearnFacts.of(table, T=5, n_noise=2, noise="even", batch=0)
    nothing = LinearAttention(jnp.zeros((table.A, 13)), jnp.zeros(13))

    def far(r: int) -> float:
        given = np.bincount(table.answers[table.relations == r], minlength=table.A) / 7
        return float(np.linalg.norm(given - 1 / table.A))

    seen = observe(task, nothing)
    assert float(seen["from_relation"]) == pytest.approx(np.mean([far(r) for r in range(3)]), rel=1e-5)
    assert float(seen["relation_loss"]) == pytest.approx(
        np.mean([math.log(table.A / len(table.A_r(r))) for r in range(3)]), rel=1e-5
    )

"""The training engine: same gradients as autodiff, same runs as a plain loop, members that do not touch each other."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jaxtyping import Array

from facthold.associations import random_problem
from facthold.bench import PlainRun, needed_flops
from facthold.experiments.make import training_member
from facthold.experiments.methods import method
from facthold.measure.recall import accuracy
from facthold.models.memory import LinearMemory, MLPMemory
from facthold.padding import padded
from facthold.train import Futility, Member, Protocol, StoreAssociations, Task, fit, protocol
from facthold.train.engine import _groups
from facthold.train.lanes import Lanes, Stopped, shared_lanes

SHORT = Protocol("short", "test", "adam", lr=1e-2, steps=64, check_every=16, goal=1.0, futility=None)


def member(N: int, d: int = 8, m: int = 16, seed: int = 0, lr: float | None = None) -> Member:
    problem = random_problem(N, d, key=jax.random.key(seed))
    model = MLPMemory.init(d, m, key=jax.random.key(seed + 100))
    return Member(model, StoreAssociations.of(problem), jax.random.key(seed + 200), lr)


@pytest.mark.parametrize("pad", [False, True])
def test_the_fused_loss_and_its_gradient_are_those_of_autodiff(pad: bool) -> None:
    with jax.enable_x64(True):
        problem = jax.tree.map(
            lambda x: x.astype(jnp.float64) if eqx.is_inexact_array(x) else x,
            random_problem(40, 8, 50, key=jax.random.key(0), map="injective"),
        )
        model = jax.tree.map(lambda x: x.astype(jnp.float64), LinearMemory.init(8, key=jax.random.key(1)))
        task = StoreAssociations.of(problem, pad=pad)
        assert (padded(40) if pad else 40) == task.problem.N

        def plain(model: Any) -> Array:
            scores = model.logits(problem.E, problem.U)
            return optax.softmax_cross_entropy_with_integer_labels(scores, problem.f).mean()

        value, gradient = eqx.filter_value_and_grad(lambda model: task.loss(model))(model)
        expected, expected_gradient = eqx.filter_value_and_grad(plain)(model)
        np.testing.assert_allclose(value, expected, rtol=1e-12)
        np.testing.assert_allclose(gradient.W, expected_gradient.W, rtol=1e-9, atol=1e-14)


def test_accuracy_of_a_padded_task_is_that_of_the_problem() -> None:
    problem = random_problem(37, 8, key=jax.random.key(3))
    model = LinearMemory.init(8, key=jax.random.key(4))
    assert float(StoreAssociations.of(problem).accuracy(model)) == pytest.approx(accuracy(model, problem), abs=1e-6)


def test_training_is_that_of_a_plain_loop() -> None:
    """Same start, same data, same optimiser: the same weights after 64 steps, up to float32 rounding."""
    way = dataclasses.replace(method("train:mlp-text"), protocol=dataclasses.replace(SHORT, goal=1.0))
    problem = random_problem(60, 8, key=jax.random.key(0))
    (ours,) = fit([training_member(way, problem, 16, seed=0)], way.protocol)
    plain = PlainRun(way, problem, 16, seed=0)
    plain.train(SHORT.steps)
    assert ours.steps == SHORT.steps
    # Adam divides by the root of the second moment: rounding grows, but stays far below a step of 1e-2
    np.testing.assert_allclose(ours.model.W, plain.params.W, atol=1e-4)
    np.testing.assert_allclose(ours.model.V, plain.params.V, atol=1e-4)


def test_members_do_not_depend_on_each_other() -> None:
    together = fit([member(30, seed=i) for i in range(4)], SHORT)
    for i, run in enumerate(together):
        (alone,) = fit([member(30, seed=i)], SHORT)
        np.testing.assert_allclose(run.model.W, alone.model.W, atol=1e-4)
        np.testing.assert_allclose(run.curve, alone.curve, atol=1 / 30 + 1e-6)


def test_a_member_that_diverges_says_so_and_does_not_hurt_the_others() -> None:
    good, bad = member(30, seed=0), member(30, seed=1, lr=float("inf"))
    runs = fit([good, bad, good], SHORT)
    assert [run.status for run in runs] == ["exhausted", "diverged", "exhausted"]
    assert np.isnan(runs[1].final)
    np.testing.assert_allclose(runs[0].model.W, fit([good], SHORT)[0].model.W, atol=1e-4)


def test_a_run_stops_where_it_reaches_its_goal() -> None:
    easy = dataclasses.replace(SHORT, steps=2048, goal=0.99)
    (run,) = fit([member(12)], easy)
    assert run.succeeded
    assert run.steps < easy.steps
    assert run.curve[-1] >= 0.99 > run.curve[:-1].max(initial=0.0)


def test_learning_rates_of_members_are_their_own() -> None:
    slow, fast = fit([member(30, lr=1e-6), member(30, lr=1e-2)], SHORT)
    start = member(30).model
    assert np.abs(slow.model.W - start.W).max() < 1e-3 < np.abs(fast.model.W - start.W).max()


def test_hopeless_runs_stop_early_and_hopeful_ones_do_not() -> None:
    rule = Futility(optimism=2.0, least=0.02, slack=0.0, after=0.1)
    assert rule.hopeless(0.50, 0.49, 32, 128, goal=0.99)  # 0.5 + 2 * 0.02 * 2 = 0.58
    assert not rule.hopeless(0.50, 0.30, 32, 128, goal=0.99)  # 0.5 + 2 * 0.2 * 2 = 1.3
    assert not rule.hopeless(0.50, 0.50, 8, 128, goal=0.99)  # too early to say
    given_up = dataclasses.replace(SHORT, steps=4096, futility=Futility())
    (run,) = fit([member(400, d=4, m=4)], given_up)
    assert run.status == "futile"
    assert run.steps < 4096


@pytest.mark.slow
def test_the_futility_rule_gives_the_verdict_of_full_length() -> None:
    """Around the capacity of a small memory: no run that the rule gives up would have reached its goal."""
    p = protocol("linear-code")
    problems = [(random_problem(N, 16, key=jax.random.key(s)), s) for N in (44, 50, 56, 64) for s in range(5)]
    members = [
        Member(LinearMemory.init(16, key=jax.random.key(s)), StoreAssociations.of(q), jax.random.key(s))
        for q, s in problems
    ]
    ruled, full = fit(members, p), fit(members, dataclasses.replace(p, futility=None))
    assert [run.succeeded for run in ruled] == [run.succeeded for run in full]
    assert len({run.succeeded for run in full}) == 2  # the sizes lie around the capacity, so that both happen


class DrawnTask(Task):
    """Fit the mean of fresh draws: a task that needs a new key at each step."""

    def loss(self, model: Any, *, key: Array) -> Array:
        return ((model.W - jax.random.normal(key, model.W.shape)) ** 2).mean()

    def accuracy(self, model: Any, *, key: Array) -> Array:
        return jnp.exp(-(model.W**2).mean())


def test_steps_of_a_task_that_draws_get_fresh_keys() -> None:
    """With one key for all steps W would go to one draw, of mean square 1; with fresh ones it averages them."""
    sgd = Protocol("sgd", "test", "sgd", lr=0.05, steps=2048, check_every=64, goal=1.0, futility=None)
    (run,) = fit([Member(LinearMemory(jnp.ones((4, 4))), DrawnTask(), jax.random.key(0))], sgd)
    assert float((run.model.W**2).mean()) < 0.2


def test_groups_share_a_shape_and_cover_every_member() -> None:
    members = [member(20, seed=i) for i in range(5)] + [member(900, seed=i) for i in range(3)]
    groups = _groups(members)
    assert sorted(i for group in groups for i in group) == list(range(8))
    assert max(len(group) for group in groups) > 1  # small ones together
    assert all(len(group) == 1 for group in groups if max(group) >= 5)  # large ones alone


def test_stopped_lanes_start_nothing_more() -> None:
    lanes = Lanes()
    lanes.stop()
    with pytest.raises(Stopped):
        lanes.check()


def test_shared_lanes_work_again_after_a_stop() -> None:
    """Ctrl-C in a notebook calls off one sweep, not all that follow."""
    shared_lanes().stop()
    (run,) = fit([member(12)], SHORT)
    assert run.status in ("reached", "exhausted")


def test_results_do_not_depend_on_the_number_of_lanes() -> None:
    """The same bits, for large members that train alone and for small ones that share a loop."""
    members = [member(30, seed=i) for i in range(4)] + [member(200, seed=i) for i in range(2)]
    one, two = Lanes(1), Lanes(2)
    for a, b in zip(fit(members, SHORT, lanes=one), fit(members, SHORT, lanes=two), strict=True):
        assert (a.status, a.steps) == (b.status, b.steps)
        np.testing.assert_array_equal(a.model.W, b.model.W)
        np.testing.assert_array_equal(a.curve, b.curve)
    one.stop()
    two.stop()


def test_needed_multiplications_are_counted_as_documented() -> None:
    assert needed_flops(N=10, M=10, d=4, m=0) == 4 * 10 * 10 * 4 + 4 * 10 * 16
    assert needed_flops(N=10, M=20, d=4, m=8) == 4 * 10 * 20 * 4 + 10 * 10 * 8 * 4


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"steps": 0}, "steps=0"),
        ({"check_every": 48}, "check_every=48 does not divide steps=64"),
        ({"goal": 0.0}, "goal=0.0"),
        ({"optimiser": "adm"}, "unknown optimiser 'adm'; did you mean 'adam'"),
    ],
)
def test_wrong_protocols_are_refused(changes: dict, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        dataclasses.replace(SHORT, **changes)


def test_unknown_protocol_is_refused() -> None:
    with pytest.raises(ValueError, match="did you mean 'mlp-code'"):
        protocol("mlp_code")

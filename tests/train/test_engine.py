"""The training engine: same gradients as autodiff, same runs as a plain loop, members that do not touch each other."""

import dataclasses
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jaxtyping import Array

from facthold._util.padding import padded
from facthold.measure.recall import accuracy
from facthold.memory.associations import random_problem
from facthold.models.memory import LinearMemory, MLPMemory
from facthold.recipes import memory_recipe, training_member
from facthold.train.bench import MemoryBench, plain_memory
from facthold.train.engine import RACE_STEPS, Member, Run, _groups, fit
from facthold.train.lanes import Lanes, Stopped, shared_lanes
from facthold.train.protocols import Futility, Protocol, protocol
from facthold.train.tasks import StoreAssociations, Task

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
    problem = random_problem(60, 8, key=jax.random.key(0))
    start = training_member(memory_recipe("train:mlp-text"), problem, 16, seed=0)
    (ours,) = fit([start], SHORT)
    *_, (plain, _) = islice(plain_memory(start.model, problem, SHORT), SHORT.steps)
    assert ours.steps == SHORT.steps
    # Adam divides by the root of the second moment: rounding grows, but stays far below a step of 1e-2
    np.testing.assert_allclose(ours.model.W, plain.W, atol=1e-4)
    np.testing.assert_allclose(ours.model.V, plain.V, atol=1e-4)


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


class PulledTask(DrawnTask):
    """A gradient of 1 everywhere, whatever the weights are."""

    def loss(self, model: Any, *, key: Array) -> Array:
        return model.W.sum()


def test_momentum_and_weight_decay_are_those_of_the_public_code() -> None:
    """v <- 0.9 v + (gradient + 1e-4 w), w <- w - lr v, as in torch.optim.SGD."""
    public = Protocol("way", "test", "sgd-momentum", lr=0.03, steps=64, check_every=64, goal=1.0, futility=None)
    (run,) = fit([Member(LinearMemory(jnp.full((2, 2), 5.0)), PulledTask(), jax.random.key(0))], public)
    w, v = 5.0, 0.0
    for _ in range(64):
        v = 0.9 * v + (1.0 + 1e-4 * w)
        w -= 0.03 * v
    assert np.allclose(run.model.W, w, rtol=1e-5)


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


@pytest.fixture
def one_and_two() -> Iterator[tuple[Lanes, Lanes]]:
    lanes = Lanes(1), Lanes(2)
    yield lanes
    for some in lanes:
        some.stop()


def assert_same_bits(runs: Sequence[Run], others: Sequence[Run]) -> None:
    for a, b in zip(runs, others, strict=True):
        assert (a.status, a.steps) == (b.status, b.steps)
        np.testing.assert_array_equal(a.curve, b.curve)
        for x, y in zip(jax.tree.leaves(a.model), jax.tree.leaves(b.model), strict=True):
            np.testing.assert_array_equal(x, y)


def test_results_do_not_depend_on_the_number_of_lanes(one_and_two: tuple[Lanes, Lanes]) -> None:
    """To the bit: neither who shares a loop nor the order of a sum depends on it."""
    members = [member(30, seed=i) for i in range(4)] + [member(200, seed=i) for i in range(2)]
    assert_same_bits(*(fit(members, SHORT, lanes=lanes) for lanes in one_and_two))


EASY = dataclasses.replace(SHORT, steps=4096, goal=0.99)


def race(N: int, lrs: Sequence[float], name: str, seed: int = 0) -> list[Member]:
    return [member(N, seed=seed, lr=lr)._replace(race=name) for lr in lrs]


def test_a_race_ends_when_one_has_succeeded(one_and_two: tuple[Lanes, Lanes]) -> None:
    """The others are outrun, after the same steps on any number of lanes; who is in no race, or another, is not."""
    slow, fast = 1e-6, 1e-2
    first, second = race(12, (slow, fast, slow), "first"), race(12, (slow, slow), "second", seed=1)
    alone = [member(12, seed=2, lr=slow)]
    members = [*first, *alone, *second]
    one, two = (fit(members, EASY, lanes=lanes) for lanes in one_and_two)
    assert_same_bits(one, two)
    assert [run.status for run in one] == ["outrun", "reached", "outrun", "exhausted", "exhausted", "exhausted"]
    winner, outrun = one[1], one[0]
    assert winner.steps <= outrun.steps < winner.steps + RACE_STEPS
    assert outrun.steps % RACE_STEPS == 0
    assert {run.steps for run in one[3:]} == {EASY.steps}
    assert_same_bits(one[3:4], fit(alone, EASY))  # it did not notice the races
    assert_same_bits(one[1:2], fit([first[1]._replace(race=None)], EASY))  # nor does the winner lose or gain by its own


def test_the_names_of_races_are_not_those_of_others() -> None:
    """A member alone is in no race, whatever the races are called."""
    members = [*race(12, (1e-2,), "alone"), *race(12, (1e-6,), "race"), member(12, lr=1e-6)]
    assert [run.status for run in fit(members, dataclasses.replace(EASY, steps=1024))] == [
        "reached", "exhausted", "exhausted",
    ]  # fmt: skip


def test_the_final_rule_is_met_at_the_end_alone() -> None:
    final = dataclasses.replace(EASY, rule="final", steps=1024)
    best, at_the_end = (fit([member(12)], rule)[0] for rule in (dataclasses.replace(final, rule="best"), final))
    assert best.succeeded
    assert at_the_end.succeeded
    assert best.steps < at_the_end.steps == final.steps
    assert at_the_end.curve.max() >= 0.99
    too_short = dataclasses.replace(final, steps=best.steps - final.check_every)
    (run,) = fit([member(12)], too_short)
    assert (run.status, run.steps) == ("exhausted", too_short.steps)


class Forgetting(Task):
    """Learnt by the second look and then lost again: W counts the steps."""

    def loss(self, model: Any, *, key: Array) -> Array:
        return -model.W.sum()

    def accuracy(self, model: Any, *, key: Array) -> Array:
        return jnp.where(jnp.abs(model.W.mean() - 32) < 1, 1.0, 0.25)


def test_what_is_learnt_and_lost_again_counts_for_the_best_rule_alone() -> None:
    count = Protocol("count", "test", "sgd", lr=1.0, steps=64, check_every=16, goal=0.99, futility=None)
    start = Member(LinearMemory(jnp.zeros((2, 2))), Forgetting(), jax.random.key(0))
    (best,) = fit([start], count)
    (final,) = fit([start], dataclasses.replace(count, rule="final"))
    assert (best.status, best.steps) == ("reached", 32)
    assert (final.status, final.steps) == ("exhausted", 64)
    assert (final.best, final.final) == (1.0, 0.25)
    np.testing.assert_array_equal(final.curve, [0.25, 1.0, 0.25, 0.25])


def test_needed_multiplications_are_counted_as_documented() -> None:
    assert MemoryBench("linear-code", N=10, d=4).flops == 4 * 10 * 10 * 4 + 4 * 10 * 16
    assert MemoryBench("mlp-code", N=10, d=4, m=8).flops == 4 * 10 * 10 * 4 + 10 * 10 * 8 * 4


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"steps": 0}, "steps=0"),
        ({"check_every": 48}, "check_every=48 does not divide steps=64"),
        ({"goal": 0.0}, "goal=0.0"),
        ({"optimiser": "adm"}, "unknown optimiser 'adm'; did you mean 'adam'"),
        ({"rule": "fin"}, "unknown success rule 'fin'; did you mean 'final'"),
    ],
)
def test_wrong_protocols_are_refused(changes: dict, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        dataclasses.replace(SHORT, **changes)


def test_unknown_protocol_is_refused() -> None:
    with pytest.raises(ValueError, match="did you mean 'mlp-code'"):
        protocol("mlp_code")

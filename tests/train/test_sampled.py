"""Batches and drawn rivals against full sums in NumPy; what the engine does for them: decay, and who listens."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from numpy.testing import assert_allclose, assert_array_equal

from facthold._util.padding import padded
from facthold.facts.table import NO_MORE
from facthold.memory.associations import Problem, random_problem
from facthold.models.memory import LinearMemory, MLPMemory
from facthold.train.engine import RACE_STEPS, Member, fit
from facthold.train.protocols import PROTOCOLS, Protocol
from facthold.train.sampled import ALL, LOOKED, OTHERS, RIVALS, SAMPLE, StoreSampled, _beside
from facthold.train.tasks import BATCH, StoreAssociations, Task

KEY = jax.random.key(17)
SINGLE = float(np.finfo(np.float32).eps)
D = 8
Right = list[set[int]]


def some(N: int, M: int, map: str = "uniform") -> tuple[Problem, MLPMemory]:
    """Associations, and a model at random whose scores are of order one."""
    return random_problem(N, D, M, key=KEY, map=map), jax.tree.map(lambda W: 2 * W, MLPMemory.init(D, 16, key=KEY))


def further(N: int, M: int, n: int) -> np.ndarray:
    rng = np.random.default_rng(5)
    return np.unique(np.stack([rng.integers(0, N, n), rng.integers(0, M, n)], axis=1), axis=0)


def scores_of(problem: Problem, model: Any) -> np.ndarray:
    return np.asarray(model(problem.E), float) @ np.asarray(problem.U, float).T


def right_of(problem: Problem, also: np.ndarray | None = None) -> Right:
    right = [{int(a)} for a in np.asarray(problem.f)]
    for i, a in () if also is None else also:
        right[i].add(int(a))
    return right


def entropies(scores: np.ndarray, f: np.ndarray, right: Right) -> np.ndarray:
    """-log of the probability of f, each alone, among f and all that is not right."""
    losses = []
    for row, a, those in zip(scores, f, right, strict=True):
        rivals = np.delete(row, sorted(those))
        losses.append(np.log(np.exp(row[a]) + np.exp(rivals).sum()) - row[a])
    return np.array(losses)


@eqx.filter_jit
def look(task: StoreSampled, model: Any, key: Array) -> Array:
    return task.accuracy(model, key=key)


@eqx.filter_jit
def loss_and_gradient(task: StoreSampled, model: Any) -> tuple[Array, Any]:
    return eqx.filter_value_and_grad(lambda model: task.loss(model, key=KEY))(model)


@eqx.filter_jit
def losses_of(task: StoreSampled, model: Any, n: int) -> Array:
    """The loss with n keys."""
    return jax.lax.map(lambda key: task.loss(model, key=key), jax.random.split(KEY, n))


@eqx.filter_jit
def full_gradient(problem: Problem, model: Any, allowed: Array) -> Any:
    """Of the plain cross entropy over the outputs that are allowed."""

    def plain(model: Any) -> Array:
        scores = jnp.where(allowed, model.logits(problem.E, problem.U), -jnp.inf)
        return -jnp.take_along_axis(jax.nn.log_softmax(scores, axis=1), problem.f[:, None], axis=1).mean()

    return eqx.filter_grad(plain)(model)


@pytest.mark.parametrize("n_also", [0, 40])
def test_few_inputs_and_outputs_are_all_there(n_also: int) -> None:
    """The loss is the full cross entropy; further right outputs are no rivals; what is padding does not count."""
    N, M = 50, 20
    problem, model = some(N, M)
    also = further(N, M, n_also)
    task = StoreSampled.of(problem, also=also)
    assert (len(task.problem.E), len(task.problem.U)) == (padded(N), padded(M)) == (64, 32)
    f, right, scores = np.asarray(problem.f), right_of(problem, also), scores_of(problem, model)
    expected = entropies(scores, f, right).mean()
    value, gradient = loss_and_gradient(task, model)
    assert float(value) == pytest.approx(expected, rel=64 * SINGLE)
    assert (expected < entropies(scores, f, right_of(problem)).mean()) == (n_also > 0)
    allowed = np.array([[a == f[i] or a not in right[i] for a in range(M)] for i in range(N)])
    wanted = full_gradient(problem, model, jnp.asarray(allowed))
    for a, b in zip(jax.tree.leaves(gradient), jax.tree.leaves(wanted), strict=True):
        assert_allclose(a, b, rtol=0, atol=64 * SINGLE * np.abs(b).max())


def test_no_rival_at_all_is_no_loss_and_no_step() -> None:
    """One answer in all, or every answer right: recall is sure, and the gradient is zero and not nan."""
    alone, model = some(50, 1)
    everything, _ = some(50, 3)
    also = np.array([(i, a) for i in range(50) for a in range(3) if a != int(everything.f[i])])
    for task in (StoreSampled.of(alone), StoreSampled.of(everything, also=also)):
        value, gradient = loss_and_gradient(task, model)
        assert float(value) == pytest.approx(0, abs=8 * SINGLE)
        assert all(np.abs(leaf).max() <= 64 * SINGLE for leaf in jax.tree.leaves(gradient))
        assert float(look(task, model, KEY)) == 1.0


def test_a_batch_is_a_fair_sample_of_the_inputs() -> None:
    problem, model = some(3 * BATCH, 40)
    full = entropies(scores_of(problem, model), np.asarray(problem.f), right_of(problem))
    drawn = np.asarray(losses_of(StoreSampled.of(problem), model, 32))
    assert 0 < drawn.std() < 2 * full.std() / np.sqrt(BATCH)
    assert abs(drawn.mean() - full.mean()) < 4 * full.std() / np.sqrt(32 * BATCH)


def test_drawn_rivals_lie_between_own_outputs_and_their_expectation() -> None:
    """All outputs that an input has are rivals at each step, so no loss is below theirs alone. Some of all outputs are
    drawn beside them; log(1 + x) is concave, so the mean loss is at most the loss at the mean sum of the rivals."""
    N, M = 200, 3 * ALL
    problem, model = some(N, M)
    also = further(N, M, 300)
    f, right = np.asarray(problem.f), right_of(problem, also)
    scores = scores_of(problem, model)
    drawn = np.asarray(losses_of(StoreSampled.of(problem, also=also), model, 32))
    wrong = np.ones((N, M), bool)
    for i, those in enumerate(right):
        wrong[i, sorted(those)] = False
    weights = np.where(wrong, np.exp(scores - scores[np.arange(N), f][:, None]), 0)
    own = weights[:, np.unique(f)].sum(axis=1)
    lowest, highest = np.log1p(own).mean(), np.log1p(own + OTHERS / M * weights.sum(axis=1)).mean()
    sem = drawn.std(ddof=1) / np.sqrt(len(drawn))
    assert (drawn > lowest).all()
    assert drawn.mean() < highest + 4 * sem
    assert highest < np.log1p(weights.sum(axis=1)).mean()  # here at most the loss against all outputs
    assert drawn.mean() > np.log1p(own + 0.9 * OTHERS / M * weights.sum(axis=1)).mean()  # 512 draws: near the mean sum


def test_drawn_own_outputs_are_those_of_inputs() -> None:
    """More outputs than a step holds: with a model that scores own outputs alone, the others add their number."""
    N = M = 2 * ALL
    problem, _ = some(N, M, "identity")
    task = StoreSampled.of(problem)
    assert len(np.unique(np.asarray(task.own)[: int(task.n_own)])) == N > RIVALS
    silent = LinearMemory(jnp.zeros((D, D)))
    losses = np.asarray(losses_of(task, silent, 4))
    assert losses.max() <= np.log1p(RIVALS + OTHERS) * (1 + 8 * SINGLE)  # every score is 0: rivals are counted
    again = (RIVALS + OTHERS) / N  # how often an input meets its own output, which is no rival
    assert abs(losses.mean() - np.log1p(RIVALS + OTHERS - again)) < 1 / N


@pytest.mark.parametrize("n_also", [0, 10])
@pytest.mark.parametrize("margin", [0.0, 0.5, 1.0])
def test_accuracy_counts_margins_above_the_margin(margin: float, n_also: int) -> None:
    problem, model = some(50, 5)
    also = further(50, 5, n_also)
    task = StoreSampled.of(problem, margin=margin, also=also)
    scores, f = scores_of(problem, model), np.asarray(problem.f)
    rivals = [np.delete(row, sorted(those)).max() for row, those in zip(scores, right_of(problem, also), strict=True)]
    margins = scores[np.arange(50), f] - rivals
    assert np.abs(margins - margin).min() > 64 * SINGLE * np.abs(scores).max()  # rounding decides nowhere
    assert float(look(task, model, KEY)) == pytest.approx((margins > margin).mean(), abs=1 / 500)
    assert 0 < (margins > margin).mean() < 1


def test_a_look_at_many_inputs_is_a_fair_sample() -> None:
    problem, model = some(3 * LOOKED, 5)
    task = StoreSampled.of(problem)
    scores, f = scores_of(problem, model), np.asarray(problem.f)
    share = (scores.argmax(axis=1) == f).mean()
    seen = np.array([float(look(task, model, jax.random.fold_in(KEY, i))) for i in range(64)])
    assert len(set(seen.tolist())) > 1
    assert set((seen * SAMPLE % 1).tolist()) == {0.0}  # of so many inputs
    assert abs(seen.mean() - share) < 4 * np.sqrt(share * (1 - share) / (64 * SAMPLE))


def test_scores_that_are_not_finite_are_never_won() -> None:
    problem, model = some(50, 5)
    broken = eqx.tree_at(lambda m: m.V, model, model.V.at[0, 0].set(jnp.nan))
    assert float(look(StoreSampled.of(problem), broken, KEY)) == 0.0


def test_right_outputs_stand_in_a_row() -> None:
    f = np.array([3, 1, 4, 1], np.int32)
    also = np.array([[2, 0], [0, 5], [2, 6], [2, 2]], np.int32)
    table = _beside(f, also)
    assert [set(row) for row in table.tolist()] == [{3, 5}, {1}, {4, 0, 6, 2}, {1}]
    assert_array_equal(table[:, 0], f)
    assert _beside(f, NO_MORE).shape == (4, 1)


# The engine: a learning rate that falls to zero, and a listener.


class Downhill(Task):
    """A linear loss: each step of plain gradient descent is as long as the learning rate."""

    def loss(self, model: Any, *, key: Array) -> Array:
        return model.W.sum()

    def accuracy(self, model: Any, *, key: Array) -> Array:
        return jnp.where(model.W.mean() < -1e6, 1.0, 0.25)


@pytest.mark.parametrize("check_every", [5, 40])
def test_a_learning_rate_that_decays_sums_up_to_half(check_every: int) -> None:
    """The way is lr sum_t (1 - t / steps) = lr (steps + 1) / 2, however often one looks, and lr steps without decay."""
    lr, steps = 0.5, 40
    plain = Protocol("way", "test", "sgd", lr=lr, steps=steps, check_every=check_every, goal=1.0, futility=None)
    start = Member(LinearMemory(jnp.zeros((3, 3))), Downhill(), KEY)
    for protocol, way in ((plain, lr * steps), (dataclasses.replace(plain, decay=True), lr * (steps + 1) / 2)):
        (run,) = fit([start], protocol)
        assert run.steps == steps
        assert_allclose(run.model.W, -way, rtol=steps * SINGLE)


@pytest.mark.parametrize("optimiser", ["adam", "adam-95"])
def test_decay_shortens_each_step_of_adam_by_what_is_left(optimiser: str) -> None:
    """At a constant gradient a step of Adam is as long as the learning rate, whatever it forgets."""
    protocol = Protocol("way", "test", optimiser, lr=0.5, steps=40, check_every=8, futility=None, decay=True)
    (run,) = fit([Member(LinearMemory(jnp.zeros((3, 3))), Downhill(), KEY)], protocol)
    assert_allclose(run.model.W, -0.5 * 41 / 2, rtol=1e-5)  # bias correction is in float32, and epsilon is 1e-8


def test_results_without_decay_are_found_under_their_old_spec() -> None:
    before = {"name", "source", "optimiser", "lr", "steps", "check_every", "goal", "bias", "futility"}
    for protocol in PROTOCOLS.values():
        assert set(protocol.spec) - {"lrs", "rule"} == before
        decayed = dataclasses.replace(protocol, decay=True).spec
        assert decayed == protocol.spec | {"decay": True}


SHORT = Protocol("short", "test", "adam", lr=1e-2, steps=64, check_every=8, goal=1.0, futility=None)


def member(N: int, seed: int = 0, lr: float | None = None, race: str | None = None) -> Member:
    problem = random_problem(N, D, key=jax.random.key(seed))
    model = MLPMemory.init(D, 16, key=jax.random.key(seed + 100))
    return Member(model, StoreAssociations.of(problem), jax.random.key(seed + 200), lr, race)


def assert_heard_and_unchanged(members: list[Member], protocol: Protocol) -> list[Any]:
    """Each look of each member once, in order, as its curve has it; and the run is the same to the bit."""
    heard: list[tuple[int, int, float]] = []
    listened = fit(members, protocol, listener=lambda i, steps, share, _: heard.append((i, steps, share)))
    for i, (run, alone) in enumerate(zip(listened, fit(members, protocol), strict=True)):
        steps = protocol.check_every * (1 + np.arange(len(run.curve)))
        assert [(n, share) for j, n, share in heard if j == i] == list(zip(steps, run.curve.tolist(), strict=True))
        assert (run.status, run.steps) == (alone.status, alone.steps)
        assert_array_equal(run.curve, alone.curve)
        for x, y in zip(jax.tree.leaves(run.model), jax.tree.leaves(alone.model), strict=True):
            assert_array_equal(x, y)
    return listened


def test_a_listener_hears_each_look_and_changes_nothing() -> None:
    """Two groups of two members each, that stop at different looks."""
    easy = dataclasses.replace(SHORT, steps=512, goal=0.9)
    runs = assert_heard_and_unchanged([member(n, seed=n) for n in (8, 12, 24, 30)], easy)
    assert len({run.steps for run in runs}) > 2  # some stop before others


def test_a_listener_hears_each_look_of_a_race() -> None:
    easy = dataclasses.replace(SHORT, steps=2 * RACE_STEPS, goal=0.99)
    runs = assert_heard_and_unchanged([member(12, lr=lr, race="one") for lr in (1e-6, 1e-2)], easy)
    assert [run.status for run in runs] == ["outrun", "reached"]

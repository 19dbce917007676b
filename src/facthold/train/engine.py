"""The training engine: the whole loop compiled, early stop inside it, many members side by side.

Small members of one shape are trained as a group in one vectorised loop; groups take turns on the lanes of the machine,
some steps at a time. A member stops as soon as it has succeeded, diverged or become hopeless, and does not touch the
others, unless they are in one *race*: the first of them to succeed has answered its question for all.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from facthold._util.padding import next_power_of_two
from facthold.train.directions import polar, signs
from facthold.train.lanes import Lanes, shared_lanes
from facthold.train.protocols import Protocol
from facthold.train.tasks import Task

TRAINING, REACHED, EXHAUSTED, FUTILE, DIVERGED, OUTRUN = range(6)
STATUS = ("training", "reached", "exhausted", "futile", "diverged", "outrun")

GROUP_WORK = 1 << 15
"""Members are vectorised together while their task arrays hold at most this many numbers; beyond that a
step costs far more than the loop around it, and members that run one by one can stop one by one."""

GROUPS = 2  # at least, of members of one shape; not the number of lanes, so that results are the same on any number

CALL_STEPS = 1 << 11  # steps a compiled call makes at most, so that Ctrl-C and progress get a word in

RACE_STEPS = 1 << 9
"""Steps after which the members of a race hear of each other. A number of steps and not of seconds: how long the
others trained does not depend on who was faster that day."""

ROUNDING = 1e-6  # slack when an accuracy in float32 is compared with the goal: far below one association in a million

Seen = dict[str, Any]  # what a task observes of its model at a look, by name; see `Task.observe`
Listener = Callable[[int, int, float, Seen], None]  # hears of a member: index, steps so far, accuracy, what was seen

_compiling: dict[Hashable, threading.Lock] = defaultdict(threading.Lock)  # by shapes: held while their loop is compiled


class Member(NamedTuple):
    """One model to train."""

    model: Any
    task: Task
    key: PRNGKeyArray
    lr: float | None = None  # its own learning rate; None: the protocol's
    race: Hashable = None  # members with the same race are tries at one question. None: alone.


@dataclass(frozen=True)
class Run:
    """How training one member ended."""

    model: Any
    status: str  # 'reached' the goal, 'exhausted' its steps, given up as 'futile', 'diverged', or 'outrun' in its race
    steps: int
    best: float  # highest accuracy at any look. A member that diverged keeps what it had reached before.
    final: float  # accuracy at the last look; nan where the run diverged
    curve: np.ndarray  # accuracy at each look
    seen: Seen = field(default_factory=dict)  # what the task observes, at each look

    @property
    def succeeded(self) -> bool:
        return self.status == "reached"


class _State(NamedTuple):
    params: Any
    moments: Any
    looks: Int[Array, ""]
    status: Int[Array, ""]
    curve: Float[Array, " looks"]
    best: Float[Array, " looks"]  # highest accuracy up to each look
    seen: Seen  # what the task observes, at each look


def fit(
    members: Sequence[Member], protocol: Protocol, *, lanes: Lanes | None = None, listener: Listener | None = None
) -> list[Run]:
    """Train all members by ``protocol``; results in their order: ``fh.fit(members, fh.protocol("mlp-text"))``.

    The result of a member does not depend on the others outside its race, up to the rounding of vectorised products.
    A ``listener`` hears of each look, in the lane's thread, and takes nothing from the result.
    """
    lanes = lanes or shared_lanes()
    groups = [Group(indices, members, protocol, listener) for indices in _groups(members)]
    races: dict[Hashable, list[Group]] = defaultdict(list)
    for i, group in enumerate(groups):
        races[("alone", i) if group.race is None else ("race", group.race)].append(group)
    running = {lanes.submit(group.advance, lanes): race for race, ours in races.items() for group in ours}
    while running:
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            race = running.pop(future)
            future.result()
            if race not in running.values():  # all of them have come this far
                going = _still_racing(races[race])
                running |= {lanes.submit(group.advance, lanes): race for group in going}
    runs = {i: run for group in groups for i, run in zip(group.indices, group.runs(), strict=True)}
    return [runs[i] for i in range(len(members))]


def _still_racing(groups: Sequence["Group"]) -> list["Group"]:
    """The groups of a race that go on: none, once one of them has succeeded."""
    going = [group for group in groups if group.any_is(TRAINING)]
    if len(groups) > 1 and any(group.any_is(REACHED) for group in groups):
        for group in going:
            group.call_off()
        return []
    return going


def _groups(members: Sequence[Member]) -> list[list[int]]:
    """Indices of members that train in one vectorised loop: same shapes, small, in no race."""
    by_shape: dict[Any, list[int]] = defaultdict(list)
    for i, member in enumerate(members):
        racing = i if member.race is not None else None
        by_shape[(*_shapes((member.model, member.task)), racing)].append(i)
    groups = []
    for (shapes, *_), alike in by_shape.items():
        # The scores, not the embeddings, are the work: count the square of the longest axis.
        work = max(int(np.prod(shape)) for shape, _ in shapes) + max(shape[0] for shape, _ in shapes if shape) ** 2
        size = max(1, min(GROUP_WORK // work, -(-len(alike) // GROUPS)))
        groups += [alike[i : i + size] for i in range(0, len(alike), size)]
    return groups


def _shapes(tree: Any) -> tuple[Hashable, ...]:
    """What a compiled loop depends on: the shapes of all arrays, and whatever else there is."""
    arrays, static = eqx.partition(tree, lambda leaf: isinstance(leaf, jax.Array | np.ndarray))
    shapes = tuple((leaf.shape, str(leaf.dtype)) for leaf in jax.tree.leaves(arrays))
    return shapes, jax.tree.structure(static), tuple(map(repr, jax.tree.leaves(static)))


class Group:
    """Members that train in one loop, and how far they have come."""

    states: _State  # set by the first `advance`

    def __init__(
        self, indices: list[int], members: Sequence[Member], protocol: Protocol, listener: Listener | None
    ) -> None:
        ours = [members[i] for i in indices]
        self.indices, self.protocol, self.listener, self.race = indices, protocol, listener, ours[0].race
        alone = CALL_STEPS if listener is None else protocol.check_every
        self.stride = alone if self.race is None else RACE_STEPS
        spare = next_power_of_two(len(ours)) - len(ours)  # few group sizes, few compilations
        ours += [ours[-1]] * spare
        params, static = zip(*(eqx.partition(member.model, eqx.is_inexact_array) for member in ours), strict=True)
        # Stacked in NumPy, so that nothing but the loop itself is compiled for a new shape.
        stack = partial(jax.tree.map, lambda *leaves: np.stack(leaves))
        keys = np.stack([jax.random.key_data(member.key) for member in ours])
        lrs = np.array([protocol.lr if member.lr is None else member.lr for member in ours], np.float32)
        self.static, self.data = static[0], (stack(*(member.task for member in ours)), keys, lrs)
        self.params, self.spare = stack(*params), np.arange(len(ours)) >= len(indices)
        self.steps = 0
        self.heard = [0] * len(indices)

    def advance(self, lanes: Lanes) -> None:
        """Train for some steps more, on the lane that this is called on."""
        lanes.check()
        if not self.steps:
            shapes = _shapes((self.params, self.static, self.data))
            with _compiling[shapes, self.protocol]:  # a second lane with the same shapes waits and finds it done
                self.states = _start(self.params, self.static, *self.data[:2], self.spare, self.protocol)
                self.states = self._advanced(0)  # no step: compiles, if it must
        self.steps = min(self.steps + self.stride, self.protocol.steps)
        self.states = jax.block_until_ready(self._advanced(self.steps // self.protocol.check_every))
        if self.listener is not None:
            self._tell(self.listener)

    def _tell(self, listener: Listener) -> None:
        """The listener hears of looks since the last call: of several in a race, of none of a member that stopped."""
        curves, seen = np.asarray(self.states.curve), {name: np.asarray(x) for name, x in self.states.seen.items()}
        for i, (member, looks) in enumerate(zip(self.indices, np.asarray(self.states.looks), strict=False)):
            for look in range(self.heard[i], looks):
                now = {name: values[i, look] for name, values in seen.items()}
                listener(member, (look + 1) * self.protocol.check_every, float(curves[i, look]), now)
            self.heard[i] = int(looks)

    def _advanced(self, looks: int) -> _State:
        return _advance(self.states, self.static, *self.data, np.int32(looks), self.protocol)

    def any_is(self, status: int) -> bool:
        return bool((np.asarray(self.states.status)[: len(self.indices)] == status).any())

    def call_off(self) -> None:
        """Another member has answered the question."""
        status = np.asarray(self.states.status)
        self.states = self.states._replace(status=jnp.asarray(np.where(status == TRAINING, OUTRUN, status)))

    def runs(self) -> list[Run]:
        states = jax.tree.map(np.asarray, self.states)
        return [
            _finished(jax.tree.map(lambda x: x[i], states), self.static, self.protocol)  # noqa: B023
            for i in range(len(self.indices))
        ]


def _finished(state: _State, static: Any, protocol: Protocol) -> Run:
    curve = np.array(state.curve[: int(state.looks)])
    finite = curve[np.isfinite(curve)]
    return Run(
        model=eqx.combine(jax.tree.map(jnp.asarray, state.params), static),
        status=STATUS[int(state.status)],
        steps=int(state.looks) * protocol.check_every,
        best=float(finite.max(initial=0.0)),
        final=float(curve[-1]),
        curve=curve,
        seen={name: np.array(values[: int(state.looks)]) for name, values in state.seen.items()},
    )


@eqx.filter_jit
def _start(params: Any, static: Any, tasks: Task, keys: Any, spare: Any, protocol: Protocol) -> _State:
    n, looks = spare.size, protocol.steps // protocol.check_every

    def observe(params: Any, task: Task, key_data: Array) -> Seen:
        return task.observe(eqx.combine(params, static), key=jax.random.wrap_key_data(key_data))

    seen = jax.eval_shape(observe, *jax.tree.map(lambda x: x[0], (params, tasks, keys)))
    return _State(
        params=params,
        moments=jax.vmap(_optimiser(protocol).init)(params),
        looks=jnp.zeros(n, jnp.int32),
        status=jnp.where(spare, EXHAUSTED, TRAINING),
        curve=jnp.zeros((n, looks)),
        best=jnp.zeros((n, looks)),
        seen={name: jnp.zeros((n, looks, *value.shape), value.dtype) for name, value in seen.items()},
    )


@eqx.filter_jit
def _advance(states: _State, static: Any, tasks: Task, keys: Any, lrs: Any, until: Any, protocol: Protocol) -> _State:
    """Train each member of the group until it stops or has had ``until`` looks."""

    def train(state: _State, task: Task, key_data: Array, lr: Float[Array, ""]) -> _State:
        key = jax.random.wrap_key_data(key_data)

        def going(state: _State) -> Bool[Array, ""]:
            return (state.status == TRAINING) & (state.looks < until)

        return lax.while_loop(going, lambda s: _steps_and_look(s, static, task, key, lr, protocol), state)

    if len(lrs) == 1:  # alone: XLA's products are faster without an axis for the group
        alone = jax.tree.map(lambda x: x[0], (states, tasks, keys, lrs))
        return jax.tree.map(lambda x: x[None], train(*alone))
    return jax.vmap(train)(states, tasks, keys, lrs)


def _steps_and_look(
    state: _State, static: Any, task: Task, key: PRNGKeyArray, lr: Float[Array, ""], protocol: Protocol
) -> _State:
    """``check_every`` optimiser steps, then one look at the accuracy."""
    optimiser = _optimiser(protocol)

    def step(carry: tuple[Any, Any], t: Array) -> tuple[tuple[Any, Any], Array]:
        params, moments = carry

        def loss(params: Any) -> Array:
            return task.at(t).loss(eqx.combine(params, static), key=jax.random.fold_in(key, t))

        value, gradient = jax.value_and_grad(loss)(params)
        update, moments = optimiser.update(gradient, moments, params)
        rate = lr * (1 - t / protocol.steps) if protocol.decay else lr
        return (optax.apply_updates(params, jax.tree.map(lambda u: -rate * u, update)), moments), value

    t = state.looks * protocol.check_every + jnp.arange(protocol.check_every)
    (params, moments), losses = lax.scan(step, (state.params, state.moments), t)
    model, k_look = eqx.combine(params, static), jax.random.fold_in(key, -1 - state.looks)
    accuracy, observed = task.accuracy(model, key=k_look), task.observe(model, key=k_look)
    finite = jnp.isfinite(losses).all()
    curve = state.curve.at[state.looks].set(jnp.where(finite, accuracy, jnp.nan))
    best = state.best.at[state.looks].set(jnp.maximum(accuracy, state.best[state.looks - 1]))
    seen = {name: state.seen[name].at[state.looks].set(value) for name, value in observed.items()}
    looks = state.looks + 1
    reached = accuracy >= protocol.goal - ROUNDING
    if protocol.rule == "final":
        reached &= looks >= curve.size
    ends = {DIVERGED: ~finite, REACHED: reached, EXHAUSTED: looks >= curve.size}
    if (rule := protocol.futility) is not None:
        half = best[looks // 2 - 1]
        ends[FUTILE] = rule.hopeless(best[looks - 1], half, looks, best.size, protocol.goal - ROUNDING)
    status = jnp.select(list(ends.values()), list(ends), TRAINING)
    return _State(params, moments, looks, status, curve, best, seen)


def _optimiser(protocol: Protocol) -> optax.GradientTransformation:
    """The direction of a step; its length is the member's own learning rate."""
    optimisers = {
        "adam": optax.scale_by_adam, "adam-95": partial(optax.scale_by_adam, b2=0.95), "sgd": optax.identity,
        "sgd-momentum": lambda: optax.chain(optax.add_decayed_weights(1e-4), optax.trace(decay=0.9)),
        "adam-0": partial(optax.scale_by_adam, b1=0.0, b2=0.0), "sign": signs, "muon": polar,
    }  # fmt: skip
    return optimisers[protocol.optimiser]()

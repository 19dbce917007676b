"""The training engine: the whole loop compiled, early stop inside it, many members side by side.

A *member* is one model to train: its own seed, learning rate and data. Members of one shape are
trained as a group in one vectorised loop; groups run on the lanes of the machine. A member stops as
soon as it has succeeded, diverged or become hopeless, and does not touch the others.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from facthold.train.lanes import Lanes, shared_lanes
from facthold.train.protocols import Protocol
from facthold.train.tasks import Task

TRAINING, REACHED, EXHAUSTED, FUTILE, DIVERGED = range(5)
STATUS = ("training", "reached", "exhausted", "futile", "diverged")

GROUP_WORK = 1 << 15
"""Members are vectorised together while their task arrays hold at most this many numbers; beyond that a
step costs far more than the loop around it, and members that run one by one can stop one by one."""

CALL_STEPS = 1 << 11
"""Steps a compiled call makes at most, so that Ctrl-C and progress get a word in."""

ROUNDING = 1e-6
"""Slack when an accuracy in float32 is compared with the goal: far below one association in a million."""


class Member(NamedTuple):
    """One model to train."""

    model: Any
    task: Task
    key: PRNGKeyArray
    lr: float | None = None
    """Its own learning rate; None: the protocol's."""


@dataclass(frozen=True)
class Run:
    """How training one member ended."""

    model: Any
    status: str
    """'reached' the goal, 'exhausted' its steps, given up as 'futile', or 'diverged'."""
    steps: int
    best: float
    """Highest accuracy at any look. A member that diverged keeps what it had reached before."""
    final: float
    """Accuracy at the last look; nan where the run diverged."""
    curve: np.ndarray
    """Accuracy at each look."""

    @property
    def succeeded(self) -> bool:
        return self.status == "reached"


class _State(NamedTuple):
    params: Any
    moments: Any
    looks: Int[Array, ""]
    status: Int[Array, ""]
    curve: Float[Array, " looks"]
    best: Float[Array, " looks"]
    """Highest accuracy up to each look."""


def fit(
    members: Sequence[Member],
    protocol: Protocol,
    *,
    lanes: Lanes | None = None,
) -> list[Run]:
    """Train all members by ``protocol``; results in their order.

    The result of a member does not depend on the others, up to the rounding of vectorised products.
    """
    lanes = lanes or shared_lanes()
    runs: list[Run | None] = [None] * len(members)
    groups = _groups(members, len(lanes))
    work = partial(_train_group, members=members, protocol=protocol, lanes=lanes)
    for group, results in zip(groups, lanes.map(work, groups), strict=True):
        for i, run in zip(group, results, strict=True):
            runs[i] = run
    return [run for run in runs if run is not None]


def _groups(members: Sequence[Member], n_lanes: int) -> list[list[int]]:
    """Indices of members that train in one vectorised loop: same shapes, small, spread over the lanes."""
    by_shape: dict[Any, list[int]] = defaultdict(list)
    for i, member in enumerate(members):
        arrays, static = eqx.partition((member.model, member.task), eqx.is_array)
        shapes = tuple((leaf.shape, str(leaf.dtype)) for leaf in jax.tree.leaves(arrays))
        by_shape[shapes, jax.tree.structure(static), tuple(map(repr, jax.tree.leaves(static)))].append(i)
    groups = []
    for (shapes, *_), alike in by_shape.items():
        # The scores, not the embeddings, are the work: count the square of the longest axis.
        work = max(int(np.prod(shape)) for shape, _ in shapes) + max(shape[0] for shape, _ in shapes if shape) ** 2
        size = max(1, min(GROUP_WORK // work, -(-len(alike) // n_lanes)))
        groups += [alike[i : i + size] for i in range(0, len(alike), size)]
    return groups


def _train_group(group: list[int], *, members: Sequence[Member], protocol: Protocol, lanes: Lanes) -> list[Run]:
    ours = [members[i] for i in group]
    ours += [ours[-1]] * (_next_power_of_two(len(ours)) - len(ours))  # few group sizes, few compilations
    params, static = zip(*(eqx.partition(member.model, eqx.is_inexact_array) for member in ours), strict=True)
    # Stacked in NumPy, so that nothing but the loop itself is compiled for a new shape.
    stack = partial(jax.tree.map, lambda *leaves: np.stack(leaves))
    tasks = stack(*(member.task for member in ours))
    keys = np.stack([jax.random.key_data(member.key) for member in ours])
    lrs = np.array([protocol.lr if member.lr is None else member.lr for member in ours], np.float32)
    spare = np.arange(len(ours)) >= len(group)
    states = _start(stack(*params), spare, protocol)
    with lanes.compiling:
        _advance(states, static[0], tasks, keys, lrs, np.int32(0), protocol)  # no step: compiles, if it must
    for stop in range(CALL_STEPS, protocol.steps + CALL_STEPS, CALL_STEPS):
        lanes.check()
        looks = min(stop, protocol.steps) // protocol.check_every
        states = _advance(states, static[0], tasks, keys, lrs, np.int32(looks), protocol)
        if (np.asarray(states.status) != TRAINING).all():
            break
    states = jax.tree.map(np.asarray, states)
    return [_finished(jax.tree.map(lambda x: x[i], states), static[0], protocol) for i in range(len(group))]  # noqa: B023


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
    )


@partial(jax.jit, static_argnums=2)
def _start(params: Any, spare: Any, protocol: Protocol) -> _State:
    n = spare.size
    return _State(
        params=params,
        moments=jax.vmap(_optimiser(protocol).init)(params),
        looks=jnp.zeros(n, jnp.int32),
        status=jnp.where(spare, EXHAUSTED, TRAINING),
        curve=jnp.zeros((n, protocol.steps // protocol.check_every)),
        best=jnp.zeros((n, protocol.steps // protocol.check_every)),
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
            return task.loss(eqx.combine(params, static), key=jax.random.fold_in(key, t))

        value, gradient = jax.value_and_grad(loss)(params)
        update, moments = optimiser.update(gradient, moments, params)
        return (optax.apply_updates(params, jax.tree.map(lambda u: -lr * u, update)), moments), value

    t = state.looks * protocol.check_every + jnp.arange(protocol.check_every)
    (params, moments), losses = lax.scan(step, (state.params, state.moments), t)
    seen = task.accuracy(eqx.combine(params, static), key=jax.random.fold_in(key, -1 - state.looks))
    finite = jnp.isfinite(losses).all()
    curve = state.curve.at[state.looks].set(jnp.where(finite, seen, jnp.nan))
    best = state.best.at[state.looks].set(jnp.maximum(seen, state.best[state.looks - 1]))
    looks = state.looks + 1
    status = jnp.select(
        [~finite, seen >= protocol.goal - ROUNDING, looks >= curve.size, _hopeless(best, looks, protocol)],
        [DIVERGED, REACHED, EXHAUSTED, FUTILE],
        TRAINING,
    )
    return _State(params, moments, looks, status, curve, best)


def _hopeless(best: Float[Array, " looks"], looks: Int[Array, ""], protocol: Protocol) -> Bool[Array, ""]:
    """The futility rule: see `Futility`."""
    rule = protocol.futility
    if rule is None:
        return jnp.array(False)
    return rule.hopeless(best[looks - 1], best[looks // 2 - 1], looks, best.size, protocol.goal - ROUNDING)


def _optimiser(protocol: Protocol) -> optax.GradientTransformation:
    """The direction of a step; its length is the member's own learning rate."""
    return {"adam": optax.scale_by_adam, "sgd": optax.identity}[protocol.optimiser]()


def _next_power_of_two(n: int) -> int:
    return 1 << (n - 1).bit_length()

"""Facts in an MLP, a group of neurons for each relation: what `construct.gates` writes, mapped to answers.

The head of a relation marks it in the residual stream. Neurons that belong to a relation are silent at every other
mark, so that each relation is a memory of section 3 of its own: its inputs are the codes of subjects, it is sized and
solved by itself, and an edit of it cannot touch another. Relations with few facts share a group.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import jax.numpy as jnp
import numpy as np
from jaxtyping import Int, PRNGKeyArray

from facthold._util.padding import geometric, pad_rows, padded
from facthold.construct.gates import Gates
from facthold.facts.problem import FactualRecall
from facthold.memory.associations import Problem
from facthold.memory.embeddings import host_generator
from facthold.models.memory import MLPMemory
from facthold.train.engine import Member, fit
from facthold.train.lanes import shared_lanes
from facthold.train.polish import polished
from facthold.train.protocols import BATCH, LEARNING, MARGIN
from facthold.train.sampled import LOOKED, StoreSampled

FEWEST = 128  # facts that a group has at least, where there are so many: below, a relation shares its neurons
LEAST = 0.1  # what `MARGIN` is for groups so large that training longer, or again at a larger width, takes minutes
EPOCHS = 200  # how often each fact is seen at least
TRAINED = 0.8  # of a try of such a group that training is told to be; the rest is polishing
NARROW = 128  # up to this width the learning rate is the protocol's; beyond, it falls with the root of the width

Listener = Callable[[float, float], None]  # hears how far a try is, and the share of facts that it holds


@dataclass(frozen=True)
class FactGroup:
    """Facts that share neurons."""

    rows: Int[np.ndarray, " n"]  # rows of the table
    marks: Int[np.ndarray, " marks"]  # the tokens (of the kind that has a head each) at which the neurons may speak
    problem: Problem
    also: Int[np.ndarray, "extra 2"]  # further right answers: (row of this group, answer)

    def __len__(self) -> int:
        return len(self.rows)


def fact_groups(problem: FactualRecall, gates: Gates) -> list[FactGroup]:
    """The facts by the token that marks them, those with few facts together."""
    table = problem.table
    marked = np.where(np.isin(table.subjects, gates.few), table.subjects, table.S + table.relations)
    codes = pad_rows(gates.codes.T, problem.d).T
    E = (codes[table.subjects] + codes[table.S + table.relations]).astype(np.float32)
    U = jnp.asarray(problem.U)
    groups = []
    for marks in _shared(marked):
        rows = np.flatnonzero(np.isin(marked, marks))
        of_problem = Problem(jnp.asarray(E[rows]), U, jnp.asarray(table.answers[rows]))
        groups.append(FactGroup(rows, marks, of_problem, table.also_of(rows)))
    return groups


def _shared(marked: Int[np.ndarray, " facts"]) -> list[np.ndarray]:
    """Marks that share a group: the largest first and alone, the others put together until they have `FEWEST` facts."""
    marks, counts = np.unique(marked, return_counts=True)
    groups: list[list[int]] = []
    pending: list[int] = []
    n_pending = 0
    for i in np.argsort(-counts, kind="stable"):
        pending.append(int(marks[i]))
        n_pending += counts[i]
        if n_pending >= FEWEST:
            groups.append(pending)
            pending, n_pending = [], 0
    if pending:
        groups.append(pending) if not groups or n_pending >= FEWEST // 2 else groups[-1].extend(pending)
    return [np.array(sorted(group)) for group in groups]


def store_group(
    group: FactGroup, m: int, goal: float, *, key: PRNGKeyArray, listener: Listener | None = None,
    start: MLPMemory | None = None,
) -> tuple[MLPMemory, float]:  # fmt: skip
    """m neurons for the group, and the share of its facts that win by `MARGIN`.

    In a group of more than `LOOKED` the last facts are left to `polished`, and the share is of those that win by
    `LEAST`. There may be a ``start``, of fewer neurons: new ones join them, and are not trained before. ``listener``
    hears how far a try is, and the share that it holds.
    """
    many, hear = len(group) > LOOKED, listener or (lambda *_: None)
    if start is None or not many:
        part = TRAINED if many else 1.0
        told = None if listener is None else lambda _, done, share, seen: hear(part * done, share)
        memory, share = _trained(group, m, goal, key, told)
        if not many or not np.isfinite(np.asarray(memory.V)).all():
            return memory, share
    else:
        memory = _grown(start, m, key)
    polish = partial(polished, memory, group.problem, group.also, least=LEAST, goal=goal, hear=partial(hear, TRAINED))
    return shared_lanes().submit(polish).result()  # in the turns of the lanes


def _trained(
    group: FactGroup, m: int, goal: float, key: PRNGKeyArray, listener: Callable[..., None] | None
) -> tuple[MLPMemory, float]:
    """The neurons are padded by zero ones, which stay zero: widths of a range share a compiled loop."""
    looks = -(-EPOCHS * len(group) // (BATCH * LEARNING.check_every))
    steps = max(LEARNING.steps, looks * LEARNING.check_every)
    learning = replace(LEARNING, steps=steps, goal=goal)
    wider = geometric(m, 1.5)
    if len(group) > LOOKED:  # most are learnt in the last quarter, and a look is a sample: no early verdict
        learning, wider = replace(learning, futility=None, rule="final"), padded(m)  # and to compile is a small part
    W, V = _random(m, group.problem.d, key)
    start = MLPMemory(jnp.asarray(pad_rows(W, wider)), jnp.asarray(pad_rows(V, wider)))
    task = StoreSampled.of(group.problem, margin=MARGIN, also=group.also)
    hear = None if listener is None else lambda i, steps_done, *seen: listener(i, steps_done / steps, *seen)
    lr = learning.lr * min(1.0, (NARROW / m) ** 0.5)
    (run,) = fit([Member(start, task, key, lr)], learning, listener=hear)
    W, V = np.asarray(run.model.W)[:m], np.asarray(run.model.V)[:m]
    return MLPMemory(jnp.asarray(W), jnp.asarray(V)), 0.0 if run.status == "diverged" else run.final


def _random(m: int, d: int, key: PRNGKeyArray) -> tuple[np.ndarray, np.ndarray]:
    """W and V before training. On the host: nothing is compiled."""
    W, V = host_generator(key).standard_normal((2, m, d)).astype(np.float32)
    return W * d**-0.5, V * m**-0.5


def _grown(memory: MLPMemory, m: int, key: PRNGKeyArray) -> MLPMemory:
    """With as many more neurons as make it m. They hear as loudly as the others, and say nothing yet."""
    W, V = np.asarray(memory.W), np.asarray(memory.V)
    new = _random(m - len(W), W.shape[1], key)[0]
    new *= np.linalg.norm(W, axis=1).mean() / np.linalg.norm(new, axis=1).mean()
    return MLPMemory(jnp.asarray(np.concatenate([W, new])), jnp.asarray(pad_rows(V, m)))


def join(gates: Gates, groups: Sequence[FactGroup], memories: Sequence[MLPMemory], d: int) -> MLPMemory:
    """One MLP of all groups' neurons, each silent at the marks of other groups.

    A neuron's input from a code is at most |w| times the longest code; a mark of another group takes this and more
    away from it. So it is silent for every subject, also for one that comes later with a code no longer than these.
    """
    codes = pad_rows(gates.codes.T, d).T
    longest = np.linalg.norm(codes[:, : gates.n_gates], axis=1).max()
    column = {int(token): gates.n_gates + i for i, token in enumerate(gates.few)}
    weights = []
    for group, memory in zip(groups, memories, strict=True):
        W = np.array(memory.W, np.float64)
        W[:, gates.H :] = 0
        ours = {column[int(mark)] for mark in group.marks}
        others = [c for c in column.values() if c not in ours]
        height = [codes[token, c] for token, c in column.items() if c not in ours]
        heard = [*range(gates.n_gates), *ours]  # its own marks too: their heads leak a little at another
        reach = 1.25 * np.linalg.norm(W[:, heard], axis=1, keepdims=True) * longest
        W[:, others] = -reach / np.array(height)[None, :]
        weights.append(W)
    V = np.concatenate([np.asarray(memory.V) for memory in memories])
    return MLPMemory(jnp.asarray(np.concatenate(weights), jnp.float32), jnp.asarray(V))

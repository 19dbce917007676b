"""Facts in an MLP, a group of neurons for each relation: what `construct.gates` writes, mapped to answers.

The head of a relation marks it in the residual stream. Neurons that belong to a relation are silent at every other
mark, so that each relation is a memory of section 3 of its own: its inputs are the codes of subjects, it is sized and
solved by itself, and an edit of it cannot touch another. Relations with few facts share a group.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Int, PRNGKeyArray

from facthold._util.padding import geometric, pad_rows
from facthold.construct.gates import Gates
from facthold.construct.neuron import mended
from facthold.facts.problem import FactualRecall
from facthold.memory.associations import Problem
from facthold.memory.embeddings import host_generator
from facthold.models.memory import MLPMemory
from facthold.train.engine import Member, fit
from facthold.train.protocols import BATCH, LEARNING, MARGIN
from facthold.train.sampled import LOOKED, StoreSampled, won_by

FEWEST = 128  # facts that a group has at least, where there are so many: below, a relation shares its neurons
LEAST = 0.1  # what `MARGIN` is for groups so large that training longer, or again at a larger width, takes minutes
EPOCHS = 200  # how often each fact is seen at least
NARROW = 128  # up to this width the learning rate is the protocol's; beyond, it falls with the root of the width


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
    group: FactGroup, m: int, goal: float, *, key: PRNGKeyArray, listener: Callable[[float, float], None] | None = None
) -> tuple[MLPMemory, float]:
    """m neurons for the group, and the share of its facts that win by `MARGIN`.

    Where there are many, a look is at some of them and training goes on to the end. Then all are asked, the last few
    get neurons of their own, and the share is of those that win by `LEAST`. The neurons are padded by zero ones, which
    stay zero: widths of a range share a compiled loop.
    """
    looks = -(-EPOCHS * len(group) // (BATCH * LEARNING.check_every))
    steps = max(LEARNING.steps, looks * LEARNING.check_every)
    learning = replace(LEARNING, steps=steps, goal=goal)
    if many := len(group) > LOOKED:  # most are learnt in the last quarter, and a look is a sample: no early verdict
        learning = replace(learning, futility=None, rule="final")
    d, wider = group.problem.d, geometric(m, 1.5)
    W, V = host_generator(key).standard_normal((2, m, d)).astype(np.float32)  # on the host: nothing is compiled
    start = MLPMemory(jnp.asarray(pad_rows(W * d**-0.5, wider)), jnp.asarray(pad_rows(V * m**-0.5, wider)))
    task = StoreSampled.of(group.problem, margin=MARGIN, also=group.also)
    hear = None if listener is None else lambda _, steps_done, share, seen: listener(steps_done / steps, share)
    lr = learning.lr * min(1.0, (NARROW / m) ** 0.5)
    (run,) = fit([Member(start, task, key, lr)], learning, listener=hear)
    W, V = np.asarray(run.model.W)[:m], np.asarray(run.model.V)[:m]
    memory = MLPMemory(jnp.asarray(W), jnp.asarray(V))
    if run.status == "diverged" or not many:
        return memory, 0.0 if run.status == "diverged" else run.final
    won = won_by(memory, task, LEAST)
    if won.mean() < goal:
        memory = mended(memory, group.problem, won, MARGIN)
        won = won_by(memory, task, LEAST)
    return memory, float(won.mean())


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

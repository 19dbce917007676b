"""How long to train linear attention on a table, and by which steps, known before the first of them.

Where relations are known and subjects are not, Theta(., r) is about theta = log p*(. | r), and since k^2 - |w|^2 stays
small, W_KQ(r)^2 is about |theta|. There the loss bends along W_OV(., r) and W_KQ(r) by no more than about

    p(r) (|theta| lambda + Var(theta) / |theta|),

lambda the largest eigenvalue of the covariance of p*(. | r), and Var over p*(. | r). Subjects add p(s) |theta_s| / 2.
Gradient descent on a parabola that bends by h is stable for steps below 2 / h.

The time is that of a balanced table as large as this one (`theory.reduced`).
"""

import math
from dataclasses import dataclass

import numpy as np

from facthold._util.commands import count
from facthold._util.errors import unknown
from facthold._util.memory import check_memory
from facthold.dynamics.stages import BAND, CONVERGED
from facthold.facts.table import FactTable
from facthold.theory.reduced import Growth
from facthold.train.protocols import Protocol

T, NOISE_TOKENS = 8, 32  # length of a prompt and noise tokens; few: even noise only passes on what EOS could say too
ALPHA = 1e-3
STEP = 1.5  # the step, for a loss that bends by 1; below 2, since theta goes on growing slowly where the loss rests
ADAM = 1e-2
PATIENCE = 2  # a run ends at so many times the steps that it should need
LOOKS = 2048
AT_START = 6  # evaluations before the loss leaves its start
MOST_WORK = 1e11  # probabilities that a run computes at most: some ten minutes on one core
BYTES = 40  # memory for each fact and answer
OPTIMISERS = ("sgd", "adam")


@dataclass(frozen=True)
class Schedule:
    """How a table is learnt."""

    protocol: Protocol
    log_alpha: float
    expected: int  # steps after which the facts should be learnt


def schedule(
    table: FactTable, *, alpha: float = ALPHA, lr: float | None = None, steps: int | None = None, optimiser: str = "sgd"
) -> Schedule:
    """The steps for ``table``: from the table alone, where neither their length nor their number is given."""
    if optimiser not in OPTIMISERS:
        raise unknown("optimiser", optimiser, OPTIMISERS)
    check_memory(f"a table of {table.R} relations with {table.A} answers", BYTES * float(table.R) * table.A)
    log_alpha = math.log(alpha)
    given, lr = lr is not None, safe_step(table, optimiser) if lr is None else lr
    leaving, learnt = times(table, log_alpha)
    if optimiser == "adam":  # each weight moves by about lr a step, up to the square root of its Theta
        leaving, learnt = 1.0, 4 * math.sqrt(math.log(table.A / CONVERGED))
    expected = math.ceil(learnt / lr)
    most = steps or PATIENCE * expected
    _check_work(table, most, "steps" if steps is not None else "lr" if given else None)
    check_memory(
        f"a table of {count(len(table), 'fact')} with {count(table.A, 'answer')}", BYTES * float(len(table)) * table.A
    )
    every = 2 ** max(0, math.ceil(math.log2(most / LOOKS)), math.floor(math.log2(max(leaving / lr / AT_START, 1))))
    if steps is not None:  # so many and no more, where looks can divide them
        every = next((k for k in range(min(every, steps), every // 8, -1) if steps % k == 0), min(every, steps))
    whole = most // every * every
    protocol = Protocol("watch", "ours", optimiser, lr=lr, steps=whole, check_every=every, futility=None, rule="final")
    return Schedule(protocol, log_alpha, expected)


def safe_step(table: FactTable, optimiser: str = "sgd") -> float:
    """A step by which training should be stable."""
    return STEP / curvature(table) if optimiser == "sgd" else ADAM


def curvature(table: FactTable) -> float:
    """By how much the loss bends where relations are known: see above."""
    p_r, given = table.joint("relation").sum(axis=1), table.given("relation")
    theta = np.log((1 - BAND) * given + BAND / table.A)
    theta -= theta.mean(axis=1, keepdims=True)
    size = np.maximum(np.linalg.norm(theta, axis=1), np.finfo(float).tiny)
    spread = (given * theta**2).sum(axis=1) - (given * theta).sum(axis=1) ** 2
    n = np.bincount(table.subjects)
    block = n[n > 0]  # answers of a subject
    apart = np.log((1 - BAND) / BAND * table.A / block + 1)
    of_subject = block / len(table) * apart * np.sqrt(block * np.maximum(1 - block / table.A, 0)) / 2
    of_relation = p_r * (size * _largest_eigenvalue(given) + spread / size)
    return float(max(of_relation.max() + of_subject.max(), 1 / len(table)))


def times(table: FactTable, log_alpha: float) -> tuple[float, float]:
    """When the loss should leave its start, and when the facts should be learnt, in the time of the flow."""
    p_r, given = table.joint("relation").sum(axis=1), table.given("relation")
    alike = 1 / table.A
    of_relation = p_r * np.linalg.norm(given - alike, axis=1)
    of_all = np.linalg.norm(p_r @ given - alike)
    choices = max(2, round(math.exp(table.entropy_given("relation"))))
    growths = (
        Growth(1 / table.S, choices, max(1, round(len(table) / table.S)), 2 * log_alpha),
        Growth(1 / table.R, max(2, table.R), choices, 2 * log_alpha),
    )
    leaving = -log_alpha / max(of_relation.max(), of_all, 1 / len(table))
    return leaving, max(growth.time(growth.gap(CONVERGED)) for growth in growths)


def _largest_eigenvalue(p: np.ndarray) -> np.ndarray:
    """Of diag(p) - p p^T, for each row p, by the power method."""
    v = p * np.sin(1 + np.arange(p.shape[1]))  # p itself would not do: where it is even, the matrix takes it to 0
    for _ in range(64):
        v = p * (v - (p * v).sum(axis=1, keepdims=True))
        size = np.linalg.norm(v, axis=1, keepdims=True)
        v /= np.maximum(size, np.finfo(float).tiny)
    return size[:, 0]


def _check_work(table: FactTable, steps: int, given: str | None) -> None:
    """Refuse what would take hours, and say what would not. ``given`` is the argument that the steps come from."""
    work = float(len(table)) * table.A * steps
    if work <= MOST_WORK:
        return
    share = 0.95 * (MOST_WORK / work) ** (1 / 2)  # facts grow as the subjects do, the steps too, and answers perhaps
    fewer = f"take fewer relations, or subjects={max(2, int(share * table.S))}"
    advice = {"steps": "take fewer steps", "lr": "take a larger lr, or none"}.get(given or "", fewer)
    raise ValueError(
        f"{count(len(table), 'fact')} with {count(table.A, 'answer')} and {steps} steps are too much to watch, "
        f"{work / MOST_WORK:.3g} times as much as ten minutes allow; {advice}"
    )

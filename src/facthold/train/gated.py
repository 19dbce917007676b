"""The recipe `gated`: gates for attention, and for each relation the fewest neurons that hold it, found by training."""

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import PRNGKeyArray

from facthold._util.commands import count, duration, offered
from facthold._util.errors import FactholdError, TooLarge
from facthold._util.keys import derive
from facthold.construct.dimensions import gated_dimensions, weights_for
from facthold.construct.gates import Gates, gate_heads, gated_transformer
from facthold.facts.names import Names
from facthold.facts.problem import SEQUENCE, FactualRecall, Variant, seeded_recall
from facthold.facts.table import FactTable
from facthold.measure.capacity import find_smallest
from facthold.models.memory import MLPMemory
from facthold.models.sizes import Shape
from facthold.models.transformer import Transformer
from facthold.train.groups import FactGroup, fact_groups, join, store_group
from facthold.train.kept import Kept
from facthold.train.lanes import Stopped, shared_lanes
from facthold.train.sampled import LOOKED

STEP = 1.2  # factor between the tries of a width. The last that was enough is taken: a try that fails takes longest.
LARGE = 30_000  # facts of a table above which the first width that is enough is taken: each further try takes minutes
ROOMY = 1.5  # so many times the guess is what a group of such a table starts with, where it is not polished
TRIES, TRUST = 5.0, 2.0  # widths that a search tries, and how many searches that are done are to say otherwise
LAST = 0.75  # of a try that a search is taken to have before it at the end of one, where it has had as many as others
TOLD = 0.05  # share of the work from which on a time is told
WIDEST = 8.0  # a search ends at so many times its first guess: what does not fit there has another reason

Say = Callable[[str], None]  # told in a few words how far a search is


@dataclass(frozen=True)
class Width:
    """How the width of one group was found."""

    name: str
    facts: int
    m: int
    share: float  # share of the group's facts that win by a margin while they are stored
    tries: tuple[tuple[int, float], ...]  # (width, share) of all that were tried


def gated(
    table: FactTable, *, accuracy: float = 1.0, seed: int = 0, max_params: int | None = None,
    say: Say = lambda _: None, kept: Kept | None = None, n_noise: int | None = None, wider: int = 0, **settings: Any,
) -> tuple[Transformer, FactualRecall, list[Width]]:  # fmt: skip
    """The smallest such transformer that was found to recall the share ``accuracy`` of every relation's facts, or one
    that is so many steps ``wider``. What was tried is put into ``kept``, and not tried again where it is there.
    ``settings``: see `prepared`."""
    kept = kept or Kept()
    d, n_gates = dimensions(table, n_noise)
    attention = Shape(d, n_gates + min(table.S, table.R), 1, 0).n_params
    if max_params is not None and attention >= max_params:
        raise TooLarge(
            f"max_params={max_params}: attention alone takes {attention} parameters; allow more, or fewer noise tokens"
            + (f" than {n_noise}" if n_noise else ""),
            attention + 1,
            at_least=True,
        )
    start = prepared(table, n_noise, seed=seed, **settings)
    if kept.tries and not wider:
        say(f"going on with {len(kept.tries)} tries that were kept")
    facts, groups, heads = count(len(table), "fact"), count(len(start.groups), "group"), count(start.gates.H, "head")
    say(f"{facts} in {groups} of neurons, d={d}, {heads}")
    searches = [_Search(start.problem, group, start.gates, accuracy, seed, kept, wider) for group in start.groups]
    found = _side_by_side(searches, say)
    model = start.joined([memory for memory, _ in found])
    return model, start.problem, [width for _, width in found]


def dimensions(table: FactTable, n_noise: int | None = None, d: int | None = None) -> tuple[int, int]:
    """d, and the number of gates: see `gated_dimensions`. As many noise tokens as others, where none are given."""
    few, many = sorted((len(np.unique(table.relations)), len(np.unique(table.subjects))))
    K = sum(_weights(table.answers[table.relations == r]) for r in range(table.R))
    return gated_dimensions(few, many, K, n_noise or table.S + table.R, d)


def _weights(answers: np.ndarray) -> float:
    return weights_for(len(answers), len(np.unique(answers)))


@dataclass(frozen=True)
class Prepared:
    """A table with its embeddings, its gates and the groups of facts that neurons are found for."""

    problem: FactualRecall
    gates: Gates
    groups: Sequence[FactGroup]

    def joined(self, memories: Sequence[MLPMemory]) -> Transformer:
        """The transformer whose MLP has these groups of neurons."""
        return gated_transformer(self.problem, self.gates, join(self.gates, self.groups, memories, self.problem.d))

    def of_widths(self, widths: Sequence[int], goal: float, keys: Sequence[PRNGKeyArray]) -> Transformer:
        """Each group with so many neurons, without a search."""
        each = zip(self.groups, widths, keys, strict=True)
        return self.joined([store_group(group, m, goal, key=key)[0] for group, m, key in each])


def prepared(
    table: FactTable, n_noise: int | None = None, T: int = SEQUENCE, p: np.ndarray | None = None, seed: int = 0,
    d: int | None = None, variant: str | Variant = "text",
) -> Prepared:  # fmt: skip
    d, n_gates = dimensions(table, n_noise, d)
    problem = seeded_recall(table, d, seed, variant, T=T, n_noise=n_noise, p=p)
    gates = gate_heads(problem, n_gates, key=derive("gates", seed))
    return Prepared(problem, gates, fact_groups(problem, gates))


def gated_of_width(
    table: FactTable, d: int, m: int, goal: float, seed: int, **settings: Any
) -> tuple[Transformer, FactualRecall]:
    """Without a search: m neurons in all, shared out by what each group has to hold. ``settings``: see `prepared`."""
    start = prepared(table, seed=seed, d=d, **settings)
    work = np.array([len(group) * math.log(max(2, len(np.unique(group.problem.f)))) for group in start.groups])
    ends = np.round(np.append(0, np.cumsum(work)) / work.sum() * m).astype(int)
    widths = np.diff(ends).tolist()
    if min(widths) < 1:
        raise ValueError(f"m={m} is too few: {len(widths)} groups of facts need a neuron each")
    return start.of_widths(widths, goal, [derive("store", seed, i) for i in range(len(widths))]), start.problem


class _Search:
    """The search for one group's width."""

    def __init__(
        self, problem: FactualRecall, group: FactGroup, gates: Gates, accuracy: float, seed: int, kept: Kept,
        wider: int = 0,
    ) -> None:  # fmt: skip
        self.group, self.accuracy, self.seed, self.kept, self.wider = group, accuracy, seed, kept, wider
        self.large = len(problem.table) > LARGE
        subjects, relations, _ = Names.of(problem.table)
        names = [(*subjects.names, *relations.names)[mark] for mark in group.marks]
        self.name = " and ".join(names) if len(names) < 3 else f"{names[0]} and {len(names) - 1} more"
        roomy = ROOMY if self.large and len(group) <= LOOKED else 1.0
        needed = _weights(np.asarray(group.problem.f)) * roomy
        self.guess = max(2, math.ceil(needed / (gates.n_gates + problem.d)))
        self.made: dict[int, tuple[MLPMemory, float]] = {}
        self.done, self.in_try, self.held = False, 0.0, 0.0  # share of the steps of this try, and of the facts
        self.called_off = False

    def run(self) -> tuple[MLPMemory, Width]:
        ceiling = math.ceil(WIDEST * self.guess)
        if self.large:
            m = self.guess
            while m <= ceiling and self._ask(m) < self.accuracy:
                m = math.ceil(STEP * m)
            enough = m if m <= ceiling else None
        else:
            tolerance = STEP - 1 + 2 / self.guess  # widths are whole numbers
            enough = find_smallest(
                self._ask, self.accuracy, self.guess, ceiling=ceiling, tolerance=tolerance, step=STEP
            ).enough
        if enough is None:
            most = max(share for _, share in self.made.values())
            raise FactholdError(
                f"no width up to {ceiling} recalls {self.accuracy:.4g} of the facts of {self.name}; "
                f"{offered(most):.4g} at most: ask for a smaller accuracy"
            )
        for _ in range(self.wider):
            if self._ask(more := math.ceil(STEP * enough)) >= self.accuracy:
                enough = more
        memory, share = self.made[enough]
        tries = tuple((m, s) for m, (_, s) in self.made.items())
        self.done, self.held = True, share
        return memory, Width(self.name, len(self.group), len(memory.W), share, tries)

    def _ask(self, m: int) -> float:
        def heard(done: float, share: float) -> None:
            if self.called_off:
                raise Stopped
            self.in_try, self.held = done, max(self.held, share)

        heard(0.0, 0.0)  # what was called off begins nothing more
        name = f"{self.group.marks[0]}/{m}"
        if name not in self.kept.tries:
            key = derive("neurons", self.seed, int(self.group.marks[0]), m)
            start = self.made[max(self.made)][0] if self.large and self.made else None  # widths go up alone there
            self.kept.keep(name, store_group(self.group, m, self.accuracy, key=key, listener=heard, start=start))
        self.made[m] = self.kept.tries[name]
        return self.made[m][1]


def progress(searches: Sequence[_Search], seconds: float, lanes: int = 1) -> str:
    """One line on all of them after so many seconds: facts that are held, groups that are done, about how long yet.

    Tries take about as long as each other for one fact, and a group takes about as many as those that are done took. A
    group is on one lane at a time: the rest takes no less than the largest rest of one.
    """
    facts = np.array([len(search.group) for search in searches], dtype=float)
    finished = [len(search.made) for search in searches if search.done]
    tries = (TRUST * TRIES + sum(finished)) / (TRUST + len(finished))
    had = facts * [len(s.made) + (0.0 if s.done else s.in_try) for s in searches]
    left = facts * [0.0 if s.done else max(tries - len(s.made) - s.in_try, (1 - s.in_try + LAST) / 2) for s in searches]
    line = f"{facts @ [s.held for s in searches] / facts.sum():.0%} of the facts held"
    line += f", {len(finished)} of {len(searches)} groups done"
    if had.sum() <= TOLD * (had.sum() + left.sum()):
        return line
    rest = max(left.sum(), left.max() * min(lanes, len(searches)))
    return f"{line}, about {duration(seconds * rest / had.sum())} left"


def _side_by_side(searches: Sequence[_Search], say: Say) -> list[tuple[MLPMemory, Width]]:
    """All searches at once, largest first; training takes turns on the lanes."""
    # Few more than there are lanes: each holds its data.
    pool = ThreadPoolExecutor(len(shared_lanes()) + 1, thread_name_prefix="group")
    order, start = sorted(range(len(searches)), key=lambda i: -len(searches[i].group)), time.perf_counter()
    try:
        futures = {i: pool.submit(searches[i].run) for i in order}
        waiting = set(futures.values())
        while waiting:
            say(progress(searches, time.perf_counter() - start, len(shared_lanes())))
            done, waiting = wait(waiting, timeout=0.5, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
        return [futures[i].result() for i in range(len(searches))]
    finally:  # the lanes are shared with others: those that still train are called off one by one, at their next look
        for search in searches:
            search.called_off = True
        pool.shutdown(wait=False, cancel_futures=True)

"""The method `readout` of `facthold build`: gates for attention, and for each relation the fewest neurons that hold it.

d and the number of gates follow from how much there is to store. The widths are searched, each group of facts by
itself and all groups side by side.
"""

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from facthold._util.errors import FactholdError
from facthold._util.keys import derive
from facthold.construct.gates import Gates, fewest_dimensions, gate_heads, gated_transformer
from facthold.facts.problem import FactualRecall, factual_recall
from facthold.facts.table import FactTable
from facthold.knowledge.groups import FactGroup, fact_groups, join, store_group
from facthold.knowledge.kept import Kept
from facthold.measure.smallest import find_smallest
from facthold.models.memory import MLPMemory
from facthold.models.transformer import Transformer, n_params
from facthold.theory.bounds import MLP_CONSTANT
from facthold.train.lanes import Stopped, shared_lanes

SLACK = 1.8
"""First guess of a width, as a multiple of figure 1's guide line: training there is ten times as long."""
STEP = 1.2
"""Factor between the tries of a width. The last that was enough is taken: a try that fails takes longest."""
LARGE = 30_000
"""Facts of a table above which the first width that is enough is taken: each further try takes minutes."""
ROOMY = 1.5
"""So many times the guess is what such a table starts with: few steps for many facts need more room."""
WIDEST = 8.0
"""A search ends at so many times its first guess: what does not fit there has another reason."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Width:
    """How the width of one group was found."""

    name: str
    facts: int
    m: int
    share: float
    """Share of the group's facts that win by a margin while they are stored."""
    tries: tuple[tuple[int, float], ...]
    """(width, share) of all that were tried."""


def readout(
    table: FactTable, *, accuracy: float, n_noise: int, T: int, p: np.ndarray | None, seed: int,
    max_params: int | None = None, d: int | None = None, say: Say = lambda _: None, kept: Kept | None = None,
) -> tuple[Transformer, FactualRecall, list[Width]]:  # fmt: skip
    """The smallest such transformer that was found to recall the share ``accuracy`` of every relation's facts.

    What was tried is put into ``kept``, and not tried again where it is there.
    """
    kept = kept or Kept()
    d, n_gates = shape(table, n_noise, d)
    attention = n_params(d=d, H=n_gates + min(table.S, table.R), d_h=1, m=0)
    if max_params is not None and attention >= max_params:
        raise FactholdError(
            f"attention alone takes {attention} parameters, and --max-params is {max_params}; "
            f"allow more, or fewer noise tokens than {n_noise}"
        )
    key = derive("tokens", seed, d, "sphere")
    problem = factual_recall(table, d, key=key, n_noise=n_noise, T=T, p=p, outputs="answers")
    gates = gate_heads(problem, n_gates, key=derive("gates", seed))
    groups = fact_groups(problem, gates)
    if kept.tries:
        say(f"going on with {len(kept.tries)} tries that were kept")
    say(f"{len(table)} facts in {len(groups)} groups of neurons, d={d}, {gates.H} heads")
    found = _side_by_side(
        [_Search(problem, group, gates, accuracy, seed, len(table) > LARGE, kept) for group in groups], say
    )
    mlp = join(gates, groups, [memory for memory, _ in found], d)
    model = gated_transformer(problem, gates, mlp)
    if max_params is not None and model.n_params > max_params:
        raise FactholdError(
            f"the smallest model found has {model.n_params} parameters, and --max-params is {max_params}; allow more, "
            f"or ask for a smaller share with --accuracy"
        )
    return model, problem, [width for _, width in found]


def shape(table: FactTable, n_noise: int, d: int | None = None) -> tuple[int, int]:
    """d, and the number of gates.

    The neurons need about K = sum 2 c N ln A weights that see something (c of figure 1's guide line): a neuron has one
    for each gate and d for its output. With n gates this makes 4 n d + 2 d K / (n + d) parameters, least at
    n + d = sqrt(K / 2). d itself should be small, but an answer must be told from all others in it, and noise from EOS.
    """
    few, many = sorted((len(np.unique(table.relations)), len(np.unique(table.subjects))))
    K = SLACK * sum(_work(table.answers[table.relations == r]) for r in range(table.R))
    least = fewest_dimensions(few, n_noise)
    codes = math.ceil(3 * math.log(many) + 8)
    if d is None:
        d = max(least, few + codes, 4 * math.ceil(0.35 * K ** (1 / 3)))
    gates = max(codes, round(math.sqrt(K / 2)) - d)
    return d, max(1, min(gates, d - few))


def _work(answers: np.ndarray) -> float:
    """2 c N ln A for N facts with A different answers."""
    return 2 * MLP_CONSTANT * len(answers) * math.log(max(2, len(np.unique(answers))))


def _name(table: FactTable, token: int) -> str:
    kind, i = ("relations", token - table.S) if token >= table.S else ("subjects", token)
    return str(i) if table.labels is None else getattr(table.labels, kind)[i]


class _Search:
    """The search for one group's width."""

    def __init__(
        self,
        problem: FactualRecall,
        group: FactGroup,
        gates: Gates,
        accuracy: float,
        seed: int,
        large: bool,
        kept: Kept,
    ) -> None:
        self.group, self.accuracy, self.seed, self.large, self.kept = group, accuracy, seed, large, kept
        names = [_name(problem.table, int(mark)) for mark in group.marks]
        self.name = " and ".join(names) if len(names) < 3 else f"{names[0]} and {len(names) - 1} more"
        slack = SLACK * (ROOMY if large else 1.0)
        self.guess = max(2, math.ceil(slack * _work(np.asarray(group.problem.f)) / (gates.n_gates + problem.d)))
        self.made: dict[int, tuple[MLPMemory, float]] = {}
        self.state = "waiting"
        self.called_off = False

    def run(self) -> tuple[MLPMemory, Width]:
        ceiling = math.ceil(WIDEST * self.guess)
        if self.large:
            enough = self._upwards(ceiling)
        else:
            tolerance = STEP - 1 + 2 / self.guess  # widths are whole numbers
            search = find_smallest(
                self._ask, self.accuracy, self.guess, ceiling=ceiling, tolerance=tolerance, step=STEP
            )
            enough = search.enough
        if enough is None:
            most = max(share for _, share in self.made.values())
            raise FactholdError(
                f"no width up to {ceiling} recalls {self.accuracy:.4g} of the facts of {self.name}; "
                f"{most:.4g} at most: ask for a smaller share with --accuracy"
            )
        memory, share = self.made[enough]
        tries = tuple((m, s) for m, (_, s) in self.made.items())
        self.state = f"{len(memory.W)} neurons"
        return memory, Width(self.name, len(self.group), len(memory.W), share, tries)

    def _upwards(self, ceiling: int) -> int | None:
        m = self.guess
        while m <= ceiling:
            if self._ask(m) >= self.accuracy:
                return m
            m = math.ceil(STEP * m)
        return None

    def _ask(self, m: int) -> float:
        def heard(done: float, share: float) -> None:
            if self.called_off:
                raise Stopped
            self.state = f"{m} neurons, {done:.0%} of the steps, {share:.2%} right"

        self.state = f"{m} neurons"
        name = f"{self.group.marks[0]}/{m}"
        found = self.kept.get(name)
        if found is None:
            key = derive("neurons", self.seed, int(self.group.marks[0]), m)
            found = store_group(self.group, m, self.accuracy, key=key, listener=heard)
            self.kept.keep(name, found)
        self.made[m] = found
        return found[1]


def _side_by_side(searches: Sequence[_Search], say: Say) -> list[tuple[MLPMemory, Width]]:
    """All searches at once, largest first; training takes turns on the lanes."""
    # Few more than there are lanes: each holds its data.
    pool = ThreadPoolExecutor(len(shared_lanes()) + 1, thread_name_prefix="group")
    order = sorted(range(len(searches)), key=lambda i: -len(searches[i].group))
    try:
        futures = {i: pool.submit(searches[i].run) for i in order}
        while not all(future.done() for future in futures.values()):
            failed = [f for f in futures.values() if f.done() and f.exception() is not None]
            if failed:
                failed[0].result()
            say("; ".join(f"{s.name}: {s.state}" for s in searches if s.state != "waiting") or "starting")
            time.sleep(0.5)
        return [futures[i].result() for i in range(len(searches))]
    finally:  # the lanes are shared with others: those that still train are called off one by one, at their next look
        for search in searches:
            search.called_off = True
        pool.shutdown(wait=False, cancel_futures=True)

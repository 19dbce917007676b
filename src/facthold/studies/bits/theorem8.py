"""Theorem 8: tables whose answer sets are drawn too, against all tables, all learners, and models that know them.

At zero loss a learner needs H(a*) bits and no fewer (`theory.limits_facts.table_entropy`), so that the theorem's bound
is judged against a number that is exact. The theorem says that there is some c; c = 0.11 will do.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from statistics import fmean
from typing import Annotated, Any, ClassVar

from facthold.lab import Cell, Claim, Judgement, Result, TableCell, Values, at_least, worst
from facthold.lab.fields import Between, Count
from facthold.measure.scaling import mean_interval
from facthold.studies.bits.fact_bits import FactBits
from facthold.studies.bits.memory_bits import WRITTEN
from facthold.studies.judging import all_of, at_preset, grouped, seeds_at
from facthold.theory.limits_facts import facts_bits, table_entropy

C = 0.11
"""The largest c is that of D = 1, R = 3, V = 6: three different tokens of six, log2 120 bits for 3 log2 6. For D >= 2
the sets have more than R D log2(V/D) bits; what is lost to answers that no subject has is below a millionth there."""
SHARP = 0.99  # of H(a*) that the proof's bound reaches where V is large: its lower terms are below a hundredth there
ROUNDING = 1e-9
ENUMERATED = ((1, 2, 2, 5), (2, 2, 2, 4), (3, 2, 2, 6), (2, 3, 1, 6), (4, 1, 3, 6))  # (S, R, D, V) of all tables
APPLIES = {
    "smoke": ((14, 3, 1, 6), (72, 1, 2, 4), (72, 2, 2, 153), (800, 8, 8, 10**6)),
    "quick": ((12, 1, 1, 4), (12, 2, 1, 4), (14, 3, 1, 6), (16, 4, 1, 8), (20, 16, 1, 32), (24, 100, 1, 1000),
              (72, 1, 2, 4), (72, 2, 2, 153), (120, 1, 3, 6), (180, 4, 4, 32), (480, 8, 8, 128), (2600, 30, 30, 1800),
              (800, 8, 8, 10**6)),
}  # fmt: skip
"""(S, R, D, V) for which the theorem holds, many of them at V = 2RD, where it is nearest to its end."""
LEARNERS = {"smoke": ((24, 16),), "quick": ((24, 16), (40, 32), (60, 40))}  # (S, V), R = D = 1
MODELS: Mapping[str, tuple[tuple[str, int, dict[str, Any]], ...]] = {
    "smoke": (("values", 1, {"guess": 16, "rooms": (1.2,)}),),
    "quick": (("values", 2, {"guess": 16, "rooms": (1.2,)}), ("values", 1, {"guess": 16, "rooms": (1.2,)})),
}
"""Recipe, R, where its search starts, and how much larger the model is than the smallest: right on fresh prompts."""
MODEL_S, MODEL_D = 72, 2  # the theorem needs S >= 65 here


@dataclass(frozen=True, kw_only=True)
class HiddenTables(TableCell):
    """Bits of a table whose answer sets are drawn from V tokens: H(a*), and the same from a list of all tables."""

    kind: ClassVar[str] = "hidden-tables"
    counts_no_facts: ClassVar[str] = "tables are counted, and no model is made"

    V: Count
    enumerate: bool = False

    def run(self) -> Result:
        result: Result = {"entropy": table_entropy(self.S, self.R, self.D, self.V)}
        if self.enumerate:
            drawn = Counter(self._tables())
            total = sum(drawn.values())
            entropy = -sum(n / total * math.log2(n / total) for n in drawn.values())
            result |= {"enumerated": entropy, "tables": len(drawn)}
        return result

    def _tables(self) -> Iterator[tuple[int, ...]]:
        """a* of every choice of disjoint sets and of answers from them, all equally likely."""
        for sets in _disjoint(range(self.V), self.R, self.D):
            yield from itertools.product(*(answers for answers in sets for _ in range(self.S)))


def _disjoint(tokens: Sequence[int], R: int, D: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    if R == 0:
        yield ()
        return
    for chosen in itertools.combinations(tokens, D):
        for rest in _disjoint([v for v in tokens if v not in chosen], R - 1, D):
            yield (chosen, *rest)


@dataclass(frozen=True, kw_only=True)
class HiddenLearners(Cell):
    """All learners of the one answer that all S subjects share (R = D = 1), drawn from V tokens.

    A message is a set of tokens, and the best prediction is even over it. So a learner is, up to the names of tokens, a
    partition of the number V: each gives its bits, log2 of its parts, and its loss per fact.
    """

    kind: ClassVar[str] = "hidden-learners"
    counts_no_facts: ClassVar[str] = "learners are counted, and no model is made"

    S: Count
    V: Annotated[int, Between(least=2, most=48)]  # partitions are listed: 147,273 of 48

    def run(self) -> Result:
        spare = []
        for parts in partitions(self.V, self.V):
            loss = sum(n * math.log2(n) for n in parts) / self.V
            bound = facts_bits(self.S, 1, 1, self.V, loss).bits
            spare.append(math.log2(len(parts)) - (math.inf if bound is None else bound))
        return {"learners": len(spare), "least_spare": min(spare)}


def partitions(n: int, largest: int) -> Iterator[list[int]]:
    """All ways to write n as a sum of numbers up to ``largest``."""
    if n == 0:
        yield []
    for first in range(min(n, largest), 0, -1):
        for rest in partitions(n - first, first):
            yield [first, *rest]


def cells(preset: str) -> list[Cell]:
    tables = [HiddenTables(S=S, R=R, D=D, V=V, enumerate=True) for S, R, D, V in ENUMERATED]
    applies = [HiddenTables(S=S, R=R, D=D, V=V) for S, R, D, V in at_preset(APPLIES, preset)]
    models = [
        FactBits(model=name, S=MODEL_S, R=R, D=MODEL_D, goals=(1.0,), seeds=seeds_at(preset, 2), **start)
        for name, R, start in at_preset(MODELS, preset)
    ]
    return [*tables, *applies, *(HiddenLearners(S=S, V=V) for S, V in at_preset(LEARNERS, preset)), *models]


def judge(rows: Sequence[Values]) -> Judgement:
    by_kind = grouped(rows, itemgetter("kind"))
    tables, learners, models = (by_kind.get(c.kind, []) for c in (HiddenTables, HiddenLearners, FactBits))
    listed, applies = ([r for r in tables if ("enumerated" in r) == is_listed] for is_listed in (True, False))
    if not (listed and applies and learners and models):
        return Judgement("theorem 8", "not all of it was measured", "no bound", False)
    return all_of(_judge_entropy(listed), _judge_terms(applies), _judge_learners(learners), *map(_judge_model, models))


def _judge_entropy(rows: Sequence[Values]) -> Judgement:
    """The exact number of bits, against all tables."""
    off = max(abs(r["entropy"] - r["enumerated"]) for r in rows)
    holds = off <= ROUNDING and all(math.log2(r["tables"]) >= r["entropy"] - ROUNDING for r in rows)
    most = max(r["tables"] for r in rows)
    return Judgement("H(a*) as of a list of all tables", f"off by {off:.0e}, up to {most} tables", "exact", holds)


def _judge_terms(rows: Sequence[Values]) -> Judgement:
    """The theorem with its c, and with the terms of its proof, where it applies. No row may be where it does not."""
    needs, nearest = [], []
    holds = True
    for r in rows:
        S, R, D, V = (r[name] for name in "SRDV")
        bound, answers = facts_bits(S, R, D, V), r["entropy"] - S * R * math.log2(D)
        needs.append(1 - answers / (R * D * math.log2(V / D)))
        holds &= bound.bits is not None and needs[-1] <= C and bound.bits <= r["entropy"] + ROUNDING
        nearest.append((bound.bits or 0.0) / max(r["entropy"], ROUNDING))
    holds &= max(nearest) >= SHARP
    return Judgement(
        f"c <= {C:g}; the proof's bound <= H(a*), and {SHARP:g} of it at V = 10^6",
        f"c = {max(needs):.4f} at the most; bound / H(a*) up to {max(nearest):.3f}, {len(rows)} sizes", "exact", holds,
    )  # fmt: skip


def _judge_learners(rows: Sequence[Values]) -> Judgement:
    least, n = min(r["least_spare"] for r in rows), sum(r["learners"] for r in rows)
    words = f"least spare {least:.2f} bits of {n} learners at any loss"
    return Judgement("no learner of R = D = 1 is below, at any loss", words, "exact", least >= -ROUNDING)


def _judge_model(r: Values) -> Judgement:
    """Bits of the weights that depend on the table, where every fact is right, against the bound.

    Tokens have independent embeddings, so that a table with given blocks and one with sets drawn from the vocabulary
    are alike for a model that chooses among all of it. All right by arg max is a loss of zero at a large scale.
    """
    S, R, D = (r[name] for name in "SRD")
    bound = facts_bits(S, R, D, 2 * (S + R) + R * D + 1).bits  # as many noise tokens as subjects and relations, and EOS
    used = [u["bits"] for point in r["points"] for u in point["used"] if u["count"] == WRITTEN and u["recall"] == 1]
    predicted = f"{r['model']} R={R}: bits >= {bound or 0:.0f}"
    if bound is None or len(used) < len(r["points"]):
        return Judgement(predicted, f"{r['model']} R={R}: not every fact is right", "no interval", "not decided")
    interval = mean_interval(used)
    measured = f"{r['model']} R={R}: {fmean(used):.0f}, {fmean(used) / bound:.0f} times the bound"
    error = f"[{interval[0]:.0f}, {interval[1]:.0f}], {len(used)} seeds"
    return Judgement(predicted, measured, error, worst(at_least(interval, bound)))


CLAIM = Claim(
    "theorem-8", "theorem 8",
    "Zero loss on a table with hidden answer sets takes S R log2 D + (1 - c) R D log2(V/D) bits or more, c = 0.11, for "
    "V >= 2RD and S >= 8 D ln(2 D^2 log2 V): by the entropy of tables, by all learners of R = D = 1, and for models.",
    cells, judge, at_any_size="a bound for every table of these conditions, which its smoke tables fulfil",
)  # fmt: skip

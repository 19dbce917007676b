"""Edits one after another until the memory breaks, against building again: what they leave, and how long they take."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Annotated, Any, ClassVar

import numpy as np

from facthold._util.keys import derive
from facthold.facts.names import Names
from facthold.facts.table import FactTable
from facthold.lab import Cell, Figure, Result, Values, style
from facthold.lab.fields import Between, Counts, OneOf, Whole
from facthold.recipes.base import Made
from facthold.studies.judging import grouped
from facthold.studies.real_facts.base import GATED, RANDOM, TRAINED, ModelCell, ModelGrid, SourceCell, recalled

PROMPTS = 1 << 24  # seed of the prompts that judge here: no edit is made or checked with them


def random_edits(table: FactTable, n: int, seed: int) -> list[tuple[int, int]]:
    """n facts of the table, each once, with a new answer: another of its relation, or of the table if it has none."""
    from facthold.memory.embeddings import host_generator

    draw = host_generator(derive("edits", seed))
    edits = []
    for row in draw.permutation(len(table))[:n].tolist():
        right = set(table.right(row))
        others = sorted(table.A_r(int(table.relations[row])) - right) or sorted(set(range(table.A)) - right)
        edits.append((row, others[int(draw.integers(len(others)))]))
    return edits


@dataclass(frozen=True, kw_only=True)
class Edits(SourceCell, ModelCell):
    """The share of edited and of untouched facts that are right, after each number of edits, and after building again.

    A fact is edited once at most. The seconds are those of the machine that it ran on, with what else ran there.
    """

    kind: ClassVar[str] = "edits"
    version: ClassVar[int] = 3  # a change starts just short of its goal: what it finds no longer hangs on rounding

    counts: Counts  # numbers of edits, rising
    model: Annotated[str, OneOf((GATED, TRAINED))] = GATED
    width: Annotated[float, Between(least=1)] = 1.0  # of a gated model: its widths over the smallest that were found
    in_place: bool = False  # whether only weights that are there are changed; else a fact may get neurons of its own
    S: Whole = 250
    R: Whole = 5
    D: Whole = 60

    def __post_init__(self) -> None:
        super().__post_init__()
        if list(self.counts) != sorted(set(self.counts)):
            raise ValueError(f"counts={self.counts} must be rising numbers of edits")
        if self.source == RANDOM:
            self._check_count(self.n_facts, "S R")
            if self.R * self.D < 2:
                raise ValueError(f"R={self.R} and D={self.D} leave no other answer to edit to; take D=2 or more")

    def _check_count(self, facts: int, where: str) -> None:
        if self.counts[-1] > facts:
            raise ValueError(f"counts: {self.counts[-1]} edits need as many facts, and {where} has {facts}")

    @property
    def cost(self) -> float:
        """The edits, and two models."""
        return self.counts[-1] * (0.1 + 2e-4 * self.n_facts) + 2 * super().cost

    def make(self, table: FactTable) -> tuple[Made | None, float]:
        """A model of this table, None where training diverged; and the seconds that it took."""
        start = time.perf_counter()
        made = self.trained(table) if self.model == TRAINED else self.gated(table, self.width)
        return made, time.perf_counter() - start

    def run(self) -> Result:
        from facthold.knowledge.model import Model

        table = self.table()
        self._check_count(len(table), self.source)
        made, build_seconds = self.make(table)
        if made is None:
            return {"status": "diverged", "facts": len(table), "accuracy": None}
        known = Model(made.model, made.problem)
        accuracy, n_params = float(recalled(made, PROMPTS).mean()), known.n_params
        edited, spent = np.zeros(len(table), bool), 0.0
        efficacy, specificity, seconds, more_params = [], [], [], []
        subjects, relations, answers = Names.of(table)
        for n, (row, a) in enumerate(random_edits(table, self.counts[-1], self.seed), start=1):
            fact = subjects[int(table.subjects[row])], relations[int(table.relations[row])], answers[a]
            start = time.perf_counter()
            known = known.edit(*fact, in_place=self.in_place)
            spent += time.perf_counter() - start
            edited[row] = True
            if n in self.counts:
                right = recalled(Made(known.model, known.problem), PROMPTS)
                efficacy.append(float(right[edited].mean()))
                specificity.append(None if edited.all() else float(right[~edited].mean()))
                seconds.append(spent)
                more_params.append(known.n_params - n_params)
        again, again_seconds = self.make(known.table)
        return {
            "status": "found", "facts": len(table), "n_params": n_params, "accuracy": accuracy,
            "efficacy": efficacy, "specificity": specificity, "seconds": seconds, "more_params": more_params,
            "build_seconds": build_seconds,
            "again": None if again is None else float(recalled(again, PROMPTS).mean()), "again_seconds": again_seconds,
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Grid(ModelGrid):
    """And the numbers of edits, and what else is edited."""

    counts: Counts
    widths: tuple[float, ...]  # of gated models, as multiples of the smallest that were found
    in_place: tuple[float, ...] = ()  # of those whose weights are changed where they are: no fact gets its own neurons
    sources: tuple[str, ...] = ()  # real facts that are edited too, in a gated model of the smallest widths


PRESETS = {
    "smoke": Grid(S=12, R=2, D=4, counts=(1, 2, 4, 8), widths=(1.0, 2.0), in_place=(1.0,)),
    "quick": Grid(S=250, R=5, D=60, counts=(1, 2, 5, 10, 20, 50, 100, 200), widths=(1.0, 2.0),
                  in_place=(1.0, 2.0), shapes=((1.0, 4.0),), n_params=25_000, sources=("countries",)),
    "paper": Grid(S=250, R=5, D=60, counts=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
                  widths=(1.0, 1.5, 2.0, 3.0), in_place=(1.0, 1.5, 2.0, 3.0), shapes=((1.0, 4.0), (2.0, 2.0)),
                  n_params=25_000, protocol="transformer-code", sources=("countries",), n_seeds=3),
}  # fmt: skip


def cells(grid: Grid) -> list[Cell]:
    gated: list[dict[str, Any]] = [
        {"model": GATED, "width": width, "in_place": in_place}
        for in_place, widths in ((False, grid.widths), (True, grid.in_place))
        for width in widths
    ]
    models = [grid.table | model for model in (*gated, *grid.trained)]
    models += [{"source": name, "S": 0, "R": 0, "D": 0} for name in grid.sources]
    return [Edits(**model, counts=grid.counts, seed=seed) for model in models for seed in range(grid.n_seeds)]


def plot(rows: Sequence[Values]) -> "style.Canvas":
    canvas, (new, old, seconds) = style.panels(3, width=5.0, height=4.9)
    groups = _groups(rows)
    for i, (name, ours) in enumerate(groups.items()):
        look = style.mark(i)
        for j, r in enumerate(ours):
            line: dict[str, Any] = look | {"markersize": 4.5, "linewidth": 1.3, "alpha": 1.0 if len(ours) == 1 else 0.6}
            new.plot(r["counts"], r["efficacy"], label=None if j else f"{name}; {_times(ours)}", **line)
            old.plot(r["counts"], [math.nan if share is None else share for share in r["specificity"]], **line)
            seconds.plot(r["counts"], r["seconds"], **line)
            seconds.axhline(_building(r), color=look["color"], linestyle="--", linewidth=1)
    counts = sorted({n for ours in groups.values() for r in ours for n in r["counts"]})
    for axes, title, y in (
        (new, "Edited facts that give their new answer", "share of the edited facts"),
        (old, "Untouched facts that are right", "share of the untouched facts"),
        (seconds, "Time: all edits so far, and building again (dashed)", "seconds"),
    ):
        style.loglog(axes, title, "edits, one after another", y)
        axes.set_xticks(counts, [str(n) for n in counts])
        axes.set_xticks([], minor=True)
    for axes in (new, old):
        axes.axhline(1, **style.GUIDE)
        axes.set(yscale="linear", ylim=(-0.03, 1.05))
    new.plot([], [], **style.GUIDE, label="all facts right")
    canvas.legend(*new.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    if rows:
        canvas.suptitle("; ".join(dict.fromkeys(_table(r) for r in rows)), fontsize=10)
    return canvas


def _groups(rows: Sequence[Values]) -> dict[str, list[Values]]:
    """The rows of each kind of model by its name. Training that diverged has none."""
    known = [r for r in rows if r["accuracy"] is not None]
    by_kind = grouped(known, lambda r: (r["source"] != RANDOM, r["model"], r["in_place"], r["width"], _name(r)))
    return {name: ours for (*_, name), ours in by_kind.items()}


def _name(r: Values) -> str:
    facts = "" if r["source"] == RANDOM else f" of {r['source']}"
    if r["model"] == TRAINED:
        sizes = f"$d={r['d']}$, $m={r['m']}$"
    else:
        sizes = "smallest widths" if r["width"] == 1 else f"{r['width']:g} times as wide"
    return f"{r['model']}{facts}, {sizes}" + (", in place" if r["in_place"] else "")


def _times(ours: Sequence[Values]) -> str:
    """Size and what the edits add to it, seconds of one edit, and building again; the mean over seeds."""
    one = fmean(r["seconds"][-1] / r["counts"][-1] for r in ours)
    params, more = fmean(r["n_params"] for r in ours), fmean(r["more_params"][-1] for r in ours)
    right = [r["again"] for r in ours if r["again"] is not None]
    again = f"{fmean(right):.1%} right" if right else "diverged"
    return (
        f"{params:,.0f} + {more:,.0f} parameters; {one:.2g} s per edit; "
        f"building again {fmean(_building(r) for r in ours):.3g} s, {again}"
    )


def _building(r: Values) -> float:
    """Seconds of building, the shorter of the first time and of building again: either may wait for a free lane."""
    return min(r["build_seconds"], r["again_seconds"])


def _table(r: Values) -> str:
    if r["source"] == RANDOM:
        return f"random table, S={r['S']}, R={r['R']}, D={r['D']}: {r['facts']:,} facts"
    return f"{r['source']}: {r['facts']:,} facts"


def says(rows: Sequence[Values]) -> list[str]:
    """What is right after a few edits and after all of them, for each kind of model."""
    lines = []
    for name, ours in _groups(rows).items():
        counts, after = ours[0]["counts"], []
        for i in (len(counts) // 2 - 1, len(counts) - 1):
            old = [r["specificity"][i] for r in ours if r["specificity"][i] is not None]
            others = f" and {fmean(old):.1%} of the others" if old else ""
            new = fmean(r["efficacy"][i] for r in ours)
            after.append(f"after {counts[i]} edits {new:.1%} of them{others} are right")
        plain = name.replace("$", "")
        lines.append(f"{plain}, {ours[0]['facts']:,} facts: {'; '.join(after)}; {_times(ours)}")
    return lines


FIGURE = Figure(
    "edits", "Edits one after another, against building again", "beyond the paper",
    "Facts of the table, each once at most, get another answer of their relation by rank-one changes, one after "
    "another: in the weights that are there (in place), or, where that would cost another fact, by neurons for this "
    "fact alone; the parameters that all edits add stand after the plus. Left: the share of all facts edited so far "
    "that give their new answer. Middle: the share of facts never edited that are right; it starts at what the model "
    "knew. Both are asked in prompts that no edit was made from. Right: the time of all edits so far, each with its "
    "own check on the whole table, and of building again, with the search for the widths (of a trained model: "
    "training), the shorter of two; times are of one machine, with other cells beside. What was built again after the "
    "last edit was asked for every fact too.",
    PRESETS, cells, plot, says=says,
    sees="Edits with neurons of their own keep all other facts; edits in place lose more and more of them.",
)  # fmt: skip

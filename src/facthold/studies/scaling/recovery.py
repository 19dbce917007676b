"""How many items of a power law a few steps recall, by the optimiser: cells, and what is read from their rows.

N = d^2 items with an output of their own each, so that N is no limit: no linear memory holds more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from statistics import fmean
from typing import Annotated, Any, ClassVar

from facthold._util.keys import derive
from facthold._util.memory import Parts, bytes_of
from facthold.dynamics import LEARNERS, RESIDUALS
from facthold.lab import Cell, Result, Values
from facthold.lab.fields import Between, Count, Counts, Each, OneOf, Positive, Seeds, Whole
from facthold.memory import EMBEDDINGS, check_fits
from facthold.studies.judging import fresh_seeds, grouped
from facthold.theory import recovery as theory

Alpha = Annotated[float, Between(low=1)]
MUON, SIGN, ADAM, SGD = LEARNERS
SOFTMAX, THRESHOLD = RESIDUALS
LR = 2.0
"""The standard deviation, in nats, of scores of unrelated pairs after the first step. The items recalled after three
steps of Muon on the whole loss are most about there (docs/muon.md): it was chosen on seeds that do not judge."""
SEEDS, MANY = fresh_seeds("quick", 4), fresh_seeds("quick", 12)
WORDS = {
    (MUON, SOFTMAX): "Muon", (MUON, THRESHOLD): "Muon, thresholded", (SIGN, SOFTMAX): "sign descent",
    (ADAM, SOFTMAX): "Adam", (SGD, SOFTMAX): "SGD",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PowerLawCell(Cell):
    """N = d^2 items with p(z) ~ z^-alpha in d dimensions."""

    counts_no_facts: ClassVar[str] = "what a few steps recall is no capacity"

    d: Annotated[int, Between(least=2)]
    alpha: Alpha = 2.0
    steps: Count = 3
    batch: Whole = 0  # items drawn afresh for each step; 0: all, by their frequencies

    @property
    def N(self) -> int:
        return self.d**2


@dataclass(frozen=True, kw_only=True)
class Recovery(PowerLawCell):
    """How many items are recalled after each step, over all N outputs; ties are no recall. New embeddings and batches
    for each seed."""

    kind: ClassVar[str] = "recovery"

    optimiser: Annotated[str, OneOf(LEARNERS)] = MUON
    residual: Annotated[str, OneOf(RESIDUALS)] = SOFTMAX
    lr: Positive = LR
    embeddings: Annotated[str, OneOf(EMBEDDINGS)] = "gaussian"
    seeds: Seeds

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fits(self.embeddings, self.d, N=self.N)

    @property
    def needed(self) -> Parts:
        return {f"d={self.d}": bytes_of(embeddings=6.0 * self.N * self.d, scores=3.0 * (1 << 24))}

    @property
    def cost(self) -> float:
        softmax = 2.5 if self.residual == SOFTMAX else 1.0
        return 0.5 + len(self.seeds) * self.steps * self.N**2 * (self.d * 4e-11 + 2e-9) * softmax

    def run(self) -> Result:
        from facthold.dynamics.recovery import recover
        from facthold.memory.associations import random_problem

        p, recalled, seen = theory.power_law(self.N, self.alpha), [], []
        for seed in self.seeds:
            key = derive("recovery", seed, self.d, self.alpha)
            problem = random_problem(self.N, self.d, key=key, embeddings=self.embeddings)
            found = recover(
                problem, p, self.optimiser, steps=self.steps, lr=self.lr, residual=self.residual, batch=self.batch,
                key=derive("recovery batches", seed, self.d, self.alpha, self.batch),
            )  # fmt: skip
            recalled.append(found.recalled.sum(axis=1).tolist())
            seen.append(found.seen.tolist())
        share = fmean(last for *_, last in recalled) / self.N
        return {"recalled": recalled, "seen": seen, "accuracy": share}  # the share of all items, after the last step


@dataclass(frozen=True, kw_only=True)
class PredictedRecovery(PowerLawCell):
    """The same by `theory.recovery`: of Muon on thresholded gradients after each step, where all items are there at
    each step; after one step alone, also of SGD, where batches are drawn."""

    kind: ClassVar[str] = "predicted-recovery"

    @property
    def needed(self) -> Parts:
        return {f"d={self.d}": 8 * (6.0 * self.N + 1e7 * self.steps)}

    @property
    def cost(self) -> float:
        return 0.1 + 0.4 * (self.steps - 1)

    def run(self) -> Result:
        p = theory.power_law(self.N, self.alpha)
        items = theory.Weights.of(p)
        drawn = items.drawn(self.batch) if self.batch else items
        first = theory.muon_step(drawn, self.d, self.N)
        later = theory.muon_steps(p, self.d, self.steps)[1:] if not self.batch and self.steps > 1 else []
        return {
            "muon": [first, *later], "sgd": [theory.sgd_step(drawn, self.d, self.N)],
            "seen": theory.seen(p, self.batch) if self.batch else float(self.N),
        }  # fmt: skip


@dataclass(frozen=True)
class Grid:
    """Dimensions, powers and batches."""

    d: Counts = (24, 32, 48, 64, 96)
    alphas: Annotated[tuple[float, ...], Each(Alpha, distinct=True)] = (2.0, 1.5)
    others_d: Counts = (24, 32, 48, 64)  # for what is beside Muon, at the first alpha
    far_d: Counts = (256, 1024)  # predicted alone
    seeds: Seeds = SEEDS
    steps: Count = 3
    lr: Positive = LR
    many: Seeds = MANY  # where few items are recalled, or few are in a batch
    small: Count = 48  # the largest d at which few items are recalled
    batch_d: Count = 64
    batches: Counts = (16, 32, 64, 128, 256, 512, 1024, 4096, 16384, 262144)
    step_batches: Counts = (64, 256, 1024, 4096, 16384)  # of which each of several steps draws one afresh


PRESETS = {
    "smoke": Grid(d=(20, 24, 32), others_d=(20, 24, 32), far_d=(48,), seeds=(0, 1), many=(0, 1), steps=2, batch_d=16,
                  batches=(16, 64, 256, 4096), step_batches=(16, 256)),
    "quick": Grid(),
    "paper": Grid(d=(24, 32, 48, 64, 96, 128, 192), others_d=(24, 32, 48, 64, 96, 128), far_d=(512, 2048),
                  seeds=fresh_seeds("paper", 6), many=fresh_seeds("paper", 24), batch_d=96),
}  # fmt: skip


def law_cells(grid: Grid) -> list[Cell]:
    """Muon, both gradients, and what is predicted."""
    found: list[Cell] = []
    for alpha in grid.alphas:
        for d in grid.d:
            seeds = grid.many if d <= grid.small else grid.seeds
            found += [Recovery.of(grid, d=d, alpha=alpha, residual=residual, seeds=seeds) for residual in RESIDUALS]
        found += [PredictedRecovery.of(grid, d=d, alpha=alpha) for d in (*grid.d, *grid.far_d)]
    return found


def other_cells(grid: Grid) -> list[Cell]:
    """Of sign descent and SGD many seeds. Of Adam, for which there is no law, some."""
    seeds = {SIGN: grid.many, SGD: grid.many, ADAM: grid.seeds}
    sizes = [(name, d) for name in seeds for d in grid.others_d]
    return [Recovery.of(grid, d=d, alpha=grid.alphas[0], optimiser=name, seeds=seeds[name]) for name, d in sizes]


def batch_cells(grid: Grid) -> list[Cell]:
    """One step from a batch of each size, and from all there is."""
    found: list[Cell] = []
    at: dict[str, Any] = {"d": grid.batch_d, "steps": 1, "seeds": grid.many}
    for alpha in grid.alphas:
        for batch in (*grid.batches, 0):
            found += [Recovery.of(grid, **at, alpha=alpha, batch=batch, optimiser=name) for name in (MUON, SGD)]
            found.append(PredictedRecovery(d=grid.batch_d, steps=1, alpha=alpha, batch=batch))
    return found


def step_cells(grid: Grid) -> list[Cell]:
    """Several steps of Muon, each from a batch of its own, on both gradients; and what theory has for all data."""
    found: list[Cell] = []
    for alpha in grid.alphas:
        found.append(PredictedRecovery.of(grid, d=grid.batch_d, alpha=alpha))
        found += [
            Recovery.of(grid, d=grid.batch_d, alpha=alpha, batch=batch, residual=residual, seeds=grid.many)
            for batch in grid.step_batches for residual in RESIDUALS
        ]  # fmt: skip
    return found


def cells(grid: Grid) -> list[Cell]:
    return list(dict.fromkeys([*law_cells(grid), *other_cells(grid), *batch_cells(grid), *step_cells(grid)]))


def measured(rows: Sequence[Values], **at: Any) -> list[Values]:
    """A row for each seed, of those that were measured there, by d."""
    ours = [r for r in rows if r["kind"] == Recovery.kind and all(r[name] == value for name, value in at.items())]
    ours.sort(key=lambda r: (r["d"], r["batch"]))
    each: list[Values] = [
        {**r, "seed": seed, "recalled": recalled, "seen": seen}
        for r in ours for seed, recalled, seen in zip(r["seeds"], r["recalled"], r["seen"], strict=True)
    ]  # fmt: skip
    return each


def predicted(rows: Sequence[Values]) -> dict[tuple[int, float, int, int], Values]:
    """What theory says, by (d, alpha, steps, batch)."""
    ours = (r for r in rows if r["kind"] == PredictedRecovery.kind)
    return {(r["d"], r["alpha"], r["steps"], r["batch"]): r for r in ours}


def stated(row: Values) -> tuple[int, float, int, int]:
    return row["d"], row["alpha"], row["steps"], row["batch"]


def longest(rows: Sequence[Values]) -> int:
    """Steps of the runs on all of the data; those of one step that stand beside longer ones are there for batches."""
    return max((r["steps"] for r in rows if not r["batch"]), default=0)


@dataclass(frozen=True)
class FromBatches:
    """Items that Muon recalls after each step, each from a batch of its own: means over seeds. And the two numbers of
    which the law takes the smaller one: what theory has for all of the data, and what the batches so far have shown."""

    d: int
    batch: int
    recalled: dict[str, list[float]]  # by gradient
    all_data: list[float]
    seen: list[float]


def from_batches(rows: Sequence[Values], alpha: float) -> list[FromBatches]:
    """By batch; those that were measured on both gradients."""
    last, said = longest(rows), predicted(rows)
    each = [r for r in measured(rows, alpha=alpha, optimiser=MUON) if r["batch"] and r["steps"] == last > 1]
    found = []
    for batch, group in grouped(each, itemgetter("batch")).items():
        d, recalled = group[0]["d"], grouped(group, itemgetter("residual"))
        if recalled.keys() == set(RESIDUALS) and (d, alpha, last, 0) in said:
            p = theory.power_law(d**2, alpha)
            means = {name: [fmean(t) for t in zip(*(r["recalled"] for r in ours), strict=True)]
                     for name, ours in recalled.items()}  # fmt: skip
            seen = [theory.seen(p, batch * t) for t in range(1, last + 1)]
            found.append(FromBatches(d, batch, means, said[d, alpha, last, 0]["muon"], seen))
    return found


def by_step(rows: Sequence[Values], t: int, **at: Any) -> list[tuple[int, float]]:
    """(d, recalled) after t steps on all of the data. Where a size has more seeds than another, means of some of them,
    so that each size has as many points: logarithms of few items, each by itself, would have too low a mean."""
    last = longest(rows)
    found = [r for r in measured(rows, batch=0, **at) if r["steps"] == last >= t]
    ours = list({(r["d"], r["seed"]): r for r in found}.values())  # where all have one step, a seed may be there twice
    sizes = [[r["recalled"][t - 1] for r in group] for group in grouped(ours, itemgetter("d")).values()]
    each = min(map(len, sizes), default=0)
    return [
        (d, fmean(recalled[i::each]))
        for d, recalled in zip(sorted({r["d"] for r in ours}), sizes, strict=True) for i in range(each)
    ]  # fmt: skip

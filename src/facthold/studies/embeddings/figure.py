"""`figure embeddings`: what random, spread and learned embeddings hold at equal parameters, how orthogonal the learned
ones become, the smallest dimension of each, and what carries over to new subjects."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Annotated

from facthold.lab import Cell, Figure, Values
from facthold.lab.fields import Count, Counts, Each, OneOf, Repeats, Whole
from facthold.measure.scaling import Fit
from facthold.studies.embeddings import panels
from facthold.studies.embeddings.dimension import KINDS, LEARNED, MemoryDimension, Rates, Several
from facthold.studies.embeddings.facts import FactDimension
from facthold.studies.embeddings.transfer import ARMS, BEFORE, SubjectTransfer
from facthold.studies.judging import exponent

LINEAR_LRS = (1000.0,)  # figure 1's, for W between embeddings that stay
MLP_LRS = (1e-2, 3e-2)  # the text's and the authors' code's
LEARNED_LRS = (3e-2, 1e-1)
FACT_LRS = (1e-2, 3e-2)


@dataclass(frozen=True)
class Grid:
    """Sizes: N associations; S subjects at R relations, and R relations at S subjects; models for the transfer."""

    N: Counts
    subjects: Counts  # at R relations
    relations: Counts  # at S subjects
    trained: Counts  # subjects that a model is trained on before it is frozen
    S: Several = 45
    R: Several = 4
    D: Several = 8
    d: Count = 8  # of the transfer
    new: Several = 64
    ratio: Whole = 4
    kinds: Annotated[tuple[str, ...], Each(Annotated[str, OneOf(KINDS)], distinct=True)] = KINDS
    memory_steps: Count = 4096
    fact_steps: Count = 2048
    linear_lrs: Rates = LINEAR_LRS
    mlp_lrs: Rates = MLP_LRS
    learned_lrs: Rates = LEARNED_LRS
    fact_lrs: Rates = FACT_LRS
    n_seeds: Repeats = 3


PRESETS = {
    "smoke": Grid(N=(8, 16), subjects=(6, 12), relations=(2, 3), trained=(8,), S=12, R=2, D=4, new=8, ratio=2,
                  memory_steps=512, fact_steps=512, fact_lrs=(3e-2,), n_seeds=1),
    "quick": Grid(N=(16, 32, 64, 128), subjects=(16, 45, 128), relations=(2, 4, 8), trained=(8, 32, 128)),
    "paper": Grid(N=(16, 32, 64, 128, 256, 512), subjects=(16, 32, 64, 128, 256, 512), relations=(2, 4, 8, 16),
                  trained=(8, 16, 32, 64, 128, 256, 512), memory_steps=8192, fact_steps=8192, n_seeds=5),
}  # fmt: skip


def memory(grid: Grid, N: int, kind: str, ratio: int) -> MemoryDimension:
    lrs = grid.learned_lrs if kind == LEARNED else grid.mlp_lrs if ratio else grid.linear_lrs
    return MemoryDimension.of(grid, N=N, embeddings=kind, ratio=ratio, steps=grid.memory_steps, lrs=lrs)


def facts(grid: Grid, S: int, R: int, kind: str) -> FactDimension:
    return FactDimension.of(grid, S=S, R=R, embeddings=kind, steps=grid.fact_steps, lrs=grid.fact_lrs)


def transfer(grid: Grid, S: int) -> SubjectTransfer:
    return SubjectTransfer.of(grid, S=S, steps=grid.fact_steps, lrs=grid.fact_lrs)


def cells(grid: Grid) -> list[Cell]:
    ratios = list(dict.fromkeys((0, grid.ratio)))
    tables = dict.fromkeys([*((S, grid.R) for S in grid.subjects), *((grid.S, R) for R in grid.relations)])
    return [
        *(memory(grid, N, kind, ratio) for ratio in ratios for kind in grid.kinds for N in grid.N),
        *(facts(grid, S, R, kind) for kind in grid.kinds for S, R in tables),
        *(transfer(grid, S) for S in grid.trained),
    ]


def fits(rows: Sequence[Values]) -> list[Fit]:
    """Exponents of the smallest d, where all seeds found one."""
    result = []
    for name, ours, x in panels.growing(rows):
        found = [r for r in ours if r["d"] is not None]
        result += exponent(name, [r[x] for r in found], [r["d"] for r in found])
    return result


def says(rows: Sequence[Values]) -> list[str]:
    """What each kind holds, in numbers; how orthogonal the learned ones are; what is recalled of new subjects."""
    lines = []
    for name, ours, x in panels.growing(rows):
        sizes = "; ".join(f"{x}={r[x]}: {_size(r)}" for r in sorted(ours, key=lambda r: r[x]))
        lines.append(f"{name}, d and all parameters: {sizes}")
    for part, points in panels.learned_overlaps(rows).items():
        mean = fmean(point.mean for point in points)
        largest = ", ".join(f"{p.largest:.2f} of {p.n} in {p.d}" for p in points[-1:])
        lines.append(
            f"learned, {part}: mean squared overlap {mean:.2f} / d on average (random 1 / d), largest {largest}"
        )
    for r in sorted((r for r in rows if "recall" in r), key=lambda r: r["S"]):
        arms = ", ".join(f"{arm} {_share(r['recall'][arm])}" for arm in (*BEFORE, *ARMS))
        lines.append(f"new subjects, trained on S={r['S']}, d={r['d']}: {arms}")
    return lines


def _size(r: Values) -> str:
    return r["status"] if r["d"] is None else f"{r['d']:.1f} ({r['n_params']:.0f})"


def _share(shares: Sequence[float | None]) -> str:
    return "diverged" if None in shares else f"{fmean(s for s in shares if s is not None):.1%}"


FIGURE = Figure(
    "embeddings", "Random, spread and learned embeddings", "discussion; arXiv 2605.12426",
    "What is held in the smallest dimension at which 99% is recalled, by embeddings that are random on the sphere, "
    "spread as evenly as d allows, or learned together with the weights. Parameters are all numbers that depend on "
    "what is stored: the weights, and learned embeddings. Points: mean over seeds; bars: smallest and largest. An "
    "overlap is the inner product of two directions; no n directions have a smaller mean square than Welch's bound. "
    "Last: recall of new subjects where their embeddings alone are learnt.",
    PRESETS, cells, panels.plot, fits, says,
    sees="Learned embeddings need the fewest dimensions; spread ones are little better than random ones.",
)  # fmt: skip

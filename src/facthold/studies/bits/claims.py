"""Bits that models use, against the bits that no model can do without."""

from collections.abc import Sequence

from facthold.lab.cells import Cell
from facthold.lab.claim import Claim, Judgement
from facthold.lab.figure import Values
from facthold.studies.bits.efficiency import best
from facthold.studies.bits.memory_bits import PAPER, MemoryBits
from facthold.studies.judging import at_preset

TIMES = 10.0
ARGMAX_D = {"smoke": (16, 24, 32), "quick": (32, 64, 128)}
SIGNS_D = {"smoke": (32, 48, 64), "quick": (64, 128, 256), "paper": (64, 128, 256, 512)}
LOADS = (0.4, 0.55, 0.7, 0.85, 1.0)


def efficiency_cells(preset: str) -> list[Cell]:
    """The same cells as in the figure at its quick sizes."""
    argmax = [
        MemoryBits(method=name, d=d, loads=LOADS)
        for name in (PAPER, "outer-product") for d in at_preset(ARGMAX_D, preset)
    ]  # fmt: skip
    signs = [
        MemoryBits(method=name, d=d, reading="signs", loads=LOADS)
        for name in ("outer-product", "one-bit") for d in at_preset(SIGNS_D, preset)
    ]  # fmt: skip
    return [*argmax, *signs]


def judge_efficiency(rows: Sequence[Values]) -> Judgement:
    """The best of each method, at 99%. No efficiency may be above 1, up to the one table in a million."""

    def top(method: str, reading: str) -> float:
        points = [best(r) for r in rows if (r["method"], r["reading"]) == (method, reading)]
        return max((p["efficiency"] for p in points if p), default=0.0)

    plain, ours = top(PAPER, "argmax"), top("one-bit", "signs")
    fewest, same = top("outer-product", "argmax"), top("outer-product", "signs")
    measured = (
        f"{ours:.1%} against {plain:.2%}: {ours / plain:.0f} times; rounded as far as it goes the outer product has "
        f"{fewest:.1%}, and {same:.1%} where it is read by signs too"
        if plain else f"{ours:.1%}; the outer product recalls too little at these sizes"
    )  # fmt: skip
    holds = plain > 0 and ours >= TIMES * plain and max(ours, fewest, same) <= 1
    return Judgement(f"at least {TIMES:g} times", measured, "best of its sizes, one seed", holds)


CLAIMS = (
    Claim(
        "efficiency",
        "beyond; corollary 2",
        "One-bit weights by message passing are at least ten times as near to the counting bound as the outer product "
        "with the bits that corollary 2 counts.",
        efficiency_cells,
        judge_efficiency,
    ),
)

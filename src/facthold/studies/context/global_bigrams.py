"""How many samples one gradient step needs for a global bigram, in a feed-forward memory and in attention.

The slides have O(1) and O(N). Here each is a number that is counted exactly (`theory.samples`) and measured by gradient
steps that were really made (`dynamics.global_bigrams`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from statistics import fmean
from typing import Annotated, ClassVar

from facthold._util.keys import derive
from facthold._util.memory import Parts, bytes_of
from facthold.dynamics import READERS
from facthold.lab import Cell, Claim, Figure, Judgement, Result, Values, at_least, near, style
from facthold.lab.fields import Between, Count, Counts, OneOf, Seeds, Share
from facthold.measure.capacity import FOUND
from facthold.measure.scaling import Fit, fit_exponent, mean_interval
from facthold.studies.judging import (
    LAW_EXPONENT,
    LAW_TOLERANCE,
    Measure,
    all_of,
    at_preset,
    columns,
    exponent,
    fresh_seeds,
    grouped,
    interval,
    judge_constant,
    not_found,
)  # fmt: skip
from facthold.theory.samples import between, samples_needed, shared

FEED_FORWARD, ATTENTION, TO_ALL = READERS
PROMPTS = {FEED_FORWARD: 1, ATTENTION: 8, TO_ALL: 2}  # of each set of samples; the feed-forward memory has only one
FIRST, LARGEST, TOLERANCE = 8, 1 << 16, 0.04  # where each search starts and ends, and how near it comes
FAR_FEWER = 10  # times
SEEDS = fresh_seeds("quick", 3)


@dataclass(frozen=True, kw_only=True)
class SamplesNeeded(Cell):
    """The number of samples after which one gradient step makes a bigram's token the arg max in a share ``goal`` of
    all cases: fresh samples and fresh prompts."""

    kind: ClassVar[str] = "samples-needed"
    counts_no_facts: ClassVar[str] = "one bigram is learnt"

    reader: Annotated[str, OneOf(READERS)]
    N: Annotated[int, Between(least=4)]
    T: Annotated[int, Between(least=2)] = 5
    alpha: Share = 0.5  # how often the token follows the trigger
    goal: Share = 0.95
    trials: Annotated[int, Between(least=8)] = 1024
    seed: int = 0

    @property
    def needed(self) -> Parts:
        return {f"N={self.N}": bytes_of(weights=4.0 * self.N**2)}

    @property
    def cost(self) -> float:
        return 2 + 4e-9 * self.N**2 * self.trials / PROMPTS[self.reader]

    def run(self) -> Result:
        from facthold.dynamics.global_bigrams import recall
        from facthold.measure.capacity import find_smallest

        prompts = PROMPTS[self.reader]
        key = derive("samples needed", self.reader, self.N, self.T, self.seed)

        def ask(n: int) -> float:
            sets = self.trials // prompts
            return recall(self.reader, n, self.N, self.T, self.alpha, sets=sets, prompts=prompts, key=key)

        found = find_smallest(ask, self.goal, FIRST, ceiling=LARGEST, tolerance=TOLERANCE, step=2)
        shares, samples = dict(found.probes), None
        if found.status == FOUND and found.too_small is not None and found.enough is not None:
            low, high = ((n, shares[n]) for n in (found.too_small, found.enough))
            samples = between(low, high, self.goal)
        return {"status": found.status, "samples": samples, "probes": [list(probe) for probe in found.probes]}


vocabulary: Measure = itemgetter("N")
samples: Measure = itemgetter("samples")


def law(row: Values) -> float:
    """The same number by counting."""
    return samples_needed(row["goal"], row["alpha"], row["N"], shared(row["reader"], row["N"], row["T"]))


@dataclass(frozen=True)
class Grid:
    """Vocabularies of so many tokens."""

    N: Counts = (64, 128, 256, 512, 1024)
    T: Count = 5
    trials: Count = 1024
    seeds: Seeds = SEEDS


PRESETS = {
    "smoke": Grid(N=(16, 32, 64), trials=64, seeds=(0, 1)),
    "quick": Grid(),
    "paper": Grid(N=(64, 128, 256, 512, 1024, 2048, 4096), trials=4096, seeds=fresh_seeds("paper", 5)),
}


def cells(grid: Grid) -> list[Cell]:
    return [SamplesNeeded.of(grid, reader=r, N=N, seed=seed) for r in READERS for N in grid.N for seed in grid.seeds]


WORDS = {
    FEED_FORWARD: "feed-forward memory", ATTENTION: "attention, over the tokens before",
    TO_ALL: "attention, over all tokens",
}  # fmt: skip


def plot(rows: Sequence[Values]) -> "style.Canvas":
    canvas, (axes,) = style.panels(1, width=6.4, height=4.6)
    for i, reader in enumerate(READERS):
        found = [r for r in rows if r["reader"] == reader and r["samples"] is not None]
        style.points(axes, [(r["N"], r["samples"]) for r in found], i, linestyle="none", label=WORDS[reader])
        sizes = sorted({r["N"]: r for r in found}.items())
        if sizes:
            x, y = zip(*((N, law(r)) for N, r in sizes), strict=True)
            style.guide(axes, x, y, "", color=style.COLOURS[i])
    style.guide(axes, [], [], "the same, by counting")  # in the colour of each
    style.loglog(axes, "one gradient step for a global bigram", "N, tokens of the vocabulary", "samples for 95% recall")
    style.doubling(axes)
    style.legend(axes)
    return canvas


def fits(rows: Sequence[Values]) -> list[Fit]:
    result: list[Fit] = []
    for reader in READERS:
        found = [r for r in rows if r["reader"] == reader and r["samples"] is not None]
        result += exponent(f"{WORDS[reader]}: samples against N", *columns(found, vocabulary, samples))
    return result


def says(rows: Sequence[Values]) -> list[str]:
    """Each reader in numbers, beside what counting says."""
    lines = []
    for reader, group in grouped(rows, lambda r: READERS.index(r["reader"])).items():
        points = [
            f"N = {N}: {', '.join('none' if r['samples'] is None else format(r['samples'], '.3g') for r in some)} "
            f"({law(some[0]):.3g})"
            for N, some in grouped(group, lambda r: r["N"]).items()
        ]
        lines.append(f"{WORDS[READERS[reader]]}, samples needed (by counting): {'; '.join(points)}")
    return lines


FIGURE = Figure(
    "global-bigrams", "Samples that one gradient step needs for a global bigram", "slides: global against in-context",
    "A trigger is followed by one token half of the time, otherwise by any other. The samples that one step from zero "
    "needs until that token is the arg max in 95% of all cases: in a feed-forward memory, which reads the trigger; in "
    "attention before it has learnt where to look, over the T - 1 noise tokens before the trigger, and over all T. "
    "Dashed: counted exactly, with no free constant.",
    PRESETS, cells, plot, fits, says,
    sees="A feed-forward memory needs a few samples at any N; attention over the tokens before a trigger needs in "
         "proportion to N.",
)  # fmt: skip


def judge(rows: Sequence[Values]) -> Judgement:
    """Of each reader the exponent and the constant that counting gives; and how many fewer samples the feed-forward
    memory needs at the largest N."""
    absent = not_found(rows, "samples", ("reader", "N"))
    if absent:
        return Judgement("samples by counting", absent, "no fit", False)
    by_reader = {reader: [r for r in rows if r["reader"] == reader] for reader in READERS}
    if not all(by_reader.values()):
        return Judgement("samples by counting", "not all readers were measured", "no fit", False)
    parts = []
    limits = {FEED_FORWARD: 0, ATTENTION: 1, TO_ALL: 0}
    for reader, group in by_reader.items():
        fit = fit_exponent(reader, *columns(group, vocabulary, samples))
        stated = fit_exponent("counted", *columns(group, vocabulary, law)).slope
        parts.append(
            Judgement(
                f"{reader}: ~ N^{stated:.2f} within {LAW_EXPONENT} (N^{limits[reader]} in the limit)",
                f"{reader}: exponent {fit.slope:.3f}", interval(fit), near(fit.interval, stated, LAW_EXPONENT),
            )
        )  # fmt: skip
        parts.append(judge_constant(group, law, samples, 1.0, LAW_TOLERANCE, f"{reader}: measured / counted"))
    return all_of(*parts, _fewer(by_reader))


def _fewer(by_reader: dict[str, list[Values]]) -> Judgement:
    largest = max(r["N"] for r in by_reader[ATTENTION])
    few, many = ({r["seed"]: r["samples"] for r in by_reader[reader] if r["N"] == largest} for reader in READERS[:2])
    ratios = [many[seed] / few[seed] for seed in sorted(few.keys() & many.keys())]
    low, high = found = mean_interval(ratios)
    words = f"attention needs {FAR_FEWER} times the samples or more at N = {largest}"
    return Judgement(words, f"{fmean(ratios):.1f} times", f"[{low:.1f}, {high:.1f}]", at_least(found, FAR_FEWER))


CLAIM = Claim(
    "global-bigrams", "slides: global against in-context",
    "One gradient step learns a global bigram in a feed-forward memory from a number of samples that does not grow "
    "with the vocabulary, and in attention over noise tokens from one that grows as N / (T - 1)^2: far more. Where the "
    "mean contains the trigger itself, attention needs few too.",
    lambda preset: cells(at_preset(PRESETS, preset)), judge,
    changed="A first law did not count that a sample may share two tokens with the prompt, and was a tenth too low at "
    "N = 64; that was seen on other seeds. Scores that are equal were told apart by rounding at first: that was seen "
    "on these seeds and settled on others, and all were computed again.",
)  # fmt: skip

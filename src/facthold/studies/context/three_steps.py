"""Three gradient steps that make an induction head: in the theorem's setting, and with each simplification taken away.

The population gradient of each step is estimated on ``samples`` fresh sequences. A probe is an arg max, so that it does
not depend on the size of its own step; the sizes of the steps before it bend the softmax that it sees.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from facthold._util.keys import derive
from facthold._util.memory import Parts, bytes_of
from facthold.lab import Cell, Figure, Result, Values, style
from facthold.lab.fields import Between, Count, Each, Positive, Seeds, Whole
from facthold.studies.context.base import symbol
from facthold.studies.judging import grouped

MATRICES = ("W_OV^2", "W_KQ^2", "W_KQ^1")  # in the order of the steps
STEPS = (1e3, 1e5, 1e6)
ENOUGH = 0.95  # a probe from here on is called recovered
CHARACTERS = 65  # of the shipped text
ASKED = 2048  # fresh sequences that the finished head is asked
Text = Annotated[float, Between(least=0, most=0.99)]  # below 1: every token can follow every other one


@dataclass(frozen=True, kw_only=True)
class ThreeSteps(Cell):
    """One step of gradient descent on each of W_OV^2, W_KQ^2 and W_KQ^1, and what they then recall."""

    kind: ClassVar[str] = "three-steps"
    counts_no_facts: ClassVar[str] = "what is asked stands in the prompt"

    N: Annotated[int, Between(least=3)] = CHARACTERS
    T: Annotated[int, Between(least=4)] = 16
    d: Whole = 0  # of random embeddings; 0: one-hot, which is infinitely wide
    samples: Count = 40_960
    eta: Annotated[tuple[float, float, float], Each(Positive)] = STEPS  # sizes of the steps, in their order
    text: Text = 0.0  # the share of the shipped text's bigrams in the distribution of other tokens; the rest is uniform
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.text and self.N != CHARACTERS:
            raise ValueError(f"N={self.N} does not fit text={self.text:g}: the text has {CHARACTERS} characters")

    @property
    def needed(self) -> Parts:
        return {
            f"N={self.N}": bytes_of(scores=4.0 * self.N * (self.N + (1 << 11))),
            f"T={self.T}": bytes_of(scores=4.0 * self.T * (self.T + (1 << 11))),
            f"d={self.d}": bytes_of(weights=8.0 * self.d**2),
        }

    @property
    def cost(self) -> float:
        return 2 + 3e-7 * self.samples * (self.T + self.N)

    def run(self) -> Result:
        import jax.numpy as jnp

        from facthold.context.bigrams import Bigrams
        from facthold.dynamics.three_steps import Setting, Steps, accuracy, three_steps

        key = derive("three steps", self.seed, self.N, self.T)
        one_hot = not self.d
        fixed = Setting.one_hot(self.N, self.T) if one_hot else Setting.random(self.N, self.T, self.d, key=key)
        even = np.full((self.N, self.N), 1 / self.N)
        mixed = (1 - self.text) * even + self.text * Bigrams.shipped().pi_b if self.text else even
        pi = jnp.asarray(mixed, jnp.float32)
        head = three_steps(fixed, Steps(*self.eta), self.samples, key=derive("three steps, samples", self.seed), pi=pi)
        tables = {name: np.asarray(table, np.float64) for name, table in head.tables(fixed).items()}
        return {
            "probes": {name: float(share) for name, share in head.probes(fixed).items()},
            "contrasts": {
                name: _contrast_before(table) if name == "W_KQ^1" else _contrast(table)
                for name, table in tables.items()
            },
            "accuracy": accuracy(head, fixed, ASKED, key=derive("three steps, asked", self.seed), pi=pi),
        }


def _contrast(table: np.ndarray) -> float:
    """What a table says of a token and itself, more than of two different ones."""
    N, own = len(table), np.trace(table)
    return float(own / N - (table.sum() - own) / (N * (N - 1)))


def _contrast_before(table: np.ndarray) -> float:
    """What W_KQ^1 says of a position and the one before it, more than of others up to itself; counted apart from
    theory's, so that a wrong index in one does not hide in both."""
    s = np.arange(1, len(table) - 1)  # positions that can hold an output
    own = table[s, s - 1]
    others = (np.tril(table).sum(axis=1)[s] - own) / s
    return float((own - others).mean())


@dataclass(frozen=True)
class Grid:
    """The simplified setting, and what is taken away from it, one thing at a time."""

    T: Count = 16
    samples: Count = 40_960
    widths: Annotated[tuple[int, ...], Each(Count)] = (8, 16, 32, 64, 128, 256, 512)
    fewer: Annotated[tuple[int, ...], Each(Count)] = (128, 256, 512, 1024, 2048, 4096, 8192, 16_384)
    lengths: Annotated[tuple[int, ...], Each(Count)] = (8, 32, 65, 97, 130, 260)
    texts: Annotated[tuple[float, ...], Each(Text)] = (0.25, 0.5, 0.75, 0.9, 0.99)
    seeds: Seeds = (0, 1, 2)


PRESETS = {
    "smoke": Grid(samples=2048, widths=(64,), fewer=(512,), lengths=(24,), texts=(0.5,), seeds=(0, 1)),
    "quick": Grid(),
    "paper": Grid(samples=163_840, widths=(8, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024),
                  lengths=(8, 32, 65, 97, 130, 260, 520), texts=(0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99),
                  seeds=(0, 1, 2, 3, 4)),
}  # fmt: skip


def cells(grid: Grid) -> list[Cell]:
    changes: list[dict[str, Any]] = [
        {}, *({"d": d} for d in grid.widths), *({"samples": n} for n in grid.fewer), *({"T": T} for T in grid.lengths),
        *({"text": text} for text in grid.texts),
    ]  # fmt: skip
    return [ThreeSteps.of(grid, seed=seed, **change) for change in changes for seed in grid.seeds]


class Axis(NamedTuple):
    """A simplification that is taken away."""

    title: str
    label: str
    value: Callable[[Values], float]
    falls: bool  # it is taken away as the value falls
    log: bool
    name: Callable[[Values], str]


AXES = {
    "d": Axis("finite width", "d (one-hot: not drawn)", lambda r: r["d"], True, True, lambda r: f"d = {r['d']}"),
    "samples": Axis("finite data", "sequences for each step", lambda r: r["samples"], True, True,
                    lambda r: f"{r['samples']:,} sequences"),
    "T": Axis("$T$ near $N$", "T / N", lambda r: r["T"] / r["N"], False, False,
              lambda r: f"T = {r['T']} = {r['T'] / r['N']:.2g} N"),
    "text": Axis("bigrams of a text", "share of the text's bigrams", lambda r: r["text"], False, False,
                 lambda r: f"a share of {r['text']:g}"),
}  # fmt: skip


def along(rows: Sequence[Values]) -> dict[str, list[list[Values]]]:
    """For each axis its rows by value, from the simplified setting outwards, which itself is the first; the other
    values are those that most rows have."""
    usual = {name: Counter(r[name] for r in rows).most_common(1)[0][0] for name in AXES}
    result = {}
    for name, axis in AXES.items():
        others = [other for other in AXES if other != name]
        line = [r for r in rows if all(r[other] == usual[other] for other in others) and (r["d"] or name != "d")]
        result[name] = list(grouped(line, lambda r, axis=axis: axis.value(r)).values())[:: -1 if axis.falls else 1]  # type: ignore[misc]
    return result


def plot(rows: Sequence[Values]) -> "style.Canvas":
    canvas, all_axes = style.panels(4, width=4.4, height=4.4)
    for axes, (name, line) in zip(all_axes, along(rows).items(), strict=True):
        axis = AXES[name]
        for i, matrix in enumerate(MATRICES):
            x = [axis.value(group[0]) for group in line]
            shares = [[r["probes"][matrix] for r in group] for group in line]
            mean = np.array([fmean(values) for values in shares])
            spread = [mean - [min(values) for values in shares], [max(values) for values in shares] - mean]
            look = style.mark(i) | {"markersize": 9 - 2 * i, "linewidth": 2.2 - 0.6 * i}  # all are seen where all are 1
            axes.errorbar(x, mean, yerr=spread, **look, capsize=3, label=symbol(matrix))
        axes.axhline(ENOUGH, **style.GUIDE, label=f"{ENOUGH:g}: recovered")
        axes.set(title=axis.title, xlabel=axis.label, ylim=(-0.02, 1.05))
        if axis.log:
            style.doubling(axes)
        style.frame(axes)
    all_axes[0].set_ylabel("probe after three steps")
    style.legend_below(canvas, all_axes[0], columns=4)
    return canvas


def says(rows: Sequence[Values]) -> list[str]:
    """Where it stops to work: the first value of each axis at which the mean of a probe is below `ENOUGH`."""
    lines = []
    T, n = (Counter(r[name] for r in rows).most_common(1)[0][0] for name in ("T", "samples"))
    if base := [r for r in rows if (r["d"], r["text"], r["T"], r["samples"]) == (0, 0, T, n)]:
        probes = ", ".join(f"{matrix} {fmean(r['probes'][matrix] for r in base):.3f}" for matrix in MATRICES)
        lines.append(
            f"one-hot, N = {base[0]['N']}, T = {T}, {n:,} sequences for each step: {probes}; predicts "
            f"{fmean(r['accuracy'] for r in base):.1%} of the outputs"
        )
    for name, line in along(rows).items():
        axis, words = AXES[name], []
        for matrix in MATRICES:
            means = [(axis.name(group[0]), fmean(r["probes"][matrix] for r in group)) for group in line]
            first = next(((at, mean) for at, mean in means if mean < ENOUGH), None)
            words.append(
                f"{matrix} first falls below {ENOUGH:g} at {first[0]} ({first[1]:.2f})"
                if first
                else f"{matrix} never does" + (f" (to {means[-1][0]})" if means else "")
            )
        if line:
            words.append(f"at {axis.name(line[-1][0])} it predicts {fmean(r['accuracy'] for r in line[-1]):.1%}")
        lines.append(f"{axis.title.replace('$', '')}: {', '.join(words)}")
    return lines


FIGURE = Figure(
    "three-steps", "Three gradient steps, with each simplification taken away",
    "slides: gradient steps for the bigram task",
    "Memory recall probes after one gradient step each on the three matrices of an induction head, against what the "
    "theorem simplifies: infinite width (one-hot embeddings; here N(0, 1/d)), infinite data, T well below N, and "
    "uniform tokens (here a mixture with the bigrams of tiny Shakespeare; trigger and output stay uniform). Means over "
    "seeds, bars from the smallest to the largest. The last position is not probed.",
    PRESETS, cells, plot, says=says,
    sees="Each simplification is needed up to a size: beyond it all three memories are right after one step each.",
)  # fmt: skip

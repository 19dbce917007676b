"""Truncation on the noisy task: the last feed-forward memory holds the noise token, attention the right output, so that
the model answers better without the former."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from facthold.lab import Cell, Claim, Figure, Judgement, Values, Verdict, at_least, at_most, cells_of, style
from facthold.lab.claim import Interval
from facthold.lab.fields import Count, Positive, Seeds
from facthold.measure.scaling import mean_interval
from facthold.studies.context.noisy import NoisyHead, at, changes
from facthold.studies.judging import all_of, grouped, seeds_at

LAST = "F^2"  # the slides: ablating late-layer MLPs changes the prediction from global to in-context
DROPPED, TENTH = 0.0, 0.1
MEMORY = ("F^2", "F.W^2", "F.V^2")
LEAST = 1e-3  # what counts as a change of a probability at all: rounding makes none of this size
PANELS = {
    "p_right": "probability of the right output", "p_noise": "probability of the noise token",
    "margin": "margin of the right output, in logits", "looks": "attention of layer 2 to outputs so far",
}  # fmt: skip
SIGNED = "margin"  # the only one that is no share
WORDS = {
    "F^2": "memory of layer 2, $F^2$", "F.W^2": "first matrix of $F^2$", "F.V^2": "second matrix of $F^2$",
    "F^1": "memory of layer 1, $F^1$", "F^1+F^2": "both memories", "W_OV^1": "output-value matrix of layer 1",
    "W_OV^2": "output-value matrix of layer 2", "W_KQ^2": "key-query matrix of layer 2",
}  # fmt: skip


@dataclass(frozen=True)
class Grid:
    """Models that are trained as by the public code; beside them some by Adam, from its start and from the slides'."""

    seeds: Seeds
    d: Count = 64
    T: Count = 256
    steps: Count = 800
    batch: Count = 32
    check_every: Count = 50
    lr: Positive = 0.3  # of plain gradient descent: what 0.03 with momentum 0.9 comes to
    adam: tuple[tuple[str, float], ...] = (("public", 1e-3), ("slides", 3e-3))  # starts, and learning rates
    adam_seeds: Seeds = (101,)


PRESETS = {
    "smoke": Grid(seeds_at("smoke", 2), d=16, T=24, steps=40, batch=8, check_every=20,
                  adam=(("slides", 3e-3),), adam_seeds=(0,)),
    "quick": Grid(seeds_at("quick", 3, first=101)),
    "paper": Grid(seeds_at("paper", 5, first=101), d=256, steps=5000, batch=512, adam_seeds=(101, 102, 103)),
}  # fmt: skip


def cells(grid: Grid) -> list[Cell]:
    adam = [
        NoisyHead.of(grid, seed=seed, optimiser="adam", lr=lr, decay=True, started=started, scaled=started == "public")
        for started, lr in grid.adam
        for seed in grid.adam_seeds
    ]
    return [*(NoisyHead.of(grid, seed=seed) for seed in grid.seeds), *adam]


def protocol(row: Values) -> str:
    """How it was trained, and from which start."""
    return ("gradient descent" if row["optimiser"] == "sgd" else "Adam") + f", {row['started']} start"


def sound(rows: Sequence[Values]) -> list[Values]:
    """Without runs that diverged."""
    return [row for row in rows if row["full"] is not None]


def plot(rows: Sequence[Values]) -> "style.Canvas":
    groups = sorted(grouped(sound(rows), protocol).items(), reverse=True)
    if not groups:
        return style.nothing("every run diverged")
    canvas, axes = style.panels(len(PANELS) * len(groups), width=4.6, height=3.9, rows=len(groups), squeeze=False)
    for i, (how, group) in enumerate(groups):
        shares = kept(group[0])
        for ax, (name, words) in zip(axes[i * len(PANELS) :], PANELS.items(), strict=False):
            for j, cut in enumerate(cut for cut in WORDS if cut in group[0]["cuts"]):
                curves = [[*(at(r, cut, share, name) for share in shares.values()), r["full"][name]] for r in group]
                means = [fmean(values) for values in zip(*curves, strict=True)]
                ax.plot(range(len(means)), means, **style.mark(j), markersize=4, linewidth=1.2, label=WORDS[cut])
                for curve in curves:
                    ax.plot(range(len(curve)), curve, color=style.COLOURS[j], linewidth=0, marker=".", alpha=0.4)
            ax.set(title=f"{words}\n{how}", xlabel=f"rank that is kept, of d = {group[0]['d']}")
            if name == SIGNED:
                ax.axhline(0, **style.GUIDE)
            else:
                ax.set_ylim(-0.02, 1.02)
            ax.set_xticks(range(len(shares) + 1), [*map(str, shares), "all"])
            style.frame(ax)
        even = fmean(r["full"]["looks_evenly"] for r in group)
        axes[(i + 1) * len(PANELS) - 1].axhline(even, **style.GUIDE, label="right: attention to all positions alike")
    style.legend_below(canvas, axes[len(PANELS) - 1], columns=5, title="what is truncated")
    return canvas


def kept(row: Values) -> dict[int, float]:
    """Each rank that is kept, and a share of d that gives it: where d is small, several do."""
    return dict(sorted((int(at(row, row["cuts"][0], share, "r")), share) for share in row["shares"]))


def says(rows: Sequence[Values]) -> list[str]:
    """The full model and each part that is dropped, memories also at a tenth of d; of Adam's the last memory alone."""
    lines = []
    for how, group in sorted(grouped(sound(rows), protocol).items(), reverse=True):
        full = {name: fmean(r["full"][name] for r in group) for name in ("p_right", "p_noise", "margin", "looks")}
        lines.append(f"{how}: " + _words("nothing truncated", full))
        if LAST in group[0]["cuts"] and DROPPED in group[0]["shares"]:
            each = ", ".join(f"{r['full']['p_right']:.1%} to {at(r, LAST, DROPPED, 'p_right'):.1%}" for r in group)
            lines.append(f"{how}: right, from nothing truncated to {LAST} dropped, by seed: {each}")
        told = group[0]["cuts"] if group[0]["optimiser"] == "sgd" else (LAST,)
        for cut, share in [(cut, DROPPED) for cut in told] + [(cut, TENTH) for cut in told if cut in MEMORY]:
            if share in group[0]["shares"]:
                found = {name: fmean(at(r, cut, share, name) for r in group) for name in full}
                r, saved = (int(at(group[0], cut, share, name)) for name in ("r", "saved"))
                what = f"{cut} at rank {r} ({saved:+,} parameters saved)" if r else f"{cut} dropped"
                lines.append(f"{how}: " + _words(what, found))
    return lines


def _words(what: str, found: Values) -> str:
    return (
        f"{what}: right {found['p_right']:.1%}, noise token {found['p_noise']:.1%}, margin {found['margin']:+.2f}, "
        f"attention to outputs {found['looks']:.1%}"
    )


def claim_cells(preset: str) -> list[Cell]:
    return [cell for cell in cells_of("truncation")(preset) if isinstance(cell, NoisyHead) and cell.optimiser == "sgd"]


def judge(rows: Sequence[Values]) -> Judgement:
    """Does the right output become likelier, and the noise token less so, in models without their last memory? By
    Student's interval of the difference over seeds."""
    predicted = f"without {LAST}: p(right) rises, p(noise token) falls"
    if len(sound(rows)) < len(rows):
        return Judgement(predicted, f"{len(rows) - len(sound(rows))} of {len(rows)} runs diverged", "no mean", False)
    right, noise = (mean_interval(changes(rows, LAST, DROPPED, name)) for name in ("p_right", "p_noise"))
    return all_of(
        _part("p(right) rises", "p_right", right, at_least(right, LEAST), rows),
        _part("p(noise token) falls", "p_noise", noise, at_most(noise, -LEAST), rows),
    )


def _part(words: str, name: str, interval: Interval, verdict: Verdict, rows: Sequence[Values]) -> Judgement:
    full, without = fmean(r["full"][name] for r in rows), fmean(at(r, LAST, DROPPED, name) for r in rows)
    error = f"difference 95% [{interval[0]:+.3f}, {interval[1]:+.3f}] over {len(rows)} seeds"
    return Judgement(
        f"without {LAST} {words}", f"{words.rpartition(' ')[0]} {full:.3f} to {without:.3f}", error, verdict
    )


FIGURE = Figure(
    "truncation", "Without its last feed-forward memory a model trained with noise answers better",
    "slides: global vs in-context associations (Chen, Bruna and Bietti 2024)",
    "One trigger; in training the noise token (the most frequent character that is no trigger) stands in place of its "
    "output half of the time, in the test never. Two layers, both with ReLU memories of width 4 d. Matrices are "
    "replaced by their best part of some rank, one at a time or two layers together, 0: dropped. F.W and F.V are the "
    "first and the second matrix of a memory. Points: seeds; lines: means. With one trigger the most frequent output "
    "so far is always right: what rises is the context's answer over the noise, and not induction over that rule.",
    PRESETS, cells, plot, says=says,
    sees="Where the last feed-forward memory is dropped, answers from the context rise and the noise token falls.",
)  # fmt: skip

CLAIMS = (
    Claim(
        "truncation", "slides: global vs in-context associations (Chen, Bruna and Bietti 2024)",
        "A model of two layers that is trained with noise after the trigger finds the right output more likely, and "
        "the noise token less, once the feed-forward memory of its last layer is dropped.",
        claim_cells, judge,
        "The start and the optimiser, after seeing one seed: with Adam and the start of the slides F^2 holds a part of "
        "the right output too, and without it both probabilities fall. With the sizes of the public code's start and "
        "gradient descent the statement was seen to hold. Then the steps, from 400 to 800: at T = 256 layer 2 of one "
        "more seed (100) did not yet look at the outputs. It is judged on seeds that took part in neither.",
    ),
)  # fmt: skip

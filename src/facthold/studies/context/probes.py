"""How wide an induction head must be: the probes of its memories and its accuracy over d, built, solved and trained."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from facthold.lab import Cell, Figure, Values, style
from facthold.lab.fields import Count, Counts, Positive, Seeds, Share
from facthold.measure.capacity import FOUND
from facthold.studies.context.base import MEMORIES, RECIPES, BuiltHead, symbol
from facthold.studies.context.heads import TRAINED, SmallestHead
from facthold.studies.context.induction import without_induction
from facthold.studies.judging import FRESH, grouped

OUTER, SOLVED = RECIPES
LOUD = "outer products, position 0 not silenced"
ONE = "outer products, embeddings of length 1"
SERIES = (OUTER, LOUD, ONE, SOLVED, TRAINED)


@dataclass(frozen=True)
class Grid:
    """Heads of outer products over d; and searches for the smallest d of each kind of head, from a guess each."""

    d: Counts = (64, 128, 192, 256, 384)
    outer_guess: Count = 192
    solved_guess: Count = 128
    trained_guess: Count = 128
    grain: Count = 32
    goal: Share = 0.99
    T: Count = 256
    K: Count = 5
    lr: Positive = 0.03  # this and what follows: of heads that are trained, as in figure induction
    steps: Count = 2400
    batch: Count = 32
    check_every: Count = 40
    seeds: Seeds = (FRESH, FRESH + 1, FRESH + 2)


PRESETS = {
    "smoke": Grid(
        d=(64,), outer_guess=32, solved_guess=32, trained_guess=32, grain=32, goal=0.1, T=24, steps=40, batch=8,
        check_every=20, seeds=(0,),
    ),
    "quick": Grid(),
    "paper": Grid(d=(64, 96, 128, 192, 256, 384, 512), grain=8, seeds=tuple(range(FRESH, FRESH + 5))),
}  # fmt: skip


def built_cells(grid: Grid, sizes: Sequence[int], *, silent: bool, length_one: bool = False) -> list[Cell]:
    """Heads of outer products: claims judge these too."""
    how: dict[str, Any] = {"T": grid.T, "K": grid.K, "silent_first": silent, "length_one": length_one}
    return [BuiltHead(d=d, seed=s, **how) for d in sizes for s in grid.seeds]


def searches(grid: Grid) -> list[Cell]:
    guesses = {OUTER: grid.outer_guess, SOLVED: grid.solved_guess, TRAINED: grid.trained_guess}
    return [
        SmallestHead.of(grid, recipe=recipe, guess=guess, silent_first=recipe != TRAINED, seed=seed)
        for recipe, guess in guesses.items()
        for seed in grid.seeds
    ]


def cells(grid: Grid) -> list[Cell]:
    built = [cell for silent in (True, False) for cell in built_cells(grid, grid.d, silent=silent)]
    return [*built, *built_cells(grid, grid.d, silent=True, length_one=True), *searches(grid)]


def points(rows: Sequence[Values]) -> dict[str, list[dict[str, Any]]]:
    """d, accuracy and probes of every head, by series. Those that a search tried are judged on its own sequences."""
    found: dict[str, list[dict[str, Any]]] = {label: [] for label in SERIES}
    for r in rows:
        if r["kind"] == SmallestHead.kind:
            found[r["recipe"]] += r["tried"]
        elif r["kind"] == BuiltHead.kind:
            label = ONE if r["length_one"] else OUTER if r["silent_first"] else LOUD
            found[label].append({name: r[name] for name in ("d", "accuracy", "probes")})
    return found


def plot(rows: Sequence[Values]) -> "style.Canvas":
    canvas, axes = style.panels(4, width=4.2, height=4.2)
    for i, (label, heads) in enumerate(points(rows).items()):
        by_d = grouped(heads, lambda head: head["d"])
        measures = [lambda head: 1 - head["accuracy"], *(lambda head, m=m: head["probes"][m] for m in MEMORIES)]
        for panel, measure in zip(axes, measures, strict=True):
            means = [(d, fmean(measure(head) for head in group)) for d, group in by_d.items()]
            look = {"markersize": 8 - 1.3 * i, "linestyle": (0, (4, 2)) if label == LOUD else "-"}  # many are at 1
            style.points(panel, means, i, label=label, **look)
            panel.plot([h["d"] for h in heads], [measure(h) for h in heads], ".", color=style.COLOURS[i], alpha=0.4)
    goal = next((r["goal"] for r in rows if r["kind"] == SmallestHead.kind), 0.99)
    axes[0].axhline(1 - goal, **style.GUIDE, label=f"left: goal of the searches, {goal:.0%} right")
    titles = ["outputs that the context tells", *(f"probe of {symbol(matrix)}" for matrix in MEMORIES)]
    for panel, title in zip(axes, titles, strict=True):
        panel.set(title=title, xlabel="d, embedding dimension")
        style.doubling(panel)
        style.frame(panel)
        if panel is axes[0]:
            panel.set(yscale="log", ylabel="share wrong")  # what matters is between 1 and 5%
            panel.yaxis.set_major_formatter(lambda share, _: f"{share:.3g}")
        else:
            panel.set_ylim(-0.03, 1.03)
    axes[1].set_ylabel("share of associations recalled")
    style.legend_below(canvas, axes[0], columns=5)
    return canvas


def says(rows: Sequence[Values]) -> list[str]:
    """The smallest d of each kind of head; then outer products over d."""
    lines = []
    found = [r for r in rows if r["kind"] == SmallestHead.kind]
    for recipe in (OUTER, SOLVED, TRAINED):
        group = [r for r in found if r["recipe"] == recipe]
        if not group:
            continue
        each = ", ".join(
            f"{r['size']} ({r['too_small'] or 'less'} is too small; {r['accuracy']:.1%} on other sequences)"
            if r["status"] == FOUND
            else r["status"]
            for r in group
        )
        lines.append(f"smallest d at {group[0]['goal']:.0%}, in steps of {group[0]['grain']}, {recipe}: {each}")
    for label, heads in points([r for r in rows if r["kind"] == BuiltHead.kind]).items():
        for d, group in grouped(heads, lambda head: head["d"]).items():
            each = ", ".join(f"{head['accuracy']:.1%}" for head in group)
            recalled = ", ".join(f"{matrix} {fmean(h['probes'][matrix] for h in group):.2f}" for matrix in MEMORIES)
            lines.append(f"{label}, d = {d}: {each} right; probes {recalled}")
    judged = [r for r in rows if r["kind"] == BuiltHead.kind]
    return [*lines, *([without_induction(judged)] if judged else [])]


FIGURE = Figure(
    "probes", "How wide an induction head must be", "slides: memory recall probes; beyond: solved heads",
    "Over the embedding dimension d: how many outputs in context a head of two layers predicts, and how many of its "
    "associations each of its matrices holds, by arg max. Outer products are the construction of the slides with an "
    "inverse temperature of 30; with position 0 silenced, attention writes nothing there; embeddings are N(0, 1/d), or "
    "scaled to length 1. Solved heads have each matrix by a convex problem of its own. Solved and trained points: what "
    "searches for the smallest d have tried.",
    PRESETS, cells, plot, says=says,
    sees="Every recall rises to 1 at some dimension: the smaller that is, the better the head uses its width.",
)  # fmt: skip

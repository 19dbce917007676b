"""Optimisers as memory schemes: the error over step sizes, batch sizes and dimensions, and the q(z) that came out."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Annotated

import numpy as np

from facthold.lab import Cell, Figure, Values, style
from facthold.lab.fields import Between, Count, Counts, Each, OneOf, Seeds
from facthold.memory import EMBEDDINGS
from facthold.memory.schemes import HeavyTailed
from facthold.studies.scaling.optimised import OPTIMISERS, TRAINED, Optimised, Rates

WORDS = {
    "sgd": "SGD", "adam-0": "Adam, betas 0", "adam": "Adam", "sign": "sign descent", "muon": "Muon",
}  # fmt: skip
LRS = (0.1, 0.56, 3.2, 18.0, 100.0)
DARK = -1.7  # log10 of the error above which the heat map is dark
SAMPLES = 102_400  # as in the public code: 100 batches of 1024


@dataclass(frozen=True)
class Grid:
    """The grid, and what is tried beside it at the largest d: other optimisers, embeddings that are trained too."""

    d: Counts
    lrs: Rates = LRS
    batch: Counts = (1, 4, 16, 64, 256, 1024)
    n: Count = SAMPLES
    optimisers: Annotated[tuple[str, ...], Each(Annotated[str, OneOf(OPTIMISERS)], distinct=True)] = ("sgd", "adam-0")
    norms: tuple[bool, ...] = (False, True)
    beside: tuple[str, ...] = ("sign", "muon", "adam")
    trained: tuple[str, ...] = TRAINED[1:]
    beside_batch: Count = 1024
    N: Count = 100
    M: Annotated[int, Between(least=2)] = 5
    alpha: Annotated[float, Between(least=0)] = 2.0
    embeddings: Annotated[str, OneOf(EMBEDDINGS)] = "gaussian"
    seeds: Seeds = tuple(range(20))


PRESETS = {
    "smoke": Grid(d=(6, 24), lrs=(0.5, 5.0), batch=(1, 16), n=256, beside=("muon",), trained=(), beside_batch=16, N=20,
                  M=4, seeds=(0, 1)),
    "quick": Grid(d=(25, 100), batch=(1, 16, 256, 1024), n=10_240, seeds=tuple(range(8))),
    "paper": Grid(d=(10, 16, 25, 40, 63, 100)),
}  # fmt: skip


def cells(grid: Grid) -> list[Cell]:
    largest = max(grid.d)
    return [
        *(
            Optimised.of(grid, d=d, optimiser=o, batch=b, norm=norm, trained="W")
            for norm in grid.norms for o in grid.optimisers for b in grid.batch for d in grid.d
        ),
        *(Optimised.of(grid, d=largest, optimiser=o, batch=grid.beside_batch, trained="W") for o in grid.beside),
        *(
            Optimised.of(grid, d=largest, optimiser=o, batch=grid.beside_batch, trained=t)
            for t in grid.trained for o in grid.optimisers
        ),
    ]  # fmt: skip


def name_of(r: Values) -> str:
    """'SGD, normalised', 'Adam, betas 0, embeddings alone'."""
    parts = {"W": "", "all": ", W and embeddings", "embeddings": ", embeddings alone"}
    return WORDS[r["optimiser"]] + (", normalised" if r["norm"] else "") + parts[r["trained"]]


def mean_errors(r: Values, look: int = -1) -> list[float | None]:
    """The mean error over seeds at a look, by learning rate; None where some seed diverged."""
    by_lr = zip(*r["errors"][look], strict=True)
    return [None if None in errors else fmean(errors) for errors in by_lr]


def final_q(r: Values, lr: float) -> np.ndarray | None:
    """The mean of q over seeds, over its largest; None where it is not unique, or was not measured."""
    q = r["q"][r["lrs"].index(lr)] if r.get("q") and lr in r["lrs"] else [None]
    return None if None in q else np.array(q) / max(q)


def plot(rows: Sequence[Values]) -> "style.Canvas":
    grid = [r for r in rows if r["trained"] == "W"]
    kinds = list(dict.fromkeys((r["optimiser"], r["norm"]) for r in grid if r["optimiser"] in ("sgd", "adam-0")))
    sizes = sorted({r["d"] for r in rows})
    shown = list(dict.fromkeys((sizes[len(sizes) // 3], sizes[-1])))
    n = max(1, len(kinds))
    canvas, axes = style.panels(2 * (n + 1), width=4.0, height=3.9, rows=2)
    for i, d in enumerate(shown):
        for k, kind in enumerate(kinds):
            _heat(axes[i * (n + 1) + k], [r for r in grid if (r["optimiser"], r["norm"]) == kind and r["d"] == d], d)
    _weights(axes[n], [r for r in grid if r["d"] == sizes[-1]])
    _along(axes[2 * n + 1], [r for r in grid if r["d"] == shown[0]])
    for unused in axes:
        if not unused.has_data():
            unused.set_axis_off()
    return canvas


def _heat(axes: "style.Axes", rows: Sequence[Values], d: int) -> None:
    """log10 of the error at the end, by step size and batch size."""
    if not rows:
        return
    by_batch = {r["batch"]: r for r in sorted(rows, key=lambda r: r["batch"])}
    lrs = sorted({lr for r in rows for lr in r["lrs"]})
    table = np.full((len(lrs), len(by_batch)), np.nan)
    for j, r in enumerate(by_batch.values()):
        for lr, error in zip(r["lrs"], mean_errors(r), strict=True):
            table[lrs.index(lr), j] = np.nan if error is None else np.log10(max(error, 1e-5))
    axes.imshow(table, origin="lower", aspect="auto", cmap="viridis_r", vmin=-4, vmax=0)
    for (i, j), value in np.ndenumerate(table):
        words = "diverged" if np.isnan(value) else "<1e-5" if value <= -5 else f"{10**value:.2g}"
        axes.text(j, i, words, ha="center", va="center", fontsize=7, color="white" if value > DARK else "black")
    axes.set_xticks(range(len(by_batch)), [f"{b}" for b in by_batch])
    axes.set_yticks(range(len(lrs)), [f"{lr:g}" for lr in lrs])
    axes.set(title=f"error, {name_of(rows[0])}, d = {d}", xlabel="batch size", ylabel="learning rate")


def _weights(axes: "style.Axes", rows: Sequence[Values]) -> None:
    """q(z) against p(z), of settings that differ most."""
    if not rows:
        return
    first = rows[0]
    p = HeavyTailed(first["N"], first["M"], first["alpha"]).p
    lrs, batches = sorted(first["lrs"]), sorted({r["batch"] for r in rows})
    wanted = [("sgd", batches[-1], lrs[0]), ("sgd", batches[-1], lrs[-1]), ("sgd", batches[0], lrs[0]),
              ("sgd", batches[0], lrs[-2:][0]), ("muon", batches[-1], lrs[:2][-1])]  # fmt: skip
    for i, (optimiser, batch, lr) in enumerate(dict.fromkeys(wanted)):  # of one learning rate some are the same
        for r in rows:
            if (r["optimiser"], r["batch"], r["norm"]) == (optimiser, batch, False):
                q = final_q(r, lr)
                if q is not None:
                    label = f"{WORDS[optimiser]}, batch {batch}, lr {lr:g}"
                    positive = [(a, b) for a, b in zip(p, q, strict=True) if b > 0]
                    style.points(axes, positive, i, markersize=3, linestyle="none", label=label)
    style.guide(axes, p, p / p.max(), "q = p")
    _decades(axes, f"the scheme that came out, d = {first['d']}", "p(z)", "q(z) / largest q")
    axes.set_ylim(1e-4, 50)
    style.legend(axes, fontsize=7, loc="upper left", ncols=2)


def _along(axes: "style.Axes", rows: Sequence[Values]) -> None:
    """The error along training with the smallest batch, by step size."""
    alike = [r for r in rows if r["optimiser"] == "sgd" and not r["norm"]]
    if not alike:
        return
    r = min(alike, key=lambda r: r["batch"])
    for i, lr in enumerate(r["lrs"]):
        means = [(n, mean_errors(r, look)[i]) for look, n in enumerate(r["looked"])]
        style.points(axes, [(n, e) for n, e in means if e], i, label=f"lr {lr:g}")
    _decades(axes, f"SGD, batch {r['batch']}, d = {r['d']}", "samples", "error")
    style.legend(axes)


def _decades(axes: "style.Axes", title: str, x: str, y: str) -> None:
    """Both axes logarithmic, with a number at each decade: these panels are too narrow for more."""
    axes.set(xscale="log", yscale="log", title=title, xlabel=x, ylabel=y)
    left, right = axes.get_xlim()
    if right < 10 * left:  # there may be no decade in it
        style.loglog(axes, title, x, y)
    style.frame(axes)


def says(rows: Sequence[Values]) -> list[str]:
    """Of each kind, at each d: the best setting, and errors at the smallest step with the largest batch."""
    lines = []
    kinds = dict.fromkeys((name_of(r), r["d"]) for r in rows)
    for name, d in kinds:
        ours = [r for r in rows if (name_of(r), r["d"]) == (name, d)]
        found = [
            (e, lr, r["batch"]) for r in ours for e, lr in zip(mean_errors(r), r["lrs"], strict=True) if e is not None
        ]
        if not found:
            continue
        error, lr, batch = min(found)
        last = max(ours, key=lambda r: r["batch"])
        small = mean_errors(last)[0]
        words = "diverged" if small is None else f"{small:.4f}"
        lines.append(
            f"{name}, d = {d}: least error {error:.2g} at lr {lr:g}, batch {batch}; "
            f"{words} at lr {last['lrs'][0]:g}, batch {last['batch']}; after {last['looked'][-1]:,} samples"
        )
    read = [r for r in rows if r["trained"] == "all" and r.get("rho")]
    return lines + [
        f"{name_of(r)}, d = {r['d']}, batch {r['batch']}: q as p^rho, rho by lr (none: not all above 0): {_powers(r)}"
        for r in read
    ]


def _powers(r: Values) -> str:
    """The mean of rho over seeds by learning rate; none where q was not above zero, or not unique, for some seed."""
    by_lr = zip(r["lrs"], zip(*r["rho"], strict=True), strict=True)
    return ", ".join(f"{'none' if None in rho else format(fmean(rho), '.2f')} at {lr:g}" for lr, rho in by_lr)


FIGURE = Figure(
    "optimisers", "Optimisers as memory schemes", "slides: scaling laws with optimization algorithms",
    "W trained on the cross entropy of samples of p(z) ~ z^-alpha, each seen once, in order; y = z mod M. Numbers: the "
    "probability of what is recalled wrongly at the end, exactly over all tokens, a mean over seeds. Adam with both "
    "betas 0 steps by lr/d, as in the public code; normalised: W e has norm one before it is read. Upper right: the "
    "weights q(z) of W as a sum of outer products, over the largest; dashed, q = p. Lower right: along training.",
    PRESETS, cells, plot, says=says,
    sees="Where each optimiser's error is least, over step sizes and batches, and how its weights q(z) follow the "
         "frequencies.",
)  # fmt: skip

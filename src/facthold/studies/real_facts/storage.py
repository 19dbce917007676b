"""Where are facts stored when attention and MLP could both hold them? One layer, trained and built."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Canvas

from facthold.lab import style
from facthold.lab.cells import Cell
from facthold.lab.figure import Figure, Values
from facthold.measure.scaling import Fit
from facthold.studies.real_facts.storage_cell import READOUT, TRAINED, Storage
from facthold.studies.transformers.fact_capacity import shape_of

PATHS = {"direct": "attention's direct path", "mlp": "the MLP"}


@dataclass(frozen=True)
class Grid:
    """A table, the shapes that are trained on it, and the sizes of what is built for it."""

    S: int
    R: int
    D: int
    n_params: int
    """Parameters of each trained model, about."""
    shapes: tuple[tuple[float, float], ...]
    """(alpha, beta): H d_h = alpha d and m = beta d, up to rounding."""
    H: int = 8
    protocol: str = "transformer-short"
    values: int = 0
    """d; 0 leaves it out, as for all that follow."""
    attention: tuple[int, int, int] = (0, 0, 0)
    """d, d_h, tokens a head."""
    attention_mlp: tuple[int, int, int] = (0, 0, 0)
    """d, m, tokens a group of heads."""
    selected: tuple[int, int] = (0, 0)
    """d, m."""
    readout: int = 1
    """0 leaves it out."""
    n_seeds: int = 3


_shapes = ((2.0, 0.0), (2.0, 1.0), (1.0, 1.0), (1.0, 2.0), (1.0, 4.0), (0.5, 4.0), (0.5, 8.0))
PRESETS = {
    "smoke": Grid(S=4, R=4, D=2, n_params=600, shapes=((2.0, 0.0), (1.0, 2.0)), H=2, protocol="transformer-smoke",
                  values=16, selected=(12, 16), readout=0, n_seeds=1),
    # Below figure 4's capacity, so that every shape learns (nearly) all of it.
    "quick": Grid(S=16, R=16, D=8, n_params=6000, shapes=_shapes, values=32, attention=(1024, 512, 4),
                  attention_mlp=(385, 2048, 4), selected=(20, 64)),
    "paper": Grid(S=32, R=32, D=8, n_params=20_000, shapes=_shapes, protocol="transformer-code", values=64,
                  attention=(2048, 512, 4), attention_mlp=(769, 8192, 8), selected=(32, 256), n_seeds=5),
}  # fmt: skip


def cells(grid: Grid) -> list[Cell]:
    table: dict[str, Any] = {"S": grid.S, "R": grid.R, "D": grid.D}
    sizes: list[dict[str, Any]] = [
        {"model": TRAINED, "protocol": grid.protocol} | shape_of(alpha, beta, grid.n_params, grid.H)
        for alpha, beta in grid.shapes
    ]
    d, d_h, per_head = grid.attention
    d_mlp, m_mlp, per_group = grid.attention_mlp
    built: list[dict[str, Any]] = [
        {"model": "attention", "d": d, "d_h": d_h, "per_head": per_head},
        {"model": "values", "d": grid.values},
        {"model": "attention-mlp", "d": d_mlp, "m": m_mlp, "per_head": per_group},
        {"model": "selected", "d": grid.selected[0], "m": grid.selected[1]},
    ]
    sizes += [size for size in built if size["d"]] + ([{"model": READOUT}] if grid.readout else [])
    return [Storage(**table, **size, seed=seed) for size in sizes for seed in range(grid.n_seeds)]


def plot(rows: Sequence[Values]) -> Canvas:
    groups = _groups(rows)
    canvas = Canvas(figsize=(13, 1.9 + 0.48 * len(groups)), layout="constrained")
    left, right = canvas.subplots(1, 2, sharey=True)
    y = np.arange(len(groups))[::-1]
    for axes, field, title, x in (
        (left, "share", "What holds the margin of the right answer", "share of the mean margin"),
        (right, "without", "What the model cannot do without", "share of facts whose answer changes without it"),
    ):
        for i, (path, name) in enumerate(PATHS.items()):
            values = [[r[path][field] for r in group] for group in groups.values()]
            mean = np.array([fmean(v) for v in values])
            spread = [mean - [min(v) for v in values], np.array([max(v) for v in values]) - mean]
            place = y + 0.18 - 0.36 * i
            axes.barh(place, mean, height=0.34, color=style.COLOURS[i], label=name, zorder=2)
            axes.errorbar(mean, place, xerr=spread, fmt="none", ecolor="#333333", capsize=2, linewidth=0.9, zorder=3)
            if field == "share":
                ends = [[fmean(r[path][end] for r in group) for group in groups.values()] for end in ("low", "high")]
                few = "10% to 90% of the facts, by their own shares" if i == 0 else None
                axes.hlines(place, *ends, color="#888888", linewidth=2.5, alpha=0.6, zorder=2.5, label=few)
        axes.axvline(0, color="#777777", linewidth=0.8)
        axes.set(title=title, xlabel=x, ylim=(-0.6, len(groups) - 0.4))
        axes.grid(True, axis="x", alpha=0.25, linewidth=0.6, zorder=0)
        axes.spines[["top", "right"]].set_visible(False)
    part = [fmean(r["mlp_params"] / r["n_params"] for r in group) for group in groups.values()]
    left.plot(part, y, "kD", markersize=5, zorder=4, label="MLP's share of the parameters")
    left.set_yticks(y, [f"{name}\n{_about(group)}" for name, group in groups.items()], fontsize=8)
    handles, labels = left.get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    if rows:
        first = rows[0]
        n = len({r["seed"] for r in rows})
        canvas.suptitle(
            f"S={first['S']}, R={first['R']}, D={first['D']}; mean over {n} seed{'s' * (n > 1)}, thin lines: from the "
            f"smallest to the largest{_left_out(rows)}", fontsize=10,
        )  # fmt: skip
    return canvas


def _groups(rows: Sequence[Values]) -> dict[str, list[Values]]:
    """Rows that differ in their seed alone; those that know nothing are left out.

    Trained ones come first, and each kind by the MLP's share of the parameters, in whatever order rows are stored.
    """
    known = [r for r in rows if r["accuracy"]]
    groups: dict[str, list[Values]] = {}
    for r in sorted(known, key=lambda r: (r["model"] != TRAINED, r["mlp_params"] / r["n_params"], _name(r))):
        groups.setdefault(_name(r), []).append(r)
    return groups


def _left_out(rows: Sequence[Values]) -> str:
    n = sum(not r["accuracy"] for r in rows)
    return f"; {n} of {len(rows)} models know no fact" if n else ""


def _name(r: Values) -> str:
    if r["model"] != TRAINED:
        return f"built: {r['model']}"
    Hd_h, d = r["H"] * r["d_h"], r["d"]
    return rf"trained: $d={d}$, $\alpha={Hd_h / d:.2g}$, $\beta={r['m'] / d:.2g}$"


def _about(group: Sequence[Values]) -> str:
    """Of a readout the seeds differ in size."""
    return f"{fmean(r['n_params'] for r in group):,.0f} parameters, {fmean(r['accuracy'] for r in group):.1%} of facts"


def fits(rows: Sequence[Values]) -> list[Fit]:
    """Nothing is fitted here."""
    return []


FIGURE = Figure(
    name="storage",
    title="Where facts are stored: attention's direct path and the MLP",
    place="beyond the paper: the last question of its discussion, for one layer",
    caption=(
        "Left: the margin of the right answer over its best rival is the sum of what the heads write to the output "
        "directly and of what the MLP adds; bars are each part's mean over the mean margin, for the facts that are "
        "recalled, and a part above 1 makes up for another that works against the answer; grey lines are 10% to 90% "
        "of the facts. Diamonds: the MLP's share of the parameters. Right: the share of these facts whose answer "
        "changes when the path is left out. Both paths read the same heads, so that a fact in the MLP still needs "
        "attention to find its subject and relation. "
        "Trained models have about the same number of parameters and differ in alpha = H d_h / d and beta = m / d."
    ),
    presets=PRESETS,
    cells=cells,
    plot=plot,
    fits=fits,
)

"""Figure 4, right: attention and MLP parameters can stand in for each other, down to a floor of attention."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
from matplotlib.figure import Figure as Canvas

from facthold.lab import style
from facthold.lab.cells import Cell
from facthold.lab.figure import Figure, Values
from facthold.measure.scaling import Fit
from facthold.studies.transformers.fact_accuracy import FactAccuracy
from facthold.train.protocols import protocol as find_protocol


@dataclass(frozen=True)
class Grid:
    """Heads and widths at one embedding dimension."""

    H: tuple[int, ...]
    m: tuple[int, ...]
    d: int = 32
    d_h: int = 8
    S: int = 32
    R: int = 32
    D: int = 8
    variant: str = "code"
    protocol: str = "transformer-code"
    lrs: tuple[float, ...] = (1e-2,)


PRESETS = {
    "smoke": Grid(H=(1, 4), m=(1, 16), d=8, d_h=4, S=8, R=8, protocol="transformer-smoke"),
    "quick": Grid(H=(1, 2, 4, 8, 16, 32), m=(1, 8, 16, 32, 64, 128), protocol="transformer-short"),
    "paper": Grid(
        H=(1, 2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32), m=(1, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128)
    ),
}


def cells(grid: Grid) -> list[Cell]:
    accuracy = partial(
        FactAccuracy, d=grid.d, d_h=grid.d_h, S=grid.S, R=grid.R, D=grid.D, variant=grid.variant,
        protocol=grid.protocol, lrs=grid.lrs,
    )  # fmt: skip
    return [accuracy(H=H, m=m) for H, m in product(grid.H, grid.m)]


def plot(rows: Sequence[Values]) -> Canvas:
    canvas, (axes,) = style.panels(1, width=7.4, height=5.4)
    attention = sorted({r["attention_params"] for r in rows})
    mlp = sorted({r["mlp_params"] for r in rows})
    accuracy = np.full((len(mlp), len(attention)), np.nan)
    for r in rows:
        accuracy[mlp.index(r["mlp_params"]), attention.index(r["attention_params"])] = r["accuracy"]
    mesh = axes.pcolormesh(_edges(attention), _edges(mlp), accuracy, cmap="viridis", vmin=0, vmax=1)
    canvas.colorbar(mesh, ax=axes, label="accuracy over all facts, best during training")
    for r in rows:
        light = r["accuracy"] < 0.6
        axes.text(
            r["attention_params"], r["mlp_params"], f"{r['accuracy']:.2f}", ha="center", va="center",
            fontsize=6.5 if len(rows) < 60 else 4.5, color="white" if light else "black",
        )  # fmt: skip
    first = rows[0]
    table = f"S={first['S']}, R={first['R']}, D={first['D']}, d={first['d']}, $d_h$={first['d_h']}"
    steps, lrs = find_protocol(first["protocol"]).steps, "/".join(f"{lr:g}" for lr in first["lrs"])
    title = f"{table}\n({first['protocol']}: {steps} steps, lr {lrs}, one seed)"
    style.loglog(axes, title, "attention parameters $4 H d\\, d_h$", "MLP parameters $2 m d$")
    axes.grid(False)
    x, y = axes.get_xlim(), axes.get_ylim()
    floor = 4 * first["d"] * (first["S"] + first["R"])
    axes.axvline(floor, color="white", linestyle=":", linewidth=1.8, label=r"floor: $H d_h = S + R$")
    total = smallest_total(rows)
    if total is not None:
        along = np.geomspace(x[0], min(total * 0.999, x[1]), 200)
        axes.plot(along, total - along, color="#d1622b", linewidth=1.6,
                  label=f"{total} parameters in all, the fewest with 99%")  # fmt: skip
    axes.set(xlim=x, ylim=y)
    axes.legend(loc="lower left", fontsize=7.5, framealpha=0.85, facecolor="#555555", labelcolor="white")
    return canvas


def smallest_total(rows: Sequence[Values]) -> int | None:
    """The fewest parameters, attention and MLP together, that reach 99%."""
    return min((r["n_params"] for r in rows if r["accuracy"] >= 0.99), default=None)


def _edges(values: Sequence[float]) -> np.ndarray:
    """Borders half-way between neighbours, in the logarithm."""
    if len(values) == 1:
        return np.array([values[0] / 2, values[0] * 2])
    logs = np.log(values)
    middle = (logs[1:] + logs[:-1]) / 2
    return np.exp(np.concatenate([[2 * logs[0] - middle[0]], middle, [2 * logs[-1] - middle[-1]]]))


def fits(rows: Sequence[Values]) -> list[Fit]:
    """Nothing is fitted here."""
    return []


FIGURE = Figure(
    name="heatmap",
    title="Attention and MLP parameters stand in for each other",
    place="figure 4, right",
    caption=(
        "Accuracy over all S R facts, for attention parameters 4 H d d_h (across) and MLP parameters 2 m d (up). "
        "On the drawn curve the total is constant; left of the dotted line the heads have fewer dimensions than there "
        "are subjects and relations. The authors' axes leave out the factors 4 and 2."
    ),
    presets=PRESETS,
    cells=cells,
    plot=plot,
    fits=fits,
)

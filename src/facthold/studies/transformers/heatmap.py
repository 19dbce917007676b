"""Figure 4, right: how much of one table transformers of many sizes learn, and how wide the MLP must be for all of it.

Attention and MLP parameters stand in for each other, down to a floor of attention.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from operator import itemgetter
from typing import Annotated, Any, ClassVar

import numpy as np

from facthold.lab import Account, Figure, Result, Values, style
from facthold.lab.fields import Between, Count, Counts, ProtocolName
from facthold.models.sizes import Shape
from facthold.studies.judging import grouped, n_params
from facthold.studies.smallest import SizeSearch, Trial
from facthold.studies.transformers.fact_capacity import FactAccuracy, OneTable, in_words
from facthold.theory.limits_facts import no_bound
from facthold.train.protocols import Protocol, protocol

GOAL = 0.99
WIDEST = 16  # a search ends at so many times its guess


@dataclass(frozen=True, kw_only=True)
class FactWidth(OneTable, SizeSearch):
    """The smallest m at which a transformer with these heads learns S R facts: a point of the heat map's border."""

    kind: ClassVar[str] = "fact-width"

    guess: Count = 16
    tolerance: Annotated[float, Between(least=0)] = 0.25

    @property
    def training(self) -> Protocol:
        return replace(protocol(self.protocol), goal=self.goal)

    @property
    def sizes(self) -> Shape:
        """At the guess."""
        return Shape(self.d, self.H, self.d_h, self.guess)

    @property
    def cost(self) -> float:
        """About four widths, each as long as two full-length runs."""
        return 8 * self.seconds(self.S, self.R, self.D)

    def run(self) -> Result:
        from facthold.train.race import reached

        def trial(m: int) -> Trial:
            run, mlp_params = self.best(m).run, self.mlp_params(m)
            accuracy = 0.0 if run.status == "diverged" else reached(run)
            return Trial(accuracy, {"n_params": self.attention_params + mlp_params, "mlp_params": mlp_params})

        found = self.search(trial, self.guess, ceiling=WIDEST * self.guess, tolerance=self.tolerance)
        return {"mlp_params": None, "attention_params": self.attention_params} | found

    def accounts(self, result: Mapping[str, Any]) -> list[Account] | str:
        return no_bound(self.table) or super().accounts(result)


@dataclass(frozen=True)
class HeatmapGrid:
    """Heads and widths at one embedding dimension; all else as in `FactAccuracy`."""

    H: Counts
    m: tuple[int, ...]
    d: Count = 32
    d_h: Count = 8
    S: Count = 32
    R: Count = 32
    D: Count = 8
    variant: str = "code"
    protocol: ProtocolName = "transformer-code"
    lrs: tuple[float, ...] = (1e-2,)


HEATMAP = {
    "smoke": HeatmapGrid(H=(1, 4), m=(1, 16), d=8, d_h=4, S=8, R=8, protocol="transformer-smoke"),
    "quick": HeatmapGrid(H=(1, 2, 4, 8, 16, 32), m=(1, 8, 16, 32, 64, 128), protocol="transformer-short"),
    "paper": HeatmapGrid(
        H=(1, 2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32), m=(1, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128)
    ),
}


def plot_heatmap(rows: Sequence[Values]) -> "style.Canvas":
    canvas, (axes,) = style.panels(1, width=7.4, height=5.4)
    attention, mlp = (sorted({r[name] for r in rows}) for name in ("attention_params", "mlp_params"))
    accuracy = np.full((len(mlp), len(attention)), np.nan)
    for r in rows:
        accuracy[mlp.index(r["mlp_params"]), attention.index(r["attention_params"])] = r["accuracy"]
    mesh = axes.pcolormesh(_edges(attention), _edges(mlp), accuracy, cmap="viridis", vmin=0, vmax=1)
    canvas.colorbar(mesh, ax=axes, label="accuracy over all facts, best during training")
    for r in rows:
        colour = "white" if r["accuracy"] < 0.6 else "black"
        axes.text(r["attention_params"], r["mlp_params"], f"{r['accuracy']:.2f}", ha="center", va="center",
                  fontsize=6.5 if len(rows) < 60 else 4.5, color=colour)  # fmt: skip
    first = rows[0]
    table = f"S={first['S']}, R={first['R']}, D={first['D']}, d={first['d']}, $d_h$={first['d_h']}"
    title = f"{table}\n({in_words(first['protocol'], first['lrs'])}, one seed)"
    style.loglog(axes, title, "attention parameters $4 H d\\, d_h$", "MLP parameters $2 m d$")
    axes.grid(False)
    x, y = axes.get_xlim(), axes.get_ylim()
    floor = 4 * first["d"] * (first["S"] + first["R"])
    axes.axvline(floor, color="white", linestyle=":", linewidth=1.8, label=r"floor: $H d_h = S + R$")
    if total := min((r["n_params"] for r in rows if r["accuracy"] >= GOAL), default=None):
        along = np.geomspace(x[0], min(total * 0.999, x[1]), 200)
        axes.plot(along, total - along, color="#d1622b", linewidth=1.6,
                  label=f"{total} parameters in all, the fewest with 99%")  # fmt: skip
    axes.set(xlim=x, ylim=y)
    axes.legend(loc="lower left", fontsize=7.5, framealpha=0.85, facecolor="#555555", labelcolor="white")
    return canvas


def says_heatmap(rows: Sequence[Values]) -> list[str]:
    """The fewest parameters that are enough, and for each attention what the largest MLP reaches."""
    first = rows[0]
    lines = ["S={S}, R={R}, D={D}, d={d}, d_h={d_h}".format(**first) + f": one seed, {len(rows)} models"]
    enough = [r for r in rows if r["accuracy"] >= GOAL]
    if enough:
        least = min(enough, key=n_params)
        lines.append(
            f"fewest parameters with {GOAL:.0%}: {least['n_params']:,} (H={least['H']}, m={least['m']}), "
            f"{least['accuracy'] * least['S'] * least['R'] / least['n_params']:.3f} recalled facts per parameter"
        )
    for H, ours in grouped(rows, itemgetter("H")).items():
        widest = max(ours, key=itemgetter("m"))
        narrowest = min((r["m"] for r in ours if r["accuracy"] >= GOAL), default=None)
        reach = "no m tried reaches" if narrowest is None else f"m={narrowest} or more reaches"
        lines.append(
            f"H d_h = {H * first['d_h']} for S + R = {first['S'] + first['R']}: {reach} {GOAL:.0%}; "
            f"{widest['accuracy']:.3f} at m={widest['m']}"
        )
    return lines


def _edges(values: Sequence[float]) -> np.ndarray:
    """Borders half-way between neighbours, in the logarithm."""
    if len(values) == 1:
        return np.array([values[0] / 2, values[0] * 2])
    middle = np.sqrt(np.multiply(values[1:], values[:-1], dtype=float))
    return np.array([values[0] ** 2 / middle[0], *middle, values[-1] ** 2 / middle[-1]])


HEATMAP_FIGURE = Figure(
    "heatmap", "Attention and MLP parameters stand in for each other", "figure 4, right",
    "Accuracy over all S R facts, for attention parameters 4 H d d_h (across) and MLP parameters 2 m d (up). On the "
    "drawn curve the total is constant; left of the dotted line the heads have fewer dimensions than there are "
    "subjects and relations. The authors' axes leave out the factors 4 and 2.",
    HEATMAP, lambda grid: [FactAccuracy.of(grid, H=H, m=m) for H, m in product(grid.H, grid.m)], plot_heatmap,
    says=says_heatmap,
    sees="Along the drawn curve, where the total is constant, accuracy stays about the same: one kind of parameter "
         "stands in for the other.",
    differs="The authors' axes leave out the factors 4 and 2 of the parameters; ours have them.",
)  # fmt: skip

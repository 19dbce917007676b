"""Where one-layer models of one table hold its facts when attention and MLP could both: by training and by building.

One table per seed, one size of it and one protocol: what is seen of these models, and no answer for transformers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from facthold._util.errors import check_positive
from facthold.lab import Cell, Figure, Result, Values, style
from facthold.lab.fields import Count, OneOf, Whole
from facthold.recipes import fact_recipe
from facthold.recipes.base import Made
from facthold.studies.constructions.built import built, constructions
from facthold.studies.real_facts.base import GATED, TRAINED, ModelCell, ModelGrid

if TYPE_CHECKING:
    from facthold.knowledge.locate import Located

LOW, HIGH = 0.1, 0.9  # quantiles over facts that are given beside a mean
PATHS = {"direct": "attention's direct path", "mlp": "the MLP"}


@dataclass(frozen=True, kw_only=True)
class Storage(ModelCell):
    """Where one model of a random table holds its facts: margins taken apart, and each path left out in turn."""

    kind: ClassVar[str] = "storage"

    model: Annotated[str, OneOf(lambda: (TRAINED, GATED, *constructions()))]
    S: Count = 16
    R: Count = 16
    D: Count = 8
    per_head: Whole = 0  # tokens per head, for a construction

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model not in (TRAINED, GATED):
            size = fact_recipe(self.model).size
            check_positive(**{"d": self.d, size: getattr(self, size)})

    def make(self) -> Made | None:
        """The model and its problem; None where training diverged."""
        table = self.facts(self.seed)
        if self.model in (TRAINED, GATED):
            return self.trained(table) if self.model == TRAINED else self.gated(table)
        return built(self.model, table, self.seed, d=self.d, d_h=self.d_h, m=self.m, per_head=self.per_head)

    def run(self) -> Result:
        from facthold.knowledge.locate import locate_all
        from facthold.knowledge.model import Model

        made = self.make()
        if made is None:
            return {"status": "diverged", "accuracy": None}
        model = made.model
        mlp = 2 * model.m * model.d
        sizes = {"n_params": model.n_params, "mlp_params": mlp, "attention_params": model.n_params - mlp}
        return {"status": "found", **sizes, **shares(locate_all(Model(model, made.problem)))}


def shares(located: "Located") -> Result:
    """How much the direct path and the MLP hold of the facts that are recalled.

    A share is the path's mean part of the margin over the mean margin: facts with a margin near zero, whose own shares
    mean little, count little. It may be above 1, where the other path works against the answer. ``without`` is the
    share of these facts whose answer changes when the path is left out.
    """
    from facthold.knowledge.locate import DIRECT, MLP

    known = located.margin > 0
    direct, margin = located.direct.sum(axis=1)[known], located.margin[known]
    result: Result = {"accuracy": float(known.mean())}
    for name, path, part in (("direct", DIRECT, direct), ("mlp", MLP, located.mlp[known])):
        if not known.any():
            result[name] = dict.fromkeys(("share", "low", "high", "without"))
            continue
        low, high = np.quantile(part / margin, [LOW, HIGH]).tolist()
        # Attention alone is its direct path: without it there is no answer, and there is no MLP to leave out.
        there = path in located.components
        changed = located.changed[known, located.components.index(path)] if there else np.array(path == DIRECT)
        share, without = float(part.sum() / margin.sum()), float(changed.mean())
        result[name] = {"share": share, "low": low, "high": high, "without": without}
    return result


@dataclass(frozen=True, kw_only=True)
class Grid(ModelGrid):
    """And what is built for the table."""

    built: tuple[tuple[str, int, int, int, int], ...]  # (recipe, d, d_h, m, tokens per head); 0: it takes no such size


_shapes = ((2.0, 0.0), (2.0, 1.0), (1.0, 1.0), (1.0, 2.0), (1.0, 4.0), (0.5, 4.0), (0.5, 8.0))
_gated = (GATED, 0, 0, 0, 0)
PRESETS = {
    "smoke": Grid(S=4, R=4, D=2, n_params=600, shapes=((2.0, 0.0), (1.0, 2.0)), H=2, protocol="transformer-smoke",
                  built=(("values", 16, 0, 0, 0), ("selected", 12, 0, 16, 0))),
    # Below figure 4's capacity, so that every shape learns (nearly) all of it.
    "quick": Grid(S=16, R=16, D=8, n_params=6000, shapes=_shapes, n_seeds=3,
                  built=(("attention", 1024, 512, 0, 4), ("values", 32, 0, 0, 0), ("attention-mlp", 385, 0, 2048, 4),
                         ("selected", 20, 0, 64, 0), _gated)),
    "paper": Grid(S=32, R=32, D=8, n_params=20_000, shapes=_shapes, protocol="transformer-code", n_seeds=5,
                  built=(("attention", 2048, 512, 0, 4), ("values", 64, 0, 0, 0), ("attention-mlp", 769, 0, 8192, 8),
                         ("selected", 32, 0, 256, 0), _gated)),
}  # fmt: skip


def cells(grid: Grid) -> list[Cell]:
    names = ("model", "d", "d_h", "m", "per_head")
    models = [*grid.trained, *(dict(zip(names, sizes, strict=True)) for sizes in grid.built)]
    return [Storage(**grid.table, **model, seed=seed) for model in models for seed in range(grid.n_seeds)]


def plot(rows: Sequence[Values]) -> "style.Canvas":
    known = [r for r in rows if r["accuracy"]]  # what knows nothing is left out
    known.sort(key=lambda r: (r["model"] != TRAINED, r["mlp_params"] / r["n_params"]))
    groups = {name: [r for r in known if _name(r) == name] for name in dict.fromkeys(map(_name, known))}
    canvas, (left, right) = style.panels(2, width=6.5, height=1.9 + 0.48 * len(groups), sharey=True)
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
                low, high = ([fmean(r[path][end] for r in g) for g in groups.values()] for end in ("low", "high"))
                few = "10% to 90% of the facts, by their own shares" if i == 0 else ""
                axes.hlines(place, low, high, color="#888888", linewidth=2.5, alpha=0.6, zorder=2.5, label=few)
        axes.axvline(0, color="#777777", linewidth=0.8)
        axes.set(title=title, xlabel=x, ylim=(-0.6, len(groups) - 0.4))
        style.frame(axes, "x")
    part = [fmean(r["mlp_params"] / r["n_params"] for r in group) for group in groups.values()]
    left.plot(part, y, "kD", markersize=5, zorder=4, label="MLP's share of the parameters")
    left.set_yticks(y, [f"{name}\n{_about(group)}" for name, group in groups.items()], fontsize=8)
    canvas.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    if rows:
        first, n, lost = rows[0], len({r["seed"] for r in rows}), len(rows) - len(known)
        canvas.suptitle(
            f"S={first['S']}, R={first['R']}, D={first['D']}; mean over {n} seed{'s' * (n > 1)}, thin lines: from the "
            "smallest to the largest" + (f"; {lost} of {len(rows)} models know no fact" if lost else ""), fontsize=10,
        )  # fmt: skip
    return canvas


def _name(r: Values) -> str:
    if r["model"] == TRAINED:
        d = r["d"]
        return rf"trained: $d={d}$, $\alpha={r['H'] * r['d_h'] / d:.2g}$, $\beta={r['m'] / d:.2g}$"
    return f"built: {r['model']}"


def _about(group: Sequence[Values]) -> str:
    """Means: gated models differ in size from seed to seed."""
    return f"{fmean(r['n_params'] for r in group):,.0f} parameters, {fmean(r['accuracy'] for r in group):.1%} of facts"


def says(rows: Sequence[Values]) -> list[str]:
    """The MLP's part of each kind of model, beside its share of the parameters; means over seeds."""
    lines = []
    known = [r for r in rows if r["accuracy"]]
    for name in dict.fromkeys(map(_name, sorted(known, key=lambda r: (r["model"] != TRAINED, r["mlp_params"])))):
        ours = [r for r in known if _name(r) == name]
        part = fmean(r["mlp_params"] / r["n_params"] for r in ours)
        share, direct, mlp = (fmean(r[path][x] for r in ours)
                              for path, x in (("mlp", "share"), ("direct", "without"), ("mlp", "without")))  # fmt: skip
        low, high = (fmean(r["direct"][x] for r in ours) for x in ("low", "high"))
        plain = name.replace("$", "").replace("\\", "")
        lines.append(
            f"{plain}: the MLP has {part:.0%} of the parameters and {share:.0%} of the mean margin; answers that "
            f"change without it {mlp:.0%}, without the direct path {direct:.0%}; the direct path's part, fact by "
            f"fact, {low:.2f} to {high:.2f}"
        )
    return lines


FIGURE = Figure(
    "storage", "Where these models hold their facts: attention's direct path and the MLP",
    "beyond the paper: the last question of its discussion, for one layer and one size of table",
    "Left: the margin of the right answer over its best rival is the sum of what the heads write to the output "
    "directly and of what the MLP adds; bars are each part's mean over the mean margin, for the facts that are "
    "recalled, and a part above 1 makes up for another that works against the answer; grey lines are 10% to 90% of the "
    "facts. Diamonds: the MLP's share of the parameters. Right: the share of these facts whose answer changes when the "
    "path is left out. Both paths read the same heads, so that a fact in the MLP still needs attention to find its "
    "subject and relation. Trained models have about the same number of parameters and differ in alpha = H d_h / d and "
    "beta = m / d. All are trained by one protocol on tables of one size.",
    PRESETS, cells, plot, says=says,
    sees="The MLP's part of the margin need not be its part of the parameters; on the right, which path answers hang"
         " on.",
)  # fmt: skip

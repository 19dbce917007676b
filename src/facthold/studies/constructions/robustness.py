"""What a transformer that was built, not trained, still recalls under noise, rounding and longer prompts."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np

from facthold._util.errors import check_positive
from facthold._util.keys import derive, fold
from facthold.facts.problem import FactualRecall
from facthold.lab import FLOAT_BITS, Account, Cell, Figure, Result, Values, style
from facthold.lab.fields import Between, Count, Each, OneOf, Repeats, Seeds
from facthold.measure.grids import grid_of_bits
from facthold.recipes import fact_recipe
from facthold.studies.constructions.built import BuiltCell, constructions

if TYPE_CHECKING:
    from jaxtyping import PRNGKeyArray

    from facthold.models.transformer import Transformer

    Built = tuple[Transformer, FactualRecall]  # a model, and the problem that it is asked


NEARLY_ALL = 0.99


def noisy_embeddings(model: "Transformer", problem: FactualRecall, x: float, key: "PRNGKeyArray") -> "Built":
    """phi + x g / sqrt(d) with g ~ N(0, I), for every token: subjects, relations, noise, EOS and the outputs.

    One draw per token, not per occurrence: the vocabulary has moved since the model was built.
    """
    from facthold.memory.embeddings import host_generator

    g = host_generator(key).standard_normal(problem.phi.shape)
    return model, replace(problem, phi=(problem.phi + x * g / math.sqrt(problem.d)).astype(np.float32))


def noisy_weights(model: "Transformer", problem: FactualRecall, x: float, key: "PRNGKeyArray") -> "Built":
    """Every weight matrix, of each head its own, with Gaussian noise: x times its root mean square, in all entries."""
    import jax
    import jax.numpy as jnp

    from facthold.memory.embeddings import host_generator

    def disturb(i: int, W: np.ndarray) -> np.ndarray:
        rms = np.sqrt((W**2).mean(axis=(-2, -1), keepdims=True))
        return W + x * rms * host_generator(fold(key, i)).standard_normal(W.shape)

    leaves, structure = jax.tree.flatten(model)  # built models have matrices alone, and no biases
    noisy = [jnp.asarray(disturb(i, np.asarray(W, np.float64)), jnp.float32) for i, W in enumerate(leaves)]
    return jax.tree.unflatten(structure, noisy), problem


def rounded_weights(model: "Transformer", problem: FactualRecall, bits: float, key: "PRNGKeyArray") -> "Built":
    """Every weight matrix, of each head its own, rounded to so many bits; nothing is drawn."""
    from facthold.measure.quantise import quantise

    return quantise(model, grid_of_bits(int(bits))).model, problem


def longer_prompts(model: "Transformer", problem: FactualRecall, T: float, key: "PRNGKeyArray") -> "Built":
    """Prompts of length T, drawn where they are asked. The weights stay those that were built for another length."""
    return model, replace(problem, T=int(T))


class Disturbance(NamedTuple):
    """One way to disturb, by an amount, and the words of its panel."""

    apply: "Callable[[Transformer, FactualRecall, float, PRNGKeyArray], Built]"
    allowed: Between  # the amounts that have a meaning
    title: str
    x: str
    whole: bool = False  # whether amounts are whole numbers


DISTURBANCES = {
    "embeddings": Disturbance(
        noisy_embeddings, Between(least=0), "Noise in the embeddings", "$x$ of $\\varphi + x\\, g / \\sqrt{d}$"
    ),
    "weights": Disturbance(noisy_weights, Between(least=0), "Noise in the weights", "noise / rms entry of each matrix"),
    "bits": Disturbance(rounded_weights, Between(least=1, most=16), "Rounded weights", "bits per weight", whole=True),
    "length": Disturbance(longer_prompts, Between(least=3), "Longer prompts", "prompt length $T$", whole=True),
}


@dataclass(frozen=True, kw_only=True)
class Robustness(BuiltCell):
    """The share of S R facts that one construction recalls under each amount of one disturbance.

    The model is built once per seed on the undisturbed problem, for prompts of length 32. A draw has its own
    disturbance and prompts. Both are the same at all amounts: noise differs in its size alone.
    """

    kind: ClassVar[str] = "robustness"
    version: ClassVar[int] = 2

    disturbance: Annotated[str, OneOf(DISTURBANCES)]
    amounts: Annotated[tuple[int | float, ...], Each(float)]  # of noise (relative), bits or T; 8 and 8.0 are one cell
    draws: Count = 1
    seeds: Seeds = (0, 1, 2)

    def __post_init__(self) -> None:
        super().__post_init__()
        size = fact_recipe(self.builder).size
        check_positive(**{size: getattr(self, size)})
        object.__setattr__(self, "amounts", tuple(float(amount) for amount in self.amounts))
        for amount in self.amounts:
            DISTURBANCES[self.disturbance].allowed.check("amounts", amount)
            if DISTURBANCES[self.disturbance].whole and amount % 1:
                raise ValueError(f"amounts={amount} must be a whole number")

    @property
    def cost(self) -> float:
        """Seconds: a build and some compilations, and all facts for each draw of each amount."""
        asking = len(self.amounts) * self.draws * (0.02 + 2e-7 * self.n_facts * (self.d + self.m))
        compiled = len(self.amounts) if self.disturbance == "length" else 1
        return 2 * compiled + len(self.seeds) * (1.5 + asking)

    def run(self) -> Result:
        per_seed = [self._one(seed) for seed in self.seeds]
        recall = np.array([one["recall"] for one in per_seed])
        return {
            "recall": recall.mean(axis=0).tolist(), "recall_min": recall.min(axis=0).tolist(),
            "recall_max": recall.max(axis=0).tolist(), "per_seed": per_seed,
            "accuracy": fmean(one["accuracy"] for one in per_seed),  # of the models as they were built
            "n_params": max(one["n_params"] for one in per_seed),  # constructions may choose H by the embeddings
        }  # fmt: skip

    def _one(self, seed: int) -> Result:
        from facthold.measure.fact_recall import fact_accuracy

        model, problem, *_ = self.built(seed)
        disturb = DISTURBANCES[self.disturbance].apply

        def share(amount: float | None, draw: int) -> float:
            key = derive("disturb", self.disturbance, seed, self.d, draw)
            asked = (model, problem) if amount is None else disturb(model, problem, amount, key)
            return fact_accuracy(*asked, key=derive("disturbed prompts", seed, draw))

        recall = [fmean(share(amount, draw) for draw in range(self.draws)) for amount in (None, *self.amounts)]
        return {"recall": recall[1:], "accuracy": recall[0], "n_params": model.n_params}

    def accounts(self, result: Mapping[str, Any]) -> list[Account] | str:
        """Where weights were rounded their bits count, and a scale for each matrix, which has at least d weights."""
        accounts = []
        for seed in result["per_seed"]:
            weights, scales = seed["n_params"], FLOAT_BITS * (seed["n_params"] // self.d)
            for amount, recall in zip(self.amounts, seed["recall"], strict=True):
                bits = amount * weights + scales if self.disturbance == "bits" else FLOAT_BITS * weights
                wrong = round((1 - recall) * self.n_facts)
                accounts.append(Account(self.n_facts, self.D, wrong, bits, len(self.amounts)))
        return accounts


@dataclass(frozen=True)
class Grid:
    """The sizes of each construction, and the amounts of each disturbance."""

    S: Count
    R: Count
    D: Count
    attention: tuple[int, int, int]  # d, d_h, tokens per head
    attention_mlp: tuple[int, int, int]  # d, m, tokens per group of heads
    values: int  # d
    selected: tuple[int, int]  # d, m
    noise: tuple[float, ...]  # of the embeddings and of the weights
    bits: tuple[int, ...]
    T: tuple[int, ...]
    draws: Count = 1
    n_seeds: Repeats = 3


_noise = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
PRESETS = {
    "smoke": Grid(S=4, R=4, D=2, attention=(64, 16, 4), attention_mlp=(33, 64, 4), values=16, selected=(12, 16),
                  noise=(0.01, 1.0), bits=(2, 8), T=(32,), n_seeds=1),
    # At these sizes every model recalls all facts while nothing is disturbed.
    "quick": Grid(S=16, R=16, D=8, attention=(1024, 512, 4), attention_mlp=(385, 2048, 4), values=32,
                  selected=(20, 64), noise=_noise, bits=(1, 2, 3, 4, 5, 6, 7, 8, 10, 12), T=(32, 128, 512)),
    "paper": Grid(S=32, R=32, D=8, attention=(2048, 512, 4), attention_mlp=(769, 8192, 8), values=64,
                  selected=(32, 256), noise=_noise, bits=(1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16),
                  T=(32, 64, 128, 256, 512), draws=4, n_seeds=5),
}  # fmt: skip


def cells(grid: Grid) -> list[Cell]:
    built: list[dict[str, Any]] = [
        {"builder": "attention"} | dict(zip(("d", "d_h", "per_head"), grid.attention, strict=True)),
        {"builder": "attention-mlp"} | dict(zip(("d", "m", "per_head"), grid.attention_mlp, strict=True)),
        {"builder": "values", "d": grid.values},
        {"builder": "selected"} | dict(zip(("d", "m"), grid.selected, strict=True)),
    ]
    amounts = {"embeddings": grid.noise, "weights": grid.noise, "bits": grid.bits, "length": grid.T}
    return [
        Robustness.of(grid, disturbance=name, amounts=amounts[name], **fields)
        for fields in built for name in DISTURBANCES if amounts[name]
    ]  # fmt: skip


def plot(rows: Sequence[Values]) -> "style.Canvas":
    from matplotlib.ticker import NullLocator

    canvas, panels = style.panels(len(DISTURBANCES), width=3.7, height=4.0)
    names = [name for name in constructions() if any(r["builder"] == name for r in rows)]
    rows = sorted(rows, key=lambda r: names.index(r["builder"]))  # the same colours in whatever order rows are stored
    for axes, (name, panel) in zip(panels, DISTURBANCES.items(), strict=True):
        scale = "linear" if name == "bits" else "log"
        axes.set(title=panel.title, xlabel=panel.x, ylim=(-0.03, 1.03), xscale=scale)
        style.frame(axes)
        ours = [r for r in rows if r["disturbance"] == name]
        for r in ours:
            _line(axes, r, names.index(r["builder"]), len(names))
        if panel.whole:  # mark those that were measured
            amounts = sorted({amount for r in ours for amount in r["amounts"]})
            axes.set_xticks(amounts, [f"{amount:g}" for amount in amounts])
            axes.xaxis.set_minor_locator(NullLocator())
    panels[0].set_ylabel("share of all facts recalled")
    labels = {label: line for axes in panels for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    canvas.legend(list(labels.values()), list(labels), loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    canvas.suptitle("S={S}, R={R}, D={D}, seeds: {n}".format(**rows[0], n=len(rows[0]["seeds"])), fontsize=10)
    return canvas


def _line(axes: "style.Axes", row: Values, number: int, n: int) -> None:
    """The mean over seeds, and the smallest and largest as a band. Later lines are thinner: all are seen where they
    coincide."""
    look, thick, x = style.mark(number), 1.0 + 0.4 * (n - 1 - number), row["amounts"]
    sizes = ", ".join(f"${name}={row[name]}$" for name in ("d", "d_h", "m") if row[name])
    label = f"{row['builder']} ({fact_recipe(row['builder']).place}): {sizes}, {row['n_params']:,} parameters"
    if row["accuracy"] < 1:
        label += f", {row['accuracy']:.1%} undisturbed"
    axes.fill_between(x, row["recall_min"], row["recall_max"], color=look["color"], alpha=0.15, linewidth=0)
    axes.plot(x, row["recall"], **look, markersize=1 + 3.5 * thick, linewidth=thick, label=label)


def says(rows: Sequence[Values]) -> list[str]:
    """What each construction bears: how much of each disturbance still leaves nearly all facts."""
    lines = []
    for builder in (name for name in constructions() if any(r["builder"] == name for r in rows)):
        ours = {r["disturbance"]: r for r in rows if r["builder"] == builder}
        parts = [f"{bears(r)} ({name})" for name in DISTURBANCES if (r := ours.get(name))]
        n_params = max(r["n_params"] for r in ours.values())
        lines.append(f"{builder}, {n_params:,} parameters: {NEARLY_ALL:.0%} is recalled {', '.join(parts)}")
    return lines


def bears(row: Values) -> str:
    """Up to which amount without a gap, from the mildest on; for bits that is from the most on."""
    few = row["disturbance"] == "bits"  # fewer bits disturb more
    reached = None
    for amount, recall in sorted(zip(row["amounts"], row["recall"], strict=True), reverse=few):
        if recall < NEARLY_ALL:
            break
        reached = amount
    if reached is None:
        return "at no amount tried"
    return f"{'from' if few else 'up to'} {reached:g}"


FIGURE = Figure(
    "robustness", "What transformers that were built without training can bear",
    "beyond the paper, after theorems 3 and 4",
    "Share of all S R facts that are recalled among the whole vocabulary, each from one prompt per draw, mean over "
    "seeds with the smallest and the largest as a band. Noise of the embeddings moves every token, outputs included; "
    "noise and rounding of the weights act on W_K, W_Q, W_V and W_O of each head and on W and V of the MLP, by the "
    "scale of each matrix; with one bit only the sign is left. The models are built for prompts of length 32. Sizes "
    "were chosen at which all facts are recalled undisturbed; where one is not, the legend says so. They differ in "
    "parameters by a factor of up to thousands, so that a line says what a construction bears, and not what a "
    "parameter is worth.",
    PRESETS, cells, plot, says=says,
    sees="The larger a construction for the same facts, the more noise and rounding it bears.",
)  # fmt: skip

"""Truncation of a language model: the fact instead of *the*, found on half of the facts and judged on the others, and
what it costs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar

from facthold.facts.table import Row
from facthold.lab import Cell, Claim, Figure, Judgement, Result, Values, Verdict, style
from facthold.lab.claim import at_least
from facthold.lab.fields import Count, Each, OneOf, Whole
from facthold.lm.choices import MATRICES
from facthold.lm.fetch import SMOLLM2, TINY
from facthold.lm.prompts import facts_for
from facthold.studies.judging import all_of, around, at_preset, mean_and_error
from facthold.studies.lm.base import FETCHED, LmCell, named
from facthold.studies.lm.layers import layers_at, layers_of, ranks_of
from facthold.studies.lm.resampling import bits

Matrix = Annotated[str, OneOf(MATRICES)]
WHOLE = {"mlp": 0, "attention": 0}  # cut at rank 0 alone: the whole of it taken away
LEAST = 0.05  # what counts as a rise of a share; fixed before the first measurement
MEASURES = {
    "fact": "before the, a, an and all other countries", "beats": "before the, a, an", "first": "first of all tokens",
}  # fmt: skip
MAIN = "fact"  # what cuts are chosen and judged by: that *the* falls is not enough
RUINED = 5  # a model whose perplexity is so many times as high
HALVES = (0, 1)
KNOWN = 70  # facts that there are about, for a guess at the time
OTHERS = {0: "The capital of X is", 2: "The capital city of X is called"}  # what a cut may cost, by the template


@dataclass(frozen=True, kw_only=True)
class LmTruncation(LmCell):
    """One layer of a model with each of its matrices cut to each rank: which facts it then says, and the price of the
    cuts that are the best ones on either half of the facts."""

    kind: ClassVar[str] = "lm-truncation"

    layer: Whole
    facts_asked: Count  # at most: a random sample of those that the model knows
    matrices: Annotated[tuple[str, ...], Each(Matrix, distinct=True)]
    ranks: Annotated[tuple[int, ...], Each(Whole, distinct=True)]  # of all but 'mlp' and 'attention', which are dropped

    @property
    def cost(self) -> float:
        cuts = len(cuts_of(self.matrices, self.ranks))
        return self.seconds(min(self.facts_asked, KNOWN) * (cuts / 2 + 4) + 40, 8)

    def run(self) -> Result:
        from facthold.lm.from_layer import FromLayer
        from facthold.lm.price import text_perplexity
        from facthold.lm.prompts import prompt
        from facthold.lm.truncation import PROMPT, hits, truncated, truncations

        model = self.opened()
        if self.layer >= model.config.L:
            raise ValueError(f"layer={self.layer}: the model has {model.config.L}, counted from 0")
        rows = self.facts(["capital"])
        every = known_facts(self.model)
        self.check_known(len(every), "capitals")
        facts = every[: self.facts_asked]
        countries, capitals = [s for _, _, s in facts], [c for c, _, _ in facts]
        asked = FromLayer(model, [PROMPT.format(c) for c in capitals], countries, self.layer)
        others = {
            words: FromLayer(model, [prompt("capital", s, template=t) for s in countries], capitals, self.layer)
            for t, words in OTHERS.items()
        }

        def scores(changed: Any) -> dict[str, str]:
            found = hits(asked, changed, [s for s, _, _ in rows])
            return {name: bits(getattr(found, name)) for name in MEASURES}

        def price(changed: Any) -> dict[str, float]:
            shares = {words: float(other.first(changed).mean()) for words, other in others.items()}
            return {"perplexity": text_perplexity(changed), **shares}

        cuts: dict[str, dict[str, str]] = {}
        for matrix in self.matrices:
            ranks = (WHOLE[matrix],) if matrix in WHOLE else tuple(r for r in self.ranks if r)
            for rank, changed in truncations(model, self.layer, matrix, ranks).items():
                cuts[f"{matrix} {rank}"] = scores(changed)
        best = {best_cut(cuts, half) for half in HALVES}
        prices = {}
        for cut in sorted(best):
            name, to = cut.split()
            prices[cut] = price(truncated(model, self.layer, name, int(to)))
        return {
            "known": len(every), "capitals": capitals, "whole": scores(model),
            "whole_price": _once((self.model, self.facts_asked), lambda: price(model)), "cuts": cuts, "prices": prices,
            "accuracy": float(asked.first(model).mean()),  # of the whole model
        }  # fmt: skip


@cache
def known_facts(model: str) -> list[Row]:
    """What a model is asked for: the same for all of its cells, and found once per process."""
    from facthold.lm.library import load
    from facthold.lm.truncation import located_facts

    return located_facts(load(model), facts_for(model, ["capital"]))


_prices: dict[tuple[str, int], dict[str, float]] = {}


def _once(key: tuple[str, int], price: Callable[[], dict[str, float]]) -> dict[str, float]:
    """The price of no cut, which is the same in every cell of a model: computed once per process."""
    if key not in _prices:
        _prices[key] = price()
    return _prices[key]


def cuts_of(matrices: Sequence[str], ranks: Sequence[int]) -> list[tuple[str, int]]:
    """Each matrix with each rank that it is cut to."""
    return [(m, r) for m in matrices for r in ((WHOLE[m],) if m in WHOLE else [r for r in ranks if r])]


def on_half(hits: str, half: int) -> list[int]:
    """Of a fact each: facts stand in an order by hashes, and every other one is of the same half."""
    return [int(hit) for hit in hits[half::2]]


def share(hits: Sequence[int]) -> float:
    return sum(hits) / len(hits) if hits else 0.0


def best_cut(cuts: Mapping[str, Mapping[str, str]], half: int) -> str:
    """The rule: the most facts of this half before *the*, *a*, *an* and all other countries; of equals the first."""
    return max(cuts, key=lambda cut: share(on_half(cuts[cut][MAIN], half)))


def chosen(rows: Sequence[Values], half: int) -> tuple[Values, str]:
    """The layer and the cut that the rule takes on this half; of equals the first."""
    row = max(rows, key=lambda r: share(on_half(r["cuts"][best_cut(r["cuts"], half)][MAIN], half)))
    return row, best_cut(row["cuts"], half)


@dataclass(frozen=True)
class Grid:
    """A model, and what is cut in each of its layers."""

    model: str
    layers: tuple[int, ...] = ()  # none named: all that it has
    facts_asked: Count = 400
    matrices: Annotated[tuple[str, ...], Each(Matrix, distinct=True)] = (
        "mlp", "attention", "W_down", "W_up", "W_gate", "W_O",
    )  # fmt: skip
    ranks: Annotated[tuple[int, ...], Each(Whole, distinct=True)] = (64,)


PRESETS = {
    "smoke": Grid(TINY, facts_asked=12, ranks=(4, 16)),
    "quick": Grid(FETCHED),
    "paper": Grid(FETCHED, ranks=(1, 4, 16, 64, 256)),
}


def cells(grid: Grid) -> list[Cell]:
    model = named(grid.model)
    layers = layers_at(model, grid.layers, ()) or range(layers_of(model))
    return [LmTruncation.of(grid, model=model, layer=i, ranks=ranks_of(model, grid.ranks)) for i in layers]


def plot(rows: Sequence[Values]) -> "style.Canvas":
    rows = sorted(rows, key=lambda r: r["layer"])
    canvas, axes = style.panels(3, width=4.8, height=3.8)
    layers = [r["layer"] for r in rows]
    for ax, measure in zip(axes, (MAIN, "first"), strict=False):
        for i, cut in enumerate(rows[0]["cuts"]):
            matrix = cut.split()[0]
            width, line = (2, "-") if matrix in WHOLE else (1, "--")
            values = [share(on_half(r["cuts"][cut][measure], 1)) for r in rows]
            ax.plot(layers, values, color=f"C{i % 10}", label=in_words(cut), lw=width, ls=line)
        ax.axhline(share(on_half(rows[0]["whole"][measure], 1)), color="k", lw=1, ls=":", label="the whole model")
        ax.set(title=f"the fact is {MEASURES[measure]}", xlabel="layer that is cut", ylim=(-0.02, 1.02))
        style.frame(ax)
    axes[0].set_ylabel("share of the held-out facts")
    _draw_prices(axes[2], rows)
    style.legend(axes[0])
    return canvas


def _draw_prices(axes: "style.Axes", rows: Sequence[Values]) -> None:
    """What the cuts cost. Those that ruin the model are counted and not drawn: they would push all others together."""
    whole = rows[0]["whole_price"]["perplexity"]
    kinds = {"mlp": "MLP removed", "attention": "attention removed", "": "a matrix at a lower rank"}
    beyond = 0
    points: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
    for r in rows:
        for cut, price in r["prices"].items():
            matrix = cut.split()[0]
            point = price["perplexity"], share(on_half(r["cuts"][cut][MAIN], 1))
            points[matrix if matrix in kinds else ""].append(point)
    for i, (kind, words) in enumerate(kinds.items()):
        beyond += sum(x > RUINED * whole for x, _ in points[kind])
        drawn = [point for point in points[kind] if point[0] <= RUINED * whole]
        style.points(axes, drawn, i, linestyle="none", markersize=4, label=words)
    row, cut = chosen(rows, 0)
    place = row["prices"][cut]["perplexity"], share(on_half(row["cuts"][cut][MAIN], 1))
    axes.annotate(f"layer {row['layer']}, {in_words(cut)}", place, (0, 6), textcoords="offset points", ha="center",
                  fontsize=8)  # fmt: skip
    axes.plot(whole, share(on_half(rows[0]["whole"][MAIN], 1)), "k*", ms=10, label="the whole model")
    unseen = f" ({beyond} above {RUINED * whole:.0f} not drawn)" if beyond else ""
    axes.set(title="what it costs", xlabel=f"perplexity of a fixed text{unseen}", ylabel="share of the held-out facts")
    axes.set_ylim(top=1.3 * max(axes.get_ylim()[1], 0.1))  # room for the legend
    style.frame(axes)
    style.legend(axes)


def in_words(cut: str) -> str:
    matrix, rank = cut.split()
    return f"{matrix} removed" if matrix in WHOLE else f"{matrix}, rank {rank}"


def with_price(row: Values, cut: str, half: int) -> str:
    """A cut that was chosen on a half, in numbers: on the other half, and its price."""
    held, price, whole = 1 - half, row["prices"][cut], row["whole_price"]
    others = ", ".join(f"'{words}' {whole[words]:.2f} to {price[words]:.2f}" for words in OTHERS.values())
    shares = "; ".join(
        f"{words} {share(on_half(row['whole'][name], held)):.2f} to {share(on_half(row['cuts'][cut][name], held)):.2f}"
        for name, words in MEASURES.items()
    )
    return (
        f"layer {row['layer']}, {in_words(cut)}: {shares}; price: perplexity {whole['perplexity']:.4g} to "
        f"{price['perplexity']:.4g}, {others}"
    )


def says(rows: Sequence[Values]) -> list[str]:
    found = [
        f"chosen on half {half}, on the other half of {len(rows[0]['capitals'])} facts: "
        + with_price(*chosen(rows, half), half)
        for half in HALVES
    ]
    row, _ = chosen(rows, 0)
    rest = [r for r in rows if r is not row]
    if rest:
        found.append("the next layer: " + with_price(*chosen(rest, 0), 0))
    return found


def judge(rows: Sequence[Values]) -> Judgement:
    """Chosen on either half, judged on the other: paired differences of its facts, both intervals right together."""
    parts = []
    for half in HALVES:
        row, cut = chosen(rows, half)
        before, after = (on_half(hits[MAIN], 1 - half) for hits in (row["whole"], row["cuts"][cut]))
        differences = [b - a for a, b in zip(before, after, strict=True)]
        low, high = around(*mean_and_error(differences), len(HALVES))
        verdict: Verdict = at_least((low, high), LEAST)
        predicted = (
            f"on facts that chose nothing, at least {LEAST:g} more of them before the, a, an and all other countries"
        )
        error = f"difference 95% [{low:.3f}, {high:.3f}], {len(differences)} facts"
        measured = with_price(row, cut, half) + _next_best(rows, row, half)
        parts.append(Judgement("" if half else predicted, measured, error, verdict))
    return all_of(*parts)


def _next_best(rows: Sequence[Values], best: Values, half: int) -> str:
    """The same rule without the layer that it took: what would have been chosen in its place, on the other half."""
    if len(rows) < 2:
        return ""
    row, cut = chosen([r for r in rows if r is not best], half)
    before, after = (share(on_half(hits[MAIN], 1 - half)) for hits in (row["whole"], row["cuts"][cut]))
    return f"; of all other layers the best is layer {row['layer']}, {in_words(cut)}: {before:.2f} to {after:.2f}"


def claim_cells(preset: str) -> list[Cell]:
    return cells(at_preset(PRESETS, preset))


FIGURE = Figure(
    "lm-truncation", "A language model without parts of its matrices", "the lecture's example: Madrid is located in",
    f"{SMOLLM2.name} (preset smoke: a made-up model) at '{{capital}} is located in', for countries whose capital it "
    "knows, one matrix of one layer at a time dropped or cut to a rank. Left and middle: the share of held-out facts "
    "whose country comes before the, a, an and all other countries, and before all tokens. Right: each layer's best "
    "cut (blue: MLP, orange: attention, grey: one matrix) against the perplexity of a fixed text. One model.",
    PRESETS, cells, plot, says=says,
    sees="Where the share rises as a matrix loses rank, that matrix had kept the answer back.",
)  # fmt: skip

CLAIM = Claim(
    "lm-truncation", "the lecture's example, beyond",
    f"In {SMOLLM2.name}, one truncation that is chosen on half of the facts brings the country before the, a, an and "
    "all other countries for more of the other half, at a price that stands beside it. One model.",
    claim_cells, judge,
    changed="facts are those whose capital the model knows: a first look at layers 27 and 28, on 40 facts of all that "
    "can be judged, had few that any cut could bring out (0.00 to 0.15)",
)  # fmt: skip

"""The picture of bits that a language model holds, beside our own models, and the lines below it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from facthold.lab import Figure, Values, style
from facthold.lm.fetch import SMOLLM2
from facthold.studies.bits.efficiency import LANGUAGE_MODELS
from facthold.studies.judging import grouped
from facthold.studies.lm.bits import PRESETS, cells
from facthold.studies.lm.bits_account import (
    ALONE,
    FITTED,
    GIVEN,
    LAYER,
    MEMORIES,
    PLAIN,
    RECALL,
    TABLES,
    TAUGHT,
    TRANSFORMERS,
    Holding,
    asked,
    holdings,
    of_kind,
    read_off,
    saved,
    taught_bits,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MEMORISED = 3.6  # bits per parameter that language models memorise of random texts (Morris et al., arXiv 2505.24832)
QUOTED = {"quoted: 2 (Allen-Zhu and Li)": LANGUAGE_MODELS, "quoted: 3.6 (Morris et al.)": MEMORISED}
CUT = 30  # an interval that reaches zero is cut off so far below its point: the axis is logarithmic
GROUPS = {
    TABLES: "a language model,\nour tables", LAYER: "one layer's W_OV,\nread as a memory",
    TAUGHT: "a matrix that\nit was taught", TRANSFORMERS: "our one-layer\ntransformers",
    MEMORIES: "our memories",
}  # fmt: skip
ESTIMATES = {
    FITTED: "predictions, fitted on the other half", PLAIN: "predictions as they are",
    RECALL: "best answers alone",
}  # fmt: skip


def draw(rows: Sequence[Values]) -> "style.Canvas":
    canvas, (params, stored, relations) = style.panels(3, width=5.4, height=3.9)
    found = holdings(rows)
    _axis(params, found, "bits of facts per parameter", [h.per_param for h in found])
    _axis(stored, found, "bits of facts per bit that the weights take", [h.per_bit for h in found])
    stored.set_yticklabels([])
    for i, (label, bits) in enumerate(QUOTED.items()):
        params.axvline(bits, **style.GUIDE | {"linestyle": ("--", ":")[i], "label": label})
    params.set_title("lower bounds; dashed and dotted: what others report")
    stored.set_title("the same per bit of storage")
    style.legend(params, loc="lower left")
    _relations(relations, asked(rows))
    return canvas


def _axis(axes: "Axes", found: Sequence[Holding], label: str, values: Sequence[float]) -> None:
    """A line for each group, its models as points, with the number of the largest."""
    names = [what for what in GROUPS if any(h.what == what for h in found)]
    for h, value in zip(found, values, strict=True):
        y, i = len(names) - 1 - names.index(h.what), list(GROUPS).index(h.what)
        if value <= 0:
            continue  # a bound of nothing
        axes.plot(value, y, **style.mark(i), markersize=7, linestyle="none")
        if value == max(other for one, other in zip(found, values, strict=True) if one.what == h.what):
            look: dict[str, Any] = {"ha": "center", "fontsize": 7, "bbox": {"fc": "white", "ec": "none", "pad": 0.5}}
            axes.annotate(f"{value:.2g}", (value, y), (0, 8), textcoords="offset points", **look)
        if h.interval:
            ends = [max(end / h.bits * value, value / CUT) for end in h.interval]
            axes.plot(ends, [y, y], color=style.COLOURS[i], linewidth=2)
    axes.set(xscale="log", xlabel=label, ylim=(-0.6, max(len(names), 1) - 0.4))
    axes.set_yticks(range(len(names)), [GROUPS[what] for what in reversed(names)], fontsize=8)
    style.frame(axes, grid="x")


def _relations(axes: "Axes", rows: Sequence[Values]) -> None:
    """Bits of each relation by each estimate; behind them what there is to know."""
    width = 0.8 / len(ESTIMATES)
    rows = [r for r in rows if r["subjects"]]
    for x, row in enumerate(rows):
        whole = sum(row[GIVEN]["base"])
        axes.bar(x, whole, 0.86, color="#eeeeee", label="bits there are" if not x else None, zorder=0)
        for i, (how, words) in enumerate(ESTIMATES.items()):
            value, (low, high) = saved([row], how)
            at = x + (i - (len(ESTIMATES) - 1) / 2) * width
            axes.bar(at, value, width, color=style.COLOURS[i], label=words if not x else None)
            axes.plot([at, at], [low, high], color="black", linewidth=1)
    axes.axhline(0, color="black", linewidth=0.6)
    axes.set_xticks(range(len(rows)), [r["relation"] for r in rows])
    axes.set(title="whose answer it is, where the region is known", ylabel="bits saved, all facts together")
    axes.set_ylim(top=1.8 * max(axes.get_ylim()[1], 1e-9))  # room for the legend
    style.frame(axes, grid="y")
    style.legend(axes, loc="upper left")


def says(rows: Sequence[Values]) -> list[str]:
    """Every bound in numbers: what there is, what is saved, in how many weights."""
    return [*_tables(rows), *_matrices(rows), *map(_line, holdings(rows))]


def _tables(rows: Sequence[Values]) -> list[str]:
    found = []
    for row in asked(rows):
        if not row["subjects"]:
            continue
        parts = []
        for known, words in ((GIVEN, "the region known"), (ALONE, "nothing known")):
            estimates = ", ".join(f"{name} {_bits([row], how, known)}" for how, name in ESTIMATES.items())
            parts.append(f"{words}: of {sum(row[known]['base']):.0f} bits {estimates}")
        found.append(
            f"{row['relation']}: {row['judged']} of {row['facts']} facts with {row['answers']} answers (left out as 0 "
            f"bits: {row['ambiguous']} ambiguous, {row['contained']} contained, {row['alike']} alike); "
            + "; ".join(parts[:1] if row["relation"] == "region" else parts)
        )
    ways = grouped(of_kind(rows, "lm-bits"), lambda r: (r["shots"], r["templates"], r["seed"])).items()
    for (shots, templates, seed), ours in ways:
        words = f"{templates} wordings together" if templates > 1 else "one wording"
        also = f", {shots} examples (seed {seed}), whose bits are in no weights" if shots else ", no examples"
        estimates = ", ".join(f"{name} {_bits(ours, how)}" for how, name in ESTIMATES.items())
        shuffled = sum(r[GIVEN]["shuffled"] for r in ours)
        found.append(
            f"all relations, {words}{also}: of {sum(sum(r[GIVEN]['base']) for r in ours):.0f} bits {estimates}; of "
            f"shuffled answers {shuffled:.0f}; nothing known of regions: {_bits(ours, FITTED, ALONE)}"
        )
    return found


def _bits(rows: Sequence[Values], how: str, known: str = GIVEN) -> str:
    value, (low, high) = saved(rows, how, known)
    return f"{value:.0f} [{low:.0f}, {high:.0f}]"


def _matrices(rows: Sequence[Values]) -> list[str]:
    found = []
    if read := read_off(rows):
        found.append(
            f"W_OV read as a memory, layer {read.layers[1]} chosen on one half and {read.layers[0]} on the other: "
            f"{read.bits:.0f} [{read.interval[0]:.0f}, {read.interval[1]:.0f}] bits of {read.facts} facts, random "
            f"directions {read.random:.0f}"
        )
        for row in of_kind(rows, "lm-matrix-bits"):
            one = read_off([dict(row) | {"choosing": _only(row, read.layers)}])
            if one:
                found.append(f"{row['relation']}, read off W_OV: {one.bits:.0f} [{one.interval[0]:.0f}, "
                             f"{one.interval[1]:.0f}] bits")  # fmt: skip
    sizes = of_kind(rows, "lm-size")
    for row in of_kind(rows, "lm-teach") if sizes else []:
        bits, wrong = taught_bits(row, sizes[0]["words"])
        found.append(
            f"taught: {row['N']} facts, answers drawn from {sizes[0]['words']} words, {wrong} wrong: {bits:.0f} bits"
        )
    return found


def _only(row: Values, layers: tuple[int, int]) -> list[list[float]]:
    """Choosing that chooses these layers."""
    held = np.array([float(letter) for letter in row["held"]])
    found = np.zeros((len(row["choosing"]), len(held)))
    found[layers[1]] += held == 0
    found[layers[0]] += held == 1
    return [list(map(float, line)) for line in found]


def _line(h: Holding) -> str:
    spread = f" [{h.interval[0]:.0f}, {h.interval[1]:.0f}]" if h.interval else ""
    return (
        f"{GROUPS[h.what].replace(chr(10), ' ')} ({h.about}): {h.bits:.0f}{spread} bits in {h.n_params:,} weights, "
        f"{h.per_param:.2g} per parameter, {h.per_bit:.2g} per bit of storage"
    )


FIGURE = Figure(
    "lm-bits", "Bits of facts per parameter: a real language model and our own", "beyond the paper: section 6",
    f"Lower bounds on one axis. Of {SMOLLM2.name} (preset smoke: of a made-up model): bits that its predictions "
    "without examples save of our tables about countries, beyond frequencies of the answers, over all its weights: it "
    "knows far more than these tables, so that this is the smallest part of what it holds; the same read off W_OV of "
    "one layer as a memory, the layer chosen on half of the countries and judged on the other; and random answers that "
    "one matrix was taught (figure lm-teach). Beside them our own models of random facts at 99% (cells of figure "
    "efficiency), their embeddings not counted. The lines are quotations, of other models and other texts. Right: the "
    "bits of each relation, region by itself and the others in a known region; grey: all there are. One model.",
    PRESETS, cells, draw, says=says,
    sees="Bits per weight that one can see of a large model's facts, beside models that hold nothing else.",
)  # fmt: skip

"""The picture of attention matrices as memories, and the lines below it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from facthold.lab import Figure, Values, style
from facthold.lm.fetch import SMOLLM2
from facthold.studies.lm.memory_claims import choose, judged, known, majority, random, recall
from facthold.studies.lm.memory_matrix import PRESETS, cells
from facthold.studies.lm.resampling import flags
from facthold.studies.lm.where_view import count_layers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMED = 3  # heads that a line names


def draw(rows: Sequence[Values]) -> "style.Canvas":
    canvas, axes = style.panels(4, width=5.6, height=3.8, rows=2)
    layer = choose(rows)
    _draw_layers(axes[0], rows)
    _draw_controls(axes[1], rows, layer)
    _draw_ranks(axes[2], rows, layer)
    _draw_heads(axes[3], rows, layer)
    return canvas


def _draw_layers(axes: "Axes", rows: Sequence[Values]) -> None:
    for i, r in enumerate(rows):
        shares = [flags(text)[known(r)].mean() for text in r["whole"]]
        axes.plot(shares, **style.mark(i), ms=3, lw=1.2, label=r["relation"])
    axes.set(title="each layer's W_OV", xlabel="layer", ylabel="share of known facts recalled", ylim=(-0.02, 1.03))
    count_layers(axes)
    style.frame(axes)
    style.legend(axes, loc="upper left")


def _draw_controls(axes: "Axes", rows: Sequence[Values], layer: int) -> None:
    """The chosen layer, in the half that judges."""
    bars: dict[str, list[float]] = {}
    for r in rows:
        held, lost = known(r) & judged(r), (flags(r["unknown"]) == 1) & judged(r)
        for name, values in (
            ("known facts", recall(r, layer, held)), ("unknown facts", recall(r, layer, lost)),
            ("most frequent answer", majority(r, held)), ("random matrices", random(r, layer, held)),
            ("shuffled answers", np.array([r["shuffled"][layer]])),
        ):  # fmt: skip
            bars.setdefault(name, []).append(float(values.mean()) if len(values) else 0.0)
    width = 0.8 / len(bars)
    for i, (name, heights) in enumerate(bars.items()):
        at = np.arange(len(rows)) + (i - (len(bars) - 1) / 2) * width
        axes.bar(at, heights, width, color=style.COLOURS[i], label=name)
    axes.set_xticks(range(len(rows)), [r["relation"] for r in rows])
    axes.set(title=f"layer {layer}, countries that did not choose it", ylabel="share right", ylim=(0, 1.3))
    axes.set_yticks(np.linspace(0, 1, 6))
    style.frame(axes, grid="y")
    style.legend(axes, loc="upper left", ncols=2)


def _draw_ranks(axes: "Axes", rows: Sequence[Values], layer: int) -> None:
    for i, r in enumerate(rows):
        held = judged(r)[known(r)]
        shares = [flags(text)[held].mean() for text in r["by rank"][layer]]
        axes.plot(r["ranks"], shares, **style.mark(i), ms=4, lw=1.2, label=r["relation"])
    style.doubling(axes)
    axes.set(title=f"layer {layer} truncated, judging half", xlabel="rank of W_OV",
             ylabel="share of known facts recalled", ylim=(-0.02, 1))  # fmt: skip
    style.frame(axes)


def _draw_heads(axes: "Axes", rows: Sequence[Values], layer: int) -> None:
    """Heads of the chosen layer by relation: all known facts."""
    shares = np.array([[flags(text).mean() for text in r["heads"][layer]] for r in rows])
    axes.imshow(shares, vmin=0, vmax=1, cmap="Blues", aspect="auto")
    for (y, x), share in np.ndenumerate(shares):
        axes.text(x, y, f"{share:.2f}", ha="center", va="center", fontsize=8, color="white" if share > 0.6 else "black")
    axes.set_xticks(range(shares.shape[1]))
    axes.set_yticks(range(len(rows)), [r["relation"] for r in rows])
    axes.set(title=f"W_OV of each head of layer {layer}: known facts recalled", xlabel="head")


def lines(rows: Sequence[Values]) -> list[str]:
    """The chosen layer by relation, beside the controls; the best heads, chosen on one half, judged on the other."""
    layer, found = choose(rows), []
    for r in rows:
        held, lost = known(r) & judged(r), (flags(r["unknown"]) == 1) & judged(r)
        if not held.any():
            continue
        others = max(recall(r, i, known(r)).mean() for i in range(len(r["whole"])) if i != layer)
        unknown = f"{recall(r, layer, lost).mean():.2f} of {int(lost.sum())}" if lost.any() else "none"
        found.append(
            f"{r['relation']}: layer {layer} recalls {recall(r, layer, held).mean():.2f} of {int(held.sum())} held "
            f"known facts ({recall(r, layer, known(r)).mean():.2f} of all {int(known(r).sum())}), unknown ones "
            f"{unknown}; most frequent answer {majority(r, held).mean():.2f}, random matrices "
            f"{random(r, layer, held).mean():.2f}, shuffled answers {r['shuffled'][layer]:.2f}; any other layer at "
            f"most {others:.2f} of all known"
        )
    for r in rows:
        half = judged(r)[known(r)]
        if not 0 < half.sum() < len(half):
            continue
        by_rank = ", ".join(
            f"{k}: {flags(text)[half].mean():.2f}" for k, text in zip(r["ranks"], r["by rank"][layer], strict=True)
        )
        shares = np.array([[[flags(t)[h].mean() for h in (~half, half)] for t in one] for one in r["heads"]])
        order = np.argsort(-shares[..., 0], axis=None, kind="stable")[:NAMED]
        names = (divmod(int(i), shares.shape[1]) for i in order)
        heads = ", ".join(f"{i}.{h} {shares[i, h, 1]:.2f}" for i, h in names)
        found.append(f"{r['relation']}: by rank {by_rank}; best heads of all layers, layer.head: {heads}")
    return found


FIGURE = Figure(
    "lm-memory", "An attention matrix as an associative memory", "beyond the paper: its discussion",
    f"W_OV of each layer of {SMOLLM2.name}, heads summed (preset smoke: of a made-up model of three layers), applied "
    "to the stream at a country's last token right after layer 0; the answer is the arg max over the relation's "
    "answers. Known facts: first of all tokens in a prompt; unknown ones: not even first of the relation's answers. "
    "The layer is chosen on half of the countries. Controls: random directions with the same singular values, and "
    "shuffled answers.",
    PRESETS, cells, draw, says=lines,
    sees="Whether known facts are read off one matrix more often than off random directions with its singular "
         "values.",
)  # fmt: skip

"""The picture of where a language model reads facts, and the lines below it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from facthold.lab import Figure, Values, style
from facthold.lm.fetch import SMOLLM2
from facthold.studies.lm.resampling import flags, interval_of
from facthold.studies.lm.where import PRESETS, cells
from facthold.studies.lm.where_claims import Facts, attention_share, choose

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BEST = "best-answer"
CONTRASTS = {"answers": "the mean of the relation's answers", "runner-up": "the runner-up"}
POSITIONS = {"last": "the last token", "subject": "the subject's last token"}
PLACES = {"attention": "attention", "mlp": "MLP"}
NAMED = 3  # heads and layers that a line names


def split(rows: Sequence[Values]) -> tuple[list[Values], list[Values], list[Values]]:
    """Rows about layers, about heads, and about several layers together."""
    first, second, third = ([r for r in rows if name in r] for name in ("attention last", "heads last", "mlp runs"))
    return first, second, third


def count_layers(axes: "Axes") -> None:
    """Layers have whole numbers."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def draw(rows: Sequence[Values]) -> "style.Canvas":
    layers, _, together = split(rows)
    canvas, axes = style.panels(6, width=5.6, height=3.6, rows=3)
    if together:
        _draw_runs(axes[4], together)
        _draw_shares(axes[5], layers, together)
    if not layers:  # heads alone are stored so far: they are in the lines below
        return canvas
    facts = Facts(layers)
    for one, (position, words) in zip(axes[:2], POSITIONS.items(), strict=True):
        for i, (place, name) in enumerate(PLACES.items()):
            right = facts.right(f"{place} {position}")
            for half, line, which in ((~facts.held, ":", "chosen on"), (facts.held, "-", "judged on")):
                one.plot(right[:, half].mean(1), line, **style.mark(i), ms=3, lw=1.2, label=f"{name}, {which}")
        one.set(title=f"without one layer's part at {words}", xlabel="layer", ylabel="share still right",
                ylim=(-0.03, 1.05))  # fmt: skip
        count_layers(one)
        style.frame(one)
    style.legend(axes[0], loc="lower left")
    _draw_sums(axes[2], facts)
    _draw_layers(axes[3], layers)
    return canvas


def _draw_sums(axes: "Axes", facts: Facts) -> None:
    """Attention and MLPs of each relation, by contrast."""
    names = list(dict.fromkeys(facts.relations))
    relations, width = np.array(facts.relations), 0.2
    for j, (contrast, words) in enumerate(CONTRASTS.items()):
        for i, (place, name) in enumerate(PLACES.items()):
            values = facts.values(f"{place} {contrast}")
            heights = [values[relations == r].mean() for r in names]
            at = np.arange(len(names)) + (2 * j + i - 1.5) * width
            axes.bar(at, heights, width, color=style.COLOURS[i], alpha=1 - 0.5 * j, label=f"{name}, against {words}")
    axes.set_xticks(range(len(names)), names)
    axes.axhline(0, color="black", lw=0.6)
    axes.set(title="parts of the margin, all layers", ylabel="mean part of the margin (logits)")
    top = axes.get_ylim()[1]
    axes.set_ylim(top=1.5 * top)  # room for the legend
    style.frame(axes, grid="y")
    style.legend(axes, loc="upper left", ncols=1)


def _draw_runs(axes: "Axes", rows: Sequence[Values]) -> None:
    """What is left without several layers' parts together."""
    facts, width = Facts(rows), rows[0]["width"]
    for i, (place, name) in enumerate(PLACES.items()):
        right = facts.right(f"{place} runs")
        for half, line, which in ((~facts.held, ":", "chosen on"), (facts.held, "-", "judged on")):
            axes.plot(right[:, half].mean(1), line, **style.mark(i), ms=3, lw=1.2, label=f"{name}, {which}")
    axes.set(title=f"without {width} layers' parts in a row, together", xlabel="first of the layers",
             ylabel="share still right", ylim=(-0.03, 1.05))  # fmt: skip
    count_layers(axes)
    style.frame(axes)
    style.legend(axes, loc="lower left")


def _draw_shares(axes: "Axes", layers: Sequence[Values], together: Sequence[Values]) -> None:
    """The share of attention by contrast."""
    found = [(f"against {c}", Facts(layers), c) for c in CONTRASTS if layers]
    found.append(("against the best\nother answer", Facts(together), BEST))
    for i, (_, facts, contrast) in enumerate(found):
        share, (low, high) = _share(facts, contrast)
        axes.errorbar([share], [i], xerr=[[share - low], [high - share]], **style.mark(i), ms=5, capsize=3)
    axes.axvline(0.5, color="0.6", lw=1)
    axes.set_yticks(range(len(found)), [words for words, _, _ in found])
    axes.set(title="attention's share of what attention and MLPs add", xlabel="share, 95% over subjects",
             ylim=(-0.5, len(found) - 0.5))  # fmt: skip
    style.frame(axes, grid="x")


def _share(facts: Facts, contrast: str) -> tuple[float, tuple[float, float]]:
    return interval_of(facts.subjects, lambda w: attention_share(facts, contrast, w))


def _draw_layers(axes: "Axes", rows: Sequence[Values]) -> None:
    """Each layer's part, a mean over all facts."""
    counts = [len(r["subjects"]) for r in rows]
    for i, (place, name) in enumerate(PLACES.items()):
        for contrast, line in (("answers", "-"), ("runner-up", ":")):
            part = np.average([r[f"{place}s {contrast}"] for r in rows], axis=0, weights=counts)
            axes.plot(part, line, **style.mark(i), ms=3, lw=1.2, label=f"{name}, against {contrast}")
    axes.axhline(0, color="black", lw=0.6)
    axes.set(title="parts of the margin by layer", xlabel="layer", ylabel="mean part of the margin (logits)")
    count_layers(axes)
    style.frame(axes)
    style.legend(axes, loc="upper left")


def lines(rows: Sequence[Values]) -> list[str]:
    """What was chosen, what is left without it, and the margin by contrast; heads by how many answers they cost."""
    layers, heads, together = split(rows)
    found = (_layers(layers) if layers else []) + (_together(together) if together else [])
    return found + [line for position in POSITIONS for line in _heads(heads, position)]


def _layers(layers: Sequence[Values]) -> list[str]:
    """The layers that were chosen, and margins by contrast."""
    facts, found = Facts(layers), []
    for position, where in POSITIONS.items():
        for place, name in PLACES.items():
            what = f"{place} {position}"
            chosen, right = choose(facts, what), facts.right(what)
            shares = right[:, facts.held].mean(1)
            rest = np.delete(shares, chosen)
            found.append(
                f"{name} at {where}: layer {chosen} was chosen on {int((~facts.held).sum())} facts; of "
                f"{int(facts.held.sum())} others {shares[chosen]:.2f} stay right without it, without any other layer "
                f"at least {rest.min():.2f}, on average {rest.mean():.2f}"
            )
    for contrast, words in CONTRASTS.items():
        sums = {name: facts.values(f"{place} {contrast}").mean() for place, name in PLACES.items()}
        margin = facts.values(f"margin {contrast}").mean()
        found.append(f"margin against {words} {margin:.2f}: " + ", ".join(f"{n} {v:.2f}" for n, v in sums.items()))
    for row in layers:
        parts = (
            f"against {c}: attention {np.mean(row[f'attention {c}']):.2f}, MLP {np.mean(row[f'mlp {c}']):.2f}"
            for c in CONTRASTS
        )
        without = flags(row["attention last"][choose(facts)]).mean()
        found.append(f"{row['relation']}: {'; '.join(parts)}; right without layer {choose(facts)}: {without:.2f}")
    return found


def _together(rows: Sequence[Values]) -> list[str]:
    """Layers in a row, chosen and judged as single ones are; and margins over the best other answer."""
    facts, width, found = Facts(rows), rows[0]["width"], []
    for place, name in PLACES.items():
        shares = facts.right(f"{place} runs")[:, facts.held].mean(1)
        first = choose(facts, f"{place} runs")
        apart = [share for i, share in enumerate(shares) if abs(i - first) >= width]
        rest = f"; without any {width} others in a row at least {min(apart):.2f}" if apart else ""
        found.append(
            f"{name} of layers {first} to {first + width - 1} together, chosen on half: of {int(facts.held.sum())} "
            f"held facts {shares[first]:.2f} stay right{rest}; of the last {width} layers {shares[-1]:.2f}"
        )
    share, (low, high) = _share(facts, BEST)
    sums = {name: facts.values(f"{place} {BEST}").mean() for place, name in PLACES.items()}
    margin = facts.values(f"margin {BEST}").mean()
    found.append(
        f"margin against the best other answer of the relation {margin:.2f}: "
        + ", ".join(f"{n} {v:.2f}" for n, v in sums.items())
        + f"; share of attention {share:.2f} [{low:.2f}, {high:.2f}]"
    )  # fmt: skip
    for row in rows:
        each = (f"{name} {np.mean(row[f'{place} {BEST}']):.2f}" for place, name in PLACES.items())
        left = flags(row["mlp runs"][-1]).mean()
        found.append(
            f"{row['relation']}, against the best other answer: {', '.join(each)}; right without the last {width} "
            f"MLPs: {left:.2f}"
        )
    return found


def _heads(rows: Sequence[Values], position: str) -> list[str]:
    """For each relation the heads that the choosing half names, with what is left in the other half."""
    found = []
    for row in rows:
        right, held = np.array([[flags(h) for h in layer] for layer in row[f"heads {position}"]]), flags(row["held"])
        if not 0 < held.sum() < len(held):
            continue
        chosen, judged = right[..., held == 0].mean(-1), right[..., held == 1].mean(-1)
        order = np.argsort(chosen, axis=None, kind="stable")[:NAMED]
        names = (divmod(int(i), chosen.shape[1]) for i in order)
        words = ", ".join(f"{i}.{h} {judged[i, h]:.2f}" for i, h in names)
        found.append(f"{row['relation']}, heads at {POSITIONS[position]}, layer.head and share still right: {words}")
    return found


FIGURE = Figure(
    "lm-where", "Where a language model reads facts", "beyond the paper: its discussion",
    f"Known facts about countries in {SMOLLM2.name} (preset smoke: in a made-up model of three layers). Top: answers "
    "that are still right when one layer's attention, or its MLP, is replaced at one token by its mean over the other "
    "prompts of the relation; the half of the subjects on which the layer was chosen and the half on which it is "
    "judged are drawn apart. Middle: the exact parts of the margin with the last norm's scale frozen, against the mean "
    "of the relation's answers and against the runner-up. Bottom: a sixth of all layers replaced together, and the "
    "share of attention, also against the best other answer of the relation.",
    PRESETS, cells, draw, says=lines,
    sees="A layer that matters is one without which answers fall.",
)  # fmt: skip

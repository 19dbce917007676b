"""The panels of `figure embeddings`."""

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np

from facthold.lab import Values, style
from facthold.measure.overlaps import Overlaps
from facthold.studies.embeddings.dimension import KINDS, LEARNED
from facthold.studies.embeddings.transfer import ARMS
from facthold.theory.bounds import welch

WORDS = {"sphere": "random", "spread": "spread evenly", LEARNED: "learned"}
PARTS = {
    "inputs": "inputs of a linear memory", "outputs": "outputs of a linear memory", "subjects": "subjects",
    "relations": "relations", "answers": "answers",
}  # fmt: skip
Group = tuple[str, list[Values], str]  # a name, rows, and the size that they differ in


def _memories(rows: Sequence[Values], kind: str, mlp: bool) -> list[Values]:
    return [r for r in rows if "ratio" in r and r["embeddings"] == kind and bool(r["ratio"]) == mlp]


def _facts(rows: Sequence[Values], kind: str, x: str) -> list[Values]:
    """Rows of tables that differ in S, or in R: those that share the other one with most."""
    ours, other = [r for r in rows if "beta" in r and r.get("embeddings") == kind], {"S": "R", "R": "S"}[x]
    shared = [r[other] for r in ours]
    return [r for r in ours if r[other] == max(shared, key=lambda value: (shared.count(value), -value))]


def growing(rows: Sequence[Values]) -> list[Group]:
    """Everything whose smallest dimension is searched over several sizes."""
    groups = [
        *((f"{'MLP' if mlp else 'linear'} memory, {WORDS[kind]}", _memories(rows, kind, mlp), "N")
          for mlp in (False, True) for kind in KINDS),
        *((f"transformer, {WORDS[kind]}, over {x}", _facts(rows, kind, x), x) for x in ("S", "R") for kind in KINDS),
    ]  # fmt: skip
    return [group for group in groups if group[1]]


def learned_overlaps(rows: Sequence[Values]) -> dict[str, list[Overlaps]]:
    """Of learned embeddings in the smallest dimension, by part and in the order of n: those of linear memories and of
    transformers, for each seed that found one."""
    found: dict[str, list[Overlaps]] = {}
    for r in rows:
        if r.get("embeddings") == LEARNED and not r.get("ratio"):
            for one in r["per_seed"]:
                for part, values in one.get("overlaps", {}).items():
                    found.setdefault(part, []).append(Overlaps(*values))
    kept = {
        part: sorted((p for p in points if math.isfinite(p.mean)), key=lambda p: p.n) for part, points in found.items()
    }
    return {part: kept[part] for part in PARTS if kept.get(part)}


def plot(rows: Sequence[Values]) -> "style.Canvas":
    canvas, axes = style.panels(8, width=4.6, height=4.0, rows=2)
    _held(axes[0], rows, "memories")
    _held(axes[1], rows, "facts")
    _overlaps(axes[2], rows)
    _largest(axes[3], rows)
    _dimension(axes[4], [g for g in growing(rows) if g[2] == "N"], "Smallest dimension of a memory", "associations $N$")
    for panel, x, name in ((axes[5], "S", "subjects $S$"), (axes[6], "R", "relations $R$")):
        _dimension(
            panel, [g for g in growing(rows) if g[2] == x], f"Smallest dimension of a transformer{_at(rows, x)}", name
        )
    _transfer(axes[7], [r for r in rows if "recall" in r])
    for panel in axes:
        if not panel.has_data():
            panel.text(0.5, 0.5, "nothing stored yet", ha="center", va="center", transform=panel.transAxes)
    return canvas


def _at(rows: Sequence[Values], x: str) -> str:
    """'(R = 4)', the size that all tables of a panel share."""
    other = {"S": "R", "R": "S"}[x]
    shared = {r[other] for kind in KINDS for r in _facts(rows, kind, x)}
    return f", ${other}={shared.pop()}$" if len(shared) == 1 else ""


def _bars(axes: "style.Axes", rows: Sequence[Values], label: str, mark: dict[str, Any], x: Any, y: Any) -> None:
    """Means over seeds, joined, with the smallest and the largest; nothing where a seed has none."""
    found = sorted((r for r in rows if r["d"] is not None), key=lambda r: fmean(_three(r, x)))
    if not found:
        return
    xs, ys = (np.array([_three(r, of) for r in found]).T for of in (x, y))
    axes.plot(xs[1], ys[1], label=label, markersize=5, linewidth=1, **mark)
    bars = [np.abs(of[[0, 2]] - of[1]) for of in (xs, ys)]
    axes.errorbar(xs[1], ys[1], xerr=bars[0], yerr=bars[1], color=mark["color"], linestyle="none", capsize=2)


def _three(r: Values, name: str) -> tuple[float, float, float]:
    """Smallest, mean and largest of what was searched; a size that was given, three times."""
    if f"{name}_min" in r:
        return r[f"{name}_min"], r[name], r[f"{name}_max"]
    given = r["S"] * r["R"] if name == "facts" else r[name]
    return given, given, given


def _mark(kind: str, mlp: bool) -> dict[str, Any]:
    number = KINDS.index(kind)
    return style.mark(number, number + 3 * mlp) | {"linestyle": "--" if mlp else "-"}


def _held(axes: "style.Axes", rows: Sequence[Values], what: str) -> None:
    title, y = {
        "memories": ("Associations a memory holds", "associations $N$"),
        "facts": (f"Facts a transformer holds{_at(rows, 'S')}", "facts $S\\,R$"),
    }[what]
    style.loglog(axes, title, "parameters, learned embeddings among them", y)
    if what == "facts":
        for kind in KINDS:
            _bars(axes, _facts(rows, kind, "S"), WORDS[kind], _mark(kind, False), "n_params", "facts")
    else:
        for mlp in (False, True):
            for kind in KINDS:
                label = f"{'MLP' if mlp else 'linear'}, {WORDS[kind]}"
                _bars(axes, _memories(rows, kind, mlp), label, _mark(kind, mlp), "n_params", "N")
    _headroom(axes, 3.0)
    style.legend(axes, loc="upper left", ncols=2, fontsize=7.5)


def _headroom(axes: "style.Axes", factor: float) -> None:
    """Room above what is drawn, for the legend."""
    if axes.has_data():
        low, high = axes.get_ylim()
        axes.set_ylim(low, high * (high / low if axes.get_yscale() == "log" else 1.0) ** 0.25 * factor)


def _overlaps(axes: "style.Axes", rows: Sequence[Values]) -> None:
    axes.set(title="Learned embeddings: mean overlap", xlabel="tokens per dimension $n/d$",
             ylabel="mean squared overlap, times $d$")  # fmt: skip
    style.frame(axes)
    parts = learned_overlaps(rows)
    for i, (part, points) in enumerate(parts.items()):
        style.points(axes, ((p.n / p.d, p.mean) for p in points), i, label=PARTS[part], linestyle="none")
    if parts:
        axes.axhline(1.0, **style.GUIDE | {"linestyle": ":"}, label="random directions")
        by_load = sorted({(p.n / p.d, p.d * welch(p.n, p.d)) for points in parts.values() for p in points})
        axes.plot(*zip(*by_load, strict=True), **style.GUIDE, label="Welch's bound")
        axes.set_ylim(0, 1.6 * max(1.0, *(p.mean for points in parts.values() for p in points)))
        style.doubling(axes)
    style.legend(axes, ncols=2, fontsize=7, loc="upper left")


def _largest(axes: "style.Axes", rows: Sequence[Values]) -> None:
    """The largest overlap of inputs: random, spread and learned ones of linear memories, each in its own dimension."""
    axes.set(title="Inputs of a linear memory: largest overlap", xlabel="tokens per dimension $n/d$",
             ylabel="largest overlap of two tokens", ylim=(0, 1.35))  # fmt: skip
    style.frame(axes)
    for i, kind in enumerate(KINDS):
        seeds = [one for r in _memories(rows, kind, False) for one in r["per_seed"] if "overlaps" in one]
        points = [Overlaps(*one["overlaps"]["inputs"]) for one in seeds]
        style.points(axes, ((p.n / p.d, p.largest) for p in points), i, label=WORDS[kind], linestyle="none")
    if axes.has_data():
        style.doubling(axes)
    style.legend(axes, loc="upper left", ncols=3)


def _dimension(axes: "style.Axes", groups: Sequence[Group], title: str, x: str) -> None:
    style.loglog(axes, title, x, "smallest dimension $d$")
    for name, ours, size in groups:
        kind, mlp = ours[0]["embeddings"], name.startswith("MLP")
        label = f"{'MLP' if mlp else 'linear'}, {WORDS[kind]}" if size == "N" else WORDS[kind]
        _bars(axes, ours, label, _mark(kind, mlp), size, "d")
    for kind, law, words, dashes in (("sphere", math.sqrt, "square root", "--"), (LEARNED, math.log, "logarithm", ":")):
        for _, ours, size in groups:
            found = [r for r in ours if r["embeddings"] == kind and r["d"] and not r.get("ratio")]
            if len(found) > 1:  # through the largest size
                last = max(found, key=lambda r: r[size])
                c = last["d"] / law(last[size])
                sizes = [r[size] for r in found]
                style.guide(axes, sizes, lambda n, c=c, law=law: c * law(n), words, linestyle=dashes)  # type: ignore[misc]
    _headroom(axes, 1.3)
    style.legend(axes, loc="upper left", ncols=2, fontsize=7.5)


def _transfer(axes: "style.Axes", rows: Sequence[Values]) -> None:
    rows = sorted(rows, key=lambda r: r["S"])
    axes.set(title="Embeddings of new subjects, learnt alone", xlabel="subjects that the frozen model was trained on",
             ylabel="recall of the new facts")  # fmt: skip
    style.frame(axes)
    if not rows:
        return
    style.doubling(axes)
    for i, (arm, words) in enumerate(ARMS.items()):
        points = [(r["S"], r["recall"][arm]) for r in rows if None not in r["recall"][arm]]
        for S, shares in points:
            axes.plot([S, S], [min(shares), max(shares)], color=style.mark(i)["color"], linewidth=1)
        style.points(axes, ((S, fmean(shares)) for S, shares in points), i, label=words)
    axes.axhline(1 / rows[0]["D"], **style.GUIDE | {"linestyle": ":"}, label="a guess among the relation's answers")
    axes.set_ylim(0, 1.65)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1.0])
    style.legend(axes, loc="upper left")

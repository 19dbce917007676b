"""The picture of memories with real embeddings, and the lines below it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from facthold.lab import Figure, Values, style
from facthold.lm.fetch import SMOLLM2
from facthold.studies.lm.embeddings import (
    ALIKE,
    ANY,
    OUTER,
    PRESETS,
    RANDOM,
    RAW,
    REAL,
    SOURCES,
    TRAINED,
    WHITENED,
    cells,
)
from facthold.studies.lm.embeddings_claims import at_least_found, spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAST = 2.0  # where "fewer than the search asks for" is drawn


def split(rows: Sequence[Values]) -> tuple[list[Values], list[Values]]:
    """Rows of constructions, and rows of trained memories."""
    trained = [r for r in rows if TRAINED in r["found"][REAL]]
    return [r for r in rows if r not in trained], trained


def draw(rows: Sequence[Values]) -> "style.Canvas":
    rows, trained = split(rows)
    canvas, axes = style.panels(4, width=4.6, height=4.0, rows=2)
    if trained:
        _draw(axes[3], trained, TRAINED, f"trained, in {trained[0]['sub']} random directions")
        style.legend(axes[3], loc="best")
    if not rows:
        return canvas
    _draw(axes[0], rows, OUTER, "outer products, from their means")
    layers = [r["layer"] for r in rows]
    style.guide(axes[0], layers, [max(r["predicted"], LEAST) for r in rows], r"random in $\sqrt{D_E D_U}$ dimensions")
    axes[0].axhline(rows[0]["predicted_random"], color="0.6", lw=1, label="random in d dimensions")
    _draw(axes[1], rows, WHITENED, "whitened on both sides")
    _draw(axes[2], rows, ANY, f"any matrix, in {rows[0]['sub']} random directions")
    for one in axes[:3]:
        style.legend(one, loc="best")
    return canvas


def _draw(axes: "Axes", rows: Sequence[Values], method: str, title: str) -> None:
    for i, source in enumerate(SOURCES):
        if method not in rows[0]["found"].get(source, ()):
            continue
        inside = [(r["layer"], s) for r in rows if (s := spread(r["found"][source][method])) is not None]
        if inside:
            mean, low, high = ([max(s[k], LEAST) for _, s in inside] for k in range(3))
            bars = [[m - a for m, a in zip(mean, low, strict=True)], [b - m for m, b in zip(mean, high, strict=True)]]
            axes.errorbar([x for x, _ in inside], mean, yerr=bars, **style.mark(i), ms=5, lw=1, capsize=3,
                          label=SOURCES[source])  # fmt: skip
        found = [(r, r["found"][source][method]) for r in rows]
        beyond = [(r["layer"], at_least_found(N, r["offered"])) for r, N in found if spread(N) is None]
        style.points(axes, beyond, i, marker="^", ls="none", label=f"{SOURCES[source]}: at least so many")
    axes.set(title=title, xlabel="layer whose stream is the key", ylabel="N of which 99% are recalled")
    axes.set_xticks([r["layer"] for r in rows])
    if method in (ANY, TRAINED):
        axes.set_ylim(bottom=0)
    else:
        axes.set_yscale("log")
    style.frame(axes)


def lines(rows: Sequence[Values]) -> list[str]:
    found, (rows, trained) = [], split(rows)
    for r in rows:
        each = [f"{name} {_number(r, source, method)}" for name, source, method in (
            ("outer product", REAL, OUTER), ("as they are", REAL, RAW), ("whitened", REAL, WHITENED),
            ("Gaussian of the same covariance", ALIKE, OUTER), ("that whitened", ALIKE, WHITENED),
            ("random", RANDOM, OUTER),
        )]  # fmt: skip
        found.append(
            f"layer {r['layer']}: participation ratio of keys {r['keys']:.1f}, of values {r['values']:.1f}, of "
            f"{r['d']} (of keys with their mean {r['whole']:.1f}); N {', '.join(each)}; predicted by the ratios "
            f"{r['predicted']:.0f}, by d {r['predicted_random']:.0f}; any matrix in {r['sub']} directions "
            f"{_number(r, REAL, ANY)}, random ones {_number(r, RANDOM, ANY)}"
        )
    return found + [
        f"layer {r['layer']}, trained in {r['sub']} directions: N {_number(r, REAL, TRAINED)}, random ones "
        f"{_number(r, RANDOM, TRAINED)}"
        for r in trained
    ]


def _number(row: Values, source: str, method: str) -> str:
    found = row["found"][source][method]
    s = spread(found)
    return (
        f"at least {at_least_found(found, row['offered'])}" if s is None else f"{s[0]:.0f} ({s[1]:.0f} to {s[2]:.0f})"
    )


FIGURE = Figure(
    "lm-embeddings", "Real embeddings against random ones", "section 3, with a real language model's embeddings",
    f"A linear memory of d x d weights added to {SMOLLM2.name} (preset smoke: to a made-up model of three layers): "
    "keys are streams at the last tokens of names of cities, values are unembeddings of as many tokens, f*(x) = x. The "
    "largest N of which 99% are recalled, beside Gaussian embeddings of the same covariance and random ones; the last "
    "panel: by training, of which 99% are recalled at some look. D: "
    "participation ratio, from the mean.",
    PRESETS, cells, draw, says=lines,
    sees="Real embeddings should hold fewer than random ones of the same dimension: their effective dimension is "
         "smaller.",
)  # fmt: skip

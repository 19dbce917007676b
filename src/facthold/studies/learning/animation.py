"""A run of facthold watch in pictures: the losses so far, and what the model answers."""

import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from facthold._util.errors import shorten
from facthold.lab import style
from facthold.lab.style import GUIDE, tick
from facthold.studies.learning.base import COLOURS, LOSSES

if TYPE_CHECKING:
    from facthold.dynamics.watching import Watching

FRAMES, PER_SECOND, AT_END = 48, 5, 8  # pictures at most, pictures per second, and how often the last is shown
WIDEST = 32  # letters of a name
VERDICTS = {
    "known": style.COLOURS[2], "hallucinated": style.COLOURS[4], "by chance": style.COLOURS[4],
    "anything": style.COLOURS[7],
}  # fmt: skip


def animation(watching: "Watching", name: str) -> bytes:
    """As GIF."""
    return animated(len(watching.steps), *_picture(watching, name))


def animated(n: int, canvas: "style.Canvas", show: Callable[[int], None]) -> bytes:
    """A picture that shows the first so many of n looks, as GIF. Frames are even in log steps: what happens early
    happens fast."""
    from matplotlib.animation import PillowWriter

    frames = np.unique(np.geomspace(1, n, min(n, FRAMES)).round().astype(int))
    writer = PillowWriter(fps=PER_SECOND)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.gif"
        with warnings.catch_warnings(), writer.saving(canvas, str(file), dpi=80):
            warnings.filterwarnings("ignore", message="Glyph")  # a letter that the font lacks is drawn as a box
            for looks in [*frames, *[n] * AT_END]:
                show(int(looks))
                writer.grab_frame()
        return file.read_bytes()


def _picture(watching: "Watching", name: str) -> "tuple[style.Canvas, Callable[[int], None]]":
    """Made once; a frame, shown by the number of its looks, only changes its lines and texts."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, NullFormatter

    every, last, levels = watching.schedule.protocol.check_every, watching.steps[-1], watching.levels
    shown = np.maximum(np.array(watching.steps, float), every / 2)  # step 0 has no place on a log axis
    canvas = Figure(figsize=(7.2, 4.6 + 0.28 * len(watching.questions)))
    height = 0.28 * len(watching.questions) / canvas.get_figheight()
    axes = canvas.add_axes((0.1, height + 0.14, 0.87, 0.79 - height))
    losses = {curve: watching.curve(curve) for curve in LOSSES}
    lines = {
        curve: axes.plot([], [], color=COLOURS[curve], label=label, linewidth=2.2 if curve == "loss" else 1.2)[0]
        for curve, label in LOSSES.items()
    }
    # each label where the curve is not: it is at the start on the left, and at a guess on the right
    marks = ((f"start: ln {watching.table.A} ", levels.start, last), (" hallucination", levels.relation, every / 2))
    for label, level, x in marks:
        axes.axhline(level, **GUIDE)
        side = "right" if x == last else "left"
        axes.text(x, level, label, va="bottom", ha=side, fontsize=9, color=GUIDE["color"])
    axes.set(xscale="log", xlim=(every / 2, max(last, every)), ylim=(0, levels.start * 1.12))
    axes.set(xlabel="step of training", ylabel="loss: cross entropy in nats")
    # plain numbers: powers as formulas take half the time of a frame
    axes.xaxis.set_major_formatter(FuncFormatter(lambda step, _: tick(step)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.legend(frameon=False, fontsize=9, loc="lower left")
    axes.spines[["top", "right"]].set_visible(False)
    answers = []
    for i, question in enumerate(watching.texts):
        y = height * (1 - (i + 0.5) / len(watching.questions)) + 0.01
        canvas.text(0.09, y, f"{shorten(question, WIDEST)}?", fontsize=11, va="center", parse_math=False)
        answers.append(canvas.text(0.5, y, "", fontsize=11, va="center", parse_math=False))

    def show(n: int) -> None:
        for curve, line in lines.items():
            line.set_data(shown[:n], losses[curve][:n])
        axes.set_title(f"{len(watching.table)} facts of {name}, step {watching.steps[n - 1]}")
        for text, answer, verdict in zip(answers, watching.said(n - 1), watching.verdicts(n - 1), strict=True):
            text.set(text=f"{shorten(answer, WIDEST)} ({verdict})", color=VERDICTS[verdict])

    return canvas, show

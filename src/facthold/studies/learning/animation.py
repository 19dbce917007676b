"""A run of facthold watch in pictures: the losses so far, and what the model says."""

import tempfile
import warnings
from pathlib import Path

import numpy as np
from matplotlib.animation import PillowWriter
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, NullFormatter

from facthold.dynamics.watching import Watching
from facthold.facts.formats import shorten
from facthold.lab.style import COLOURS, GUIDE

FRAMES, PER_SECOND, AT_END = 48, 5, 8
"""Pictures at most, how many a second, and how often the last is shown."""
WIDEST = 32
"""Letters of a name."""
CURVES = {"loss": "loss", "relation_loss": "relation-only loss", "subject_loss": "subject-only loss"}
VERDICTS = {"known": COLOURS[2], "hallucinated": COLOURS[4], "by chance": COLOURS[4], "anything": COLOURS[7]}


def animation(watching: Watching, name: str) -> bytes:
    """As GIF. Frames are even in log steps, as the axis is: what happens early happens fast."""
    n = len(watching.steps)
    frames = np.unique(np.geomspace(1, n, min(n, FRAMES)).round().astype(int))
    picture, writer = _Picture(watching, name), PillowWriter(fps=PER_SECOND)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.gif"
        with warnings.catch_warnings(), writer.saving(picture.canvas, str(file), dpi=80):
            warnings.filterwarnings("ignore", message="Glyph")  # a letter that the font lacks is drawn as a box
            for looks in [*frames, *[n] * AT_END]:
                picture.show(int(looks))
                writer.grab_frame()
        return file.read_bytes()


class _Picture:
    """Made once; a frame only changes its lines and texts."""

    def __init__(self, watching: Watching, name: str) -> None:
        self.watching, self.name = watching, name
        every, last, levels = watching.schedule.protocol.check_every, watching.steps[-1], watching.levels
        self.shown = np.maximum(np.array(watching.steps, float), every / 2)  # step 0 has no place on a log axis
        self.losses = {curve: watching.curve(curve) for curve in CURVES}
        self.canvas = Canvas(figsize=(7.2, 4.6 + 0.28 * len(watching.questions)))
        height = 0.28 * len(watching.questions) / self.canvas.get_figheight()
        self.axes = self.canvas.add_axes((0.09, height + 0.14, 0.88, 0.79 - height))
        self.lines = {
            curve: self.axes.plot([], [], color=colour, label=label, linewidth=2.2 if curve == "loss" else 1.2)[0]
            for (curve, label), colour in zip(CURVES.items(), COLOURS, strict=False)
        }
        # each label where the curve is not: it is at the start on the left, and at a guess on the right
        marks = ((f"start: ln {watching.table.A} ", levels.start, last), (" hallucination", levels.relation, every / 2))
        for label, level, x in marks:
            self.axes.axhline(level, **GUIDE)
            side = "right" if x == last else "left"
            self.axes.text(x, level, label, va="bottom", ha=side, fontsize=9, color=GUIDE["color"])
        self.axes.set(xscale="log", xlim=(every / 2, max(last, every)), ylim=(0, levels.start * 1.12))
        self.axes.set(xlabel="step", ylabel="cross entropy in nats")
        # plain numbers: powers as formulas take half the time of a frame
        self.axes.xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step:g}"))
        self.axes.xaxis.set_minor_formatter(NullFormatter())
        self.axes.legend(frameon=False, fontsize=9, loc="lower left")
        self.axes.spines[["top", "right"]].set_visible(False)
        self.said = []
        for i, question in enumerate(watching.questions):
            y = height * (1 - (i + 0.5) / len(watching.questions)) + 0.01
            self.canvas.text(0.09, y, f"{shorten(question.text, WIDEST)}?", fontsize=11, va="center", parse_math=False)
            self.said.append(self.canvas.text(0.5, y, "", fontsize=11, va="center", parse_math=False))

    def show(self, n: int) -> None:
        """The first n looks."""
        for curve, line in self.lines.items():
            line.set_data(self.shown[:n], self.losses[curve][:n])
        self.axes.set_title(f"{len(self.watching.table)} facts of {self.name}, step {self.watching.steps[n - 1]}")
        for text, said, verdict in zip(
            self.said, self.watching.said(n - 1), self.watching.verdicts(n - 1), strict=True
        ):
            text.set(text=f"{shorten(said, WIDEST)} ({verdict})", color=VERDICTS[verdict])

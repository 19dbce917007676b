"""The live view of facthold watch: the loss curve in braille, with its levels, and the questions below it."""

import math
import time
from itertools import groupby
from types import TracebackType

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from facthold.cli.watch_words import stage_words
from facthold.dynamics.watching import Watching

WIDTH, HEIGHT = 66, 10
"""Of the curve, in characters; each has 2 x 4 dots."""
DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""Bits of a braille character by column and row."""
FRAMES = 8
"""A second."""
STYLES = {"known": "green", "hallucinated": "yellow", "by chance": "yellow", "anything": "dim"}
PAUSE = 0.5
"""Seconds for which an answer stands, so that it can be read."""


class View:
    """Shows what was seen so far, some times a second, whatever the pace of the looks."""

    def __init__(self, watching: Watching, name: str, console: Console) -> None:
        self.watching, self.name = watching, name
        self.began, self.n = time.monotonic(), 0
        self.spoke, self.answered = 0.0, 0
        self.live = Live(get_renderable=self.draw, console=console, refresh_per_second=FRAMES, vertical_overflow="crop")

    def __enter__(self) -> "View":
        self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.spoke = 0.0  # the last picture stays: it has the last answers
        self.live.stop()

    def heard(self) -> None:
        """There is one look more; from now on it is shown."""
        self.n = len(self.watching.steps)

    def draw(self) -> RenderableType:
        seconds = time.monotonic() - self.began
        w, n = self.watching, self.n
        if not n:
            return Text(f"{len(w.table)} facts of {self.name}: compiling", style="dim")
        head = Text.assemble(
            (f"{len(w.table)} facts of {self.name}", "bold"),
            f"   step {w.steps[n - 1]} of at most {w.schedule.protocol.steps}"
            f"   loss {float(w.looks[n - 1]['loss']):.3f}   {seconds:.0f} s",
        )
        stage = stage_words(w, next(r.stage for r in reversed(w.reached) if r.look < n))
        said = Text.assemble(("now: ", "dim"), (stage, "bold"), " (compiling)" if n == 1 else "")
        return Group(head, *self._curve(n), said, self._questions(n))

    def _curve(self, n: int) -> list[Text]:
        """Losses over log steps, from 0 to the start's, and the levels as dotted lines."""
        w = self.watching
        top, first, last = w.levels.start * 1.05, w.schedule.protocol.check_every, w.schedule.protocol.steps
        x = _columns(np.array(w.steps[:n], float), first, last)
        y = _dot_rows(np.nan_to_num(w.curve("loss")[:n], nan=top), top)
        cells, levels = np.zeros((HEIGHT, WIDTH), int), np.zeros((HEIGHT, WIDTH), int)
        before = int(y[0])
        for i in range(int(x[-1]) + 1):  # no holes: each column has a dot, and where the curve is steep several
            j = int(np.interp(i, x, y))
            for k in range(min(before + 1, j), max(before - 1, j) + 1):
                cells[k // 4, i // 2] |= DOTS[i % 2][k % 4]
            before = j
        labels = {}
        for level, label in ((w.levels.start, f"ln {w.table.A}"), (w.levels.relation, "hallucination"), (0.0, "")):
            (j,) = _dot_rows(np.array([level]), top).astype(int)
            levels[j // 4, ::2] |= DOTS[0][j % 4]
            labels[j // 4] = (f"{level:.2f}", label)
        lines = []
        for i, row in enumerate(cells):
            number, label = labels.get(i, ("", ""))
            line = Text(f"{number:>6} ", style="dim", no_wrap=True, overflow="crop")
            room = WIDTH - len(label) if label and not row[WIDTH - len(label) - 1 :].any() else WIDTH
            here = groupby(zip(row[:room], levels[i, :room], strict=True), key=lambda dots: bool(dots[0]))
            for on_curve, dots in here:
                line.append("".join(_character(int(c or d)) for c, d in dots), style="bold cyan" if on_curve else "dim")
            lines.append(line.append(label if room < WIDTH else "", style="dim"))
        return [*lines, _axis(first, last)]

    def _questions(self, n: int) -> Table:
        w = self.watching
        grid = Table.grid(padding=(0, 2))
        for width in (26, 26, 12, 8):
            grid.add_column(max_width=width, no_wrap=True, overflow="ellipsis")
        grid.add_row(*(Text(title, style="dim") for title in ("question", "its answer", "", "p(right)")))
        if time.monotonic() - self.spoke > PAUSE:
            self.spoke, self.answered = time.monotonic(), n - 1
        said, verdicts = w.said(self.answered), w.verdicts(self.answered)
        sure = w.looks[self.answered]["p_right"]  # of the same look as the answer
        for question, answer, verdict, p in zip(w.questions, said, verdicts, sure, strict=True):
            style = STYLES[verdict]
            grid.add_row(Text(question.text), Text(answer, style=style), Text(verdict, style=style), f"{p:8.1%}")
        return grid


def _columns(steps: np.ndarray, first: int, last: int) -> np.ndarray:
    """Where these steps stand, in dots from the left; step 0 stands at the left edge."""
    share = np.log(np.maximum(steps, first / 2) / (first / 2)) / math.log(2 * last / first)
    return share * (2 * WIDTH - 1)


def _dot_rows(loss: np.ndarray, top: float) -> np.ndarray:
    """Where these losses stand, in dots from above."""
    return np.clip(np.round((1 - loss / top) * (4 * HEIGHT - 1)), 0, 4 * HEIGHT - 1)


def _character(dots: int) -> str:
    return chr(0x2800 + dots) if dots else " "


def _axis(first: int, last: int) -> Text:
    line = list(f"{'step':>6} 0".ljust(WIDTH + 7))
    for power in range(1, 10):
        label = str(10**power)
        place = 7 + int(_columns(np.array([10.0**power]), first, last)[0] / 2)
        if first <= 10**power <= last and place + len(label) <= len(line):
            line[place : place + len(label)] = label
    return Text("".join(line), style="dim", no_wrap=True, overflow="crop")

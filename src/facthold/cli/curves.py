"""Curves in a terminal: braille dots over the logarithm of steps, with levels as dotted lines."""

import math
from collections.abc import Sequence
from itertools import groupby

import numpy as np
from rich.text import Text

WIDTH = 66  # of a curve, in characters; each has 2 x 4 dots
MARGIN = 7  # characters left of it, for numbers
DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])  # bits of a braille character

Level = tuple[float, str, str]  # where it stands, the number left of it, and its name, right in it


def columns(steps: Sequence[int], every: int, last: int) -> np.ndarray:
    """Where these steps stand, in dots from the left, if they are seen ``every`` so many up to the last; step 0 stands
    at the left edge."""
    first = every / 2
    return np.log(np.maximum(steps, first) / first) / math.log(max(last, every) / first) * (2 * WIDTH - 1)


def axis(every: int, last: int) -> Text:
    """Powers of ten below a curve."""
    line = list(f"{'step':>{MARGIN - 1}} 0".ljust(WIDTH + MARGIN))
    for power in range(1, 10):
        label, place = str(10**power), MARGIN + int(columns([10**power], every, last)[0] / 2)
        if every <= 10**power <= last and place + len(label) <= len(line):
            line[place : place + len(label)] = label
    return Text("".join(line), style="dim", no_wrap=True, overflow="crop")


def curve(
    x: np.ndarray, values: np.ndarray, levels: Sequence[Level], *, top: float, height: int, style: str = "bold cyan"
) -> list[Text]:
    """Lines of a curve with these values from 0 to ``top`` at the columns x. A level that stands later in the list has
    the line, where two would share it."""
    on_curve, on_levels = np.zeros((2, 4 * height, 2 * WIDTH), bool)
    every = np.arange(int(x[-1]) + 1)
    rows = np.interp(every, x, _dot_rows(np.nan_to_num(values, nan=top), top, height)).astype(int)
    for i, j, before in zip(every, rows, [rows[0], *rows], strict=False):
        on_curve[min(before + 1, j) : max(before - 1, j) + 1, i] = True  # no holes where the curve is steep
    labels = {}
    for level, number, label in levels:
        row = int(_dot_rows(np.array(level), top, height))
        on_levels[row, ::4] = True
        labels[row // 4] = (number, label)
    lines = []
    for row, (here, there) in enumerate(zip(_braille(on_curve), _braille(on_levels), strict=True)):
        number, label = labels.get(row, ("", ""))
        room = WIDTH - len(label)
        if here[max(room - 1, 0) :].any():  # the label would stand in the curve
            room, label = WIDTH, ""
        line = Text(no_wrap=True, overflow="crop").append(f"{number:>{MARGIN - 1}} ", style="dim")
        for is_curve, cells in groupby(zip(here[:room], there[:room], strict=True), lambda c: bool(c[0])):
            text = "".join(chr(0x2800 + int(a or b)) if a or b else " " for a, b in cells)
            line.append(text, style=style if is_curve else "dim")
        lines.append(line.append(label, style="dim"))
    return lines


def _dot_rows(values: np.ndarray, top: float, height: int) -> np.ndarray:
    """Where these values stand, in dots from above."""
    return np.clip(np.round((1 - values / top) * (4 * height - 1)), 0, 4 * height - 1)


def _braille(dots: np.ndarray) -> np.ndarray:
    """The dots of each character, as its number after the first one of braille."""
    return np.einsum("iajb,ab->ij", dots.reshape(-1, 4, WIDTH, 2), DOTS)

"""A run of facthold watch --induction in pictures: its accuracy beside rules without induction, and the probes."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from facthold.lab import style
from facthold.studies.context.induction import PROBES, RULES
from facthold.studies.learning.animation import animated

if TYPE_CHECKING:
    from facthold.knowledge.probing import Probing


def animation(probing: "Probing", name: str) -> bytes:
    """As GIF."""
    return animated(len(probing.steps), *_picture(probing, name))


def _picture(probing: "Probing", name: str) -> "tuple[style.Canvas, Callable[[int], None]]":
    canvas, (left, right) = style.panels(2, width=4.8, height=3.8)
    steps, last = probing.steps, max(probing.steps[-1], 1)
    lines = {"accuracy": left.plot([], [], color=style.COLOURS[0], linewidth=2.2, label="trained")[0]}
    for i, (rule, words) in enumerate(RULES.items()):
        level = probing.baselines[rule]
        left.axhline(level, **style.GUIDE | {"linestyle": ("--", ":", "-.")[i]}, label=f"{words}: {level:.0%}")
    for i, (matrix, words) in enumerate(PROBES.items()):
        lines[matrix] = right.plot([], [], color=style.COLOURS[i], linewidth=1.8, label=words)[0]
    left.set(ylabel="share right of outputs that the context tells")
    right.set(title="memory recall probes", ylabel="share of associations recalled")
    for axes in (left, right):
        axes.set(xlabel="step", xlim=(0, last), ylim=(0, 1.02))
        axes.legend(frameon=False, fontsize=8, loc="center right")
        style.frame(axes)

    def show(n: int) -> None:
        for curve, line in lines.items():
            line.set_data(steps[:n], probing.curve(curve)[:n])
        left.set_title(f"{name}, step {steps[n - 1]}", parse_math=False)

    return canvas, show

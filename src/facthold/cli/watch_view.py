"""What facthold watch says of a run, and its live view: the loss curve in braille, its levels, and the questions."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from facthold._util.errors import FactholdError, shorten
from facthold._util.files import GIF, TABLE, check_ending
from facthold.cli import curves
from facthold.cli.printing import count
from facthold.dynamics.stages import CONVERGED, Rest

if TYPE_CHECKING:
    from facthold.dynamics.watching import Watching

FRAMES = 8  # pictures of a live view per second
HEIGHT = 10  # of the curve, in characters
STYLES = {"known": "green", "hallucinated": "yellow", "by chance": "yellow", "anything": "dim"}
PAUSE = 0.5  # seconds for which an answer stands, so that it can be read
SAID = 2  # questions whose answers stand in a line about a stage
STAGES = {
    "start": "start, every answer is as likely as any other",
    "left": "the loss leaves its start",
    "relation": "hallucination, it knows what is asked and not of whom",
    "subject": "it knows of whom is asked and not what",
    "beyond": "it begins to tell {others} apart",
    "learnt": "the facts are learnt",
}
OTHERS = {"relation": "subjects", "subject": "relations"}
GUESS = {"relation": "the mean entropy of p*(a | r): hallucination", "subject": "the mean entropy of p*(a | s)"}
ADVICE = {
    True: "take more --steps",
    False: "some answers serve two relations, and linear attention may not hold all such facts; "
    "take other --relations, or more --steps",
}
"""For a run that did not converge, by whether the table has assumption 1."""


@contextmanager
def shown(draw: Callable[[], RenderableType], quiet: bool) -> Iterator[bool]:
    """Whether what is drawn is shown live: on a terminal, unless all is to be quiet."""
    console = Console(highlight=False)
    live = not quiet and console.is_terminal and not console.is_dumb_terminal
    view = Live(get_renderable=draw, console=console, refresh_per_second=FRAMES, vertical_overflow="crop")
    with view if live else nullcontext():
        yield live


def paths(output: Path) -> list[Path]:
    """NAME.csv and NAME.gif."""
    if output.is_dir():
        raise FactholdError(f"output={output} is a folder; give the name of a file")
    base = output.with_suffix("") if output.suffix.lower() in (".gif", ".csv") else output
    check_ending(base, f"{GIF} and {TABLE}")
    return [base.with_name(f"{base.name}{ending}") for ending in (".csv", ".gif")]


def stage_words(watching: "Watching", stage: str) -> str:
    """A stage in words; which tokens are told apart last depends on which came first."""
    first = next((reached for reached in watching.reached if reached in OTHERS), "relation")
    return STAGES[stage].format(others=OTHERS[first])


def stage_line(watching: "Watching", stage: str) -> str:
    """A stage that was just reached, with what the model answers there."""
    look = watching.reached[stage]
    asked = zip(watching.texts[:SAID], watching.said(look), strict=False)
    answers = "; ".join(f"{shorten(question)}? {shorten(said)}" for question, said in asked)
    loss = loss_of(watching, look)
    return f"step {watching.steps[look]}, loss {loss:.3g}: {stage_words(watching, stage)} ({answers})"


def loss_of(watching: "Watching", look: int) -> float:
    """The loss at a look; 0 where rounding has left -0."""
    return float(watching.looks[look]["loss"]) + 0.0


def closing(watching: "Watching", seconds: float) -> dict[str, Any]:
    """How a run ended, as JSON values and in words."""
    last, table, stages = watching.looks[-1], watching.table, watching.stages
    n_right = round(float(last["accuracy"]) * len(table))
    after = f"after {count(watching.steps[-1], 'step')} in {seconds:.0f} s"
    says = [f"{n_right} of {count(len(table), 'fact')} recalled {after}", _story(watching)]
    if stages.converged is None:
        says.append(f"not converged: {ADVICE[table.assumption_1]}")
    return {
        "n_facts": len(table), "steps": watching.steps[-1], "seconds": seconds, "loss": loss_of(watching, -1),
        "recalled": n_right, "levels": vars(watching.levels), "stages": stages.values,
        "answers": dict(zip(watching.texts, watching.said(-1), strict=True)), "says": says,
    }  # fmt: skip


def _story(watching: "Watching") -> str:
    """What the loss did, at the steps where it was seen."""
    stages, seen_at = watching.stages, lambda t: watching.steps[int(np.searchsorted(watching.steps, t))]
    story = f"the loss began at {watching.levels.start:.3g} = ln {watching.table.A}"
    if stages.left is None:
        return f"{story} and has not left it"
    kind = stages.resting or "relation"
    rest: Rest = getattr(stages, kind)
    level = f"{rest.level:.3g} ({GUESS[kind]})"
    if rest.begins is None:
        at_rest = f"has not come down to {level}"
    elif rest.ends is None:
        at_rest = f"came to {level} at step {seen_at(rest.begins)} and has not left it"
    else:
        until = f"from step {seen_at(rest.begins)} to step {seen_at(rest.ends)}"
        at_rest = f"rested at {level} {until}" if rest.seen else f"passed {level} {until}, too quickly for a rest"
    end = f"is now at {loss_of(watching, -1):.3g}"
    if stages.converged is not None:
        end = f"fell below {CONVERGED:g} at step {seen_at(stages.converged)}"
    return f"{story}, left it at step {seen_at(stages.left)}, {at_rest}, and {end}"


class View:
    """Shows what was seen so far, whatever the pace of the looks."""

    def __init__(self, watching: "Watching", name: str) -> None:
        self.watching, self.name = watching, name
        self.n = 0  # looks that are shown
        self.began, self.spoke, self.answered = time.monotonic(), 0.0, 0

    def draw(self) -> RenderableType:
        w, n = self.watching, self.n
        facts = f"{count(len(w.table), 'fact')} of {self.name}"
        if not n:
            return Text(f"{facts}: compiling", style="dim")
        head = Text.assemble(
            (facts, "bold"),
            f"   step {w.steps[n - 1]} of at most {w.schedule.protocol.steps}"
            f"   loss {loss_of(w, n - 1):.3f}   {time.monotonic() - self.began:.0f} s",
        )
        stage = stage_words(w, [s for s, look in w.reached.items() if look < n][-1])
        now = Text.assemble(("now: ", "dim"), (stage, "bold"), " (compiling)" if n == 1 else "")
        return Group(head, *self._curve(n), curves.axis(*self._range), now, self._questions(n))

    def _curve(self, n: int) -> list[Text]:
        """Losses over log steps, from 0 to the start's, and the levels as dotted lines."""
        w, top = self.watching, self.watching.levels.start * 1.05
        named = ((w.levels.start, f"ln {w.table.A}"), (w.levels.relation, "hallucination"), (0.0, ""))
        levels = [(level, f"{level:.2f}", label) for level, label in named]
        x = curves.columns(w.steps[:n], *self._range)
        return curves.curve(x, w.curve("loss")[:n], levels, top=top, height=HEIGHT)

    @property
    def _range(self) -> tuple[int, int]:
        protocol = self.watching.schedule.protocol
        return protocol.check_every, protocol.steps

    def _questions(self, n: int) -> Table:
        w = self.watching
        grid = Table.grid(padding=(0, 2))
        for width in (26, 26, 12, 8):
            grid.add_column(max_width=width, no_wrap=True, overflow="ellipsis")
        grid.add_row(*(Text(title, style="dim") for title in ("question", "its answer", "", "p(right)")))
        if time.monotonic() - self.spoke > PAUSE:
            self.spoke, self.answered = time.monotonic(), n - 1
        look = self.answered
        rows = zip(w.texts, w.said(look), w.verdicts(look), w.looks[look]["p_right"], strict=True)
        for question, answer, verdict, p in rows:
            style = STYLES[verdict]
            grid.add_row(Text(question), Text(answer, style=style), Text(verdict, style=style), f"{p:8.1%}")
        return grid

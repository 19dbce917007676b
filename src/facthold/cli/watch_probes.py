"""facthold watch --induction: an induction head being learnt, and the probes of its memories as they turn on."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from facthold._util.files import GIF, as_csv, table_of, writing
from facthold.cli import curves
from facthold.cli.app import check_apart
from facthold.cli.ending import heed
from facthold.cli.inputs import say_replaced, writable_file
from facthold.cli.printing import count, messages, paragraph, print_json, working
from facthold.cli.texts import counted, foretell_head
from facthold.cli.watch_view import paths, shown
from facthold.knowledge.probing import CURVES, RULES, Probing
from facthold.knowledge.settings import PROBES, Settings

if TYPE_CHECKING:
    from facthold.knowledge.induction import Induction

HEIGHTS = {"accuracy": 5, "W_OV^2": 3, "W_KQ^2": 3, "W_KQ^1": 3}  # in characters
TITLES = {
    "accuracy": "outputs that the context tells, predicted", "W_OV^2": "W_OV^2, token to output",
    "W_KQ^2": "W_KQ^2, trigger to what follows it", "W_KQ^1": "W_KQ^1, position to the one before",
}  # fmt: skip
BY = {"bigram": "global bigrams", "mode": "most frequent output so far", "counts": "counts of characters"}
STYLES = {"accuracy": "bold cyan", "W_OV^2": "green", "W_KQ^2": "yellow", "W_KQ^1": "magenta"}


def watch_induction(text: Path | None, settings: Settings, output: Path | None, json: bool) -> None:
    """Train on a text and show what was seen; keep it in NAME.csv and NAME.gif."""
    if output is not None:
        for path, kind in zip(paths(output), (table_of(("step", *CURVES)), GIF), strict=True):
            check_apart({"text": text, "output": path})
            writable_file(path, kind)
    bigrams, name = counted(text, settings)
    foretell_head(bigrams, settings, "--steps, -T or -d")
    say_replaced(*([] if output is None else paths(output)))
    from facthold.knowledge.induction import Lesson

    began = time.perf_counter()
    with working("drawing the sequences that it is judged on"):
        lesson = Lesson.of(bigrams, settings)
    probing = Probing(settings, lesson.baselines)
    try:
        with _showing(probing, name, json) as heard:
            made = lesson.learnt(heard)
    except KeyboardInterrupt:
        if output is not None and probing.steps:
            kept = " and ".join(map(str, _save(probing, name, output)))
            messages.print(f"kept what was seen up to step {probing.steps[-1]}: {kept}", markup=False)
        raise
    about = _closing(probing, made, time.perf_counter() - began)
    files = [] if output is None else _save(probing, name, output)
    if json:
        sizes = {"K": made.task.K, "T": settings.T, "d": settings.dimension}
        print_json({"text": name, **sizes, **about} | ({"files": files} if files else {}))
        return
    paragraph("\n".join(about["says"]))
    for path in files:
        typer.echo(f"wrote {path}")


@contextmanager
def _showing(probing: Probing, name: str, quiet: bool) -> Iterator[Callable[[int, float, dict[str, Any]], None]]:
    """What hears of each evaluation: a live view on a terminal, a line for each stage elsewhere."""
    view = ProbesView(probing, name)
    with shown(view.draw, quiet) as live:

        def heard(steps: int, accuracy: float, seen: dict[str, Any]) -> None:
            heed()
            new = probing.add(steps, seen)
            view.n = len(probing.steps)
            for stage in [] if quiet or live else new:
                paragraph(stage_line(probing, stage))

        if not (quiet or live):
            s = probing.settings
            paragraph(
                f"{name}: two layers of attention with d={s.dimension} on sequences of T={s.T}; Adam with lr {s.lr:g}, "
                f"{count(s.protocol.steps, 'step')} of {count(s.batch, 'sequence')}"
            )
        yield heard


def stage_words(probing: Probing, stage: str) -> str:
    if stage == "start":
        return "start, all memories are random"
    if stage in PROBES:
        return f"{TITLES[stage]}: half of its associations are held"
    return f"better than by the {BY[stage]}, {probing.baselines[stage]:.1%}"


def stage_line(probing: Probing, stage: str) -> str:
    """A stage that was just reached, and what the probes are there."""
    i = probing.reached[stage]
    probes = ", ".join(f"{name} {probing.looks[i][name]:.2f}" for name in PROBES)
    return f"step {probing.steps[i]}, {_share(probing.looks[i])} right: {stage_words(probing, stage)} ({probes})"


def _share(look: dict[str, float]) -> str:
    """The accuracy of a look, in whose sequences nothing may be told."""
    return "none" if look["accuracy"] != look["accuracy"] else f"{look['accuracy']:.1%}"


def _closing(probing: Probing, made: "Induction", seconds: float) -> dict[str, Any]:
    """How a run ended, as JSON values and in words."""
    halves = {name: probing.half_of_final(name) for name in PROBES}
    rules = ", ".join(f"{made.baselines[rule]:.1%} by the {BY[rule]}" for rule in BY)
    when = {name: "not learnt" if at is None else f"half of that at step {at}" for name, at in halves.items()}
    turned = "; ".join(f"{name} {made.probes[name]:.2f}, {when[name]}" for name in PROBES)
    says = [
        f"right: {made.accuracy:.1%} +- {made.error:.1%} of {made.judged:,} outputs in fresh sequences, after "
        f"{count(probing.steps[-1], 'step')} in {seconds:.0f} s (without induction: {rules})",
        f"probes at the end: {turned}",
    ]
    return {
        "steps": probing.steps[-1], "seconds": seconds, "accuracy": made.accuracy, "accuracy_error": made.error,
        "judged": made.judged, "baselines": made.baselines, "probes": made.probes, "half_of_final": halves,
        "stages": {stage: probing.steps[i] for stage, i in probing.reached.items()}, "curves": made.curves,
        "says": says,
    }  # fmt: skip


class ProbesView:
    """Curves of the accuracy and of each probe, one below the other."""

    def __init__(self, probing: Probing, name: str) -> None:
        self.probing, self.name = probing, name
        self.n = 0  # looks that are shown
        self.began = time.monotonic()

    def draw(self) -> RenderableType:
        p, n = self.probing, self.n
        if not n:
            return Text(f"{self.name}: compiling", style="dim")
        protocol = p.settings.protocol
        head = Text.assemble(
            (self.name, "bold"), f"   step {p.steps[n - 1]} of {protocol.steps}   {time.monotonic() - self.began:.0f} s"
        )
        last = [stage for stage, look in p.reached.items() if look < n][-1]
        now = Text.assemble(("now: ", "dim"), (stage_words(p, last), "bold"), " (compiling)" if n == 1 else "")
        panels = [line for name in CURVES for line in self._panel(name, n)]
        return Group(head, *panels, curves.axis(protocol.check_every, protocol.steps), now)

    def _panel(self, name: str, n: int) -> list[Text]:
        p, protocol = self.probing, self.probing.settings.protocol
        values = p.curve(name)[:n]
        value = "" if values[-1] != values[-1] else f"{values[-1]:.2f}"
        title = Text(no_wrap=True, overflow="crop").append(f"{value:>6} ", style=STYLES[name]).append(TITLES[name])
        levels: list[curves.Level] = [(0.0, "0", "")]
        if name == "accuracy":
            levels += [(p.baselines[rule], f"{p.baselines[rule]:.2f}", BY[rule]) for rule in RULES]
        x = curves.columns(p.steps[:n], protocol.check_every, protocol.steps)
        return [title, *curves.curve(x, values, levels, top=1.0, height=HEIGHTS[name], style=STYLES[name])]


def _save(probing: Probing, name: str, output: Path) -> list[Path]:
    from facthold.studies.context.animation import animation

    (table, gif), rows = paths(output), probing.as_rows()
    with writing(table, table_of(rows[0])) as stream:
        stream.write(as_csv(rows).encode())
    with working(f"drawing {gif}"), writing(gif, GIF) as stream:
        stream.write(animation(probing, name))
    return [table, gif]

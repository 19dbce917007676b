"""facthold induction: an induction head for a text, and what it predicts where and why."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from facthold._util.files import OF_TEXT
from facthold.cli import options as o
from facthold.cli.app import command
from facthold.cli.ending import heed
from facthold.cli.induction_view import about_prediction, say_found, say_sequence
from facthold.cli.inputs import refuse, say_replaced, writable_file
from facthold.cli.printing import count, print_json, working
from facthold.cli.texts import SHIPPED, counted, foretell_head
from facthold.knowledge.settings import BUILT, PROBES, Settings, check_sequence

if TYPE_CHECKING:
    from facthold.knowledge.induction import Induction

DEFAULT = Settings()


@command()
def induction(
    text: Annotated[
        Path | None,
        typer.Argument(help=f"A text in UTF-8, of any length (default: the counts of {SHIPPED}).", show_default=False),
    ] = None,
    K: o.Triggers = None,
    triggers: str | None = o.option("--triggers", "These characters instead, such as: 'aeiou'."),
    random: bool = o.flag("--random", "Other triggers in each sequence, drawn by their frequency."),
    T: o.SequenceLength = None,
    d: o.HeadDimension = None,
    steps: int | None = o.option("--steps", f"Training steps (default: {DEFAULT.steps})."),
    batch: int | None = o.option("--batch", f"Sequences in a step (default: {DEFAULT.batch})."),
    lr: float | None = o.option("--lr", f"Learning rate of Adam, which falls to zero (default: {DEFAULT.lr:g})."),
    built: bool = o.flag(
        "--built", f"The construction of the slides instead of training: seconds (default: -d {BUILT})."
    ),
    prompt: str | None = o.option("--prompt", "Ask about this text, and not about a fresh sequence."),
    all: bool = o.flag("--all", "Every output that the context tells, and not only some."),
    model: Annotated[
        Path | None, o.named("--model", "Ask a model that -o has written; nothing is trained.", metavar="FILE")
    ] = None,
    seed: o.Seed = 0,
    output: o.ModelFile = None,
    json: o.Json = False,
) -> None:
    """Train the two layers of the slides on the bigram task of a text: after a trigger always comes the same
    character, another one in each sequence. Then show a fresh sequence, what the model predicts in it, and where its
    heads look.

    Only the context tells what follows a trigger, from its second occurrence on; that is what is judged, on sequences
    that took no part in training.
    """
    given: dict[str, Any] = {"K": K, "T": T, "d": d, "triggers": triggers, "random": random, "built": built}
    training: dict[str, Any] = {"steps": steps, "batch": batch, "lr": lr}
    if model is not None:
        why = f"does not go with --model {model}: it is made already"
        if random or built:
            raise ValueError(f"{'--random' if random else '--built'} {why}")
        refuse(why, text=text, **given, **training, output=output)
        made, name, seconds = _loaded(model), f"the text of {model}", None
    else:
        if built:
            refuse("is about training, and does not go with --built", **training)
        chosen = {name: value for name, value in {**given, **training}.items() if value is not None}
        settings = Settings(seed=seed, **chosen)
        writable_file(output, OF_TEXT)
        made, name, seconds = _made(text, settings, prompt, output)
    sequence, own = made.draw(seed) if prompt is None else (prompt, made.triggers)
    predictions = made.predict(sequence, own)
    about = _about(made, name, seconds) | {
        "sequence": sequence, "sequence_triggers": own, "predictions": [about_prediction(p) for p in predictions],
    }  # fmt: skip
    if not json:
        say_found(about)
        say_sequence(predictions, own, asked=prompt is not None, all=all)
    if output is not None:
        about["file"] = str(made.save(output))
        if not json:
            typer.echo(f"model: {output}")
    if json:
        print_json(about)


def _loaded(path: Path) -> "Induction":
    from facthold.knowledge.induction import Induction

    return Induction.load(path)


def _made(
    text: Path | None, settings: Settings, prompt: str | None, output: Path | None
) -> tuple["Induction", str, float]:
    """The model, what its text is called, and the seconds that it took."""
    bigrams, name = counted(text, settings)
    if prompt is not None:  # before it takes minutes
        check_sequence(prompt, bigrams, settings.T)
    foretell_head(bigrams, settings, "-T or -d" if settings.built else "--steps, --batch, -T or -d")
    say_replaced(output)
    from facthold.knowledge.induction import Lesson

    began = time.perf_counter()
    with working("building" if settings.built else f"training {count(settings.protocol.steps, 'step')}") as say:
        made = Lesson.of(bigrams, settings).learnt(_news(say))
    return made, name, time.perf_counter() - began


def _news(say: Callable[[str], None]) -> Callable[[int, float, dict[str, Any]], None]:
    def heard(steps: int, accuracy: float, seen: dict[str, Any]) -> None:
        heed()
        probes = ", ".join(f"{name} {seen[name]:.2f}" for name in PROBES)
        say(f"step {steps}: {accuracy:.1%} right; probes {probes}")

    return heard


def _about(made: "Induction", name: str, seconds: float | None) -> dict[str, Any]:
    settings, N = made.settings, made.bigrams.N
    training = {} if settings.built else {
        "steps": settings.protocol.steps, "batch": settings.batch, "lr": settings.lr,
    }  # fmt: skip
    return {
        "text": name, "N": N, "characters": int(made.bigrams.unigrams.sum()), "triggers": made.triggers,
        "K": made.task.K, "T": settings.T, "d": settings.dimension, "seed": settings.seed, "built": settings.built,
        **training,
        "accuracy": made.accuracy, "accuracy_error": made.error, "judged": made.judged, "baselines": made.baselines,
        "probes": made.probes, "curves": made.curves, **({} if seconds is None else {"seconds": seconds}),
    }  # fmt: skip

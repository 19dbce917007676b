"""facthold watch: facts being learnt, live."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from facthold._util.errors import FactholdError
from facthold._util.files import writing
from facthold.cli.app import app
from facthold.cli.basics import JsonOption, count, interrupted, print_json, writable
from facthold.cli.fact_tables import OnConflictOption
from facthold.cli.messages import messages, working
from facthold.cli.watch_view import View
from facthold.cli.watch_words import closing, stage_line
from facthold.dynamics.schedule import ALPHA, OPTIMISERS, safe_step, schedule
from facthold.dynamics.stages import Levels, find_stages
from facthold.dynamics.start import SMALLEST
from facthold.dynamics.watching import SHOWN, Question, Reached, Watching, choose_questions, find_question
from facthold.dynamics.watching import watch as train
from facthold.facts.files import read_facts
from facthold.facts.names import Names
from facthold.facts.real import SOURCES, find_source, sample_subjects, tally
from facthold.facts.table import FactTable
from facthold.facts.writing import Row

DEFAULT = "countries"
RELATIONS = {DEFAULT: ("capital", "currency", "language", "region")}
"""What is taken of a source where nothing is said: a run of less than a minute."""
QUESTIONS = {DEFAULT: ("France, capital", "Japan, currency", "Brazil, language", "Kenya, region")}
METHODS = {"sgd": "gradient descent", "adam": "Adam"}
MOST_LR = 10**6
MOST_QUESTIONS = 5
"""More do not fit below the curve."""


@app.command()
def watch(
    facts: Annotated[
        str,
        typer.Argument(metavar="[FILE|NAME]", help=f"A file of facts, or real facts by name: {', '.join(SOURCES)}."),
    ] = DEFAULT,
    relations: Annotated[
        str | None, typer.Option("--relations", help="These alone, with commas between: capital,currency.")
    ] = None,
    subjects: Annotated[int | None, typer.Option("--subjects", help="A random sample of so many subjects.")] = None,
    question: Annotated[
        list[str] | None,
        typer.Option("--question", help=f"Ask this at each look: 'France, capital'. Up to {MOST_QUESTIONS} of them."),
    ] = None,
    lr: Annotated[
        float | None, typer.Option("--lr", help="Length of a step (default: from how far the loss can bend).")
    ] = None,
    steps: Annotated[
        int | None, typer.Option("--steps", help="Steps at most (default: twice what the table should need).")
    ] = None,
    alpha: Annotated[float, typer.Option("--alpha", help="Every weight at the start.")] = ALPHA,
    optimiser: Annotated[str, typer.Option("--optimiser", help=f"{' or '.join(OPTIMISERS)}.")] = OPTIMISERS[0],
    seed: Annotated[int, typer.Option("--seed", help="Seed of the sample, the questions and the answers drawn.")] = 0,
    on_conflict: OnConflictOption = None,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="NAME", help="Keep NAME.gif, the run in pictures, and NAME.csv.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Watch facts being learnt by linear attention (section 5): first it says anything, then a plausible answer
    (hallucination), then the fact.

    An answer is the one with most of the probability, or else one that is drawn, anew at each look.
    """
    _check(lr, steps, alpha, subjects, question or [], save)
    if save is not None and _paths(save)[0].resolve() == Path(facts).resolve():
        raise FactholdError(f"--save {save} would write over {facts}; give another name")
    table, name = _read(facts, relations, subjects, seed, on_conflict)
    plan = schedule(table, alpha=alpha, lr=lr, steps=steps, optimiser=optimiser)
    watching = Watching(table, _questions(table, question or [], facts, seed), plan, _levels(table, name))
    began = time.perf_counter()
    try:
        with _showing(watching, name, json) as heard:
            train(watching, seed=seed, heard=heard)
    except KeyboardInterrupt:
        _keep(watching, name, save)
        raise
    if problem := watching.stages.problem:
        _keep(watching, name, save)
        safe = plan.protocol.lr / 2 if lr is None else min(lr / 2, safe_step(table, optimiser))
        raise FactholdError(f"{problem}, such as --lr {safe:.2g}")
    found = closing(watching, time.perf_counter() - began)
    if save is not None:
        found["files"] = [str(path) for path in _save(watching, name, save)]
    if json:
        print_json({"facts": name, "lr": plan.protocol.lr, "alpha": alpha, "optimiser": optimiser, **found})
    else:
        for line in found["says"]:
            typer.echo(line)
        for path in found.get("files", []):
            typer.echo(f"wrote {path}")


def _check(
    lr: float | None, steps: int | None, alpha: float, subjects: int | None, questions: Sequence[str], save: Path | None
) -> None:
    if lr is not None and not 0 < lr <= MOST_LR:
        raise ValueError(f"--lr {lr:g} must be above 0 and at most {MOST_LR}")
    if not SMALLEST <= alpha <= 1:
        raise ValueError(f"--alpha {alpha:g} must lie between {SMALLEST:g} and 1")
    for option, number in (("--steps", steps), ("--subjects", subjects)):
        if number is not None and number < 1:
            raise ValueError(f"{option} {number} must be at least 1")
    if len(questions) > MOST_QUESTIONS:
        raise ValueError(f"{len(questions)} times --question is too often; ask at most {MOST_QUESTIONS}")
    if save is not None:
        if save.is_dir():
            raise FactholdError(f"--save {save} is a folder; give the name of the two files in it")
        writable(save.parent, "--save")


def _read(
    facts: str, relations: str | None, subjects: int | None, seed: int, on_conflict: str | None
) -> tuple[FactTable, str]:
    """The table to learn, and what to call it."""
    if on_conflict == "all":
        raise ValueError("--on-conflict all: a model is trained on one answer to a question; take --on-conflict first")
    conflict = on_conflict or "error"
    wanted = None if relations is None else [name.strip() for name in relations.split(",")]
    if facts not in SOURCES and (Path(facts).suffix or Path(facts).exists()):
        table, p = read_facts(facts, conflict)
        if p is not None:
            messages.print(f"{facts} has a column p, which is not used: each fact is asked equally often", markup=False)
        rows, name = _rows(table, wanted), Path(facts).name
    else:
        source, name = find_source(facts), facts
        rows = source.facts(wanted if wanted is not None else RELATIONS.get(facts))
        if not rows:
            raise FactholdError(f"{source.versions} has no facts of {relations}; take other --relations")
        if tally(rows)["several"] and conflict == "error":
            raise FactholdError(f"{relations} of {facts} has several answers to a question; take --on-conflict first")
    if subjects is not None:
        rows = sample_subjects(rows, subjects, seed)
    table = FactTable.from_rows(rows, conflict)
    if table.R == 1:
        raise FactholdError(f"{name} has one relation here, so that to know it is to know nothing; take two or more")
    return table, name


def _rows(table: FactTable, wanted: Sequence[str] | None) -> list[Row]:
    """The facts of these relations, as texts: what is left out must leave no answer behind that could be said."""
    subjects, relations, answers = Names.of(table)
    taken = range(table.R) if wanted is None else [relations.find(name) for name in wanted]
    columns = zip(table.subjects, table.relations, table.answers, strict=True)
    return [(subjects[s], relations[r], answers[a]) for s, r, a in columns if r in taken]


def _levels(table: FactTable, name: str) -> Levels:
    """The losses of partial guesses; a table that has none to tell apart is refused."""
    levels = Levels.of(table)
    # a curve that does not move has no problem but the table's own
    if problem := find_stages([0, 1], [levels.start] * 2, levels).problem:
        raise FactholdError(f"{name}: {problem}")
    return levels


def _questions(table: FactTable, given: Sequence[str], facts: str, seed: int) -> list[Question]:
    if given:
        return [find_question(table, text) for text in given]
    known = []
    for text in QUESTIONS.get(facts, ()):
        try:
            known.append(find_question(table, text))
        except FactholdError:  # not in the part of the facts that was taken
            continue
    others = [q for q in choose_questions(table, seed) if q not in known]
    return [*known, *others][:SHOWN]


@contextmanager
def _showing(watching: Watching, name: str, quiet: bool) -> Iterator[Any]:
    """What hears of each look: a live view on a terminal, a line a stage elsewhere."""
    console = Console(highlight=False)

    def lines(now: Watching, new: Sequence[Reached]) -> None:
        _go_on()
        for reached in [] if quiet else new:
            typer.echo(stage_line(now, reached))

    if quiet or not console.is_terminal or console.is_dumb_terminal:
        table, protocol = watching.table, watching.schedule.protocol
        if not quiet:
            sizes = {"subject": table.S, "relation": table.R, "answer": table.A}
            typer.echo(
                f"{count(len(table), 'fact')} of {name}: {', '.join(count(n, what) for what, n in sizes.items())}; "
                f"{METHODS[protocol.optimiser]} with lr {protocol.lr:.3g}, about {watching.schedule.expected} steps"
            )
        yield lines
        return
    with View(watching, name, console) as view:

        def look(now: Watching, new: Sequence[Reached]) -> None:
            _go_on()
            view.heard()

        yield look


def _go_on() -> None:
    if interrupted.is_set():  # a KeyboardInterrupt can get lost, if it meets the wrong line of a library
        raise KeyboardInterrupt


def _keep(watching: Watching, name: str, save: Path | None) -> None:
    """Save a run that did not come to its end."""
    if save is not None and watching.steps:
        step = watching.steps[-1]
        kept = " and ".join(map(str, _save(watching, name, save)))
        messages.print(f"kept what was seen up to step {step}: {kept}", markup=False)


def _paths(save: Path) -> list[Path]:
    """NAME.csv and NAME.gif."""
    base = save.with_suffix("") if save.suffix in (".gif", ".csv") else save
    return [base.with_name(f"{base.name}{ending}") for ending in (".csv", ".gif")]


def _save(watching: Watching, name: str, save: Path) -> list[Path]:
    """NAME.csv and NAME.gif, of what was seen."""
    from facthold.studies.learning.animation import animation

    paths = _paths(save)
    with writing(paths[0]) as stream:
        stream.write(watching.table_of_looks().encode())
    with working(f"drawing {paths[1]}"), writing(paths[1]) as stream:
        stream.write(animation(watching, name))
    return paths

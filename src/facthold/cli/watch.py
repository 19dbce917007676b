"""facthold watch: facts being learnt, live."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from facthold._util.errors import FactholdError
from facthold._util.files import GIF, OF_RUN, as_csv, table_of, writing
from facthold.cli import options as o
from facthold.cli.app import check_apart, command
from facthold.cli.ending import heed
from facthold.cli.inputs import real_rows, refuse, say_replaced, split_names, understand, writable_file
from facthold.cli.printing import count, messages, paragraph, print_json, working
from facthold.cli.watch_view import View, closing, paths, shown, stage_line
from facthold.dynamics.schedule import ALPHA, safe_step, schedule
from facthold.dynamics.stages import Levels, find_stages
from facthold.facts.files import read_facts
from facthold.facts.names import Names, Parsed, parse
from facthold.facts.real import SOURCES, sample_subjects, tally
from facthold.facts.table import FactTable
from facthold.knowledge.settings import Settings
from facthold.lab.fields import Between
from facthold.studies.learning.animation import animation

if TYPE_CHECKING:
    from facthold.dynamics.watching import Watching

DEFAULT = "countries"
RELATIONS = {DEFAULT: ("capital", "currency", "language", "region")}  # where nothing is said: less than a minute
QUESTIONS = {DEFAULT: ("France, capital", "Japan, currency", "Brazil, language", "Kenya, region")}
SGD = "sgd"
OPTIMISERS = {SGD: "gradient descent", "adam": "Adam"}
LEAST_LR, MOST_LR = 1e-12, 1e6  # a shorter step moves no weight in float32
HEAD = Settings()  # what an induction head has by default
MOST_QUESTIONS = 5  # more do not fit below the curve


@command()
def watch(
    facts: str | None = typer.Argument(
        None,
        metavar="[FILE|NAME]",
        help=f"A file of facts, or real facts by name: {', '.join(SOURCES)}.",
        show_default=DEFAULT,
    ),
    induction: bool = o.flag("--induction", "Watch an induction head: FILE is a text (default: tiny Shakespeare)."),
    K: o.Triggers = None,
    T: o.SequenceLength = None,
    d: o.HeadDimension = None,
    relations: o.SomeRelations = None,
    subjects: o.SomeSubjects = None,
    question: Annotated[
        list[str] | None,
        o.named("--question", f"Ask this each time: 'France, capital'. Up to {MOST_QUESTIONS} of them."),
    ] = None,
    lr: float | None = o.option(
        "--lr", f"Length of a step (default: from the curvature of the loss; with --induction {HEAD.lr:g})."
    ),
    steps: int | None = o.option(
        "--steps", f"Steps at most (default: twice what should be needed; with --induction {HEAD.steps})."
    ),
    alpha: float | None = o.option("--alpha", f"Every weight at the start (default: {ALPHA:g})."),
    optimiser: str | None = o.option("--optimiser", f"{' or '.join(OPTIMISERS)} (default: {SGD})."),
    seed: o.Seed = 0,
    on_conflict: o.OnConflict = None,
    output: Annotated[
        Path | None, o.named("--output", "-o", "Keep NAME.gif, the run in pictures, and NAME.csv.", metavar="NAME")
    ] = None,
    json: o.Json = False,
) -> None:
    """Watch facts being learnt by linear attention (section 5): first it says anything, then a plausible answer
    (hallucination), then the fact.

    An answer is the one with most of the probability, or else one that is drawn, anew each time.

    With --induction, watch the three memories of an induction head turn on (`facthold induction`); -K, -T and -d are
    its sizes.
    """
    if induction:
        about_facts = {"relations": relations, "subjects": subjects, "question": question or None, "alpha": alpha}
        refuse("does not go with --induction", **about_facts, optimiser=optimiser, on_conflict=on_conflict)
        from facthold.cli.watch_probes import watch_induction

        sizes: dict[str, Any] = {"K": K, "T": T, "d": d, "lr": lr, "steps": steps}
        given = {name: value for name, value in sizes.items() if value is not None}
        text = None if facts is None else Path(facts)
        return watch_induction(text, Settings(seed=seed, **given), output, json)
    refuse("does not go with facts: it is a size of an induction head; give --induction too", K=K, T=T, d=d)
    facts, optimiser = DEFAULT if facts is None else facts, SGD if optimiser is None else optimiser
    alpha = ALPHA if alpha is None else alpha
    from facthold.dynamics.population import SMALLEST
    from facthold.dynamics.watching import Watching
    from facthold.dynamics.watching import watch as train

    Between(least=LEAST_LR, most=MOST_LR).check("lr", lr)
    Between(least=1).check("steps", steps)
    Between(least=SMALLEST, most=1).check("alpha", alpha)
    if question and len(question) > MOST_QUESTIONS:
        raise ValueError(f"{len(question)} times --question is too often; ask at most {MOST_QUESTIONS}")
    if output is not None:
        for path, kind in zip(paths(output), (table_of(OF_RUN), GIF), strict=True):
            check_apart({"facts": facts, "output": path})
            writable_file(path, kind)
    table, name = _read(facts, relations, subjects, seed, on_conflict)
    plan = schedule(table, alpha=alpha, lr=lr, steps=steps, optimiser=optimiser)
    watching = Watching(table, _questions(table, question or [], facts, seed), plan)
    say_replaced(*([] if output is None else paths(output)))
    began = time.perf_counter()
    try:
        with _showing(watching, name, json) as heard:
            train(watching, seed=seed, heard=heard)
        if problem := watching.stages.problem:
            safe = plan.protocol.lr / 2 if lr is None else min(lr / 2, safe_step(table, optimiser))
            raise FactholdError(f"{problem}, such as lr={safe:.2g}")
    except (KeyboardInterrupt, FactholdError):
        if output is not None and watching.steps:
            kept = " and ".join(map(str, _save(watching, name, output)))
            messages.print(f"kept what was seen up to step {watching.steps[-1]}: {kept}", markup=False)
        raise
    about = closing(watching, time.perf_counter() - began)
    files = [] if output is None else _save(watching, name, output)
    if json:
        about |= {"facts": name, "lr": plan.protocol.lr, "alpha": alpha, "optimiser": optimiser}
        print_json(about | ({"files": files} if files else {}))
    else:
        paragraph("\n".join(about["says"]))
        for path in files:
            typer.echo(f"wrote {path}")


def _read(
    facts: str, relations: str | None, subjects: int | None, seed: int, on_conflict: str | None
) -> tuple[FactTable, str]:
    """The table to learn, and what to call it."""
    if on_conflict == "all":
        raise ValueError("on_conflict=all: a model is trained on one answer to a question; take on_conflict=first")
    conflict = on_conflict or "error"
    wanted = split_names(relations)
    if facts not in SOURCES and (Path(facts).suffix or Path(facts).exists()):
        table, p = read_facts(facts, conflict)
        if p is not None:
            messages.print(f"{facts} has a column p, which is not used: each fact is asked equally often", markup=False)
        of_table = Names.of(table)[1]
        taken = {of_table[of_table.find(relation)] for relation in wanted or of_table.names}
        # as texts: a relation that is left out must leave no answer behind that could be said
        rows, name = [row for row in table.to_rows() if row[1] in taken], Path(facts).name
    else:
        rows, name = real_rows(facts, wanted or RELATIONS.get(facts)), facts
        if tally(rows)["several"] and conflict == "error":
            raise FactholdError(f"{relations} of {facts} has several answers to a question; take on_conflict=first")
    table = FactTable.from_rows(sample_subjects(rows, subjects, seed), conflict)
    if table.R == 1:
        raise FactholdError(f"{name} has one relation here, so that to know it is to know nothing; take two or more")
    levels = Levels.of(table)
    # a curve that does not move has no problem but the table's own
    if problem := find_stages([0, 1], [levels.start] * 2, levels).problem:
        raise FactholdError(f"{name}: {problem}")
    return table, name


def _questions(table: FactTable, given: Sequence[str], facts: str, seed: int) -> list[int]:
    from facthold.dynamics.watching import SHOWN, choose_questions

    if given:
        rows = [find_question(table, text) for text in given]
        if twice := next((text for i, text in enumerate(given) if rows[i] in rows[:i]), None):
            raise ValueError(f"--question {twice!r} asks for the same fact as one before it; ask for it once")
        return rows
    known = []
    for text in QUESTIONS.get(facts, ()):
        with suppress(FactholdError):  # not in the part of the facts that was taken
            known.append(find_question(table, text))
    return list(dict.fromkeys([*known, *choose_questions(table, seed)]))[:SHOWN]


def find_question(table: FactTable, text: str) -> int:
    """The row of the fact that ``text`` asks for: 'France, capital', or a prompt such as 'the capital of France'."""
    subjects, relations, _ = Names.of(table)
    by_name = lambda s, r: Parsed(subjects.find(s), relations.find(r), [])  # noqa: E731
    found = understand(text, by_name, lambda prompt: parse(prompt, subjects, relations))
    s, r = found.subject, found.relation
    of_subject = table.subjects == s
    rows = (of_subject & (table.relations == r)).nonzero()[0]
    if not len(rows):
        known = ", ".join(repr(relations[i]) for i in table.relations[of_subject])
        raise FactholdError(f"the table has no {relations[r]!r} of {subjects[s]!r}; it has its {known}")
    return int(rows[0])


@contextmanager
def _showing(watching: "Watching", name: str, quiet: bool) -> Iterator[Callable[[Sequence[str]], None]]:
    """What hears of each evaluation: a live view on a terminal, a line for each stage elsewhere."""
    view = View(watching, name)
    with shown(view.draw, quiet) as live:

        def heard(new: Sequence[str]) -> None:
            heed()
            view.n = len(watching.steps)
            for stage in [] if quiet or live else new:
                paragraph(stage_line(watching, stage))

        if not (quiet or live):
            table, protocol = watching.table, watching.schedule.protocol
            sizes = {"subject": table.S, "relation": table.R, "answer": table.A}
            paragraph(
                f"{count(len(table), 'fact')} of {name}: {', '.join(count(n, what) for what, n in sizes.items())}; "
                f"{OPTIMISERS[protocol.optimiser]} with lr {protocol.lr:.3g}, "
                f"about {count(watching.schedule.expected, 'step')}"
            )
        try:
            yield heard
        finally:
            view.spoke = 0.0  # the last picture stays: it has the last answers


def _save(watching: "Watching", name: str, output: Path) -> list[Path]:
    (table, gif), rows = paths(output), watching.as_rows()
    with writing(table, table_of(rows[0])) as stream:
        stream.write(as_csv(rows).encode())
    with working(f"drawing {gif}"), writing(gif, GIF) as stream:
        stream.write(animation(watching, name))
    return [table, gif]

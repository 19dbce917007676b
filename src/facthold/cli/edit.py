"""facthold edit: change, add or forget facts of a model, each solved for and not trained."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from facthold._util.commands import command as command_line
from facthold._util.errors import FactholdError
from facthold._util.files import OF_FACTS
from facthold.cli import options as o
from facthold.cli.app import command
from facthold.cli.inputs import (
    about_file,
    check_rows,
    file_in_words,
    read_questions,
    say_replaced,
    say_taken,
    writable_file,
)
from facthold.cli.printing import count, hint, paragraph, print_json, printable, working
from facthold.facts.formats import COLUMNS, source_of
from facthold.facts.names import UnknownName, blank

if TYPE_CHECKING:
    from facthold.knowledge.model import Model
    from facthold.knowledge.report import Report

DONE = {
    "edit": "{0.subject}, {0.relation}: {0.answer} instead of {0.before}",
    "same": "{0.subject}, {0.relation}: {0.answer} in every prompt, which it said in most",
    "add": "{0.subject}, {0.relation}: {0.answer} (before: {0.before})",
    "forget": "{0.subject}, {0.relation}: no longer {0.answer}; it now says {0.said}",
    "edit nothing": "{0.subject}, {0.relation}: {0.answer} is what it says already",
    "add nothing": "{0.subject}, {0.relation}: {0.answer} is what it says already; the table has it now",
    "forget nothing": "{0.subject}, {0.relation}: {0.answer} is not what it says, but {0.said}; the table forgets it",
    "not done": "{0.subject}, {0.relation}: {0.answer} did not take in every prompt; in most it says {0.said}",
    "not gone": "{0.subject}, {0.relation}: {0.answer} was not forgotten in every prompt; in most it says {0.said}",
}
SHOWN = 5  # changes that did not take, as an error names them


@command()
def edit(
    model: o.Model,
    output: Annotated[Path, typer.Option("--output", "-o", help="Model to write, to another file.")],
    subject: o.Subject = None,
    relation: o.Relation = None,
    answer: str | None = typer.Argument(None, help="The answer, known or new; none with --forget."),
    add: bool = o.flag("--add", "The fact is new; so may be its subject and answer."),
    forget: bool = o.flag("--forget", "Take the fact out: say something else."),
    file: Annotated[Path | None, typer.Option("--file", help="Many of them, one after another, from a file.")] = None,
    in_place: bool = o.flag("--in-place", "Change the last linear map alone, even where other facts are lost."),
    force: bool = o.flag("--force", "Write the model even where a change did not take."),
    redraw: o.Redraw = None,
    json: o.Json = False,
) -> None:
    """Give a fact another answer, add one or forget one, without training (in float64).

    It is a change of rank one in the last linear map, which adds no parameter; where other facts would be lost by that
    and fewer are with a neuron of its own, or four, the fact gets these: the first line says which. Where the model
    says the answer already, no weight changes, and the model is written as it is. What holds is judged over
    the whole vocabulary, unless the model was made for the answers alone. For a new relation, build the model again.
    """
    if add and forget:
        raise ValueError("take one of --add and --forget")
    if forget and answer is not None:
        raise ValueError(f"--forget takes SUBJECT RELATION alone, not the answer {answer!r} too")
    rows = _rows(file, (subject, relation) if forget else (subject, relation, answer))
    from facthold.knowledge.model import Model, load

    start = load(model)
    spelt = rows if forget else [row[:2] for row in rows]  # an answer that is given is taken as it is spelt
    rows = _apart(file, _questions(file, rows, start) if forget else rows, start)
    writable_file(output, OF_FACTS)
    change = partial(Model.add if add else Model.forget if forget else Model.edit, in_place=in_place)
    if file is not None:
        _check_names(file, rows, start, add)
    reports, end = _change(change, start, rows, in_place)
    say_taken(spelt, start)
    _finish(reports, start, end, model, output, force, json, redraw, in_place)


def _rows(file: Path | None, given: Sequence[str | None]) -> Sequence[tuple[str, ...]]:
    """What to change: one fact as typed, or those of a file."""
    names = " ".join(("SUBJECT", "RELATION", "ANSWER")[: len(given)])
    if file is None:
        row = tuple(name for name in given if name is not None)
        if len(row) < len(given):
            raise ValueError(f"give {names}, or --file with a line for each")
        return [row]
    if any(name is not None for name in given):
        raise ValueError(f"take one of {names} and --file {file}")
    source = source_of(file)
    if len(given) == 2:
        rows: Sequence[tuple[str, ...]] = read_questions(file)  # with the answers that it may have
    else:
        rows = [_named(f"{file}, {source.unit} {n}", s, r, a) for n, s, r, a, _ in source.records]
    check_rows(file, rows, "facts")
    return rows


def _apart(file: Path | None, rows: Sequence[tuple[str, ...]], known: "Model") -> list[tuple[str, ...]]:
    """Each fact once: a line that is there twice is one change, and two answers to one question are refused, however
    its names are written."""
    first: dict[tuple[str | int, ...], tuple[str, ...]] = {}
    for row in rows:
        key = tuple(names.meant(name) for names, name in zip(known.names, row[:2], strict=False))
        before = first.setdefault(key, row)
        if before[2:] != row[2:]:
            raise FactholdError(f"{file}: ({row[0]}, {row[1]}) is to be {before[2]!r} and {row[2]!r}; keep one of them")
    return list(first.values())


def _named(where: str, *cells: str) -> tuple[str, ...]:
    """The names of a row, of which none may be empty."""
    names = tuple(cell.strip() for cell in cells)
    for column, name in zip(COLUMNS, names, strict=True):
        if blank(name):
            raise FactholdError(f"{where}: the {column} is empty; write it, or leave the row out")
    return names


def _check_names(file: Path, rows: Sequence[tuple[str, ...]], known: "Model", add: bool) -> None:
    """Refuse a file with a name that is not known before the first of its changes is made: each takes a while."""
    for i, (subject, relation, *_) in enumerate(rows, start=1):
        try:
            if add:
                known.names[1].find(relation)
            else:
                known.ask(subject, relation, noise=0)
        except UnknownName as error:
            way = "" if add else "; a file changes known facts, or with --add adds new ones"
            raise FactholdError(f"{file}, fact {i} of {len(rows)}: {error}{way}; nothing was written") from error


def _questions(file: Path | None, rows: Sequence[tuple[str, ...]], known: "Model") -> list[tuple[str, ...]]:
    """What to forget, without answers. Those that a file names have to be all that the fact has: else others are meant,
    or would be lost unsaid."""
    answers, named = known.names[2], dict[tuple[str | int, ...], set[str | int]]()
    for s, r, *name in rows:
        key = tuple(names.meant(part) for names, part in zip(known.names, (s, r), strict=False))
        named.setdefault(key, set()).update(answers.meant(one) for one in name if one)
    for s, r, *name in rows:
        try:
            right = known.ask(s, r, noise=0).expected or known.forgotten_answers(s, r)
        except UnknownName:
            continue  # which is said when it is its turn
        meant = {answers.meant(one) for one in right}
        key = tuple(names.meant(part) for names, part in zip(known.names, (s, r), strict=False))
        if not (named[key] and right) or named[key] == meant:
            continue
        has = f"{file}: ({s}, {r}) is {' or '.join(right)} in the table"
        if named[key] < meant:
            raise FactholdError(f"{has}, and all of that is forgotten together; leave the answer out if it is meant")
        raise FactholdError(f"{has}, not {name[0]!r}; correct it, or leave the answer out")
    return [row[:2] for row in rows]


def _change(
    change: "Callable[..., Model]", start: "Model", rows: Sequence[tuple[str, ...]], in_place: bool
) -> "tuple[list[Report], Model]":
    """All changes, each in the model that the one before it left."""
    from facthold.knowledge.report import still_held

    if len(rows) == 1:
        end = change(start, *rows[0])
        return [end.report], end
    reports, end, n = [], start, len(rows)
    with working(f"changing {count(n, 'fact')}") as say:
        for i, row in enumerate(rows, start=1):
            say(f"{i} of {n}, {row[0]}, {row[1]}")
            try:
                end = change(end, *row)
            except FactholdError as error:
                raise FactholdError(f"fact {i} of {n}, so that nothing was written: {error}") from error
            reports.append(end.report)
        # what a later change took from an earlier one is given back; what was forgotten has no row any more
        for report, holds in still_held(reports, end):
            if not holds and report.kind != "forget":
                say(f"once more, {report.subject}, {report.relation}")
                end = end.edit(report.subject, report.relation, report.answers[0], in_place=in_place)
                reports.append(end.report)
    return reports, end


def _finish(
    reports: "Sequence[Report]", start: "Model", end: "Model", source: Path, output: Path, force: bool, json: bool,
    redraw: bool | None, in_place: bool,
) -> None:  # fmt: skip
    """Write the model if every change holds in it; then say what was done. (In this order: who reads the first line
    alone, as `head` does, ends the command with it.)"""
    from facthold.knowledge.report import specificity, still_held
    from facthold.models.saving import read_points, write_model

    held = still_held(reports, end)
    failed = [(report, "") for report, _ in held if not report.done]
    failed += [(report, ", undone by a later one") for report, holds in held if report.done and not holds]
    written = force or not failed
    kept, unchanged, others = specificity(start, end, but={(report.subject, report.relation) for report in reports})
    about = {
        "efficacy": sum(holds and report.done for report, holds in held) / len(held),
        "specificity": kept, "unchanged": unchanged, "others": others, "facts": len(end.table),
        "n_params": end.n_params, "more_params": end.n_params - start.n_params, "file": None,
    }  # fmt: skip
    packed, _ = read_points(source)
    if written:
        say_replaced(output)
        points = packed if end.model is start.model else None  # weights that changed are on no grid any more
        about |= about_file(write_model(output, end.model, end.problem, points=points, redraw=redraw))
    if json:
        print_json(about | {"changes": [report.as_json() for report in reports]})
    else:
        for report in reports:
            _say(report)
    if len(held) > 1 and not json:
        rest = (
            f"of {count(others, 'other fact')} {kept:.2%} of the right answers still are, {unchanged:.2%} are the same"
            if others
            else "there are no other facts"
        )
        paragraph(
            f"{count(len(held), 'change')}: {about['efficacy']:.2%} of them hold at the end; {rest}; "
            f"{about['n_params']} parameters, {about['more_params']} more than before"
        )
    if written and not json:
        paragraph(f"model: {file_in_words(about)}")
        if packed and end.model is not start.model:
            again = command_line("bits", output, output="packed.safetensors")
            hint(f"the weights were packed in {source} and are floats here; to pack them again", again)
    if not written:
        names = ", ".join(f"({r.subject}, {r.relation}) in {r.efficacy:.0%}{why}" for r, why in failed[:SHOWN])
        raise FactholdError(
            f"{len(failed)} of {count(len(held), 'change')} did not take in every prompt, or not to the end: {names}; "
            f"nothing was written: take --force to write it,{' leave --in-place out,' if in_place else ''} or build a "
            "larger model"
        )


def _how_it_went(report: "Report") -> str:
    """Which line of `DONE` is true of a change."""
    from facthold.knowledge.report import NOTHING

    if report.matrix == NOTHING:
        return f"{report.kind} nothing"
    if not report.done:
        return "not gone" if report.kind == "forget" else "not done"
    return "same" if report.kind == "edit" and report.before == report.answer else report.kind


def _say(report: "Report") -> None:
    from facthold.knowledge.report import PROBES

    report = printable(report)
    new = f" (a new {' and a new '.join(report.new)})" if report.new else ""
    if report.alike:
        new += f"; the table has {' and '.join(map(repr, report.alike))} too, which is another"
    done = DONE[_how_it_went(report)]
    paragraph(f"{done.format(report)}{new}; {report.how}")
    so = "not said" if report.kind == "forget" else "said so"
    others = (
        f"of {count(report.others, 'other fact')}, each in {count(report.prompts, 'prompt')}, "
        f"{report.specificity:.2%} of the right answers still are, {report.unchanged:.2%} are the same"
    )
    paragraph(
        f"  {so} in {round(report.efficacy * PROBES)} of {PROBES} fresh prompts; "
        f"{others if report.others else 'there are no other facts'}"
    )
    if report.replaced:
        paragraph(f"  the table had several answers; no longer right: {', '.join(report.replaced)}")
    if report.lost:
        lost = ", ".join(f"({subject}, {relation})" for subject, relation in report.lost)
        more = report.lost_in_all - len(report.lost)
        most = " in most prompts" if report.prompts > 1 else ""
        paragraph(f"  no longer right{most}: {lost}" + (f" and {more} more" if more else ""))
    if report.weaker:
        paragraph(f"  right in fewer prompts than before: {count(report.weaker, 'other fact')}")
    if report.came_back:
        back = ", ".join(f"({subject}, {relation})" for subject, relation in report.came_back[:SHOWN])
        more = len(report.came_back) - SHOWN
        paragraph(f"  forgotten before, and said again: {back}" + (f" and {more} more" if more > 0 else ""))
    if report.last_of_relation:
        paragraph(
            f"  this was the last fact of the relation {report.relation!r}: the model has it no more, and only a new "
            "build brings it back"
        )
    if report.rank:
        size = f"{report.size:.3g} of the norm of the last linear map" if report.size < 1e9 else "where all was zero"
        paragraph(f"  size of the change: {size}")

"""facthold edit: change, add or forget facts of a model, by one rank-one change for each."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from facthold._util.errors import FactholdError
from facthold.cli.app import app
from facthold.cli.ask import ModelArgument, RelationArgument, SubjectArgument, read_questions
from facthold.cli.basics import JsonOption, count, print_json, writable
from facthold.cli.messages import telling
from facthold.facts.formats import format_of
from facthold.facts.problem import FactualRecall
from facthold.knowledge import edit as edits
from facthold.knowledge.ask import open_model
from facthold.knowledge.edit import Edited, Report
from facthold.models.saving import save_model
from facthold.models.transformer import Transformer

Row = tuple[str, ...]
One = Callable[..., Edited]
DONE = {
    "edit": "{0.subject}, {0.relation}: {0.answer} instead of {0.before}",
    "add": "{0.subject}, {0.relation}: {0.answer} (before: {0.before})",
    "forget": "{0.subject}, {0.relation}: no longer {0.answer}; it now says {0.said}",
}
SHOWN = 5
"""Changes that did not take, as an error names them."""


@app.command()
def edit(
    model: ModelArgument,
    subject: SubjectArgument = None,
    relation: RelationArgument = None,
    answer: Annotated[str | None, typer.Argument(help="The answer, known or new; none with --forget.")] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write the model; it may be the same file.")
    ] = ...,  # type: ignore[assignment]
    add: Annotated[bool, typer.Option("--add", help="The fact is new; so may be its subject and answer.")] = False,
    forget: Annotated[bool, typer.Option("--forget", help="Take the fact out: say something else.")] = False,
    file: Annotated[Path | None, typer.Option("--file", help="Many of them, one after another, from a file.")] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Change the last linear map alone, even where other facts are lost.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Write the model even where a change did not take.")] = False,
    json: JsonOption = False,
) -> None:
    """Give a fact another answer, add one or forget one, by a change of rank one and without training (in float64).

    The change is made in the last linear map; where other facts would be lost by that, the fact gets a neuron of its
    own. For a new relation, build the model again.
    """
    if add and forget:
        raise ValueError("take one of --add and --forget")
    one = edits.add if add else edits.forget if forget else edits.edit
    if forget and answer is not None:
        raise ValueError(f"--forget takes SUBJECT RELATION alone, not the answer {answer!r} too")
    given = (subject, relation) if forget else (subject, relation, answer)
    _run(partial(one, in_place=in_place), model, _rows(file, given), output, force, json)


def _rows(file: Path | None, given: Sequence[str | None]) -> list[Row]:
    """What to change: one fact as typed, or those of a file."""
    names = ("SUBJECT", "RELATION", "ANSWER")[: len(given)]
    if file is None:
        row = tuple(name for name in given if name is not None)
        if len(row) < len(given):
            raise ValueError(f"give {' '.join(names)}, or --file with a line for each")
        return [row]
    if any(name is not None for name in given):
        raise ValueError(f"take one of {' '.join(names)} and --file {file}")
    rows: list[Row] = list(
        read_questions(file)
        if len(given) == 2
        else [(s.strip(), r.strip(), a.strip()) for _, s, r, a, _ in format_of(file).records(file)]
    )
    if not rows:
        raise FactholdError(f"{file} has a header and nothing below it; write a line for each fact")
    return rows


def _run(one: One, path: Path, rows: Sequence[Row], output: Path, force: bool, json: bool) -> None:
    if output.is_dir():
        raise ValueError(f"--output {output} is a folder; give the name of a file")
    start = open_model(path)
    writable(output.parent, "--output")
    if len(rows) == 1:
        done = one(*start, *rows[0])
        reports, end = [done.report], (done.model, done.problem)
    else:
        with telling(f"changing {count(len(rows), 'fact')}") as say:
            reports, end = _one_by_one(one, start, rows, say)
    if not json:  # not before: a spinner would take standard output with it
        for report in reports:
            _say(report)
    _finish(reports, start, end, output, force, json)


def _one_by_one(
    one: One, start: tuple[Transformer, FactualRecall], rows: Sequence[Row], say: Callable[[str], None]
) -> tuple[list[Report], tuple[Transformer, FactualRecall]]:
    """All changes, each in the model that the one before it left."""
    reports: list[Report] = []
    model, problem = start
    for i, row in enumerate(rows, start=1):
        say(f"{i} of {len(rows)}, {row[0]}, {row[1]}")
        try:
            done = one(model, problem, *row)
        except FactholdError as error:
            raise FactholdError(f"fact {i} of {len(rows)}, so that nothing was written: {error}") from error
        model, problem = done.model, done.problem
        reports.append(done.report)
    return reports, (model, problem)


def _finish(
    reports: Sequence[Report], start: tuple[Transformer, FactualRecall], end: tuple[Transformer, FactualRecall],
    output: Path, force: bool, json: bool,
) -> None:  # fmt: skip
    failed = [report for report in reports if not report.done]
    written = force or not failed
    found = _summary(reports, start, end) | {"file": str(output) if written else None}
    if written:
        save_model(output, *end)
    if json:
        print_json(found | {"changes": [report.as_json() for report in reports]})
    else:
        if len(reports) > 1:
            typer.echo(
                f"{count(len(reports), 'change')}: {found['efficacy']:.2%} of them hold at the end; of "
                f"{found['others']} other facts "
                f"{found['specificity']:.2%} of the right ones still are, {found['unchanged']:.2%} say the same; "
                f"{found['n_params']} parameters, {found['more_params']} more than before"
            )
        if written:
            typer.echo(f"model: {output}")
    if failed and not force:
        names = ", ".join(f"({r.subject}, {r.relation}) in {r.efficacy:.0%}" for r in failed[:SHOWN])
        raise FactholdError(
            f"{len(failed)} of {count(len(reports), 'change')} did not take in every prompt: {names}; nothing was "
            "written: take --force to write it, or build a larger model"
        )


def _summary(
    reports: Sequence[Report], start: tuple[Transformer, FactualRecall], end: tuple[Transformer, FactualRecall]
) -> dict[str, Any]:
    kept, unchanged, others = edits.specificity(start, end)
    return {
        "efficacy": edits.still_held(reports, end), "specificity": kept, "unchanged": unchanged, "others": others,
        "facts": len(end[1].table), "n_params": end[0].n_params,
        "more_params": end[0].n_params - start[0].n_params,
    }  # fmt: skip


def _say(report: Report) -> None:
    new = f" (a new {' and a new '.join(report.new)})" if report.new else ""
    typer.echo(DONE[report.kind].format(report) + new)
    so = "not said" if report.kind == "forget" else "said so"
    others = (
        f"of {count(report.others, 'other fact')} {report.specificity:.2%} of the right ones still are, "
        f"{report.unchanged:.2%} say the same"
    )
    typer.echo(
        f"  {so} in {report.efficacy:.0%} of fresh prompts; {others if report.others else 'there are no other facts'}"
    )
    if not report.rank:
        typer.echo("  nothing had to change")
        return
    more = f"; {report.more_params} parameters more" if report.more_params else ""
    size = f"{report.size:.3g} of the norm of the last linear map" if report.size < 1e9 else "that was zero before"
    typer.echo(f"  a change of rank {report.rank}: {report.matrix}, {size}{more}")

"""facthold facts: real facts from installed packages, as a file that the other commands take."""

from pathlib import Path
from typing import Annotated, Any

import typer

from facthold.cli import options as o
from facthold.cli.app import command
from facthold.cli.common import refuse, writable_file
from facthold.cli.inputs import real_rows, split_names
from facthold.cli.printing import count, print_json
from facthold.facts.real import SOURCES, Source, find_source, sample_subjects, tally
from facthold.facts.writing import check_ending, to_csv, write_facts


@command()
def facts(
    name: str | None = typer.Argument(None, help=f"Where from: {', '.join(SOURCES)}.", show_default=False),
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File: .csv, .tsv, .jsonl or .parquet (default: CSV on standard output)."),
    ] = None,
    relations: o.SomeRelations = None,
    subjects: o.SomeSubjects = None,
    seed: int | None = o.option("--seed", "Which sample (default: 0)."),
    list_: bool = o.flag("--list", "Print the sources, and what is in them."),
    json: o.Json = False,
) -> None:
    """Write real facts, taken from an installed package, as rows subject, relation, answer."""
    if list_:
        refuse("does not go with --list, which says what there is",
               NAME=name, output=output, relations=relations, subjects=subjects, seed=seed)  # fmt: skip
        about = [_about(known) for known in SOURCES.values()]
        print_json(about) if json else typer.echo("\n".join(map(_described, about)))
        return
    if name is None:
        raise ValueError(f"which facts? give a NAME: {', '.join(SOURCES)}; --list says what is in them")
    source = find_source(name)
    if seed is not None and subjects is None:
        raise ValueError(f"seed={seed} says which sample; give its size, --subjects")
    if output is not None:
        check_ending(output)
        writable_file(output)
    elif json:
        raise ValueError("--json is about what was written; give a file with --output")
    rows = real_rows(name, None if relations is None else split_names(relations))
    if subjects is not None:
        rows = sample_subjects(rows, subjects, seed or 0)
    if output is None:
        typer.echo(to_csv(rows).encode(), nl=False)
    else:
        write_facts(output, rows)
    about_file = {"source": source.name, **tally(rows), "packages": source.versions, "licence": source.licence}
    if json:
        print_json(about_file | {"file": str(output)})
    else:
        typer.echo(_summary(about_file), err=True)


def _summary(about: dict[str, Any]) -> str:
    sizes = ", ".join(count(about[what + "s"], what) for what in ("subject", "relation", "answer"))
    several = f"{count(about['several'], 'pair')} with several answers"
    if about["several"]:
        several += " (read them with --on-conflict first or all)"
    return f"{count(about['facts'], 'fact')}: {sizes}, {several}; from {about['packages']}, {about['licence']}"


def _described(about: dict[str, Any]) -> str:
    here = "installed" if about["installed"] else f"not installed: {about['install']}"
    facts = "" if about["facts"] is None else f"{about['facts']:,} facts: "
    several = f"; with several answers, only when named: {', '.join(about['several'])}" if about["several"] else ""
    return (
        f"{about['name']}: {about['about']}; subject: {about['subject']}\n"
        f"  {facts}{', '.join(about['relations'])}{several}\n"
        f"  {about['packages']} ({here}); {about['licence']}; {about['origin']}"
    )


def _about(source: Source) -> dict[str, Any]:
    """A source as --list shows it. How many facts there are is counted, where its packages are here."""
    names = ("name", "about", "subject", "relations", "several", "licence", "origin", "installed")
    return {name: getattr(source, name) for name in names} | {
        "packages": source.versions, "install": f"pip install 'facthold[{source.extra}]'",
        "facts": tally(source.facts())["facts"] if source.installed else None,
    }  # fmt: skip

"""facthold facts: real facts from installed packages, as a file that the other commands take."""

from pathlib import Path
from typing import Annotated, Any

import typer

from facthold._util.errors import FactholdError
from facthold.cli.app import app
from facthold.cli.basics import JsonOption, count, print_json, writable
from facthold.facts.real import SOURCES, Source, find_source, sample_subjects, tally
from facthold.facts.writing import check_ending, to_csv, write_facts


@app.command()
def facts(
    name: Annotated[str | None, typer.Argument(help=f"Where from: {', '.join(SOURCES)}.", show_default=False)] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", help="File to write: .csv, .tsv, .jsonl or .parquet (default: CSV on standard output)."),
    ] = None,
    relations: Annotated[
        str | None, typer.Option("--relations", help="These alone, with commas between: capital,currency.")
    ] = None,
    subjects: Annotated[int | None, typer.Option("--subjects", help="A random sample of so many subjects.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Which sample (default: 0).")] = None,
    list_: Annotated[bool, typer.Option("--list", help="Say what there is.")] = False,
    json: JsonOption = False,
) -> None:
    """Write real facts, taken from an installed package, as rows subject, relation, answer."""
    if list_:
        given = {"NAME": name, "-o": out, "--relations": relations, "--subjects": subjects, "--seed": seed}
        if other := [option for option, value in given.items() if value is not None]:
            raise ValueError(f"--list says what there is and takes no {other[0]}; leave one of them out")
        _list(json)
        return
    if name is None:
        raise ValueError(f"which facts? give a NAME: {', '.join(SOURCES)}; --list says what is in them")
    source = find_source(name)
    if subjects is not None and subjects < 1:
        raise ValueError(f"--subjects {subjects} must be at least 1")
    if seed is not None and subjects is None:
        raise ValueError(f"--seed {seed} says which sample; give its size, --subjects")
    if out is None and json:
        raise ValueError("--json is about what was written; give a file with -o")
    if out is not None:
        check_ending(out)
        if out.is_dir():
            raise FactholdError(f"-o {out} is a folder; give the name of a file")
        writable(out.parent, "-o")
    rows = source.facts(None if relations is None else _names(relations))
    if not rows:
        raise FactholdError(f"{source.versions} has no facts of {relations}; take other --relations")
    if subjects is not None:
        rows = sample_subjects(rows, subjects, seed or 0)
    if out is None:
        typer.echo(to_csv(rows).encode(), nl=False)
    else:
        write_facts(out, rows)
    found = {"source": source.name, **tally(rows), "packages": source.versions, "licence": source.licence}
    if out is not None:
        found["file"] = str(out)
    if json:
        print_json(found)
    else:
        typer.echo(_summary(found), err=True)


def _names(relations: str) -> list[str]:
    names = [name.strip() for name in relations.split(",")]
    if not all(names):
        raise ValueError(f"--relations {relations!r} has an empty name in it; write them as in capital,currency")
    return names


def _summary(found: dict[str, Any]) -> str:
    sizes = ", ".join(count(found[what + "s"], what) for what in ("subject", "relation", "answer"))
    several = f"{count(found['several'], 'pair')} with several answers"
    if found["several"]:
        several += " (read them with --on-conflict first or all)"
    return f"{count(found['facts'], 'fact')}: {sizes}, {several}; from {found['packages']}, {found['licence']}"


def _list(json: bool) -> None:
    about = [_about(source) for source in SOURCES.values()]
    if json:
        print_json(about)
        return
    from facthold.cli.tables import show

    columns = ("name", "what", "package", "facts", "relations", "only when named, with several answers", "licence")
    show("Facts by name: facthold facts NAME -o FILE", columns, [_line(source) for source in about], lines=True)


def _about(source: Source) -> dict[str, Any]:
    """A source as --list shows it. How many facts there are is counted, where its packages are here."""
    return {
        "name": source.name, "about": source.about, "subject": source.subject, "packages": source.versions,
        "installed": source.installed, "install": f"pip install 'facthold[{source.extra}]'",
        "facts": tally(source.facts())["facts"] if source.installed else None,
        "relations": source.relations, "several": source.several,
        "licence": source.licence, "origin": source.origin,
    }  # fmt: skip


def _line(about: dict[str, Any]) -> tuple[str, ...]:
    here = "installed" if about["installed"] else f"not installed: {about['install']}"
    return (
        about["name"], f"{about['about']}; subject: {about['subject']}", f"{about['packages']} ({here})",
        "?" if about["facts"] is None else f"{about['facts']:,}", ", ".join(about["relations"]),
        ", ".join(about["several"]) or "none", f"{about['licence']}; {about['origin']}",
    )  # fmt: skip

"""facthold explore: a page with a model inside, which computes in the browser."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from facthold._util.commands import command as command_line
from facthold._util.errors import FactholdError
from facthold._util.files import PAGE, same_file
from facthold.cli import options as o
from facthold.cli.app import command
from facthold.cli.inputs import real_rows, refuse, say_replaced, split_names, writable_file
from facthold.cli.printing import count, messages, paragraph, print_json, working
from facthold.facts.real import sample_subjects
from facthold.facts.table import FactTable

if TYPE_CHECKING:
    from facthold.knowledge.model import Model

COUNTRIES = "countries"


@command()
def explore(
    output: Annotated[Path, o.named("--output", "-o", "Page to write.")],
    model: Annotated[
        Path | None,
        typer.Argument(
            help="A transformer with its facts, as safetensors (default: one of countries, built anew).",
            show_default=False,
        ),
    ] = None,
    relations: o.SomeRelations = None,
    subjects: o.SomeSubjects = None,
    seed: Annotated[int | None, o.named("--seed", "Which sample (default: 0).")] = None,
    json: o.Json = False,
) -> None:
    """Write one HTML page with a model inside: ask it, take it apart and break it, in the browser.

    The page is a single file. It computes by itself, with the numbers that the library has; it needs no network and no
    server, and can be sent to somebody who has nothing but a browser. Without MODEL it shows the facts of countries,
    whose model is built first (about a minute for all of them, seconds with --relations capital,region).
    """
    if model is not None:
        refuse("does not go with a MODEL: it is about countries", relations=relations, subjects=subjects, seed=seed)
        if same_file(model, output):
            raise FactholdError(f"output={output} is the input {model} itself, which would be lost; give another name")
    if seed is not None and subjects is None:
        raise ValueError(f"seed={seed} says which sample; give its size, --subjects")
    from facthold.explore.page import write_page
    from facthold.knowledge.model import load

    if model is not None:
        known, origin = load(model), ""
        made_by = command_line("explore", model.name, output=output.name)
        writable_file(output, PAGE)
    else:
        table = FactTable.from_rows(
            sample_subjects(real_rows(COUNTRIES, split_names(relations)), subjects, seed or 0), on_conflict="all"
        )
        writable_file(output, PAGE)
        made_by = command_line("explore", relations=relations, subjects=subjects, seed=seed, output=output.name)
        known, origin = _built(table)
    say_replaced(output)
    write_page(known, output, made_by, origin)
    size, facts = output.stat().st_size, len(known.table)
    if json:
        return print_json({"file": str(output), "file_bytes": size, "facts": facts, "recall": known.recall})
    paragraph(f"{output}: {count(f'{size:,}', 'byte')}, with a model of {count(facts, 'fact')} in it")
    paragraph("open it in a browser; it needs no network and no server")


def _built(table: FactTable) -> "tuple[Model, str]":
    """The model of the countries, and where its facts are from."""
    from facthold.explore.exporting import countries, origin_of_countries

    messages.print(f"no MODEL is given: one of {count(len(table), 'fact')} of {COUNTRIES} is built", markup=False)
    with working(f"building {count(len(table), 'fact')}") as say:
        return countries(table, say), origin_of_countries()

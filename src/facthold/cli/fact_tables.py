"""Tables of facts as they are typed: sizes of a random one, or a file."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from facthold.cli.basics import count
from facthold.facts.files import read_facts
from facthold.facts.table import FactTable

SUBJECTS, RELATIONS, ANSWERS, TABLE = 16, 16, 8, "random"

SOption = Annotated[int | None, typer.Option("-S", help=f"Number of subjects (default: {SUBJECTS}).")]
ROption = Annotated[int | None, typer.Option("-R", help=f"Number of relations (default: {RELATIONS}).")]
AnswersOption = Annotated[int | None, typer.Option("-D", help=f"Answers of a relation (default: {ANSWERS}).")]
TableOption = Annotated[str | None, typer.Option("--table", help=f"random or balanced (default: {TABLE}).")]
FactsOption = Annotated[
    Path | None,
    typer.Option(
        "--facts",
        help="Facts from a file (.csv, .tsv, .jsonl, .parquet): subject, relation, answer, perhaps p (with sum 1).",
    ),
]
OnConflictOption = Annotated[
    str | None,
    typer.Option(
        "--on-conflict",
        help="For several answers to one question: error (default), first, or all (each is right).",
    ),
]


def read_given(
    path: Path | None, given: dict[str, Any], on_conflict: str | None = None
) -> tuple[FactTable | None, np.ndarray | None]:
    """The table of --facts, which comes with no other way to make one; None without a file."""
    if path is None:
        if on_conflict is not None:
            raise ValueError(f"--on-conflict {on_conflict} is about a file with facts; give it with --facts")
        return None, None
    for option, value in given.items():
        if value is not None:
            raise ValueError(f"take one of --facts {path} and {option} {value}: the file says which facts there are")
    return read_facts(path, on_conflict or "error")


def about_table(table: FactTable) -> dict[str, Any]:
    return {
        "S": table.S, "R": table.R, "A": table.A, "D": table.D, "max_C": int(table.C.max()),
        "assumption_1": table.assumption_1, "several_answers": len(np.unique(table.also[:, 0])),
    }  # fmt: skip


def say_table(found: dict[str, Any]) -> None:
    """The table's sizes in a line, from `about_table`."""
    f = found
    holds = "holds" if f["assumption_1"] else "does not hold: some answer serves two relations"
    several = f"; {count(f['several_answers'], 'fact')} with several right answers" if f["several_answers"] else ""
    typer.echo(
        f"S={f['S']}, R={f['R']}, {count(f['A'], 'answer')}, D={f['D']}, max C(a)={f['max_C']}; "
        f"assumption 1 {holds}{several}"
    )

"""Tables of facts as they are typed: sizes of a random one, or a CSV file."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from facthold.facts import FactTable
from facthold.facts_csv import read_facts

SUBJECTS, RELATIONS, ANSWERS, TABLE = 16, 16, 8, "random"

SOption = Annotated[int | None, typer.Option("-S", help=f"Number of subjects (default: {SUBJECTS}).")]
ROption = Annotated[int | None, typer.Option("-R", help=f"Number of relations (default: {RELATIONS}).")]
AnswersOption = Annotated[int | None, typer.Option("-D", help=f"Answers of a relation (default: {ANSWERS}).")]
TableOption = Annotated[str | None, typer.Option("--table", help=f"random or balanced (default: {TABLE}).")]
FactsOption = Annotated[
    Path | None,
    typer.Option("--facts", help="Facts from a CSV file: subject,relation,answer, perhaps p (with sum 1)."),
]


def read_given(path: Path, given: dict[str, Any]) -> tuple[FactTable, np.ndarray | None]:
    """The table of --facts, which comes with no other way to make one."""
    for option, value in given.items():
        if value is not None:
            raise ValueError(f"take one of --facts {path} and {option} {value}: the file says which facts there are")
    return read_facts(path)


def about_table(table: FactTable) -> dict[str, Any]:
    return {
        "S": table.S, "R": table.R, "A": table.A, "D": table.D, "max_C": int(table.C.max()),
        "assumption_1": table.assumption_1,
    }  # fmt: skip

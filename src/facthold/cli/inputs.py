"""What commands are given: tables of facts, questions and sizes of models, read and checked before anything is made."""

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from facthold._util.errors import FactholdError, check_memory, check_one_of
from facthold.cli.common import refuse
from facthold.cli.printing import count
from facthold.facts.formats import format_of
from facthold.facts.real import find_source
from facthold.models.sizes import Shape
from facthold.train.protocols import BATCH, PROTOCOLS

if TYPE_CHECKING:
    import numpy as np

    from facthold.facts.table import FactTable
    from facthold.facts.writing import Row

T = TypeVar("T")


def read_given(
    facts: Path | None, on_conflict: str | None, **other: Any
) -> "tuple[FactTable | None, np.ndarray | None]":
    """The table of --facts, which goes with no ``other`` way to make one; None without a file."""
    if facts is None:
        refuse("is about a file with facts; give it with --facts", on_conflict=on_conflict)
        return None, None
    refuse(f"does not go with --facts {facts}: the file says which facts there are", **other)
    from facthold.facts.files import read_facts

    return read_facts(facts, on_conflict or "error")


def read_questions(path: Path) -> list[tuple[str, str]]:
    """The (subject, relation) of each record. CSV and TSV need no answer; the other formats are those of facts."""
    delimiter = {".csv": ",", ".tsv": "\t"}.get(path.suffix.lower())
    if delimiter is None:
        return [(s.strip(), r.strip()) for _, s, r, *_ in format_of(path).records(path)]
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            lines = list(csv.reader(stream, delimiter=delimiter, skipinitialspace=True, strict=True)) or [[]]
    except FileNotFoundError:
        raise FactholdError(f"no such file of questions: {path}") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FactholdError(f"cannot read {path} as questions in UTF-8: {error}") from error
    header = [name.strip() for name in lines[0]]
    for name in ("subject", "relation"):
        if name not in header:
            raise FactholdError(f"{path}: no column {name!r} in its first line; write subject,relation there")
    questions = []
    for number, cells in enumerate(lines[1:], start=2):
        if len(cells) != len(header) and any(cells):
            there = count(len(cells), "cell")
            raise FactholdError(f"{path}, record {number}: {there}, where the header has {len(header)}")
        if any(cells):
            row = dict(zip(header, cells, strict=True))
            questions.append((row["subject"].strip(), row["relation"].strip()))
    return questions


def understand(line: str, ask: Callable[[str, str], T], ask_prompt: Callable[[str], T]) -> T:
    """A question as it is typed: a line with a comma is a subject and a relation; any other, and one whose names are
    not known, is a free prompt."""
    from facthold.facts.names import LONGEST

    try:
        parts = next(csv.reader([line], skipinitialspace=True)) if len(line) <= LONGEST else []
    except csv.Error:
        parts = []
    if len(parts) < 2:
        return ask_prompt(line)
    try:  # the last comma parts them: 'Washington, D.C., capital'
        return ask(", ".join(part.strip() for part in parts[:-1]), parts[-1].strip())
    except FactholdError as error:
        try:
            return ask_prompt(line)
        except FactholdError:
            raise error from None


def real_rows(name: str, relations: Sequence[str] | None) -> "list[Row]":
    """The facts of a source of real ones, of these relations alone."""
    source = find_source(name)
    rows = source.facts(relations)
    if not rows:
        raise FactholdError(f"{source.versions} has no facts of {', '.join(relations or ())}; take other --relations")
    return rows


def split_names(relations: str) -> list[str]:
    """The names between the commas of --relations."""
    names = [name.strip() for name in relations.split(",")]
    if not all(names):
        raise ValueError(f"--relations {relations!r} has an empty name in it; write them as in capital,currency")
    return names


def about_table(table: "FactTable") -> dict[str, Any]:
    return {
        "S": table.S, "R": table.R, "A": table.A, "D": table.D, "max_C": int(table.C.max()),
        "assumption_1": table.assumption_1, "several_answers": len(set(table.also[:, 0].tolist())),
    }  # fmt: skip


def say_table(about: dict[str, Any]) -> None:
    """The table's sizes in a line, from `about_table`."""
    a = about
    holds = "holds" if a["assumption_1"] else "does not hold: some answer serves two relations"
    several = f"; {count(a['several_answers'], 'fact')} with several right answers" if a["several_answers"] else ""
    typer.echo(
        f"S={a['S']}, R={a['R']}, {count(a['A'], 'answer')}, D={a['D']}, max C(a)={a['max_C']}; "
        f"assumption 1 {holds}{several}"
    )


def check_given(given: Mapping[str, Any], takes: set[str], recipe: str) -> None:
    """Refuse options that say nothing to this recipe."""
    for name, value in given.items():
        if name not in takes:
            raise ValueError(f"{name}={value} does not go with recipe={recipe!r}")


def check_protocol(name: str) -> None:
    """Refuse the protocols of memories: their learning rates mean nothing here."""
    check_one_of("protocol", name, [known for known in PROTOCOLS if known.startswith("transformer")])


def head_size(alpha: float, d: int, H: int) -> int:
    """d_h by alpha = H d_h / d."""
    if not 1 <= alpha * d / H < math.inf:
        raise ValueError(
            f"alpha={alpha:g} with d={d} and H={H} makes heads of dimension alpha d / H = {alpha * d / H:g}; "
            "it must be at least 1: take a larger -d or --alpha, or fewer --heads"
        )
    return int(alpha * d / H)


def width(beta: float, d: int) -> int:
    """m by beta = m / d."""
    if not 0 <= beta < math.inf:
        raise ValueError(f"beta={beta:g} must be a number and not negative; 0: no MLP")
    return int(beta * d)


def check_size(shape: Shape, S: int, R: int, A: int, T: int, n_noise: int | None = None) -> None:
    """Refuse what does not fit in memory: weights, gradients and Adam's moments at three learning rates, the table, and
    the scores of a batch."""
    from facthold.facts.prompts import MOST_NOISE, check_length

    check_length(T)
    check_memory(f"a transformer with d={shape.d} and {shape.n_params} parameters", 3 * 5 * 4 * shape.n_params)
    if n_noise is None and S + R > MOST_NOISE:
        raise ValueError(f"S + R = {S + R} noise tokens are more than {MOST_NOISE}; give n_noise")
    tokens = S + R + (n_noise or S + R) + 1
    table = 64 * S * R + 12 * (tokens + A) * shape.d
    step = 3 * 4 * BATCH * (3 * tokens + 3 * A + 4 * (shape.H * shape.d_h + shape.m) + 4 * T)
    what = f"a table of {S} subjects, {R} relations and {A} answers"
    check_memory(f"{what} with d={shape.d} and T={T}", table + step)

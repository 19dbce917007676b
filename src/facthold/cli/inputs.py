"""What commands are given: tables of facts, questions and sizes of models, read and checked before anything is made."""

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import typer

from facthold._util.commands import duration
from facthold._util.errors import FactholdError, check_one_of
from facthold._util.files import check_output, check_outputs, check_room
from facthold._util.memory import check_memory
from facthold.cli.printing import count, messages, paragraph, printable
from facthold.facts.files import read_facts
from facthold.facts.formats import questions_of
from facthold.facts.names import LONGEST, clean
from facthold.facts.problem import MOST_NOISE, check_length
from facthold.facts.real import find_source
from facthold.facts.table import FactTable, Row
from facthold.lab.fields import Between
from facthold.models import STORED
from facthold.models.sizes import Shape
from facthold.plan.calibrations import product_rate
from facthold.plan.plan import DAY
from facthold.plan.plan import LONGEST as LONGEST_WAIT
from facthold.train.protocols import PROTOCOLS, training_memory

if TYPE_CHECKING:
    from facthold.knowledge.model import Model
    from facthold.models.saving import Written

T = TypeVar("T")
LONG = 60.0  # seconds above which it is said before how long something takes
WIDEST = 1e6  # times d that heads or MLP have dimensions
TAKEN = 5  # names that were taken for others, as a message has them
AT_ONCE = 1e10  # products that no machine takes seconds for


def writable(folder: Path, files: Mapping[Path, str] | None = None, store: Path | None = None) -> None:
    """Make sure of a folder, and of the files in it, before computing for minutes. The folder may be new (then it is
    made when there is something to put into it); the one that it is in may not. None of the files may be the store."""
    try:
        if not folder.exists() and not folder.parent.is_dir():
            raise FactholdError(
                f"cannot make the folder {folder}: there is no {folder.parent}; make it first, or check the name"
            )
        if folder.exists() and not folder.is_dir():
            raise FactholdError(f"{folder} is a file, not a folder; give another output")
        check_room(folder if folder.exists() else folder.parent)
    except OSError as error:
        raise FactholdError(f"cannot write to {folder}: {error.strerror}; give another output") from error
    check_outputs(files or {}, store)


def writable_file(output: Path | None, kind: str) -> None:
    """Make sure of the file, where there is to be one, before computing."""
    if output is None:
        return
    check_output(output, kind)
    if not output.exists() or output.is_file():
        writable(output.parent)


def say_replaced(*outputs: Path | None) -> None:
    """Say which older files the new ones take the place of. Not before all else was checked, or it would be said of
    what is then refused."""
    there = [_in_place(path) for path in outputs if path is not None and path.is_file()]
    if len(there) == 1:
        messages.print(
            f"{printable(there[0])} is there already: the new one takes its place once it is written", markup=False
        )
    elif there:
        few = ", ".join(there[:2]) + (f" and {len(there) - 2} more" if len(there) > 2 else "")
        messages.print(
            f"{printable(few)} are there already: the new ones take their place once they are written", markup=False
        )


def _in_place(path: Path) -> str:
    """A file that is there; of a link, what it leads to, as that is what changes."""
    return f"{path}, a link to {path.resolve()}," if path.is_symlink() else str(path)


def foretell(what: str, products: float, lower: str) -> None:
    """Say before it begins how long ``what`` takes at least, where that is more than a minute: by the products of two
    numbers in it, and the speed of this machine. What nobody would wait for is refused."""
    if products < AT_ONCE:
        return
    seconds = 2 * products / (1e9 * product_rate())
    if seconds > LONGEST_WAIT:
        raise ValueError(f"{what} takes {seconds / DAY:.3g} days here, or more; lower {lower}")
    if seconds > LONG:
        messages.print(f"{what} takes about {duration(seconds)} here, or more", markup=False)


def refuse(why: str, **given: Any) -> None:
    """Refuse the first of these arguments that was given, with a reason such as 'does not go with --list'."""
    for name, value in given.items():
        if value is not None and value is not False:
            shown = repr(value[0]) if isinstance(value, list) else value
            raise ValueError(f"{name}={shown} {why}")


def given_for(recipe: str, takes: set[str], context: typer.Context) -> dict[str, Any]:
    """The options that were given; those that say nothing to this recipe are refused."""
    given = {name: value for name, value in context.params.items() if value is not None}
    refuse(f"does not go with recipe={recipe!r}", **{name: given[name] for name in given if name not in takes})
    return given


def read_given(facts: Path | None, on_conflict: str | None, **other: Any) -> tuple[FactTable | None, np.ndarray | None]:
    """The table of --facts, which goes with no ``other`` way to make one; None without a file."""
    if facts is None:
        refuse("is about a file with facts; give it with --facts", on_conflict=on_conflict)
        return None, None
    refuse(f"does not go with --facts {facts}: the file says which facts there are", **other)
    return read_facts(facts, on_conflict or "error")


def read_questions(path: Path) -> list[tuple[str, str, str]]:
    """The (subject, relation, answer) of each row. The formats are those of facts; answers need not be there."""
    return [(s.strip(), r.strip(), a.strip()) for s, r, a in questions_of(path)]


def check_rows(path: Path, rows: Sequence[Any], what: str) -> None:
    """Refuse a file that has a header alone: nothing was asked."""
    if not rows:
        raise FactholdError(f"{path} has no {what} in it; write one or more")


def understand(line: str, ask: Callable[[str, str], T], ask_prompt: Callable[[str], T]) -> T:
    """A question as it is typed: a line with a comma is a subject and a relation; any other, and one whose names are
    not known, is a free prompt."""
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


def say_taken(rows: Sequence[tuple[str, ...]], known: "Model") -> None:
    """Say which subjects, relations and, where rows have them, answers were taken for others, from which they differ by
    case or accents: for names of the table, or for the first spelling of a new one."""
    taken: dict[tuple[str, str], None] = {}  # in their order, each once
    for names, column in zip(known.names, zip(*rows, strict=True), strict=False):
        first: dict[str | int, str] = {}
        for name in filter(None, dict.fromkeys(column)):
            meant = names.meant(name)
            known_as = names[meant] if isinstance(meant, int) else first.setdefault(meant, name)
            if clean(known_as) != clean(name):
                taken[name, known_as] = None
    if taken:
        few = ", ".join(f"{name!r} is taken for {meant!r}" for name, meant in list(taken)[:TAKEN])
        more = f" and {len(taken) - TAKEN} more" if len(taken) > TAKEN else ""
        messages.print(printable(f"{few}{more}: the same but for case, accents or shapes of letters"), markup=False)


def real_rows(name: str, relations: Sequence[str] | None) -> list[Row]:
    """The facts of a source of real ones, of these relations alone."""
    source = find_source(name)
    rows = source.facts(relations)
    if not rows:
        raise FactholdError(f"{source.versions} has no facts of {', '.join(relations or ())}; take other --relations")
    return rows


def split_names(given: str | None, option: str = "--relations", such_as: str = "capital,currency") -> list[str] | None:
    """The names between the commas of an option, where it is given."""
    names = None if given is None else [name.strip() for name in given.split(",")]
    if names is not None and not all(names):
        raise ValueError(f"{option} {given!r} has an empty name in it; write them as in {such_as}")
    return names


def about_table(table: FactTable) -> dict[str, Any]:
    return {
        "S": table.S, "R": table.R, "A": table.A, "D": table.D, "max_C": int(table.C.max()),
        "assumption_1": table.assumption_1, "several_answers": len(set(table.also[:, 0].tolist())),
    }  # fmt: skip


def say_table(a: dict[str, Any]) -> None:
    """The table's sizes in a line, from `about_table`."""
    holds = "holds" if a["assumption_1"] else "does not hold: some answer serves two relations"
    several = f"; {count(a['several_answers'], 'fact')} with several right answers" if a["several_answers"] else ""
    paragraph(
        f"S={a['S']}, R={a['R']}, {count(a['A'], 'answer')}, D={a['D']}, max C(a)={a['max_C']}; "
        f"assumption 1 {holds}{several}"
    )


def about_file(written: "Written") -> dict[str, Any]:
    """What is said of a model that was written."""
    return {
        "file": str(written.path), "file_bytes": written.bytes, "weight_bytes": written.weight_bytes,
        "embedding_bytes": written.embedding_bytes, "embeddings_are": written.embeddings,
    }  # fmt: skip


def file_in_words(a: dict[str, Any]) -> str:
    """The file of a model and what its bytes are for, from `about_file`."""
    weights, embeddings, kept = a["weight_bytes"], a["embedding_bytes"], a["embeddings_are"]
    offer = " (--redraw-embeddings leaves them out)" if kept == STORED else ""
    return (
        f"{a['file']}, {a['file_bytes']:,} bytes: weights {weights:,}; embeddings {embeddings:,}, {kept}{offer}; "
        f"facts and names {a['file_bytes'] - weights - embeddings:,}"
    )


def check_protocol(name: str) -> None:
    """Refuse the protocols of memories: their learning rates mean nothing here."""
    check_one_of("protocol", name, [known for known in PROTOCOLS if known.startswith("transformer")])


def head_size(alpha: float, d: int, H: int) -> int:
    """d_h by alpha = H d_h / d."""
    Between(low=0, most=WIDEST).check("alpha", alpha)
    if not 1 <= alpha * d / H < math.inf:
        raise ValueError(
            f"alpha={alpha:g} with d={d} and H={H} makes heads of dimension alpha d / H = {alpha * d / H:g}; "
            "it must be at least 1: take a larger -d or --alpha, or fewer --heads"
        )
    return int(alpha * d / H)


def check_size(shape: Shape, S: int, R: int, A: int, T: int, n_noise: int | None = None) -> None:
    """Refuse a transformer and a table that do not fit in memory, and prompts that cannot be."""
    check_length(T)
    if n_noise is None and S + R > MOST_NOISE:
        raise ValueError(f"S={S} and R={R}: S + R noise tokens are more than {MOST_NOISE}; give n_noise")
    what = f"a transformer of {shape.n_params} parameters with {S} subjects, {R} relations and {A} answers"
    check_memory(what, training_memory(shape, S, R, A, T, n_noise))

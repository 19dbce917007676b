"""facthold ask: one question, a free prompt, a file of questions, or a conversation."""

import csv
import io
import json as json_text
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from facthold._util.errors import FactholdError
from facthold._util.files import writing
from facthold.cli.app import app
from facthold.cli.basics import JsonOption, count, print_json
from facthold.facts.formats import format_of
from facthold.facts.names import LONGEST
from facthold.facts.prompts import MOST_NOISE
from facthold.knowledge.ask import TOP, Answer, Knowledge, find_pairs, open_model
from facthold.knowledge.judge import NONE

ModelArgument = Annotated[Path, typer.Argument(help="A transformer with its facts, as safetensors.")]
SubjectArgument = Annotated[str | None, typer.Argument(help="The subject, such as France.")]
RelationArgument = Annotated[str | None, typer.Argument(help="The relation, such as capital.")]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of the noise tokens.")]
COLUMNS = ("subject", "relation", "answer", "margin", "probability", "right")
VERDICTS = {True: "right", False: "wrong", None: "not in the table"}
LEAVE = ("", "quit", "exit")
"""Lines that end a conversation."""


@app.command()
def ask(
    model: ModelArgument,
    subject: SubjectArgument = None,
    relation: RelationArgument = None,
    prompt: Annotated[
        str | None, typer.Option("--prompt", help="A free prompt, such as: 'the capital of France'.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", help="Questions: a CSV with subject,relation, or any file of facts.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where --file writes its answers, as CSV.")
    ] = None,
    noise: Annotated[
        int | None, typer.Option("--noise", help="Noise tokens in the prompt (default: up to the model's T).")
    ] = None,
    seed: SeedOption = 0,
    top: Annotated[int, typer.Option("--top", help="How many answers to show, the one that is said first.")] = TOP,
    json: JsonOption = False,
) -> None:
    """Ask a model for a fact. Without a question, ask line by line: 'France, capital' or 'the capital of France'.

    The pass through the model is float64.
    """
    _check(subject, relation, prompt, file, output, noise, top)
    knowledge = Knowledge(*open_model(model))
    options: dict[str, Any] = {"noise": noise, "seed": seed, "top": top}
    if file is not None:
        _answer_file(knowledge, file, output, noise, seed, json)
    elif prompt is not None:
        _say(knowledge.ask_prompt(prompt, **options), json)
    elif subject is not None and relation is not None:
        _say(knowledge.ask(subject, relation, **options), json)
    else:
        _converse(knowledge, options, json)


def _check(
    subject: str | None, relation: str | None, prompt: str | None, file: Path | None, output: Path | None,
    noise: int | None, top: int,
) -> None:  # fmt: skip
    if subject is not None and relation is None:
        raise ValueError(f"a relation is missing after the subject {subject!r}; for a free prompt, take --prompt")
    if (subject is not None) + (prompt is not None) + (file is not None) > 1:
        raise ValueError("take one of SUBJECT RELATION, --prompt and --file")
    if output is not None and file is None:
        raise ValueError(f"--output {output} goes with --file, the questions")
    if noise is not None and noise < 0:
        raise ValueError(f"--noise {noise} must be 0 or more")
    if noise is not None and noise > MOST_NOISE:
        raise ValueError(f"--noise {noise} must be at most {MOST_NOISE}")
    if top < 1:
        raise ValueError(f"--top {top} must be at least 1")


def _say(answer: Answer, json: bool) -> None:
    if json:
        print_json(answer.as_json())
        return
    typer.echo(answer.answer)
    judged = VERDICTS[answer.right]
    if answer.right is False:
        judged += f" (the table has {' or '.join(answer.expected)})"
    beside = "its rivals" if answer.right is not None else "the runner-up"
    typer.echo(f"{judged}; probability {answer.probability:.2%}, margin {answer.margin:.4g} over {beside}")
    for guess in answer.runners_up:
        typer.echo(f"  {guess.probability:8.2%}  {guess.name}")


def _converse(knowledge: Knowledge, options: dict[str, Any], json: bool) -> None:
    """Answer line by line until an empty line, quit or the end of the input. What is not understood is said."""
    table = knowledge.problem.table
    if sys.stdin.isatty():
        typer.echo(f"{count(len(table), 'fact')}; ask 'subject, relation' or a free prompt, quit to leave", err=True)
    while True:
        if sys.stdin.isatty():
            typer.echo("> ", nl=False, err=True)
        line = sys.stdin.readline()
        if line and not line.strip() and not sys.stdin.isatty():
            continue  # a file may have empty lines
        if line.strip().lower() in LEAVE:  # the end of the input is an empty line without its newline
            return
        try:
            answer = _understand(knowledge, line.strip(), options)
        except FactholdError as error:
            typer.echo(json_text.dumps({"error": str(error)}) if json else f"facthold: {error}", err=not json)
            continue
        if json:
            typer.echo(json_text.dumps(answer.as_json(), ensure_ascii=False, default=str))
        else:
            _say(answer, json=False)
        sys.stdout.flush()


def _understand(knowledge: Knowledge, line: str, options: dict[str, Any]) -> Answer:
    """A line with one comma is a subject and a relation; any other, and one that is neither, is a free prompt."""
    try:
        parts = next(csv.reader([line], skipinitialspace=True)) if len(line) <= LONGEST else []
    except csv.Error:
        parts = []
    if len(parts) != 2:
        return knowledge.ask_prompt(line, **options)
    try:
        return knowledge.ask(*parts, **options)
    except FactholdError as error:
        try:
            return knowledge.ask_prompt(line, **options)
        except FactholdError:
            raise error from None


def _answer_file(
    knowledge: Knowledge, file: Path, output: Path | None, noise: int | None, seed: int, json: bool
) -> None:
    questions = read_questions(file)
    start = time.perf_counter()
    s, r = find_pairs(knowledge, questions)
    known = np.flatnonzero((s != NONE) & (r != NONE))
    verdicts = knowledge.ask_many(s[known], r[known], noise=noise, seed=seed)
    seconds = time.perf_counter() - start
    rows: list[tuple[Any, ...]] = [
        (*question, "", "", "", "unknown " + ("subject" if s[i] == NONE else "relation"))
        for i, question in enumerate(questions)
    ]
    for i, said, right, margin, probability in zip(
        known.tolist(), verdicts.said, verdicts.right, verdicts.margin, verdicts.probability, strict=True
    ):
        judged = VERDICTS[None if right == NONE else bool(margin > 0)]
        name = knowledge.output_name(int(said))
        rows[i] = (*questions[i], name, f"{margin:.6g}", f"{probability:.6g}", judged)
    n_right, in_table = int(verdicts.recalled.sum()), int((verdicts.right != NONE).sum())
    found = {
        "questions": len(questions), "in_table": in_table, "right": n_right, "unknown": len(questions) - len(known),
        "share_right": n_right / in_table if in_table else None, "seconds": seconds,
        "per_second": len(questions) / seconds,
    }  # fmt: skip
    if output is not None:
        with writing(output) as stream:
            stream.write(_as_csv(rows).encode())
    if json:
        print_json(found if output else found | {"answers": [dict(zip(COLUMNS, row, strict=True)) for row in rows]})
    elif output is None:
        typer.echo(_as_csv(rows), nl=False)
    share = f"{n_right} of {in_table} right ({n_right / in_table:.2%})" if in_table else "none in the table"
    left = f", {found['unknown']} with names that are not known" if found["unknown"] else ""
    typer.echo(f"{count(len(questions), 'question')}{left}: {share}; {found['per_second']:.0f} a second", err=True)


def read_questions(path: Path) -> list[tuple[str, str]]:
    """The (subject, relation) of each record. CSV and TSV need no answer; the other formats are those of facts."""
    delimiter = {".csv": ",", ".tsv": "\t"}.get(path.suffix.lower())
    if delimiter is None:
        return [(s.strip(), r.strip()) for _, s, r, *_ in format_of(path).records(path)]
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            lines = list(csv.reader(stream, delimiter=delimiter, strict=True)) or [[]]
    except FileNotFoundError:
        raise FactholdError(f"no such file of questions: {path}") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FactholdError(f"cannot read {path} as questions in UTF-8: {error}") from error
    header, places = [cell.strip() for cell in lines[0]], []
    for name in ("subject", "relation"):
        if name not in header:
            raise FactholdError(f"{path}: no column {name!r} in its first line; write subject,relation there")
        places.append(header.index(name))
    return _cells(path, lines, places)


def _cells(path: Path, lines: Sequence[Sequence[str]], places: Sequence[int]) -> list[tuple[str, str]]:
    questions = []
    for number, cells in enumerate(lines[1:], start=2):
        if not "".join(cells).strip():
            continue  # a blank line
        if len(cells) != len(lines[0]):
            raise FactholdError(f"{path}, record {number}: {len(cells)} cells, where the header has {len(lines[0])}")
        questions.append((cells[places[0]].strip(), cells[places[1]].strip()))
    return questions


def _as_csv(rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(rows)
    return text.getvalue()

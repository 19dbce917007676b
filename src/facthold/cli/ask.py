"""facthold ask: one question, a free prompt, a file of questions, or a conversation."""

import json as json_text
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from facthold._util.errors import FactholdError
from facthold._util.files import writing
from facthold.cli import options as o
from facthold.cli.app import command
from facthold.cli.common import refuse
from facthold.cli.inputs import read_questions, understand
from facthold.cli.printing import as_csv, count, print_json
from facthold.lab.fields import Between

if TYPE_CHECKING:
    from facthold.knowledge.model import Answer, Model

COLUMNS = ("subject", "relation", "answer", "margin", "probability", "right")
VERDICTS = {True: "right", False: "wrong", None: "not in the table"}
LEAVE = ("", "quit", "exit")  # lines that end a conversation


@command()
def ask(
    model: o.Model,
    subject: o.Subject = None,
    relation: o.Relation = None,
    prompt: str | None = o.option("--prompt", "A free prompt, such as: 'the capital of France'."),
    file: o.Questions = None,
    output: o.TableFile = None,
    noise: int | None = o.option("--prompt-noise", "Noise tokens in the prompt (default: up to T)."),
    seed: o.Seed = 0,
    top: int = typer.Option(5, "--top", help="How many answers to show, the model's own first."),
    json: o.Json = False,
) -> None:
    """Ask a model for a fact. Without a question, ask line by line: 'France, capital' or 'the capital of France'.

    The pass through the model is float64.
    """
    if subject is not None and relation is None:
        raise ValueError(f"a relation is missing after the subject {subject!r}; for a free prompt, take --prompt")
    if sum(given is not None for given in (subject, prompt, file)) > 1:
        raise ValueError("take one of SUBJECT RELATION, --prompt and --file")
    if file is None:
        refuse("goes with --file, the questions", output=output)
    from facthold.facts.prompts import MOST_NOISE
    from facthold.knowledge.model import load

    if noise is not None:
        Between(least=0, most=MOST_NOISE).check("noise", noise)
    Between(least=1).check("top", top)
    knowledge = load(model)
    options: dict[str, Any] = {"noise": noise, "seed": seed, "top": top}
    if file is not None:
        _answer_file(knowledge, file, output, noise, seed, json)
    elif prompt is not None:
        _say(knowledge.ask_prompt(prompt, **options), json)
    elif subject is not None and relation is not None:
        _say(knowledge.ask(subject, relation, **options), json)
    else:
        _converse(knowledge, options, json)


def _say(answer: "Answer", json: bool) -> None:
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


def _converse(knowledge: "Model", options: dict[str, Any], json: bool) -> None:
    """Answer line by line until an empty line, quit or the end of the input. What is not understood is said."""
    asking = partial(knowledge.ask, **options), partial(knowledge.ask_prompt, **options)
    if sys.stdin.isatty():
        n = count(len(knowledge.table), "fact")
        typer.echo(f"{n}; ask 'subject, relation' or a free prompt, quit to leave", err=True)
    while True:
        if sys.stdin.isatty():
            typer.echo("> ", nl=False, err=True)
        line = sys.stdin.readline()
        if line and not line.strip() and not sys.stdin.isatty():
            continue  # a file may have empty lines
        if line.strip().lower() in LEAVE:  # the end of the input is an empty line without its newline
            return
        try:
            answer = understand(line.strip(), *asking)
        except FactholdError as error:
            typer.echo(json_text.dumps({"error": str(error)}) if json else f"facthold: {error}", err=not json)
            continue
        if json:
            typer.echo(json_text.dumps(answer.as_json(), ensure_ascii=False, default=str))
        else:
            _say(answer, json=False)
        sys.stdout.flush()


def _answer_file(knowledge: "Model", file: Path, output: Path | None, noise: int | None, seed: int, json: bool) -> None:
    questions = read_questions(file)
    start = time.perf_counter()
    problems = [_unknown(knowledge, question) for question in questions]
    known = [question for question, problem in zip(questions, problems, strict=True) if not problem]
    answers = knowledge.ask_all(known, noise=noise, seed=seed)
    seconds = time.perf_counter() - start
    answered, rows = iter(answers), []
    for question, problem in zip(questions, problems, strict=True):
        cells = ("", "", "", problem)
        if not problem:
            a = next(answered)
            cells = (a.answer, f"{a.margin:.6g}", f"{a.probability:.6g}", VERDICTS[a.right])
        rows.append((*question, *cells))
    in_table, right = sum(a.right is not None for a in answers), sum(a.right is True for a in answers)
    about = {
        "questions": len(questions), "in_table": in_table, "right": right, "unknown": len(questions) - len(known),
        "share_right": right / in_table if in_table else None, "seconds": seconds,
        "per_second": len(questions) / seconds,
    }  # fmt: skip
    if output is not None:
        with writing(output) as stream:
            stream.write(as_csv([COLUMNS, *rows]).encode())
    if json:
        print_json(about if output else about | {"answers": [dict(zip(COLUMNS, row, strict=True)) for row in rows]})
    elif output is None:
        typer.echo(as_csv([COLUMNS, *rows]), nl=False)
    share = f"{right} of {in_table} right ({right / in_table:.2%})" if in_table else "none in the table"
    left = f", {about['unknown']} with names that are not known" if about["unknown"] else ""
    typer.echo(f"{count(len(questions), 'question')}{left}: {share}; {about['per_second']:.0f} per second", err=True)


def _unknown(knowledge: "Model", question: tuple[str, str]) -> str:
    """What is not known, or not clear, of a question: 'unknown subject', 'unknown relation' or nothing."""
    for names, name in zip(knowledge.names, question, strict=False):
        with suppress(FactholdError):
            if names.get(name) is not None:
                continue
        return f"unknown {names.what}"
    return ""

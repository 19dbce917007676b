"""facthold lm teach: a table of facts for a language model whose weights stay as they are."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from facthold._util.commands import command as command_line
from facthold._util.errors import FactholdError
from facthold._util.files import OF_TEACHING
from facthold.cli import options as o
from facthold.cli.inputs import say_replaced, writable_file
from facthold.cli.lm import Model, command, opened
from facthold.cli.printing import amount, count, hint, messages, paragraph, print_json, printable, show, working
from facthold.facts.files import Conflict, read_facts
from facthold.lm.fetch import name_of
from facthold.lm.wordings import RELATION, SUBJECT, TAUGHT, check_template, worded

if TYPE_CHECKING:
    from facthold.lm.lesson import Lesson
    from facthold.lm.tokeniser import Words

SHOWN = 3  # facts that are left out, as a message names them


@command(short_help="teach it a table of facts by a matrix, solved for, as a file")
def teach(
    facts: Annotated[
        Path, typer.Argument(help="Facts, with subject, relation, answer: .csv, .tsv, .json, .jsonl or .parquet.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="File for the matrices, gates and names.")],
    template: Annotated[
        list[str] | None,
        o.named("--template", f'Taught words, such as "{TAUGHT[0]}"; perhaps several times (default: three).'),
    ] = None,
    layer: Annotated[int | None, o.named("--layer", "Layer of the keys, from 0 (default: L / 6).")] = None,
    on_conflict: Annotated[
        str | None, o.named("--on-conflict", "Several answers to a question: error (default), or first.")
    ] = None,
    model: Model = None,
    json: o.Json = False,
) -> None:
    """Teach the model new facts without changing its weights: a matrix and a gate for each relation, in closed form.

    As in: facthold lm teach facts.csv -o taught.safetensors

    The matrix maps the stream at the subject's last token, in an early layer, to the answer's first token, which is
    added to the last stream. WHERE it is read is found by name: prompts that name no taught subject are left as they
    are, to the bit. A gate, a linear threshold in a late layer, says whether the relation is asked for; how many other
    questions pass it is measured. Ask with `facthold lm ask --taught FILE`; leaving that out undoes it all.
    """
    writable_file(output, OF_TEACHING)
    if on_conflict == "all":
        raise ValueError("on_conflict='all': one answer is taught to each question; take first")
    try:
        rows = read_facts(facts, on_conflict or "error")[0].to_rows()
    except Conflict as error:
        raise FactholdError(error.first) from error
    templates = list(dict.fromkeys(template or TAUGHT))
    for words in templates:
        check_template(words, list(dict.fromkeys(r for _, r, _ in rows)))
    from facthold.lm.lesson import teach as teach_facts
    from facthold.lm.lesson import usable

    def check(words: "Words") -> None:
        words.check_layer(layer)
        usable(words, rows, templates)

    language_model = opened(model, check=check)
    from facthold.lm.taught_file import save_taught

    with working(f"teaching {count(len(rows), 'fact')}") as say:
        taught, lesson = teach_facts(language_model, rows, templates=templates, layer=layer, say=say)
    say_replaced(output)
    save_taught(output, name_of(model), taught)
    if json:
        return print_json(lesson.as_json() | {"file": str(output), "bytes": output.stat().st_size})
    left = {one.fact for one in lesson.left_out}
    _say(lesson, output, model, worded(templates[0], *next(row for row in rows if row not in left)[:2]).text)


def _say(lesson: "Lesson", output: Path, model: str | None, prompt: str) -> None:
    rows = [
        {"words": _short(one.wording), "was": "yes" if one.taught else "no", "n": one.n, "before": one.before,
         "after": one.after} for one in lesson.asked
    ]  # fmt: skip
    show(
        "Facts whose answer's first token comes before all others:",
        {"asked in": "{words}", "taught": "{was}", "facts": "{n}", "before": "{before:.1%}", "after": "{after:.1%}"},
        rows,
    )
    paragraph(
        f"foreign questions about the same subjects answered as before: {lesson.foreign_kept} of {lesson.foreign}; "
        f"perplexity of texts that name them {lesson.perplexity_before:.4g} to {lesson.perplexity:.4g}; prompts that "
        "name none are as they were, to the bit"
    )
    paragraph(
        f"{count(lesson.facts, 'fact')} in {amount(lesson.n_params)} parameters; keys from layer {lesson.layer}, gates "
        f"in layer {lesson.gate_layer}"
    )
    if lesson.several_tokens:
        paragraph(
            f"of {count(lesson.several_tokens, 'answer')} with several tokens the first was taught alone: with it the "
            "model goes on by itself"
        )
    if lesson.left_out:
        few = "; ".join(str(one) for one in lesson.left_out[:SHOWN])
        more = f"; and {len(lesson.left_out) - SHOWN} more" if len(lesson.left_out) > SHOWN else ""
        messages.print(printable(f"left out: {few}{more}"), markup=False)
    again = command_line("lm", "ask", prompt, taught=output, model=model)
    hint(f"in {output}; to ask", again)


def _short(wording: str) -> str:
    """A wording that fits into a table."""
    return wording.replace(RELATION, "{r}").replace(SUBJECT, "{s}").replace("\n", " ")

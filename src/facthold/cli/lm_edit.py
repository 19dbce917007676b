"""facthold lm truncate and lm edit: a language model's matrices with parts taken away, or with another fact in them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from facthold._util.commands import command as command_line
from facthold._util.errors import FactholdError
from facthold._util.files import OF_EDITS
from facthold.cli import options as o
from facthold.cli.inputs import say_replaced, writable_file
from facthold.cli.lm import Model, command, opened
from facthold.cli.printing import count, hint, paragraph, print_json, printable, show, working
from facthold.lab.fields import Between
from facthold.lm.fetch import name_of

if TYPE_CHECKING:
    from facthold.lm.asking import Continued
    from facthold.lm.model import LanguageModel
    from facthold.lm.tokeniser import Words

SHOWN = 5  # earlier edits that a message names
Prompt = Annotated[str, typer.Argument(help="The beginning of a sentence.", metavar="PROMPT")]


@command(short_help="what it says without parts of a layer, and what that costs")
def truncate(
    prompt: Prompt,
    layer: Annotated[int | None, o.named("--layer", "The layer, counted from 0 (default: each in turn).")] = None,
    matrix: Annotated[str, o.named("--matrix", "mlp, attention, W_gate, W_up, W_down, W_Q, W_K, W_V or W_O.")] = "mlp",
    rank: Annotated[int, o.named("--rank", "Cut it to its best part of this rank; 0 drops it.")] = 0,
    top: Annotated[int, o.named("--top", "How many next tokens to show.")] = 5,
    model: Model = None,
    json: o.Json = False,
) -> None:
    """The next tokens without parts of a layer's matrices, and the perplexity of a fixed text as the price.

    As in: facthold lm truncate "Madrid is located in" --layer 28

    'mlp' and 'attention' cut each matrix of theirs. Without --layer every layer is tried, one at a time.
    """
    Between(least=1).check("top", top)
    from facthold.lm.asking import ask
    from facthold.lm.price import text_perplexity
    from facthold.lm.truncation import check_cut, truncated

    def check(words: "Words") -> None:
        check_cut(words, layer, matrix, [rank])
        words.encode(prompt)

    whole = opened(model, check=check)
    layers = range(whole.config.L) if layer is None else [layer]
    with working("cutting") as say:
        found = [_about(None, ask(whole, [prompt], top)[0], text_perplexity(whole))]
        for i in layers:
            say(f"layer {i}")
            cut: LanguageModel = truncated(whole, i, matrix, rank)
            found.append(_about(i, ask(cut, [prompt], top)[0], text_perplexity(cut)))
    if json:
        return print_json({"prompt": prompt, "matrix": matrix, "rank": rank, "whole": found[0], "cuts": found[1:]})
    how = "without its" if rank == 0 else f"with rank {rank} of its"
    paragraph(f"{prompt} ... {how} {matrix}; perplexity is that of a fixed text")
    columns = {"layer": "{layer}", "perplexity": "{perplexity:.4g}", "next tokens": "{words}"}
    show("", columns, [one | {"layer": "none" if one["layer"] is None else one["layer"]} for one in found])


def _about(layer: int | None, found: "Continued", perplexity: float) -> dict[str, Any]:
    words = ", ".join(f"{printable(n.token.strip() or repr(n.token))} {n.probability:.1%}" for n in found.next)
    return {"layer": layer, "perplexity": perplexity, "words": words, "next": found.as_json()["next"]}


@command(short_help="give a prompt another answer, solved for, as a file")
def edit(
    prompt: Prompt,
    answer: Annotated[str, typer.Option("--answer", help="What the prompt is to go on with.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File for the changed matrices.")],
    subject: Annotated[
        str | None, o.named("--subject", "The subject in the prompt (default: a known country).")
    ] = None,
    layer: Annotated[int | None, o.named("--layer", "The layer, from 0 (default: the better of two).")] = None,
    covariance: Annotated[
        str, o.named("--covariance", "Keys to leave alone: neighbours, text or identity.")
    ] = "neighbours",
    value: Annotated[str, o.named("--value", "How v is found: gradient, or closed, without one.")] = "gradient",
    edits: Annotated[Path | None, o.named("--edits", "Edits to go on from, of the same model.")] = None,
    force: bool = o.flag("--force", "Write it even where the answer did not take."),
    model: Model = None,
    json: o.Json = False,
) -> None:
    """Give a prompt another answer by a change of rank one in W_down of a layer, and write the changed matrix.

    As in: facthold lm edit "The capital of France is" --answer Rome -o edited.safetensors

    Ask the edited model with `facthold lm ask --edits edited.safetensors`; leaving that out undoes the edit. Other
    subjects are put into the prompt: the keys of some are left alone, and what is said of others tells the specificity.
    """
    from facthold.lm.one_edit import check_edit, edit_once, find_subject, undone

    name = name_of(model)
    writable_file(output, OF_EDITS)
    from facthold.lm.edits_file import load_edits, save_edits

    before = None if edits is None else load_edits(edits, name)
    of, how = find_subject(name, prompt, subject), {"covariance": covariance, "value": value}
    whole = opened(
        model, edits, check=lambda words: check_edit(words, name, prompt, of, answer, layer=layer, **how)
    )  # fmt: skip
    with working("editing"):
        done = edit_once(whole, name, prompt, of, answer, layer=layer, **how)
    if not (done.took or force):
        raise FactholdError(
            f"the prompt still goes on with {done.said!r} after an edit of layer {done.layer}, and not with "
            f"{answer!r}; nothing was written: take another layer, or --force"
        )
    earlier = [record for record in (() if before is None else before.made) if record["prompt"] != prompt]
    lost = undone(whole, whole.replaced(done.weights), earlier, name)
    if lost and not force:
        raise FactholdError(
            f"this edit would undo {count(len(lost), 'earlier one')}: {'; '.join(map(printable, lost[:SHOWN]))}; "
            "nothing was written: take another layer, or --force"
        )
    say_replaced(output)
    made = [*(() if before is None else before.made), done.record()]
    save_edits(output, name, made, ({} if before is None else dict(before.weights)) | dict(done.weights))
    if json:
        return print_json(done.as_json() | {"file": str(output), "edits": len(made), "undone": lost})
    took = "" if done.took else f"; {printable(answer)} did not take"
    paragraph(f"{prompt} ... {printable(done.said)} (before: {printable(done.before)}), in layer {done.layer}{took}")
    paragraph(
        f"specificity: {done.kept} of {done.asked} other subjects are answered as before; perplexity of a fixed text "
        f"{done.perplexity_before:.4g} to {done.perplexity:.4g}"
    )
    if lost:
        paragraph(f"no longer said, of earlier edits: {'; '.join(map(printable, lost[:SHOWN]))}")
    again = command_line("lm", "ask", prompt, edits=output, model=model)
    hint(f"{count(len(made), 'edit')} in {output}; to ask the edited model", again)

"""facthold lm truncate: parts of a language model's matrices taken away."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from facthold.cli import options as o
from facthold.cli.lm import Model, command, opened
from facthold.cli.printing import paragraph, print_json, printable, show, working
from facthold.lab.fields import Between

if TYPE_CHECKING:
    from facthold.lm.asking import Continued
    from facthold.lm.model import LanguageModel

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
    from facthold.lm.truncation import truncated

    whole = opened(model)
    whole.encode(prompt)
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
    words = ", ".join(f"{printable(n.token.strip())} {n.probability:.1%}" for n in found.next)
    return {"layer": layer, "perplexity": perplexity, "words": words, "next": found.as_json()["next"]}

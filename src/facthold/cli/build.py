"""facthold build: a file of facts into the weights of the smallest transformer that recalls them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from facthold._util.errors import FactholdError, check_memory
from facthold.cli import options as o
from facthold.cli.app import command
from facthold.cli.common import writable_file
from facthold.cli.inputs import about_table, say_table
from facthold.cli.printing import count, print_json, working
from facthold.construct.dimensions import NOISE
from facthold.facts.seeded import SEQUENCE

if TYPE_CHECKING:
    from facthold.knowledge.build import Built


@command()
def build(
    file: Annotated[Path, typer.Argument(help="Facts: .csv, .tsv, .jsonl or .parquet with subject, relation, answer.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Model to write, as safetensors, with its facts.")],
    recipe: str = typer.Option(
        "auto", "--recipe", help="A recipe of transformers; auto: the smaller of gated and values, or else train."
    ),
    accuracy: float = typer.Option(1.0, "--accuracy", help="Share of the facts that must be recalled."),
    max_params: int | None = o.option("--max-params", "Parameters at most."),
    on_conflict: o.OnConflict = None,
    n_noise: int = typer.Option(
        NOISE, "--noise-tokens", help="Different noise tokens: what other words in a prompt are taken for."
    ),
    T: int = typer.Option(SEQUENCE, "-T", help="Length of a prompt, with subject, relation and the token EOS."),
    seed: o.Seed = 0,
    json: o.Json = False,
) -> None:
    """Put a file of facts into the weights of a transformer, as small as recalls them, and ask for each of them.

    Parameters are counted as in the paper, without the embeddings. The answer is the arg max over all answers.
    """
    writable_file(output)
    from facthold.facts.files import read_facts
    from facthold.knowledge.build import build as build_model
    from facthold.models.saving import save_model

    table, p = read_facts(file, on_conflict or "error")
    # embeddings, codes and a block of scores at the d that a table of this size gets
    check_memory(f"{file} with {count(len(table), 'fact')}", 4096.0 * (table.S + table.A) + 1e3 * len(table))
    with working(f"building {count(len(table), 'fact')} by {recipe}") as say:
        built = build_model(
            table, recipe=recipe, accuracy=accuracy, max_params=max_params, n_noise=n_noise, T=T, p=p, seed=seed,
            say=say, beside=output,
        )  # fmt: skip
    about = _about(built)
    short = built.recall < accuracy
    if not short:
        about["file"] = str(save_model(output, built.model, built.problem))
        if built.kept is not None:
            built.kept.done()
    print_json(about) if json else _say(about)
    if short:
        raise FactholdError(
            f"{built.recall:.4%} of the facts are recalled in prompts with noise, and --accuracy asks for "
            f"{accuracy:.4%}; nothing is written: try another seed, or ask for a smaller share"
        )


def _about(built: "Built") -> dict[str, Any]:
    model, table = built.model, built.problem.table
    return {
        "recipe": built.recipe, **about_table(table), "facts": len(table), "recall": built.recall,
        "smallest_margin": built.smallest_margin, "d": model.d, "H": model.H, "d_h": model.d_h, "m": model.m,
        "n_params": built.n_params, "parameter_bits": built.parameter_bits, "facts_per_param": built.facts_per_param,
        "table_bits": built.bits, "bits_per_param": built.bits / built.n_params,
        "times_lower_bound": built.parameter_bits / built.bits if built.bits else None, "seconds": built.seconds,
        "widths": [vars(width) for width in built.widths],
    }  # fmt: skip


def _say(a: dict[str, Any]) -> None:
    typer.echo(f"{a['recall']:.4%} of {count(a['facts'], 'fact')} recalled in prompts with noise, by {a['recipe']}")
    say_table(a)
    typer.echo(
        f"{a['n_params']} parameters (d={a['d']}, H={a['H']}, d_h={a['d_h']}, m={a['m']}), "
        f"{a['facts_per_param']:.3g} facts per parameter; smallest margin {a['smallest_margin']:.3g}"
    )
    bound = f"{a['times_lower_bound']:.3g} times the lower bound" if a["times_lower_bound"] else "no bits are needed"
    typer.echo(
        f"{a['parameter_bits']:,} bits in float32 for facts that need {a['table_bits']:,.0f}: {bound}, "
        f"{a['bits_per_param']:.3g} bits of facts per parameter"
    )
    for w in a["widths"]:
        tried = ", ".join(f"{m} ({share:.2%})" for m, share in w["tries"])
        typer.echo(f"  {w['name']}: {count(w['m'], 'neuron')} for {count(w['facts'], 'fact')}; tried {tried}")
    typer.echo(f"built in {a['seconds']:.1f} s" + (f": {a['file']}" if "file" in a else ""))

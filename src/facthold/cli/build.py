"""facthold build: a file of facts into the weights of the smallest transformer that recalls them."""

from pathlib import Path
from typing import Annotated, Any

import typer

from facthold._util.errors import FactholdError, check_memory
from facthold.cli.app import app
from facthold.cli.basics import JsonOption, count, print_json, writable
from facthold.cli.fact_tables import OnConflictOption, about_table, say_table
from facthold.cli.messages import telling
from facthold.cli.sizes import check_prompts
from facthold.facts.files import read_facts
from facthold.facts.prompts import MOST_NOISE, SEQUENCE
from facthold.knowledge.build import METHODS, NOISE, Built
from facthold.knowledge.build import build as build_model
from facthold.models.saving import save_model

LISTED = "; ".join(f"{name}: {what}" for name, what in METHODS.items())


@app.command()
def build(
    file: Annotated[Path, typer.Argument(help="Facts: .csv, .tsv, .jsonl or .parquet with subject, relation, answer.")],
    out: Annotated[Path, typer.Option("-o", help="Model to write, as safetensors, with its facts.")],
    method: Annotated[str, typer.Option("--method", help=f"{LISTED}.")] = "auto",
    accuracy: Annotated[float, typer.Option("--accuracy", help="Share of the facts that must be recalled.")] = 1.0,
    max_params: Annotated[int | None, typer.Option("--max-params", help="Parameters at most.")] = None,
    on_conflict: OnConflictOption = None,
    noise: Annotated[
        int, typer.Option("--noise-tokens", help="Different noise tokens: what other words in a prompt are taken for.")
    ] = NOISE,
    T: Annotated[
        int, typer.Option("-T", help="Length of a prompt, with subject, relation and the token EOS.")
    ] = SEQUENCE,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the embeddings and of all that is drawn.")] = 0,
    json: JsonOption = False,
) -> None:
    """Put a file of facts into the weights of a transformer, as small as recalls them, and ask for each of them.

    Parameters are counted as in the paper, without the embeddings. The answer is the arg max over all answers.
    """
    if method not in METHODS:
        raise ValueError(f"--method {method} is none of {', '.join(METHODS)}")
    if not 0 < accuracy <= 1:
        raise ValueError(f"--accuracy {accuracy:g} must be above 0 and at most 1")
    if max_params is not None and max_params < 1:
        raise ValueError(f"--max-params {max_params} must be at least 1")
    check_prompts(T, None)
    if not 1 <= noise <= MOST_NOISE:
        raise ValueError(f"--noise-tokens {noise} must be at least 1 and at most {MOST_NOISE}")
    if out.is_dir():
        raise FactholdError(f"-o {out} is a folder; give the name of a file")
    writable(out.parent, "-o")
    table, p = read_facts(file, on_conflict or "error")
    # embeddings, codes and a block of scores at the d that a table of this size gets
    check_memory(f"{file} with {count(len(table), 'fact')}", 4096.0 * (table.S + table.A) + 1e3 * len(table))
    with telling(f"building {count(len(table), 'fact')} by {method}") as say:
        built = build_model(
            table,
            method=method,
            accuracy=accuracy,
            max_params=max_params,
            n_noise=noise,
            T=T,
            p=p,
            seed=seed,
            say=say,
            beside=out,
        )
    found = _about(built)
    short = built.recall < accuracy
    if not short:
        found["file"] = str(save_model(out, built.model, built.problem))
        if built.kept is not None:
            built.kept.done()
    if json:
        print_json(found)
    else:
        _say(found)
    if short:
        raise FactholdError(
            f"{built.recall:.4%} of the facts are recalled in prompts with noise, and --accuracy asks for "
            f"{accuracy:.4%}; nothing is written: try another --seed, or ask for a smaller share"
        )


def _about(built: Built) -> dict[str, Any]:
    model, table = built.model, built.problem.table
    return {
        "method": built.method, **about_table(table), "facts": len(table), "recall": built.recall,
        "smallest_margin": built.smallest_margin, "d": model.d, "H": model.H, "d_h": model.d_h, "m": model.m,
        "n_params": built.n_params, "parameter_bits": built.parameter_bits, "facts_per_param": built.facts_per_param,
        "table_bits": built.bits, "bits_per_param": built.bits / built.n_params,
        "times_lower_bound": built.parameter_bits / built.bits if built.bits else None, "seconds": built.seconds,
        "widths": [
            {"name": w.name, "facts": w.facts, "m": w.m, "share": w.share, "tries": w.tries} for w in built.widths
        ],
    }  # fmt: skip


def _say(f: dict[str, Any]) -> None:
    typer.echo(f"{f['recall']:.4%} of {count(f['facts'], 'fact')} recalled in prompts with noise, by {f['method']}")
    say_table(f)
    typer.echo(
        f"{f['n_params']} parameters (d={f['d']}, H={f['H']}, d_h={f['d_h']}, m={f['m']}), "
        f"{f['facts_per_param']:.3g} facts a parameter; smallest margin {f['smallest_margin']:.3g}"
    )
    bound = f"{f['times_lower_bound']:.3g} times the lower bound" if f["times_lower_bound"] else "no bits are needed"
    typer.echo(
        f"{f['parameter_bits']:,} bits in float32 for facts that need {f['table_bits']:,.0f}: {bound}, "
        f"{f['bits_per_param']:.3g} bits of facts a parameter"
    )
    for w in f["widths"]:
        tried = ", ".join(f"{m} ({share:.2%})" for m, share in w["tries"])
        typer.echo(f"  {w['name']}: {count(w['m'], 'neuron')} for {count(w['facts'], 'fact')}; tried {tried}")
    typer.echo(f"built in {f['seconds']:.1f} s" + (f": {f['file']}" if "file" in f else ""))

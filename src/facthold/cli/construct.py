"""facthold construct: a table of facts into the weights of a transformer, without training."""

import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from facthold._util.errors import check_memory
from facthold._util.keys import derive
from facthold.cli.app import app
from facthold.cli.basics import JsonOption, count, print_json, writable
from facthold.cli.fact_tables import (
    ANSWERS,
    RELATIONS,
    SUBJECTS,
    TABLE,
    AnswersOption,
    FactsOption,
    OnConflictOption,
    ROption,
    SOption,
    TableOption,
    about_table,
    read_given,
    say_table,
)
from facthold.cli.memory import DOption
from facthold.cli.messages import working
from facthold.cli.sizes import at_least_one, check_prompts, check_size
from facthold.facts.prompts import SEQUENCE
from facthold.facts.table import random_share
from facthold.measure.fact_recall import fact_margins
from facthold.models.saving import save_model
from facthold.recipes.builders import BUILDERS, Knobs, build_facts, builder
from facthold.studies.constructions.built_size import text_problem
from facthold.studies.transformers.fact_capacity import nested_table


@app.command()
def construct(
    method: Annotated[str, typer.Option("--method", help=f"One of: {', '.join(BUILDERS)}.")] = "selected",
    S: SOption = None,
    R: ROption = None,
    D: AnswersOption = None,
    table: TableOption = None,
    share: Annotated[float | None, typer.Option("--share", help="A random share of each relation's facts.")] = None,
    facts: FactsOption = None,
    on_conflict: OnConflictOption = None,
    d: DOption = 32,
    d_h: Annotated[int, typer.Option("--d-h", help="Head dimension; 0: as the method has it.")] = 0,
    m: Annotated[int, typer.Option("-m", help="Width of the MLP, for methods with one.")] = 0,
    per_head: Annotated[
        int, typer.Option("--per-head", help="Tokens a head serves, for the paper's methods; 0: theirs.")
    ] = 0,
    T: Annotated[int, typer.Option("-T", help="Length of a prompt.")] = SEQUENCE,
    draws: Annotated[int, typer.Option("--draws", help="Prompts with fresh noise in which each fact is asked.")] = 10,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the table, the embeddings and the construction.")] = 0,
    save: Annotated[Path | None, typer.Option("--save", help="Write it as safetensors, with its facts.")] = None,
    json: JsonOption = False,
) -> None:
    """Put a table of facts into the weights of a transformer without training, and ask for every fact.

    Spherical embeddings, arg max over the whole vocabulary, as in the theorems.
    """
    way = builder(method)
    at_least_one({"-S": S, "-R": R, "-D": D, "-d": d, "--draws": draws})
    for option, value in {"--d-h": d_h, "-m": m, "--per-head": per_head}.items():
        if value < 0:
            raise ValueError(f"{option} {value} must not be negative")
    if way.knob == "m" and not m:
        raise ValueError(f"--method {method} holds facts in the MLP; give its width -m, {4 * d} to start with")
    if way.knob == "d_h" and not d_h:
        raise ValueError(f"--method {method} holds facts in the heads; give their dimension --d-h, {d} to start with")
    if way.knob != "m" and m:
        raise ValueError(f"--method {method} has no MLP, and -m is {m}; leave it out")
    if per_head and way.place == "beyond":
        raise ValueError(f"--per-head {per_head} is for attention and attention-mlp; --method {method} has its own")
    check_prompts(T, None)
    if save is not None and save.is_dir():
        raise ValueError(f"--save {save} is a folder; give the name of a file")
    check_memory(f"-d {d}", 24 * d * d)
    wide = d if method == "attention-mlp" and not d_h else max(d_h, 1)
    known, p = read_given(facts, {"-S": S, "-R": R, "-D": D, "--table": table}, on_conflict)
    if known is None:
        S, R, D = S or SUBJECTS, R or RELATIONS, D or ANSWERS
        _check(S, R, R * D, d, wide, m, T)
        known = nested_table(table or TABLE, S, R, D, seed)
    if share is not None:
        if p is not None:
            raise ValueError("take one of --share and the column p of --facts")
        known = random_share(known, share, key=derive("share", seed, share))
    _check(known.S, known.R, known.A, d, wide, m, T)
    if save is not None:
        writable(save.parent)
    problem = text_problem(known, d, seed, T, p)
    start = time.perf_counter()
    with working(f"putting {count(len(known), 'fact')} into weights by {method}"):
        model = build_facts(method, problem, Knobs(d_h=d_h, m=m, per_head=per_head), seed)
        seconds = time.perf_counter() - start
        margins = fact_margins(model, problem, key=derive("ask", seed), draws=draws)
    always = int((margins > 0).all(axis=0).sum())
    found: dict[str, Any] = {
        "method": method, "seed": seed, "d": d, "H": model.H, "d_h": model.d_h, "m": model.m, "T": T, "draws": draws,
        **about_table(known), "facts": len(known), "n_params": model.n_params,
        "facts_per_param": always / model.n_params, "recall": float((margins > 0).mean()),
        "always_recalled": always, "smallest_margin": float(np.min(margins)),
        "median_margin": float(np.median(margins)), "seconds": seconds,
    }  # fmt: skip
    if not json:
        _say(found, way.place)
    if save is not None:
        found["file"] = str(save_model(save, model, problem))
        if not json:
            typer.echo(f"model: {found['file']}")
    if json:
        print_json(found)


def _check(S: int, R: int, A: int, d: int, d_h: int, m: int, T: int) -> None:
    """Refuse what does not fit in memory, before any of it is made: at worst a head for each token."""
    check_size(S, R, A, d=d, H=min(S + R, max(2, -(-4 * (S + R) // d_h))), d_h=d_h, m=m, noise=None, T=T)


def _say(f: dict[str, Any], place: str) -> None:
    typer.echo(
        f"{f['method']} ({place}): {f['recall']:.2%} recalled; {f['always_recalled']} of {f['facts']} facts right "
        f"in all {count(f['draws'], 'prompt')} each; built in {f['seconds']:.1f} s"
    )
    typer.echo(f"smallest margin {f['smallest_margin']:.4g}, median {f['median_margin']:.4g}")
    typer.echo(
        f"{f['n_params']} parameters (d={f['d']}, H={f['H']}, d_h={f['d_h']}, m={f['m']}), "
        f"{f['facts_per_param']:.4g} facts a parameter, of those that are always right"
    )
    say_table(f)

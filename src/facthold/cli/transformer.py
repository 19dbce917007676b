"""facthold transformer, facthold fact-capacity: one transformer, and how many facts one holds."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from facthold._util.errors import unknown
from facthold._util.keys import derive
from facthold.cli.app import app
from facthold.cli.basics import JsonOption, count, print_json, writable
from facthold.cli.common import RayOption, StoreOption, WorkersOption, compute_cells, find_place, open_store
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
from facthold.cli.searches import say_search
from facthold.cli.sizes import (
    at_least_one,
    check_goal,
    check_prompts,
    check_protocol,
    check_size,
    check_weights,
    head_size,
    width,
)
from facthold.facts.prompts import SEQUENCE
from facthold.facts.prompts import zipf as zipf_by
from facthold.facts.table import FactTable
from facthold.measure.fact_recall import fact_accuracy
from facthold.models.saving import save_model
from facthold.models.transformer import n_params
from facthold.studies.transformers.fact_capacity import (
    GROWTH,
    FactCapacity,
    best_run,
    make_problem,
    nested_table,
    racing_members,
)
from facthold.studies.transformers.variants import variant as find_variant
from facthold.train import RecallFacts, fit
from facthold.train import protocol as find_protocol

AlphaOption = Annotated[float, typer.Option("--alpha", help="H d_h = alpha d, with d_h rounded down.")]
BetaOption = Annotated[float, typer.Option("--beta", help="m = beta d; 0: attention alone.")]
HeadsOption = Annotated[int, typer.Option("--heads", "-H", help="Number of heads H.")]
TOption = Annotated[int, typer.Option("-T", help="Length of a prompt.")]
VariantOption = Annotated[
    str, typer.Option("--variant", help="code (as the authors' code has it) or text (the paper's).")
]
ProtocolOption = Annotated[str, typer.Option("--protocol", help="transformer-code or transformer-short.")]
RuleOption = Annotated[str, typer.Option("--rule", help="best: the goal at any look; final: at the end.")]
GoalOption = Annotated[float, typer.Option("--goal", help="Share of the facts that must be recalled.")]

ENDED = {
    "reached": "reached its goal",
    "exhausted": "did not reach its goal and ended",
    "futile": "given up (futile: its accuracy would not have come to the goal in time)",
}
"""How the best run of a race can have ended, in words."""
STEEPEST = 32.0
"""Largest exponent of --zipf: what is rarer is never asked."""


@app.command()
def transformer(
    S: SOption = None,
    R: ROption = None,
    D: AnswersOption = None,
    table: TableOption = None,
    facts: FactsOption = None,
    on_conflict: OnConflictOption = None,
    d: DOption = 32,
    alpha: Annotated[
        float | None, typer.Option("--alpha", help="H d_h = alpha d, with d_h rounded down (default: 1).")
    ] = None,
    beta: Annotated[float | None, typer.Option("--beta", help="m = beta d (default: 4).")] = None,
    heads: HeadsOption = 8,
    d_h: Annotated[int | None, typer.Option("--d-h", help="Head dimension, instead of --alpha.")] = None,
    m: Annotated[int | None, typer.Option("-m", help="Width of the MLP, instead of --beta; 0: none.")] = None,
    T: TOption = SEQUENCE,
    noise: Annotated[int | None, typer.Option("--noise", help="Noise tokens (default: S + R).")] = None,
    zipf: Annotated[
        tuple[float, float] | None,
        typer.Option("--zipf", metavar="IN_S IN_R", help="p(s, r) falls with these powers of s and r, as in: 1 0."),
    ] = None,
    variant: VariantOption = "code",
    protocol: ProtocolOption = "transformer-short",
    rule: RuleOption = "best",
    goal: GoalOption = 0.99,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the table, the embeddings and the training.")] = 0,
    save: Annotated[Path | None, typer.Option("--save", help="Write it as safetensors, with its facts.")] = None,
    json: JsonOption = False,
) -> None:
    """Train one transformer on a table of facts and say what it recalls.

    The learning rates of the protocol run side by side; the best of them counts.
    """
    check_protocol(protocol)
    check_goal(goal)
    way, training = find_variant(variant), replace(find_protocol(protocol), rule=rule, goal=goal)
    at_least_one({"-S": S, "-R": R, "-D": D, "-d": d, "--heads": heads})
    d_h, m = head_size(alpha, d_h, d, heads), width(beta, m, d)
    check_prompts(T, noise)
    given = {"-S": S, "-R": R, "-D": D, "--table": table}
    known, p = read_given(facts, given, on_conflict)
    if known is None:
        S, R, D, table = S or SUBJECTS, R or RELATIONS, D or ANSWERS, table or TABLE
        check_size(S, R, R * D, d=d, H=heads, d_h=d_h, m=m, noise=noise, T=T)
        known = nested_table(table, S, R, D, seed)
    else:
        check_size(known.S, known.R, known.A, d=d, H=heads, d_h=d_h, m=m, noise=noise, T=T)
    if zipf is not None:
        p = _zipf(known, zipf, p)
    if save is not None:
        if save.is_dir():
            raise ValueError(f"--save {save} is a folder; give the name of a file")
        writable(save.parent)
    problem = make_problem(known, d, seed, way, T, noise, p)
    start = time.perf_counter()
    with working(f"training on {count(len(known), 'fact')} by {protocol}"):
        race = racing_members(RecallFacts.of(problem), heads, d_h, m, seed, way, training, "transformer")
        best = best_run(race, fit(race, training), rule)
    size = {"d": d, "H": heads, "d_h": d_h, "m": m}
    found = {
        "variant": variant, "protocol": protocol, "rule": rule, "goal": goal, "seed": seed, **size,
        "T": T, "n_noise": problem.n_noise, **about_table(known), "facts": len(known),
        "n_params": n_params(**size), "facts_per_param": len(known) / n_params(**size),
        "status": "diverged", "seconds": time.perf_counter() - start,
    }  # fmt: skip
    if best is not None:
        run, lr = best
        found |= {"status": run.status, "lr": lr, "steps": run.steps, "best": run.best, "final": run.final}
        found["recall"] = fact_accuracy(run.model, problem, key=derive("ask", seed))
    if not json:
        _say(found)
    if best is not None and save is not None:  # what was found is said before a disk can be full
        found["file"] = str(save_model(save, best[0].model, problem))
        if not json:
            typer.echo(f"model: {found['file']}")
    if json:
        print_json(found)


@app.command()
def fact_capacity(
    d: DOption = 8,
    alpha: AlphaOption = 1.0,
    beta: BetaOption = 1.0,
    heads: HeadsOption = 4,
    D: AnswersOption = None,
    distinct: Annotated[bool, typer.Option("--distinct", help="An answer of its own for each fact, D = S.")] = False,
    growth: Annotated[str, typer.Option("--growth", help="How S and R grow: S=R or S=R^2.")] = "S=R",
    T: TOption = SEQUENCE,
    variant: VariantOption = "code",
    protocol: ProtocolOption = "transformer-short",
    rule: RuleOption = "best",
    goal: GoalOption = 0.99,
    tolerance: Annotated[float, typer.Option("--tolerance", help="Relative width of S at which it ends.")] = 0.2,
    seeds: Annotated[int, typer.Option("--seeds", help="Number of seeds.")] = 1,
    workers: WorkersOption = None,
    ray: RayOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Search for the largest table of facts that a transformer of this shape and size learns."""
    at_least_one({"-d": d, "--heads": heads, "--seeds": seeds, "-D": D})
    check_protocol(protocol)
    check_goal(goal)
    if distinct and D is not None:
        raise ValueError(f"take one of -D {D} and --distinct, which gives each fact an answer of its own")
    size = {"d": d, "H": heads, "d_h": head_size(alpha, None, d, heads), "m": width(beta, None, d)}
    check_prompts(T, None)
    if growth not in GROWTH:
        raise unknown("--growth", growth, GROWTH)
    check_weights(**size)  # before a search is laid out for a model that cannot be
    place = find_place(workers, ray)
    cell = FactCapacity(
        alpha=alpha, beta=beta, d=d, H=heads, D=None if distinct else D or ANSWERS,
        table="balanced" if distinct else "random", growth=growth, T=T, variant=variant,
        protocol=protocol, rule=rule, goal=goal, tolerance=tolerance, seeds=tuple(range(seeds)),
    )  # fmt: skip
    S, R = cell.guess, cell.R(cell.guess)
    check_size(S, R, R * (cell.D or S), **size, noise=None, T=T)
    with open_store(store) as results:
        (row,) = compute_cells("fact-capacity", [cell], results, place)
    if json:
        print_json(row.result)
        return
    found, said = row.result, None
    if found["N"] is not None:
        low, high = found["N_min"], found["N_max"]
        spread = f"S = {low if low == high else f'{low} to {high}'} over {count(seeds, 'seed')}, {growth}"
        said = f"{found['facts']:.6g} facts ({spread}), {found['facts'] / found['n_params']:.3g} a parameter"
    say_search(found, "S", said)


def _zipf(table: FactTable, exponents: tuple[float, float], p: np.ndarray | None) -> np.ndarray:
    if p is not None:
        raise ValueError("take one of --zipf and the column p of --facts: both say how often a fact is asked")
    if not all(abs(exponent) <= STEEPEST for exponent in exponents):
        raise ValueError(f"--zipf {exponents[0]:g} {exponents[1]:g}: take exponents of at most {STEEPEST:g}")
    return zipf_by(table, *exponents)


def _say(found: dict[str, Any]) -> None:
    f = found
    if f["status"] == "diverged":
        typer.echo(f"training diverged at every learning rate; nothing is recalled of {f['facts']} facts")
    else:
        typer.echo(
            f"{f['recall']:.2%} of {f['facts']} facts recalled, asked with fresh noise; while it trained "
            f"{f['best']:.2%} at best, {f['final']:.2%} at the end"
        )
        typer.echo(f"{ENDED[f['status']]} after {f['steps']} steps at learning rate {f['lr']:g}, {f['seconds']:.1f} s")
    typer.echo(
        f"{f['n_params']} parameters (d={f['d']}, H={f['H']}, d_h={f['d_h']}, m={f['m']}), "
        f"{f['facts_per_param']:.4g} facts a parameter"
    )
    say_table(f)

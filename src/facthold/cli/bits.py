"""facthold bits: how few bits a saved model could have, and the model with its weights rounded."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from facthold._util.errors import FactholdError, unknown
from facthold.cli.app import app
from facthold.cli.basics import JsonOption, count, interrupted, print_json, writable
from facthold.cli.messages import telling
from facthold.cli.tables import show
from facthold.facts.problem import FactualRecall
from facthold.measure.bits import table_bits
from facthold.measure.quantise import SCALES, Quantised, Recall, grid_of_bits, judged_bits, quantise
from facthold.measure.recall import accuracy as memory_accuracy
from facthold.memory.associations import Problem
from facthold.models.saving import load_model, save_model
from facthold.studies.bits.fact_bits import asked_often
from facthold.theory.bounds import bits_uniform

GOALS = (0.99, 1.0)


@app.command()
def bits(
    model: Annotated[Path, typer.Argument(help="A memory or a transformer with what it stores, as safetensors.")],
    accuracy: Annotated[
        float | None, typer.Option("--accuracy", help="Share that must be recalled (default: 0.99, and 1).")
    ] = None,
    n: Annotated[
        int | None, typer.Option("--bits", help="Round to so many bits a weight instead of searching for the fewest.")
    ] = None,
    scales: Annotated[
        str | None, typer.Option("--scales", help="With --bits: a scale for each array, matrix (head; default) or row.")
    ] = None,
    out: Annotated[Path | None, typer.Option("-o", help="Write the rounded model, as safetensors in float32.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the noise tokens in prompts.")] = 0,
    json: JsonOption = False,
) -> None:
    """Round the weights of a model to a uniform grid, and find the fewest bits at which it still knows what it stores.

    A fact of a transformer counts where it is right in several prompts. Bits are those of all weights, of the scales
    (32 each) and of the choice of grids; the embeddings are left out.
    """
    if accuracy is not None and not 0 < accuracy <= 1:
        raise ValueError(f"--accuracy {accuracy:g} must be above 0 and at most 1")
    if n is not None and not 1 <= n <= 16:
        raise ValueError(f"--bits {n} must be from 1 to 16")
    if n is not None and accuracy is not None:
        raise ValueError(f"take one of --bits {n} and --accuracy {accuracy:g}: the second searches for the first")
    if scales is not None and scales not in SCALES:
        raise unknown("--scales", scales, SCALES)
    if scales is not None and n is None:
        raise ValueError(f"--scales {scales} goes with --bits; a search tries all of them")
    if out is not None:
        writable(out.parent, "-o")
        if out.suffix != ".safetensors" or out.is_dir() or out.resolve() == model.resolve():
            raise FactholdError(f"-o {out} must be a file that ends in .safetensors, and not the model itself")
    weights, problem = load_model(model)
    if problem is None:
        raise FactholdError(
            f"{model} holds a model without what it stores; save it with its problem, or build it again"
        )
    recall, facts, needed, alike = _asking(problem, seed)
    recall = Recall([_heeding(ask) for ask in recall.choose], _heeding(recall.judge))
    with telling(f"rounding {model}") as say:
        before = recall.judge(weights)
        if n is not None:
            q = quantise(weights, grid_of_bits(n, scales or SCALES[1]))
            found: list[tuple[float | None, Quantised | None, float]] = [(None, q, recall.judge(q.model))]
        else:
            found = []
            for goal in (accuracy,) if accuracy is not None else GOALS:
                say(f"fewest bits at {goal:.4g} of {count(facts, 'fact')}")
                best = judged_bits(weights, recall, goal)
                found.append((goal, best.quantised, best.recall))
    rows = [_row(goal, q, share, facts, needed) for goal, q, share in found]
    about: dict[str, Any] = {"model": str(model), "facts": facts, "recall": before, "alike": alike, "rounded": rows}
    kept = next((q for _, q, _ in found if q is not None), None)
    if out is not None and kept is not None:
        about["file"] = str(save_model(out, kept.model, problem))
    print_json(about) if json else _say(about)
    if kept is None:
        raise FactholdError(f"no grid keeps so much: {before:.4%} is recalled as it is; ask for less with --accuracy")


def _heeding(ask: Callable[[Any], float]) -> Callable[[Any], float]:
    """The same, but for Ctrl-C: a KeyboardInterrupt can get lost, if it meets the wrong line of a library."""

    def heeding(model: Any) -> float:
        if interrupted.is_set():
            raise KeyboardInterrupt
        return ask(model)

    return heeding


def _asking(problem: Problem | FactualRecall, seed: int) -> tuple[Recall, int, Callable[[float], float], str]:
    """How a model is asked, for how many facts, and the bits that such a recall needs of all facts like these."""
    if isinstance(problem, FactualRecall):
        table = problem.table
        alike = "every table with these answers, each as often"
        return asked_often(problem, seed), len(table), lambda share: table_bits(table, share), alike
    N, M = problem.N, problem.M
    ask = lambda m: memory_accuracy(m, problem)  # noqa: E731
    return Recall([ask], ask), N, lambda share: bits_uniform(N, M, share), f"every map from {N} inputs to {M} outputs"


def _row(
    goal: float | None, q: Quantised | None, share: float, facts: int, needed: Callable[[float], float]
) -> dict[str, Any]:
    if q is None:
        return {"goal": goal, "recall": None, "bits": None}
    least = needed(share)
    return {
        "goal": goal, "recall": share, "bits": q.bits, "scale_bits": q.scale_bits, "n_weights": q.n_weights,
        "bits_per_weight": q.bits_per_weight, "bits_per_fact": q.bits / facts, "megabytes": q.bits / 8e6,
        "bits_needed": least, "times_needed": q.bits / least if least else None,
        "needed_per_weight": least / q.n_weights,
        "grids": {name: {"levels": g.levels, "scales": g.scales} for name, g in q.grids.items()},
    }  # fmt: skip


def _say(about: dict[str, Any]) -> None:
    rows = [r for r in about["rounded"] if r["bits"] is not None]
    if not rows:
        return
    show(
        f"{about['recall']:.4%} of {count(about['facts'], 'fact')} recalled in float32",
        ("asked for", "recalled", "bits a weight", "bits in all", "bits a fact", "levels"),
        [
            (
                "" if r["goal"] is None else f"{r['goal']:.4%}", f"{r['recall']:.4%}", f"{r['bits_per_weight']:.3g}",
                f"{r['bits']:,.0f}", f"{r['bits_per_fact']:.4g}",
                ", ".join(f"{name} {g['levels']}" for name, g in r["grids"].items()),
            )
            for r in rows
        ],
    )  # fmt: skip
    typer.echo("for one given table or map there is no bound")
    for r in {(r["bits"], r["recall"]): r for r in rows}.values():  # one grid may serve both goals
        typer.echo(
            f"but no model that knows {r['recall']:.4%} of {about['alike']} "
            f"has fewer than {r['bits_needed']:,.0f} bits, {r['needed_per_weight']:.3g} a weight"
            + (f"; {r['times_needed']:.3g} times as many are used" if r["times_needed"] else "")
        )
    if "file" in about:
        typer.echo(f"model: {about['file']}")

"""facthold bits: how few bits a saved model could have, and the model with its weights rounded."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from facthold._util.errors import FactholdError, check_one_of
from facthold._util.files import model_of
from facthold.cli import options as o
from facthold.cli.app import command
from facthold.cli.ending import heed
from facthold.cli.inputs import about_file, file_in_words, refuse, say_replaced, writable_file
from facthold.cli.printing import count, paragraph, percent, print_json, printable, show, working
from facthold.facts.problem import FactualRecall
from facthold.lab.fields import Between
from facthold.measure.grids import MOST_BITS, SCALES, grid_of_bits
from facthold.studies.bits.fact_bits import asked_often
from facthold.theory.bounds import bits_uniform

if TYPE_CHECKING:
    from facthold.measure.quantise import Quantised, Recall
    from facthold.memory.associations import Problem

GOALS = (0.99, 1.0)
SHOWN = 5  # facts that come back, as a message names them


@command()
def bits(
    model: Annotated[Path, typer.Argument(help="A memory or a transformer with what it stores, as safetensors.")],
    accuracy: float | None = o.option("--accuracy", "Share that must be recalled (default: 0.99, and 1)."),
    bits: int | None = o.option(
        "--bits", "Round to so many bits per weight, from 1 to 16, instead of searching for the fewest."
    ),
    scales: str | None = o.option("--scales", "With --bits: a scale for each array, matrix (head; default) or row."),
    output: o.ModelFile = None,
    redraw: o.Redraw = None,
    seed: o.Seed = 0,
    json: o.Json = False,
) -> None:
    """Round the weights of a model to a uniform grid, and find the fewest bits at which it still knows what it stores.

    A fact of a transformer counts where it is right in several prompts, over the whole vocabulary unless the model was
    made for the answers alone. Bits are those of all weights, of the scales
    (32 each) and of the choice of grids; the embeddings are left out. The file of --output has the weights packed into
    about as many bits, and no embeddings that can be drawn again (--store-embeddings keeps them).
    """
    Between(low=0, most=1).check("accuracy", accuracy)
    if bits is None:
        refuse("goes with --bits; a search tries all of them", scales=scales)
    elif accuracy is not None:
        raise ValueError(f"take one of bits={bits} and accuracy={accuracy:g}: the second searches for the first")
    check_one_of("scales", scales or SCALES[1], SCALES)
    grid = None if bits is None else grid_of_bits(bits, scales or SCALES[1])
    from facthold.measure.quantise import ROUNDING, Recall, as_packed, grid_points, judged_bits, quantise
    from facthold.models.saving import check_finite, load_model, read_points, to_numpy, write_model

    weights, problem = load_model(model)
    writable_file(output, model_of(type(weights).__name__))
    if problem is None:
        raise FactholdError(
            f"{model} holds a model without what it stores; save it with its problem, or build it again"
        )
    check_finite(to_numpy(weights))
    recall, facts, needed, alike = _asking(problem, seed)
    recall = Recall([_heeding(ask) for ask in recall.choose], _heeding(recall.judge))
    back = _coming_back(weights, problem)
    guarded = Recall([_guarded(ask, back) for ask in recall.choose], _guarded(recall.judge, back))
    found: list[tuple[float | None, Quantised | None, float]] = []
    packed, weight_bytes = read_points(model)
    already = as_packed(weights, packed)
    say_replaced(output)
    with working(f"rounding {model}") as say:
        before = recall.judge(weights)
        if grid is not None:
            rounded = quantise(weights, grid)
            found.append((None, rounded, recall.judge(rounded.model)))
        for goal in () if grid is not None else GOALS if accuracy is None else (accuracy,):
            say(f"fewest bits at {goal:.4g} of {count(facts, 'fact')}")
            best = judged_bits(weights, guarded, goal)
            q, share = best.quantised, best.recall
            if already is not None and before >= goal - ROUNDING and (q is None or already.bits <= q.bits):
                q, share = already, before
            found.append((goal, q, share))
    rows = [_row(goal, q, share, facts, needed) for goal, q, share in found]
    about: dict[str, Any] = {"model": str(model), "facts": facts, "recall": before, "alike": alike, "rounded": rows}
    about["packed_bits"] = None if already is None else already.bits
    kept = next((q for _, q, _ in found if q is not None), None)
    about["came_back"] = [] if kept is None else back(kept.model)
    if output is not None and kept is not None:
        points = packed if kept is already else grid_points(weights, kept.grids)
        about |= {"model_bytes": model.stat().st_size, "model_weight_bytes": weight_bytes}
        redraw = True if redraw is None else redraw  # it is to be small, and the model that it comes from stays
        about |= about_file(write_model(output, kept.model, problem, points=points, redraw=redraw))
    print_json(about) if json else _say(about)
    if kept is None:
        goal = min(goal for goal, _, _ in found if goal is not None)
        if before < goal - ROUNDING:
            raise FactholdError(
                f"the model as it is recalls {percent(before)}, less than {percent(goal)}; ask for less with --accuracy"
            )
        finest = max(guarded.judge(quantise(weights, grid_of_bits(MOST_BITS, scale)).model) for scale in SCALES)
        raise FactholdError(
            f"no grid of at most {MOST_BITS} bits per weight keeps {percent(goal)}; the finest keep {percent(finest)} "
            f"at most, and {percent(before)} is recalled as it is. Ask for less with --accuracy"
        )


def _heeding(ask: Callable[[Any], float]) -> Callable[[Any], float]:
    """The same, but for Ctrl-C."""

    def heeding(model: Any) -> float:
        heed()
        return ask(model)

    return heeding


def _coming_back(weights: Any, problem: "Problem | FactualRecall") -> Callable[[Any], list[tuple[str, str]]]:
    """Which facts that were forgotten, and that the model does not say, another model with its weights rounded says."""
    if not isinstance(problem, FactualRecall) or not len(problem.forgotten):
        return lambda model: []
    from facthold.knowledge.model import Model
    from facthold.knowledge.report import named, said_again

    before = Model(weights, problem)
    gone = ~said_again(before)
    return lambda model: list(named(before, gone & said_again(Model(model, problem))))


def _guarded(ask: Callable[[Any], float], back: Callable[[Any], list]) -> Callable[[Any], float]:
    """The same, but for models that say again what was forgotten: these do not do, however much they recall."""
    return lambda model: 0.0 if back(model) else ask(model)


def _asking(problem: "Problem | FactualRecall", seed: int) -> "tuple[Recall, int, Callable[[float], float], str]":
    """How a model is asked, for how many facts, and the bits that such a recall needs of all facts like these."""
    from facthold.measure.bits import table_bits
    from facthold.measure.quantise import Recall
    from facthold.measure.recall import accuracy

    if isinstance(problem, FactualRecall):
        table = problem.table
        alike = "every table with these answers, each as often"
        return asked_often(problem, seed), len(table), lambda share: table_bits(table, share), alike
    N, M = problem.N, problem.M
    ask = lambda m: accuracy(m, problem)  # noqa: E731
    return Recall([ask], ask), N, lambda share: bits_uniform(N, M, share), f"every map from {N} inputs to {M} outputs"


def _row(
    goal: float | None, q: "Quantised | None", share: float, facts: int, needed: Callable[[float], float]
) -> dict[str, Any]:
    if q is None:
        return {"accuracy": goal, "recall": None, "bits": None}
    least = needed(share)
    return {
        "accuracy": goal, "recall": share, "bits": q.bits, "scale_bits": q.scale_bits, "n_weights": q.n_weights,
        "bits_per_weight": q.bits_per_weight, "bits_per_recalled_fact": q.bits / (share * facts) if share else None,
        "megabytes": q.bits / 8e6,
        "bits_needed": least, "times_needed": q.bits / least if least else None,
        "needed_per_weight": least / q.n_weights,
        "grids": {name: {"levels": g.levels, "scales": g.scales} for name, g in q.grids.items()},
    }  # fmt: skip


def _levels(row: dict[str, Any]) -> str:
    return ", ".join(f"{name} {grid['levels']}" for name, grid in row["grids"].items())


def _per_fact(row: dict[str, Any]) -> str:
    return f"{row['bits_per_recalled_fact']:.4g}" if row["recall"] else "none is recalled"


def _smaller(before: int, after: int) -> str:
    """How much smaller, in times or where that would say nothing in per cent."""
    if after >= before:
        return "not smaller"
    return f"{before / after:.3g} times smaller" if before > 1.1 * after else f"{1 - after / before:.2%} smaller"


def _say(about: dict[str, Any]) -> None:
    rows = [r for r in about["rounded"] if r["bits"] is not None]
    if not rows:
        return
    packed = about["packed_bits"]
    show(
        f"{about['recall']:.4%} of {count(about['facts'], 'fact')} recalled "
        + ("in float32" if packed is None else f"as it is, packed in {count(f'{packed:,.0f}', 'bit')}"),
        {
            "asked for": "{accuracy}", "recalled": "{recall:.4%}", "bits per weight": "{bits_per_weight:.3g}",
            "bits in all": "{bits:,.0f}", "per fact recalled": "{per_fact}", "levels": "{levels}",
        },
        [r | {"levels": _levels(r), "accuracy": r["accuracy"] and percent(r["accuracy"]), "per_fact": _per_fact(r)}
         for r in rows],
    )  # fmt: skip
    if any(r["bits"] == packed and r["accuracy"] for r in rows):
        paragraph("it is packed already, and no grid with fewer bits was found: these are the bits that it has")
    if back := about["came_back"]:
        few = ", ".join(f"({subject}, {relation})" for subject, relation in printable(back[:SHOWN]))
        more = f" and {len(back) - SHOWN} more" if len(back) > SHOWN else ""
        paragraph(
            f"forgotten before, and said again with these weights: {few}{more}; `facthold edit` can forget it again"
        )
    paragraph("for one given table or map there is no bound")
    for r in {(r["bits"], r["recall"]): r for r in rows}.values():  # one grid may serve both accuracies
        if r["bits_needed"] < 0.5:
            continue  # there is nothing to say of 0 bits
        paragraph(
            f"but no model that knows {r['recall']:.4%} of {about['alike']} "
            f"has fewer than {count(format(r['bits_needed'], ',.0f'), 'bit')}, {r['needed_per_weight']:.3g} per weight"
            + (f"; {r['times_needed']:.3g} times as many are used" if r["times_needed"] else "")
        )
    if "file" in about:
        before, weights = about["model_bytes"], about["model_weight_bytes"]
        paragraph(
            f"model: {file_in_words(about)}\n"
            f"the file is {_smaller(before, about['file_bytes'])} than {about['model']} with {before:,} bytes; its "
            f"weights, {weights:,} bytes there, are {_smaller(weights, about['weight_bytes'])}"
        )

"""facthold capacity: the most that a memory or a trained transformer of a given size holds."""

from dataclasses import fields, replace
from statistics import fmean
from typing import Any

import typer

from facthold._util.errors import check_positive, find
from facthold._util.memory import available, in_gib
from facthold.cli import options as o
from facthold.cli.app import command
from facthold.cli.cells import compute_cells, find_place
from facthold.cli.inputs import WIDEST, check_protocol, given_for, head_size
from facthold.cli.printing import count, filled, messages, paragraph, print_json
from facthold.lab.fields import Between, Repeats, rules_of
from facthold.measure.scaling import NO_INTERVAL
from facthold.recipes import recipes
from facthold.recipes.base import MemoryRecipe
from facthold.studies.memories.capacity import SEEDS, Capacity
from facthold.studies.transformers.fact_capacity import FactCapacity

ALWAYS = {"recipe", "accuracy", "workers", "ray", "store", "json"}
MEMORY: dict[str, Any] = {"d": 32, "seeds": len(SEEDS)}
TRANSFORMER: dict[str, Any] = {
    "d": 8, "alpha": 1.0, "beta": 1.0, "H": 4, "protocol": "transformer-short", "tolerance": 0.2, "seeds": 1,
    "distinct": False,
}  # fmt: skip
"""What is taken where nothing is given."""
FARTHEST = {Capacity: 16, FactCapacity: 8**2}  # times its first guess is where a search ends, in associations or facts
AT_LEAST = "search ceiling"
MEANING = {"search floor": "not even {0} = {1} is recalled, the smallest that was tried", "failed": "training diverged"}


@command()
def capacity(
    context: typer.Context,
    recipe: o.Recipe = "outer-product",
    d: int | None = o.option("-d", "Embedding dimension (default: 32, or 8 for train)."),
    m: o.Width = None,
    map: o.Map = None,
    M: o.Outputs = None,
    embeddings: o.Embeddings = None,
    H: o.Heads = None,
    alpha: o.Alpha = None,
    beta: float | None = o.option("--beta", "m = beta d; 0: attention alone (default: 1)."),
    D: o.Answers = None,
    distinct: bool | None = o.option("--distinct", "An answer of its own for each fact, D = S."),
    growth: str | None = o.option("--growth", "How S and R grow: S=R (default) or S=R^2."),
    T: o.Length = None,
    variant: o.Variant = None,
    protocol: o.Protocol = None,
    rule: o.Rule = None,
    accuracy: float = typer.Option(0.99, "--accuracy", help="Share that must be recalled."),
    tolerance: float | None = o.option(
        "--tolerance", "Relative width at which the search ends (default: 0.01, or 0.2 for train)."
    ),
    seeds: int | None = o.option("--seeds", "Number of seeds (default: 5, or 1 for train)."),
    workers: o.Workers = None,
    ray: o.Ray = None,
    store: o.Store = None,
    json: o.Json = False,
) -> None:
    """Search for the largest N that a memory of this size recalls, or with `--recipe train` for the largest table of
    facts that a transformer of this shape and size learns.

    Training and recall are float32.
    """
    wanted = find("recipe", recipe, recipes())
    in_memory = isinstance(wanted, MemoryRecipe)
    if isinstance(wanted, MemoryRecipe):
        wanted.check_stores()
    elif recipe != "train":
        raise ValueError(f"recipe={recipe!r} has no such search; `facthold plan` says which size it needs for a table")
    defaults = MEMORY if in_memory else TRANSFORMER
    takes = {field.name for field in fields(Capacity if in_memory else FactCapacity)} | defaults.keys()
    given = given_for(recipe, ALWAYS | takes, context)
    options = defaults | {name: value for name, value in given.items() if name in takes}
    check_positive(**{name: options[name] for name in ("d", "H") if name in options})
    for check in rules_of(Repeats):
        check.check("seeds", options["seeds"])
    options |= {"goal": accuracy, "seeds": tuple(range(options["seeds"]))}
    place = find_place(workers, ray)
    cell = Capacity(method=recipe, **options) if in_memory else _transformer(options)
    _foretell_memory(cell)
    (row,) = compute_cells("capacity", [cell], store, place)
    print_json(row.result | _ended(row.result, cell)) if json else _say(row.result, cell)


def _foretell_memory(cell: Capacity | FactCapacity) -> None:
    """Say before a search how much memory it takes to its end, where there is not so much: it begins with less, and may
    not come so far."""
    farthest = replace(cell, start=FARTHEST[type(cell)] * cell.start).needed
    if (most := sum(farthest.values())) > (there := available()):
        line = f"to its end this search needs about {in_gib(most)} of memory, and there is {in_gib(there)} to use"
        messages.print(filled(f"{line}: it is stopped by that, should the capacity be far above what is expected"))


def _transformer(options: dict[str, Any]) -> FactCapacity:
    if options.pop("distinct"):
        if "D" in options:
            raise ValueError(f"take one of D={options['D']} and --distinct, which gives each fact an answer of its own")
        options |= {"D": None, "table": "balanced"}
    check_protocol(options["protocol"])
    head_size(options["alpha"], options["d"], options["H"])
    Between(least=0, most=WIDEST).check("beta", options["beta"])
    return FactCapacity(**options)


def _recalled(seed: dict[str, Any]) -> float:
    """How many associations a search recalls at the largest N that it found to be stored."""
    return next(float(probe["accuracy"] * probe["N"]) for probe in seed["probes"] if probe["N"] == seed["stored"])


def _ended(result: dict[str, Any], cell: Capacity | FactCapacity) -> dict[str, Any]:
    """Of a search that ended above all that it tried: how much is held at least, and whether there can be more."""
    if result["status"] != AT_LEAST:
        return {}
    least = min(max(probe["N"] for probe in seed["probes"]) for seed in result["per_seed"])
    return {"at_least": least, "can_be_more": not (isinstance(cell, Capacity) and least == cell.most)}


def _say(result: dict[str, Any], cell: Capacity | FactCapacity) -> None:
    seeds = count(len(cell.seeds), "seed")
    if result["N"] is None:
        tried = [[probe["N"] for probe in seed["probes"]] for seed in result["per_seed"]]
        name, status = "N" if isinstance(cell, Capacity) else "S", result["status"]
        if status == AT_LEAST:
            ended, goal = _ended(result, cell), "all" if cell.goal == 1 else f"at least {cell.goal:.4g}"
            more, end = " or more", "and the search ended there"
            if not ended["can_be_more"]:
                more, end = "", "and there cannot be more with these embeddings and outputs"
            paragraph(f"{name} = {ended['at_least']}{more}: {goal} of what was tried is recalled at every size, {end}")
        else:
            meaning = MEANING.get(status, "seeds ended differently").format(name, min(map(min, tried), default=0))
            paragraph(f"no capacity: {status} ({meaning})")
    elif isinstance(cell, Capacity):
        spread = f"{result['N_min']} to {result['N_max']} over {seeds}" if len(cell.seeds) > 1 else NO_INTERVAL
        each = result["n_params"] / fmean(map(_recalled, result["per_seed"]))
        paragraph(f"N = {result['N']:.5g} ({spread}), {each:.4g} parameters per association recalled")
    else:
        low, high = result["N_min"], result["N_max"]
        over = f" over {seeds}" if len(cell.seeds) > 1 else f", {NO_INTERVAL}"
        spread = f"S = {low if low == high else f'{low} to {high}'}{over}, {cell.growth}"
        recalled = cell.goal * result["facts"]
        paragraph(
            f"{count(format(result['facts'], '.6g'), 'fact')} ({spread}), at least {cell.goal:.4g} of them recalled: "
            f"{recalled / result['n_params']:.3g} recalled facts per parameter"
        )
    probes = sum(len(seed["probes"]) for seed in result["per_seed"])
    paragraph(f"{count(result['n_params'], 'parameter')}; {count(probes, 'probe')}, all kept in the results file")

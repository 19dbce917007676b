"""facthold make: one memory or transformer of a given size, by any recipe, and what it recalls."""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from facthold._util.commands import duration
from facthold._util.errors import check_one_of, check_positive, find
from facthold._util.files import OF_FACTS, OF_MAP
from facthold._util.keys import derive
from facthold._util.memory import bytes_of, check_memory, memory_parts
from facthold.cli import inputs
from facthold.cli import options as o
from facthold.cli.app import command
from facthold.cli.printing import count, paragraph, print_json, working
from facthold.facts.problem import SEQUENCE, seeded_recall, seeded_table
from facthold.facts.table import FactTable, random_share
from facthold.lab.fields import Between
from facthold.memory import EMBEDDINGS, MAPS
from facthold.models.sizes import Shape
from facthold.recipes import make_memory, recipes
from facthold.recipes.base import FactRecipe, MemoryRecipe, Sizes
from facthold.recipes.facts import BETA, HEADS
from facthold.theory import bounds
from facthold.train.protocols import AUTHORS, BATCH
from facthold.train.protocols import protocol as find_protocol

if TYPE_CHECKING:
    from facthold.train.engine import Listener

ALWAYS = {"recipe", "d", "seed", "output", "json"}
FACTS = {"S", "R", "D", "table", "share", "facts", "on_conflict", "draws", "redraw"}
PROMPTS = {"T", "n_noise", "zipf"}
MEMORY = {"N", "m", "map", "M", "embeddings"}
BUILT = PROMPTS | {"d_h", "m", "per_head"}
OF_ITS_OWN = {"m", "accuracy"}  # what recipes take that choose their own prompts, such as `gated`
TRAINED = PROMPTS | {"alpha", "beta", "H", "d_h", "m", "variant", "protocol", "rule", "accuracy"}
DRAWS, MOST_DRAWS = 10, 10_000
BESIDE = 40  # products that the arg max takes as long as, for each score of a memory
DEFAULTS: dict[str, Any] = {
    "N": 256, "m": 0, "map": "identity", "embeddings": "sphere", "S": 16, "R": 16, "D": 8, "table": "random",
    "T": SEQUENCE, "draws": DRAWS, "H": HEADS, "alpha": 1.0, "beta": BETA, "variant": "code",
    "protocol": "transformer-short", "rule": "best",
}  # fmt: skip
ENDED = {
    "reached": "reached the accuracy",
    "exhausted": "did not reach the accuracy and ended",
    "futile": "given up (its accuracy would not have come that far in time)",
}
"""How the best run of a race can have ended, in words."""
ROUNDING = 1e-9  # of the number of bits: log2 of a power of two is no larger than it
STEEPEST = 32.0  # largest exponent of --zipf: what is rarer is never asked

Made = tuple[Any, Any, dict[str, Any]]  # a model, its problem, and what is to be said about it


@command()
def make(
    context: typer.Context,
    recipe: o.Recipe = "outer-product",
    d: int = typer.Option(32, "-d", help="Embedding dimension."),
    m: o.Width = None,
    N: int | None = o.option("-N", "Associations of a memory (default: 256)."),
    map: o.Map = None,
    M: o.Outputs = None,
    embeddings: o.Embeddings = None,
    S: int | None = o.option("-S", "Subjects (default: 16)."),
    R: int | None = o.option("-R", "Relations (default: 16)."),
    D: o.Answers = None,
    table: str | None = o.option("--table", "random (default) or balanced."),
    share: float | None = o.option("--share", "A random share of each relation's facts."),
    facts: o.Facts = None,
    on_conflict: o.OnConflict = None,
    H: o.Heads = None,
    d_h: int | None = o.option("--d-h", "Head dimension."),
    alpha: o.Alpha = None,
    beta: float | None = o.option("--beta", f"m = beta d; 0: attention alone (default: {BETA})."),
    per_head: int | None = o.option("--per-head", "Tokens per head, for the paper's constructions."),
    T: o.Length = None,
    n_noise: int | None = o.option("--noise-tokens", "Different noise tokens (default: S + R)."),
    zipf: tuple[float, float] | None = typer.Option(
        None, "--zipf", metavar="IN_S IN_R", help="p(s, r) falls with these powers of s and r, as in: 1 0."
    ),
    variant: o.Variant = None,
    protocol: o.Protocol = None,
    rule: o.Rule = None,
    accuracy: float | None = o.option("--accuracy", "Share at which training ends (default: 0.99)."),
    draws: int | None = o.option("--draws", f"Prompts in which each fact is asked (default: {DRAWS})."),
    redraw: o.Redraw = None,
    seed: o.Seed = 0,
    output: o.ModelFile = None,
    json: o.Json = False,
) -> None:
    """Make one memory or transformer of a given size, constructed or trained, and say what it recalls.

    A memory stores N associations; a transformer a table of facts: a random one of -S, -R and -D, or a file. Solvers
    work in float64; training and recall in float32.
    """
    wanted = find("recipe", recipe, recipes())
    takes = MEMORY
    if isinstance(wanted, FactRecipe):
        takes = FACTS | (TRAINED if recipe == "train" else BUILT if wanted.build else OF_ITS_OWN)
    given = inputs.given_for(recipe, ALWAYS | takes, context)
    check_positive(**{name: given[name] for name in ("d", "N", "M", "S", "R", "D", "d_h", "draws") if name in given})
    Between(least=1, most=MOST_DRAWS).check("draws", given.get("draws"))
    inputs.writable_file(output, OF_FACTS if isinstance(wanted, FactRecipe) else OF_MAP)
    if isinstance(wanted, FactRecipe):
        (model, problem, about), say = _transformer(wanted, given, output), _say_transformer
    else:
        assert isinstance(wanted, MemoryRecipe)
        (model, problem, about), say = _memory(wanted, DEFAULTS | given, output), _say_memory
    if not json:
        say(about, wanted.place)
    if output is not None and about.get("status") != "diverged":  # what was found is said before a disk can be full
        from facthold.models.saving import write_model

        about |= inputs.about_file(write_model(output, model, problem, redraw=redraw))
        if not json:
            paragraph(f"model: {inputs.file_in_words(about)}")
    if json:
        print_json(about)


def _memory(recipe: MemoryRecipe, g: dict[str, Any], output: Path | None) -> Made:
    from facthold.measure import bits
    from facthold.measure.recall import accuracy, smallest_margins
    from facthold.memory.associations import seeded_problem

    N, d, m, seed, map, embeddings = (g[name] for name in ("N", "d", "m", "seed", "map", "embeddings"))
    recipe.check_stores()
    recipe.check(d, m)
    check_one_of("map", map, MAPS)
    check_one_of("embeddings", embeddings, EMBEDDINGS)
    M = g.get("M", N)
    parts = memory_parts(N=N, d=d, M=M, m=m, scores=recipe.holds_scores)
    check_memory(f"a memory of {count(N, 'association')}", parts)
    inputs.foretell(f"asking for N={N} associations with {M} outputs", float(N) * M * (2 * d + BESIDE), "-N")
    problem = seeded_problem(N, seed, d, g.get("M"), embeddings=embeddings, map=map)
    inputs.say_replaced(output)
    start = time.perf_counter()
    with working(f"making a memory by {recipe.name}"):
        model = make_memory(recipe, problem, m, seed)
    seconds, recall = time.perf_counter() - start, accuracy(model, problem)
    needed = bounds.bits_injective if map in ("identity", "injective") else bounds.bits_uniform
    return model, problem, {
        "recipe": recipe.name, "N": N, "d": d, "m": m, "M": problem.M, "map": map, "embeddings": embeddings,
        "seed": seed, "seconds": seconds, "recall": recall,
        **_margins(smallest_margins(model, problem)), "n_params": model.n_params, "n_embeddings": problem.n_embeddings,
        "params_per_fact": model.n_params / (recall * N) if recall else math.inf,
        "bits": bits.parameters_bits(model), "bits_needed": needed(N, problem.M),
    }  # fmt: skip


def _margins(margins: Any) -> dict[str, float]:
    return {"smallest_margin": float(np.min(margins)), "median_margin": float(np.median(margins))}


def _transformer(recipe: FactRecipe, given: dict[str, Any], output: Path | None) -> Made:
    from facthold.measure.fact_recall import fact_margins

    g = DEFAULTS | given
    shape = _trained_shape(g, given) if recipe.name == "train" else _built_shape(recipe, given)
    table, p = _table(g, given, shape)
    inputs.say_replaced(output)
    start = time.perf_counter()
    with working(f"putting {count(len(table), 'fact')} into weights by {recipe.name}") as say:
        model, problem, about = _put(recipe, table, p, shape, g, say)
        seconds = time.perf_counter() - start
        margins = fact_margins(model, problem, key=derive("ask", g["seed"]), draws=g["draws"])
    right = margins > 0
    always = int(right.all(axis=0).sum())
    return model, problem, {
        "recipe": recipe.name, "seed": g["seed"], "d": model.d, "H": model.H, "d_h": model.d_h, "m": model.m,
        "T": problem.T, "n_noise": problem.n_noise, **inputs.about_table(table), "facts": len(table),
        "draws": g["draws"], "n_params": model.n_params, "n_embeddings": problem.n_embeddings,
        "recall": float(right.mean()), "always_recalled": always,
        "facts_per_param": always / model.n_params, **_margins(margins), "seconds": seconds, **about,
        "never": recipe.refuses(table) if always < len(table) else None,
    }  # fmt: skip


def _trained_shape(g: dict[str, Any], given: dict[str, Any]) -> Shape:
    """d_h and m as they are given, or by alpha and beta."""
    for one, other, rule in (("alpha", "d_h", "H d_h = alpha d"), ("beta", "m", "m = beta d")):
        if one in given and other in given:
            raise ValueError(f"take one of {one}={given[one]:g} and {other}={given[other]}: {rule}")
    check_positive(H=g["H"])
    d_h = given["d_h"] if "d_h" in given else inputs.head_size(g["alpha"], g["d"], g["H"])
    Between(least=0, most=inputs.WIDEST).check("beta", g["beta"])
    m = given.get("m", int(g["beta"] * g["d"]))
    if m < 0:
        raise ValueError(f"m={m} must not be negative; 0: no MLP")
    inputs.check_protocol(g["protocol"])
    return Shape(g["d"], g["H"], d_h, m)


def _built_shape(recipe: FactRecipe, given: dict[str, Any]) -> Shape:
    """The sizes that a construction is given; the number of heads is its own."""
    d, name = given["d"], recipe.name
    check_memory(f"d={d}", {f"d={d}": 3 * bytes_of(weights=float(d) * d)})
    check_positive(**{size: given[size] for size in ("m", "per_head") if size in given})
    if recipe.size == "m" and "m" not in given:
        raise ValueError(f"recipe={name!r} holds facts in the MLP; give its width -m, {4 * d} to start with")
    if recipe.size == "d_h" and "d_h" not in given:
        raise ValueError(f"recipe={name!r} holds facts in the heads; give their dimension --d-h, {d} to start with")
    if recipe.size != "m" and "m" in given:
        raise ValueError(f"recipe={name!r} has no MLP, and -m is {given['m']}; leave it out")
    if "per_head" in given and recipe.place == "beyond":
        raise ValueError(f"per_head={given['per_head']} is for attention and attention-mlp, not for recipe={name!r}")
    return Shape(d, 0, given.get("d_h", d if name == "attention-mlp" else 1), given.get("m", 0))


def _table(g: dict[str, Any], given: dict[str, Any], shape: Shape) -> tuple[FactTable, np.ndarray | None]:
    """The facts, from a file or drawn, and how often each is asked."""
    drawn = {name: given.get(name) for name in ("S", "R", "D", "table")}
    table, p = inputs.read_given(given.get("facts"), given.get("on_conflict"), **drawn)
    for name in ("share", "zipf"):
        if name in given and p is not None:
            raise ValueError(f"take one of --{name} and the column p of --facts, which says how often a fact is asked")
    if not all(abs(exponent) <= STEEPEST for exponent in g.get("zipf", ())):
        typed = "{:g} {:g}".format(*g["zipf"])
        raise ValueError(f"--zipf {typed}: take exponents of at most {STEEPEST:g}")
    S, R, A = (g["S"], g["R"], g["R"] * g["D"]) if table is None else (table.S, table.R, table.A)
    if not shape.H:  # a construction may at worst have a head for each token
        shape = shape._replace(H=min(S + R, max(2, -(-4 * (S + R) // shape.d_h))))
    inputs.check_size(shape, S, R, A, g["T"], given.get("n_noise"))
    asked = float(S) * R if table is None else float(len(table))
    products = asked * g["draws"] * (g["T"] * shape.n_params + shape.d * (2 * S + 2 * R + A))
    inputs.foretell(
        f"asking for {count(f'{asked:.6g}', 'fact')} in draws={g['draws']} prompts each", products, "--draws, -S or -R"
    )
    if table is None:
        table = seeded_table(g["table"], S, R, g["D"], g["seed"])
    if "share" in given:
        table = random_share(table, g["share"], key=derive("share", g["seed"], g["share"]))
    if "zipf" in given:
        from facthold.facts.problem import zipf

        p = zipf(table, *g["zipf"])
    return table, p


def _put(
    recipe: FactRecipe, table: FactTable, p: np.ndarray | None, shape: Shape, g: dict[str, Any],
    say: Callable[[str], None],
) -> Made:  # fmt: skip
    """The model, its problem, and what training says of it; ``say`` is told how far training is."""
    if recipe.build is None and recipe.name != "train":
        made = recipe.make(table, g["d"], g["m"] or g["d"], goal=g.get("accuracy", 1.0), seed=g["seed"])
        return made.model, made.problem, {}
    variant = "text" if recipe.build else g["variant"]
    problem = seeded_recall(table, g["d"], g["seed"], variant, T=g["T"], n_noise=g.get("n_noise"), p=p)
    if recipe.build:
        sizes = Sizes(**{name: g[name] for name in Sizes._fields if name in g})
        return recipe.construct(problem, sizes, g["seed"]), problem, {}
    from facthold.train.race import train

    about = {"variant": variant, "protocol": g["protocol"], "rule": g["rule"], "accuracy": g.get("accuracy", 0.99)}
    training = replace(find_protocol(about["protocol"]), rule=about["rule"], goal=about["accuracy"])
    best = train(
        problem, shape, training, g["seed"], variant, rule=about["rule"], listener=_progress(training.steps, say)
    )
    about["status"] = best.run.status
    if best.run.status != "diverged":
        about |= {"lr": best.lr, "steps": best.run.steps, "best": best.run.best, "final": best.run.final}
    return best.model, problem, about


def _progress(steps: int, say: Callable[[str], None]) -> "Listener":
    """One line on the run that is ahead: it may end before all steps, where it reaches what was asked for."""
    start, far, best = time.perf_counter(), 0, 0.0

    def listener(member: int, done: int, share: float, seen: object) -> None:
        nonlocal far, best
        far, best = max(far, done), max(best, share)
        left = (time.perf_counter() - start) * (steps - far) / far
        say(f"{far / steps:.0%} of the steps, {best:.2%} right, {duration(left)} left or less")

    return listener


def _in_words(a: dict[str, Any]) -> str:
    """The margins."""
    smallest, median = a["smallest_margin"], a["median_margin"]
    if not math.isfinite(smallest):
        return "no margins: there is no other output"
    return f"smallest margin {smallest:.4g}, median {median:.4g}"


def _say_memory(a: dict[str, Any], place: str) -> None:
    each = f"{a['params_per_fact']:.4g} per association recalled" if a["recall"] else "and nothing is recalled"
    needed = count(math.ceil(a["bits_needed"] - ROUNDING), "bit")
    paragraph(
        f"{a['recipe']} ({place}): {a['recall']:.2%} of {count(a['N'], 'association')} recalled; "
        f"made in {a['seconds']:.2f} s\n"
        f"{_in_words(a)}\n"
        f"{count(a['n_params'], 'parameter')}, {each}; "
        f"{a['bits']:.0f} bits in float32, where {needed} would tell all such maps "
        f"apart; embeddings, beside them: {a['n_embeddings']:,} numbers"
    )


def _say_transformer(a: dict[str, Any], place: str) -> None:
    if a.get("status") == "diverged":
        paragraph(f"training diverged at every learning rate; nothing is recalled of {count(a['facts'], 'fact')}")
    else:
        paragraph(
            f"{a['recipe']} ({place}): {a['recall']:.2%} recalled, over {count(a['draws'], 'new prompt')} of each "
            f"fact; {a['always_recalled']} of {count(a['facts'], 'fact')} right in all of "
            f"{count(a['draws'], 'prompt')}; made in {a['seconds']:.1f} s\n"
            f"{_in_words(a)}"
        )
    if "steps" in a:
        paragraph(
            f"training {ENDED[a['status']]} after {count(a['steps'], 'step')} at learning rate {a['lr']:g}: "
            f"{a['best']:.2%} at best and {a['final']:.2%} at the end, each time over "
            + (f"{BATCH:,} prompts as in training" if a["rule"] == AUTHORS else "one prompt of each fact")
        )
    paragraph(
        f"{a['n_params']} parameters (d={a['d']}, H={a['H']}, d_h={a['d_h']}, m={a['m']}); {a['facts_per_param']:.4g} "
        f"facts per parameter that are always right; embeddings, beside them: {a['n_embeddings']:,} numbers"
    )
    if a["never"]:
        paragraph(a["never"])
    inputs.say_table(a)

"""Facts into weights: the smallest transformer that recalls the share asked for, by any recipe."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from facthold._util.errors import FactholdError, unknown
from facthold.construct.dimensions import NOISE as NOISE
from facthold.construct.dimensions import smallest
from facthold.facts.problem import FactualRecall
from facthold.facts.seeded import SEQUENCE, Variant
from facthold.facts.table import FactTable
from facthold.measure.bits import table_bits
from facthold.measure.smallest import find_smallest
from facthold.models.forward import Forward, table_prompts
from facthold.models.judge import judge_table
from facthold.models.transformer import Transformer
from facthold.recipes import fact_recipe, fact_recipes
from facthold.recipes.base import FactRecipe, Made, Question, Sizing
from facthold.train.gated import Say, Width, gated
from facthold.train.kept import Kept, fingerprint

AUTO = "auto"  # 'gated' or 'values', whichever is smaller; 'train' where max_params is too few for both
OWN_FACTS = Variant("own facts", scaled=False, outputs="answers", bias=False, embeddings="sphere")
"""Constructions for people's own facts: the arg max runs over all answers, and not over the words of the question."""
TOLERANCE = 0.15
FRESH = 1 << 16  # seeds of the prompts that judge start here, away from those of the searches
FARTHEST, FARTHEST_TRAINED = 16, 4
"""A search ends at so many times its first guess; for what is trained earlier, as a try takes minutes."""
SMALL = 64  # subjects and relations of a table for which `values` may be smaller: it takes the square of their number
MOST = 1 << 26
"""Parameters that a search may start from: beyond, it takes hours and gigabytes. It ends at four times as many."""


@dataclass(frozen=True)
class Built:
    """A transformer that knows a table, and how it was made."""

    model: Transformer
    problem: FactualRecall
    recipe: str
    recall: float  # share of all facts that are right in a prompt full of noise
    smallest_margin: float
    seconds: float
    bits: float
    """Bits that tell this table from others with the same answers, equally often, at this recall: no model that knows
    so much of each of them has fewer."""
    widths: Sequence[Width] = ()
    kept: Kept | None = None  # the tries that were kept beside the model; whoever has written it says `Kept.done`

    @property
    def n_params(self) -> int:
        return self.model.n_params

    @property
    def facts_per_param(self) -> float:
        return self.recall * len(self.problem.table) / self.n_params

    @property
    def parameter_bits(self) -> int:
        """32 bits per parameter."""
        return 32 * self.n_params


@dataclass(frozen=True)
class _Wish:
    """What is asked of every recipe alike."""

    table: FactTable
    accuracy: float
    max_params: int | None
    seed: int
    say: Say
    kept: Kept
    prompts: dict[str, Any]  # n_noise, T and p


def build(
    facts: Any, *, recipe: str = AUTO, accuracy: float = 1.0, max_params: int | None = None, n_noise: int = NOISE,
    T: int = SEQUENCE, p: np.ndarray | None = None, seed: int = 0, say: Say = lambda _: None,
    beside: Path | None = None,
) -> Built:  # fmt: skip
    """The smallest transformer found that recalls the share ``accuracy`` of the facts.

        fh.build([("France", "capital", "Paris"), ("Spain", "capital", "Madrid")]).n_params

    ``facts`` are a `FactTable` or whatever `FactTable.of` reads. ``recipe`` is the name of a fact recipe (see
    `fh.recipes`), or 'auto': the smaller of 'gated' and 'values', and 'train' where ``max_params`` is too few for both.
    The model is then asked for every fact, in prompts of ``T`` tokens with random noise from ``n_noise`` tokens. With
    ``beside``, the file that the model will be written to, 'gated' keeps its tries in a hidden file next to it, and
    goes on from there when it is started again.
    """
    if recipe != AUTO and recipe not in fact_recipes():
        raise unknown("recipe", recipe, [*fact_recipes(), AUTO])
    if not 0 < accuracy <= 1:
        raise ValueError(f"accuracy={accuracy} must be above 0 and at most 1")
    if max_params is not None and max_params < 1:
        raise ValueError(f"max_params={max_params} must be at least 1")
    table = facts if isinstance(facts, FactTable) else FactTable.of(facts)
    start = time.perf_counter()
    kept = Kept()
    if beside is not None:
        kept = Kept.beside(beside, fingerprint(table, accuracy=accuracy, n_noise=n_noise, T=T, seed=seed))
    wish = _Wish(table, accuracy, max_params, seed, say, kept, {"n_noise": n_noise, "T": T, "p": p})
    name, made, widths = _auto(wish) if recipe == AUTO else (recipe, *_made(fact_recipe(recipe), wish))
    say("asking for every fact")
    # in prompts that no search has seen
    prompts = table_prompts(made.problem, seed=seed + FRESH)
    verdicts = judge_table(Forward.of(made.model, made.problem), made.problem, prompts)
    recall, margin = float(verdicts.recalled.mean()), float(verdicts.margin.min())
    bits, seconds = table_bits(table, recall), time.perf_counter() - start
    return Built(made.model, made.problem, name, recall, margin, seconds, bits, widths, kept)


def _auto(wish: _Wish) -> tuple[str, Made, Sequence[Width]]:
    """The smaller of gated and, for a small table, values; where neither is small enough, training."""
    candidates: list[tuple[str, Made, Sequence[Width]]] = []
    refusals: list[Exception] = []
    for name in ("gated", "values") if wish.table.S + wish.table.R <= SMALL else ("gated",):
        try:
            candidates.append((name, *_made(fact_recipe(name), wish)))
        except (FactholdError, ValueError) as error:  # a sum cannot hold every table
            refusals.append(error)
            wish.say(f"{name}: {error}")
    if candidates:
        return min(candidates, key=lambda one: one[1].model.n_params)
    if wish.max_params is None:
        raise refusals[0]
    return ("train", *_made(fact_recipe("train"), wish))


def _made(recipe: FactRecipe, wish: _Wish) -> tuple[Made, Sequence[Width]]:
    """The smallest model by this recipe, and the widths of its groups of neurons where it has such."""
    if reason := recipe.refuses(wish.table):
        raise FactholdError(f"recipe={recipe.name!r} cannot hold these facts: {reason}")
    if recipe.name == "gated":  # it has a search of its own, for each group of neurons
        model, problem, widths = gated(
            wish.table, accuracy=wish.accuracy, seed=wish.seed, max_params=wish.max_params, say=wish.say,
            kept=wish.kept, **wish.prompts,
        )  # fmt: skip
        made = Made(model, problem)
    elif recipe.sizing is None:
        raise ValueError(f"recipe={recipe.name!r} does not say how its size grows (sizing), so there is none to try")
    else:
        made, widths = _smallest(recipe, recipe.sizing, wish), []
    if wish.max_params is not None and (n_params := made.model.n_params) > wish.max_params:
        raise FactholdError(
            f"max_params={wish.max_params}: the smallest model found has {n_params} parameters; allow more, or ask for "
            "a smaller accuracy"
        )
    return made, widths


def _smallest(recipe: FactRecipe, sizing: Sizing, wish: _Wish) -> Made:
    """The model of the smallest size at which the share asked for wins by the recipe's margin."""
    question = Question.of(wish.table, wish.accuracy, wish.prompts["n_noise"])
    unit, guess, ceiling = _range(recipe, sizing, wish, question)
    settings = wish.prompts | ({} if recipe.build is None else {"variant": OWN_FACTS})
    made: dict[int, Made] = {}
    best = (0.0, 0)

    def ask(units: int) -> float:
        nonlocal best
        size = unit * units
        wish.say(f"{sizing.size}={size}")
        d = size if sizing.size == "d" else sizing.d(question)
        model, problem, _ = made[units] = recipe.make(
            wish.table, d, size, goal=wish.accuracy, seed=wish.seed, per_head=sizing.per_head, say=wish.say, **settings
        )
        margins = judge_table(Forward.of(model, problem), problem, table_prompts(problem)).margin
        share = float((margins > recipe.margin).mean())
        best = max(best, (share, -model.n_params))
        wish.say(f"{sizing.size}={size}: {model.n_params} parameters, {share:.2%} right")
        return share

    floor = min(-(-sizing.least(question) // unit), ceiling)
    search = find_smallest(ask, wish.accuracy, guess, floor=floor, ceiling=ceiling, tolerance=TOLERANCE)
    if search.enough is None:
        raise FactholdError(
            f"accuracy={wish.accuracy:.4g}: no {sizing.size} up to {unit * ceiling} recalls so much by "
            f"recipe={recipe.name!r}; {best[0]:.4g} at most, with {-best[1]} parameters: ask for a smaller accuracy, "
            + ("" if wish.max_params is None else "allow more with max_params, ")
            + "or take another recipe"
        )
    return made[search.enough]


def _range(recipe: FactRecipe, sizing: Sizing, wish: _Wish, question: Question) -> tuple[int, int, int]:
    """The unit of sizes, and in units where a search starts and where it ends."""
    unit, params = sizing.unit(question), lambda size: sizing.shape(question, size).n_params
    guess = max(1, round(sizing.guess(question) / unit), -(-sizing.least(question) // unit))
    if params(unit * guess) > MOST:
        raise FactholdError(
            f"recipe={recipe.name!r} would start from {params(unit * guess):.2g} parameters for {wish.table.S} "
            f"subjects and {wish.table.R} relations; take recipe='gated', or fewer facts"
        )
    most, farthest = 4 * MOST, FARTHEST
    if recipe.build is None:  # constructions are tried beyond max_params too, to say what would be enough
        most, farthest = min(most, wish.max_params or most), FARTHEST_TRAINED
        if params(unit) > most:
            raise FactholdError(
                f"max_params={most}: the smallest model by recipe={recipe.name!r} has {params(unit)} parameters"
            )
    ceiling = smallest(lambda units: units > farthest * guess or params(unit * units) > most, farthest * guess + 1) - 1
    return unit, min(guess, ceiling), ceiling

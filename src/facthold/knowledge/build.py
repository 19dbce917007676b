"""Facts into weights: the smallest transformer that recalls the share asked for, by any recipe."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from facthold._util.arguments import checked
from facthold._util.commands import count, offered
from facthold._util.errors import FactholdError, TooLarge, check_one_of, check_positive
from facthold._util.memory import Parts, bytes_of, check_memory
from facthold.construct.dimensions import smallest
from facthold.facts.files import read_facts
from facthold.facts.problem import MOST_NOISE, SEQUENCE, FactualRecall, check_length
from facthold.facts.table import FactTable
from facthold.knowledge.model import Model
from facthold.measure.bits import table_bits
from facthold.measure.capacity import find_smallest
from facthold.models.forward import Forward, prompts
from facthold.models.judge import judge_table, recalled_beside
from facthold.models.transformer import Transformer
from facthold.recipes import check_recipe, fact_recipe
from facthold.recipes.base import FactRecipe, Made, Question, Sizing
from facthold.train.gated import Say, Width, dimensions
from facthold.train.kept import Kept, fingerprint
from facthold.train.protocols import training_memory

AUTO = "auto"  # 'gated' or 'values', whichever is smaller; 'train' where max_params is too few for both
VARIANTS = ("text", "answers")  # the arg max runs over the whole vocabulary, as in equation 7, or among the answers
TOLERANCE = 0.15
PROMPTS = (
    1000  # that a model is asked at least: a small table is asked several times, as whether it is right is luck else
)
FRESH = 1 << 16  # seeds of the prompts that judge start here, away from those of the searches
SHORT = (
    0,
    1,
    4,
)  # noise tokens of short prompts, as people type them: with few noise tokens all stand in each long one
FARTHEST, FARTHEST_TRAINED = 16, 4  # a search ends at so many times its first guess; a try of training takes minutes
SMALL = 64  # subjects and relations of a table for which `values` may be smaller: it takes the square of their number
WIDER = 1  # larger models of a recipe with a search of its own that are tried before another seed is
SEEDS = 3  # that are tried one after another, while no model is good enough in the prompts that judge
MOST = 1 << 26  # parameters that a search may start from: beyond, it takes hours and gigabytes. It ends at 4 times it


@dataclass(frozen=True)
class Built:
    """How a model was built."""

    recipe: str
    recall: float
    """Share of prompts that are answered right, all facts as often: of those full of noise or of short ones, whichever
    is less. A trained model has seen none but full ones, and is judged in these alone."""
    smallest_margin: float  # in prompts full of noise
    seed: int  # of its embeddings: a later one than was asked for, where models with that one were not good enough
    seconds: float
    bits: float
    """Bits that tell this table from others with the same answers, equally often, at this recall: no model that knows
    so much of each of them has fewer."""
    widths: Sequence[Width]
    kept: Kept  # the tries that were kept beside the model; whoever has written it says `Kept.done`


@dataclass(frozen=True)
class _Wish:
    """What is asked of every recipe alike."""

    table: FactTable
    accuracy: float
    max_params: int | None
    seed: int
    say: Say
    kept: Kept
    prompts: dict[str, Any]  # n_noise, T, p and the variant


@checked
def build(
    facts: Any, *, on_conflict: str = "error", recipe: str = AUTO, accuracy: float = 1.0, max_params: int | None = None,
    n_noise: int | None = None, T: int = SEQUENCE, p: np.ndarray | None = None, variant: str = "text", seed: int = 0,
    say: Say = lambda _: None, beside: Path | None = None,
) -> Model:  # fmt: skip
    """The smallest transformer found that recalls the share ``accuracy`` of the facts: ``.report`` has what it took.

        fh.build([("France", "capital", "Paris"), ("Spain", "capital", "Madrid")]).n_params

    ``facts`` is a path, a frame, a list, a dictionary or a table, as `read_facts` takes them. ``recipe`` is the name of
    a fact recipe (see `fh.recipes`), or 'auto': the smaller of 'gated' and 'values', and 'train' where ``max_params``
    is too few for both. ``p`` says how often each fact is asked; by default the column p of the facts, or all alike.
    The model is then asked for every fact, in prompts of ``T`` tokens with random noise from ``n_noise`` tokens (by
    default as many as subjects and relations). Where that shows fewer facts than the search had counted, larger models,
    the other recipe of 'auto' and the next seeds are tried, before it is an error with all that was tried.

    It says the token that scores best of the whole vocabulary, as in the paper's equation 7; with ``variant="answers"``
    it is only to be right among the answers. With ``beside``, the file that the model will be written to, 'gated' keeps
    its tries in a hidden file next to it, and goes on from there when it is started again.
    """
    table, weights = read_facts(facts, on_conflict)
    check_wish(table, recipe=recipe, accuracy=accuracy, max_params=max_params, n_noise=n_noise, T=T, variant=variant)
    start = time.perf_counter()
    kept = Kept(beside, fingerprint(table, accuracy=accuracy, n_noise=n_noise, T=T, seed=seed, variant=variant))
    prompts = {"n_noise": n_noise, "T": T, "p": weights if p is None else p, "variant": variant}
    wish = _Wish(table, accuracy, max_params, seed, say, kept, prompts)
    found, made = _first_that_holds(recipe, wish)
    bits, seconds = table_bits(table, found.recall), time.perf_counter() - start
    built = Built(found.recipe, found.recall, found.margin, found.seed, seconds, bits, made.widths, kept)
    return Model(made.model, made.problem, built)


def check_wish(
    table: FactTable, *, recipe: str, accuracy: float, max_params: int | None, n_noise: int | None, T: int, variant: str
) -> None:
    """Refuse what `build` cannot be asked, before anything is computed or announced."""
    check_recipe(recipe, FactRecipe, AUTO)
    check_one_of("variant", variant, VARIANTS)
    if n_noise is not None:
        check_positive(n_noise=n_noise)
    if not 0 < accuracy <= 1:
        raise ValueError(f"accuracy={accuracy} must be above 0 and at most 1")
    if max_params is not None:
        check_positive(max_params=max_params)
    check_length(T)
    if recipe != AUTO:
        _check_holds(fact_recipe(recipe), table, accuracy)
    _check_memory(recipe, table, accuracy, T, n_noise)


def _check_holds(recipe: FactRecipe, table: FactTable, accuracy: float) -> None:
    """Refuse what cannot be had at any size. Where some facts may be wrong, some recipes hold a part."""
    all_of_them = accuracy * len(table) > len(table) - 1
    if (all_of_them or not recipe.in_part) and (reason := recipe.refuses(table)):
        raise FactholdError(f"recipe={recipe.name!r} cannot hold these facts: {reason}")


@dataclass(frozen=True)
class _Tried:
    """A model in prompts that no search has seen."""

    recipe: str
    n_params: int
    seed: int
    recall: float
    margin: float

    def __str__(self) -> str:
        return f"{self.recipe} with {self.n_params} parameters and seed {self.seed}, {self.recall:.4%} recalled"


def _first_that_holds(recipe: str, wish: _Wish) -> tuple[_Tried, Made]:
    """The first model that recalls the share asked for: of each seed the smallest, then larger ones."""
    tried: list[_Tried | str] = []
    for seed in range(wish.seed, wish.seed + SEEDS):
        now = wish if seed == wish.seed else replace(wish, seed=seed, kept=Kept())  # what is kept is of the first seed
        try:
            for name, made in _candidates(recipe, now, tried):
                found = _judged(name, made, now)
                if found.recall >= wish.accuracy:
                    return found, made
                tried.append(found)
                wish.say(str(found))
        except FactholdError as error:
            if not any(isinstance(one, _Tried) for one in tried):  # nothing was made: no other seed would be
                if not isinstance(error.__cause__, OSError):  # after a full disk it goes on from what is kept
                    wish.kept.done()
                raise
            tried.append(f"seed {seed}: {error}")
    wish.kept.done()  # there is nothing to go on with
    raise FactholdError(
        f"accuracy={wish.accuracy:.4g}: no model recalls so much in prompts that its search has not seen; tried "
        f"{'; '.join(map(str, tried))}: ask for a smaller accuracy, or take another recipe"
    )


def _judged(name: str, made: Made, wish: _Wish) -> _Tried:
    wish.say("asking for every fact")
    table, seed = wish.table, wish.seed
    verdicts = judge_table(made.model, made.problem, draws=_draws(table), seed=seed + FRESH)  # no search has seen them
    recall, margin = float(verdicts.recalled.mean()), float(verdicts.margin.min())
    if not fact_recipe(name).trained:
        short = _right_in_short(made.model, made.problem, verdicts.margin[: len(table)], seed + FRESH)
        recall = min(recall, float(short.mean()))
    return _Tried(name, made.model.n_params, seed, recall, margin)


def _right_in_short(
    model: Transformer, problem: FactualRecall, margin: Float[np.ndarray, " facts"], seed: int
) -> Bool[np.ndarray, "draws facts"]:
    """Whether each fact is said in short prompts; ``margin``: its margin in the first long one of this seed."""
    table, forward = problem.table, Forward.of(model, problem)
    rows, lengths = np.arange(len(table)), [k for k in SHORT if k <= problem.T - 3]
    long = prompts(problem, table.subjects, table.relations, seed=seed)
    asked = (prompts(problem, table.subjects, table.relations, noise=k, seed=seed) for k in lengths)
    return np.stack([recalled_beside(forward, tokens, rows, long, margin) for tokens in asked])


def _check_memory(recipe: str, table: FactTable, accuracy: float, T: int, n_noise: int | None) -> None:
    """Refuse what does not fit, at the size that this recipe starts from."""
    noise = n_noise or table.S + table.R
    if noise > MOST_NOISE:
        raise ValueError(f"n_noise={noise} is above {MOST_NOISE}; take fewer noise tokens")
    known = fact_recipe("gated" if recipe == AUTO else recipe)
    what = f"a model of {count(len(table), 'fact')} by {known.name}"
    if known.search is not None or known.sizing is None:
        return check_memory(what, _held(table, T, noise, dimensions(table, n_noise)[0]))
    question = Question.of(table, accuracy, n_noise or 0)
    unit, guess = _first(known.sizing, question)
    shape = known.sizing.shape(question, unit * guess)
    _check_start(known, shape.n_params, table)
    if known.build is None:
        needed = training_memory(shape, table.S, table.R, table.A, T, n_noise)
        return check_memory(what, needed, "take fewer facts, or recipe='gated'")
    check_memory(what, _held(table, T, noise, shape.d, shape.n_params))


def _held(table: FactTable, T: int, noise: int, d: int, weights: int = 0) -> Parts:
    """Bytes of rows and codes of the facts, embeddings, weights and prompts, by what they grow with."""
    tokens, facts = table.S + table.R + noise + table.A, float(len(table))
    return {
        "the number of facts": bytes_of(facts=8 * facts, embeddings=float(tokens + facts) * d, weights=weights),
        f"T={T}": bytes_of(prompts=max(PROMPTS, facts) * T),
    }


def _first(sizing: Sizing, question: Question) -> tuple[int, int]:
    """The unit of sizes, and how many units a search starts from."""
    unit = sizing.unit(question)
    return unit, max(1, round(sizing.guess(question) / unit), -(-sizing.least(question) // unit))


def _draws(table: FactTable) -> int:
    """Prompts for each fact."""
    return -(-PROMPTS // len(table))


def _candidates(recipe: str, wish: _Wish, tried: list[_Tried | str]) -> Iterator[tuple[str, Made]]:
    """Models of one seed, the smallest first. By 'auto' those of gated and, for a small table, of values; where neither
    is small enough, training. Why a recipe has none is put into ``tried``."""
    if recipe != AUTO:
        yield from zip(repeat(recipe), _models(recipe, wish))
        return
    ways: list[Iterator[tuple[str, Made]]] = []
    refused: dict[str, Exception] = {}
    for name in ("gated", "values") if wish.table.S + wish.table.R <= SMALL else ("gated",):
        models = zip(repeat(name), _models(name, wish))
        try:
            ways.append(chain([next(models)], _until_refused(models, tried)))
        except (FactholdError, ValueError) as error:  # a sum cannot hold every table
            refused[name] = error
            wish.say(f"{name}: {error}")
    refusals = [f"{name}: {error}" for name, error in refused.items()]
    tried += refusals
    if ways:
        yield from merge(*ways, key=lambda one: one[1].model.n_params)
    elif wish.max_params is None:
        raise FactholdError("; ".join(refusals))
    else:
        models = zip(repeat("train"), _models("train", wish))
        try:
            first = next(models)
        except FactholdError as error:
            raise _too_few(wish.max_params, refused | {"train": error}) from error
        yield from chain([first], models)


def _too_few(max_params: int, refused: Mapping[str, Exception]) -> FactholdError:
    """No recipe of 'auto' has a model that is small enough: which parameters each takes, the fewest first."""
    large = [(error.n_params, name, error.at_least) for name, error in refused.items() if isinstance(error, TooLarge)]
    sizes = [f"{name} takes {n} parameters{' or more' if more else ''}" for n, name, more in sorted(large)]
    others = [f"{name}: {error}" for name, error in refused.items() if not isinstance(error, TooLarge)]
    return FactholdError(
        f"max_params={max_params} is too few: {'; '.join(sizes + others)}; allow more, or ask for a smaller accuracy"
    )


def _until_refused(models: Iterator[tuple[str, Made]], tried: list[_Tried | str]) -> Iterator[tuple[str, Made]]:
    """Models of one recipe until the next is refused, as too large: those of other recipes may be small enough."""
    try:
        yield from models
    except FactholdError as error:
        tried.append(str(error))


def _models(name: str, wish: _Wish) -> Iterator[Made]:
    """The smallest model by this recipe, then larger ones: where its size is searched here, those that were tried."""
    recipe = fact_recipe(name)
    _check_holds(recipe, wish.table, wish.accuracy)
    models: Iterator[Made]
    if recipe.search is not None:
        models = (_searched(recipe.search, wish, wider) for wider in range(1 + WIDER))
    elif recipe.sizing is None:
        raise ValueError(f"recipe={name!r} does not say how its size grows (sizing), so there is none to try")
    else:
        models = _smallest(recipe, recipe.sizing, wish)
    for made in models:
        if wish.max_params is not None and (n_params := made.model.n_params) > wish.max_params:
            raise TooLarge(
                f"max_params={wish.max_params}: the smallest model found has {n_params} parameters; allow more, or ask "
                "for a smaller accuracy",
                n_params,
            )
        yield made


def _searched(search: Callable[..., Any], wish: _Wish, wider: int) -> Made:
    model, problem, widths = search(
        wish.table, accuracy=wish.accuracy, seed=wish.seed, max_params=wish.max_params, say=wish.say, kept=wish.kept,
        wider=wider, **wish.prompts,
    )  # fmt: skip
    return Made(model, problem, widths=widths)


def _smallest(recipe: FactRecipe, sizing: Sizing, wish: _Wish) -> Iterator[Made]:
    """The model of the smallest size at which the share asked for wins by the recipe's margin, then larger ones. Where
    no size has that margin, as for facts that it cannot hold all at once, of those at which it wins at all."""
    question = Question.of(wish.table, wish.accuracy, wish.prompts["n_noise"] or 0)
    unit, guess, ceiling = _range(recipe, sizing, wish, question)
    made: dict[int, Made] = {}
    right: dict[int, float] = {}

    def share_at(units: int, goal: float) -> float:
        size = unit * units
        d = size if sizing.size == "d" else sizing.d(question)
        model, problem, *_ = made[units] = recipe.make(
            wish.table, d, size, goal=goal, seed=wish.seed, per_head=sizing.per_head, say=wish.say, **wish.prompts
        )
        margins = judge_table(model, problem, draws=_draws(wish.table)).margin.reshape(-1, len(wish.table))
        margin = margins.min(axis=0)  # a fact counts where it wins in all prompts
        right[units], share = (float((margin > least).mean()) for least in (0.0, recipe.margin))
        surely = "" if share == right[units] else f", {share:.2%} by a margin of {recipe.margin:g} or more"
        wish.say(f"{sizing.size}={size}: {model.n_params} parameters, {right[units]:.2%} right{surely}")
        return share

    def ask(units: int) -> float:
        wish.say(f"{sizing.size}={unit * units}")
        share = share_at(units, wish.accuracy)
        measured = made[units].accuracy
        if share < wish.accuracy < 1 and measured is not None and measured >= wish.accuracy:
            # training stopped at its goal, which it measures in fewer prompts: it may learn more
            share = share_at(units, 1.0)
        return share

    def ask_right(units: int) -> float:
        if units not in right:
            ask(units)
        return right[units]

    floor = min(-(-sizing.least(question) // unit), ceiling)
    for share_of in (ask, ask_right) if recipe.margin else (ask,):
        search = find_smallest(share_of, wish.accuracy, guess, floor=floor, ceiling=ceiling, tolerance=TOLERANCE)
        if search.enough is not None:
            break
    else:
        best, fewest = max((share, -made[units].model.n_params) for units, share in right.items())
        most = offered(best)
        fewer = "ask for a smaller accuracy, " if most else ""
        more = "" if wish.max_params is None else "allow more with max_params, "
        reason = f"; {refusal}" if (refusal := recipe.refuses(wish.table)) else ""
        raise FactholdError(
            f"accuracy={wish.accuracy:.4g}: no {sizing.size} up to {unit * ceiling} recalls so much by "
            f"recipe={recipe.name!r}; {most:.4g} at most, with {-fewest} parameters: "
            f"{fewer}{more}{'or ' if fewer or more else ''}take another recipe{reason}"
        )
    yield from (made[units] for units, share in sorted(search.probes) if share >= wish.accuracy)


def _check_start(recipe: FactRecipe, n_params: int, table: FactTable) -> None:
    if n_params > MOST:
        raise FactholdError(
            f"recipe={recipe.name!r} would start from {n_params:.2g} parameters for {table.S} subjects and {table.R} "
            "relations; take recipe='gated', or fewer facts"
        )


def _range(recipe: FactRecipe, sizing: Sizing, wish: _Wish, question: Question) -> tuple[int, int, int]:
    """The unit of sizes, and in units where a search starts and where it ends."""
    (unit, guess), params = _first(sizing, question), lambda size: sizing.shape(question, size).n_params
    _check_start(recipe, params(unit * guess), wish.table)
    most, farthest = 4 * MOST, FARTHEST
    if recipe.build is None:  # constructions are tried beyond max_params too, to say what would be enough
        most, farthest = min(most, wish.max_params or most), FARTHEST_TRAINED
        if (n := params(unit)) > most:
            least = f"the smallest model by recipe={recipe.name!r} has {n} parameters"
            raise TooLarge(f"max_params={most}: {least}", n, at_least=True)
    ceiling = smallest(lambda units: units > farthest * guess or params(unit * units) > most, farthest * guess + 1) - 1
    return unit, min(guess, ceiling), ceiling

"""Facts into weights, at the smallest size that recalls the share asked for: every method of `facthold build`."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from facthold._util.errors import FactholdError, unknown
from facthold._util.keys import derive
from facthold.construct.attention_mlp import attention_and_mlp
from facthold.construct.values import solved_values
from facthold.facts.problem import FactualRecall, factual_recall
from facthold.facts.prompts import SEQUENCE
from facthold.facts.table import FactTable
from facthold.knowledge.groups import MARGIN
from facthold.knowledge.judge import judge_table
from facthold.knowledge.kept import Kept, fingerprint
from facthold.knowledge.readout import Say, Width, readout
from facthold.measure.bits import table_bits
from facthold.measure.smallest import find_smallest
from facthold.models.forward import Forward, table_prompts
from facthold.models.transformer import Transformer, n_params
from facthold.theory.bounds import FACTS_A_PARAMETER
from facthold.train import Member, RecallFacts, fit, protocol
from facthold.train.engine import Listener

NOISE = 32
"""Different noise tokens: words that are no names are told apart as so many."""
HEADS, BETA = 8, 4
"""The shape of trained models: H d_h = d and m = 4 d, as in most of figure 4."""
TRAINED = 0.6
"""First guess of a trained size: so much of figure 4's facts a parameter."""
TOLERANCE = 0.15
FRESH = 1 << 16
"""Seeds of the prompts that judge start here, away from those of the searches."""
WIDEST = 16
"""A search ends at so many times its first guess."""

SMALL = 64
"""Subjects and relations of a table for which attention alone may be smaller: it takes the square of their number."""

METHODS = {
    "readout": "heads as gates, then the fewest neurons for each relation (beyond the paper)",
    "attention": "attention alone: heads add a part for the subject and one for the relation, solved for",
    "attention-mlp": "theorem 4: heads project, Hermite tensors in the MLP; needs a large d, for small tables",
    "train": "all weights by gradients on prompts, as in section 4.4",
    "auto": "readout or attention, whichever is smaller; train where --max-params is too few for both",
}


@dataclass(frozen=True)
class Built:
    """A transformer that knows a table, and how it was made."""

    model: Transformer
    problem: FactualRecall
    method: str
    recall: float
    """Share of all facts that are right in a prompt full of noise."""
    smallest_margin: float
    seconds: float
    bits: float
    """Bits that tell this table from others with the same answers, equally often, at this recall: no model that knows
    so much of each of them has fewer."""
    widths: Sequence[Width] = ()
    kept: Kept | None = None
    """The tries that were kept beside the model; whoever has written it says `Kept.done`."""

    @property
    def n_params(self) -> int:
        return self.model.n_params

    @property
    def facts_per_param(self) -> float:
        return self.recall * len(self.problem.table) / self.n_params

    @property
    def parameter_bits(self) -> int:
        """32 bits a parameter."""
        return 32 * self.n_params


def build(
    table: FactTable, *, method: str = "auto", accuracy: float = 1.0, max_params: int | None = None,
    n_noise: int = NOISE, T: int = SEQUENCE, p: np.ndarray | None = None, seed: int = 0, say: Say = lambda _: None,
    beside: Path | None = None,
) -> Built:  # fmt: skip
    """The smallest transformer found that recalls the share ``accuracy`` of the table, by ``method``.

    What is found is then asked for every fact, in prompts of T tokens with random noise. With ``beside``, the file that
    the model will be written to, `readout` keeps its tries in a hidden file next to it, and goes on from there.
    """
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    if not 0 < accuracy <= 1:
        raise ValueError(f"accuracy={accuracy} must be above 0 and at most 1")
    if max_params is not None and max_params < 1:
        raise ValueError(f"max_params={max_params} must be at least 1")
    wish: dict[str, Any] = {
        "accuracy": accuracy, "n_noise": n_noise, "T": T, "p": p, "seed": seed, "max_params": max_params, "say": say
    }  # fmt: skip
    start = time.perf_counter()
    kept = Kept()
    if beside is not None:
        kept = Kept.beside(beside, fingerprint(table, accuracy=accuracy, n_noise=n_noise, T=T, seed=seed))
    if method == "auto":
        method, made = _any_method(table, wish, kept)
    else:
        made = MAKERS[method](table, **wish, kept=kept)
    model, problem, *searched = made
    widths: Sequence[Width] = searched[0] if searched else ()
    say("asking for every fact")
    # in prompts that no search has seen
    verdicts = judge_table(Forward.of(model, problem), problem, table_prompts(problem, seed=seed + FRESH))
    recall = float(verdicts.recalled.mean())
    return Built(
        model, problem, method, recall, float(verdicts.margin.min()), time.perf_counter() - start,
        table_bits(table, recall), widths, kept,
    )  # fmt: skip


def _any_method(table: FactTable, wish: dict[str, Any], kept: Kept) -> tuple[str, Any]:
    """The smaller of readout and, for a small table, attention; where neither is small enough, training."""
    tries = ["readout", "attention"] if table.S + table.R <= SMALL else ["readout"]
    found: list[tuple[int, str, Any]] = []
    refusals: list[Exception] = []
    for name in tries:
        try:
            made = MAKERS[name](table, **wish, kept=kept)
            found.append((made[0].n_params, name, made))
        except (FactholdError, ValueError) as error:  # a sum cannot hold every table
            refusals.append(error)
            wish["say"](f"{name}: {error}")
    if found:
        return min(found, key=lambda entry: entry[0])[1:]
    if wish["max_params"] is None:
        raise refusals[0]
    return "train", _train(table, **wish, kept=kept)


Make = Callable[[int], tuple[Transformer, FactualRecall]]


def _smallest(
    make: Make, what: str, guess: int, floor: int, *, accuracy: float, max_params: int | None, say: Say, ceiling: int,
    margin: float = MARGIN,
) -> tuple[Transformer, FactualRecall]:  # fmt: skip
    """The model of the smallest size at which the share asked for wins by ``margin``."""
    made: dict[int, tuple[Transformer, FactualRecall]] = {}
    best = (0.0, 0)

    def ask(size: int) -> float:
        nonlocal best
        say(f"{what}={size}")
        model, problem = made[size] = make(size)
        won = judge_table(Forward.of(model, problem), problem, table_prompts(problem)).margin > margin
        share = float(won.mean())
        best = max(best, (share, -model.n_params))
        say(f"{what}={size}: {model.n_params} parameters, {share:.2%} right")
        return share

    search = find_smallest(ask, accuracy, guess, floor=floor, ceiling=ceiling, tolerance=TOLERANCE)
    if search.enough is None:
        raise FactholdError(
            f"no {what} up to {ceiling} recalls {accuracy:.4g} of the facts; {best[0]:.4g} at most, with "
            f"{-best[1]} parameters: ask for a smaller share with --accuracy, or take another --method"
        )
    model, problem = made[search.enough]
    if max_params is not None and model.n_params > max_params:
        raise FactholdError(
            f"the smallest model found has {model.n_params} parameters, and --max-params is {max_params}; allow more, "
            f"or ask for a smaller share with --accuracy"
        )
    return model, problem


def _problem(table: FactTable, d: int, *, n_noise: int, T: int, p: np.ndarray | None, seed: int) -> FactualRecall:
    key = derive("tokens", seed, d, "sphere")
    return factual_recall(table, d, key=key, n_noise=n_noise, T=T, p=p, outputs="answers")


def _attention(
    table: FactTable, *, accuracy: float, n_noise: int, T: int, p: np.ndarray | None, seed: int,
    max_params: int | None, say: Say, kept: Kept,
) -> tuple[Transformer, FactualRecall]:  # fmt: skip
    """One token a head, values of least cross entropy; d is searched."""
    n = table.S + table.R
    _few("attention", table, 4 * 2 * n * n)

    def make(d: int) -> tuple[Transformer, FactualRecall]:
        problem = _problem(table, d, n_noise=n_noise, T=T, p=p, seed=seed)
        return solved_values(problem), problem

    return _smallest(
        make, "d", n, 3, accuracy=accuracy, max_params=max_params, say=say, ceiling=WIDEST * n
    )  # fmt: skip


def _attention_mlp(
    table: FactTable, *, accuracy: float, n_noise: int, T: int, p: np.ndarray | None, seed: int,
    max_params: int | None, say: Say, kept: Kept,
) -> tuple[Transformer, FactualRecall]:  # fmt: skip
    """The construction of theorem 4 at a d where its projections tell all tokens apart; m is searched."""
    d = 16 * max(table.S, table.R) + 1
    _few("attention-mlp", table, 2 * d * 40 * max(table.S, table.R))
    problem = _problem(table, d, n_noise=n_noise, T=T, p=p, seed=seed)

    def make(m: int) -> tuple[Transformer, FactualRecall]:
        return attention_and_mlp(problem, m, key=derive("build", seed)), problem

    guess = 40 * max(table.S, table.R)
    return _smallest(make, "m", guess, 1, accuracy=accuracy, max_params=max_params, say=say, ceiling=WIDEST * guess)


MOST = 1 << 26
"""Parameters that a search with the paper's constructions may start from: beyond, it takes hours and gigabytes."""


def _few(method: str, table: FactTable, parameters: int) -> None:
    if parameters > MOST:
        raise FactholdError(
            f"--method {method} would start from {parameters:.2g} parameters for {table.S} subjects and {table.R} "
            f"relations; take --method readout, or a smaller table"
        )


def _train(
    table: FactTable, *, accuracy: float, n_noise: int, T: int, p: np.ndarray | None, seed: int,
    max_params: int | None, say: Say, kept: Kept,
) -> tuple[Transformer, FactualRecall]:  # fmt: skip
    """Training at H d_h = d and m = 4 d, d a multiple of H; d is searched."""
    training = replace(protocol("transformer-short"), goal=accuracy)

    def make(units: int) -> tuple[Transformer, FactualRecall]:
        d = HEADS * units
        problem = _problem(table, d, n_noise=n_noise, T=T, p=p, seed=seed)
        start = Transformer.init(d, HEADS, units, BETA * d, key=derive("init", seed, d), bias=True, scaled=True)
        task, key = RecallFacts.of(problem), derive("train", seed, d)
        race = [Member(start, task, key, lr, "build") for lr in training.lrs]
        runs = [run for run in fit(race, training, listener=_heard(say, d, training.steps)) if run.status != "diverged"]
        if not runs:
            return start, problem
        return max(runs, key=lambda run: (run.succeeded, run.final)).model, problem

    size = lambda units: n_params(d=HEADS * units, H=HEADS, d_h=units, m=BETA * HEADS * units)  # noqa: E731
    units = 1
    while TRAINED * FACTS_A_PARAMETER * size(units) < len(table):
        units += 1
    ceiling = units * 4
    if max_params is not None:
        if size(1) > max_params:
            raise FactholdError(
                f"the smallest trained model has {size(1)} parameters, and --max-params is {max_params}"
            )
        ceiling = max(u for u in range(1, ceiling + 1) if size(u) <= max_params)
    return _smallest(
        make, f"d/{HEADS}", min(units, ceiling), 1, accuracy=accuracy, max_params=None, say=say, ceiling=ceiling,
        margin=0.0,
    )  # fmt: skip


MAKERS: dict[str, Callable[..., Any]] = {
    "readout": readout, "attention": _attention, "attention-mlp": _attention_mlp, "train": _train,
}  # fmt: skip


def _heard(say: Say, d: int, steps: int) -> Listener:
    return lambda i, done, share, _: say(f"training at d={d}: {done / steps:.0%} of the steps, {share:.2%} right")

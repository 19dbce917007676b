"""Claims about memories with real embeddings. Each is judged layer by layer, over draws of the names and tokens."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from facthold.lab import Cell, Claim, Judgement, Values, worst
from facthold.lab.claim import Interval, Verdict, at_least, near
from facthold.studies.judging import around, at_preset, mean_and_error
from facthold.studies.lm.embeddings import (
    ANY,
    OUTER,
    PRESETS,
    RANDOM,
    REAL,
    TRAINED,
    WHITENED,
    Grid,
    key_cells,
    trained_cells,
)
from facthold.studies.lm.where_claims import ONE_MODEL

FACTOR = 2.0  # within which the participation ratios are to predict N
FAR = 10.0  # how far d itself is to be off, at least
GAIN = 3.0  # of whitening, at least
KEPT = 0.9  # of what any matrix recalls of random embeddings, at least

Numbers = Sequence[float | None]


def ratios(one: Numbers, other: Numbers) -> list[float]:
    """Logarithms to base 2 of the ratios, seed by seed; nothing where a search ended at its limits."""
    both = list(zip(one, other, strict=True))
    return [] if any(not a or not b for a, b in both) else [math.log2(a) - math.log2(b) for a, b in both if a and b]


def judge_ratios(
    predicted: str, rows: Sequence[Values], of: Callable[[Values], list[float]], verdict: Callable[[Interval], Verdict]
) -> Judgement:
    """A ratio at every layer, each with an interval such that all are right together in 95% of all cases."""
    words, verdicts = [], list[Verdict | bool]()
    for r in rows:
        logs = of(r)
        if len(logs) < 2:
            words.append(f"layer {r['layer']} beyond the search")
            verdicts.append("not decided")
            continue
        mean, deviation = mean_and_error(logs)
        low, high = interval = around(mean, deviation, len(rows))
        verdicts.append(verdict(interval))
        words.append(f"layer {r['layer']} {2**mean:.2f} [{2**low:.2f}, {2**high:.2f}]")
    undecided = "more draws of names and tokens would tell" if "not decided" in verdicts else ""
    error = f"95% of all {len(rows)} layers together, {len(rows[0]['seeds'])} draws each"
    return Judgement(predicted, "; ".join(words), error, worst(*verdicts), next=undecided)


def judge_dimension(rows: Sequence[Values]) -> Judgement:
    """Do the participation ratios say how many an outer product recalls, where d does not?"""
    counts = lambda r: r["found"][REAL][OUTER]  # noqa: E731
    near_two = lambda interval: near(interval, (-math.log2(FACTOR), math.log2(FACTOR)), 0.0)  # noqa: E731
    found = judge_ratios(
        f"N is what random embeddings in sqrt(D_E D_U) dimensions have, within a factor of {FACTOR:g}", rows,
        lambda r: ratios(counts(r), [r["predicted"]] * len(counts(r))), near_two,
    )  # fmt: skip
    off = [r["predicted_random"] / N for r in rows for N in counts(r) if N]
    least = min(off, default=float("nan"))
    measured = f"{found.measured}; with d itself N would be at least {least:.0f} times as many"
    return Judgement(found.predicted, measured, found.error, worst(found.verdict, least >= FAR), next=found.next)


def judge_whitening(rows: Sequence[Values]) -> Judgement:
    of = lambda r: ratios(r["found"][REAL][WHITENED], r["found"][REAL][OUTER])  # noqa: E731
    stated = f"N whitened over N of outer products at least {GAIN:g}"
    return judge_ratios(stated, rows, of, lambda interval: at_least(interval, math.log2(GAIN)))


def judge_any(rows: Sequence[Values]) -> Judgement:
    of = lambda r: ratios(r["found"][REAL][ANY], r["found"][RANDOM][ANY])  # noqa: E731
    stated = f"N of any matrix, real over random embeddings, at least {KEPT:g}"
    return judge_ratios(stated, rows, of, lambda interval: at_least(interval, math.log2(KEPT)))


def judge_trained(rows: Sequence[Values]) -> Judgement:
    of = lambda r: ratios(r["found"][REAL][TRAINED], r["found"][RANDOM][TRAINED])  # noqa: E731
    stated = f"N of a trained memory, real over random embeddings, at least {KEPT:g}"
    return judge_ratios(stated, rows, of, lambda interval: at_least(interval, math.log2(KEPT)))


def claim(id: str, statement: str, judge: Any, cells: Callable[[Grid], list[Cell]] = key_cells) -> Claim:
    return Claim(
        id, "section 3, with a real language model's embeddings", f"{statement} ({ONE_MODEL}).",
        lambda preset: cells(at_preset(PRESETS, preset)), judge,
        changed="stated after one draw of names and tokens had been seen at these layers, and judged on other draws of "
        "the same names",
    )  # fmt: skip


DIMENSION = claim(
    "lm-effective-dimension",
    "With streams of real names as keys and unembeddings as values, taken from their means, an outer product recalls "
    "99% of as many associations as one of random embeddings in sqrt(D_E D_U) dimensions, D the participation ratios: "
    f"within a factor of {FACTOR:g} at every layer, where d itself is off by {FAR:g} and more",
    judge_dimension,
)
WHITENING = claim(
    "lm-whitening",
    f"Whitening these keys and values raises that number at least {GAIN:g} times at every layer",
    judge_whitening,
)
ANY_MATRIX = claim(
    "lm-any-matrix",
    "How many associations any matrix can recall hardly depends on it: in as many random directions, real embeddings "
    f"have at least {KEPT:g} of what random ones have, at every layer",
    judge_any,
)
TRAINED_MEMORY = claim(
    "lm-trained",
    "Real embeddings cost a trained memory little: in as many random directions it recalls of them at "
    f"least {KEPT:g} of what it recalls of random ones, at every layer",
    judge_trained, trained_cells,
)  # fmt: skip


def spread(found: Numbers) -> tuple[float, float, float] | None:
    """The mean, the smallest and the largest over seeds; None where one of them lies beyond the search."""
    numbers = [N for N in found if N is not None]
    return None if len(numbers) < len(found) else (float(np.mean(numbers)), min(numbers), max(numbers))


def at_least_found(found: Numbers, offered: int) -> float:
    """What every seed recalls, where some recall all that is offered."""
    return min((N for N in found if N is not None), default=offered)

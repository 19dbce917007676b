"""What a model says and how surely: every right answer counts as right, and the rest are rivals.

The scores of all outputs are float32, for speed. The first of them are scored again in float64, and all are where
float32's rounding leaves open which are the first two. So margins have the rounding of float64, and outputs with the
same embedding tie.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np
from jaxtyping import Bool, Float, Int

from facthold._util.runtime import side_by_side
from facthold.facts.problem import FactualRecall
from facthold.facts.table import FactTable
from facthold.models.forward import Embeddings, Forward, Tokens, Vectors, blocks, table_prompts
from facthold.models.transformer import Transformer

NONE = -1  # where there is no such output or no such row
COLUMNS = 1 << 13  # outputs whose scores are held at once, where questions are many
FEWEST = 64  # questions that are multiplied with U at once: fewer would read U again for each few of them
ROUNDING = 1e-9  # of |F|: far above that of float64 in a score
CANDIDATES = 3  # rivals that are scored again in float64: the last of them bounds what all others may have

Part = TypeVar("Part")
Outputs = Int[np.ndarray, " n"]
Pairs = Int[np.ndarray, " pairs"]  # one side of pairs (question, answer)
Scores = Float[np.ndarray, "n M"]
PerRival = Float[np.ndarray, "n k"]


@dataclass(frozen=True, eq=False)
class Verdicts:
    """n questions, judged. Outputs are rows of `FactualRecall.U`: the answers first."""

    said: Outputs  # the output with the largest score
    right: Outputs  # the right answer with the largest score; NONE for a question that is not in the table
    rival: Outputs  # the best of those that are not right; without a right answer, the runner-up
    margin: Float[np.ndarray, " n"]  # score of ``right`` (or ``said``) minus that of ``rival``, or inf
    probability: Float[np.ndarray, " n"]  # of what is said, by the softmax over all outputs; nan where not asked for

    @property
    def recalled(self) -> Bool[np.ndarray, " n"]:
        """Whether a right answer is strictly above all others: a tie is not recall."""
        return (self.right != NONE) & (self.margin > 0)


def joined(parts: Sequence[Part]) -> Part:
    """Dataclasses of arrays, end to end; what is no array is the same in all of them."""
    columns = {f.name: [getattr(part, f.name) for part in parts] for f in fields(parts[0])}  # type: ignore[arg-type]
    whole = {name: np.concatenate(c) if isinstance(c[0], np.ndarray) else c[0] for name, c in columns.items()}
    return type(parts[0])(**whole)


def find_rows(table: FactTable, subjects: Outputs, relations: Outputs) -> Outputs:
    """The row of the table that has each (s, r); NONE where there is none."""
    pairs = table.subjects.astype(np.int64) * table.R + table.relations
    order = np.argsort(pairs)
    wanted = np.asarray(subjects, np.int64) * table.R + relations
    at = order[np.minimum(np.searchsorted(pairs, wanted, sorter=order), len(order) - 1)]
    return np.where(pairs[at] == wanted, at, NONE)


def right_answers(table: FactTable, rows: Outputs) -> tuple[Pairs, Pairs]:
    """Pairs (question, answer), one for each right answer of each question; ``rows`` are rows of the table."""
    there = np.flatnonzero(rows != NONE)
    start, end = (np.searchsorted(table.also[:, 0], rows[there], side=side) for side in ("left", "right"))
    more = end - start
    place = np.repeat(start - np.cumsum(more) + more, more) + np.arange(more.sum())
    return (
        np.concatenate([there, np.repeat(there, more)]),
        np.concatenate([table.answers[rows[there]], table.also[place, 1]]).astype(np.int64),
    )


def judge(forward: Forward, tokens: Tokens, rows: Outputs, *, probabilities: bool = False) -> Verdicts:
    """Ask every prompt, and judge it by the row of the table that it is about. Probabilities take as long again."""

    def judged(at: slice) -> Verdicts:
        return judge_outputs(forward, forward.states(tokens[at]).F, rows[at], probabilities=probabilities)

    return joined(side_by_side(judged, list(forward.parts(tokens))))


def judge_outputs(forward: Forward, F: Vectors, rows: Outputs, *, probabilities: bool = False) -> Verdicts:
    """As `judge`, for F that is computed already."""
    return verdicts(contest(forward.U, F, *right_answers(forward.table, rows), probabilities=probabilities))


def judge_table(model: Transformer, problem: FactualRecall, *, draws: int = 1, seed: int = 0) -> Verdicts:
    """Every fact of the table in so many prompts, the facts of a draw after each other."""
    tokens = np.concatenate(table_prompts(problem, draws=draws, seed=seed))
    rows = np.tile(np.arange(len(problem.table)), draws)
    return judge(Forward.of(model, problem), tokens, rows)


def recalled_beside(
    forward: Forward,
    tokens: Tokens,
    rows: Outputs,
    beside: Int[np.ndarray, "n longer"],
    margin: Float[np.ndarray, " n"],
) -> Bool[np.ndarray, " n"]:
    """Which prompts are answered right, as `judge` says, where the same questions have these margins in the prompts
    ``beside``. A score is u F, so a margin moves by 2 |u| |F - F'| at most: only where that leaves it open, the whole
    vocabulary is asked again. Attention as built hardly hears noise, so that this is seldom."""
    longest = _longest(forward.U)

    def recalled(at: slice) -> Bool[np.ndarray, " n"]:
        F, before = forward.states(tokens[at]).F, forward.states(beside[at]).F
        moved, size = np.linalg.norm(F - before, axis=1), np.linalg.norm(before, axis=1)
        right = margin[at] > 2 * longest * (moved + ROUNDING * size)
        if len(open_ := np.flatnonzero(~right)):
            right[open_] = judge_outputs(forward, F[open_], rows[at][open_]).recalled
        return right

    return np.concatenate(side_by_side(recalled, list(forward.parts(beside))))


@dataclass(frozen=True, eq=False)
class Contest:
    """For each of n questions its best right answer, and the best of the others, with their scores in float64."""

    right: Outputs
    own: Float[np.ndarray, " n"]  # -inf where there is no right answer
    probability: Float[np.ndarray, " n"]  # of the best of all; nan where not asked for
    rivals: Int[np.ndarray, "n k"]
    against: PerRival  # largest first; -inf where no output is left


def contest(
    U: Embeddings, F: Vectors, asked: Pairs, answers: Pairs, k: int = CANDIDATES, *, probabilities: bool = False
) -> Contest:
    """The best right answer of each question and its k best rivals; ``asked`` and ``answers`` are all right pairs."""
    order = np.argsort(asked, kind="stable")
    asked, answers, parts = asked[order], answers[order], []
    longest = _longest(U)
    for at in blocks(len(F), max(len(U), k * U.shape[1]), 2, FEWEST):
        here = slice(*np.searchsorted(asked, [at.start, at.stop]))
        parts.append(_contest(U, F[at], asked[here] - at.start, answers[here], k, longest, probabilities))
    return joined(parts)


def _longest(U: Embeddings) -> float:
    """The norm of the longest row."""
    return math.sqrt(np.einsum("md,md->m", U, U).max(initial=0.0))


def _contest(
    U: Embeddings, F: Vectors, asked: Pairs, answers: Pairs, k: int, longest: float, probabilities: bool
) -> Contest:
    """Of questions whose scores are held at once. ``longest``: the norm of the longest row of U."""
    # each row is divided by its size, so that no score is out of float32's range
    scale = np.maximum(np.abs(F).max(axis=1, initial=0, keepdims=True), np.finfo(np.float64).tiny)
    numbers = (F / scale).astype(np.float32)
    top, probability = _first(U, numbers, asked, answers, max(k, CANDIDATES), scale if probabilities else None)
    of_answers = _scored(F[asked], U, answers[:, None])[:, 0]
    own = np.full(len(F), -np.inf)
    np.maximum.at(own, asked, of_answers)
    right = np.full(len(F), NONE, np.int64)
    first = of_answers == own[asked]
    right[asked[first]] = answers[first]
    against = _scored(F, U, top)
    if top.shape[1] < len(U):
        # Whatever is not among them has at most the float32 score of the last, which is at most (d + 2) eps |F| |u|
        # from the exact one.
        rounding = (U.shape[1] + 2) * float(np.finfo(np.float32).eps) * longest * np.linalg.norm(F, axis=1)
        open_ = np.flatnonzero(np.sort(against, axis=1)[:, -2] - against[:, -1] <= 2 * rounding)
        if len(open_):
            exact, ours = F[open_] @ U.astype(np.float64).T, np.isin(asked, open_)
            exact[np.searchsorted(open_, asked[ours]), answers[ours]] = -np.inf
            top[open_] = _top(exact, top.shape[1])[0]
            against[open_] = _scored(F[open_], U, top[open_])
    offered = len(U) - np.bincount(asked, minlength=len(F))
    against[np.arange(top.shape[1]) >= offered[:, None]] = -np.inf
    order = np.argsort(-against, axis=1, kind="stable")
    top, against = np.take_along_axis(top, order, axis=1), np.take_along_axis(against, order, axis=1)
    short = [(0, 0), (0, max(0, 2 - top.shape[1]))]  # a model with one output has no runner-up
    return Contest(right, own, probability, np.pad(top, short), np.pad(against, short, constant_values=-np.inf))


def _first(
    U: Embeddings, F: Float[np.ndarray, "n d"], asked: Pairs, answers: Pairs, k: int,
    scale: Float[np.ndarray, "n 1"] | None,
) -> tuple[Int[np.ndarray, "n k"], Float[np.ndarray, " n"]]:  # fmt: skip
    """The k outputs with the largest scores that are not right, in float32; and with ``scale`` the softmax of all
    scores times it, at the largest. Some outputs at a time, so that their scores stay in the cache."""
    found, highest, total = [], np.full((len(F), 1), -np.inf, np.float32), np.zeros((len(F), 1))
    for first in range(0, max(len(U), 1), COLUMNS):
        scores = F @ U[first : first + COLUMNS].T
        if scale is not None:
            before, highest = highest, np.maximum(highest, scores.max(axis=1, initial=-np.inf, keepdims=True))
            above = (scores - highest) * scale.astype(np.float32)
            total *= np.exp((before - highest) * scale) if first else 0
            total += np.exp(above, out=above).sum(axis=1, dtype=np.float64, keepdims=True)
        here = (first <= answers) & (answers < first + COLUMNS)
        scores[asked[here], answers[here] - first] = -np.inf
        at, values = _top(scores, k)
        found.append((first + at, values))
    outputs, values = (np.concatenate(parts, axis=1) for parts in zip(*found, strict=True))
    order = np.argsort(-values, axis=1, kind="stable")[:, :k]
    share = np.full(len(F), np.nan) if scale is None else 1 / total[:, 0]
    return np.take_along_axis(outputs, order, axis=1), share


def _scored(F: Vectors, U: Embeddings, outputs: Int[np.ndarray, "n k"]) -> PerRival:
    """Some outputs' scores in float64, each summed in the same order: equal embeddings have equal scores."""
    return (F[:, None] * U[outputs]).sum(axis=2, dtype=np.float64)


def _top(scores: Scores, k: int) -> tuple[Int[np.ndarray, "n k"], Float[np.ndarray, "n k"]]:
    """The k outputs with the largest scores, largest first, and these. For few of them some passes, which overwrite the
    scores, beat a sort."""
    k = min(k, scores.shape[1])
    if k > 4:
        top = np.argpartition(-scores, k - 1, axis=1)[:, :k]
        order = np.argsort(-np.take_along_axis(scores, top, axis=1), axis=1, kind="stable")
        top = np.take_along_axis(top, order, axis=1)
        return top, np.take_along_axis(scores, top, axis=1)
    rows, top, values = np.arange(len(scores)), np.empty((len(scores), k), np.int64), np.empty_like(scores[:, :k])
    for i in range(k):
        top[:, i] = scores.argmax(axis=1)
        values[:, i] = scores[rows, top[:, i]]
        scores[rows, top[:, i]] = -np.inf
    return top, values


def verdicts(c: Contest) -> Verdicts:
    unknown = c.right == NONE  # the best of all stands for the right answer, the next for its rival
    said = np.where(unknown | (c.against[:, 0] > c.own), c.rivals[:, 0], c.right)
    own = np.where(unknown, c.against[:, 0], c.own)
    rival, against = (np.where(unknown, pair[:, 1], pair[:, 0]) for pair in (c.rivals, c.against))
    margin = np.where(np.isfinite(against), own - against, np.inf)
    return Verdicts(said, c.right, np.where(np.isfinite(against), rival, NONE), margin, c.probability)

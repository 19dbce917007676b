"""What a model says and how surely: every right answer counts as right, and the rest are rivals.

The scores of all outputs are float32, for speed. The first of them are scored again in float64, and all are where
float32's rounding leaves open which are the first two. So margins have the rounding of float64, and outputs with the
same embedding tie.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np
from jaxtyping import Bool, Float, Int

from facthold.facts.problem import FactualRecall
from facthold.facts.table import FactTable
from facthold.models.forward import BLOCK, Forward, Tokens

NONE = -1  # where there is no such output or no such row
CANDIDATES = 3  # rivals that are scored again in float64: the last of them bounds what all others may have

Part = TypeVar("Part")
Outputs = Int[np.ndarray, " n"]
Pairs = Int[np.ndarray, " pairs"]  # one side of pairs (question, answer)


@dataclass(frozen=True, eq=False)
class Verdicts:
    """n questions, judged. Outputs are rows of `FactualRecall.U`: the answers first."""

    said: Outputs  # the output with the largest score
    right: Outputs  # the right answer with the largest score; NONE for a question that is not in the table
    rival: Outputs  # the best of those that are not right; without a right answer, the runner-up
    margin: Float[np.ndarray, " n"]
    """Score of ``right`` (without one: of ``said``) minus that of ``rival``; inf where there is no rival."""
    probability: Float[np.ndarray, " n"]
    """Of what is said, by the softmax over all outputs; nan where it was not asked for."""

    @property
    def recalled(self) -> Bool[np.ndarray, " n"]:
        """Whether a right answer is strictly above all others: a tie is not recall."""
        return (self.right != NONE) & (self.margin > 0)


def joined(parts: Sequence[Part]) -> Part:
    """Dataclasses of arrays, end to end; what is no array is the same in all of them."""
    columns = {f.name: [getattr(part, f.name) for part in parts] for f in fields(parts[0])}  # type: ignore[arg-type]
    whole = {name: np.concatenate(c) if isinstance(c[0], np.ndarray) else c[0] for name, c in columns.items()}
    return type(parts[0])(**whole)


def find_rows(table: FactTable, subjects: Outputs, relations: Outputs) -> Int[np.ndarray, " n"]:
    """The row of the table that has each (s, r); NONE where there is none."""
    pairs = table.subjects.astype(np.int64) * table.R + table.relations
    order = np.argsort(pairs)
    wanted = np.asarray(subjects, np.int64) * table.R + relations
    at = order[np.minimum(np.searchsorted(pairs, wanted, sorter=order), len(order) - 1)]
    return np.where(pairs[at] == wanted, at, NONE)


def right_answers(table: FactTable, rows: Int[np.ndarray, " n"]) -> tuple[Pairs, Pairs]:
    """Pairs (question, answer), one for each right answer of each question; ``rows`` are rows of the table."""
    there = np.flatnonzero(rows != NONE)
    start, end = (np.searchsorted(table.also[:, 0], rows[there], side=side) for side in ("left", "right"))
    more = end - start
    place = np.repeat(start - np.cumsum(more) + more, more) + np.arange(more.sum())
    return (
        np.concatenate([there, np.repeat(there, more)]),
        np.concatenate([table.answers[rows[there]], table.also[place, 1]]).astype(np.int64),
    )


def judge(
    forward: Forward, table: FactTable, tokens: Tokens, rows: Int[np.ndarray, " n"], *, probabilities: bool = False
) -> Verdicts:
    """Ask every prompt, and judge it by the row of the table that it is about. Probabilities take as long again."""
    parts = [
        judge_outputs(forward, table, states.F, rows[at], probabilities=probabilities)
        for at, states in forward.blocks(tokens)
    ]
    return joined(parts) if parts else judge_outputs(forward, table, np.zeros((0, forward.U.shape[1])), rows)


def judge_outputs(
    forward: Forward, table: FactTable, F: Float[np.ndarray, "n d"], rows: Int[np.ndarray, " n"], *,
    probabilities: bool = False,
) -> Verdicts:  # fmt: skip
    """As `judge`, for F that is computed already."""
    size = rows_at_once(forward.U)
    blocks = [slice(i, i + size) for i in range(0, max(len(F), 1), size)]
    return joined(
        [_judge(forward.U, F[at], *right_answers(table, rows[at]), probabilities=probabilities) for at in blocks]
    )


def rows_at_once(U: Float[np.ndarray, "M d"], k: int = CANDIDATES) -> int:
    """Questions whose scores, and the embeddings of k rivals each, fit in a block."""
    return max(1, 2 * BLOCK // max(len(U), k * U.shape[1]))


def judge_table(forward: Forward, problem: FactualRecall, tokens: Int[np.ndarray, "draws facts T"]) -> Verdicts:
    """Every fact of the table in every draw, the facts of a draw after each other."""
    draws, n, T = tokens.shape
    return judge(forward, problem.table, tokens.reshape(-1, T), np.tile(np.arange(n), draws))


@dataclass(frozen=True, eq=False)
class Contest:
    """For each of n questions its best right answer, and the best of the others, with their scores in float64."""

    right: Outputs
    own: Float[np.ndarray, " n"]  # -inf where there is no right answer
    rivals: Int[np.ndarray, "n k"]
    against: Float[np.ndarray, "n k"]  # largest first; -inf where no output is left


def contest(
    U: Float[np.ndarray, "M d"], F: Float[np.ndarray, "n d"], asked: Pairs, answers: Pairs, k: int = CANDIDATES
) -> Contest:
    """The best right answer of each question and its k best rivals; ``asked`` and ``answers`` are all right pairs."""
    size, parts = rows_at_once(U, k), []
    for i in range(0, max(len(F), 1), size):
        here, rows = (asked >= i) & (asked < i + size), F[i : i + size]
        parts.append(_contest(U, rows, _float32_scores(U, rows)[0], asked[here] - i, answers[here], k))
    return joined(parts)


def _contest(
    U: Float[np.ndarray, "M d"], F: Float[np.ndarray, "n d"], scores: Float[np.ndarray, "n M"], asked: Pairs,
    answers: Pairs, k: int,
) -> Contest:  # fmt: skip
    """It writes into ``scores``."""
    of_answers = _scored(F[asked], U, answers[:, None])[:, 0]
    own = np.full(len(F), -np.inf)
    np.maximum.at(own, asked, of_answers)
    right = np.full(len(F), NONE, np.int64)
    first = of_answers == own[asked]
    right[asked[first]] = answers[first]
    scores[asked, answers] = -np.inf
    top = _top(scores, max(k, CANDIDATES))
    against = _scored(F, U, top)
    if top.shape[1] < len(U):
        # Whatever is not among them has at most the float32 score of the last, which is at most (d + 2) eps |F| |u|
        # from the exact one.
        longest = float(np.linalg.norm(U, axis=1).max(initial=0.0))
        rounding = (U.shape[1] + 2) * float(np.finfo(np.float32).eps) * longest * np.linalg.norm(F, axis=1)
        open_ = np.flatnonzero(np.sort(against, axis=1)[:, -2] - against[:, -1] <= 2 * rounding)
        if len(open_):
            exact, ours = F[open_] @ U.astype(np.float64).T, np.isin(asked, open_)
            exact[np.searchsorted(open_, asked[ours]), answers[ours]] = -np.inf
            top[open_] = _top(exact, top.shape[1])
            against[open_] = _scored(F[open_], U, top[open_])
    offered = len(U) - np.bincount(asked, minlength=len(F))
    against[np.arange(top.shape[1]) >= offered[:, None]] = -np.inf
    order = np.argsort(-against, axis=1, kind="stable")
    top, against = np.take_along_axis(top, order, axis=1), np.take_along_axis(against, order, axis=1)
    short = [(0, 0), (0, max(0, 2 - top.shape[1]))]  # a model with one output has no runner-up
    return Contest(right, own, np.pad(top, short), np.pad(against, short, constant_values=-np.inf))


def _scored(
    F: Float[np.ndarray, "n d"], U: Float[np.ndarray, "M d"], outputs: Int[np.ndarray, "n k"]
) -> Float[np.ndarray, "n k"]:
    """Some outputs' scores in float64, each summed in the same order: equal embeddings have equal scores."""
    return (F[:, None] * U[outputs]).sum(axis=2, dtype=np.float64)


def _top(scores: Float[np.ndarray, "n M"], k: int) -> Int[np.ndarray, "n k"]:
    """The k outputs with the largest scores, largest first. For few of them some passes beat a sort."""
    k = min(k, scores.shape[1])
    if k > 4:
        top = np.argpartition(-scores, k - 1, axis=1)[:, :k]
        order = np.argsort(-np.take_along_axis(scores, top, axis=1), axis=1, kind="stable")
        return np.take_along_axis(top, order, axis=1)
    top = np.empty((len(scores), k), np.int64)
    for i in range(k):
        top[:, i] = scores.argmax(axis=1)
        scores[np.arange(len(scores)), top[:, i]] = -np.inf
    return top


def _judge(
    U: Float[np.ndarray, "M d"], F: Float[np.ndarray, "n d"], asked: Pairs, answers: Pairs, *,
    probabilities: bool = False,
) -> Verdicts:  # fmt: skip
    scores, scale = _float32_scores(U, F)
    probability = _highest_share(scores, scale) if probabilities else np.full(len(F), np.nan)
    c = _contest(U, F, scores, asked, answers, CANDIDATES)
    unknown = c.right == NONE  # the best of all stands for the right answer, the next for its rival
    said = np.where(unknown | (c.against[:, 0] > c.own), c.rivals[:, 0], c.right)
    own = np.where(unknown, c.against[:, 0], c.own)
    rival, against = (np.where(unknown, pair[:, 1], pair[:, 0]) for pair in (c.rivals, c.against))
    margin = np.where(np.isfinite(against), own - against, np.inf)
    return Verdicts(said, c.right, np.where(np.isfinite(against), rival, NONE), margin, probability)


def _float32_scores(
    U: Float[np.ndarray, "M d"], F: Float[np.ndarray, "n d"]
) -> tuple[Float[np.ndarray, "n M"], Float[np.ndarray, "n 1"]]:
    """Scores, and the size by which each row was divided so that none is out of float32's range."""
    scale = np.maximum(np.abs(F).max(axis=1, initial=0, keepdims=True), np.finfo(np.float64).tiny)
    return (F / scale).astype(np.float32) @ U.T, scale


def _highest_share(scores: Float[np.ndarray, "n M"], scale: Float[np.ndarray, "n 1"]) -> Float[np.ndarray, " n"]:
    """The softmax of the scores times their scale, at the largest."""
    above = scores - scores.max(axis=1, initial=-np.inf, keepdims=True)
    above *= scale.astype(np.float32)
    return 1 / np.exp(above, out=above).sum(axis=1, dtype=np.float64)

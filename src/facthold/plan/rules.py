"""Sizes that follow from rules: a table's sizes, a model's, and what every method but training needs beside its knob.

- A head whose keys are solved for must tell its k tokens from all n - k others in d dimensions. Random points in
  general position allow it from d = delta on (`separating_dimensions`), with a width of sqrt(delta) around it.
- Sums of R + D unit vectors disturb each other by sqrt((R + D) / d) (theorem 3).
- The answers of a relation disturb each other in theorem 4's MLP, by C(a) / d and C(a) / m.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from scipy.optimize import minimize_scalar
from scipy.stats import norm

from facthold.construct.gates import fewest_dimensions
from facthold.knowledge.build import NOISE
from facthold.knowledge.readout import SLACK
from facthold.models.transformer import n_params
from facthold.studies.sizes.held import tied
from facthold.studies.sizes.trained_size import BETA, HEADS
from facthold.theory.bounds import MLP_CONSTANT

WIDTHS = 4.0
"""So many times sqrt(delta) above delta: all of some hundred heads then separate."""


class Question(NamedTuple):
    """A table by its sizes, and the share of it that must be right."""

    S: int
    R: int
    D: int
    accuracy: float = 1.0
    known: int = 0
    """Facts, where they are not all of S x R."""

    @property
    def facts(self) -> int:
        return self.known or self.S * self.R

    @property
    def errors(self) -> float:
        """The share of facts that may be wrong; for all right, that of a single fact."""
        return max(1 - self.accuracy, 1 / self.facts)

    @property
    def tokens(self) -> int:
        """Tokens that can stand in a prompt: as many of noise as of subjects and relations, and EOS."""
        return 2 * (self.S + self.R) + 1

    @property
    def outputs(self) -> int:
        return self.tokens + self.R * self.D

    @property
    def bits(self) -> float:
        """Of one fact; a little for D = 1, where there is nothing to know."""
        return math.log2(max(self.D, 2))


class Shape(NamedTuple):
    """The sizes of a transformer."""

    d: int
    H: int
    d_h: int
    m: int

    @property
    def n_params(self) -> int:
        return n_params(d=self.d, H=self.H, d_h=self.d_h, m=self.m)


@cache
def separating_dimensions(tokens: int, k: int) -> float:
    """d from which on a linear score tells k of n random points from the others, with room for bad luck.

    The share of both sides that a random direction leaves on the wrong one, at the best threshold b, is the smallest
    of f E(z + b)_+^2 + (1 - f) E(z - b)_+^2 for f = k / n (Gardner's count for labels of which a share f is positive);
    n times that is delta, the dimensions that the conditions take. The step at delta is about sqrt(delta) wide.
    """
    f = k / tokens
    best = minimize_scalar(lambda b: f * _excess(-b) + (1 - f) * _excess(b), bounds=(0.0, 40.0), method="bounded")
    delta = tokens * float(best.fun)
    return 1 + delta + WIDTHS * math.sqrt(delta)


def _excess(b: float) -> float:
    """E (z - b)_+^2 for a standard normal z."""
    return (1 + b * b) * float(norm.sf(b)) - b * float(norm.pdf(b))


def tokens_a_head(question: Question, H: int) -> int:
    """The fewest tokens a head that H heads allow, as `heads.partition_into` has it."""
    return _smallest(lambda M: -(-question.S // M) - (-question.R // M) <= H, max(question.S, question.R))


def _smallest(enough: Callable[[int], bool], ceiling: int) -> int:
    """The smallest whole number that is enough, if that is monotone and the ceiling is."""
    low, high = 0, ceiling
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def selected_d(question: Question) -> int:
    """As many dimensions as heads that select need, and sqrt(S R) where that is more: attention and the MLP are then
    about as large."""

    def enough(d: int) -> bool:
        k = tokens_a_head(question, d)
        if k > 2:
            k = tokens_a_head(question, d // 2)
        return d >= separating_dimensions(question.tokens, k)

    least = max(4, math.isqrt(question.facts - 1) + 1)
    if enough(least):
        return least
    return _smallest(lambda d: d >= least and enough(d), 8 * (question.S + question.R) + 64)


def selected_shape(question: Question, m: int) -> Shape:
    d = selected_d(question)
    d_h = 1 if tokens_a_head(question, d) <= 2 else 2
    return Shape(d, d // d_h, d_h, m)


def sums_disturb(question: Question) -> float:
    """h ln(h / errors), h^2 = R^2 + D^2, between the theorem's max(R, D) and the R + D unit vectors in the two sums: d
    at which the best of so many rivals, each of variance h / d, stays below the answer."""
    h = math.hypot(question.R, question.D)
    return h * math.log(h / question.errors)


def attention_shape(question: Question, d: int) -> Shape:
    """A token a head, as lemma 1 allows at the smallest d, and d_h in proportion to d."""
    return Shape(d, question.S + question.R, tied("attention", d), 0)


def mlp_shape(question: Question, d: int) -> Shape:
    """A token a head, and m in proportion to d."""
    return Shape(d, question.S + question.R, d, tied("attention-mlp", d))


def subjects_an_answer(question: Question) -> float:
    """C(a), the facts that an answer serves, seen from one of them: C(a) / m and C(a) / d are the noise in the proof of
    lemma 3."""
    return 1 + (question.S - 1) / question.D


def values_x(question: Question) -> tuple[float, ...]:
    """Keys that select one token, and S R facts of log2 D bits in S + R vectors."""
    return (separating_dimensions(question.tokens, 1) + question.facts * question.bits / (question.S + question.R),)


def readout_shape(question: Question, n_noise: int = NOISE) -> tuple[int, int]:
    """d and the number of gates, as `knowledge.readout.shape` has them for a table of these sizes."""
    few, many = sorted((question.S, question.R))
    answers = question.D * -math.expm1(question.S * math.log1p(-1 / question.D)) if question.D > 1 else 1.0
    K = SLACK * 2 * MLP_CONSTANT * question.facts * math.log(max(2.0, answers))
    codes = math.ceil(3 * math.log(many) + 8)
    d = max(fewest_dimensions(few, n_noise), few + codes, 4 * math.ceil(0.35 * K ** (1 / 3)))
    return d, max(1, min(max(codes, round(math.sqrt(K / 2)) - d), d - few))


def readout_model(question: Question, m: int) -> Shape:
    d, n_gates = readout_shape(question)
    return Shape(d, n_gates + min(question.S, question.R), 1, m)


def readout_x(question: Question) -> tuple[float, ...]:
    d, n_gates = readout_shape(question)
    return (question.facts / (n_gates + d), question.bits)


def train_shape(question: Question, d: int) -> Shape:
    """H d_h = d and m = 4 d, d the next multiple of H."""
    d_h = -(-d // HEADS)
    return Shape(HEADS * d_h, HEADS, d_h, BETA * HEADS * d_h)


def token_heads(question: Question, d: int) -> Shape:
    """A head of one dimension for each token."""
    return Shape(d, question.S + question.R, 1, 0)


def full_heads(question: Question, d: int) -> Shape:
    """A head of full rank for each token."""
    return Shape(d, question.S + question.R, d, 0)


def pass_over_facts(question: Question, shape: Shape) -> float:
    """Multiplications of one pass over all facts, and of the keys with all tokens."""
    Hd_h = float(shape.H * shape.d_h)
    return shape.d * (Hd_h * question.tokens + float(question.facts) * (Hd_h + shape.m + question.outputs))

"""What is planned: for each construction and for training, the form of its law and the shape of its models.

A law says how the one size that decides, the knob (d, d_h or m), grows: knob = c x1^b1 x2^b2 ..., where the x are what
theory has it grow with. Only c and b are fitted (`plan.laws`); all other sizes follow from `plan.rules`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from facthold.plan import rules
from facthold.plan.laws import CAUTIOUS, CONFIDENCE, Features
from facthold.plan.rules import Question, Shape
from facthold.studies.sizes.trained_size import HEADS

CONVEX = (1.0,)
"""Where solves are convex, the size for 99% is that for all (docs/findings.md): one accuracy is calibrated."""
BOTH = (0.99, 1.0)
MOST = (0.99,)
"""For least squares, which loses facts at any size, and for training, where a calibration takes a minute."""


@dataclass(frozen=True)
class Way:
    """How one method is planned."""

    name: str
    knob: str
    """The size that is fitted."""
    x: Callable[[Question], Features]
    """What theory has the size grow with."""
    law: str
    """x in words."""
    guess: Callable[[Question], float]
    """Where a search of the calibrations starts. Not from x: another law needs no new calibrations."""
    shape: Callable[[Question, int], Shape]
    """The model of a size of the knob."""
    d: Callable[[Question], int] = lambda question: 0
    """The rule for d; 0 where d is the knob."""
    least: Callable[[Question], int] = lambda question: 1
    """The smallest size that its own rules allow."""
    per_head: Callable[[Question], int] = lambda question: 0
    goals: tuple[float, ...] = CONVEX
    """The accuracies of its calibrations."""
    confidence: float = CAUTIOUS
    """Of the interval of its size."""
    work: Callable[[Question, Shape], float] = rules.pass_over_facts
    """What its seconds grow with."""


def _selected(name: str, start: float, goals: tuple[float, ...] = CONVEX) -> Way:
    return Way(
        name, "m", x=lambda q: (q.facts / rules.selected_d(q), q.bits), law="S R / d, log2(D)",
        guess=lambda q: start * q.facts * q.bits / rules.selected_d(q), shape=rules.selected_shape,
        d=rules.selected_d, goals=goals,
    )  # fmt: skip


def _values(name: str, start: float, goals: tuple[float, ...] = CONVEX) -> Way:
    return Way(
        name, "d", x=rules.values_x, law="delta + S R log2(D) / (S + R)", guess=lambda q: start * rules.values_x(q)[0],
        shape=rules.token_heads, least=lambda q: 3, goals=goals,
    )  # fmt: skip


WAYS = {
    way.name: way
    for way in (
        Way(
            "attention", "d", x=lambda q: (rules.sums_disturb(q),), law="h ln(h / e), h^2 = R^2 + D^2",
            guess=lambda q: 32.0 * max(q.R, q.D), shape=rules.attention_shape, per_head=lambda q: 1,
            least=lambda q: 3, goals=BOTH,
        ),
        Way(
            "attention-full", "d", x=lambda q: (rules.sums_disturb(q),), law="h ln(h / e), h^2 = R^2 + D^2",
            guess=lambda q: 26.0 * max(q.R, q.D), shape=rules.full_heads, least=lambda q: 3, goals=BOTH,
        ),
        Way(
            "attention-mlp", "d", x=lambda q: (rules.subjects_an_answer(q), q.D, math.log(2 / q.errors)),
            law="C(a) = 1 + (S - 1) / D, D, ln(2 / e)",
            guess=lambda q: 6 * rules.subjects_an_answer(q) * math.log(q.outputs / q.errors), shape=rules.mlp_shape,
            per_head=lambda q: 1, least=lambda q: 3, goals=BOTH,
        ),
        _values("values-ridge", 2.0, MOST),
        _values("values", 0.8),
        _selected("selected-ridge", 4.0, MOST),
        _selected("selected-convex", 2.0),
        _selected("selected", 1.0),
        Way(
            "readout", "m", x=rules.readout_x, law="S R / (gates + d), log2(D)", guess=lambda q: rules.readout_x(q)[0],
            shape=rules.readout_model, d=lambda q: rules.readout_shape(q)[0], confidence=CONFIDENCE,
            work=lambda q, shape: float(q.facts) * shape.d,  # rivals are sampled: a fact costs as much among more
        ),
        Way(
            "train", "d", x=lambda q: (q.S, q.R), law="S, R", guess=lambda q: math.sqrt(q.facts),
            shape=rules.train_shape, least=lambda q: HEADS, goals=MOST, confidence=CONFIDENCE,
        ),
    )
}  # fmt: skip
"""Every way by name: the builders of `experiments.builders`, readout of `facthold build`, and training."""

"""Every way to put a table of facts into a transformer without training, by name."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from jaxtyping import PRNGKeyArray

from facthold._util.errors import unknown
from facthold._util.keys import derive
from facthold.construct.attention import attention_only
from facthold.construct.attention_mlp import attention_and_mlp
from facthold.construct.heads import asked_tokens
from facthold.construct.selected import selecting_attention
from facthold.construct.values import solved_values
from facthold.facts.problem import FactualRecall
from facthold.models.transformer import Transformer

PER_HEAD = 4
"""Tokens that a head of the attention-only construction serves, where nothing else is said."""


class Knobs(NamedTuple):
    """The sizes that a builder may be given beside d, which the problem has. 0: left to the builder."""

    d_h: int = 0
    m: int = 0
    per_head: int = 0
    """Tokens that a head, or a group of heads, serves."""


@dataclass(frozen=True)
class Builder:
    """A way to make a transformer that knows the facts of a problem."""

    name: str
    place: str
    """Where it stands in the paper, or that it goes beyond it."""
    build: Callable[[FactualRecall, Knobs, PRNGKeyArray], Transformer]
    knob: str
    """The size that decides how much it holds: 'd_h', 'm' or 'd'."""
    outline: str
    """What it does, in a line."""


def _attention(problem: FactualRecall, size: Knobs, key: PRNGKeyArray) -> Transformer:
    M = size.per_head or PER_HEAD
    H = sum(ceil(len(tokens) / M) for tokens in asked_tokens(problem))
    return attention_only(problem, H, size.d_h, key=key, per_head=M)


def _full_attention(problem: FactualRecall, size: Knobs, key: PRNGKeyArray) -> Transformer:
    H = sum(map(len, asked_tokens(problem)))
    return attention_only(problem, H, problem.d, key=key, per_head=1)


def _attention_mlp(problem: FactualRecall, size: Knobs, key: PRNGKeyArray) -> Transformer:
    return attention_and_mlp(problem, size.m, key=key, d_h=size.d_h or None, per_subset=size.per_head or None)


def _values(how: str) -> Callable[[FactualRecall, Knobs, PRNGKeyArray], Transformer]:
    return lambda problem, size, key: solved_values(problem, size.d_h or 1, how=how)


def _selected(how: str) -> Callable[[FactualRecall, Knobs, PRNGKeyArray], Transformer]:
    return lambda problem, size, key: selecting_attention(problem, size.m, key=key, d_h=size.d_h or None, how=how)


BUILDERS = {
    builder.name: builder
    for builder in (
        Builder("attention", "theorem 3", _attention, "d_h", "heads add up the answers of s and of r"),
        Builder("attention-full", "theorem 3", _full_attention, "d", "the same, a head of full rank for each token"),
        Builder("attention-mlp", "theorem 4", _attention_mlp, "m", "heads project s and r, Hermite tensors in the MLP"),
        Builder("values-ridge", "beyond", _values("ridge"), "d", "one token a dimension, values by least squares"),
        Builder("values", "beyond", _values("convex"), "d", "one token a dimension, values of least cross entropy"),
        Builder("selected-ridge", "beyond", _selected("ridge"), "m", "codes for s and r, MLP by least squares"),
        Builder("selected-convex", "beyond", _selected("convex"), "m", "codes for s and r, convex readout of the MLP"),
        Builder("selected", "beyond", _selected("layerwise"), "m", "codes for s and r, one convex solve a layer"),
    )
}


def builder(name: str) -> Builder:
    """The builder with this name."""
    if name not in BUILDERS:
        raise unknown("construction", name, BUILDERS)
    return BUILDERS[name]


def build_facts(name: str, problem: FactualRecall, size: Knobs, seed: int) -> Transformer:
    """The transformer that a builder makes with this seed."""
    return builder(name).build(problem, size, derive("build", seed, name))

"""Every way to make a transformer that knows a table of facts: theorems 3 and 4, beyond them, and training.

The rules that sizes follow from stand in docs/plan.md.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from facthold import construct, train
from facthold._util.keys import PRNGKeyArray
from facthold.construct.dimensions import gated_dimensions, separating_dimensions, smallest, tokens_per_head
from facthold.facts.problem import FactualRecall, seeded_recall
from facthold.facts.table import FactTable
from facthold.models.sizes import Shape
from facthold.recipes.base import BOTH, CONFIDENCE, CONVEX, MOST, FactRecipe, Made, Question, Sizes, Sizing
from facthold.train.protocols import Protocol, protocol

if TYPE_CHECKING:
    from facthold.models.transformer import Transformer
    from facthold.train.gated import Say

PER_HEAD = 4  # tokens that a head of the attention-only construction serves, where nothing else is said
ATTENTION = ("W_K", "W_Q", "W_V")  # they depend on the embeddings and on which facts are asked, not on the answers
ALL_BUT_V = (*ATTENTION, "W_O", "mlp.W")
SMALL = (
    (8, 8, 8), (8, 4, 4), (12, 12, 4), (16, 8, 2), (4, 16, 4), (24, 2, 8), (32, 4, 4), (16, 16, 8), (12, 6, 3),
    (20, 12, 5), (14, 14, 8), (28, 7, 7), (6, 10, 2), (18, 3, 3),
)  # fmt: skip
"""(S, R, D) of calibrations of the paper's constructions, which take a thousand times as many parameters."""
FEW = ((8, 8, 8), (16, 4, 16), (16, 16, 8), (64, 4, 2))  # for least squares: it fails at any size for some
TRAINED = (*FEW, (12, 12, 4), (32, 8, 8), (48, 5, 8), (24, 8, 4), (10, 20, 6), (36, 6, 12))
CONVEX_FEW = ((8, 8, 8), (16, 4, 16), (16, 16, 8), (32, 8, 32), (64, 4, 2), (96, 2, 8), (64, 16, 4))


def refuses_sums(table: FactTable) -> str | None:
    """Without an MLP the score of an answer is a part for s and a part for r: not every table is such a sum."""
    return _reason(construct.sums.check_sums, table)


def refuses_sets(table: FactTable) -> str | None:
    """Theorem 3: the answer is the only one that s and r share."""
    return refuses_sums(table) or _reason(construct.sums.check_intersections, table)


def doubts_sums(table: FactTable) -> str | None:
    """For a table with very many comparisons of answers it is not known whether it is such a sum."""
    if (why := construct.sums.doubt(table)) is None:
        return None
    return f"not known whether a part for s and a part for r can hold these facts at any size: {why}"


def _reason(check: Callable[[FactTable], None], table: FactTable) -> str | None:
    try:
        check(table)
    except ValueError as error:
        return str(error)
    return None


def _attention(problem: FactualRecall, sizes: Sizes, key: PRNGKeyArray) -> "Transformer":
    M = sizes.per_head or PER_HEAD
    H = len(construct.attention.partition(problem, M))
    return construct.attention.attention_only(problem, H, sizes.d_h, key=key, per_head=M)


def sums_disturb(q: Question) -> float:
    """h ln(h / errors), h^2 = R^2 + D^2, between the theorem's max(R, D) and the R + D unit vectors in the two sums: d
    at which the best of so many rivals, each of variance h / d, stays below the answer."""
    h = math.hypot(q.R, q.D)
    return h * math.log(h / q.errors)


def subjects_per_answer(q: Question) -> float:
    """C(a), the facts that an answer serves, seen from one of them: C(a) / m and C(a) / d are the noise in the proof of
    lemma 3."""
    return 1 + (q.S - 1) / q.D


ATTENTION_TIED, MLP_TIED = ("d_h", 1 / 4), ("m", 8.0)
WON = 1.0  # the margin of recipes whose scores grow with their weights

PAPER = (
    FactRecipe(
        name="attention", place="theorem 3", outline="heads add up the answers of s and of r", size="d_h",
        build=_attention, fixed=ATTENTION, refuses=refuses_sets, spec={"d_h_a_dimension": ATTENTION_TIED[1]},
        sizing=Sizing(
            size="d", x=lambda q: (sums_disturb(q),), law="h ln(h / e), h^2 = R^2 + D^2",
            guess=lambda q: 32.0 * max(q.R, q.D), least=lambda q: 3, per_head=1, tied=ATTENTION_TIED, goals=BOTH,
            tables=SMALL, shape=lambda q, d: Shape(d, q.S + q.R, max(1, round(d * ATTENTION_TIED[1])), 0),
        ),
    ),
    FactRecipe(
        name="attention-full", place="theorem 3", outline="the same, a head of full rank for each token", size="d",
        build=lambda problem, sizes, key: _attention(problem, Sizes(d_h=problem.d, per_head=1), key), fixed=ATTENTION,
        refuses=refuses_sets,
        sizing=Sizing(
            size="d", x=lambda q: (sums_disturb(q),), law="h ln(h / e), h^2 = R^2 + D^2",
            guess=lambda q: 26.0 * max(q.R, q.D), least=lambda q: 3, goals=BOTH, tables=SMALL,
            shape=lambda q, d: Shape(d, q.S + q.R, d, 0),
        ),
    ),
    FactRecipe(
        name="attention-mlp", place="theorem 4", outline="heads project s and r, Hermite tensors in the MLP", size="m",
        build=lambda problem, sizes, key: construct.attention_mlp.attention_and_mlp(
            problem, sizes.m, key=key, d_h=sizes.d_h or None, per_subset=sizes.per_head or None
        ),
        fixed=ALL_BUT_V, spec={"m_a_dimension": int(MLP_TIED[1])}, margin=WON,
        sizing=Sizing(
            size="d", x=lambda q: (subjects_per_answer(q), q.D, math.log(2 / q.errors)),
            law="C(a) = 1 + (S - 1) / D, D, ln(2 / e)",
            guess=lambda q: 6 * subjects_per_answer(q) * math.log(q.outputs / q.errors), least=lambda q: 3, per_head=1,
            tied=MLP_TIED, goals=BOTH, tables=SMALL,
            shape=lambda q, d: Shape(d, q.S + q.R, d, max(1, round(MLP_TIED[1] * d))),
        ),
    ),
)  # fmt: skip


def values_x(q: Question) -> tuple[float, ...]:
    """Keys that select one token, and S R facts of log2 D bits in S + R vectors."""
    return (separating_dimensions(q.tokens, 1) + q.facts * q.bits / (q.S + q.R),)


def _values(name: str, how: str, outline: str, start: float, goals: tuple[float, ...], tables: tuple) -> FactRecipe:
    sizing = Sizing(
        size="d", x=values_x, law="delta + S R log2(D) / (S + R)", guess=lambda q: start * values_x(q)[0],
        shape=lambda q, d: Shape(d, q.S + q.R, 1, 0), least=lambda q: 3, goals=goals, tables=tables,
    )  # fmt: skip
    return FactRecipe(
        name=name, place="beyond", outline=f"one token per dimension, {outline}", size="d",
        build=lambda problem, sizes, key: construct.selected.solved_values(problem, sizes.d_h or 1, how=how),
        fixed=ATTENTION, refuses=refuses_sums, in_part=True, doubts=doubts_sums,
        sizing=sizing, margin=WON if how == "convex" else 0.0,
    )  # fmt: skip


VALUES = (
    _values("values-ridge", "ridge", "values by least squares", 2.0, MOST, FEW),
    _values("values", "convex", "values of least cross entropy", 0.8, CONVEX, ()),
)


def selected_d(q: Question) -> int:
    """As many dimensions as heads that select need, and sqrt(S R) where that is more: attention and the MLP are then
    about as large."""

    def enough(d: int) -> bool:
        k = tokens_per_head(q.S, q.R, d)
        if k > 2:
            k = tokens_per_head(q.S, q.R, d // 2)
        return d >= separating_dimensions(q.tokens, k)

    least = max(4, math.isqrt(q.facts - 1) + 1)
    return least if enough(least) else smallest(lambda d: d >= least and enough(d), 8 * (q.S + q.R) + 64)


def selected_shape(q: Question, m: int) -> Shape:
    d = selected_d(q)
    d_h = 1 if tokens_per_head(q.S, q.R, d) <= 2 else 2
    return Shape(d, d // d_h, d_h, m)


def _selected(
    name: str, how: str, outline: str, start: float, fixed: tuple[str, ...], goals: tuple[float, ...], tables: tuple
) -> FactRecipe:
    sizing = Sizing(
        size="m", x=lambda q: (q.facts / selected_d(q), q.bits), law="S R / d, log2(D)",
        guess=lambda q: start * q.facts * q.bits / selected_d(q), shape=selected_shape, d=selected_d, goals=goals,
        tables=tables,
    )  # fmt: skip
    return FactRecipe(
        name=name, place="beyond", outline=f"codes for s and r, {outline}", size="m", fixed=fixed, sizing=sizing,
        build=lambda problem, sizes, key: construct.selected.selecting_attention(
            problem, sizes.m, key=key, d_h=sizes.d_h or None, how=how
        ),
        margin=0.0 if how == "ridge" else WON,
    )  # fmt: skip


SELECTED = (
    _selected("selected-ridge", "ridge", "MLP by least squares", 4.0, ALL_BUT_V, MOST, FEW),
    _selected("selected-convex", "convex", "convex readout of the MLP", 2.0, ALL_BUT_V, CONVEX, CONVEX_FEW),
    _selected("selected", "layerwise", "one convex solve per layer", 1.0, (*ATTENTION, "W_O"), CONVEX, ()),
)


def gated_shape(q: Question) -> tuple[int, int]:
    """d and the number of gates for a random table of these sizes."""
    few, many = sorted((q.S, q.R))
    answers = q.D * -math.expm1(q.S * math.log1p(-1 / q.D)) if q.D > 1 else 1.0
    K = construct.dimensions.weights_for(q.facts, answers)
    return gated_dimensions(few, many, K, q.noise or q.S + q.R)


def _gated_x(q: Question) -> tuple[float, ...]:
    return (q.facts / sum(gated_shape(q)), q.bits)


GATED = FactRecipe(
    name="gated", place="beyond", size="m", search=lambda table, **wish: train.gated.gated(table, **wish),
    at=lambda table, d, m, goal, seed, say, **settings: Made(
        *train.gated.gated_of_width(table, d, m, goal, seed, **settings)
    ),
    outline="heads as random gates, then the fewest neurons for each relation, trained one by one",
    sizing=Sizing(
        size="m", x=_gated_x, law="S R / (gates + d), log2(D)", guess=lambda q: _gated_x(q)[0],
        shape=lambda q, m: Shape(gated_shape(q)[0], gated_shape(q)[1] + min(q.S, q.R), 1, m),
        d=lambda q: gated_shape(q)[0], confidence=CONFIDENCE,
        work=lambda q, shape: float(q.facts) * shape.d,  # rivals are sampled: a fact costs as much among more
    ),
)  # fmt: skip

HEADS = 4
"""Of trained models at every size: with eight, heads of the smallest models have one dimension, and such models hold
half as much per parameter. d is a multiple of it, and H d_h = d."""
BETA = 4  # m = 4 d, as in most of figure 4


def train_shape(d: int) -> Shape:
    """H d_h = d and m = 4 d, d the next multiple of H."""
    d_h = -(-d // HEADS)
    return Shape(HEADS * d_h, HEADS, d_h, BETA * HEADS * d_h)


TRAINING = "transformer-short"


def trained(
    table: FactTable, d: int, training: Protocol, seed: int, say: "Say | None" = None, variant: str = "text",
    **settings: Any,
) -> Made:  # fmt: skip
    """The best run of a race over the protocol's learning rates, at the shape of this d."""
    if d < HEADS or d % HEADS:
        raise ValueError(f"d={d} must be a multiple of {HEADS}, the number of heads")

    def listener(member: int, steps: int, share: float, seen: object) -> None:
        assert say is not None
        say(f"training at d={d}: {steps / training.steps:.0%} of the steps, {share:.2%} right")

    problem = seeded_recall(table, d, seed, variant, **settings)
    best = train.race.train(problem, train_shape(d), training, seed, variant, listener=listener if say else None)
    return Made(best.model, problem, 0.0 if best.run.status == "diverged" else best.run.best)


TRAIN = FactRecipe(
    name="train", place="section 4.4", outline="all weights by gradients on prompts", size="d",
    at=lambda table, d, size, goal, seed, say, **settings: trained(
        table, d, replace(protocol(TRAINING), goal=goal), seed, say, **settings
    ),
    spec={"training": protocol(TRAINING).spec},
    sizing=Sizing(
        size="d", x=lambda q: (q.S, q.R), law="S, R", guess=lambda q: math.sqrt(q.facts),
        shape=lambda q, d: train_shape(d), least=lambda q: HEADS, goals=MOST, confidence=CONFIDENCE, tables=TRAINED,
    ),
)  # fmt: skip

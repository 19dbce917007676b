"""A recipe: all that is known of one way to make a memory or a transformer.

Modules of this package load neither JAX nor SciPy's statistics: `facthold list` and `facthold plan` read them within a
moment. `construct` and `train` load their modules when they are used.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from facthold._util.errors import check_positive
from facthold._util.keys import PRNGKeyArray, derive
from facthold.facts.problem import FactualRecall, seeded_recall
from facthold.facts.table import FactTable
from facthold.models.sizes import Shape
from facthold.train.protocols import Protocol

if TYPE_CHECKING:
    from facthold.memory.associations import Problem
    from facthold.models.memory import Memory
    from facthold.models.transformer import Transformer
    from facthold.train.gated import Say, Width

LINEAR, LOW_RANK, MLP, TRANSFORMER = "linear", "low-rank", "mlp", "transformer"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What every recipe says of itself."""

    name: str
    place: str  # where it stands in the paper, or that it goes beyond it
    outline: str  # what it does, in a line
    family: str  # 'linear' (no m), 'low-rank', 'mlp' (both with m rows) or 'transformer'
    fixed: tuple[str, ...] = ()  # weights that do not depend on what is stored, such as random features
    spec: Mapping[str, Any] = field(default_factory=dict)
    """What its results depend on beside its name and sizes: a change in it is another cell."""


@dataclass(frozen=True, kw_only=True)
class MemoryRecipe(Recipe):
    """A way to make an associative memory (section 3): constructed, or trained by a protocol."""

    build: "Callable[[Problem, int, PRNGKeyArray], Memory] | None" = None  # from a problem, m and a key; None: trained
    guess: Callable[[int, int], float]  # roughly how many associations it stores at (d, m): where a search starts
    protocol: Protocol | None = None
    solved: bool = False  # whether it solves a problem over all N x M scores: slower, and more memory
    in_ladder: bool = True  # whether its capacity is a rung of the ladder
    even: bool = False  # whether m must be even, as neurons come in pairs
    levels: int = 0  # its weights are on a grid of so many levels; 0: they are not
    signs_guess: Callable[[int], float] | None = None
    """As ``guess``, by d, where every sign of the output is read; None: it has no such targets."""
    loads: tuple[float, ...] = ()
    """Associations per parameter that it is given under a power law, where the load with the least loss counts."""
    weighted: "Callable[[Problem, list[np.ndarray], int, int, Protocol], list[Memory]] | None" = None
    """Memories made for sum_x p(x) loss(x), one for each p, from a problem, m, a seed and a protocol."""
    stream: Callable[[int, int, int], tuple[Any, ...]] | None = None
    """What its random key is derived from, by seed, d and m; None: from these and its name."""

    @property
    def holds_scores(self) -> bool:
        """Whether all N x M scores are in memory at once while the memory is made."""
        return self.solved or self.build is None

    def m(self, d: int, ratio: int) -> int:
        """The width or rank that figures give it at d: none, d / 2 for low rank, ``ratio`` d for an MLP."""
        return {LINEAR: 0, LOW_RANK: d // 2}.get(self.family, ratio * d)

    def check_stores(self) -> None:
        """Refuse a recipe that cannot store associations as they are."""
        if self.weighted is not None:
            raise ValueError(f"recipe={self.name!r} needs how often each association is asked; only figures say it")

    def n_params(self, d: int, m: int) -> int:
        """Parameters as the paper counts them."""
        if self.family == LINEAR:
            return d * d
        return 2 * m * d + (m if self.protocol and self.protocol.bias else 0)

    def check_width(self, m: int) -> None:
        """Refuse to go on without a width or rank, where there is one to choose."""
        if self.family != LINEAR and m < 1:
            raise ValueError(
                f"{self.name} has a {'rank' if self.family == LOW_RANK else 'width'} to choose: give m, at least 1"
                + (f", not {m}" if m else "")
            )

    def check(self, d: int, m: int) -> None:
        """Refuse sizes that this recipe cannot have."""
        check_positive(d=d)
        if self.family == LINEAR and m:
            raise ValueError(f"m={m}: {self.name} makes a d x d matrix and takes no m")
        self.check_width(m)
        if self.even and m % 2:
            raise ValueError(f"m={m} neurons do not come in pairs; take m={m + 1}")
        if self.family == LOW_RANK and m > d:
            raise ValueError(f"m={m} is above d={d}: a d x d matrix has rank at most d; take m <= {d}")


class Question(NamedTuple):
    """A table by its sizes, and the share of it that must be right."""

    S: int
    R: int
    D: int
    accuracy: float = 1.0
    known: int = 0  # facts, where they are not all of S x R
    noise: int = 0  # different noise tokens in prompts; 0: as many as subjects and relations

    @classmethod
    def of(cls, table: FactTable, accuracy: float = 1.0, noise: int = 0) -> "Question":
        """The sizes of a table. D is 2^(mean over the facts of log2 A_r), for A_r different answers of relation r: a
        random table with so many answers for each relation has as many bits."""
        counts = np.array([len(table.A_r(r)) for r in range(table.R)])
        D = 2 ** float(np.log2(counts[table.relations]).mean())
        S, R = len(np.unique(table.subjects)), len(np.unique(table.relations))
        return cls(S, R, max(1, math.ceil(D - 1e-9)), accuracy, len(table), noise)

    @property
    def facts(self) -> int:
        return self.known or self.S * self.R

    @property
    def errors(self) -> float:
        """The share of facts that may be wrong; for all right, that of a single fact."""
        return max(1 - self.accuracy, 1 / self.facts)

    @property
    def tokens(self) -> int:
        """Tokens that can stand in a prompt: subjects, relations, noise and EOS."""
        return self.S + self.R + (self.noise or self.S + self.R) + 1

    @property
    def outputs(self) -> int:
        return self.tokens + self.R * self.D

    @property
    def bits(self) -> float:
        """Of one fact; a little for D = 1, where there is nothing to know."""
        return math.log2(max(self.D, 2))


def pass_over_facts(question: Question, shape: Shape) -> float:
    """Multiplications of one pass over all facts, and of the keys with all tokens."""
    Hd_h = float(shape.H * shape.d_h)
    return shape.d * (Hd_h * question.tokens + float(question.facts) * (Hd_h + shape.m + question.outputs))


CONFIDENCE = 0.9
"""Share of new tables whose size, or seconds, lie within the interval of a law. Its upper end, which is recommended, is
enough for 19 of 20 of them."""
CAUTIOUS = 0.8
"""The same where a search was over three tables, each of which had to be held: the upper end is enough for 9 of 10 such
searches, and for more of single tables."""
CONVEX, BOTH, MOST = (1.0,), (0.99, 1.0), (0.99,)
"""Accuracies of calibrations. Where solves are convex, the size for 99% is that for all (docs/findings.md). 99% alone
is for least squares, which loses facts at any size, and for training, where a calibration takes a minute."""


@dataclass(frozen=True, kw_only=True)
class Sizing:
    """How large a model must be for a table: size = c x1^b1 x2^b2 ..., of the one size that decides.

    c and b are fitted (`plan.laws`); all other sizes follow from rules.
    """

    size: str  # the size that is fitted: d, d_h or m
    x: Callable[[Question], tuple[float, ...]]  # the quantities that theory says the size grows with
    law: str  # x in words
    guess: Callable[[Question], float]  # where a search starts. Not from x: another law needs no new calibrations.
    shape: Callable[[Question, int], Shape]  # the model of a size
    d: Callable[[Question], int] = lambda question: 0  # the rule for d; 0 where d is what is fitted
    least: Callable[[Question], int] = lambda question: 1  # the smallest size that its own rules allow
    per_head: int = 0  # tokens that a head serves; 0: left to the recipe
    tied: tuple[str, float] | None = None
    """A size that grows with d, and its multiple of d: at one d no such size is enough for some tables, and at a d that
    is large enough for all, small ones are enough for some."""
    goals: tuple[float, ...] = CONVEX  # the accuracies of its calibrations
    confidence: float = CAUTIOUS  # of the interval of its size
    tables: tuple[tuple[int, int, int], ...] = ()  # (S, R, D) of its calibrations; none: those that `plan` has for all
    work: Callable[[Question, Shape], float] = pass_over_facts  # what its seconds grow with

    def unit(self, question: Question) -> int:
        """Sizes are multiples of it: d of a trained model, of its heads."""
        return self.shape(question, 1).d if self.size == "d" else 1


class Sizes(NamedTuple):
    """The sizes that a recipe may be given beside d, which the problem has. 0: left to the recipe."""

    d_h: int = 0
    m: int = 0
    per_head: int = 0  # tokens that a head, or a group of heads, serves


class Made(NamedTuple):
    """A transformer with the problem that it was made for."""

    model: "Transformer"
    problem: FactualRecall
    accuracy: float | None = None  # the share of facts recalled where making it has measured that, as training does
    widths: "Sequence[Width]" = ()  # of its groups of neurons, where it has such


@dataclass(frozen=True, kw_only=True)
class FactRecipe(Recipe):
    """A way to make a transformer that knows a table of facts (section 4)."""

    family: str = TRANSFORMER
    size: str  # the size that decides how much it holds: 'd', 'd_h' or 'm'
    build: "Callable[[FactualRecall, Sizes, PRNGKeyArray], Transformer] | None" = None
    """From a problem, sizes and a key; None: see ``at``."""
    at: "Callable[..., Made] | None" = None
    """From a table, d, the deciding size, a goal, a seed, ``say`` (a function that is told of progress, or None) and
    the settings of `make`: for recipes that make their own problem, as those that train."""
    refuses: Callable[[FactTable], str | None] = lambda table: None  # why it holds a table at no size
    in_part: bool = False  # whether it makes a model of a table that it refuses, too, which holds a part of it
    doubts: Callable[[FactTable], str | None] = lambda table: None  # why it is not known whether it holds one at any
    search: "Callable[..., tuple[Transformer, FactualRecall, list[Width]]] | None" = None
    """Its own search for the smallest model, from a table, all that `knowledge.build` is asked for, and how many steps
    ``wider`` than the smallest it is to be."""
    sizing: Sizing | None = None  # how its size is planned; None: it is not
    margin: float = 0.0
    """By how much an answer must win when `build` chooses a size. Above 0 where scores grow with the weights, as with
    least cross entropy: noise, rounding and an edit elsewhere then cannot tip it."""

    @property
    def trained(self) -> bool:
        """Whether all of its weights are trained, on prompts full of noise."""
        return self.build is None and self.search is None

    @property
    def searched(self) -> str:
        """The size that a search for the smallest model changes: d, d_h or m."""
        return self.sizing.size if self.sizing is not None else self.size

    def make(
        self, table: FactTable, d: int, size: int, *, goal: float = 1.0, seed: int = 0, per_head: int = 0,
        say: "Say | None" = None, **settings: Any,
    ) -> Made:  # fmt: skip
        """The model of this size, with embeddings of this seed.

        ``settings``: n_noise, T, p and variant, as `facts.problem.seeded_recall` takes them.
        """
        if self.at is not None:
            return self.at(table, d, size, goal, seed, say, **settings)
        sizes = {"per_head": per_head}
        if self.searched != "d":
            sizes[self.searched] = size
        elif self.sizing is not None and self.sizing.tied is not None:
            name, multiple = self.sizing.tied
            sizes[name] = max(1, round(multiple * d))
        problem = seeded_recall(table, d, seed, **settings)
        return Made(self.construct(problem, Sizes(**sizes), seed), problem)

    def construct(self, problem: FactualRecall, sizes: Sizes, seed: int) -> "Transformer":
        """The transformer that a construction makes for a given problem."""
        if self.build is None:
            raise ValueError(
                f"recipe={self.name!r} makes its own embeddings and is no construction for a given problem"
            )
        return self.build(problem, sizes, derive("build", seed, self.name))

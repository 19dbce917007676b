"""Cells of trained transformers: how many facts one shape and size holds, and how much of one table a size learns."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import isfinite, isqrt, sqrt
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from facthold._util.errors import check_positive
from facthold._util.memory import Parts
from facthold._util.padding import geometric
from facthold.construct.dimensions import smallest
from facthold.facts.problem import MOST_LENGTH, SEQUENCE, VARIANTS, FactualRecall, seeded_recall, seeded_table, variant
from facthold.facts.table import TABLES, FactTable
from facthold.lab import Account, Cell, Result, TableCell, of_accuracy, of_goal
from facthold.lab.fields import Between, Count, Each, OneOf, Positive, Seeds, Share, Tolerance, Whole
from facthold.measure.capacity import FOUND, Probe, Search, find_capacity, spread, summary
from facthold.models.sizes import Shape
from facthold.studies.memories.capacity import searched
from facthold.theory.bounds import FACTS_A_PARAMETER
from facthold.theory.limits_facts import no_bound
from facthold.train.protocols import (
    AUTHORS,
    BATCH,
    PROTOCOLS,
    RULES,
    Protocol,
    protocol,
    step_seconds,
    training_memory,
)  # fmt: skip

if TYPE_CHECKING:
    from facthold.train.engine import Member
    from facthold.train.race import Best

GROWTH = {"S=R": lambda S: S, "S=R^2": isqrt}  # relations for S subjects: figures 4, 7, 8; figure 9


@dataclass(frozen=True, kw_only=True)
class TrainedCell(Cell):
    """A transformer of one size that is trained on tables of facts."""

    table: Annotated[str, OneOf(TABLES)] = "random"
    T: Annotated[int, Between(least=3, most=MOST_LENGTH)] = SEQUENCE
    variant: Annotated[str, OneOf(VARIANTS)] = "code"
    protocol: Annotated[str, OneOf(PROTOCOLS)] = "transformer-code"

    @property
    def training(self) -> Protocol:
        """The protocol, with what the cell changes in it."""
        raise NotImplementedError

    @property
    def sizes(self) -> Shape:
        """Of the transformer."""
        raise NotImplementedError

    @property
    def spec(self) -> dict[str, Any]:
        """The fields, and all that the protocol and the variant say: a change in them is another cell."""
        return super().spec | {"training": self.training.spec, "model": asdict(variant(self.variant)), "batch": BATCH}

    @property
    def n_weights(self) -> int:
        """Parameters, and the MLP's biases, which the paper does not count."""
        return self.sizes.n_params + (self.sizes.m if variant(self.variant).bias else 0)

    def seconds(self, S: int, R: int, D: int) -> float:
        """Of one run of full length on such a table, about."""
        return self.training.steps * step_seconds(self.sizes, S, R, D)

    def recall(self, table: FactTable, seed: int) -> FactualRecall:
        """The prompts and embeddings of this seed for a table."""
        return seeded_recall(table, self.sizes.d, seed, self.variant, T=self.T)


def in_words(name: str, lrs: tuple[float, ...] = ()) -> str:
    """A protocol in a few words: how long, and at which learning rates."""
    p = protocol(name)
    return f"{name}: {p.steps} steps, lr " + "/".join(f"{lr:g}" for lr in lrs or p.lrs or (p.lr,))


def shape(alpha: float, beta: float, H: int, d: int) -> Shape:
    """H d_h = alpha d and m = beta d, as the authors round them. With d_h below 1 there is no such model."""
    return Shape(d, H, int(alpha * d / H), int(beta * d))


@dataclass(frozen=True, kw_only=True)
class FactCapacity(TrainedCell):
    """The largest S for which a transformer of shape (alpha, beta, H) at dimension d learns its S R facts."""

    kind: ClassVar[str] = "fact-capacity"

    alpha: Positive  # H d_h = alpha d
    beta: Annotated[float, Between(least=0)]  # m = beta d
    d: Count
    H: Count = 8
    D: Count | None = 8  # answers of a relation; None: as many as subjects (figure 8)
    growth: Annotated[str, OneOf(GROWTH)] = "S=R"
    # 'best': 99% of all facts at any evaluation; 'final': at the end of training; 'authors': 99% of a sample at any.
    rule: Annotated[str, OneOf(RULES)] = "best"
    goal: Share = 0.99
    tolerance: Tolerance = 0.0  # of S, relative; 0: neighbouring integers
    seeds: Seeds = (0, 1, 2)
    start: Positive = 1.0  # where the search starts, as a multiple of the scaling guess

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(d_h=self.sizes.d_h)
        if self.table == "balanced" and self.D is not None:
            raise ValueError(
                f"table='balanced' has no table for each S at D={self.D}; take D=None (as many as subjects)"
            )

    @property
    def sizes(self) -> Shape:
        return shape(self.alpha, self.beta, self.H, self.d)

    @property
    def n_params(self) -> int:
        return self.sizes.n_params

    @property
    def training(self) -> Protocol:
        return replace(protocol(self.protocol), goal=self.goal, rule=self.rule)

    @property
    def shape(self) -> str:
        """Told apart by what figures 8 and 9 change too, where it is changed."""
        kind = f"alpha={self.alpha:g} beta={self.beta:g} H={self.H}"
        answers = "" if self.D == 8 else " D=S" if self.D is None else f" D={self.D}"
        return kind + answers + ("" if self.growth == "S=R" else f" {self.growth}")

    @property
    def needed(self) -> Parts:
        S = self.guess
        return training_memory(self.sizes, S, self.R(S), self.R(S) * (self.D or S), self.T)

    def R(self, S: int) -> int:
        return GROWTH[self.growth](S)

    @cached_property
    def guess(self) -> int:
        """S at a share of the guide line: a probe is cheap below the capacity, and slow at it."""
        facts = self.start * FACTS_A_PARAMETER * self.n_params
        return smallest(lambda S: S >= 2 and (S + 1) * self.R(S + 1) > facts, 2 + int(facts))

    @property
    def cost(self) -> float:
        """Seconds on one lane: about 4 probes per seed, each as long as 1.5 full-length runs; or 3 of one, where a wide
        bracket is enough."""
        S = self.guess
        return len(self.seeds) * (3 if self.tolerance >= 0.1 else 6) * self.seconds(S, self.R(S), self.D or S)

    def run(self) -> Result:
        capacities = find_capacity(self._ask, self.seeds, self.guess, Search(2, 8 * self.guess, self.tolerance))
        facts = spread("facts", [c.N and c.N * self.R(c.N) for c in capacities])
        return summary(capacities) | facts | {"n_params": self.n_params, "d_h": self.sizes.d_h, "m": self.sizes.m}

    def problem(self, S: int, seed: int) -> FactualRecall:
        """The S R(S) facts of this seed, with their embeddings."""
        return self.recall(seeded_table(self.table, S, self.R(S), self.D, seed), seed)

    def members(self, S: int, seed: int) -> "list[Member]":
        """The race of one probe. Tables of a range of S are padded to one size, and share a compiled loop."""
        from facthold.train.race import racing
        from facthold.train.tasks import RecallFacts

        widest, R = geometric(S), self.R(geometric(S))
        tokens, answers = 2 * (widest + R) + 1, R * (self.D or widest)  # tokens that can stand in a prompt
        n_outputs = answers + (tokens if variant(self.variant).outputs == "vocabulary" else 0)
        problem, sampled = self.problem(S, seed), self.rule == AUTHORS
        task = RecallFacts.of(problem, columns=tokens, n_outputs=n_outputs, sampled=sampled)
        return racing(task, self.sizes, seed, variant(self.variant), self.training, (S, seed))

    def _ask(self, questions: Sequence[tuple[int, int]]) -> list[Probe]:
        """One round of probes, all trained side by side. A table is stored if one of the learning rates stores it."""
        from facthold.train.engine import fit
        from facthold.train.race import best_of, reached

        races = [self.members(S, seed) for S, seed in questions]
        runs = iter(fit([member for race in races for member in race], self.training))
        probes = []
        for (S, seed), race in zip(questions, races, strict=True):
            best = best_of(race, [next(runs) for _ in race], self.rule)
            run = best.run
            detail = run.status if run.status == "diverged" else f"{run.status}, lr {best.lr:g}"
            probes.append(Probe(S, seed, reached(run, self.rule), run.succeeded, detail, best.steps))
        return probes

    def accounts(self, result: Mapping[str, Any]) -> list[Account] | str:
        (stored, tried), weights = searched(result), self.n_weights
        if self.rule == AUTHORS:
            return "no bound: judged on a sample of prompts, the share of all facts is not known"
        return no_bound(self.table) or [of_goal(S * self.R(S), self.D or S, self.goal, weights, tried) for S in stored]


def brackets(r: Mapping[str, Any]) -> list[tuple[float, float] | None]:
    """The fewest and the most facts that may be the capacity of each search of a row: None where it has not two sides.

    A search ends with a table that was learnt and a larger one that was not; the largest that would be learnt is the
    first, or one between.
    """
    relations = GROWTH[r["growth"]]
    ends = [(seed["stored"], seed["refused"] - 1) if seed["status"] == FOUND else None for seed in r["per_seed"]]
    return [pair and (pair[0] * relations(pair[0]), pair[1] * relations(pair[1])) for pair in ends]


def facts_by_seed(r: Mapping[str, Any]) -> list[float | None]:
    """The middle of each bracket: that it is wide costs precision and brings no bias."""
    return [pair and sqrt(pair[0] * pair[1]) for pair in brackets(r)]


def in_the_middle(r: Mapping[str, Any]) -> dict[str, Any]:
    """The row with the facts of its searches in the middle of their brackets."""
    return {**r, **spread("facts", facts_by_seed(r))}


@dataclass(frozen=True, kw_only=True)
class OneTable(TrainedCell, TableCell):
    """Transformers with these heads that are trained on one table: what the heat map and its border share."""

    d: Count
    H: Count
    d_h: Count
    seed: int = 0

    @property
    def needed(self) -> Parts:
        return training_memory(self.sizes, self.S, self.R, self.R * self.D, self.T)

    @property
    def attention_params(self) -> int:
        return 4 * self.H * self.d * self.d_h

    def mlp_params(self, m: int) -> int:
        return 2 * m * self.d

    def best(self, m: int) -> "Best":
        """The race of this width, on the table and the prompts of the seed."""
        from facthold.train.race import train

        problem = self.recall(self.facts(self.seed, self.table), self.seed)
        return train(problem, self.sizes._replace(m=m), self.training, self.seed, self.variant)


@dataclass(frozen=True, kw_only=True)
class FactAccuracy(OneTable):
    """The accuracy on S R facts of a transformer (d, H, d_h, m), trained to its full length or to 100%."""

    kind: ClassVar[str] = "fact-accuracy"

    m: Whole
    lrs: Annotated[tuple[float, ...], Each(Positive)] = (1e-2,)  # the authors take one learning rate for this figure

    @property
    def training(self) -> Protocol:
        """No run is given up here: the accuracy of a run that fails is the result."""
        return replace(protocol(self.protocol), goal=1.0, futility=None, lrs=self.lrs)

    @property
    def sizes(self) -> Shape:
        return Shape(self.d, self.H, self.d_h, self.m)

    @property
    def cost(self) -> float:
        return len(self.lrs) * self.seconds(self.S, self.R, self.D)

    def run(self) -> Result:
        from facthold.train.race import reached

        best = self.best(self.m)
        return {
            "status": best.run.status, "accuracy": reached(best.run), "final": reached(best.run, "final"),
            "steps": best.steps, "attention_params": self.attention_params, "mlp_params": self.mlp_params(self.m),
            "n_params": self.sizes.n_params,
        }  # fmt: skip

    def accounts(self, result: Mapping[str, Any]) -> list[Account] | str:
        accuracy = result["accuracy"]
        counts = accuracy is not None and isfinite(accuracy)
        found = [of_accuracy(self.n_facts, self.D, accuracy, self.n_weights, len(self.lrs))] if counts else []
        return no_bound(self.table) or found

"""What the cells and figures of this study share: tables that are random or real, models that are trained or built."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from facthold._util.errors import check_positive
from facthold._util.keys import derive
from facthold.facts.problem import seeded_recall, variant
from facthold.facts.real import find_source, sample_subjects
from facthold.facts.table import FactTable
from facthold.lab import Account, TableCell, of_accuracy
from facthold.lab.fields import Count, ProtocolName, Repeats, Whole
from facthold.models.sizes import Shape, shape_of
from facthold.recipes.base import Made
from facthold.theory.limits_facts import no_bound
from facthold.train.protocols import BATCH, LEARNING, MARGIN, Protocol, protocol, step_seconds

RANDOM = "random"
TRAINED, GATED = "trained", "gated"
VARIANT = "code"  # of trained models
GATED_SPEC: dict[str, Any] = {"training": LEARNING.spec, "margin": MARGIN, "gates": "4 + ln(S) / 2"}  # of `gated`


def recalled(made: Made, seed: int) -> np.ndarray:
    """Whether each fact of the table is right, in a prompt of its own. In NumPy: asking once is not worth compiling."""
    from facthold.models.judge import judge_table

    return judge_table(made.model, made.problem, seed=seed).recalled


class OneModelCell(TableCell):
    """A cell with one model of a table."""

    def accounts(self, result: Mapping[str, Any]) -> list[Account] | str:
        """Of the weights, and a bias for each neuron."""
        if not result.get("accuracy"):
            return []
        weights = result["n_params"] + (result.get("m") or getattr(self, "m", 0))
        return [of_accuracy(self.n_facts, self.D, result["accuracy"], weights)]

    @property
    def cost(self) -> float:
        """Of the recipe `gated`: some tries for each relation, which take longer the more facts and answers it has."""
        return 1 + 0.012 * self.n_facts


@dataclass(frozen=True, kw_only=True)
class SourceCell(OneModelCell):
    """A random table of S x R facts, or the facts of S subjects of a real source."""

    source: str = RANDOM  # 'random', or the name of real facts
    S: Whole = 0  # subjects; 0: all that a real source has
    R: Whole = 0
    D: Whole = 0  # relations, and answers of each, of a random table; 0 for real facts
    seed: int = 0  # of the table (for real facts: of the sample) and of the model

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.source == RANDOM:
            check_positive(S=self.S, R=self.R, D=self.D)
            return
        find_source(self.source)
        if self.R or self.D:
            raise ValueError(f"R={self.R} and D={self.D} are sizes of random tables; leave them 0 for {self.source}")

    @property
    def spec(self) -> dict[str, Any]:
        """The fields, and the versions of the packages that real facts are read from."""
        if self.source == RANDOM:
            return super().spec
        find_source(self.source).check_installed()
        return super().spec | {"versions": find_source(self.source).versions}

    @property
    def n_facts(self) -> int:
        """For real facts about so many, for costs alone: 7 of each of 250 subjects."""
        return self.S * self.R or 7 * (self.S or 250)

    def table(self) -> FactTable:
        """The facts. Of a real source, those in relations with one answer."""
        if self.source == RANDOM:
            return self.facts(self.seed)
        return FactTable.from_rows(sample_subjects(find_source(self.source).facts(), self.S or None, self.seed))

    def accounts(self, result: Mapping[str, Any]) -> list[Account] | str:
        return no_bound(self.source) or super().accounts(result)


@dataclass(frozen=True, kw_only=True)
class ModelCell(OneModelCell):
    """A model of one table."""

    model: str  # 'trained', 'gated', or the name of a construction
    d: Whole = 0
    H: Whole = 0
    d_h: Whole = 0
    m: Whole = 0  # sizes: all of them for 'trained', none for 'gated'
    protocol: ProtocolName = "transformer-short"  # for 'trained'
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model == TRAINED:
            check_positive(d=self.d, H=self.H, d_h=self.d_h)
            _ = self.training  # refuses an unknown name

    @property
    def sizes(self) -> Shape:
        return Shape(self.d, self.H, self.d_h, self.m)

    @property
    def training(self) -> Protocol:
        """The protocol, until every fact is recalled: the model is wanted, and no run is given up."""
        return replace(protocol(self.protocol), goal=1.0, futility=None)

    @property
    def spec(self) -> dict[str, Any]:
        how = GATED_SPEC if self.model == GATED else {}
        if self.model == TRAINED:
            how = {"training": self.training.spec, "variant": asdict(variant(VARIANT)), "batch": BATCH}
        return super().spec | how

    @property
    def cost(self) -> float:
        """Of making the model once. Training takes about half its steps at each learning rate."""
        if self.model != TRAINED:
            return super().cost
        step = step_seconds(self.sizes, self.S, self.R, self.D)
        return 1 + len(self.training.lrs or (0,)) * self.training.steps / 4 * step

    def trained(self, table: FactTable) -> Made | None:
        """The best model of a race over the protocol's learning rates; None where all of them diverged."""
        from facthold.train.race import train

        problem = seeded_recall(table, self.d, self.seed, VARIANT)
        best = train(problem, self.sizes, self.training, self.seed, VARIANT, rule="final")
        return None if best.run.status == "diverged" else Made(best.model, problem)

    def gated(self, table: FactTable, width: float = 1.0) -> Made:
        """The model of the recipe `gated`, each group of neurons ``width`` times as wide as the smallest found."""
        from facthold.train.gated import gated, prepared

        model, problem, widths = gated(table, seed=self.seed)
        if width > 1:
            wider = [math.ceil(width * found.m) for found in widths]
            keys = [derive("wider", self.seed, i, width) for i in range(len(wider))]
            model = prepared(table, seed=self.seed).of_widths(wider, 1.0, keys)
        return Made(model, problem)


@dataclass(frozen=True, kw_only=True)
class ModelGrid:
    """A random table, and the shapes that are trained on it."""

    S: Count
    R: Count
    D: Count
    shapes: tuple[tuple[float, float], ...] = ()  # (alpha, beta): H d_h = alpha d and m = beta d, up to rounding
    n_params: Whole = 0  # parameters of each trained model, about
    H: Count = 8
    protocol: ProtocolName = "transformer-short"
    n_seeds: Repeats = 1

    @property
    def table(self) -> dict[str, Any]:
        return {"S": self.S, "R": self.R, "D": self.D}

    @property
    def trained(self) -> list[dict[str, Any]]:
        """The fields of each trained model."""
        shapes = [shape_of(alpha, beta, self.n_params, self.H)._asdict() for alpha, beta in self.shapes]
        return [{"model": TRAINED, "protocol": self.protocol} | shape for shape in shapes]

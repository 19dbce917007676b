"""The storage cell: how much of each fact's margin attention holds, and how much the MLP, in one model."""

from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float

from facthold._util.errors import check_positive, unknown
from facthold.facts.problem import FactualRecall
from facthold.facts.prompts import SEQUENCE
from facthold.facts.table import FactTable
from facthold.knowledge.build import build
from facthold.knowledge.groups import LEARNING, MARGIN
from facthold.knowledge.locate import DIRECT, MLP, Located, locate_all
from facthold.lab.cells import Cell, Result
from facthold.models.transformer import Transformer
from facthold.recipes.builders import BUILDERS, Knobs, build_facts, builder
from facthold.studies.constructions.built_size import text_problem
from facthold.studies.transformers.fact_capacity import (
    best_run,
    make_problem,
    nested_table,
    racing_members,
    step_seconds,
)
from facthold.studies.transformers.variants import variant
from facthold.train import BATCH, Protocol, RecallFacts, fit, protocol

TRAINED, READOUT = "trained", "readout"
MODELS = (TRAINED, READOUT, *BUILDERS)
VARIANT = "code"
"""Of trained models."""
LOW, HIGH = 0.1, 0.9
"""Quantiles over facts that are given beside a mean."""


def to_the_end(name: str) -> Protocol:
    """The protocol, until every fact is recalled: the model is wanted, and none is given up."""
    return replace(protocol(name), goal=1.0, futility=None)


def train_model(
    table: FactTable, *, d: int, H: int, d_h: int, m: int, training: Protocol, seed: int
) -> tuple[Transformer, FactualRecall] | None:
    """The best model of a race over the protocol's learning rates; None where all of them diverged."""
    way = variant(VARIANT)
    problem = make_problem(table, d, seed, way, SEQUENCE)
    race = racing_members(RecallFacts.of(problem), H, d_h, m, seed, way, training, "one")
    best = best_run(race, fit(race, training), rule="final")
    return None if best is None else (best[0].model, problem)


@dataclass(frozen=True, kw_only=True)
class Storage(Cell):
    """Where one model of a random table holds its facts: margins taken apart, and each path left out in turn."""

    kind: ClassVar[str] = "storage"

    model: str
    """'trained', 'readout', or the name of a construction."""
    S: int = 16
    R: int = 16
    D: int = 8
    d: int = 0
    H: int = 0
    d_h: int = 0
    m: int = 0
    per_head: int = 0
    """Sizes: all but the last for 'trained', those that `builders.Knobs` has for a construction, none for 'readout'."""
    protocol: str = "transformer-short"
    """For 'trained'."""
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive(S=self.S, R=self.R, D=self.D)
        if self.model not in MODELS:
            raise unknown("model", self.model, MODELS)
        for name in ("d", "H", "d_h", "m", "per_head"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}={getattr(self, name)} must not be negative")
        if self.model == TRAINED:
            check_positive(d=self.d, H=self.H, d_h=self.d_h)
            to_the_end(self.protocol)  # refuses an unknown name
        elif self.model != READOUT:
            knob = builder(self.model).knob
            check_positive(**{"d": self.d, knob: getattr(self, knob)})

    @property
    def spec(self) -> dict[str, Any]:
        """The fields, and by what the weights are found, where they are trained."""
        found = super().spec
        if self.model == TRAINED:
            training = to_the_end(self.protocol).spec
            return found | {"training": training, "variant": asdict(variant(VARIANT)), "batch": BATCH}
        return found | ({"training": LEARNING.spec, "margin": MARGIN} if self.model == READOUT else {})

    @property
    def label(self) -> str:
        sizes = " ".join(f"{name}={getattr(self, name)}" for name in ("d", "H", "d_h", "m") if getattr(self, name))
        return f"where {self.model} {sizes} holds S={self.S} R={self.R} D={self.D}"

    @property
    def cost(self) -> float:
        """Seconds: about half the steps at each learning rate, or a build."""
        if self.model != TRAINED:
            return 4 + self.S * self.R / 50
        training = to_the_end(self.protocol)
        size = {"d": self.d, "Hd_h": self.H * self.d_h, "m": self.m, "S": self.S, "R": self.R, "A": self.R * self.D}
        return 4 + len(training.lrs or (training.lr,)) * training.steps / 2 * step_seconds(**size)

    def make(self) -> tuple[Transformer, FactualRecall] | None:
        """The model and its problem; None where training diverged."""
        table = nested_table("random", self.S, self.R, self.D, self.seed)
        if self.model == TRAINED:
            size = {"d": self.d, "H": self.H, "d_h": self.d_h, "m": self.m}
            return train_model(table, **size, training=to_the_end(self.protocol), seed=self.seed)
        if self.model == READOUT:
            built = build(table, method=READOUT, seed=self.seed)
            return built.model, built.problem
        problem = text_problem(table, self.d, self.seed)
        knobs = Knobs(d_h=self.d_h, m=self.m, per_head=self.per_head)
        return build_facts(self.model, problem, knobs, self.seed), problem

    def run(self) -> Result:
        made = self.make()
        if made is None:
            return {"status": "diverged", "accuracy": None}
        model, problem = made
        mlp = 2 * model.m * model.d
        sizes = {"n_params": model.n_params, "mlp_params": mlp, "attention_params": model.n_params - mlp}
        return {"status": "found", **sizes, **shares(locate_all(model, problem))}


def shares(located: Located) -> Result:
    """What the direct path and the MLP hold of the facts that are recalled.

    A share is the path's mean part of the margin over the mean margin: facts with a margin near zero, whose own shares
    mean little, count little. It may be above 1, where the other path works against the answer. ``without`` is the
    share of these facts whose answer changes when the path is left out.
    """
    known = located.margin > 0
    direct, whole = located.direct.sum(axis=1)[known], located.margin[known]
    result: Result = {"accuracy": float(known.mean())}
    for name, part in (("direct", direct), ("mlp", located.mlp[known])):
        each = part / whole
        quantiles = np.quantile(each, [LOW, HIGH]).tolist() if len(each) else [None, None]
        result[name] = {
            "share": float(part.sum() / whole.sum()) if len(each) else None, "low": quantiles[0], "high": quantiles[1],
            "without": _share(_changed(located, DIRECT if name == "direct" else MLP)[known]),
        }  # fmt: skip
    return result


def _changed(located: Located, path: str) -> Bool[np.ndarray, " n"]:
    """Whether the answer changes without a path. Attention alone is its direct path: without it nothing is said."""
    if path in located.components:
        return located.changed[:, located.components.index(path)]
    return np.full(len(located.margin), path == DIRECT)


def _share(changed: Bool[np.ndarray, " n"] | Float[np.ndarray, " n"]) -> float | None:
    return float(changed.mean()) if len(changed) else None

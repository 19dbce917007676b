"""The table-size cell: how large a transformer the method `readout` needs for one table, random or real."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from facthold._util.errors import FactholdError, check_positive
from facthold.facts.real import find_source, sample_subjects
from facthold.facts.table import FactTable
from facthold.knowledge.build import NOISE, build
from facthold.knowledge.groups import LEARNING, MARGIN
from facthold.lab.cells import Cell, Result
from facthold.measure.bits import table_bits
from facthold.measure.capacity import FOUND
from facthold.studies.transformers.fact_capacity import nested_table

RANDOM = "random"


def check_source(source: str, S: int, R: int, D: int) -> None:
    """Refuse sizes that this source of facts does not have."""
    if source == RANDOM:
        check_positive(S=S, R=R, D=D)
        return
    find_source(source)
    if S < 0:
        raise ValueError(f"S={S} must not be negative; 0 takes all subjects of {source}")
    if R or D:
        raise ValueError(f"R={R} and D={D} are sizes of random tables; leave them 0 for {source}")


def source_table(source: str, S: int, R: int, D: int, seed: int) -> FactTable:
    """A random table, or the facts of S subjects of a real source (0: of all) in its relations with one answer."""
    if source == RANDOM:
        return nested_table(RANDOM, S, R, D, seed)
    rows = find_source(source).facts()
    return FactTable.from_rows(sample_subjects(rows, S, seed) if S else rows)


def source_spec(source: str) -> dict[str, Any]:
    """What the facts of a source depend on beside its name: the packages that are installed."""
    if source == RANDOM:
        return {}
    find_source(source).check_installed()
    return {"versions": find_source(source).versions}


def answer_nats(table: FactTable) -> float:
    """sum_r N_r ln A_r: figure 1's N ln N for each relation, with its own number of answers."""
    return sum(float((table.relations == r).sum()) * math.log(len(table.A_r(r))) for r in range(table.R))


@dataclass(frozen=True, kw_only=True)
class TableSize(Cell):
    """The parameters of the smallest transformer that was found to recall all facts of a table."""

    kind: ClassVar[str] = "table-size"

    source: str = RANDOM
    """'random', or the name of real facts."""
    S: int = 0
    """Subjects; 0: all that a real source has."""
    R: int = 0
    D: int = 0
    """Relations and answers of each, of a random table."""
    n_noise: int = NOISE
    seed: int = 0
    """Of the table (for real facts: of the sample), the embeddings and the neurons."""

    def __post_init__(self) -> None:
        check_source(self.source, self.S, self.R, self.D)
        check_positive(n_noise=self.n_noise)

    @property
    def spec(self) -> dict[str, Any]:
        """The fields, the versions of the packages with the facts, and by what neurons are found."""
        return super().spec | source_spec(self.source) | {"training": LEARNING.spec, "margin": MARGIN}

    @property
    def label(self) -> str:
        if self.source == RANDOM:
            return f"smallest model of a random table S={self.S} R={self.R} D={self.D}"
        return f"smallest model of {self.source}, " + (f"{self.S} subjects" if self.S else "all of them")

    @property
    def cost(self) -> float:
        """Seconds: some tries for each relation, each as long as its facts and answers are many."""
        facts = self.S * self.R or 7 * (self.S or 250)
        return 4 + 0.015 * facts

    def table(self) -> FactTable:
        return source_table(self.source, self.S, self.R, self.D, self.seed)

    def run(self) -> Result:
        table = self.table()
        about = {
            "facts": len(table), "subjects": len(np.unique(table.subjects)), "relations": table.R,
            "answers": table.A, "assumption_1": table.assumption_1, "bits": table_bits(table),
            "nats": answer_nats(table),
        }  # fmt: skip
        try:
            built = build(table, method="readout", accuracy=1.0, n_noise=self.n_noise, seed=self.seed)
        except FactholdError as error:  # no width was enough: no size, and not a missing package
            return about | dict.fromkeys(FOUND_FIELDS) | {"status": str(error)}
        model = built.model
        mlp = 2 * model.m * model.d
        return about | {
            "status": FOUND, "accuracy": built.recall, "smallest_margin": built.smallest_margin,
            "n_params": built.n_params, "mlp_params": mlp, "attention_params": built.n_params - mlp,
            "d": model.d, "H": model.H, "m": model.m,
            "seconds": built.seconds,  # of the machine that it ran on, with what else ran there
        }  # fmt: skip


FOUND_FIELDS = (
    "accuracy", "smallest_margin", "n_params", "mlp_params", "attention_params", "d", "H", "m", "seconds",
)  # fmt: skip
"""What there is of a model alone, and not where none was found."""

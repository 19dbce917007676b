"""The table-size cell: how large a transformer of the recipe `gated` must be for one table, random or real."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from facthold._util.errors import FactholdError
from facthold.construct.dimensions import NOISE
from facthold.lab.cells import Result
from facthold.lab.fields import Count
from facthold.measure.capacity import FOUND
from facthold.studies.real_facts.base import GATED, SourceCell, gated_seconds, gated_spec

if TYPE_CHECKING:
    from facthold.facts.table import FactTable

OF_A_MODEL = (
    "accuracy", "smallest_margin", "n_params", "mlp_params", "attention_params", "d", "H", "m", "seconds",
)  # fmt: skip
"""Values of the result that are None where no model was found."""


def answer_nats(table: "FactTable") -> float:
    """sum_r N_r ln A_r: figure 1's N ln N for each relation, with its own number of answers."""
    return sum(float((table.relations == r).sum()) * math.log(len(table.A_r(r))) for r in range(table.R))


@dataclass(frozen=True, kw_only=True)
class TableSize(SourceCell):
    """The parameters of the smallest transformer that was found to recall all facts of a table."""

    kind: ClassVar[str] = "table-size"

    n_noise: Count = NOISE

    @property
    def spec(self) -> dict[str, Any]:
        return super().spec | gated_spec()

    @property
    def cost(self) -> float:
        return gated_seconds(self.n_facts)

    def run(self) -> Result:
        from facthold.knowledge.build import build
        from facthold.measure.bits import table_bits

        table = self.table()
        about = {
            "facts": len(table), "subjects": len(np.unique(table.subjects)), "relations": table.R,
            "answers": table.A, "assumption_1": table.assumption_1, "bits": table_bits(table),
            "nats": answer_nats(table),
        }  # fmt: skip
        try:
            built = build(table, recipe=GATED, accuracy=1.0, n_noise=self.n_noise, seed=self.seed)
        except FactholdError as error:  # no width was enough: no size, and not a missing package
            return about | dict.fromkeys(OF_A_MODEL) | {"status": str(error)}
        model = built.model
        mlp = 2 * model.m * model.d
        return about | {
            "status": FOUND, "accuracy": built.recall, "smallest_margin": built.smallest_margin,
            "n_params": built.n_params, "mlp_params": mlp, "attention_params": built.n_params - mlp,
            "d": model.d, "H": model.H, "m": model.m,
            "seconds": built.seconds,  # of the machine that it ran on, with what else ran there
        }  # fmt: skip

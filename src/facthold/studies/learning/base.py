"""What cells and claims on learning share: a table, prompts with noise, the curves that are kept, and how flows that
failed are judged."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from facthold._util.keys import derive
from facthold.dynamics import STARTS
from facthold.dynamics.stages import Levels, find_stages
from facthold.facts.table import TABLES
from facthold.lab.cells import Result, TableCell
from facthold.lab.claim import Judgement
from facthold.lab.fields import Between, Count, OneOf
from facthold.lab.figure import Values

if TYPE_CHECKING:
    from facthold.facts.table import FactTable

Rows = Sequence[Values]
LogAlpha = Annotated[float, Between(least=-1e12, most=100)]
"""The logarithm of the scale at which training starts: alpha itself may be too small for a float."""
ALPHA = math.log(1e-5)  # that of figure 5
Start = Annotated[str, OneOf(STARTS)]
MOST = 400  # points of the curves that are kept
CURVES = ("loss", "relation_loss", "subject_loss", "accuracy", "from_relation", "from_fact")


@dataclass(frozen=True, kw_only=True)
class LearningCell(TableCell):
    """A table that is learnt from prompts of length T with ``n_noise`` noise tokens."""

    counts_no_facts: ClassVar[str] = "losses are counted, not facts"

    T: Annotated[int, Between(least=3)]
    n_noise: Count
    table: Annotated[str, OneOf(TABLES)] = "balanced"
    seed: int = 0

    @property
    def learnt(self) -> "FactTable":
        """The table of this seed."""
        from facthold.facts.table import make_table

        return make_table(self.table, self.S, self.R, self.D, key=derive("flow", self.seed))


def staged(times: np.ndarray, seen: Mapping[str, Any], table: "FactTable") -> Result:
    """The levels at which a loss may rest, the stages of the curve that was seen, and what figures draw of it."""
    levels, loss = Levels.of(table), seen["loss"]
    kept = np.unique(np.linspace(0, len(times) - 1, MOST).astype(int))
    curves = {name: seen[name] for name in seen if name in CURVES or name.startswith("log_W_KQ")}
    return {
        "levels": vars(levels),
        "stages": find_stages(times, loss, levels, relation_loss=seen["relation_loss"]).values,
        "first_loss": float(loss[0]), "last_loss": float(loss[-1]),
        "curves": {name: np.asarray(values, float)[kept].tolist() for name, values in ({"t": times} | curves).items()},
    }  # fmt: skip


def failed(rows: Rows) -> str | None:
    """Why the first flow that failed did so; None: none failed."""
    return next((r["failure"] for r in rows if r["failure"]), None)


def judging(
    predicted: str, problem: Callable[[Rows], str | None] = failed
) -> Callable[[Callable[[Rows, str], Judgement]], Callable[[Rows], Judgement]]:
    """A judge of rows, given what is predicted. Where there is a ``problem`` with the rows, it is the judgement."""

    def decorate(judge: Callable[[Rows, str], Judgement]) -> Callable[[Rows], Judgement]:
        @wraps(judge)
        def judged(rows: Rows) -> Judgement:
            words = problem(rows)
            return Judgement(predicted, words, "none", False) if words else judge(rows, predicted)

        return judged

    return decorate

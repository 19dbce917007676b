"""The stages of a loss curve, found from the curve: the start, a rest at the loss of a partial guess, convergence.

A curve *rests* at a level when it stays within `BAND` of it at least as long as the drop into it took. The levels that
it might rest at come from the table alone: the entropy of a, of a given r (hallucination by relation), of a given s.
What was not reached is None, and a table whose levels lie too near each other to be told apart is said to be one.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Real

from facthold.facts.table import FactTable

BAND = 0.02  # how far from a level, as a share of it, a curve may lie and still rest there
CONVERGED = 0.01  # the loss at which a model has learnt its facts
UNSTABLE = 0.25  # a loss that rises by this share of its first value above its lowest so far: the steps are too long


@dataclass(frozen=True)
class Levels:
    """Losses in nats that a curve may rest at."""

    start: float  # ln |A|: every answer alike
    marginal: float  # the entropy of p*(a): what is known before subject and relation are
    relation: float  # the mean entropy of p*(a | r), ln D for a balanced table: hallucination
    subject: float  # the mean entropy of p*(a | s): an answer of the subject, whatever was asked

    @classmethod
    def of(cls, table: FactTable, p: np.ndarray | None = None) -> "Levels":
        return cls(math.log(table.A), *(table.entropy_given(kind, p) for kind in ("nothing", "relation", "subject")))


@dataclass(frozen=True)
class Rest:
    """A stretch of the curve near one level."""

    level: float
    begins: float | None
    ends: float | None  # where it leaves the band; None: it does not, in the time that was seen
    stayed: float | None  # how long it was within the band, as far as was seen
    drop: float | None  # how long the fall into it took, from where the loss left its start

    @property
    def lasts(self) -> float | None:
        return None if self.begins is None or self.ends is None else self.ends - self.begins

    @property
    def seen(self) -> bool:
        """Whether the curve rests here, rather than passes."""
        return self.stayed is not None and self.drop is not None and self.stayed >= self.drop and self.stayed > 0


@dataclass(frozen=True)
class Stages:
    """What a loss curve shows. Times are in the unit of the curve; None: not reached."""

    left: float | None  # when the loss left its start: fell below it by more than the band
    relation: Rest
    subject: Rest
    converged: float | None
    resting: str | None  # 'relation' or 'subject': the level at which the curve rests the longest. None: at neither.
    problem: str | None  # why stages cannot be read from this curve, in words; None: they can

    @property
    def hallucination(self) -> float | None:
        """How long the model answered by the relation alone."""
        return self.relation.lasts if self.problem is None and self.relation.seen else None

    @property
    def values(self) -> dict[str, Any]:
        return asdict(self) | {"hallucination": self.hallucination}


def find_stages(
    times: Sequence[float] | Real[np.ndarray, " times"], loss: Sequence[float] | Float[np.ndarray, " times"],
    levels: Levels, *, relation_loss: Sequence[float] | Float[np.ndarray, " times"] | None = None,
) -> Stages:  # fmt: skip
    """The stages of the curve ``loss``, seen at ``times``.

    Where the levels of the relation and of the subject are the same, as for D = R, the loss alone does not say which of
    them a rest is at; ``relation_loss`` does.
    """
    t, y = np.asarray(times, float), np.asarray(loss, float)
    if t.shape != y.shape or t.ndim != 1 or len(t) < 2:
        raise ValueError(f"a curve needs two or more times and as many losses, not {t.shape} and {y.shape}")
    if not (np.diff(t) > 0).all():
        raise ValueError("times must increase; sort the looks by them")
    known = None if relation_loss is None else np.asarray(relation_loss, float)
    if known is not None and known.shape != t.shape:
        raise ValueError(f"relation_loss must have one number for each of {len(t)} times, not the shape {known.shape}")
    left = crossing(t, y, levels.start * (1 - BAND))
    rests = {}
    for name in ("relation", "subject"):
        level = getattr(levels, name)
        begins, ends = crossing(t, y, level * (1 + BAND)), crossing(t, y, level * (1 - BAND))
        drop = None if begins is None or left is None else max(begins - left, 0.0)
        last = float(t[-1]) if ends is None and y[-1] <= level * (1 + BAND) else ends
        stayed = None if begins is None or last is None else last - begins
        rests[name] = Rest(level, begins, ends, stayed, drop)
    problem = _problem(t, y, levels)
    if abs(levels.relation - levels.subject) <= BAND * (levels.relation + levels.subject) and rests["relation"].seen:
        if known is None or not np.isfinite(known).all():
            problem = problem or (
                "the stages cannot be told apart: knowing the relation and knowing the subject leave the same loss of "
                f"{levels.relation:.3g}, and the relation-only loss is not there to tell"
            )
        else:
            other = "subject" if _known(rests["relation"], t, known) else "relation"
            rests[other] = Rest(getattr(levels, other), None, None, None, None)
    seen = [name for name, rest in rests.items() if rest.seen]
    resting = max(seen, key=lambda name: rests[name].stayed or 0.0, default=None)
    return Stages(left, rests["relation"], rests["subject"], crossing(t, y, CONVERGED), resting, problem)


def _known(rest: Rest, t: np.ndarray, relation_loss: np.ndarray) -> bool:
    """Whether the relation is known during this rest: the relation-only loss is below half of its first value."""
    assert rest.begins is not None  # it was seen
    assert rest.stayed is not None
    return bool(np.interp(rest.begins + rest.stayed / 2, t, relation_loss) < relation_loss[0] / 2)


def crossing(times: Float[np.ndarray, " times"], loss: Float[np.ndarray, " times"], level: float) -> float | None:
    """When the curve first falls below the level, between two looks by a straight line; None: never."""
    below = np.flatnonzero(loss < level)
    if not len(below):
        return None
    i = below[0]
    if i == 0 or not np.isfinite(loss[i - 1]):
        return float(times[i])
    share = (loss[i - 1] - level) / (loss[i - 1] - loss[i])
    return float(times[i - 1] + share * (times[i] - times[i - 1]))


def _problem(t: np.ndarray, loss: np.ndarray, levels: Levels) -> str | None:
    """Why no stage can be read: a run that broke, or levels that cannot be told apart."""
    bad = np.flatnonzero(~np.isfinite(loss))
    if len(bad):
        return f"training diverged: the loss is not finite from t = {t[bad[0]]:.4g} on; take a smaller learning rate"
    lowest = np.minimum.accumulate(loss)
    i = int((loss - lowest).argmax())
    if loss[i] - lowest[i] > UNSTABLE * max(loss[0], levels.start):
        return (
            f"training is unstable: the loss rose from {lowest[i]:.3g} to {loss[i]:.3g} by t = {t[i]:.4g}; "
            "take a smaller learning rate"
        )
    if levels.relation * (1 + BAND) >= levels.start * (1 - BAND):
        return (
            f"the stages cannot be told apart: knowing the relation leaves a loss of {levels.relation:.3g}, and "
            f"knowing nothing {levels.start:.3g}; this table has one relation, or its relations share their answers"
        )
    if levels.relation * (1 - BAND) <= CONVERGED:
        return (
            "the stages cannot be told apart: in this table the relation alone gives the answer, "
            "so that nothing is left to hallucinate"
        )
    return None

"""Which run of a race counts."""

import math

import numpy as np
import pytest

from facthold.train.engine import Member, Run
from facthold.train.race import best_of


def run(status: str, best: float, final: float, steps: int = 100) -> Run:
    return Run(f"{status} {best}", status, steps, best, final, np.array([best, final]))


REACHED, SLOW = run("reached", 0.99, 0.99, 200), run("reached", 0.99, 0.99, 300)
HIGH, LATE = run("exhausted", 0.9, 0.5), run("exhausted", 0.8, 0.8)
OUTRUN, DIVERGED = run("outrun", 0.95, 0.95), run("diverged", 0.97, math.nan)


@pytest.mark.parametrize(
    ("runs", "rule", "counts"),
    [
        ([LATE, HIGH], "best", HIGH),
        ([LATE, HIGH], "final", LATE),
        ([OUTRUN, SLOW, REACHED], "best", REACHED),  # success before a higher accuracy, then fewer steps
        ([DIVERGED, LATE], "best", LATE),
        ([DIVERGED], "best", DIVERGED),
    ],
)
def test_the_best_run_counts_and_one_that_diverged_only_alone(runs: list[Run], rule: str, counts: Run) -> None:
    race = [Member(None, None, None, lr) for lr in (1e-3, 1e-2, 1e-1)[: len(runs)]]  # type: ignore[arg-type]
    best = best_of(race, runs, rule)
    assert best.run is counts
    assert best.lr == race[runs.index(counts)].lr

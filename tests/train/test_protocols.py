"""The rule that gives runs up, on stored runs of full length."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from facthold.train.protocols import protocol

CURVES = Path(__file__).parents[2] / "benchmarks" / "data" / "fact_curves.npz"


def verdicts(name: str, seeds: set[str]) -> dict[str, tuple[bool, bool]]:
    """Of each cell of full-length runs: whether one of the protocol's learning rates reaches the goal, and whether by
    the rule."""
    rule, goal = protocol(name).futility, 0.99 - 1e-6
    looks = protocol(name).steps // protocol(name).check_every
    assert rule is not None
    found: dict[str, tuple[bool, bool]] = {}
    for run, curve in np.load(CURVES).items():
        cell = run.split(":")[0]
        if cell.split("seed=")[1] not in seeds or float(run.split("lr=")[1]) not in protocol(name).lrs:
            continue
        curve = np.concatenate([curve, np.full(max(looks - len(curve), 0), curve[-1])])[:looks]
        reached = bool((np.nan_to_num(curve) >= goal).any())
        by_rule = reached and rule.given_up(curve, looks, goal) is None
        before = found.get(cell, (False, False))
        found[cell] = (before[0] or reached, before[1] or by_rule)
    return found


@pytest.mark.parametrize("name", ["transformer-code", "transformer-short"])
def test_the_futility_rule_gives_the_verdict_of_full_length_training(name: str) -> None:
    """On stored runs of full length, near the capacity: on those it was chosen on, and on others."""
    chosen_on, tried_on = verdicts(name, {"0"}), verdicts(name, {"1", "2"})
    assert len(tried_on) >= 30
    assert len(chosen_on | tried_on) >= 50
    both = list((chosen_on | tried_on).values())
    assert 5 < sum(full for full, _ in both) < len(both) - 5  # some are learnt, some are not
    assert [cell for cell, (full, rule) in (chosen_on | tried_on).items() if full != rule] == []


def test_a_rule_that_gives_up_too_soon_is_seen() -> None:
    """The stored runs can tell a bad rule from a good one."""
    rule = dataclasses.replace(protocol("transformer-code").futility, optimism=0.3, after=1 / 32)
    goal = 0.99 - 1e-6
    reach = [curve for curve in np.load(CURVES).values() if (curve >= goal).any()]
    assert any(rule.given_up(curve, 128, goal) is not None for curve in reach)

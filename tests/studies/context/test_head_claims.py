"""The judges of the claims on induction heads, on made-up rows: those that are as stated hold, no fault does."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from facthold.lab.claim import Judgement
from facthold.lab.registry import claim
from facthold.studies.context.base import MEMORIES, BuiltHead
from facthold.studies.context.heads import InductionHead, StagedHead

Row = dict[str, Any]
Rows = list[Row]
Bend = Callable[[Row], None]
SEEDS = (100, 101, 102)
RULES = {"mode": 0.54, "counts": 0.75, "bigram": 0.012}


def judge(id: str, rows: Rows) -> Judgement:
    return claim(id).judge(rows)


def bent(rows: Rows, bend: Bend, which: Callable[[Row], bool] = lambda r: True) -> Rows:
    broken = copy.deepcopy(rows)
    for row in filter(which, broken):
        bend(row)
    return broken


def trained(accuracy: float, *, layers: int = 2, relu: bool = False, steps: int = 2400, staged: bool = False) -> Rows:
    curves = {"steps": [40, 80, 120, 160], "accuracy": [0.3, 0.5, 0.9, accuracy]}
    curves |= {"W_OV^2": [0.8, 1.0, 1.0, 1.0], "W_KQ^2": [0.2, 0.8, 1.0, 1.0], "W_KQ^1": [0.01, 0.05, 0.3, 0.4]}
    kind = (StagedHead if staged else InductionHead).kind
    return [
        {"kind": kind, "layers": layers, "feed_forward": "relu" if relu else "none", "seed": seed, "steps": steps,
         "status": "exhausted", "check_every": 40, "accuracy": accuracy + 0.001 * (seed - 101), "baselines": RULES,
         "curves": copy.deepcopy(curves)}
        for seed in SEEDS
    ]  # fmt: skip


@pytest.mark.parametrize("accuracy", [0.48, 0.61])
def test_one_layer_that_does_better_or_worse_than_the_rule_is_seen(accuracy: float) -> None:
    assert judge("one-layer", trained(0.55, layers=1) + trained(0.7, layers=1, relu=True)).holds
    assert judge("one-layer", trained(accuracy, layers=1)).verdict == "fails"


def test_one_layer_is_held_against_the_rule_on_its_own_sequences() -> None:
    other = bent(trained(0.55, layers=1), lambda r: r.update(baselines=RULES | {"mode": 0.62}))
    assert judge("one-layer", other).verdict == "fails"


def test_a_relu_layer_is_reported_and_not_judged() -> None:
    rows = trained(0.55, layers=1)
    assert judge("one-layer", rows + trained(0.2, layers=1, relu=True)).holds
    assert "20.0%" in judge("one-layer", rows + trained(0.2, layers=1, relu=True)).measured


def test_what_rules_without_induction_have_stands_beside_every_accuracy() -> None:
    staged = bent(trained(0.8), lambda r: r.update(kind=StagedHead.kind, steps=2400))
    joint = bent(trained(0.995), lambda r: r.update(steps=2400))
    for id, rows in (("two-layers", trained(0.995)), ("built-head", built()), ("joint-training", [*joint, *staged])):
        assert "without induction: most frequent output so far 5" in judge(id, rows).measured, id


def test_two_layers_below_the_goal_fail_and_near_it_nothing_is_decided() -> None:
    assert judge("two-layers", trained(0.995)).holds
    assert judge("two-layers", trained(0.98)).verdict == "fails"
    assert judge("two-layers", trained(0.991)).verdict == "not decided"
    assert judge("two-layers", bent(trained(0.995), lambda r: r.update(status="diverged"))).verdict == "fails"


def built() -> Rows:
    def row(d: int, silent: bool, seed: int, accuracy: float, wrong: int, from_start: int) -> Row:
        return {
            "kind": BuiltHead.kind, "d": d, "silent_first": silent, "seed": seed, "accuracy": accuracy,
            "judged": 38000, "wrong": wrong, "wrong_from_start": from_start, "from_start": 6000,
            "probes": dict.fromkeys(MEMORIES, 1.0), "baselines": RULES,
        }  # fmt: skip

    rows = []
    for i, seed in enumerate(SEEDS):
        rows.append(row(256, True, seed, 1.0 - 1e-4 * i, 4 * i, 0))
        rows.append(row(256, False, seed, 0.98 - 1e-3 * i, 760 + 4 * i, 755))
        rows.append(row(128, True, seed, 0.86 + 0.01 * i, 5000, 700))
    return rows


def silent(r: Row) -> bool:
    return r["d"] == 256 and r["silent_first"]


def loud(r: Row) -> bool:
    return not r["silent_first"]


def narrow(r: Row) -> bool:
    return r["d"] == 128


@pytest.mark.parametrize(
    ("bend", "which"),
    [
        (lambda r: r.update(accuracy=0.97), silent),
        (lambda r: r["probes"].update({"W_KQ^1": 0.996}), silent),
        (lambda r: r["probes"].update({"W_OV^2": 0.9}), silent),
        (lambda r: r.update(accuracy=0.999), narrow),
        (lambda r: r.update(wrong_from_start=r["wrong"] // 2), loud),
        (lambda r: r.update(wrong_from_start=0, wrong=0), loud),  # nothing missed: nothing said of why
        (lambda r: r.update(accuracy=1.0), loud),  # silence gains nothing
    ],
)
def test_a_built_head_that_is_not_as_described_is_seen(bend: Bend, which: Callable[[Row], bool]) -> None:
    assert judge("built-head", built()).holds
    assert not judge("built-head", bent(built(), bend, which)).holds


def test_a_matrix_that_is_learnt_after_the_last_is_seen() -> None:
    assert judge("learning-order", trained(0.99)).holds
    early = bent(trained(0.99), lambda r: r["curves"].update({"W_KQ^1": [0.3, 0.4, 0.4, 0.4]}))
    late = bent(trained(0.99), lambda r: r["curves"].update({"W_KQ^2": [0.0, 0.0, 0.1, 1.0]}))
    at_once = bent(trained(0.99), lambda r: r["curves"].update({"W_KQ^1": [0.0, 0.4, 0.4, 0.4]}))
    for rows in (early, late, at_once):
        assert judge("learning-order", rows).verdict == "fails"


def test_half_is_of_what_a_probe_ends_with() -> None:
    """Not half of all associations: W_KQ^1 may end far below that."""
    low = bent(trained(0.99), lambda r: r["curves"].update({"W_KQ^1": [0.001, 0.002, 0.01, 0.02]}))
    assert judge("learning-order", low).holds


def side_by_side(joint: float = 0.99, staged: float = 0.6, short_joint: float = 0.9, short_staged: float = 0.5) -> Rows:
    return [
        *trained(short_joint, steps=600), *trained(short_staged, steps=600, staged=True),
        *trained(joint), *trained(staged, staged=True),
    ]  # fmt: skip


def test_one_after_another_that_is_as_good_or_better_is_seen() -> None:
    assert judge("joint-training", side_by_side()).holds
    assert judge("joint-training", side_by_side(staged=0.995)).verdict == "fails"
    assert judge("joint-training", side_by_side(short_staged=0.95)).verdict == "fails"
    assert judge("joint-training", side_by_side(joint=0.5)).verdict == "fails"


def test_seeds_are_compared_with_themselves() -> None:
    """What seeds share does not widen the interval of the difference."""
    rows = side_by_side()
    for row in rows:
        row["accuracy"] += 0.05 * (row["seed"] - 101)
    assert judge("joint-training", rows).holds

"""The judges of the claims on learning, on made-up rows: those that are as theory says hold, no fault does."""

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from facthold.lab.claim import Judgement
from facthold.lab.registry import claim
from facthold.studies.learning.base import LossCurve, PredictedStages, by_steps
from facthold.studies.learning.flows import DELTAS, LEFT, FirstRates, Flow, SlowWeights
from facthold.theory.reduced import Reduced, log_cosh

Row = dict[str, Any]
Rows = list[Row]
Bend = Callable[[Row], None]
SIZE = {"S": 16, "R": 4, "D": 8}
A = 32
LR = 0.1


def judge(id: str, rows: Rows) -> Judgement:
    return claim(id).judge(rows)


def bent(rows: Rows, bend: Bend, which: slice = slice(None)) -> Rows:
    broken = copy.deepcopy(rows)
    for row in broken[which]:
        bend(row)
    return broken


def conserving() -> Rows:
    first = {"balanced": (1.0, math.sqrt(A + 1)), "equal": (1.0 - A, 1.0), "random": (-30.0, -5.0)}
    return [
        SIZE | {"start": start, "table": "random", "drift": 1e-10, "sum_drift": 1e-13, "grown": 1e5,
                "invariant": [invariant, invariant], "least_ratio": least}
        for start, (invariant, least) in first.items()
    ]  # fmt: skip


@pytest.mark.parametrize(
    "bend",
    [
        lambda r: r.update(drift=2e-6),
        lambda r: r.update(sum_drift=2e-6),
        lambda r: r.update(grown=6.0),  # nothing moved: what stands still conserves everything
        lambda r: r.update(invariant=[2 * x for x in r["invariant"]]),  # another start
        lambda r: r.update(failure="the solver stopped"),
    ],
)
def test_what_is_not_conserved_is_seen(bend: Bend) -> None:
    assert judge("flow-conserves", conserving()).holds
    assert not judge("flow-conserves", bent(conserving(), bend)).holds


@pytest.mark.parametrize(
    ("which", "least"), [(0, 1.0), (0, 5.7), (1, 0.999), (1, 1.01), (2, 1.0)], ids=lambda value: f"{value}"
)
def test_attention_that_does_not_stay_is_seen(which: int, least: float) -> None:
    """Also a W_KQ that falls below where it began and stays above alpha; and random starts that seem to keep it."""
    assert judge("attention-stays", conserving()).holds
    broken = bent(conserving(), lambda r: r.update(least_ratio=least), slice(which, which + 1))
    assert not judge("attention-stays", broken).holds


def growing() -> Rows:
    allowed, until = {"subject": 2 / 64, "noise": 2 * 32 / 4}, 50.0
    rates = {"subject": 0.011, "noise": 4.97, "relation": 0.685, "EOS": 0.685}
    used = {kind: log_cosh(rates[kind] * until) / until / rate for kind, rate in allowed.items()}
    none = {"subject": 0.0, "noise": 0.0}
    odd = {"kind": SlowWeights.kind, "S": 64, "R": 1, "D": 2, "T": 32, "n_noise": 4, "rates": rates, "until": until}
    return [
        {"kind": Flow.kind, "excess": none},
        odd | {"used": used, "late": (1 - 1 / 64) / math.sqrt(2), "excess": none},
    ]


@pytest.mark.parametrize(
    "bend",
    [
        lambda r: r["excess"].update(noise=1e-3),
        lambda r: r["used"].update(subject=r["used"]["subject"] / 10),  # a bound ten times as large
        lambda r: r["used"].update(noise=r["used"]["noise"] / 10),
        lambda r: r["used"].update(noise=0.0),  # no noise tokens
        lambda r: r["used"].update(noise=r["used"]["noise"] * 32),  # T dropped from the bound
        lambda r: r["used"].update(noise=r["used"]["noise"] * 32 / 29),  # T for T - 3 in the flow
        lambda r: r.update(late=0.5),
        lambda r: r.update(late=r["late"] / 10),
    ],
)
def test_bounds_that_are_off_by_a_factor_are_seen(bend: Bend) -> None:
    assert judge("weights-grow-slowly", growing()).holds
    assert not judge("weights-grow-slowly", bent(growing(), bend, slice(1, 2))).holds


def falling() -> Rows:
    flow = Reduced(16, 4, 8, "balanced", -11.5)
    even = SIZE | {"table": "balanced", "start": "balanced", "log_alpha": -11.5, "rise": -1e-9}
    even["fell"] = {f"{delta:g}": flow.time_of(delta) for delta in DELTAS}
    return [even, copy.deepcopy(even) | {"table": "random"}]


@pytest.mark.parametrize(
    "bend",
    [
        lambda r: r["fell"].update({"0.001": None}),
        lambda r: r["fell"].update({"0.001": 1.01 * r["fell"]["0.001"]}),
        lambda r: r["fell"].update({k: t / 2 for k, t in r["fell"].items()}),
        lambda r: r.update(rise=0.01),
    ],
)
def test_a_loss_that_stays_or_rises_or_falls_at_another_time_is_seen(bend: Bend) -> None:
    assert judge("loss-vanishes", falling()).holds
    assert not judge("loss-vanishes", bent(falling(), bend)).holds


def staged_growth(table: str = "random") -> Row:
    """A row of theorem 6 as its rates say: two starts, 1e-30 and a far smaller one."""
    row: Row = {
        "S": 32,
        "R": 2,
        "D": 2,
        "T": 4,
        "n_noise": 128,
        "table": table,
        "epsilon": 0.1,
        "own": [],
        "proof": None,
    }
    row |= {"subjects_wanted": 32.0, "noise_wanted": 128.0, "slowest_relation": 0.25}
    row["rates"] = {"subject": 0.0156, "noise": 0.0 if table == "balanced" else 8.6e-4, "relation": 0.26, "EOS": 0.11}
    for log_alpha in (math.log(1e-30), -1e4):
        reduced = Reduced(32, 2, 2, "balanced", log_alpha)
        time = reduced.time_near(0.1) if table == "balanced" else -0.5 * reduced.log_invariant / 0.25
        grown = {kind: log_cosh(rate * time) for kind, rate in row["rates"].items()}
        row["own"].append({"log_alpha": log_alpha, "time": time, "above": log_alpha / 2.2, "grown": grown})
    return row


@pytest.mark.parametrize("table", ["balanced", "random"])
@pytest.mark.parametrize(
    "bend",
    [
        lambda r: r["own"][-1].update(above=0.1),
        lambda r: r["own"][0].update(above=0.1),
        lambda r: r["own"][-1].update(time=None),
        lambda r: r["own"][-1].update(time=1.02 * r["own"][-1]["time"]),
        lambda r: r["own"][-1]["grown"].update(subject=0.9 * r["own"][-1]["grown"]["subject"]),
        lambda r: r["own"][-1]["grown"].update(noise=r["own"][-1]["grown"]["noise"] * 2 + 1),
        lambda r: r.update(n_noise=127),
        lambda r: r.update(S=30),
    ],
)
def test_theorem_6_depends_on_all_that_it_speaks_of(table: str, bend: Bend) -> None:
    assert judge("sequential-learning", [staged_growth(table)]).holds
    assert not judge("sequential-learning", bent([staged_growth(table)], bend)).holds


def test_theorem_6_without_noise_tokens_fails() -> None:
    """Where answers are not equally frequent noise grows: a flow in which it stands still has none."""
    broken = bent([staged_growth()], lambda r: [own["grown"].update(noise=0.0) for own in r["own"]])
    assert "noise 0, -100.0% off" in judge("sequential-learning", broken).measured
    assert not judge("sequential-learning", broken).holds


def learning_relations() -> Rows:
    log_alpha, eps_min = -(2.0**27), 0.05
    time = Reduced(32, 2, 2, "balanced", log_alpha).time_near(math.sqrt(2) * eps_min)
    proof = {"log_alpha": log_alpha, "eps_min": eps_min, "lemma_time": time, "escape": time, "T_star": 1.5 * time,
             "above": -1e7, "EOS_above": -1e7, "failure": None}  # fmt: skip
    return [{"S": 32, "R": 2, "D": 2, "proof": proof}]


@pytest.mark.parametrize(
    "bend",
    [
        lambda r: r["proof"].update(lemma_time=None),
        lambda r: r["proof"].update(lemma_time=1.01 * r["proof"]["lemma_time"]),
        lambda r: r["proof"].update(escape=10 * r["proof"]["escape"], T_star=10 * r["proof"]["T_star"]),
        lambda r: r["proof"].update(T_star=0.9 * r["proof"]["lemma_time"]),
        lambda r: r["proof"].update(EOS_above=0.1),
        lambda r: r["proof"].update(above=0.1),
        lambda r: r["proof"].update(failure="the solver stopped"),
    ],
)
def test_lemma_6_is_judged_with_the_constant_of_its_first_term(bend: Bend) -> None:
    assert judge("relations-learnt", learning_relations()).holds
    assert not judge("relations-learnt", bent(learning_relations(), bend)).holds


@pytest.mark.parametrize("broken", [{"upper": 1e-3}, {"lower": 1e-3}, {"tight": 1e-3}, {"slack": 0.0}])
def test_lemma_7_needs_slack_and_equality_without_it(broken: Row) -> None:
    row = {"draws": 200, "upper": 1e-15, "lower": 1e-15, "tight": 1e-8, "slack": 4.0}
    assert judge("comparison", [row]).holds
    assert not judge("comparison", [row | broken]).holds


def predicted_row(log_alpha: float = -11.5) -> Row:
    return {
        "kind": PredictedStages.kind,
        **SIZE,
        "log_alpha": log_alpha,
        **PredictedStages(**SIZE, log_alpha=log_alpha).run(),
    }


def curve(predicted: Row, model: str = "linear", seed: int = 0, late: float = 1.0, T: int = 32) -> Row:
    """A trained curve that is as predicted, its times ``late`` times as long."""
    relation, subject = (predicted[f"{kind}_rate"] for kind in ("relation", "subject"))
    theirs = predicted["stages"]
    left = by_steps(theirs["left"], relation, LR)
    begins = late * (left + theirs["relation"]["begins"] - theirs["left"])
    left, ends = late * left, late * by_steps(theirs["relation"]["ends"], subject, LR)
    length = late * theirs["hallucination"]
    t = [0.0, begins, (begins + ends) / 2, ends, 2 * ends]
    return {
        "kind": LossCurve.kind, "model": model, "seed": seed, "lr": LR, "steps": 8192, "table": "balanced", "T": T,
        **SIZE, "log_alpha": predicted["log_alpha"], "optimiser": "sgd", "loss_error": 1e-9,
        "levels": {"start": math.log(32), "marginal": math.log(32), "relation": math.log(8), "subject": math.log(4)},
        "first_loss": math.log(32), "last_loss": 0.005,
        "stages": {"left": left, "hallucination": length, "problem": None, "resting": "relation",
                   "relation": {"begins": begins, "ends": ends, "drop": length / 3}},
        "curves": {"t": t, "relation_loss": [math.log(4), 0.02, 0.01, 0.01, 0.0],
                   "subject_loss": [math.log(8), 2.079, 2.079, 2.07, 0.0]},
    }  # fmt: skip


def figure_5(model: str = "linear", n: int = 3) -> Rows:
    predicted = predicted_row()
    return [*(curve(predicted, model, seed, 1 + 1e-4 * seed) for seed in range(n)), predicted]


def of_curves(change: Bend) -> Bend:
    return lambda r: change(r) if r["kind"] == LossCurve.kind else None


@pytest.mark.parametrize(
    ("bend", "linear_only"),
    [
        (lambda r: r["stages"].update(hallucination=None), False),
        (lambda r: r["stages"].update(problem="training diverged", hallucination=None), False),
        (lambda r: r.update(last_loss=0.1), False),
        (lambda r: r["curves"].update(relation_loss=[1.4] * 5), False),
        (lambda r: r["curves"].update(subject_loss=[1.9] * 5), False),
        (lambda r: r["stages"]["relation"].update(drop=1.2 * r["stages"]["hallucination"]), False),
        (lambda r: r.update(last_loss=0.02), True),
        (lambda r: r.update(first_loss=3.4), True),
        (lambda r: r["stages"].update(left=1.01 * r["stages"]["left"]), True),
        (lambda r: r["stages"].update(left=10 * r["stages"]["left"]), True),
        (lambda r: r["stages"]["relation"].update(begins=0.99 * r["stages"]["relation"]["begins"]), True),
        (lambda r: r["stages"]["relation"].update(ends=1.01 * r["stages"]["relation"]["ends"]), True),
    ],
)
def test_figure_5_needs_its_stages_and_its_times(bend: Bend, linear_only: bool) -> None:
    for id, model in (("hallucination", "linear"), ("hallucination-softmax", "softmax")):
        assert judge(id, figure_5(model)).holds, judge(id, figure_5(model))
        if model == "linear" or not linear_only:
            assert not judge(id, bent(figure_5(model), of_curves(bend))).holds


@pytest.mark.parametrize(("id", "model"), [("hallucination", "linear"), ("hallucination-softmax", "softmax")])
def test_seeds_that_differ_too_much_or_are_too_few_decide_nothing(id: str, model: str) -> None:
    assert judge(id, figure_5(model, n=1)).verdict == "not decided"
    noisy = figure_5(model)
    for row, loss in zip(noisy, (0.0, 0.001, 0.045), strict=False):
        row["curves"]["relation_loss"] = [1.4, loss, loss, loss, 0.0]
    assert judge(id, noisy).verdict == "not decided"


def plateaus(late: float = 1.0, spread: float = 1e-4) -> Rows:
    rows: Rows = []
    for log_alpha in (-9.2, -11.5, -16.1):
        predicted = predicted_row(log_alpha)
        rows += [predicted, curve(predicted, late=late)]
        rows += [curve(predicted, seed=seed, late=late + seed * spread) for seed in (1, 2)] if log_alpha == -9.2 else []
    return rows


def test_the_length_of_the_plateau_is_judged_with_its_constant() -> None:
    assert judge("plateau-length", plateaus()).holds, judge("plateau-length", plateaus())
    assert judge("plateau-length", plateaus(late=1.01)).verdict == "fails"
    assert judge("plateau-length", plateaus(late=0.9)).verdict == "fails"
    assert judge("plateau-length", plateaus(spread=0.02)).verdict == "not decided"
    longer = bent(
        plateaus(), lambda r: r["stages"].update(hallucination=1.02 * r["stages"]["hallucination"]), slice(5, 6)
    )
    assert judge("plateau-length", longer).verdict == "fails"
    without = bent(plateaus(), lambda r: r["stages"].update(hallucination=None, problem="it diverged"))
    assert "it diverged" in judge("plateau-length", without).measured
    assert judge("plateau-length", without).verdict == "fails"


def ordered() -> Rows:
    rows = []
    for S, R, rests in ((16, 4, "relation"), (8, 32, "subject")):
        reduced = Reduced(S, R, 8, "equal", -27.6)
        left = {kind: getattr(reduced, kind).time_of_weight(math.exp(LEFT)) for kind in ("subject", "relation")}
        rows.append(
            {"S": S, "R": R, "D": 8, "start": "equal", "log_alpha": -27.6, "left": left, "stages": {"resting": rests}}
        )
    return rows


@pytest.mark.parametrize(
    "bend",
    [
        lambda r: r["left"].update(subject=r["left"]["relation"], relation=r["left"]["subject"]),
        lambda r: r["left"].update(subject=1.01 * r["left"]["subject"]),
        lambda r: r["left"].update(relation=2 * r["left"]["relation"], subject=2 * r["left"]["subject"]),
        lambda r: r["left"].update(relation=None),
        lambda r: r["stages"].update(resting="subject"),
        lambda r: r["stages"].update(resting=None),
    ],
)
def test_what_comes_first_is_judged_by_order_and_by_times(bend: Bend) -> None:
    assert judge("what-comes-first", ordered()).holds
    assert not judge("what-comes-first", bent(ordered(), bend)).holds


def marginal() -> Rows:
    R, D, rows = 4, 8, []
    for S in (8, 128):
        squares = {"EOS": (1 - 1 / D) / (S * R), "relation": ((1 - 1 / R) / D + (1 - 1 / D) / S) / R**2}
        rates = {kind: math.sqrt(square) for kind, square in squares.items()}
        left = {kind: math.acosh(math.exp(LEFT + 9.2)) / rate for kind, rate in rates.items()}
        at = {"S": S, "R": R, "D": D}
        rows.append({"kind": Flow.kind, **at, "log_alpha": -9.2, "left": left, "rates": rates})
        drawn = {kind: [square, 0.01 * square] for kind, square in squares.items()}
        rows.append({"kind": FirstRates.kind, **at, "tables": 1000, **drawn})
    return rows


@pytest.mark.parametrize(
    ("kind", "bend", "verdict"),
    [
        (Flow.kind, lambda r: r["left"].update(EOS=r["left"]["relation"], relation=r["left"]["EOS"]), "fails"),
        (
            Flow.kind,
            lambda r: r["left"].update(EOS=1.1 * r["left"]["EOS"], relation=1.1 * r["left"]["relation"]),
            "fails",
        ),
        (Flow.kind, lambda r: r["left"].update(EOS=None), "fails"),
        (FirstRates.kind, lambda r: r.update(EOS=[2 * x for x in r["EOS"]]), "fails"),
        (FirstRates.kind, lambda r: r.update(EOS=r["relation"], relation=r["EOS"]), "fails"),
        (FirstRates.kind, lambda r: r.update(EOS=[r["EOS"][0], r["EOS"][0]]), "not decided"),
        (FirstRates.kind, lambda r: r.update(EOS=[1.08 * r["EOS"][0], r["EOS"][1]]), "drifts"),
    ],
)
def test_what_EOS_learns_is_judged_by_rates(kind: str, bend: Bend, verdict: str) -> None:
    assert judge("marginal-first", marginal()).holds
    broken = bent(marginal(), lambda r: bend(r) if r["kind"] == kind else None)
    assert judge("marginal-first", broken).verdict == verdict


def by_adam(ratios: tuple[float, ...] = (1.1, 1.105, 1.11)) -> Rows:
    """Curves that fall in a straight line, subjects ``ratios`` times as late as relations."""
    t = np.linspace(0, 10, 101)
    return [
        SIZE | {"lr": lr, "log_alpha": -11.5, "last_loss": 0.005, "stages": {"resting": None, "problem": None},
                "curves": {"t": t.tolist(), "relation_loss": np.maximum(math.log(4) * (1 - t / 2), 0).tolist(),
                           "subject_loss": np.maximum(math.log(8) * (1 - t / (2 * ratio)), 0).tolist()}}
        for lr, ratio in zip((1e-3, 3e-3, 1e-2), ratios, strict=True)
    ]  # fmt: skip


def test_adam_is_judged_by_how_far_apart_it_learns() -> None:
    assert judge("adam-learns-both", by_adam()).holds
    assert judge("adam-learns-both", by_adam((1.08, 1.081, 1.082))).verdict == "drifts"
    assert judge("adam-learns-both", by_adam((0.8, 1.1, 1.4))).verdict == "not decided"
    assert judge("adam-learns-both", by_adam((2.5, 2.51, 2.52))).verdict == "fails"  # as gradient descent
    for bend in (
        lambda r: r["stages"].update(resting="relation"),
        lambda r: r.update(last_loss=0.02),
        lambda r: r["stages"].update(problem="training diverged"),
        lambda r: r["curves"].update(subject_loss=[2.0] * 101),
    ):
        assert not judge("adam-learns-both", bent(by_adam(), bend)).holds

"""The claims on how facts are learnt, at the sizes of `facthold verify`; and that each of them can fail."""

import copy
import dataclasses
import functools
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from facthold.lab.cells import Cell
from facthold.lab.claim import Judgement
from facthold.lab.registry import claim
from facthold.studies.learning import fig5, stages
from facthold.studies.learning.base import LossCurve, PredictedStages
from facthold.studies.learning.flow_claims import sequential_cells
from facthold.studies.learning.flows import Flow, SlowWeights
from facthold.studies.learning.sequential import Sequential

Row = dict[str, Any]


@functools.cache
def _run(cell: Cell) -> Row:
    return json.loads(json.dumps({"kind": cell.kind, **cell.spec, **cell.run()}))


def _rows(cells: Sequence[Cell]) -> list[Row]:
    return [copy.deepcopy(_run(cell)) for cell in cells]


def _bent(id: str, rows: list[Row], bend: Callable[[Row], None]) -> bool:
    """Whether the claim still stands when every row is bent."""
    for row in rows:
        bend(row)
    return _stands(claim(id).judge(rows))


def _stands(judgement: Judgement) -> bool:
    """It holds, or is off by what its prediction allows and a solver or a table that is not balanced explains."""
    return judgement.verdict in ("holds", "drifts")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("id", "bend"),
    [
        ("flow-conserves", lambda r: r.update(drift=2e-6)),
        ("attention-stays", lambda r: r.update(least_ratio=min(r["least_ratio"], 0.99))),
        ("weights-grow-slowly", lambda r: r["excess"].update(noise=1e-3)),
        ("loss-vanishes", lambda r: r["fell"].update({"0.001": None})),
        ("comparison", lambda r: r.update(upper=1e-3)),
    ],
)
def test_what_flow_keeps_and_where_it_goes(id: str, bend: Callable[[Row], None]) -> None:
    rows = _rows(claim(id).cells("quick"))
    verdict = claim(id).judge(rows)
    assert verdict.holds, verdict
    assert not _bent(id, rows, bend)
    if id != "comparison":
        assert not _bent(id, rows, lambda r: r.update(failure="the solver stopped after t = 3"))
        assert "solver stopped" in claim(id).judge(rows).measured


@pytest.mark.slow
def test_theorem_6_and_lemma_6_in_their_own_setting() -> None:
    rows = _rows(sequential_cells("quick"))
    verdict = claim("sequential-learning").judge(rows)
    assert _stands(verdict), verdict
    proof = rows[0]["proof"]
    assert proof["log_alpha"] < math.log(1e-300)  # far below what a float64 holds
    assert proof["theorem_time"] <= proof["T_star"]
    lemma = claim("relations-learnt").judge(rows[:1])
    assert lemma.holds, lemma
    assert not _bent("relations-learnt", copy.deepcopy(rows[:1]), lambda r: r["proof"].update(lemma_time=None))
    tiny = [own for row in rows for own in row["own"] if own["log_alpha"] <= math.log(1e-30)]
    assert len(tiny) == 6
    assert all(own["above"] <= 0 for own in tiny)
    assert not _bent("sequential-learning", copy.deepcopy(rows), lambda r: r["own"][-1].update(above=0.1))
    failed = copy.deepcopy(rows)
    assert not _bent("sequential-learning", failed, lambda r: r["own"][-1].update(time=None, failure="it stopped"))
    assert "it stopped" in claim("sequential-learning").judge(failed).measured
    never = copy.deepcopy(rows[:1])
    assert not _bent("sequential-learning", never, lambda r: r["proof"].update(theorem_time=None))
    assert "never near" in claim("sequential-learning").judge(never).measured
    assert not _bent("relations-learnt", copy.deepcopy(rows[:1]), lambda r: r["proof"].update(EOS_above=0.1))
    assert not _bent("sequential-learning", copy.deepcopy(rows[:1]), lambda r: r["proof"].update(above=1.0))
    still = copy.deepcopy(rows)
    assert not _bent("sequential-learning", still, lambda r: r["own"][-1]["grown"].update(noise=0.0))
    assert not _bent("sequential-learning", copy.deepcopy(rows), lambda r: r.update(S=30))


def test_a_table_with_too_few_subjects_has_no_alpha_by_the_proof() -> None:
    """Subjects then grow by more than half of log alpha up to T*, however small alpha is."""
    found = Sequential(S=4, R=4, D=2, T=4, n_noise=256, epsilon=0.3).run()["proof"]
    assert "no alpha" in found["failure"]


@pytest.mark.slow
def test_figure_5_has_its_three_stages() -> None:
    grid = fig5.FIGURE.grid("quick", {"seeds": [0, 1], "softmax_seeds": [0]})  # each seed takes as long as the rest
    rows = _rows(fig5.cells(grid))
    assert _stands(claim("hallucination").judge(rows)), claim("hallucination").judge(rows)
    assert claim("hallucination-softmax").judge(rows).verdict == "not decided"  # by one seed
    linear = next(r for r in rows if r.get("model") == "linear")
    assert linear["first_loss"] == pytest.approx(math.log(32), abs=1e-5)
    never = copy.deepcopy(rows)
    assert not _bent("hallucination", never, lambda r: r["stages"].update(hallucination=None))
    assert "no rest" in claim("hallucination").judge(never).measured
    broken = copy.deepcopy(never)
    assert not _bent("hallucination-softmax", broken, lambda r: r["stages"].update(problem="training diverged"))
    assert "training diverged" in claim("hallucination-softmax").judge(broken).measured
    late = copy.deepcopy(rows)
    assert not _bent("hallucination-softmax", late, lambda r: r.update(last_loss=0.1))
    assert claim("hallucination-softmax").judge(late).verdict == "fails"
    assert not claim("hallucination-softmax").judge(never).holds
    assert not _bent("hallucination", copy.deepcopy(rows), lambda r: r.update(last_loss=0.02))


SETTINGS = [(16, 4, 8, 1e-5), (16, 4, 8, 1e-7), (32, 4, 4, 1e-4), (24, 3, 6, 1e-5), (32, 2, 8, 1e-4)]
"""S, R, D and alpha: each of them changes. A new S, R, D is a compilation, another alpha is not."""


@pytest.mark.slow
def test_the_reduced_equations_give_the_length_of_the_plateau() -> None:
    """On other settings than the figure's, by gradient descent on the population loss."""
    cells: list[Cell] = []
    for S, R, D, alpha in SETTINGS:
        at: dict[str, Any] = {"S": S, "R": R, "D": D, "log_alpha": math.log(alpha)}
        end = PredictedStages(**at).reduced.time_of(0.8 * math.log(D))
        steps = {"lr": 0.2, "steps": int(end / 0.2), "noise": "even", "batch": 0}
        cells += [LossCurve(**at, **steps, T=16, n_noise=8, seed=seed) for seed in ((0,) if cells else (0, 1, 2))]
        cells.append(PredictedStages(**at))
    rows = _rows(cells)
    verdict = claim("plateau-length").judge(rows)
    assert _stands(verdict), verdict
    assert f"{len(SETTINGS)} settings" in verdict.error

    def longer(row: Row) -> None:
        if row["kind"] == PredictedStages.kind:
            row["stages"]["hallucination"] *= 1.2

    assert not _bent("plateau-length", copy.deepcopy(rows), longer)
    assert not _bent("plateau-length", rows, lambda r: r["stages"].update(hallucination=None, problem="it diverged"))
    assert "it diverged" in claim("plateau-length").judge(rows).measured


@pytest.mark.slow
def test_the_larger_rate_comes_first() -> None:
    few = {"order": [[8, 2], [8, 32], [16, 4]], "marginal_subjects": [8, 128]}
    grid = stages.FIGURE.grid("quick", few)
    ordered, rows = _rows(stages.order_cells(grid)), _rows(stages.marginal_cells(grid))
    for id, flows in (("what-comes-first", ordered), ("marginal-first", rows)):
        verdict = claim(id).judge(flows)
        assert _stands(verdict), verdict
    swap = lambda r: r["left"].update(EOS=r["left"]["relation"], relation=r["left"]["EOS"])  # noqa: E731
    assert not _bent("marginal-first", rows, lambda r: swap(r) if r["kind"] == Flow.kind else None)
    assert not _bent("what-comes-first", copy.deepcopy(ordered), lambda r: r["stages"].update(resting="subject"))
    swapped = lambda r: r["left"].update(subject=r["left"]["relation"], relation=r["left"]["subject"])  # noqa: E731
    assert not _bent("what-comes-first", copy.deepcopy(ordered), swapped)
    for id, broken in (("what-comes-first", ordered), ("marginal-first", rows)):
        failed = [{"kind": Flow.kind, "failure": "the solver stopped"} for _ in broken]
        assert claim(id).judge(failed).measured == "the solver stopped"


def test_adam_does_not_hallucinate() -> None:
    """Its two times are 2% nearer to each other than weights that move alike would have them."""
    rows = _rows(claim("adam-learns-both").cells("quick"))
    verdict = claim("adam-learns-both").judge(rows)
    assert verdict.verdict == "drifts", verdict
    assert not _bent("adam-learns-both", rows, lambda r: r["stages"].update(resting="relation"))
    assert claim("adam-learns-both").judge(rows).verdict == "fails"


@pytest.mark.parametrize(
    ("cell", "field", "value", "message"),
    [
        (Flow, "T", 2, "T=2 must be at least 3"),
        (Flow, "t_end", 0.0, "t_end=0.0 must be above 0"),
        (Flow, "spacing", "lin", "unknown spacing 'lin'; did you mean 'linear'"),
        (Flow, "start", "equall", "did you mean 'equal'"),
        (Flow, "log_alpha", math.nan, "log_alpha=nan must be"),
        (LossCurve, "model", "softmax", "d=0 must be"),
        (LossCurve, "noise", "evn", "did you mean 'even'"),
        (LossCurve, "optimiser", "adm", "did you mean 'adam'"),
        (SlowWeights, "table", "exceptional", "did you mean 'exception'"),
        (SlowWeights, "table", "exception", "R=2 and D=2 must be 1 and 2"),
        (Sequential, "epsilon", 0.0, "epsilon=0.0 must be above 0"),
        (PredictedStages, "S", 5, "D=2 does not divide S=5"),
        (PredictedStages, "start", "random", "unknown start 'random'"),
    ],
)
def test_wrong_fields_are_refused(cell: type[Cell], field: str, value: object, message: str) -> None:
    known = {field.name for field in dataclasses.fields(cell)}
    fields = {"S": 4, "R": 2, "D": 2, "T": 8, "n_noise": 4, "log_alpha": -5.0, "t_end": 9.0, "lr": 0.1, "steps": 10}
    fields |= {"epsilon": 0.1}
    with pytest.raises(ValueError, match=message):
        cell(**{name: fields[name] for name in fields if name in known} | {field: value})


def test_losses_are_no_facts_for_the_counting_bound() -> None:
    flow = Flow(S=4, R=2, D=2, T=8, n_noise=4, log_alpha=-5.0, t_end=9.0)
    assert flow.accounts({}) == "no bound: losses are counted, not facts"
    assert PredictedStages(S=4, R=2, D=2, log_alpha=-5.0).accounts({}) == "no bound: there is no model"

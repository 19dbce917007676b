"""Muon's recovery law: each judge on rows that follow what is stated, and on others; cells from fields to numbers."""

import math
from collections.abc import Callable
from statistics import fmean, stdev
from typing import Any

import pytest

from facthold.dynamics import LEARNERS, RESIDUALS
from facthold.lab.registry import claim, figure
from facthold.studies.scaling.recovery import (
    PRESETS,
    PredictedRecovery,
    Recovery,
    batch_cells,
    by_step,
    from_batches,
    law_cells,
    step_cells,
)
from facthold.theory.recovery import exponent

Row = dict[str, Any]
SIZES, SEEDS, STEPS = (24, 48, 96, 192), (0, 1, 2, 3), 3
Number = Callable[[str, str, float, int, int], float]  # of optimiser, residual, alpha, d and t


def number(optimiser: str, residual: str, alpha: float, d: int, t: int) -> float:
    """As the laws have it."""
    a = 0.6 if optimiser == "adam" else exponent(optimiser, alpha, t)
    return (40 if optimiser == "muon" else 5) * (d / 24) ** a


def rows(found: Number = number, said: Number = number, alphas: tuple[float, ...] = (2.0, 1.5)) -> list[Row]:
    kinds = [("muon", residual) for residual in RESIDUALS] + [(name, "softmax") for name in LEARNERS[1:]]
    made = []
    for alpha in alphas:
        for d in SIZES:
            for name, residual in kinds:
                cell = Recovery(d=d, alpha=alpha, optimiser=name, residual=residual, seeds=SEEDS)
                recalled = [
                    [found(name, residual, alpha, d, t + 1) * (1 + 0.01 * (s - 1.5)) for t in range(STEPS)]
                    for s in SEEDS
                ]
                made.append({"kind": cell.kind, **cell.spec, "recalled": recalled, "seen": [[d * d] * STEPS] * 4})
            cell = PredictedRecovery(d=d, alpha=alpha)
            muon = [said("muon", "threshold", alpha, d, t + 1) for t in range(STEPS)]
            made.append({"kind": cell.kind, **cell.spec, "muon": muon, "sgd": [1.0], "seen": float(d * d)})
    return made


def batch_rows(slope: float = 1.0, ratio: float = 1.0, end: float = 1.0) -> list[Row]:
    made = []
    for alpha in (2.0, 1.5):
        for batch in (16, 64, 256, 1024, 10**6, 0):
            seen = 4 * (batch / 16) ** (1 / alpha) if batch else 4096.0
            said = min(seen, 100.0)
            found = min(4 * (batch / 16) ** (slope / alpha), 100.0) if batch else 100.0 / end
            at: Row = {"d": 64, "alpha": alpha, "steps": 1, "batch": batch}
            cell = Recovery(**at, seeds=SEEDS)
            recalled = [[ratio * found * (1 + 0.01 * (s - 1.5))] for s in SEEDS]
            made.append({"kind": cell.kind, **cell.spec, "recalled": recalled, "seen": [[int(seen)]] * 4})
            made.append({"kind": PredictedRecovery.kind, **PredictedRecovery(**at).spec, "muon": [said], "seen": seen})
    return made


def verdict(id: str, made: list[Row]) -> str:
    return str(claim(id).judge(made).verdict)


def bent(power: float, **at: Any) -> Number:
    """The numbers of the law, but where ``at`` says, they grow by another power of d as well."""

    def found(optimiser: str, residual: str, alpha: float, d: int, t: int) -> float:
        here = {"optimiser": optimiser, "residual": residual, "alpha": alpha, "t": t}
        more = power if all(here[name] == value for name, value in at.items()) else 0.0
        return number(optimiser, residual, alpha, d, t) * (d / 96) ** more

    return found


def test_all_hold_where_the_laws_do() -> None:
    for id in ("muon-recovery", "muon-steps", "muon-numbers", "recovery-of-others"):
        assert verdict(id, rows()) == "holds", claim(id).judge(rows())
    assert verdict("muon-batch", batch_rows()) == "holds", claim("muon-batch").judge(batch_rows())


@pytest.mark.parametrize("residual", RESIDUALS)
def test_the_first_step_fails_by_each_gradient(residual: str) -> None:
    assert verdict("muon-recovery", rows(bent(0.2, residual=residual, alpha=1.5, t=1))) == "fails"
    assert verdict("muon-recovery", rows(bent(-0.2, residual=residual, alpha=2.0, t=1))) == "fails"
    assert verdict("muon-recovery", rows(bent(0.08, residual=residual, alpha=1.5, t=1))) == "drifts"
    assert verdict("muon-recovery", rows(bent(0.2, residual=residual, alpha=1.5, t=2))) == "holds"


@pytest.mark.parametrize("t", [2, 3])
def test_later_steps_are_held_against_theory_and_theory_against_the_law(t: int) -> None:
    assert verdict("muon-steps", rows(bent(0.2, residual="threshold", t=t))) == "fails"
    assert verdict("muon-steps", rows(bent(0.2, residual="softmax", t=t))) == "holds"  # without a verdict
    both = bent(0.2, t=t)
    judged = claim("muon-steps").judge(rows(both, both))
    assert judged.verdict == "fails"  # theory is not the law's
    assert "fails" in judged.measured
    mild = bent(0.08, t=t)
    assert verdict("muon-steps", rows(mild, mild)) == "drifts"


def test_numbers_are_judged_where_theory_has_them() -> None:
    for t in (1, 2, 3):
        assert verdict("muon-numbers", rows(bent(0.3, residual="threshold", t=t))) == "fails"
    assert verdict("muon-numbers", rows(bent(0.3, residual="softmax", t=1))) == "fails"
    assert verdict("muon-numbers", rows(bent(0.3, residual="softmax", t=2))) == "holds"  # it has none for these
    assert verdict("muon-numbers", rows(lambda *at: 1.2 * number(*at))) == "fails"
    assert verdict("muon-numbers", rows(lambda *at: 1.05 * number(*at))) == "drifts"


def test_batches_fail_by_each_part() -> None:
    assert verdict("muon-batch", batch_rows(slope=1.35)) == "fails"
    assert verdict("muon-batch", batch_rows(ratio=1.2)) == "fails"
    assert verdict("muon-batch", batch_rows(end=1.3)) == "fails"
    few = [r for r in batch_rows() if r["batch"] not in (64, 256)]
    assert verdict("muon-batch", few) == "not decided"


def test_others_fail_by_their_exponents_and_by_recalling_as_much() -> None:
    for name in ("sign", "sgd"):
        for t in (1, 2, 3):
            assert verdict("recovery-of-others", rows(bent(0.3, optimiser=name, t=t))) == "fails"
        many = rows(lambda o, *at, name=name: number(o, *at) * (40 if o == name else 1))
        assert verdict("recovery-of-others", many) == "fails"


def test_where_nothing_is_recalled_no_law_holds() -> None:
    made = rows()
    made[0]["recalled"][1][1] = 0
    judged = claim("muon-recovery").judge(made)
    assert judged.verdict == "fails"
    assert "nothing is recalled at d=24 seed=1" in judged.measured


def test_sizes_with_more_seeds_have_as_many_points() -> None:
    made = rows()
    made[0] |= {"seeds": list(range(8)), "recalled": [[float(i)] * STEPS for i in range(8)], "seen": [[0] * STEPS] * 8}
    at = {"alpha": 2.0, "optimiser": "muon", "residual": made[0]["residual"]}
    points = by_step(made, 1, **at)
    assert [d for d, _ in points] == [d for d in SIZES for _ in SEEDS]
    assert [y for d, y in points if d == 24] == [2.0, 3.0, 4.0, 5.0]


def test_a_cell_counts_what_it_should() -> None:
    one = Recovery(d=12, steps=2, seeds=(0, 1)).run()
    assert [len(x) for x in one["recalled"]] == [2, 2]
    assert one["seen"] == [[144, 144]] * 2
    assert one == Recovery(d=12, steps=2, seeds=(0, 1)).run()
    drawn = Recovery(d=12, steps=1, batch=5, seeds=(0,)).run()
    assert 1 <= drawn["seen"][0][0] <= 5
    said = PredictedRecovery(d=12, steps=1, batch=5).run()
    assert len(said["muon"]) == 1
    assert 1 <= said["seen"] <= 5


@pytest.mark.parametrize(
    "wrong", [{"alpha": 1.0}, {"d": 1}, {"lr": 0.0}, {"batch": -1}, {"optimiser": "newton"}, {"seeds": ()}]
)
def test_a_cell_refuses_what_it_cannot_compute(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Recovery(**{"d": 8, "seeds": (0,)} | wrong)


def test_several_steps_from_batches_stand_beside_all_data_and_what_was_shown() -> None:
    seeds, batch = tuple(range(24)), 20
    cells = [PredictedRecovery(d=10, steps=2), Recovery(d=10, steps=2, seeds=(0,))]
    cells += [Recovery(d=10, steps=2, batch=batch, residual=residual, seeds=seeds) for residual in RESIDUALS]
    made = [{"kind": cell.kind, **cell.spec, **cell.run()} for cell in cells]
    (found,) = from_batches(made, 2.0)
    assert (found.d, found.batch, found.all_data) == (10, batch, made[0]["muon"])
    for name, row in zip(RESIDUALS, made[2:], strict=True):
        assert found.recalled[name] == pytest.approx([fmean(t) for t in zip(*row["recalled"], strict=True)])
        for t, stated in enumerate(
            found.seen
        ):  # batches are drawn afresh: t of them show as much as one t times as long
            shown = [seen[t] for seen in row["seen"]]
            assert abs(fmean(shown) - stated) < 4 * stdev(shown) / len(shown) ** 0.5
    assert from_batches(made[:-1], 2.0) == []
    shown = figure("recovery")
    assert len(shown.plot(made).axes) == 6
    assert any(line.startswith("batches of 20, alpha = 2, d = 10, recalled after 1 to 2") for line in shown.says(made))


def test_seeds_that_judge_took_no_part_in_choosing() -> None:
    grid = PRESETS["quick"]
    ours = [c for c in (*law_cells(grid), *batch_cells(grid), *step_cells(grid)) if isinstance(c, Recovery)]
    assert all(min(c.seeds) >= 100 and len(c.seeds) >= 3 for c in ours)


def test_the_figure_is_drawn_from_rows_alone() -> None:
    made = [*rows(), *batch_rows()]
    for r in made:
        if r["kind"] == PredictedRecovery.kind and r["batch"]:
            r["sgd"] = [3.0]
    shown = figure("recovery")
    assert len(shown.plot(made).axes) == 4
    assert any(math.isclose(fit.slope, 1.25, abs_tol=1e-6) for fit in shown.fits(made))
    assert any("law 1.250" in line for line in shown.says(made))

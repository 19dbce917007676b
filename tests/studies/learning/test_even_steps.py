"""What sign descent and Muon learn first: the judge on rows that follow the equations, and on others."""

from typing import Any

import numpy as np
import pytest

from facthold.lab.registry import claim, figure
from facthold.studies.learning.base import LossCurve
from facthold.studies.learning.even_steps import PRESETS, EvenSteps, claim_cells, figure_cells
from facthold.theory.even_steps import sign_times

Row = dict[str, Any]
SIZES = {16: (2.9, 4.0), 64: (2.6, 7.2)}
SIGN = sign_times(4, 8)


def curve(S: int, optimiser: str, lr: float, times: tuple[float, float], **more: Any) -> Row:
    """Losses that fall in straight lines, to half at these times."""
    t = np.linspace(0, 30, 3001)
    relation, subject = (np.maximum(2 * (1 - t / (2 * at)), 0) for at in times)
    losses = {"loss": relation + subject, "relation_loss": relation, "subject_loss": subject}
    curves = {"t": t.tolist()} | {name: loss.tolist() for name, loss in losses.items()}
    levels = {"start": 3.5, "marginal": 3.5, "relation": 2.1, "subject": 1.4}
    stages = {"resting": None, "problem": None}
    return {"kind": LossCurve.kind, "S": S, "R": 4, "D": 8, "optimiser": optimiser, "lr": lr, "last_loss": 0.001,
            "stages": stages, "levels": levels, "curves": curves} | more  # fmt: skip


def rows(ratio: float = 1.0, of: str = "", at: int = 16, early: float = 1.0, **more: Any) -> list[Row]:
    """As the equations have it, but the curves of one optimiser at one S."""

    def bent(S: int, name: str, times: tuple[float, float], k: int) -> tuple[float, float]:
        here = name == of and at == S
        relation = times[0] * (early if here else 1) * (1 + 0.001 * k)
        return relation, relation * times[1] / times[0] * (ratio if here else 1) * (1 + 0.001 * k)

    def extra(S: int, name: str) -> Row:
        return more if name == of and at == S else {}

    made = [curve(16, "sign", 1e-3 * (k + 2), bent(16, "sign", SIGN, k), **extra(16, "sign")) for k in (-1, 0, 1)]
    for S, times in SIZES.items():
        made += [
            curve(S, "muon", 1e-3 * (k + 2), bent(S, "muon", times, k), **extra(S, "muon"))
            for k in ((-1, 0, 1) if S == 16 else (0,))
        ]
        cell = EvenSteps(S=S, R=4, D=8, log_alpha=-11.5)
        made.append({"kind": cell.kind, **cell.spec, "sign": SIGN, "muon": times, "sgd": (10.0, 26.0)})
    return made


def verdict(made: list[Row]) -> str:
    return str(claim("muon-learns-both").judge(made).verdict)


def test_it_holds_where_curves_follow_the_equations() -> None:
    assert verdict(rows()) == "holds", claim("muon-learns-both").judge(rows())


@pytest.mark.parametrize(("name", "S"), [("sign", 16), ("muon", 16), ("muon", 64)])
def test_it_fails_by_each_part(name: str, S: int) -> None:
    given: Row = {"of": name, "at": S}
    assert verdict(rows(1.1, **given)) == "fails"
    assert verdict(rows(last_loss=0.02, **given)) == "fails"
    assert verdict(rows(stages={"resting": "relation", "problem": None}, **given)) == "fails"
    if S == 16:
        assert verdict(rows(early=1.2, **given)) == "fails"
        assert verdict(rows(1.03, **given)) == "drifts"
        assert verdict(rows(stages={"resting": None, "problem": "training diverged"}, **given)) == "fails"


def test_rates_that_differ_decide_nothing() -> None:
    made = rows()
    made[0] = curve(16, "sign", 1e-3, (SIGN[0], SIGN[1] * 1.2))
    assert verdict(made) == "not decided"


def test_the_equations_of_a_cell_and_the_length_of_curves() -> None:
    cell = EvenSteps(S=16, R=4, D=8, log_alpha=-11.5)
    found = cell.run()
    assert found["sign"] == SIGN
    assert 1.3 < found["muon"][1] / found["muon"][0] < 1.5  # the sketch of docs/dynamics.md
    assert found["speeds"][1] < (15 / 16) ** 0.5
    for grid in PRESETS.values():
        for one in claim_cells(grid):
            if isinstance(one, LossCurve):
                assert one.noise == "even"
                assert one.batch == 0
        assert len(figure_cells(grid)) == len(claim_cells(grid)) + 2


def test_the_figure_is_drawn_from_rows_alone() -> None:
    assert len(figure("even-steps").plot(rows()).axes) == 2

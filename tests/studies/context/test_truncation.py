"""The noisy task and its truncation: of which models, and that the claim can say no."""

from typing import Any

import numpy as np
import pytest

from facthold._util.keys import derive
from facthold.lab.registry import claim, figure
from facthold.studies.context import truncation
from facthold.studies.context.noisy import NoisyHead

CELL = NoisyHead(d=16, T=24, steps=20, batch=4, check_every=10, cuts=("F^2", "W_OV^2"), shares=(0.0, 1.0))
Row = dict[str, Any]


def test_it_is_trained_with_noise_and_asked_without() -> None:
    cell = NoisyHead(d=16, T=64, noise=0.5)
    taught, asked = (np.asarray(task.draw(200, key=derive("d")).tokens) for task in (cell.taught(), cell.task()))
    (trigger,), tau = np.asarray(cell.task().fixed), int(cell.task().noise_token)
    after = [tokens[:, 1:][tokens[:, :-1] == trigger] == tau for tokens in (taught, asked)]
    assert after[0].mean() == pytest.approx(0.5 + 0.5 / 65, abs=0.08)
    assert after[1].mean() < 0.1
    assert int(cell.taught().noise_token) == tau


def test_the_public_start_has_the_sizes_of_pytorch_s_default() -> None:
    d = 128
    model = NoisyHead(d=d, T=64).start()
    first = model.layers[0]
    sizes = {
        "E": (model.E, 1), "P": (model.P, 1), "U": (model.U, 1 / (3 * d)), "W_KQ": (first.W_KQ, 1 / (3 * d)),
        "W_OV": (first.W_OV, 1 / (9 * d)), "F.W": (first.F.W, 1 / (3 * d)), "F.V": (first.F.V, 1 / (12 * d)),
    }  # fmt: skip
    for name, (W, variance) in sizes.items():
        spread = 4 * (2 / W.size) ** 0.5  # standard errors of a variance
        assert float((W**2).mean()) == pytest.approx(variance, rel=spread), name
    assert first.F.W.shape == (4 * d, d)
    slides = NoisyHead(d=d, T=64, started="slides").start()
    assert float((slides.E**2).sum(axis=1).mean()) == pytest.approx(1, rel=0.1)


def test_a_cell_has_the_full_model_and_each_cut() -> None:
    found = CELL.run()
    assert [(one["cut"], one["r"]) for one in found["truncated"]] == [("F^2", 0), ("F^2", 16), ("W_OV^2", 0),
                                                                      ("W_OV^2", 16)]  # fmt: skip
    for one in found["truncated"]:
        if one["r"] == 16:
            assert {name: one[name] for name in found["full"]} == found["full"]
        else:
            assert {name: one[name] for name in found["full"]} != found["full"]
    assert [one["saved"] for one in found["truncated"]] == [2048, 2048 - 2 * 16 * 80, 256, -256]


def test_a_run_that_diverged_is_a_value_and_no_mean() -> None:
    found = NoisyHead(d=16, T=24, lr=1e6, steps=20, batch=4, check_every=10).run()
    assert found["status"] == "diverged"
    assert found["full"] is None
    judged = claim("truncation").judge([row(0.5, 0.9, 0.4, 0.1), {**row(0.5, 0.9, 0.4, 0.1), **found}])
    assert judged.verdict == "fails"
    assert "1 of 2 runs diverged" in judged.measured


@pytest.mark.parametrize(
    ("wrong", "says"),
    [({"layers": 1}, "layers=1"), ({"feed_forward": "none"}, "feed_forward='none'"), ({"random": True}, "random=True"),
     ({"unit": False}, "unit=False"), ({"noise": 1.0}, "noise=1.0"), ({"shares": (2.0,)}, "shares=2.0")],
)  # fmt: skip
def test_what_says_nothing_is_refused(wrong: Row, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        NoisyHead(d=16, **wrong)


def row(right: float, right_cut: float, noise: float, noise_cut: float) -> Row:
    rest = {"margin": 0.0, "accuracy": 0.5, "looks": 0.9, "looks_evenly": 0.1}
    cut = {"p_right": right_cut, "p_noise": noise_cut, **rest}
    return {
        "started": "public", "optimiser": "sgd", "d": 64, "shares": [0.0], "cuts": ["F^2"],
        "full": {"p_right": right, "p_noise": noise, **rest},
        "truncated": [{"cut": "F^2", "share": 0.0, "r": 0, "saved": 10, **cut}],
    }  # fmt: skip


def rows(right: float, noise: float, spread: float = 0.02) -> list[Row]:
    """Four seeds whose probabilities change by about so much."""
    return [row(0.5, 0.5 + right + e, 0.45, 0.45 + noise - e) for e in (-spread, 0.0, spread, spread / 2)]


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (rows(0.3, -0.4), "holds"),
        (rows(-0.3, -0.4), "fails"),  # the noise goes, and the answer with it
        (rows(0.3, 0.1), "fails"),
        (rows(0.0, 0.0, 0.0), "fails"),  # nothing moves
        (rows(0.03, -0.4, 0.2), "not decided"),
        (rows(0.3, -0.4)[:1], "not decided"),  # one seed has no interval
    ],
)
def test_the_claim_holds_where_rows_agree_and_not_where_they_do_not(found: list[Row], verdict: str) -> None:
    assert claim("truncation").judge(found).verdict == verdict


def test_the_claim_has_the_figure_s_cells_of_one_protocol_on_fresh_seeds() -> None:
    wanted = figure("truncation")
    for preset in ("quick", "paper"):
        cells = claim("truncation").cells(preset)
        assert {cell.key for cell in cells} < {cell.key for cell in wanted.cells(wanted.grid(preset))}
        assert len(cells) >= 3
        assert all(cell.seed >= 100 and cell.optimiser == "sgd" and cell.K == 1 for cell in cells)  # type: ignore[attr-defined]


def test_the_figure_says_what_each_cut_leaves_and_draws_it() -> None:
    found = rows(0.3, -0.4, 0.0)
    lines = truncation.says(found)
    assert "right 50.0%, noise token 45.0%" in lines[0]
    assert "to F^2 dropped, by seed: 50.0% to 80.0%, 50.0% to 80.0%" in lines[1]
    assert "F^2 dropped: right 80.0%, noise token 5.0%" in lines[2]
    panels = truncation.plot(found).axes
    assert len(panels) == len(truncation.PANELS) == 4
    assert panels[2].get_title().startswith("margin of the right output")
    assert panels[2].get_ylim()[0] < 0  # it is no share

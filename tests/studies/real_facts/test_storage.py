"""Where facts are held: parts of margins that add up, limits of one path alone, and what is refused."""

import dataclasses
import json
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from facthold.knowledge.locate import DIRECT, MLP, Located, locate_all
from facthold.knowledge.model import Model
from facthold.models.judge import judge_table
from facthold.models.sizes import Shape, shape_of
from facthold.studies.real_facts.base import TRAINED
from facthold.studies.real_facts.storage import FIGURE, PATHS, Storage, shares
from known import attention_alone, countries, random_model

VALUES = Storage(model="values", S=4, R=4, D=2, d=16)
SELECTED = Storage(model="selected", S=4, R=4, D=2, d=12, m=16)
SIZE = {"d": 9, "H": 2, "d_h": 4, "m": 17}


def located(direct: list[float], mlp: list[float], changed: list[list[bool]]) -> Located:
    """Facts of one head whose parts are given."""
    d, through = np.array(direct)[:, None], np.array(mlp)[:, None]
    zeros, n = np.zeros(len(d)), np.arange(len(d))
    return Located(
        components=("head 0", DIRECT, MLP), right=n, rival=n, margin=(d + through)[:, 0], direct=d, through=through,
        bias=zeros, mlp=np.array(mlp), contributions=np.concatenate([d + through, d, through], axis=1),
        ablated=np.zeros((len(d), 3)), changed=np.array(changed),
    )  # fmt: skip


def test_shares_by_hand() -> None:
    """Three facts; the last is not recalled, and counts nowhere but in the accuracy."""
    changed = [[True, False, True], [True, True, True], [False, False, False]]
    found = shares(located([1.0, -1.0, -5.0], [1.0, 3.0, 1.0], changed))
    assert_allclose(found["accuracy"], 2 / 3)
    assert_allclose([found["direct"]["share"], found["mlp"]["share"]], [0 / 4, 4 / 4])
    assert (found["direct"]["without"], found["mlp"]["without"]) == (0.5, 1.0)
    # Quantiles of the two facts' own shares, 1/2 and -1/2 of the direct path.
    assert_allclose([found["direct"]["low"], found["direct"]["high"]], [-0.4, 0.4])
    nothing = shares(located([-1.0], [0.5], [[True, True, True]]))
    assert nothing["accuracy"] == 0
    assert nothing["mlp"] == {"share": None, "low": None, "high": None, "without": None}


@pytest.mark.parametrize("known", [countries, random_model, attention_alone])
def test_the_paths_hold_the_whole_margin_between_them(known) -> None:
    model, problem = known()
    found = shares(locate_all(Model(model, problem)))
    assert_allclose(found["direct"]["share"] + found["mlp"]["share"], 1, rtol=1e-9)
    recalled = judge_table(model, problem).recalled
    assert found["accuracy"] == recalled.mean()


def test_attention_alone_is_its_direct_path() -> None:
    found = VALUES.run()
    assert found["mlp_params"] == 0
    assert found["attention_params"] == found["n_params"]
    assert found["accuracy"] == 1.0  # d is generous
    assert_allclose(found["direct"]["share"], 1, rtol=1e-12)
    assert (found["direct"]["without"], found["mlp"]["without"], found["mlp"]["share"]) == (1.0, 0.0, 0.0)


def test_codes_for_an_mlp_say_nothing_by_themselves() -> None:
    """The construction's heads write codes that the MLP reads: without it all is lost, and it alone knows all."""
    found = SELECTED.run()
    assert found["accuracy"] == 1.0
    assert found["n_params"] == found["attention_params"] + found["mlp_params"]
    assert found["mlp_params"] == 2 * 16 * 12
    assert found["mlp"]["without"] > found["direct"]["without"]
    assert found["mlp"]["share"] > 0.5 > found["direct"]["share"]
    assert json.dumps(found) == json.dumps(SELECTED.run())
    (account,) = SELECTED.accounts(found)
    assert (account.facts, account.D, account.wrong, account.bits) == (16, 2, 0, 32 * (found["n_params"] + 16))
    assert SELECTED.accounts({"status": "diverged", "accuracy": None}) == []


def test_a_trained_cell_is_known_by_its_protocol_and_has_the_sizes_asked_for() -> None:
    cell = Storage(model=TRAINED, S=4, R=4, D=2, **SIZE, protocol="transformer-smoke")
    assert cell.spec["training"]["goal"] == 1.0
    assert cell.training.futility is None
    assert dataclasses.replace(cell, protocol="transformer-short").key != cell.key
    found = cell.run()
    assert found["n_params"] == Shape(**SIZE).n_params
    assert found["accuracy"] > 0.5  # chance is 1/8
    assert_allclose(found["direct"]["share"] + found["mlp"]["share"], 1, rtol=1e-9)


@pytest.mark.parametrize("preset", ["quick", "paper"])
def test_shapes_of_one_preset_have_about_the_same_parameters(preset: str) -> None:
    grid = FIGURE.grid(preset)
    for alpha, beta in grid.shapes:
        size = shape_of(alpha, beta, grid.n_params, grid.H)
        assert (size.m > 0) == (beta > 0)
        # m takes up what rounding left, to d parameters; without an MLP d_h is what is rounded, by 1/2 at most.
        slack = size.d if beta else 2 * grid.H * size.d + grid.n_params / size.d
        assert abs(size.n_params - grid.n_params) <= slack


def made_up(model: str, seed: int, direct: float, **changes: object) -> dict:
    part = {"low": 0.0, "high": 1.0, "without": 0.5}
    return {"model": model, "seed": seed, "S": 4, "R": 4, "D": 2, **SIZE, "accuracy": 1.0, "status": "found",
            "n_params": 600, "mlp_params": 300, "direct": part | {"share": direct},
            "mlp": part | {"share": 1 - direct}} | changes  # fmt: skip


def test_the_picture_has_a_pair_of_bars_a_model_and_leaves_out_what_knows_nothing() -> None:
    rows = [made_up(TRAINED, 0, 0.2), made_up(TRAINED, 1, 0.4), made_up("values", 0, 1.0, accuracy=1.0)]
    lost = {"model": TRAINED, "seed": 2, "S": 4, "R": 4, "D": 2, **SIZE, "status": "diverged", "accuracy": None}
    canvas = FIGURE.plot([*rows, lost])
    left, _ = canvas.axes
    names = [tick.get_text().split("\n")[0] for tick in left.get_yticklabels()]
    assert names == [r"trained: $d=9$, $\alpha=0.89$, $\beta=1.9$", "built: values"]
    widths = [bar.get_width() for bar in left.patches]
    assert_allclose(widths, [0.3, 1.0, 0.7, 0.0], atol=1e-12)  # the mean over seeds, path by path
    assert len(widths) == len(PATHS) * len(names)
    assert "1 of 4 models know no fact" in canvas.get_suptitle()
    stored = FIGURE.plot([lost, *rows[::-1]]).axes[0]  # in another order
    assert [tick.get_text() for tick in stored.get_yticklabels()] == [t.get_text() for t in left.get_yticklabels()]
    assert FIGURE.fits(rows) == []
    assert not math.isnan(left.get_xlim()[1])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "value"}, "unknown model 'value'; did you mean 'values'"),
        ({"d": 0}, "d=0 must be at least 1"),
        ({"S": 0}, "S=0 must be at least 1"),
        ({"m": -1}, "m=-1 must be at least 0"),
        ({"model": "selected"}, "m=0 must be at least 1"),
        ({"model": "trained"}, "H=0 must be at least 1"),
        ({"model": "trained", "H": 2, "d_h": 2, "protocol": "long"}, "unknown protocol 'long'"),
    ],
)
def test_what_has_no_meaning_is_refused(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(VALUES, **changes)

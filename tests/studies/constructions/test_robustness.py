"""Built transformers under noise, rounding and longer prompts: limits, levels, and what is refused."""

import dataclasses
import json
import math

import numpy as np
import pytest

from facthold._util.keys import derive
from facthold.facts.problem import SEQUENCE
from facthold.lab.registry import figure
from facthold.measure.fact_recall import fact_accuracy
from facthold.models.transformer import Transformer
from facthold.studies.constructions.robustness import (
    DISTURBANCES,
    Robustness,
    noisy_embeddings,
    noisy_weights,
    rounded_weights,
)

TINY = Robustness(builder="values", d=16, S=6, R=6, D=3, disturbance="weights", amounts=(0.0,), seeds=(0, 1), draws=2)
WITH_MLP = Robustness(
    builder="selected", d=12, m=32, S=4, R=4, D=2, disturbance="weights", amounts=(0.0,), seeds=(0,), draws=1
)
EPS = np.finfo(np.float32).eps
NAMES = ("W_K", "W_Q", "W_V", "W_O")


def matrices(model: Transformer) -> dict[str, np.ndarray]:
    """Every weight of a transformer with an MLP, by name."""
    assert model.mlp is not None
    heads = {name: np.asarray(getattr(model, name)) for name in NAMES}
    return heads | {"W": np.asarray(model.mlp.W), "V": np.asarray(model.mlp.V)}


@pytest.mark.parametrize(("name", "nothing"), [("embeddings", 0), ("weights", 0), ("bits", 16), ("length", SEQUENCE)])
def test_no_disturbance_gives_the_recall_of_the_model_as_built(name: str, nothing: float) -> None:
    result = dataclasses.replace(TINY, disturbance=name, amounts=(nothing,)).run()
    for seed, found in zip(TINY.seeds, result["per_seed"], strict=True):
        model, problem, *_ = TINY.built(seed)
        by_hand = [
            fact_accuracy(model, problem, key=derive("disturbed prompts", seed, draw)) for draw in range(TINY.draws)
        ]
        assert found["recall"] == [found["accuracy"]] == [np.mean(by_hand)]
        assert found["n_params"] == model.n_params == result["n_params"]
    assert result["recall"] == [result["accuracy"]] == [1.0]  # d is generous here


@pytest.mark.parametrize("name", ["embeddings", "weights"])
def test_huge_noise_leaves_chance(name: str) -> None:
    """One of all outputs is then right by chance. Facts of a draw may share a prediction, so draws are the samples:
    a share in [0, 1] with the mean p has a variance of at most p (1 - p)."""
    cell = dataclasses.replace(TINY, disturbance=name, amounts=(1e3,), draws=32)
    result = cell.run()
    p = 1 / len(cell.built(0).problem.U)
    sem = math.sqrt(p * (1 - p) / (cell.draws * len(cell.seeds)))
    assert abs(result["recall"][0] - p) < 4 * sem
    assert result["recall_min"][0] <= result["recall"][0] <= result["recall_max"][0]
    assert result["accuracy"] == 1.0


@pytest.mark.parametrize("bits", [1, 2, 3, 8])
def test_rounding_leaves_at_most_2_to_the_bits_levels_in_each_matrix(bits: int) -> None:
    model, problem, *_ = WITH_MLP.built(0)
    after, _ = rounded_weights(model, problem, float(bits), derive("unused"))
    for name, W in matrices(after).items():
        before = matrices(model)[name]
        for old, new in zip(before if W.ndim == 3 else before[None], W if W.ndim == 3 else W[None], strict=True):
            assert len(np.unique(new)) <= max(2, 2**bits - 1)
            assert np.abs(new).max() == pytest.approx(np.abs(old).max(), rel=1e-6)
            if bits == 1:  # only the sign is left
                np.testing.assert_array_equal(np.sign(new)[old != 0], np.sign(old)[old != 0])
            else:  # half a step at most, and zero stays zero
                step = np.abs(old).max() / (2 ** (bits - 1) - 1)
                assert np.abs(new - old).max() <= step / 2 * (1 + 1e-6)
                assert not new[old == 0].any()


def test_more_bits_recall_more() -> None:
    result = dataclasses.replace(TINY, disturbance="bits", amounts=(1, 16)).run()
    assert result["recall"][0] < result["recall"][1] == result["accuracy"]


def test_noise_of_the_weights_has_the_size_of_each_matrix_and_spares_none() -> None:
    model, problem, *_ = WITH_MLP.built(0)
    x = 0.25
    after, same = noisy_weights(model, problem, x, derive("noise"))
    twice, _ = noisy_weights(model, problem, 2 * x, derive("noise"))
    assert same is problem
    for name, W in matrices(model).items():
        once, again = matrices(after)[name] - W, matrices(twice)[name] - W
        rms = np.broadcast_to(np.sqrt((W**2).mean(axis=(-2, -1), keepdims=True)), W.shape)
        g = once[rms > 0] / (x * rms[rms > 0])
        assert abs((g**2).mean() - 1) < 4 * math.sqrt(2 / g.size)  # the variance of g^2 is 2
        assert not once[rms == 0].any()  # a head that is not used stays so
        # The same draw at another amount: the noise alone is scaled, up to float32.
        np.testing.assert_allclose(again, 2 * once, rtol=0, atol=4 * EPS * np.abs(matrices(twice)[name]).max())


def test_noise_of_the_embeddings_moves_every_token_and_not_the_model() -> None:
    model, problem, *_ = TINY.built(0)
    x = 0.5
    same, moved = noisy_embeddings(model, problem, x, derive("noise"))
    g = (moved.phi - problem.phi) * math.sqrt(problem.d) / x
    assert same is model
    assert moved.table is problem.table
    assert (np.abs(g).max(axis=1) > 0).all()
    assert abs((g**2).mean() - 1) < 4 * math.sqrt(2 / g.size)
    assert not np.array_equal(moved.U, problem.U)


def test_longer_prompts_are_asked_of_the_same_model() -> None:
    cell = dataclasses.replace(TINY, disturbance="length", amounts=(3, 32, 200), seeds=(0,))
    result = cell.run()
    # Three tokens are s, r and EOS: with less noise the recall cannot fall where attention is right.
    assert result["recall"][0] >= result["recall"][1] == result["accuracy"]
    assert result["recall"][2] == result["accuracy"]  # beta leaves so little that 200 tokens do not show


def test_the_same_spec_gives_the_same_result_and_8_is_8_point_0() -> None:
    cell = dataclasses.replace(TINY, disturbance="bits", amounts=(8,), draws=1)
    assert cell.key == dataclasses.replace(cell, amounts=(8.0,)).key
    assert json.dumps(cell.run()) == json.dumps(cell.run())
    more = dataclasses.replace(TINY, amounts=(0.1, 0.3), seeds=(0,)).run()
    assert dataclasses.replace(TINY, amounts=(0.3,), seeds=(0,)).run()["recall"] == more["recall"][1:]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"disturbance": "weight"}, "unknown disturbance 'weight'; did you mean 'weights'"),
        ({"builder": "value"}, "unknown builder 'value'; did you mean 'values'"),
        ({"amounts": (0.1, -0.1)}, r"amounts=-0\.1 must be at least 0"),
        ({"amounts": (math.nan,)}, "amounts=nan must be at least 0"),
        ({"disturbance": "embeddings", "amounts": (math.inf,)}, "amounts=inf must be at least 0"),
        ({"disturbance": "bits", "amounts": (0,)}, r"amounts=0\.0 must be at least 1 and at most 16"),
        ({"disturbance": "bits", "amounts": (2.5,)}, r"amounts=2\.5 must be a whole number"),
        ({"disturbance": "bits", "amounts": (17,)}, r"amounts=17\.0 must be at least 1 and at most 16"),
        ({"disturbance": "length", "amounts": (2,)}, r"amounts=2\.0 must be at least 3"),
        ({"disturbance": "length", "amounts": (math.inf,)}, "amounts=inf must be at least 3"),
        ({"amounts": ()}, "amounts is empty"),
        ({"seeds": ()}, "seeds is empty"),
        ({"draws": 0}, "draws=0 must be at least 1"),
        ({"d": 0}, "d=0 must be at least 1"),
        ({"S": 0}, "S=0 must be at least 1"),
        ({"per_head": -1}, "per_head=-1 must be at least 0"),
        ({"builder": "attention"}, "d_h=0 must be at least 1"),
        ({"builder": "selected"}, "m=0 must be at least 1"),
    ],
)
def test_what_has_no_meaning_is_refused(changes: dict, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        dataclasses.replace(TINY, **changes)


def test_the_figure_draws_a_line_for_each_construction_and_names_its_sizes() -> None:
    wanted = figure("robustness")
    cells = wanted.cells(wanted.grid("quick"))
    assert len(cells) == 4 * len(DISTURBANCES)
    found = {"accuracy": 1.0, "n_params": 4096}
    rows = [
        cell.spec | found | {name: [0.5] * len(cell.spec["amounts"]) for name in ("recall", "recall_min", "recall_max")}
        for cell in cells
    ]
    canvas = wanted.plot(rows)
    assert [len(axes.lines) for axes in canvas.axes] == [4] * len(DISTURBANCES)
    (legend,) = canvas.legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert [text.split(" ")[0] for text in texts] == ["attention", "attention-mlp", "values", "selected"]
    assert not any("undisturbed" in text for text in texts)
    (legend,) = wanted.plot([row | {"accuracy": 0.9} for row in rows]).legends
    assert all("90.0% undisturbed" in text.get_text() for text in legend.get_texts())
    assert wanted.fits(rows) == []
    # Rows of one panel alone can be drawn: the others stay empty.
    assert [len(axes.lines) for axes in wanted.plot(rows[:1]).axes] == [1, 0, 0, 0]

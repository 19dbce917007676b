"""Memories with real embeddings: what a cell finds, and judges that can say no."""

from typing import Any

import pytest

from facthold.lab.registry import claim
from facthold.studies.lm import embeddings_claims
from facthold.studies.lm.embeddings import (
    ALIKE,
    ANY,
    OUTER,
    RANDOM,
    RAW,
    REAL,
    TRAINED,
    WHITENED,
    LmKeys,
    LmTrainedKeys,
)
from facthold.studies.lm.embeddings_view import lines

SEEDS = (0, 1, 2, 3)


def row(
    layer: int = 6, outer: float = 100, whitened: float = 800, any_real: float = 340, **more: Any
) -> dict[str, Any]:
    """Numbers over four seeds, with some spread; random embeddings have 8,000, and 350 by any matrix."""

    def around(N: float) -> list[float]:
        return [N * f for f in (0.97, 1.0, 1.03, 1.01)]

    found = {
        REAL: {RAW: [0] * 4, OUTER: around(outer), WHITENED: around(whitened), ANY: around(any_real)},
        ALIKE: {OUTER: around(outer), WHITENED: around(whitened), ANY: [350.0] * 4},
        RANDOM: {OUTER: [None] * 4, ANY: [348, 350, 352, 351]},
    }
    base = {"layer": layer, "found": found, "predicted": 120.0, "predicted_random": 8000.0, "seeds": SEEDS}
    return base | {"keys": 70.0, "values": 57.0, "whole": 2.5, "d": 576, "offered": 7680, "sub": 48} | more


def trained(layer: int = 6, real: float = 320.0) -> dict[str, Any]:
    """What training recalls over four seeds; of random embeddings it is 330 or so."""
    found = {REAL: [real * f for f in (0.98, 1.0, 1.02, 1.0)], RANDOM: [332, 330, 328, 331]}
    base = {"layer": layer, "seeds": SEEDS, "sub": 48, "offered": 2048}
    return base | {"found": {source: {TRAINED: numbers} for source, numbers in found.items()}}


def test_the_claim_on_trained_memories_holds_and_fails() -> None:
    judge = claim("lm-trained").judge
    assert judge([trained(6), trained(12)]).verdict == "holds"
    assert judge([trained(6), trained(12, real=250)]).verdict == "fails"  # one layer is enough
    assert judge([trained(6, real=330 * embeddings_claims.KEPT)]).verdict == "not decided"
    assert "trained in 48 directions: N 320 (314 to 326), random ones 330" in lines([trained()])[0]


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("lm-effective-dimension", {}, {"outer": 20}),
        ("lm-effective-dimension", {"outer": 200}, {"outer": 400}),
        ("lm-effective-dimension", {}, {"predicted_random": 500.0}),  # d would do
        ("lm-whitening", {}, {"whitened": 150}),
        ("lm-any-matrix", {}, {"any_real": 250}),
    ],
)
def test_claims_hold_and_fail(name: str, good: dict[str, Any], bad: dict[str, Any]) -> None:
    judge = claim(name).judge
    assert judge([row(6, **good), row(12, **good)]).verdict == "holds"
    assert judge([row(6, **good), row(12, **bad)]).verdict == "fails"  # one layer is enough


def test_what_lies_beyond_the_search_decides_nothing() -> None:
    beyond = row()
    beyond["found"][REAL][WHITENED][2] = None
    found = claim("lm-whitening").judge([row(), beyond])
    assert found.verdict == "not decided"
    assert "beyond the search" in found.measured
    assert "whitened at least 776" in lines([beyond])[0]


def test_an_interval_over_the_bound_is_not_decided() -> None:
    assert claim("lm-any-matrix").judge([row(any_real=350 * embeddings_claims.KEPT)]).verdict == "not decided"


def test_a_cell_finds_more_whitened_than_as_they_are() -> None:
    found = LmKeys(layer=2, names=200, sub=6, seeds=(0,)).run()
    real = found["found"][REAL]
    assert real[RAW][0] < 0.2 * real[OUTER][0]
    assert real[WHITENED][0] is None or real[WHITENED][0] > 2 * real[OUTER][0]
    assert found["predicted"] < 0.5 * found["predicted_random"]
    assert 0.5 < real[OUTER][0] / found["predicted"] < 2
    assert 0.7 < real[ANY][0] / found["found"][RANDOM][ANY][0] < 1.4


def test_training_recalls_most_of_what_any_matrix_does() -> None:
    """No training finds more than there is, up to the hundredth that it may miss."""
    sizes: dict[str, Any] = {"layer": 2, "names": 200, "sub": 8, "seeds": (0,)}
    found, most = LmTrainedKeys(**sizes).run()["found"], LmKeys(**sizes).run()["found"]
    for source in (REAL, RANDOM):
        every = most[source][ANY][0]
        assert embeddings_claims.KEPT * every <= found[source][TRAINED][0] <= 1.1 * every

"""Constructions: the smallest size that is enough, and what one prompt does in them."""

import json
from typing import Any

import jax
import numpy as np
import pytest

from facthold.facts.table import random_share, random_table
from facthold.studies.constructions.built import Attended, BuiltSize, constructions

TINY = BuiltSize(builder="values", S=4, R=4, D=2, guess=6, seeds=(0,))


def test_a_share_keeps_the_same_part_of_each_relation() -> None:
    table = random_table(16, 6, 4, key=jax.random.key(0))
    half = random_share(table, 0.5, key=jax.random.key(1))
    assert np.bincount(half.relations).tolist() == [8] * 6
    assert (half.S, half.R, half.A) == (table.S, table.R, table.A)
    assert (table.matrix[half.subjects, half.relations] == half.answers).all()
    assert len(random_share(table, 0.04, key=jax.random.key(1))) == 6
    with pytest.raises(ValueError, match=r"share=0\.001 leaves nothing of 16 facts of a relation"):
        random_share(table, 0.001, key=jax.random.key(1))
    with pytest.raises(ValueError, match=r"share=1\.5"):
        random_share(table, 1.5, key=jax.random.key(1))


def test_a_cell_finds_the_size_at_which_the_facts_are_recalled() -> None:
    result = json.loads(json.dumps(TINY.run()))
    assert result["status"] == "found"
    size = int(result["size"])
    model, problem, *_ = TINY.build(size, 0)
    assert result["n_params"] == model.n_params == 4 * 8 * size
    assert result["facts"] == len(problem.table) == 16
    probes = dict(result["per_seed"][0]["probes"])
    assert probes[size] >= TINY.goal
    assert max(x for x, accuracy in probes.items() if accuracy < TINY.goal) < size


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"builder": "valeus"}, "did you mean 'values'"),
        ({"d": 8}, "d=8 is what is searched"),
        ({"builder": "selected"}, "d=0 must be given: m is searched"),
        ({"goal": 0.0}, "goal=0.0"),
        ({"share": 2.0}, "share=2.0"),
        ({"seeds": ()}, "seeds is empty"),
        ({"draws": 0}, "draws=0"),
    ],
)
def test_cells_that_cannot_be_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BuiltSize(**({"builder": "values", "S": 4, "R": 4, "D": 2} | fields))


def test_constructions_are_the_recipes_that_take_a_given_problem() -> None:
    assert {recipe.size for recipe in constructions().values()} == {"d", "d_h", "m"}
    assert "train" not in constructions()


def test_what_the_heads_add_sums_to_the_scores() -> None:
    for cell in (
        Attended(builder="attention", S=3, R=3, D=2, d=256, d_h=64, per_head=1, fact=4),
        Attended(builder="attention-mlp", S=3, R=3, D=2, d=257, d_h=257, m=256, per_head=1, fact=4),
    ):
        seen = json.loads(json.dumps(cell.run()))
        np.testing.assert_allclose(np.sum(seen["added"], axis=0), seen["scores"], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(np.sum(seen["attention"], axis=1), 1, rtol=1e-5)
        assert seen["tokens"][-1] == "EOS"
        assert {"s1", "r1"} <= set(seen["tokens"])
        # The head of s1 attends to s1, that of r1 to r1, all others to EOS.
        looked_at = [seen["tokens"][i] for i in np.argmax(seen["attention"], axis=1)]
        assert sorted(looked_at) == sorted(["s1", "r1", *["EOS"] * (len(looked_at) - 2)])
    with pytest.raises(ValueError, match="fact=9"):
        Attended(builder="attention", S=3, R=3, D=2, d=64, d_h=32, fact=9)

"""Weights that recipes say do not depend on what is stored: exactly those."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import numpy as np
import pytest

from facthold.facts.problem import seeded_recall, seeded_table
from facthold.memory.associations import seeded_problem
from facthold.models.saving import to_numpy
from facthold.recipes import fact_recipe, fact_recipes, make_memory, memory_recipe, memory_recipes
from facthold.recipes.base import Sizes

BUILT = [name for name, recipe in memory_recipes().items() if recipe.build and recipe.in_ladder and name != "quantised"]


@pytest.mark.parametrize("name", BUILT)
def test_weights_said_to_be_fixed_are_those_that_do_not_depend_on_what_is_stored(name: str) -> None:
    recipe, d = memory_recipe(name), 6
    first = seeded_problem(8, 0, d, map="uniform")
    one, other = (
        to_numpy(make_memory(recipe, p, 0 if recipe.m(d, 1) == 0 else 4, 0)) for p in (first, _remapped(first))
    )
    same = {key for key in one if np.array_equal(one[key], other[key])}
    assert same == set(recipe.fixed)


def _remapped(problem: Any) -> Any:
    """The same embeddings with another map."""
    return eqx.tree_at(lambda p: p.f, problem, (problem.f + 1) % problem.M)


SIZES = [
    ("attention-full", 64, Sizes()), ("values", 24, Sizes()), ("values-ridge", 24, Sizes()),
    ("selected", 12, Sizes(m=16)), ("selected-ridge", 12, Sizes(m=16)), ("selected-convex", 12, Sizes(m=16)),
    ("attention-mlp", 65, Sizes(m=32)), ("attention", 128, Sizes(d_h=16)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "d", "size"), SIZES)
def test_weights_of_built_transformers_that_do_not_depend_on_the_answers(name: str, d: int, size: Sizes) -> None:
    problem = seeded_recall(seeded_table("random", 4, 4, 3, 0), d, 0)
    other = replace(problem, table=seeded_table("random", 4, 4, 3, 1))
    one, two = (to_numpy(fact_recipe(name).construct(p, size, 0)) for p in (problem, other))
    assert {key for key in one if np.array_equal(one[key], two[key])} == set(fact_recipe(name).fixed)


def test_every_construction_is_among_them() -> None:
    assert {name for name, *_ in SIZES} == {name for name, recipe in fact_recipes().items() if recipe.build}

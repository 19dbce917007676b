"""What a recipe says of itself is what its models are: parameters, sizes, refusals."""

import subprocess
import sys

import jax
import numpy as np
import pytest

from facthold.facts.problem import seeded_recall, seeded_table
from facthold.facts.table import FactTable
from facthold.memory.associations import seeded_problem
from facthold.models.judge import judge_table
from facthold.recipes import (
    check_recipe,
    fact_recipe,
    fact_recipes,
    make_memory,
    memory_recipe,
    memory_recipes,
    recipes,
)
from facthold.recipes.base import LINEAR, LOW_RANK, MLP, TRANSFORMER, FactRecipe, Question, Sizes
from facthold.recipes.facts import train_shape, trained
from facthold.train.protocols import protocol

CONSTRUCTED = [name for name, recipe in memory_recipes().items() if recipe.build and not recipe.protocol]
BUILT = [name for name, recipe in fact_recipes().items() if recipe.build is not None]


def test_every_recipe_says_what_it_is() -> None:
    assert set(recipes()) == {*memory_recipes(), *fact_recipes()}
    for name, recipe in recipes().items():
        assert recipe.name == name
        assert recipe.place
        assert recipe.outline
        assert recipe.family in (LINEAR, LOW_RANK, MLP, TRANSFORMER)


@pytest.mark.parametrize("name", CONSTRUCTED)
def test_a_memory_has_the_parameters_that_its_recipe_counts(name: str) -> None:
    recipe = memory_recipe(name)
    if recipe.levels and recipe.family == MLP:
        pytest.skip("trained for seconds; the memory is an MLP as all others")
    d, m = 8, recipe.m(8, 2)
    recipe.check(d, m)
    one, two = (make_memory(recipe, seeded_problem(6, 0, d, None), m, 0) for _ in range(2))
    assert one.n_params == recipe.n_params(d, m)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        np.testing.assert_array_equal(a, b)  # its randomness is of its seed alone


@pytest.mark.parametrize(
    ("name", "d", "m", "message"),
    [
        ("outer-product", 8, 4, "takes no m"),
        ("low-rank", 8, 0, "low-rank has a rank to choose: give m, at least 1$"),
        ("low-rank", 8, 9, "above d=8"),
        ("tangent-kernel", 8, 5, "take m=6"),
        ("outer-product", 0, 0, "d=0 must be at least 1"),
    ],
)
def test_sizes_that_a_memory_cannot_have_are_refused(name: str, d: int, m: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        memory_recipe(name).check(d, m)


@pytest.mark.parametrize("name", BUILT)
def test_a_transformer_has_the_shape_that_its_recipe_plans(name: str) -> None:
    recipe = fact_recipe(name)
    assert recipe.sizing is not None
    question = Question(6, 3, 4)
    size = max(24, recipe.sizing.least(question))
    d = recipe.sizing.d(question) or size
    made = recipe.make(seeded_table("random", 6, 3, 4, 0), d, size, per_head=recipe.sizing.per_head)
    shape = recipe.sizing.shape(question, size)
    assert made.model.n_params == shape.n_params
    assert (made.model.d, made.model.m) == (shape.d, shape.m)
    assert getattr(shape, recipe.searched) == size


def test_gated_makes_its_own_problem_and_holds_its_facts() -> None:
    recipe, table = fact_recipe("gated"), seeded_table("random", 6, 3, 4, 0)
    made = recipe.make(table, 60, 24, n_noise=8, T=10)
    assert made.model.m == 24
    assert (made.problem.n_noise, made.problem.T) == (8, 10)
    assert judge_table(*made[:2]).recalled.all()
    with pytest.raises(ValueError, match="m=0 is too few"):
        recipe.make(table, 60, 0)
    with pytest.raises(ValueError, match="recipe='gated' makes its own embeddings"):
        recipe.construct(seeded_recall(table, 60, 0), Sizes(m=4), 0)


def test_training_says_how_far_it_is_and_what_it_reached() -> None:
    messages: list[str] = []
    made = trained(seeded_table("random", 4, 2, 2, 0), 8, protocol("transformer-smoke"), 0, messages.append)
    assert made.model.n_params == train_shape(8).n_params
    assert made.accuracy is not None
    assert 0 <= made.accuracy <= 1
    assert all(message.startswith("training at d=8: ") for message in messages)
    assert messages
    with pytest.raises(ValueError, match="d=6 must be a multiple of 4"):
        fact_recipe("train").make(seeded_table("random", 4, 2, 2, 0), 6, 6)


def test_tables_are_refused_by_the_recipes_that_cannot_hold_them() -> None:
    xor = FactTable.from_rows([("s", "p", "a"), ("s", "q", "b"), ("t", "p", "b"), ("t", "q", "a")])
    refusing = {name for name, recipe in fact_recipes().items() if recipe.refuses(xor)}
    assert refusing == {"attention", "attention-full", "values", "values-ridge"}
    assert not [name for name, recipe in fact_recipes().items() if recipe.refuses(seeded_table("random", 4, 2, 2, 0))]


def test_the_question_of_a_table_counts_what_is_asked() -> None:
    """Answers: 4 in one relation and 1 in the other, over 4 facts each: 2^(mean log2) = 2."""
    rows = [(f"s{i}", r, f"{r}{i if r == 'p' else 0}") for i in range(4) for r in "pq"]
    assert Question.of(FactTable.from_rows(rows), 0.9, noise=5) == Question(4, 2, 2, 0.9, known=8, noise=5)
    assert Question(4, 2, 2).tokens == 13
    assert Question(4, 2, 2, noise=5).tokens == 12


def test_an_unknown_recipe_is_named_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="unknown recipe 'selecte'; did you mean 'selected'"):
        fact_recipe("selecte")
    with pytest.raises(ValueError, match="unknown recipe 'layerwis'; did you mean 'layerwise'"):
        memory_recipe("layerwis")


def test_a_recipe_of_the_other_family_is_known_as_such() -> None:
    with pytest.raises(ValueError, match=r"selected makes transformers; take a recipe of memories: .*layerwise"):
        memory_recipe("selected")
    with pytest.raises(ValueError, match=r"outer-product makes memories; take a recipe of transformers: .*, auto$"):
        check_recipe("outer-product", FactRecipe, "auto")


def test_recipes_load_nothing_slow() -> None:
    code = (
        "import sys; from facthold.recipes import recipes; recipes(); "
        "print(*(m for m in ('jax', 'matplotlib', 'scipy.stats', 'scipy.optimize') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""

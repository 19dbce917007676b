"""All that is known of each way to make a memory or a transformer: ``fh.recipes()["selected"].outline``.

A recipe is an object at the top level of a module of this package, or of a file of one's own (`_util.plugins`).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from facthold import train
from facthold._util.arguments import checked
from facthold._util.errors import check_one_of
from facthold._util.keys import derive
from facthold._util.lazy import callable_package
from facthold._util.plugins import defined
from facthold.recipes.base import FactRecipe, MemoryRecipe, Recipe
from facthold.train.protocols import Protocol

if TYPE_CHECKING:
    from facthold.memory.associations import Problem
    from facthold.models.memory import Memory
    from facthold.train.engine import Member

MAKES: Mapping[type[Recipe], str] = {MemoryRecipe: "memories", FactRecipe: "transformers"}
ORDER = ("base", "memories", "facts")
callable_package(__name__, __name__, "recipes")


def recipes() -> Mapping[str, Recipe]:
    """Every recipe by name."""
    return defined("facthold.recipes", Recipe)


def memory_recipes() -> Mapping[str, MemoryRecipe]:
    """Ways to make an associative memory, by name."""
    return defined("facthold.recipes", MemoryRecipe)


def fact_recipes() -> Mapping[str, FactRecipe]:
    """Ways to make a transformer that knows a table of facts, by name."""
    return defined("facthold.recipes", FactRecipe)


def check_recipe(name: str, makes: type[Recipe], *others: str) -> None:
    """Refuse a name that no recipe for memories, or for transformers, has, and that is none of these ``others``."""
    known = [*defined("facthold.recipes", makes), *others]
    if isinstance(name, str) and name not in known and (other := recipes().get(name)) is not None:
        raise ValueError(f"{name} makes {MAKES[type(other)]}; take a recipe of {MAKES[makes]}: {', '.join(known)}")
    check_one_of("recipe", name, known)


def memory_recipe(name: str) -> MemoryRecipe:
    """The memory recipe with this name."""
    check_recipe(name, MemoryRecipe)
    return memory_recipes()[name]


def fact_recipe(name: str) -> FactRecipe:
    """The fact recipe with this name."""
    check_recipe(name, FactRecipe)
    return fact_recipes()[name]


@checked
def make_memory(recipe: MemoryRecipe | str, problem: "Problem", m: int = 0, seed: int = 0) -> "Memory":
    """A memory for ``problem`` by a recipe or its name: ``fh.make_memory("outer-product", problem)``.

    Its randomness comes from the seed, the size and the recipe alone.
    """
    recipe = memory_recipe(recipe) if isinstance(recipe, str) else recipe
    recipe.check_stores()
    recipe.check(problem.d, m)
    if recipe.build is None:
        return train_memory(recipe, problem, m, seed)
    content = recipe.stream or (lambda seed, d, m: ("build", seed, d, m, recipe.name))
    return recipe.build(problem, m, derive(*content(seed, problem.d, m)))


def train_memory(
    recipe: MemoryRecipe, problem: "Problem", m: int, seed: int, protocol: Protocol | None = None
) -> "Memory":
    """A memory trained by the recipe's protocol, or by another one."""
    protocol = protocol or recipe.protocol
    assert protocol is not None
    return train.engine.fit([training_member(recipe, problem, m, seed)], protocol)[0].model


def training_member(recipe: MemoryRecipe, problem: "Problem", m: int, seed: int) -> "Member":
    """The start of training ``problem`` with this seed."""
    from facthold.models.memory import initial_memory

    content = (seed, problem.d, m, recipe.name)
    bias = bool(recipe.protocol and recipe.protocol.bias)
    start = initial_memory(recipe.family, problem.d, m, key=derive("init", *content), bias=bias)
    return train.engine.Member(start, train.tasks.StoreAssociations.of(problem), derive("train", *content))

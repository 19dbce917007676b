"""Make one memory by any method: by its construction, or by training it."""

from facthold._util.keys import derive
from facthold.memory.associations import Problem
from facthold.models.memory import Memory
from facthold.recipes.methods import Method
from facthold.train import Member, StoreAssociations, fit


def make_memory(way: Method, problem: Problem, m: int, seed: int) -> Memory:
    """A memory for ``problem``. Its randomness comes from the seed, the size and the method alone."""
    content = (seed, problem.d, m, way.name)
    if way.build is not None:
        return way.build(problem, m, derive("build", *content))
    assert way.protocol is not None
    return fit([training_member(way, problem, m, seed)], way.protocol)[0].model


def training_member(way: Method, problem: Problem, m: int, seed: int) -> Member:
    """The start of training ``problem`` with this seed."""
    content = (seed, problem.d, m, way.name)
    initial = way.initial(problem.d, m, derive("init", *content))
    return Member(initial, StoreAssociations.of(problem), derive("train", *content))

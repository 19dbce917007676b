"""The gradient cell: theorem 1's constructions against one gradient step on the correlation loss."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from facthold._util.errors import check_positive
from facthold._util.keys import derive
from facthold.construct.linear import low_rank, outer_product
from facthold.lab.cells import Cell, Result
from facthold.memory.associations import Problem
from facthold.models.memory import LinearMemory, LowRankMemory, Memory
from facthold.studies.memories.capacity import nested_problem


@dataclass(frozen=True, kw_only=True)
class GradientStep(Cell):
    """Largest difference of weights between a construction and one step from zero, in float64.

    With m = 0 all of W takes the step. With m > 0 it is W_1 that does, of size 1/m, and W_2 stays at the
    construction's Gaussian rows. ``rounding`` bounds what two orders of summation can differ by: each is within
    (terms) * eps/2 * (sum of the terms' sizes) of the exact sum, with at most N + d terms.
    """

    kind: ClassVar[str] = "gradient-step"

    N: int
    d: int
    m: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive(N=self.N, d=self.d)

    def run(self) -> Result:
        with jax.enable_x64(True):
            p = nested_problem(self.N, self.seed, self.d)
            problem = Problem(jnp.asarray(p.E, jnp.float64), jnp.asarray(p.U, jnp.float64), p.f)
            found = self._low_rank(problem) if self.m else self._full(problem)
        built, step, sizes = map(np.asarray, found)
        return {
            "difference": float(np.abs(built - step).max()),
            "rounding": float((self.N + self.d) * np.finfo(np.float64).eps * sizes.max()),
            "largest": float(np.abs(built).max()),
        }

    def _full(self, problem: Problem) -> tuple[jax.Array, jax.Array, jax.Array]:
        gradient = jax.grad(lambda W: correlation_loss(LinearMemory(W), problem))
        sizes = jnp.abs(problem.targets).T @ jnp.abs(problem.E)
        return outer_product(problem).W, -gradient(jnp.zeros((self.d, self.d))), sizes

    def _low_rank(self, problem: Problem) -> tuple[jax.Array, jax.Array, jax.Array]:
        built = low_rank(problem, self.m, key=derive("gradient-step", self.seed, self.d, self.m))
        gradient = jax.grad(lambda W_1: correlation_loss(LowRankMemory(W_1, built.W_2), problem))
        sizes = jnp.abs(built.W_2) @ (jnp.abs(problem.E).T @ jnp.abs(problem.targets)) / self.m
        return built.W_1, -gradient(jnp.zeros((self.m, self.d))) / self.m, sizes


def correlation_loss(memory: Memory, problem: Problem) -> jax.Array:
    """L = -sum_x u_{f*(x)}^T F(e_x) (section 3.1)."""
    return -(problem.targets * memory(problem.E)).sum()

"""The margin cell: moments of the outer product's margin over many independent draws of the embeddings."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from facthold._util.errors import check_positive
from facthold._util.keys import derive
from facthold.lab.cells import Cell, Result
from facthold.memory.embeddings import host_generator

BLOCK_NUMBERS = 1 << 21
"""Random numbers held at once."""


@dataclass(frozen=True, kw_only=True)
class Margins(Cell):
    """Mean and variance of gamma_xy for f*(x) = x on the sphere, in float64.

    The margins of one draw are correlated. So each draw of all embeddings gives one margin, that of x = 0
    against the last output, and the standard errors are those of independent samples.
    """

    kind: ClassVar[str] = "margins"

    N: int
    d: int
    in_image: bool
    """Whether y is f*(z) of another input, or an output that no input maps to."""
    n_draws: int
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive(N=self.N, d=self.d, n_draws=self.n_draws)
        if self.N < 2:
            raise ValueError(f"N={self.N} leaves no other input; take N >= 2")
        if self.n_draws < 2:
            raise ValueError(f"n_draws={self.n_draws} has no variance; take n_draws >= 2")

    @property
    def cost(self) -> float:
        return 2.0

    @property
    def label(self) -> str:
        return f"margins at N={self.N} d={self.d}"

    @property
    def n_outputs(self) -> int:
        return self.N if self.in_image else self.N + 1

    def run(self) -> Result:
        generator = host_generator(derive("margins", self.seed, self.N, self.d, int(self.in_image)))
        block = max(1, BLOCK_NUMBERS // ((self.N + self.n_outputs) * self.d))
        sizes = [min(block, self.n_draws - i) for i in range(0, self.n_draws, block)]
        gamma = np.concatenate([margin_samples(*self.draw(n, generator)) for n in sizes])
        mean, variance = float(gamma.mean()), float(gamma.var(ddof=1))
        fourth = float(((gamma - mean) ** 4).mean())
        return {
            "mean": mean, "mean_error": float(np.sqrt(variance / self.n_draws)),
            "variance": variance, "variance_error": float(np.sqrt((fourth - variance**2) / self.n_draws)),
        }  # fmt: skip

    def draw(self, n: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """n independent tables E (n, N, d) and U (n, M, d); where y is outside the image it is the last row of U."""
        E = _on_sphere(generator.standard_normal((n, self.N, self.d)))
        return E, _on_sphere(generator.standard_normal((n, self.n_outputs, self.d)))


def margin_samples(E: Float[np.ndarray, "n N d"], U: Float[np.ndarray, "n M d"]) -> Float[np.ndarray, " n"]:
    """gamma_xy = sum_z (u_x - u_y)^T u_z e_z^T e_x with x = 0 and y = M - 1: one margin a draw."""
    N = E.shape[1]
    by_output = np.einsum("nzd,nd->nz", U[:, :N], U[:, 0] - U[:, -1])
    by_input = np.einsum("nzd,nd->nz", E, E[:, 0])
    return np.einsum("nz,nz->n", by_output, by_input)


def _on_sphere(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)

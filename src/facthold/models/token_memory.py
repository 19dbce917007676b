"""A memory with the embeddings of its tokens: any of the three may be trained (slides, optimisers as schemes)."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from facthold._util.errors import find

TINY = 1e-6  # under the root of the norm, as in the public code
PARTS = {"W": ("W",), "all": ("W", "E", "U"), "embeddings": ("E", "U")}
"""What is trained, by name. Embeddings alone have no W: the public code puts a ReLU in its place."""


def unit(x: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
    """Rows of norm one: the public code's layer norm."""
    return x / jnp.sqrt((x**2).sum(axis=-1, keepdims=True) + TINY)


class TokenMemory(eqx.Module):
    """Scores u_y^T W e_z of token z; with ``norm`` W e_z has norm one before it is read. Parts may be left out, where
    `eqx.combine` puts them in."""

    W: Float[Array, "d d"] | None
    E: Float[Array, "N d"] | None
    U: Float[Array, "M d"] | None
    norm: bool = eqx.field(static=True, default=False)

    def scores(self, z: Int[Array, " n"]) -> Float[Array, "n M"]:
        if self.E is None or self.U is None:
            raise ValueError("a TokenMemory without embeddings has no scores; combine it with its other parts first")
        x = self.E[z]
        x = jax.nn.relu(x) if self.W is None else x @ self.W.T
        return (unit(x) if self.norm else x) @ self.U.T

    def split(self, trained: str) -> tuple["TokenMemory", "TokenMemory"]:
        """The parts that are trained, and the others: 'W', 'all' or 'embeddings'."""
        names = find("trained part", trained, PARTS)
        if trained == "embeddings" and self.W is not None:
            raise ValueError("trained='embeddings' takes a memory without W, as a ReLU stands in its place")

        def keep(mine: bool) -> "TokenMemory":
            parts: dict[str, Any] = {n: getattr(self, n) if (n in names) == mine else None for n in ("W", "E", "U")}
            return TokenMemory(**parts, norm=self.norm)

        return keep(True), keep(False)

    def times(self, of_W: float, of_embeddings: float) -> "TokenMemory":
        """The parts that are there, each times its number."""
        factors = {"W": of_W, "E": of_embeddings, "U": of_embeddings}
        parts: dict[str, Any] = {n: None if (x := getattr(self, n)) is None else c * x for n, c in factors.items()}
        return TokenMemory(**parts, norm=self.norm)

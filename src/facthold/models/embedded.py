"""Models together with the embeddings of their tokens, so that any part of both can be trained.

A part that is left out (None) is one that another tree has: `split` takes a model apart into what is trained and what
stays, and `eqx.combine` puts both together again.
"""

from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from facthold._util.errors import find
from facthold.models.memory import Memory
from facthold.models.transformer import Transformer

Model = TypeVar("Model", Memory, Transformer)
TRAINED = {"all": ("weights", "others", "U"), "weights": ("weights",), "subjects": ("subjects",)}
"""What is trained of a transformer, by name: all, the weights with embeddings as they are, or those of subjects."""


def roomy(model: Model, like: Model) -> Model:
    """The same function with zeros added, up to the sizes of another model: dimensions, head dimensions and neurons.

    Where the embeddings are padded with zeros too, all gradients of these zeros vanish, so that training never moves
    them: models of nearly the same size share a compiled loop, and none of them gains by it.
    """

    def padded(array: Array, larger: Array) -> Array:
        return jnp.asarray(np.pad(array, [(0, n - m) for m, n in zip(array.shape, larger.shape, strict=True)]))

    return jax.tree.map(padded, model, like)


class EmbeddedMemory(eqx.Module):
    """A memory F with the embeddings of inputs and outputs: scores u_y^T F(e_x)."""

    F: Memory
    E: Float[Array, "N d"]
    U: Float[Array, "M d"]

    @property
    def n_embeddings(self) -> int:
        """Numbers in the embeddings."""
        return self.E.size + self.U.size

    def scores(self) -> Float[Array, "N M"]:
        return self.F.logits(self.E, self.U)


class EmbeddedTransformer(eqx.Module):
    """A transformer with the embeddings of the tokens that stand in prompts, and of the answers, U. The first rows of
    the former may stand apart, as ``subjects``, so that they can be trained alone."""

    weights: Transformer | None
    others: Float[Array, "tokens d"] | None
    U: Float[Array, "A d"] | None
    subjects: Float[Array, "S d"] | None = None

    @property
    def phi(self) -> Float[Array, "tokens d"]:
        """Embeddings of the tokens that can stand in a prompt."""
        if self.others is None:
            raise ValueError("embeddings are left out; combine this model with its other parts first")
        return self.others if self.subjects is None else jnp.concatenate([self.subjects, self.others])

    def for_subjects(self, subjects: Float[Array, "S d"], kept: slice) -> "EmbeddedTransformer":
        """The same with other subjects, which stand apart, and with those of its tokens that are ``kept``."""
        return EmbeddedTransformer(self.weights, self.phi[kept], self.U, subjects)

    def split(self, trained: str) -> tuple["EmbeddedTransformer", "EmbeddedTransformer"]:
        """The parts that are trained, and the others: 'all', 'weights' or 'subjects'."""
        names = find("trained part", trained, TRAINED)
        if ("subjects" in names) != (self.subjects is not None):
            raise ValueError(f"trained={trained!r}: subjects stand apart where they are trained alone, and only there")
        return self._kept(names, True), self._kept(names, False)

    def _kept(self, names: tuple[str, ...], mine: bool) -> "EmbeddedTransformer":
        parts: dict[str, Any] = {
            name: part if (name in names) == mine else jax.tree.map(lambda leaf: None, part)
            for name, part in vars(self).items()
        }
        return EmbeddedTransformer(**parts)

"""Associative memories F: R^d -> R^d (section 3). Decoding is arg max_y u_y^T F(e_x)."""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from facthold._util.draws import lecun_normal
from facthold._util.errors import check_positive
from facthold.memory.activations import RELU, Activation


class Memory(eqx.Module):
    """A map F from inputs to d-dimensional outputs, applied to any number of rows at once."""

    @abstractmethod
    def __call__(self, x: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
        """F(x) for each row."""

    @property
    def n_params(self) -> int:
        """Parameters as the paper counts them: every weight of F, the embeddings left out."""
        return sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(self, eqx.is_array)))

    def logits(self, x: Float[Array, "*n d"], U: Float[Array, "M d"]) -> Float[Array, "*n M"]:
        """Scores u_y^T F(x) of all outputs."""
        return self(x) @ U.T


class LinearMemory(Memory):
    """F(x) = W x (section 3.1): ``fh.LinearMemory(W)(E) @ U.T`` are the scores of all outputs."""

    W: Float[Array, "d d"]

    def __call__(self, x: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
        return x @ self.W.T

    @classmethod
    def init(cls, d: int, *, key: PRNGKeyArray) -> "LinearMemory":
        """Standard initialisation: entries of variance 1/d."""
        check_positive(d=d)
        return cls(lecun_normal(key, (d, d)))


class LowRankMemory(Memory):
    """F(x) = W_1^T W_2 x with W_1, W_2 of shape (m, d), as key-query and output-value matrices are (slides).

    ``fh.LowRankMemory.init(d=64, m=16, key=fh.derive("memory", 0))``
    """

    W_1: Float[Array, "m d"]
    W_2: Float[Array, "m d"]

    def __call__(self, x: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
        return x @ self.W_2.T @ self.W_1

    @classmethod
    def init(cls, d: int, m: int, *, key: PRNGKeyArray) -> "LowRankMemory":
        """Standard initialisation: W_2 of variance 1/d, W_1 of variance 1/m (each by its fan-in)."""
        check_positive(d=d, m=m)
        k_1, k_2 = jax.random.split(key)
        return cls(lecun_normal(k_1, (d, m)).T, lecun_normal(k_2, (m, d)))


class MLPMemory(Memory):
    """F(x) = V^T sigma(W x + b) with V, W of shape (m, d) (section 3.2). The paper's text has no b.

    ``fh.MLPMemory.init(d=64, m=256, key=fh.derive("memory", 0))``
    """

    W: Float[Array, "m d"]
    V: Float[Array, "m d"]
    b: Float[Array, " m"] | None = None
    sigma: Activation = eqx.field(static=True, default=RELU)

    def features(self, x: Float[Array, "*n d"]) -> Float[Array, "*n m"]:
        """sigma(W x + b), what the readout V sees."""
        z = x @ self.W.T
        return self.sigma(z if self.b is None else z + self.b)

    def __call__(self, x: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
        return self.features(x) @ self.V

    @classmethod
    def init(cls, d: int, m: int, *, key: PRNGKeyArray, bias: bool = False, sigma: Activation = RELU) -> "MLPMemory":
        """Standard parameterisation and initialisation: variance 1/fan-in a layer, zero bias (appendix A.3)."""
        check_positive(d=d, m=m)
        k_W, k_V = jax.random.split(key)
        return cls(lecun_normal(k_W, (m, d)), lecun_normal(k_V, (d, m)).T, jnp.zeros(m) if bias else None, sigma)


def initial_memory(family: str, d: int, m: int, *, key: PRNGKeyArray, bias: bool = False) -> Memory:
    """The memory of a family ('linear', 'low-rank' or 'mlp') that training starts from."""
    if family == "linear":
        return LinearMemory.init(d, key=key)
    return LowRankMemory.init(d, m, key=key) if family == "low-rank" else MLPMemory.init(d, m, key=key, bias=bias)

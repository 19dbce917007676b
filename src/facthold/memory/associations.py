"""Association maps f*: [N] -> [M], and the problem of storing one (section 3, setup)."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from facthold._util.arguments import checked
from facthold._util.errors import check_positive, find
from facthold._util.keys import derive
from facthold.memory import MAPS
from facthold.memory.embeddings import embed, host_generator


def associate(kind: str, N: int, M: int, *, key: PRNGKeyArray) -> Int[Array, " N"]:
    """The map called ``kind``: 'identity', 'injective', 'mod', 'floor' or 'uniform'."""
    check_positive(N=N, M=M)
    if kind in ("identity", "injective") and M < N:
        raise ValueError(f"the map {kind!r} needs M >= N, but M={M} and N={N}; take 'mod', 'floor' or 'uniform'")
    return jnp.asarray(find("map", kind, MAPS)(N, M, host_generator(key)).astype(np.int32))


class Problem(eqx.Module):
    """What is to be stored: for each x, u_{f(x)} should win over all other u_y at e_x. `fh.random_problem` makes one.

    Every construction takes a ``Problem`` and returns a memory; every measure takes both.
    """

    E: Float[Array, "N d"]  # input embeddings e_x
    U: Float[Array, "M d"]  # output embeddings u_y
    f: Int[Array, " N"]  # the association map f*

    @property
    def N(self) -> int:
        return self.E.shape[0]

    @property
    def M(self) -> int:
        return self.U.shape[0]

    @property
    def d(self) -> int:
        return self.E.shape[1]

    @property
    def n_embeddings(self) -> int:
        """Numbers in the embeddings."""
        return self.E.size + self.U.size

    def host(self, dtype: type | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """E, U and the rows u_{f*(x)} as NumPy arrays, for closed forms that are not worth a compilation."""
        E, U = np.asarray(self.E, dtype), np.asarray(self.U, dtype)
        return E, U, U[np.asarray(self.f)]

    @property
    def targets(self) -> Float[Array, "N d"]:
        """Rows u_{f*(x)}."""
        return self.U[self.f]


@checked
def random_problem(
    N: int, d: int, M: int | None = None, *, key: PRNGKeyArray, embeddings: str = "sphere", map: str = "identity"
) -> Problem:
    """N random associations in d dimensions with M outputs (as many as inputs where M is left out):

    fh.make_memory("outer-product", fh.random_problem(20, 32, key=fh.derive("example", 0)))
    """
    M = N if M is None else M
    check_positive(N=N, d=d, M=M)
    k_E, k_U, k_f = jax.random.split(key, 3)
    f = associate(map, N, M, key=k_f)
    return Problem(embed(embeddings, N, d, key=k_E), embed(embeddings, M, d, key=k_U), f)


def seeded_problem(
    N: int, seed: int, d: int, M: int | None = None, *, embeddings: str = "sphere", map: str = "identity"
) -> Problem:
    """The N associations of this seed. The embeddings of one seed are nested: those of N + 1 begin with those of N."""
    key = derive("problem", seed, d, embeddings, map)
    return random_problem(N, d, M, key=key, embeddings=embeddings, map=map)


def sum_problem(
    first: Float[Array, "A d"], second: Float[Array, "B d"], pairs: Int[Array, "N 2"], U: Float[Array, "M d"],
    f: Int[Array, " N"],
) -> Problem:  # fmt: skip
    """Two inputs at once, e_z1 + e'_z2 (the slides' multi-input memory): the same problem on a sum.

    The sum is divided by sqrt(2), so that its expected squared norm is that of one embedding.
    """
    return Problem((first[pairs[:, 0]] + second[pairs[:, 1]]) / jnp.sqrt(2.0), U, f)

"""Section 3: inputs, outputs, embeddings, and the map between them. Here are those that have a name, without JAX."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from facthold._util.errors import find
from facthold.memory.spread import spread_rows

Drawn = Callable[[int, int, np.random.Generator], np.ndarray]  # of two sizes and a generator


def _sphere(n: int, d: int, draw: np.random.Generator) -> np.ndarray:
    rows = draw.standard_normal((n, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


EMBEDDINGS: Mapping[str, Drawn] = {
    "sphere": _sphere,  # uniform on the unit sphere: the setting of section 3
    # N(0, I/d), of norm about 1: the embeddings of the slides and of the authors' transformer code
    "gaussian": lambda n, d, draw: draw.standard_normal((n, d)) / np.sqrt(d),
    # uniform on {-1, +1}^d / sqrt(d): the patterns of Hopfield networks
    "signs": lambda n, d, draw: np.where(draw.standard_normal((n, d)) > 0, 1, -1) / np.sqrt(d),
    "orthogonal": lambda n, d, draw: np.eye(n, d),  # only d of them: why superposition is needed (remark in 3.1)
    "spread": spread_rows,  # as evenly as d allows: the paper's question about better embeddings (discussion)
}
"""n rows in d dimensions."""
AT_ONCE = ("orthogonal", "spread")
"""Embeddings of all tokens are made together: some of them, or those of another stream, would not fit to the rest."""


def check_fits(kind: str, d: int, **rows: int) -> None:
    """Refuse more orthogonal rows than dimensions, by the name of their number: ``check_fits(kind, d, N=N)``."""
    for name, n in rows.items():
        if kind == "orthogonal" and n > d:
            raise ValueError(
                f"{name}={n} orthogonal rows do not fit in d={d} dimensions; take {name} <= {d}, or 'sphere'"
            )


MAPS: Mapping[str, Drawn] = {
    "identity": lambda N, M, draw: np.arange(N),  # f*(x) = x: figure 1
    "injective": lambda N, M, draw: draw.permutation(M)[:N],  # distinct outputs, in random order
    "mod": lambda N, M, draw: np.arange(N) % M,  # figure 6 as the text has it, and the slides' x mod 2
    "floor": lambda N, M, draw: np.arange(N) * M // N,  # figure 6 as the authors' code has it
    "uniform": lambda N, M, draw: draw.integers(0, M, N),  # each output independently: the setting of theorem 7
}
"""f*(0), ..., f*(N - 1) in [M]."""


def generator(words: Sequence[int]) -> np.random.Generator:
    """NumPy's stream for the two words of a key."""
    return np.random.Generator(np.random.Philox(key=np.array(words, np.uint64)))


def draw_embeddings(kind: str, n: int, d: int, words: Sequence[int]) -> np.ndarray:
    """The first n embeddings of this kind in the stream of a key."""
    check_fits(kind, d, n=n)
    return np.asarray(find("embeddings", kind, EMBEDDINGS)(n, d, generator(words)), np.float32)

"""What memory schemes lose on heavy-tailed data (slides, part IV): the exact expected error, and the laws.

W = sum_z q(z) u_{f(z)} e_z^T with all embeddings N(0, I/d). The score of y at a token z is (G a)_y, where G = U U^T and
a_y is the sum of q(z') <e_z', e_z> over the tokens of output y. Given e_z, of length r^(1/2), and G, the a_y of all
other tokens are independent Gaussians of variance r V_y / d, V_y the sum of their q^2, and z itself adds q(z) r to its
own a_y. So for c = f(z) the token is recalled where h_y x + o_y > 0 for every other y, with

    x = q(z) r^(1/2) + ((V_c - q(z)^2) / d)^(1/2) g_c,   h_y = G_cc - G_yc,
    o_y = sum_{j != c} (G_cj - G_yj) (V_j / d)^(1/2) g_j:

an interval of g_c. Its probability is an error function; the mean over G (by Bartlett's decomposition), r and the other
g is over draws, `DRAWS` of them, the same for all tokens. Nothing is fitted.
"""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from jaxtyping import Float, Int

DRAWS = 1 << 13
NODES = 192  # values of q at which the error is computed, where an output has more; between them it is interpolated
Weights = Float[np.ndarray, " N"]


def expected_errors(
    q: Weights, f: Int[np.ndarray, " N"], M: int, d: int, *, draws: int = DRAWS, seed: int = 0
) -> Weights:
    """The probability that each token is recalled wrongly, over embeddings N(0, I/d)."""
    if d < M:
        raise ValueError(f"d={d} is below M={M}: the outputs' Gram matrix has no Bartlett decomposition; take d >= M")
    draw = np.random.Generator(np.random.Philox(seed))
    G, g, r = _gram(draw, draws, M, d), draw.standard_normal((draws, M)), draw.chisquare(d, draws) / d
    V = np.bincount(f, q**2, minlength=M)
    errors = np.empty(len(q))
    for c in np.unique(f):
        ours = f == c
        low, high = _needed(G, g * np.sqrt(V / d), int(c))
        errors[ours] = _at(q[ours], partial(_wrong, V=float(V[c]), d=d, r=r, low=low, high=high))
    return errors


def _needed(G: np.ndarray, noise: np.ndarray, c: int) -> tuple[np.ndarray, np.ndarray]:
    """Between which x the token is recalled, for each draw."""
    others = [j for j in range(G.shape[1]) if j != c]
    if not others:
        return np.full(len(G), -np.inf), np.full(len(G), np.inf)
    h = G[:, c, c, None] - G[:, others, c]
    o = np.einsum("kyj,kj->ky", G[:, None, c, others] - G[:, others][:, :, others], noise[:, others])
    with np.errstate(divide="ignore"):
        bound = -o / h
    return np.where(h > 0, bound, -np.inf).max(axis=1), np.where(h < 0, bound, np.inf).min(axis=1)


def _wrong(q: np.ndarray, V: float, d: int, r: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The error at each of these q, as a mean over the draws of what is needed."""
    from scipy.special import ndtr

    scale = np.sqrt(np.maximum(V - q**2, 0.0) / d) + 1e-300  # where z is alone in its output nothing is random in x
    errors = np.empty(len(q))
    for i, (own, sd) in enumerate(zip(q, scale, strict=True)):
        x = own * np.sqrt(r)
        errors[i] = 1.0 - np.maximum(ndtr((high - x) / sd) - ndtr((low - x) / sd), 0.0).mean()
    return errors


def _at(q: np.ndarray, wrong: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The error at all q of an output, of which many may be equal."""
    values, back = np.unique(q, return_inverse=True)
    if len(values) <= NODES:
        return wrong(values)[back]
    positive = values[values > 0]
    nodes = np.unique(np.concatenate([values[:1], np.geomspace(positive[0], positive[-1], NODES), values[-8:]]))
    nodes = nodes[(nodes >= values[0]) & (nodes <= values[-1])]
    return np.interp(values, nodes, wrong(nodes))[back]


def _gram(draw: np.random.Generator, n: int, M: int, d: int) -> Float[np.ndarray, "n M M"]:
    """n draws of U U^T, the rows of U being N(0, I/d)."""
    L = np.zeros((n, M, M))
    rows, columns = np.tril_indices(M, -1)
    L[:, rows, columns] = draw.standard_normal((n, len(rows)))
    for i in range(M):
        L[:, i, i] = np.sqrt(draw.chisquare(d - i, n))
    return L @ L.transpose(0, 2, 1) / d


def expected_error(p: Weights, q: Weights, f: Int[np.ndarray, " N"], M: int, d: int, **draws: int) -> float:
    """sum_z p(z) P(z is recalled wrongly)."""
    return float(p @ expected_errors(q, f, M, d, **draws))


def best_first(p: Weights, f: Int[np.ndarray, " N"], M: int, d: int) -> int:
    """The k for which storing the k most frequent tokens, each with q = 1, has the least expected error.

    Tried are whole numbers a twelfth apart: near the best k the error is flat.
    """
    N = len(p)
    tried = np.unique(np.geomspace(1, N, 1 + math.ceil(12 * math.log2(max(N, 2)))).astype(int))
    errors = []
    for k in tried:
        errors.append(expected_error(p, (np.arange(N) < k).astype(float), f, M, d))
        if errors[-1] > 2 * min(errors):
            break  # it only rises from here on
    return int(tried[int(np.argmin(errors))])


def unseen(p: Weights, n: int) -> float:
    """The expected probability of what n samples have not shown: Hutter's error of a memory without limits."""
    return float(p @ (1 - p) ** n)


def exponents(alpha: float) -> dict[str, float]:
    """The slides' laws as n or d grows: of the samples, and in d of q = p, and of the best number of tokens."""
    if alpha <= 1:
        raise ValueError(f"alpha={alpha:g}: the laws are of tails that can be summed without end; take alpha above 1")
    return {"n": -(alpha - 1) / alpha, "p": -(alpha - 1) / (2 * alpha), "first": -(alpha - 1)}

"""What memory schemes lose on heavy-tailed data (slides, part IV): the exact expected error, and the laws.

W = sum_z q(z) u_{f(z)} e_z^T with all embeddings N(0, I/d). The score of y at a token z is (G a)_y, where G = U U^T and
a_y is the sum of q(z') <e_z', e_z> over the tokens of output y. Given e_z, of length r^(1/2), and G, the a_y of all
other tokens are independent Gaussians of variance r V_y / d, V_y the sum of their q^2, and z itself adds q(z) r to its
own a_y. So for c = f(z) the token is recalled where h_y x + o_y > 0 for every other y, with

    x = q(z) r^(1/2) + ((V_c - q(z)^2) / d)^(1/2) g_c,   h_y = G_cc - G_yc,
    o_y = sum_{j != c} (G_cj - G_yj) (V_j / d)^(1/2) g_j:

an interval of g_c. Its probability is an error function; the mean over G (by Bartlett's decomposition), r and the other
g is over draws, `DRAWS` of them, the same for all tokens. Nothing is fitted.

G has M x M numbers. Where outputs are many, or more than dimensions, it is not drawn: given a, the scores G a are
distributed as s a + (s / d)^(1/2) |a| P g, with P the projection onto what is orthogonal to a, g from N(0, I), and s, a
chi-squared variable of d degrees of freedom over d, independent of both. Let A be the length of a without its a_c, and
h be g without its part along that. With k from N(0, 1) and b = s^(1/2), scores are, over b,

    of c: b a_c + A k / d^(1/2),      of y: (b - a_c k / (A d^(1/2))) a_y + |a| h_y / d^(1/2).

So of all rivals only the largest (a_y, h_y) can win, some dozens of them, whichever the token is; recall is an interval
of k; and a draw takes M numbers, for each output that has a token in W.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float, Int

from facthold._util.errors import check_scheme

DRAWS = 1 << 13
FEW = 16  # outputs up to which G itself is drawn
TOKENS = 64  # that are tried with each draw of all rivals, by their frequencies
SHARED = 16  # of the draws that are asked for, so many are one of rivals: it serves many tokens
BLOCK = 1 << 14  # tokens that are looked at together
NODES = 192  # values of q at which the error is computed, where an output has more; between them it is interpolated
Weights = Float[np.ndarray, " N"]


def expected_errors(
    q: Weights, f: Int[np.ndarray, " N"], M: int, d: int, *, draws: int = DRAWS, seed: int = 0
) -> Weights:
    """The probability that each token is recalled wrongly, over embeddings N(0, I/d). A tie is no recall."""
    check_scheme(q, np.ones(len(q)), f, M, d)
    if not q.any():
        return np.full(len(q), float(M > 1))  # all scores are zero
    if not few(M, d):
        blocks = [np.arange(start, min(start + BLOCK, len(q))) for start in range(0, len(q), BLOCK)]
        sums = np.zeros(len(q))
        for rivals in _rivals(q, f, M, d, draws, seed):
            for z in blocks:
                sums[z] += rivals.wrong(z)
        return sums / _shared(draws)
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


def expected_error(
    p: Weights, q: Weights, f: Int[np.ndarray, " N"], M: int, d: int, *, draws: int = DRAWS, seed: int = 0
) -> float:
    """sum_z p(z) P(z is recalled wrongly). Where outputs are many, each draw of rivals is for some tokens alone."""
    check_scheme(q, p, f, M, d)
    if few(M, d) or not q.any():
        return float(p @ expected_errors(q, f, M, d, draws=draws, seed=seed))
    whole, errors = np.cumsum(p), []
    for rivals in _rivals(q, f, M, d, draws, seed):
        at = (np.arange(TOKENS) + rivals.draw.random()) / TOKENS * whole[-1]
        errors.append(rivals.wrong(np.minimum(np.searchsorted(whole, at), len(p) - 1)).mean())
    return float(whole[-1] * np.mean(errors))


def few(M: int, d: int) -> bool:
    """Whether outputs are few enough for their Gram matrix."""
    return min(FEW, d) >= M


def _shared(draws: int) -> int:
    return max(1, draws // SHARED)


def _rivals(q: Weights, f: Int[np.ndarray, " N"], M: int, d: int, draws: int, seed: int) -> Iterator["_Rivals"]:
    """Draws of all rivals."""
    draw, V = np.random.Generator(np.random.Philox(seed)), np.bincount(f, q**2, minlength=M)
    held = np.flatnonzero(V)
    place = np.full(M, -1)
    place[held] = np.arange(len(held))
    sd = np.sqrt(V[held] / d)
    for _ in range(_shared(draws)):
        n, g = draw.standard_normal((2, len(held)))
        a = sd * n
        yield _Rivals(draw, q, V[f], place[f], M - len(held), d, a, g, _foremost(a, g))


def _foremost(a: np.ndarray, g: np.ndarray) -> Int[np.ndarray, " k"]:
    """Which (a, g) can have the largest w a + g for some w, also where one of them, whichever it is, is left out."""
    left, found = np.arange(len(a)), []
    for _ in range(2):
        ahead = np.zeros(len(left), bool)
        for side in (a[left], -a[left]):
            order = np.argsort(-side, kind="stable")
            ahead[order] |= g[left][order] >= np.maximum.accumulate(g[left][order])
        found.append(left[ahead])
        left = left[~ahead]
    return np.concatenate(found)


@dataclass(frozen=True)
class _Rivals:
    """One draw of a and g for the outputs that have tokens in W. Of all others, whose a is zero, only the largest g
    counts, and it is drawn as such."""

    draw: np.random.Generator
    q: Weights
    V: Weights  # of each token's output
    place: Int[np.ndarray, " N"]  # of each token's output among those that are drawn; -1: W has nothing of it
    n_empty: int
    d: int
    a: np.ndarray
    g: np.ndarray
    foremost: Int[np.ndarray, " k"]

    def wrong(self, z: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """The probability that each of these tokens is recalled wrongly, with a draw of r, s and a_c for each."""
        from scipy.special import ndtr, ndtri

        n, c, d = len(z), self.place[z], self.d
        r, s = self.draw.chisquare(d, (2, n)) / d
        noise = np.sqrt(np.maximum(self.V[z] - self.q[z] ** 2, 0.0) / d) * self.draw.standard_normal(n)
        a_c, b = (self.q[z] * np.sqrt(r) + noise)[:, None], np.sqrt(s)[:, None]  # lengths over that of e_z
        a_own, g_own = np.where(c >= 0, self.a[c], 0.0), np.where(c >= 0, self.g[c], 0.0)
        A2 = np.maximum(self.a @ self.a - a_own**2, 1e-300)[:, None]
        along = (self.a @ self.g - a_own * g_own)[:, None] / A2
        a, h = self.a[self.foremost], self.g[self.foremost] - along * self.a[self.foremost]
        h = np.where(self.foremost == c[:, None], -np.inf, h)
        with np.errstate(divide="ignore"):  # no output is empty: the largest of none is -inf
            others = (self.n_empty - (c < 0))[:, None]
            largest = -ndtri(-np.expm1(np.log(self.draw.random((n, 1))) / others))
            a, h = np.append(np.broadcast_to(a, (n, len(a))), np.zeros((n, 1)), 1), np.append(h, largest, 1)
            rises = (A2 + a_c * a) / np.sqrt(A2)
            bound = (math.sqrt(d) * b * (a - a_c) + np.sqrt(A2 + a_c**2) * h) / rises
        low = np.where(rises > 0, bound, -np.inf).max(axis=1)
        high = np.where(rises < 0, bound, np.inf).min(axis=1)
        return 1.0 - np.maximum(ndtr(high) - ndtr(low), 0.0)


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

"""Does any linear memory recall all of these associations? A W that does, or a certificate that there is none.

W recalls all if every margin <a_xy, W> = (u_f(x) - u_y)^T W e_x, y != f(x), is positive. The sum over all pairs of
max(0, 1 - margin)^2 is convex and piecewise quadratic: Newton's method ends after some ten to forty steps. It is zero
somewhere if the associations can be separated. Where it is stationary and not zero, the violations lambda >= 0 have
sum lambda a = 0, so that no W has only positive margins (Gordan's theorem). In numbers, for any W,

    least margin / |W||a|  <=  |sum lambda a| / sum lambda |a|   (`bound`).

Only few rivals of each input violate their margin near a solution: about d^2 pairs in all. A step needs the Hessian of
these alone, in products with a matrix (conjugate gradients, in float32: a direction need not be exact). Violations,
gradient and margins are of float64. All N x M scores are looked at in blocks, and never held.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from facthold.construct.solve import ridged
from facthold.memory.associations import Problem
from facthold.models.memory import LinearMemory

SEPARATED, INSEPARABLE, UNDECIDED = "separated", "inseparable", "not decided"
START = 5.0  # times the outer product: margins of about 5, so that few pairs violate theirs
STEPS = 40  # of Newton's method
PRODUCTS = 1500  # with the Hessian, over all steps: enough a hundredth below or above the threshold
PRODUCTS_AT_ONCE = 400  # for one step
NO_MARGIN = 1e-7  # a best margin, as a share of |W||a|, that is called none: those that separate have 1e-6 and more
BLOCK = 1 << 21  # scores that are held at once
GATHERED = 1 << 17  # numbers of embeddings that are gathered at once: as many as stay in a cache


class Pairs(NamedTuple):
    """The pairs (x, y) of an input and a rival whose margin is below 1, by x, and by how much."""

    x: Int[np.ndarray, " k"]
    y: Int[np.ndarray, " k"]
    violation: Float[np.ndarray, " k"]
    least: float  # of all margins

    @property
    def loss(self) -> float:
        return float(self.violation @ self.violation)


@dataclass(frozen=True)
class Separation:
    """What came out, with its proof."""

    status: str
    """'separated': all margins of W are positive, beyond rounding. 'inseparable': no W has a least margin above
    ``bound`` |W||a|, which is at most `NO_MARGIN`. 'not decided': neither, with as many products as were allowed."""
    W: Float[np.ndarray, "d d"]
    margin: float  # the least, as a share of |W| and the longest u_f(x) - u_y times e_x
    bound: float  # no W has a larger one
    recalled: float  # the share of inputs whose margins are all positive
    steps: int
    products: int


class Separator:
    """The margins of a problem, as linear functions of W."""

    def __init__(self, problem: Problem) -> None:
        self.E, self.U, self.targets = problem.host(np.float64)
        self.f = np.asarray(problem.f)
        self.N, self.M, self.d = problem.N, problem.M, problem.d
        self.E32, self.U32, self.targets32 = problem.host(np.float32)
        longest_e, longest_u = (float(np.linalg.norm(rows, axis=1).max()) for rows in (self.E, self.U))
        self.scale = 2 * longest_u * longest_e  # |a| is at most so much
        # two sums of d products each, and a difference
        self.rounding = 2 * (self.d + 2) * np.finfo(np.float64).eps * self.scale

    def pairs(self, W: Float[np.ndarray, "d d"]) -> Pairs:
        """All pairs with a margin below 1."""
        Z, rows, least = self.E @ W.T, max(1, BLOCK // self.M), np.inf
        own = np.einsum("xd,xd->x", Z, self.targets)
        found: list[tuple[np.ndarray, ...]] = []
        for start in range(0, self.N, rows):
            some = slice(start, start + rows)
            violation = Z[some] @ self.U.T
            violation -= (own[some] - 1)[:, None]
            violation[np.arange(len(violation)), self.f[some]] = -np.inf
            least = min(least, 1 - float(violation.max(initial=-np.inf)))
            flat = np.flatnonzero(violation > 0)
            x, y = np.divmod(flat, self.M)
            found.append((x + start, y, violation.ravel()[flat]))
        x, y, violations = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return Pairs(x, y, violations, least)

    def combined(self, pairs: Pairs) -> Float[np.ndarray, "d d"]:
        """sum lambda_xy a_xy, for lambda the violations."""
        return self._sum(self._table(pairs), self.U, self.targets, self.E)

    def lengths(self, pairs: Pairs) -> Float[np.ndarray, " k"]:
        """|a_xy|."""
        return np.concatenate([
            np.linalg.norm(self.targets[x] - self.U[y], axis=1) * np.linalg.norm(self.E[x], axis=1)
            for x, y in self._gathered(pairs)
        ])  # fmt: skip

    def step(
        self, pairs: Pairs, G: Float[np.ndarray, "d d"], accuracy: float, most: int
    ) -> tuple[Float[np.ndarray, "d d"], int]:
        """P with H P close to G, H = sum a a^T over the pairs, and how many products it took.

        Conjugate gradients end where |H P - G| is at most ``accuracy`` |G|. They are preconditioned by the two
        covariances that H would be the product of if inputs and outputs of the pairs were independent.
        """
        table, (left, right) = self._table(pairs, np.float32), self._covariances(pairs)
        size = float(np.linalg.norm(G))
        rest = (G / size).astype(np.float32)
        P, direction, before = np.zeros_like(rest), left @ rest @ right, 0.0
        before = float((rest * direction).sum())
        n = 0
        while n < most and np.linalg.norm(rest) > accuracy:
            product, n = self._hessian(pairs, table, direction), n + 1
            curvature = float((direction * product).sum())
            if not curvature > 0:
                break
            P += np.float32(before / curvature) * direction
            rest -= np.float32(before / curvature) * product
            conditioned = left @ rest @ right
            now = float((rest * conditioned).sum())
            direction, before = conditioned + np.float32(now / before) * direction, now
        return P.astype(np.float64) * size, n

    def _hessian(self, pairs: Pairs, table: sp.csr_matrix, V: Float[np.ndarray, "d d"]) -> Float[np.ndarray, "d d"]:
        """sum <a, V> a over the pairs; ``table`` is overwritten."""
        Z = self.E32 @ V.T
        own, done = np.einsum("xd,xd->x", Z, self.targets32), 0
        for x, y in self._gathered(pairs):
            table.data[done : done + len(x)] = own[x] - np.einsum("kd,kd->k", Z[x], self.U32[y])
            done += len(x)
        return self._sum(table, self.U32, self.targets32, self.E32)

    def _gathered(self, pairs: Pairs) -> list[tuple[np.ndarray, np.ndarray]]:
        """The pairs in parts whose embeddings fit in a cache."""
        size = max(1, GATHERED // self.d)
        starts = range(0, max(1, len(pairs.x)), size)
        return [(pairs.x[i : i + size], pairs.y[i : i + size]) for i in starts]

    def _table(self, pairs: Pairs, dtype: type = np.float64) -> sp.csr_matrix:
        """The violations as a sparse N x M table."""
        ends = np.searchsorted(pairs.x, np.arange(self.N + 1))
        return sp.csr_matrix((pairs.violation.astype(dtype), pairs.y, ends), shape=(self.N, self.M))

    @staticmethod
    def _sum(table: sp.csr_matrix, U: np.ndarray, targets: np.ndarray, E: np.ndarray) -> np.ndarray:
        """sum_xy table_xy (u_f(x) - u_y) e_x^T."""
        totals = np.asarray(table.sum(axis=1), U.dtype)
        return (totals * targets - table @ U).T @ E

    def _covariances(self, pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
        """Inverses of sum (u_f(x) - u_y)(u_f(x) - u_y)^T and sum e_x e_x^T over the pairs, up to a factor."""
        rivals, wanted = (np.bincount(of, minlength=n) for of, n in ((pairs.y, self.M), (pairs.x, self.N)))
        ones = self._table(pairs._replace(violation=np.ones(len(pairs.x))))
        cross = self.targets.T @ (ones @ self.U)
        left = (self.targets.T * wanted) @ self.targets + (self.U.T * rivals) @ self.U - cross - cross.T
        right = (self.E.T * wanted) @ self.E
        return tuple(np.linalg.inv(ridged(A, 1e-3) / np.trace(A)).astype(np.float32) for A in (left, right))  # type: ignore[return-value]


def separate(
    problem: Problem, start: Float[np.ndarray, "d d"] | None = None, *, products: int = PRODUCTS
) -> Separation:
    """Newton's method from ``start`` (a multiple of the outer product, where there is none) until it is decided."""
    on = Separator(problem)
    W = START * on.targets.T @ on.E if start is None else np.array(start, np.float64)
    pairs, step, used, bound, status = on.pairs(W), 0, 0, 1.0, UNDECIDED
    while True:
        if pairs.least > on.rounding * float(np.linalg.norm(W)):
            status = SEPARATED
            break
        G = on.combined(pairs)
        angle = float(np.linalg.norm(G) / (pairs.violation @ on.lengths(pairs)))
        bound = min(bound, angle)
        if angle <= NO_MARGIN:
            status = INSEPARABLE
            break
        if used >= products or step == STEPS:
            break
        # coarse directions far from the solution; nearer to it as good as they have to be for fast convergence
        P, n = on.step(pairs, G, min(0.1, angle**0.5), min(PRODUCTS_AT_ONCE, products - used))
        W, pairs = _descend(on, W, pairs, P, float((G * P).sum()))
        step, used = step + 1, used + n
    margin = pairs.least / max(float(np.linalg.norm(W)) * on.scale, 1e-300)
    recalled = 1 - len(np.unique(pairs.x[pairs.violation >= 1])) / on.N
    return Separation(status, W, margin, bound, recalled, step, used)


def _descend(
    on: Separator, W: Float[np.ndarray, "d d"], pairs: Pairs, P: Float[np.ndarray, "d d"], along: float
) -> tuple[Float[np.ndarray, "d d"], Pairs]:
    """The first of W + P and shorter steps at which the loss has fallen enough; along: minus half of its slope."""
    length = 1.0
    while True:
        there = on.pairs(W + length * P)
        slope = -2 * along * length
        if there.loss <= pairs.loss + 1e-4 * slope or length < 1e-8:
            return W + length * P, there
        least_of_parabola = -slope / (2 * (there.loss - pairs.loss - slope))
        length *= min(0.5, max(0.1, least_of_parabola))


def separated(problem: Problem) -> LinearMemory:
    """The memory that was found: it recalls all associations if they were 'separated', and few less near there."""
    return LinearMemory(jnp.asarray(separate(problem).W, jnp.float32))

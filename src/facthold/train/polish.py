"""The last facts of a large group: Gauss-Newton steps over all weights, where training by batches would take longest.

A fact i lacks r = (AIM - (u_f(i) - u_y)^T F(e_i))_+ towards a rival y. A step takes the pairs (i, y) that lack
something, and solves min |r - J delta|^2 + DAMPING |delta|^2 for the change delta of W and V by conjugate gradients; in
delta's norm each neuron counts as much as it can do. J is never formed: a product with it costs about what a batch of
these facts costs in training. After each step all facts are asked against all outputs, so that no rival is overlooked.

In NumPy, a thread for a group: the pairs are others at each step, and nothing is compiled for them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from facthold.memory.associations import Problem
from facthold.models.memory import MLPMemory

AIM = 0.5  # margin that a step aims at: half of what training aims at, so that fewer facts lack something
REACH = 1.0  # rivals within this margin are held against a step before it is taken
STEPS = 12  # at most; a width that is enough took 3 to 10
SOLVED, PRODUCTS = 1e-2, 40  # the residual that a solve goes down to, and how many products with J and J^T it may take
DAMPING = 1e-4  # of the mean curvature of each neuron's weights
SHORTER, SHORTEST = 1 / 3, 1 / 30  # a step that makes things worse is shortened
HARDEST = 8  # rivals of one fact that a step looks at
ASKED = 1 << 8  # facts whose scores against all outputs are held at once
BLOCK = 1 << 9  # facts that are multiplied at once: their neurons stay in the cache

Weights = tuple[Float[np.ndarray, "m d"], Float[np.ndarray, "m d"]]  # W and V, or a change of them
Outputs = Float[np.ndarray, "N d"]
Hear = Callable[[float], None]


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Rivals that come near: (fact, output), by fact."""

    facts: Int[np.ndarray, " pairs"]
    outputs: Int[np.ndarray, " pairs"]

    def margins(self, F: Outputs, U: Float[np.ndarray, "M d"], f: Int[np.ndarray, " N"]) -> Float[np.ndarray, " pairs"]:
        """(u_f(i) - u_y)^T F_i of each pair."""
        parts = [slice(i, i + 16 * BLOCK) for i in range(0, len(self.facts), 16 * BLOCK)]
        each = ((F[self.facts[at]], U[f[self.facts[at]]] - U[self.outputs[at]]) for at in parts)
        return np.concatenate([np.zeros(0, F.dtype), *((a * b).sum(axis=1) for a, b in each)])

    def of(self, some: np.ndarray) -> "_Pairs":
        return _Pairs(self.facts[some], self.outputs[some])

    def with_(self, others: "_Pairs") -> "_Pairs":
        both = [np.stack([pairs.facts, pairs.outputs]) for pairs in (self, others)]
        return _Pairs(*np.unique(np.concatenate(both, axis=1), axis=1))


class _Facts:
    """Associations with all that is right, ready to be asked."""

    def __init__(self, problem: Problem, also: Int[np.ndarray, "extra 2"]) -> None:
        self.E, self.U, self.f = np.asarray(problem.E), np.asarray(problem.U), np.asarray(problem.f, np.int64)
        own = np.stack([np.arange(len(self.f)), self.f], axis=1)
        right = np.concatenate([own, also])
        self.right = right[np.argsort(right[:, 0], kind="stable")]

    def F(self, W: np.ndarray, V: np.ndarray) -> Outputs:
        rows = (self.E[i : i + BLOCK] for i in range(0, len(self.E), BLOCK))
        return np.concatenate([np.maximum(E @ W.T, 0) @ V for E in rows])

    def asked(self, F: Outputs) -> tuple[Float[np.ndarray, " N"], _Pairs]:
        """Every fact's margin over the best of all its rivals, and the hardest rivals of each within `REACH`."""
        margin, found = np.empty(len(F), F.dtype), []
        for i in range(0, len(F), ASKED):
            at = slice(i, min(i + ASKED, len(F)))
            own = (F[at] * self.U[self.f[at]]).sum(axis=1)
            scores = F[at] @ self.U.T
            here = slice(*np.searchsorted(self.right[:, 0], [at.start, at.stop]))
            scores[self.right[here, 0] - i, self.right[here, 1]] = -np.inf
            margin[at] = own - scores.max(axis=1)
            for row in np.flatnonzero(margin[at] < REACH):
                near = np.flatnonzero(scores[row] > own[row] - REACH)
                if len(near) > HARDEST:
                    near = near[np.argpartition(-scores[row, near], HARDEST - 1)[:HARDEST]]
                found.append(np.stack([np.full(len(near), i + row), np.sort(near)]))
        return margin, _Pairs(*np.concatenate([np.zeros((2, 0), np.int64), *found], axis=1))


@dataclass(frozen=True, eq=False)
class _Lacking:
    """Some facts that lack something, and J for their pairs: the change of each pair's margin with W and V."""

    E: Float[np.ndarray, "n d"]
    H: Float[np.ndarray, "n m"]
    D: Float[np.ndarray, "pairs d"]  # u_f(i) - u_y
    fact: Int[np.ndarray, " pairs"]  # rows of E, in order and each at least once
    lack: Float[np.ndarray, " pairs"]
    V: Float[np.ndarray, "m d"]

    @cached_property
    def starts(self) -> Int[np.ndarray, " n"]:
        return np.searchsorted(self.fact, np.arange(len(self.E)))

    def change(self, dW: np.ndarray, dV: np.ndarray) -> Float[np.ndarray, " pairs"]:
        """J (dW, dV)"""
        moved = self.E @ dW.T
        moved *= self.H > 0
        return (self.D * (moved @ self.V + self.H @ dV)[self.fact]).sum(axis=1)

    def pulled(self, r: Float[np.ndarray, " pairs"]) -> Weights:
        """J^T r"""
        G = np.add.reduceat(self.D * r[:, None], self.starts, axis=0)
        back = G @ self.V.T
        back *= self.H > 0
        return back.T @ self.E, self.H.T @ G

    def curvature(self) -> Float[np.ndarray, "2 m"]:
        """About the diagonal of J^T J for a weight of W and one of V, by neuron: its mean over a neuron's weights."""
        of_fact = np.add.reduceat((self.D**2).sum(axis=1), self.starts) / self.E.shape[1]
        of_W = (of_fact * (self.E**2).mean(axis=1)) @ (self.H > 0)
        return np.stack([of_W * (self.V**2).sum(axis=1), of_fact @ self.H**2])


def polished(
    memory: MLPMemory, problem: Problem, also: Int[np.ndarray, "extra 2"], *, least: float, goal: float,
    hear: Hear = lambda _: None,
) -> tuple[MLPMemory, float]:  # fmt: skip
    """The memory after steps until the share ``goal`` of the facts win by ``least``, and the share that does. ``hear``
    is told the share before the first step and after each, and may raise to end it all."""
    facts, (W, V) = _Facts(problem, also), (np.asarray(memory.W), np.asarray(memory.V))
    F = facts.F(W, V)
    margin, near = facts.asked(F)
    best = (W, V), float((margin > least).mean())
    hear(best[1])
    for _ in range(STEPS):
        if best[1] >= goal or (moved := _step(facts, (W, V), F, near)) is None:
            break
        (W, V), F = moved
        margin, nearer = facts.asked(F)
        near = nearer.with_(near.of(near.margins(F, facts.U, facts.f) < REACH))
        hear(share := float((margin > least).mean()))
        best = max(best, ((W, V), share), key=lambda one: one[1])
    (W, V), share = best
    return MLPMemory(jnp.asarray(W), jnp.asarray(V)), share


def _step(facts: _Facts, weights: Weights, F: Outputs, near: _Pairs) -> tuple[Weights, Outputs] | None:
    """The weights after one step, and what they say; None where no step makes anything better."""
    lack = AIM - near.margins(F, facts.U, facts.f)
    some = lack > 0
    if not some.any():  # what is not finite lacks nothing, and is not right
        return None
    lacking = _lacking(facts, weights, near.of(some), lack[some])
    change, size, before = _solved(lacking), 1.0, _squares(lack)
    while size > SHORTEST:
        W, V = (w + np.float32(size) * dw for w, dw in zip(weights, change, strict=True))
        F = facts.F(W, V)
        if _squares(AIM - near.margins(F, facts.U, facts.f)) < before:
            return (W, V), F
        size *= SHORTER
    return None


def _squares(lack: Float[np.ndarray, " pairs"]) -> float:
    return float((np.maximum(lack, 0).astype(np.float64) ** 2).sum())


def _lacking(facts: _Facts, weights: Weights, pairs: _Pairs, lack: Float[np.ndarray, " pairs"]) -> list[_Lacking]:
    """In blocks of facts, each with its pairs."""
    W, V = weights
    rows, fact = np.unique(pairs.facts, return_inverse=True)
    D = facts.U[facts.f[pairs.facts]] - facts.U[pairs.outputs]
    blocks = []
    for i in range(0, len(rows), BLOCK):
        at = slice(*np.searchsorted(fact, [i, i + BLOCK]))
        E = facts.E[rows[i : i + BLOCK]]
        blocks.append(_Lacking(E, np.maximum(E @ W.T, 0), D[at], fact[at] - i, lack[at], V))
    return blocks


def _solved(lacking: Sequence[_Lacking]) -> Weights:
    """delta of `DAMPING`, by conjugate gradients with the curvatures as preconditioner."""
    curvature = np.sum([block.curvature() for block in lacking], axis=0)
    scale = (curvature + 1e-3 * curvature.mean(axis=1, keepdims=True))[:, :, None].astype(np.float32)

    residual = np.zeros((2, *lacking[0].V.shape), np.float32)
    for block in lacking:
        residual += np.stack(block.pulled(block.lack))
    x, ahead = np.zeros_like(residual), residual / scale
    size = first = float(np.vdot(residual, ahead))
    for _ in range(PRODUCTS):
        if not size > SOLVED**2 * first:
            break
        product = DAMPING * scale * ahead
        for block in lacking:
            product += np.stack(block.pulled(block.change(*ahead)))
        along = np.float32(size / float(np.vdot(ahead, product)))
        x, residual = x + along * ahead, residual - along * product
        size, before = float(np.vdot(residual, residual / scale)), size
        ahead = residual / scale + np.float32(size / before) * ahead
    return x[0], x[1]

"""The memory-loss cell: what a memory that is too small for all of a power law loses, and with how many bits."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from facthold._util.errors import check_positive, unknown
from facthold._util.keys import derive
from facthold.construct.readout import whiten
from facthold.construct.solve import minimise
from facthold.lab.cells import Cell, Result
from facthold.measure.quantise import GRID_BITS, SCALE_BITS, grid_of_bits, quantise
from facthold.memory.associations import Problem
from facthold.models.memory import LinearMemory, MLPMemory
from facthold.recipes.methods import LINEAR, method
from facthold.studies.memories.capacity import nested_problem
from facthold.theory.limits import Frequencies, bits_for_loss, power_law
from facthold.train import Member, Protocol, fit, protocol
from facthold.train.tasks import StoreByFrequency

CONVEX, TRAINED = "weighted-convex", "weighted-trained"
WEIGHTED = {CONVEX: LINEAR, TRAINED: "mlp"}
"""Memories that are made for sum_x p(x) loss(x), by family: the best linear one, and a trained MLP."""
SHARES = {
    "outer-product": (0.01, 0.014, 0.02, 0.03, 0.045, 0.07),
    "layerwise": (0.1, 0.14, 0.2),
}
"""How many associations a parameter a construction is given; that with the least loss counts."""
CANDIDATES = 0.5
"""So many associations a parameter are looked at: far more than any of these memories holds."""
FRESH = 512
"""Inputs beyond them that stand for all the rest, where a memory answers whatever it is asked."""
TEMPERATURE = 32
"""Bits of the scale of all scores."""
METHODS = (*SHARES, *WEIGHTED)


@dataclass(frozen=True, kw_only=True)
class MemoryLoss(Cell):
    """The loss in bits of one memory under p(x) ~ x^-alpha, at each of some precisions, for each alpha and seed.

    The memory has n_params weights and is far too small for N inputs. It holds the most frequent ones and says 1/M
    beyond the k-th, k being a part of it. Beside it, ``uncut``: its own answers, with one scale, to all inputs.
    Bits are those of the rounded weights with their scales (`measure.quantise`), of the temperature, and the logarithm
    of the number of k and precisions that were tried. ``waste`` is bits used over the least bits for the loss, and the
    precision where it is least counts.
    """

    kind: ClassVar[str] = "memory-loss"

    method: str
    d: int
    m: int = 0
    M: int = 128
    N: int = 1_000_000
    alphas: tuple[float, ...] = (1.2, 1.5, 2.0)
    precisions: tuple[int, ...] = (3, 4, 5, 6, 7, 8, 10)
    """Bits a weight."""
    steps: int = 2048
    """Of training, where there is any."""
    seeds: tuple[int, ...] = (0, 1, 2)

    def __post_init__(self) -> None:
        check_positive(d=self.d, M=self.M, N=self.N, steps=self.steps)
        if self.method not in METHODS:
            raise unknown("method", self.method, METHODS)
        if (self.family == LINEAR) != (self.m == 0):
            raise ValueError(f"m={self.m}: a linear memory has m=0, an MLP m of at least 1")
        if not (self.alphas and self.seeds and self.precisions and min(self.precisions) >= 2):
            raise ValueError("alphas, seeds and precisions must not be empty, and precisions at least 2 bits")
        if self.candidates + FRESH >= self.N:
            raise ValueError(f"N={self.N} must be above {self.candidates + FRESH}, more than the memory can hold")

    @property
    def family(self) -> str:
        return WEIGHTED.get(self.method) or method(self.method).family

    @property
    def n_params(self) -> int:
        return 2 * self.m * self.d if self.m else self.d**2

    @property
    def candidates(self) -> int:
        return math.ceil(CANDIDATES * self.n_params)

    @property
    def training(self) -> Protocol:
        """To the end, with a learning rate that falls: the loss is wanted, and no accuracy ends a run."""
        changes: dict[str, Any] = {"steps": self.steps, "check_every": self.steps, "goal": 1.0, "futility": None}
        return replace(protocol("mlp-text"), rule="final", decay=True, **changes)

    @property
    def spec(self) -> dict[str, Any]:
        """The fields, and what else the result depends on."""
        found = super().spec | {"scale_bits": SCALE_BITS, "grid_bits": GRID_BITS}
        if self.method in SHARES:
            return found | {"shares": list(SHARES[self.method])}
        return found | ({"training": self.training.spec} if self.method == TRAINED else {})

    @property
    def label(self) -> str:
        size = f"d={self.d}" + (f" m={self.m}" if self.m else "")
        return f"loss of {self.method} {size} under {len(self.alphas)} power laws"

    @property
    def cost(self) -> float:
        work = self.candidates * self.M * (self.d + self.m)
        if self.method == TRAINED:
            return len(self.seeds) * len(self.alphas) * (1 + self.steps * work / 4e9)
        return len(self.seeds) * (1 + work / (4e9 if self.method == "outer-product" else 2e7))

    def run(self) -> Result:
        found = [self._seed(seed) for seed in self.seeds]
        curves = [{"alpha": a, "per_seed": [one[i] for one in found]} for i, a in enumerate(self.alphas)]
        return {"n_params": self.n_params, "candidates": self.candidates, "curves": curves}

    def _seed(self, seed: int) -> list[dict[str, Any]]:
        """What this seed's map gives, for each alpha."""
        problem = nested_problem(self.candidates + FRESH, seed, self.d, self.M, map="uniform")
        laws = [power_law(self.N, alpha) for alpha in self.alphas]
        if self.method in WEIGHTED:
            made = self._weighted(problem, laws, seed)
            return [self._best([memory], problem, law) for memory, law in zip(made, laws, strict=True)]
        way = method(self.method)
        sizes = sorted({max(1, round(share * self.n_params)) for share in SHARES[self.method]})
        assert way.build is not None
        built = [way.build(first(problem, k), self.m, derive("build", seed, self.d, self.m, k)) for k in sizes]
        return [self._best(built, problem, law, sizes) for law in laws]

    def _weighted(self, problem: Problem, laws: Sequence[Frequencies], seed: int) -> list[Any]:
        asked = first(problem, self.candidates)
        weights = [probabilities(law, asked.N) for law in laws]
        if self.method == CONVEX:
            return [best_linear(asked, p) for p in weights]
        key = derive("init", seed, self.d, self.m, self.method)
        start = MLPMemory.init(self.d, self.m, key=key)
        members = [Member(start, StoreByFrequency.weighted(asked, p / p.sum()), key) for p in weights]
        return [run.model for run in fit(members, self.training)]

    def _best(
        self, memories: Sequence[Any], problem: Problem, law: Frequencies, sizes: Sequence[int] | None = None
    ) -> dict[str, Any]:
        """At each precision the memory and the cut of least loss; and the precision that is nearest to theorem 7."""
        K, bits = self.candidates, math.log2(self.M)
        p = probabilities(law, K)
        stored = sizes or [K] * len(memories)
        E, U, _ = (np.asarray(array, np.float64) for array in problem.host())
        f = np.asarray(problem.f)
        points: list[dict[str, Any]] = []
        for precision in self.precisions:
            coarse = [quantise(memory, grid_of_bits(precision)) for memory in memories]
            tried = [
                cut_loss(scores_of(q.model, E[:k], U), f[:k], p[:k], bits, law.tail(k))
                for q, k in zip(coarse, stored, strict=True)
            ]
            loss, cut = min(tried)
            B = coarse[0].bits + self.chosen_bits(len(tried))
            points.append({"precision": precision, "bits": B, "loss": loss, "k": cut, "of": tried.index(min(tried))})
        waste = [point["bits"] / max(1.0, bits_for_loss(point["loss"], self.M, law)) for point in points]
        best = points[int(np.argmin(waste))]
        scores = scores_of(quantise(memories[best["of"]], grid_of_bits(best["precision"])).model, E, U)
        rest = np.append(p, np.full(FRESH, law.tail(K) / FRESH))
        uncut, _ = fitted(scores, f, rest)
        return {"points": points, **best, "waste": min(waste), "uncut": uncut}

    def chosen_bits(self, variants: int) -> float:
        """What else depends on the map: the temperature, the cut, and which variant was taken."""
        return TEMPERATURE + math.log2(self.candidates + 1) + math.log2(variants * len(self.precisions))


def probabilities(law: Frequencies, k: int) -> Float[np.ndarray, " k"]:
    """p(1), ..., p(k)."""
    tails = np.array([law.tail(x) for x in range(k + 1)])
    return tails[:-1] - tails[1:]


def first(problem: Problem, k: int) -> Problem:
    """The k most frequent associations. Cut on the host: nothing is compiled for a new k."""
    return Problem(jnp.asarray(np.asarray(problem.E)[:k]), problem.U, jnp.asarray(np.asarray(problem.f)[:k]))


def scores_of(
    memory: LinearMemory | MLPMemory, E: Float[np.ndarray, "n d"], U: Float[np.ndarray, "M d"]
) -> Float[np.ndarray, "n M"]:
    """u_y^T F(e_x) in float64 and NumPy: nothing is compiled for a new number of inputs."""
    if isinstance(memory, LinearMemory):
        return E @ np.asarray(memory.W, np.float64).T @ U.T
    W, V = (np.asarray(matrix, np.float64) for matrix in (memory.W, memory.V))
    return memory.sigma(E @ W.T) @ V @ U.T


def cross_entropies(scores: Float[np.ndarray, "n M"], f: Any, scale: float) -> Float[np.ndarray, " n"]:
    """-log2 of what softmax(scale * scores) gives the right output."""
    z = scale * scores
    return (logsumexp(z, axis=1) - z[np.arange(len(z)), np.asarray(f)]) / math.log(2)


def fitted(scores: Float[np.ndarray, "n M"], f: Any, p: Float[np.ndarray, " n"]) -> tuple[float, float]:
    """The least of sum_x p(x) loss(x) over the scale, in bits, and the scale. It is convex in the scale."""
    spread = float(np.std(scores)) or 1.0

    def loss(log_scale: float) -> float:
        return float(p @ cross_entropies(scores, f, math.exp(log_scale) / spread))

    found = minimize_scalar(loss, bounds=(-12.0, 8.0), method="bounded", options={"xatol": 0.01})
    return float(found.fun), math.exp(found.x) / spread


def cut_loss(
    scores: Float[np.ndarray, "rows M"], f: Any, p: Float[np.ndarray, " k"], bits: float, tail: float
) -> tuple[float, int]:
    """The least loss over a cut: a model's own answers up to there, log2 M for each input beyond; and the cut.

    The k inputs, the most frequent first, may have been asked several times, one round after the other. ``tail`` is
    how often others are asked for.
    """
    rounds, f = len(scores) // len(p), np.asarray(f)
    _, scale = fitted(scores, f, np.tile(p / rounds, rounds))
    each = p * cross_entropies(scores, f, scale).reshape(rounds, -1).mean(axis=0)
    beyond = tail + np.append(np.cumsum(p[::-1])[::-1], 0.0)
    at = np.append(0.0, np.cumsum(each)) + bits * beyond
    cut = int(np.argmin(at))
    if not 0 < cut < len(p):
        return float(at[cut]), cut
    kept = np.tile(np.arange(len(p)) < cut, rounds)  # the scale for what is left of them
    least, _ = fitted(scores[kept], f[kept], np.tile(p[:cut] / rounds, rounds))
    return min(float(at[cut]), least + bits * float(beyond[cut])), cut


def best_linear(problem: Problem, p: Float[np.ndarray, " N"], *, max_iterations: int = 200) -> LinearMemory:
    """W of the least sum_x p(x) cross entropy: convex, so no linear memory of 32 bits a weight does better."""
    E, U, _ = (np.asarray(array, np.float64) for array in problem.host())
    (white, unwhiten), (outputs, back) = whiten(E), whiten(U)
    start = np.zeros((white.shape[1], outputs.shape[1]))
    args = (white, outputs, np.asarray(problem.f), p / p.sum())
    solved = minimise(_weighted_loss, start, args, max_iterations=max_iterations, tolerance=1e-6)
    return LinearMemory(jnp.asarray((unwhiten @ solved.x @ back.T).T, jnp.float32))


def _weighted_loss(A: Array, E: Array, U: Array, f: Int[Array, " N"], p: Array) -> Array:
    scores = E @ A @ U.T
    return (p * (jax.nn.logsumexp(scores, axis=1) - jnp.take_along_axis(scores, f[:, None], axis=1)[:, 0])).sum()

"""Two inputs at once (the lecture): memories of sums e_z1 + e_z2, linear and of degree 2.

Means over independent draws have intervals that hold for all of them together, as in `weighted`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from jaxtyping import Float

from facthold._util.keys import derive
from facthold.lab import Cell, Claim, Judgement, Result, Values
from facthold.lab.fields import Between, Count, Seeds, Share
from facthold.measure.capacity import Probe, Search, find_capacity, summary
from facthold.recipes import make_memory
from facthold.studies.judging import (
    TOLERANCE,
    all_of,
    at_preset,
    by_seed,
    judge_exponent,
    judge_mean,
    mean_and_error,
    n_params,
    seeds_at,
)
from facthold.studies.memories.capacity import MemoryCell
from facthold.studies.memories.figures import n_log_n
from facthold.theory.weighted import pair_kernels

if TYPE_CHECKING:
    from facthold.memory.associations import Problem

PAIRS = {"smoke": ((32, 256, 100),), "quick": ((16, 1024, 1500), (64, 1024, 800))}  # (d, m, draws)
XOR = {"smoke": (256, 2048, 4), "quick": (512, 4096, 20)}  # d, m, seeds: a d at which all kernels are near their means
PAIR_SIZES = {
    "smoke": ((8, 8), (8, 16), (8, 32)),
    "quick": ((16, 16), (16, 32), (16, 64), (24, 24), (24, 96)),
}  # (d, m)
MARGIN_WITHIN = 0.03  # of a mean margin that is 1/2 or 3/4


def grid_pairs(N: int) -> np.ndarray:
    """The first N pairs (z1, z2), square by square: all pairs of the first k inputs come before any other."""
    k = math.isqrt(max(N - 1, 0)) + 1
    both = np.stack(np.divmod(np.arange(k * k), k), axis=1)
    return both[np.lexsort((*both.T, both.max(axis=1)))][:N].astype(np.int32)


def pair_problem(N: int, seed: int, d: int, f: np.ndarray | None = None) -> "Problem":
    """N pairs, each with its own output, or with those of a map f."""
    import jax.numpy as jnp

    from facthold.memory.associations import sum_problem
    from facthold.memory.embeddings import embed

    pairs, f = grid_pairs(N), np.arange(N, dtype=np.int32) if f is None else f
    tables = (int(pairs.max()) + 1, int(pairs.max()) + 1, int(f.max()) + 1)
    first, second, U = (
        embed("sphere", n, d, key=derive("pairs", seed, d, name))
        for n, name in zip(tables, ("first", "second", "outputs"), strict=True)
    )
    return sum_problem(first, second, jnp.asarray(pairs), U, jnp.asarray(f))


@dataclass(frozen=True, kw_only=True)
class PairMargins(Cell):
    """Mean margins of the four pairs of two inputs and two, of the outer product and of an MLP of degree 2: against
    pairs that share one input, and against the one that shares none."""

    kind: ClassVar[str] = "pair-margins"
    counts_no_facts: ClassVar[str] = "margins are measured, not facts"

    d: Count
    m: Count
    seeds: Seeds

    @property
    def cost(self) -> float:
        return 0.02 * len(self.seeds)

    def run(self) -> Result:
        from facthold.construct.linear import outer_product
        from facthold.construct.mlp import hermite_features
        from facthold.measure.recall import margins

        found: dict[str, list[float]] = {"linear": [], "mlp": []}
        shares = (grid_pairs(4)[:, None] == grid_pairs(4)).sum(axis=2) == 1
        for seed in self.seeds:
            problem = pair_problem(4, seed, self.d)
            mlp = hermite_features(problem, self.m, 2, key=derive("pair features", seed, self.d, self.m))
            for name, memory in (("linear", outer_product(problem)), ("mlp", mlp)):
                found[name].append(float(np.asarray(margins(memory, problem))[shares].mean()))
        return {name: mean_and_error(values) for name, values in found.items()}


@dataclass(frozen=True, kw_only=True)
class Xor(Cell):
    """f*(z1, z2) = z1 xor z2: how many of its four pairs the best linear memory can have right, and an MLP has.

    A linear memory of two outputs is a vector v = W^T (u_1 - u_0), and pairs are right where v^T x has the right sign:
    a linear program for all four, and for each three of them.
    """

    kind: ClassVar[str] = "two-inputs-xor"
    counts_no_facts: ClassVar[str] = "there is only one such map"

    d: Count
    m: Count
    seeds: Seeds

    def run(self) -> Result:
        from facthold.construct.mlp import hermite_features
        from facthold.measure.recall import recalled

        counts: Result = {"linear": [], "mlp": []}
        for seed in self.seeds:
            f = grid_pairs(4).sum(axis=1).astype(np.int32) % 2
            problem = pair_problem(4, seed, self.d, f)
            mlp = hermite_features(problem, self.m, 2, key=derive("pair features", seed, self.d, self.m))
            counts["mlp"].append(int(np.asarray(recalled(mlp, problem)).sum()))
            signed = (2.0 * f - 1)[:, None] * np.asarray(problem.E, np.float64)
            counts["linear"].append(4 if _separable(signed) else 3 if _separable(signed[1:]) else 2)
        return counts


def _separable(signed: Float[np.ndarray, "n d"]) -> bool:
    """Whether some v has v^T x >= 1 for all rows x."""
    from scipy.optimize import linprog

    n, d = signed.shape
    return bool(linprog(np.zeros(d), -signed, -np.ones(n), bounds=(-1e6, 1e6)).status == 0)


@dataclass(frozen=True, kw_only=True)
class PairCapacity(MemoryCell):
    """The largest N of which a construction stores ``goal``: pairs on a square grid, each with its own output."""

    kind: ClassVar[str] = "pair-capacity"
    counts_no_facts: ClassVar[str] = "there is only one map f*(x) = x"

    goal: Share = 0.99
    tolerance: Annotated[float, Between(least=0)] = 0.03
    seeds: Seeds

    @property
    def cost(self) -> float:
        return len(self.seeds) * (1 + self.m * self.d / 300)

    def run(self) -> Result:
        guess = self.recipe.guess(self.d, self.m)
        search = Search(2, round(16 * guess), self.tolerance)
        return summary(find_capacity(self._ask, self.seeds, guess, search)) | {"n_params": self.n_params}

    def _ask(self, questions: Sequence[tuple[int, int]]) -> list[Probe]:
        from facthold.measure.recall import accuracy

        problems = [pair_problem(N, seed, self.d) for N, seed in questions]
        shares = [
            accuracy(make_memory(self.recipe, problem, self.m, seed), problem)
            for problem, (_, seed) in zip(problems, questions, strict=True)
        ]
        return [Probe(N, seed, share, share >= self.goal) for (N, seed), share in zip(questions, shares, strict=True)]


def pair_cells(preset: str) -> list[Cell]:
    d, m, n = at_preset(XOR, preset)
    return [
        *(PairMargins(d=d, m=m, seeds=tuple(range(n))) for d, m, n in at_preset(PAIRS, preset)),
        Xor(d=d, m=m, seeds=tuple(range(n))),
        *(PairCapacity(method="convex-readout", d=d, m=m, seeds=seeds_at(preset, 3))
          for d, m in at_preset(PAIR_SIZES, preset)),
    ]  # fmt: skip


def judge_pairs(rows: Sequence[Values]) -> Judgement:
    margins, xor, capacities = ([r for r in rows if r["kind"] == c.kind] for c in (PairMargins, Xor, PairCapacity))
    if not (margins and xor and len(capacities) > 2):
        return Judgement("two inputs at once", "not all of it was measured", "no interval", False)
    parts = []
    for r in margins:
        for i, name in enumerate(("linear", "mlp")):
            own, shared = (pair_kernels(r["d"])[pairs][i] for pairs in ("all", "one"))
            at = f"d={r['d']} {name}: margin"
            parts.append(judge_mean(at, r[name], own - shared, MARGIN_WITHIN, 2 * len(margins)))
    linear, mlp = ([count for r in xor for count in r[name]] for name in ("linear", "mlp"))
    parts.append(
        Judgement(
            "xor: 3 of 4 by the best linear memory, all by the MLP",
            f"xor: at most {max(linear)}, at least {min(mlp)}", f"exact; {len(mlp)} seeds",
            set(linear) == {3} and set(mlp) == {4},
        )
    )  # fmt: skip
    grows = f"N ln N as m d: exponent 1 within {TOLERANCE:g}"
    return all_of(*parts, judge_exponent(grows, by_seed(capacities), n_params, n_log_n))


CLAIM = Claim(
    "two-inputs", "slides",
    "On sums of two embeddings a linear memory has margins of 1/2 against pairs that share an input, and no xor. "
    "An MLP of degree 2 has margins of about 3/4, and xor. With a convex readout N ln N grows as m d.",
    pair_cells, judge_pairs,
)  # fmt: skip

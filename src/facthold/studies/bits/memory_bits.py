"""The memory-bits cell: the fewest bits in which a memory stores random associations, by one method at one size."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from facthold._util.errors import FactholdError, check_fits, check_positive, unknown
from facthold._util.keys import derive
from facthold.construct.linear import quantised
from facthold.construct.signs import PATIENCE, ROUNDS, TRIES, one_bit
from facthold.lab.cells import Cell, Result
from facthold.measure.quantise import LADDER, SEARCH, Grid, Recall, quantise
from facthold.measure.recall import accuracy, exact_recall
from facthold.memory.associations import Problem
from facthold.memory.embeddings import embed
from facthold.models.memory import LinearMemory, Memory, MLPMemory
from facthold.recipes.make import make_memory, training_member
from facthold.recipes.methods import LINEAR, METHODS, MLP, method
from facthold.studies.bits.bits_used import GOALS, bits_row, bits_used, summarised
from facthold.studies.memories.capacity import nested_problem
from facthold.theory.limits_facts import counting_bound
from facthold.train import Member, Protocol, StoreAssociations, fit
from facthold.train.rounded import OnGrid

PAPER = "quantised"
"""The outer product on the grid of corollary 2, with the bits that the paper counts for it: log2(16 N d) a weight."""
READINGS = {"argmax": accuracy, "signs": exact_recall}
"""How an output is read. 'argmax': the nearest of M = N random outputs. 'signs': one of all M = 2^d sign vectors."""
FIXED = {"hermite-features": ("W",), "ridge-readout": ("W",), "convex-readout": ("W",), "low-rank": ("W_2",)}
"""Random features: they do not depend on what is stored."""
LONG = 2**13
"""Steps for which memories are trained whose weights are rounded afterwards: margins go on growing after recall."""
GRID_TRAINING = {
    family: Protocol("on-grid", "ours", "adam", lr=lr, steps=2**12, check_every=64, goal=1.0, futility=None, decay=True)
    for family, lr in ((LINEAR, 0.3), (MLP, 0.03))
}
"""0.3 for weights that start at a root mean square of 10: a step can flip few signs, and all steps any of them."""
START = 10.0
MOST_SIGNS = 1000
CLIPS = {2: 1.0, 3: 1.3}
"""Where the grids of training end, in root mean squares: near the best grids for Gaussian weights (Max, 1960)."""


class Way(NamedTuple):
    """A way to make a memory that is then rounded."""

    family: str
    make: Callable[[Problem, int, int], Memory]
    """From a problem, m and a seed."""
    guess: Callable[[int, int], float]
    """Associations that it stores at (d, m), about."""
    levels: int = 0
    """Its weights are on a grid of so many levels already; 0: they are not."""
    spec: dict[str, Any] = {}  # noqa: RUF012
    fixed: tuple[str, ...] = ()


def _trained_long(name: str) -> Callable[[Problem, int, int], Memory]:
    """Training that does not end at recall: what is rounded needs margins."""

    def make(problem: Problem, m: int, seed: int) -> Memory:
        way = method(name)
        assert way.protocol is not None
        # rule 'final' looks at the goal at the end only
        protocol = replace(way.protocol, steps=min(LONG, way.protocol.steps), futility=None, rule="final", decay=True)
        return fit([training_member(way, problem, m, seed)], protocol)[0].model

    return make


def _on_grid(family: str, levels: int) -> Callable[[Problem, int, int], Memory]:
    """Training with every weight on a grid of so many levels."""
    grid = Grid(levels, clip=CLIPS[levels])

    def make(problem: Problem, m: int, seed: int) -> Memory:
        key, d = derive("grid", seed, problem.d, m, family, levels), problem.d
        start: Memory
        if family == LINEAR:
            start = LinearMemory(START * jax.random.normal(key, (d, d)))
        else:
            k_W, k_V = jax.random.split(key)
            start = MLPMemory(jax.random.normal(k_W, (m, d)), 3 * m**-0.5 * jax.random.normal(k_V, (m, d)))
        run = fit([Member(start, OnGrid(StoreAssociations.of(problem), grid), key)], GRID_TRAINING[family])[0]
        return quantise(run.model, grid).model

    return make


def _grid_spec(family: str, levels: int) -> dict[str, Any]:
    return {"protocol": GRID_TRAINING[family].spec, "start": START, "clip": CLIPS[levels]}


def _method(name: str, share: float = 1.0) -> Way:
    way = METHODS[name]
    if way.protocol is not None:
        make, spec = _trained_long(name), {"protocol": way.protocol.spec, "long": LONG}
    else:
        make, spec = lambda problem, m, seed: make_memory(way, problem, m, seed), {}
    return Way(way.family, make, lambda d, m: share * way.guess(d, m), spec=spec, fixed=FIXED.get(name, ()))


WAYS = {
    **{name: _method(name) for name in METHODS},
    "on-grid:linear-2": Way(LINEAR, _on_grid(LINEAR, 2), lambda d, m: 0.055 * d * d, 2, _grid_spec(LINEAR, 2)),
    "on-grid:linear-3": Way(LINEAR, _on_grid(LINEAR, 3), lambda d, m: 0.07 * d * d, 3, _grid_spec(LINEAR, 3)),
    "on-grid:mlp-2": Way(MLP, _on_grid(MLP, 2), lambda d, m: 0.055 * m * d, 2, _grid_spec(MLP, 2)),
    "on-grid:mlp-3": Way(MLP, _on_grid(MLP, 3), lambda d, m: 0.09 * m * d, 3, _grid_spec(MLP, 3)),
    "one-bit": Way(
        LINEAR, lambda problem, m, seed: one_bit(problem, key=derive("one-bit", seed, problem.d)),
        lambda d, m: 0.65 * d, 2, {"patience": PATIENCE, "rounds": ROUNDS, "tries": TRIES},
    ),
}  # fmt: skip
SIGN_GUESSES = {"one-bit": lambda d: 0.65 * d, "outer-product": lambda d: d / (2 * math.log(d))}
"""What is stored where outputs are read by signs, of the methods whose targets are signs."""


def sign_problem(N: int, seed: int, d: int) -> Problem:
    """N inputs on the sphere, and for each of them one of all 2^d sign vectors."""
    E = embed("sphere", N, d, key=derive("sign inputs", seed, d))
    return Problem(E, embed("signs", N, d, key=derive("sign outputs", seed, d)), jnp.asarray(np.arange(N)))


@dataclass(frozen=True, kw_only=True)
class MemoryBits(Cell):
    """The fewest bits at each goal, for several numbers N of uniformly random associations in one memory a seed."""

    kind: ClassVar[str] = "memory-bits"

    method: str
    d: int
    m: int = 0
    reading: str = "argmax"
    loads: tuple[float, ...] = (0.5, 0.7, 1.0)
    """N, as multiples of a guess at what the method stores."""
    goals: tuple[float, ...] = GOALS
    seeds: tuple[int, ...] = (0,)

    def __post_init__(self) -> None:
        if self.method not in WAYS:
            raise unknown("method", self.method, WAYS)
        check_positive(d=self.d)
        if self.method in METHODS:
            METHODS[self.method].check(self.d, self.m)
        if (self.way.family == LINEAR) == (self.m != 0) or self.m < 0:
            raise ValueError(f"m={self.m}: take 0 for a linear memory, else m >= 1; {self.method} is {self.way.family}")
        if self.reading not in READINGS:
            raise unknown("reading", self.reading, READINGS)
        if self.reading == "signs" and self.method not in SIGN_GUESSES:
            raise unknown("method that is read by signs", self.method, SIGN_GUESSES)
        if self.reading == "signs" and not 2 <= self.d <= MOST_SIGNS:
            raise ValueError(f"d={self.d}: sign vectors of 2 to {MOST_SIGNS} coordinates can be counted")
        if not self.loads or not self.seeds or min(self.loads) <= 0:
            raise ValueError(f"loads={self.loads} and seeds={self.seeds}: give some of each, and loads above 0")
        if not self.goals or not all(0 < goal <= 1 for goal in self.goals):
            raise ValueError(f"goals={self.goals} must be above 0 and at most 1")
        N = max(self.N(load) for load in self.loads)
        check_fits(N=N, d=self.d, M=N, scores=True)

    @property
    def way(self) -> Way:
        return WAYS[self.method]

    @property
    def spec(self) -> dict[str, Any]:
        """The fields, how many associations there are, and all that the weights and the search depend on."""
        Ns = [self.N(load) for load in self.loads]
        return super().spec | {"N": Ns, "search": SEARCH} | ({"way": self.way.spec} if self.way.spec else {})

    @property
    def label(self) -> str:
        size = f"d={self.d}" + (f" m={self.m}" if self.m else "")
        return f"bits of {self.method} at {size}, read by {self.reading}"

    @property
    def cost(self) -> float:
        trained = self.method.startswith(("train:", "on-grid:"))
        N = self.N(1.0)
        step = 4 * N * (N + 2 * (self.m or self.d)) * self.d / 3e10 + 1e-4
        return len(self.loads) * len(self.seeds) * (2 + (6000 * step if trained else 300 * step))

    def N(self, load: float) -> int:
        signs = self.reading == "signs"
        return max(2, round(load * (SIGN_GUESSES[self.method](self.d) if signs else self.way.guess(self.d, self.m))))

    def outputs(self, N: int) -> int:
        """Outputs that an association chooses from."""
        return 2**self.d if self.reading == "signs" else N

    def problem(self, N: int, seed: int) -> Problem:
        if self.reading == "signs":
            return sign_problem(N, seed, self.d)
        return nested_problem(N, seed, self.d, map="uniform")

    def run(self) -> Result:
        points = [self._point(self.N(load), seed) for seed in self.seeds for load in self.loads]
        return summarised(points) | {"n_params": self.d * self.d if self.way.family == LINEAR else 2 * self.m * self.d}

    def _point(self, N: int, seed: int) -> dict[str, Any]:
        problem = self.problem(N, seed)
        read = READINGS[self.reading]
        try:
            memory = self.way.make(problem, self.m, seed)
        except FactholdError as error:
            return {"facts": N, "seed": seed, "recall": 0.0, "used": [], "tried": 1, "status": str(error)}
        recall = read(memory, problem)
        used, tried = self._used(memory, problem, recall)
        return {"facts": N, "seed": seed, "recall": recall, "used": used, "tried": 1 + tried, "status": "measured"}

    def _used(self, memory: Memory, problem: Problem, recall: float) -> tuple[list[dict[str, Any]], int]:
        N, read = problem.N, READINGS[self.reading]
        bound = lambda wrong: counting_bound(N, 1, self.outputs(N), wrong)  # noqa: E731
        if self.method == PAPER:
            bits = quantised(problem).total_bits
            return [bits_row(g, bits, recall, N, bound, memory.n_params) for g in self.goals if recall >= g], 1
        ask = lambda model: read(model, problem)  # noqa: E731
        return bits_used(
            memory, Recall([ask], ask), N, bound, fixed=self.way.fixed, goals=self.goals,
            ladder=(self.way.levels,) if self.way.levels else LADDER,
        )  # fmt: skip

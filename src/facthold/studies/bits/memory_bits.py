"""The fewest bits of a model at each goal, beside the fewest that any model needs: in general, and for a memory."""

import math
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

import numpy as np

from facthold._util.errors import FactholdError, unknown
from facthold._util.keys import derive
from facthold._util.memory import Parts, memory_parts
from facthold.lab import Account, Cell, Result, Values
from facthold.lab.fields import Each, OneOf, Positive, Seeds, Shares
from facthold.measure.grids import LADDER, SEARCH
from facthold.recipes import make_memory, memory_recipes, train_memory
from facthold.recipes.base import LINEAR
from facthold.studies.judging import grouped
from facthold.studies.memories.capacity import MemoryCell
from facthold.theory.limits_facts import counting_bound

if TYPE_CHECKING:
    from facthold.measure.quantise import Model, Recall
    from facthold.memory.associations import Problem
    from facthold.models.memory import Memory

GOALS = (0.99, 1.0)
ALL, WRITTEN = "all", "written"  # counts: every weight, or only those that depend on the facts; see `measure.quantise`
T = TypeVar("T")
Point = dict[str, Any]  # one rounded model: facts, seed, recall, used (a row for each goal and count), tried, status
PAPER = "quantised"  # the outer product on corollary 2's grid, with the paper's log2(16 N d) bits per weight
ARGMAX, SIGNS = "argmax", "signs"  # an output is the nearest of M = N random ones, or one of all 2^d sign vectors
LONG = 2**13  # steps of training memories that are rounded afterwards: margins go on growing after recall
MOST_SIGNS = 1000
STEP = 1.05  # the factor by which a search for the best N goes on beyond what was tried: far above it one bit is slow
FARTHEST = 16  # times a recipe's guess: where such a search ends, and nothing was found


@dataclass(frozen=True, kw_only=True)
class BitsCell(Cell):
    """The fewest bits at each goal, for several models per seed."""

    goals: Shares = GOALS
    seeds: Seeds = (0,)

    @abstractmethod
    def points(self, seed: int) -> Iterable[Point]:
        """The models of a seed."""

    @abstractmethod
    def outputs(self, facts: int) -> int:
        """Answers that each of so many facts chooses from."""

    def run(self) -> Result:
        """The best row of all points for each goal and count, and how many models were made or asked to find it."""
        points = [point for seed in self.seeds for point in self.points(seed)]
        rows = [row | {key: point[key] for key in ("facts", "seed")} for point in points for row in point["used"]]
        of, efficiency = itemgetter("goal", "count"), itemgetter("efficiency")
        best = [max((row for row in rows if of(row) == key), key=efficiency) for key in dict.fromkeys(map(of, rows))]
        return {"best": best, "tried": sum(point["tried"] for point in points), "points": points}

    def accounts(self, result: Mapping[str, Any]) -> list[Account] | str:
        return [
            Account(facts, self.outputs(facts), round((1 - used["recall"]) * facts), used["bits"], result["tried"])
            for facts, row in ((point["facts"], point["used"]) for point in result["points"]) for used in row
        ]  # fmt: skip

    def rounded(
        self, model: "Model", recall: "Recall", facts: int, *, fixed: Collection[str] = (), levels: int = 0
    ) -> tuple[list[Point], int]:
        """One row for each goal that some grid reaches, and each count; and how many models on grids were asked.

        Where no weight is fixed both counts are the same, and there is one row. ``levels``: the only grid that is
        tried; 0: all of `LADDER` are.
        """
        from facthold.measure.quantise import judged_bits

        rows: list[Point] = []
        tried = 0
        for count, left_out in ((ALL, ()), (WRITTEN, tuple(fixed))) if fixed else ((ALL, ()),):
            for goal in self.goals:
                fewest = judged_bits(model, recall, goal, fixed=left_out, ladder=(levels,) if levels else LADDER)
                tried += fewest.tried
                if (q := fewest.quantised) is not None:
                    row = self.row(goal, q.bits, fewest.recall, facts, q.n_weights) | {"scale_bits": q.scale_bits}
                    levels_of = {name: grid.levels for name, grid in q.grids.items()}
                    scales = next(iter(q.grids.values())).scales
                    rows.append(row | {"count": count, "levels": levels_of, "scales": scales})
        return rows, tried

    def row(self, goal: float, bits: float, recall: float, facts: int, n_weights: int) -> Point:
        """What figures and accounts read of one model with so many bits."""
        least = counting_bound(facts, 1, self.outputs(facts), round((1 - recall) * facts))
        return {
            "goal": goal, "count": ALL, "bits": bits, "recall": recall, "bound": least, "efficiency": least / bits,
            "bits_per_fact": bits / facts, "bits_per_weight": bits / n_weights, "bound_per_weight": least / n_weights,
            "n_weights": n_weights,
        }  # fmt: skip


def nothing(facts: int, seed: int, status: str) -> Point:
    """The point of a model that could not be made, and why."""
    return {"facts": facts, "seed": seed, "recall": 0.0, "used": [], "tried": 1, "status": status}


def of_seeds(row: Values, count: str = ALL) -> list[Values | None]:
    """What each seed's best model at 99% has, with its ``facts``; None for a seed without one, and where the search for
    its N ended at the largest that was tried: a ceiling is no maximum."""
    seeds = grouped(row["points"], itemgetter("seed"))
    return [_of_seed(points, count, searched="loads" in row) for points in seeds.values()]


def _of_seed(points: Sequence[Values], count: str, searched: bool) -> Values | None:
    used = [
        u | {"facts": point["facts"]} for point in points for u in point["used"]
        if (u["goal"], u["count"]) == (GOALS[0], count)
    ]  # fmt: skip
    top = max(used, key=itemgetter("efficiency"), default=None)
    at_end = top and count == ALL and searched and top["facts"] == max(point["facts"] for point in points)
    return None if at_end else top


def best(row: Values, count: str = ALL) -> Values | None:
    """The best model of a cell at 99%, of the seed in the middle; None where half of the seeds or more have none, as
    where no weight is fixed and all are written."""
    found = [point for point in of_seeds(row, count) if point]
    ranked = sorted(found, key=itemgetter("efficiency"))
    return ranked[(len(ranked) - 1) // 2] if len(ranked) * 2 > len({p["seed"] for p in row["points"]}) else None


def peak(value: Callable[[int], float], start: Sequence[int], tolerance: float, most: int) -> dict[int, float]:
    """The values at all N that a search for the largest one asks for, with 0 for none.

    It goes on by `STEP` beyond the ends while the best is there, down to 2 and up to ``most``. Then it halves the gaps
    on both sides of the best until neither is wider than the tolerance. Of equal values the largest N is the best.
    """
    values = {N: value(N) for N in sorted(set(start))}
    while True:
        tried, largest = sorted(values), max(values.values())
        i = max(i for i, N in enumerate(tried) if values[N] == largest) if largest else 0
        N, last = tried[i], i == len(tried) - 1
        if largest and last and most > N:
            new = min(most, max(N + 1, round(N * STEP)))
        elif i == 0 and N > 2:
            new = max(2, min(N - 1, round(N / STEP)))
        else:
            gaps = [(high / low, low, high) for low, high in pairwise(tried[max(0, i - 1) : i + 2]) if high > low + 1]
            width, low, high = max(gaps, default=(1.0, N, N))
            if not largest or width <= 1 + tolerance:
                return values
            new = min(max(round(math.sqrt(low * high)), low + 1), high - 1)
        values[new] = value(new)


def efficiencies(rows: Sequence[Values], name: Callable[[Values], T], count: str = ALL) -> dict[T, list[float]]:
    """The efficiencies of the rows that have one, by a name of theirs."""
    by_name: dict[T, list[float]] = {}
    for row in rows:
        if point := best(row, count):
            by_name.setdefault(name(row), []).append(point["efficiency"])
    return by_name


def sign_problem(N: int, seed: int, d: int) -> "Problem":
    """N inputs on the sphere, and for each of them one of all 2^d sign vectors."""
    import jax.numpy as jnp

    from facthold.memory.associations import Problem
    from facthold.memory.embeddings import embed

    E = embed("sphere", N, d, key=derive("sign inputs", seed, d))
    return Problem(E, embed("signs", N, d, key=derive("sign outputs", seed, d)), jnp.asarray(np.arange(N)))


@dataclass(frozen=True, kw_only=True)
class MemoryBits(MemoryCell, BitsCell):
    """The fewest bits at each goal, for several numbers N of uniformly random associations in one memory per seed.

    The N of the largest efficiency at the first goal is searched (`peak`): no N that was listed beforehand limits it.
    """

    kind: ClassVar[str] = "memory-bits"

    reading: Annotated[str, OneOf((ARGMAX, SIGNS))] = ARGMAX
    loads: Annotated[tuple[float, ...], Each(Positive)] = (0.97, 1.0)  # of the recipe's guess: where N starts
    tolerance: Positive = 0.1  # relative width of the gaps beside the best N at which its search ends

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reading == SIGNS and self.recipe.signs_guess is None:
            by_signs = [name for name, recipe in memory_recipes().items() if recipe.signs_guess]
            raise unknown("method that is read by signs", self.method, by_signs)
        if self.reading == SIGNS and not 2 <= self.d <= MOST_SIGNS:
            raise ValueError(f"d={self.d}: sign vectors of 2 to {MOST_SIGNS} coordinates can be counted")

    @property
    def needed(self) -> Parts:
        N = max(self.N(load) for load in self.loads)
        return memory_parts(N=N, d=self.d, M=N, m=self.m, scores=True)

    @property
    def made_by(self) -> dict[str, Any]:
        """What the weights depend on beside the recipe's name and sizes."""
        protocol = self.recipe.protocol
        return {"protocol": protocol.spec, "long": LONG} if protocol else dict(self.recipe.spec)

    @property
    def spec(self) -> dict[str, Any]:
        Ns = [self.N(load) for load in self.loads]
        return super().spec | {"N": Ns, "search": SEARCH} | ({"way": self.made_by} if self.made_by else {})

    @property
    def cost(self) -> float:
        N, recipe = self.N(1.0), self.recipe
        step = 4 * N * (N + 2 * (self.m or self.d)) * self.d / 3e10 + 1e-4
        steps = 2 if self.method == PAPER else 300 if recipe.solved else 20
        steps = 6000 if recipe.protocol else 4000 if recipe.levels else steps
        one = 5 * (self.d / 256) ** 2 if recipe.levels and self.reading == SIGNS else steps * step
        tried = 2 + len(self.loads) + 2 * math.log2(max(2.0, (STEP - 1) / self.tolerance))
        return tried * len(self.seeds) * ((1.0 if recipe.solved else 0.2) + one)

    def N(self, load: float) -> int:
        guess = self.recipe.signs_guess if self.reading == SIGNS else None
        return max(2, round(load * (guess(self.d) if guess else self.recipe.guess(self.d, self.m))))

    def outputs(self, facts: int) -> int:
        return 2**self.d if self.reading == SIGNS else facts

    def problem(self, N: int, seed: int) -> "Problem":
        from facthold.memory.associations import seeded_problem

        signs = self.reading == SIGNS
        return sign_problem(N, seed, self.d) if signs else seeded_problem(N, seed, self.d, map="uniform")

    def make(self, problem: "Problem", seed: int) -> "Memory":
        """Training does not end at recall: what is rounded needs margins."""
        protocol = self.recipe.protocol
        if protocol is None:
            return make_memory(self.recipe, problem, self.m, seed)
        # rule 'final' looks at the goal at the end only
        long = replace(protocol, steps=min(LONG, protocol.steps), futility=None, rule="final", decay=True)
        return train_memory(self.recipe, problem, self.m, seed, long)

    def run(self) -> Result:
        weights = self.d**2 if self.recipe.family == LINEAR else 2 * self.m * self.d  # biases are left out
        return super().run() | {"n_params": weights}

    def points(self, seed: int) -> list[Point]:
        """The memories of a search for the best N, the smallest first."""
        points: dict[int, Point] = {}

        def efficiency(N: int) -> float:
            points[N] = self._point(N, seed)
            counted = (row for row in points[N]["used"] if (row["goal"], row["count"]) == (self.goals[0], ALL))
            return max((row["efficiency"] for row in counted), default=0.0)

        peak(efficiency, [self.N(load) for load in self.loads], self.tolerance, FARTHEST * self.N(1.0))
        return [points[N] for N in sorted(points)]

    def _point(self, N: int, seed: int) -> Point:
        from facthold.construct.linear import quantised
        from facthold.measure.quantise import Recall
        from facthold.measure.recall import accuracy, exact_recall

        problem, read = self.problem(N, seed), exact_recall if self.reading == SIGNS else accuracy
        try:
            memory = self.make(problem, seed)
        except FactholdError as error:
            return nothing(N, seed, str(error))
        recall = read(memory, problem)
        if self.method == PAPER:
            bits = quantised(problem).bits_per_weight * memory.n_params
            used, tried = [self.row(g, bits, recall, N, memory.n_params) for g in self.goals if recall >= g], 1
        else:
            ask = lambda model: read(model, problem)  # noqa: E731
            fixed, levels = self.recipe.fixed, self.recipe.levels
            used, tried = self.rounded(memory, Recall([ask], ask), N, fixed=fixed, levels=levels)
        return {"facts": N, "seed": seed, "recall": recall, "used": used, "tried": 1 + tried, "status": "measured"}

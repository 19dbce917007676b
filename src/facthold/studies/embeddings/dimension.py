"""Cells that search the smallest dimension d in which so many associations are held: with random embeddings, with
embeddings that are spread evenly, and with embeddings that are trained together with the weights. `facts` has those of
transformers."""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np

from facthold._util.keys import derive
from facthold._util.memory import Parts, bytes_of
from facthold._util.padding import next_power_of_two
from facthold.lab import Cell, Result
from facthold.lab.fields import Between, Count, Each, OneOf, Positive, Seeds, Share, Whole
from facthold.measure.capacity import FAILED, FOUND, Search, Smallest, find_smallest_of_each, spread
from facthold.train.protocols import Protocol

if TYPE_CHECKING:
    from facthold.memory.associations import Problem
    from facthold.models.memory import Memory
    from facthold.train.engine import Member
    from facthold.train.race import Best

LEARNED = "learned"
KINDS = ("sphere", "spread", LEARNED)
START = "sphere"  # where learned embeddings start
ROUNDING = 1e-6  # of an accuracy in float32, as in `train.engine`
LOOKS = 64  # at the accuracy, along a run
COMPILE, PROBES = 2.0, 4.0  # seconds of compilations, which cells share, and models that a search tries, about
LEAST = 16  # dimensions that every model is padded to
ROOM = 128
"""Associations, or subjects, that every problem is padded to: all small ones then share a compiled loop for each d."""

Rates = Annotated[tuple[float, ...], Each(Positive, distinct=True)]
Several = Annotated[int, Between(least=2)]


def room(d: int) -> int:
    """The dimension that a model of dimension d is padded to, so that few loops are compiled."""
    return next_power_of_two(max(d, LEAST))


def wider(X: Any, d: int) -> np.ndarray:
    """Embeddings with zeros added, up to d dimensions."""
    return np.pad(X, [(0, 0), (0, d - X.shape[1])])


class Trial(NamedTuple):
    """A model of one dimension that was trained."""

    accuracy: float  # the best of its learning rates; nan where all of them diverged
    about: Mapping[str, Any]  # what is said of it where its dimension is the smallest


@dataclass(frozen=True, kw_only=True)
class Trained(Cell):
    """Models that are trained for so many steps at some learning rates, of which the best run counts."""

    steps: Count
    lrs: Rates
    seeds: Seeds

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps % LOOKS:
            raise ValueError(f"steps={self.steps} must be a multiple of {LOOKS}, the number of looks at a run")

    def trained(self, races: "Sequence[Sequence[Member]]", goal: float) -> "list[Best]":
        """The run that counts of each race; all of them train side by side. The learning rate falls to zero, and no run
        is given up early."""
        from facthold.train.engine import fit
        from facthold.train.race import best_of

        protocol = Protocol(
            self.kind, "this cell", "adam", self.lrs[0], self.steps, self.steps // LOOKS, goal=goal, futility=None,
            decay=True,
        )  # fmt: skip
        runs = iter(fit([member for race in races for member in race], protocol))
        return [best_of(race, [next(runs) for _ in race]) for race in races]


@dataclass(frozen=True, kw_only=True)
class Dimension(Trained):
    """The smallest d in which the share ``goal`` is recalled. Parameters are counted with
    the embeddings where these are learned; others do not depend on what is stored, and are not counted."""

    embeddings: Annotated[str, OneOf(KINDS)]
    goal: Share = 0.99
    most: Count = 96  # the largest d that is tried

    @property
    def learned(self) -> bool:
        return self.embeddings == LEARNED

    @property
    def drawn(self) -> str:
        """The kind of embeddings that stay, or that training starts from."""
        return START if self.learned else self.embeddings

    @property
    @abstractmethod
    def guess(self) -> float:
        """Where the search starts: a bad guess costs time, not correctness."""

    @abstractmethod
    def trials(self, questions: Sequence[tuple[int, int]]) -> list[Trial]:
        """Models of these dimensions and seeds, trained side by side."""

    def run(self) -> Result:
        tried: dict[tuple[int, int], Trial] = {}

        def ask(questions: Sequence[tuple[int, int]]) -> list[float]:
            trials = self.trials(questions)
            tried.update(zip(questions, trials, strict=True))
            return [trial.accuracy for trial in trials]

        first, search = max(1, round(self.guess)), Search(1, self.most, tolerance=0.0)
        smallest = find_smallest_of_each(ask, self.goal - ROUNDING, self.seeds, first, search)
        found = [
            self._found(seed, one, tried.get((one.size or 0, seed)))
            for seed, one in zip(self.seeds, smallest, strict=True)
        ]
        status = ", ".join(sorted({one["status"] for one in found} - {FOUND})) or FOUND
        spreads = [spread(name, [one[name] for one in found]) for name in ("d", "n_params")]
        return {"status": status, **spreads[0], **spreads[1], "per_seed": found}

    def _found(self, seed: int, smallest: Smallest, trial: Trial | None) -> Result:
        """A search in JSON. Where a probe diverged, what was found below or above it is no result."""
        failed = any(math.isnan(accuracy) for _, accuracy in smallest.probes)
        probes = [[d, None if math.isnan(a) else a] for d, a in smallest.probes]
        found = {"seed": seed, "status": FAILED if failed else smallest.status, "probes": probes}
        if failed or trial is None or smallest.size is None:
            return found | {"d": None, "n_params": None}
        return found | {"d": smallest.size, **trial.about}


@dataclass(frozen=True, kw_only=True)
class MemoryDimension(Dimension):
    """The smallest d of a memory of N associations f*(x) = x: linear, or an MLP of width ``ratio`` d."""

    kind: ClassVar[str] = "memory-dimension"
    counts_no_facts: ClassVar[str] = "there is only one map f*(x) = x"

    N: Several
    ratio: Whole = 0  # m / d; 0: linear

    @property
    def guess(self) -> float:
        if self.learned:
            return 1 + math.log(self.N) / 2
        return math.sqrt((0.3 / self.ratio if self.ratio else 1.0) * self.N * math.log(self.N))

    @property
    def needed(self) -> Parts:
        return {f"N={self.N}": bytes_of(scores=6.0 * self.N**2, embeddings=8.0 * self.N * self.most)}

    @property
    def cost(self) -> float:
        flops = 12.0 * max(self.N, ROOM) ** 2 * room(round(self.guess))
        return COMPILE / 2 + PROBES * len(self.seeds) * len(self.lrs) * self.steps * (flops / 1e11 + 3e-5)

    def trials(self, questions: Sequence[tuple[int, int]]) -> list[Trial]:
        from facthold.memory.associations import seeded_problem
        from facthold.train.race import reached

        problems = [seeded_problem(self.N, seed, d, embeddings=self.drawn) for d, seed in questions]
        races = [self._race(problem, seed) for problem, (_, seed) in zip(problems, questions, strict=True)]
        best = self.trained(races, self.goal)
        return [Trial(reached(b.run), self._about(p, b)) for p, b in zip(problems, best, strict=True)]

    def _race(self, problem: "Problem", seed: int) -> "list[Member]":
        import jax.numpy as jnp

        from facthold.memory.associations import Problem
        from facthold.models.embedded import roomy
        from facthold.models.memory import initial_memory
        from facthold.train.embedded import StoreWithEmbeddings
        from facthold.train.engine import Member
        from facthold.train.tasks import StoreAssociations

        d, content = problem.d, (seed, problem.d, self.ratio)

        def initial(d: int) -> "Memory":
            return initial_memory("mlp" if self.ratio else "linear", d, self.ratio * d, key=derive("init", *content))

        F = roomy(initial(d), initial(room(d)))
        E, U = (jnp.asarray(wider(X, room(d))) for X in (problem.E, problem.U))
        task: Any = (StoreWithEmbeddings if self.learned else StoreAssociations).of(
            Problem(E, U, problem.f), least=ROOM
        )
        start = task.start(F) if self.learned else F
        return [Member(start, task, derive("train", *content), lr, race=content) for lr in self.lrs]

    def _about(self, problem: "Problem", best: "Best") -> dict[str, Any]:
        from facthold.measure.overlaps import overlaps

        trained: Any = best.run.model if self.learned else problem
        n_params = (2 * self.ratio or 1) * problem.d**2 + (problem.n_embeddings if self.learned else 0)
        parts = {name: X[: self.N, : problem.d] for name, X in (("inputs", trained.E), ("outputs", trained.U))}
        return {
            "n_params": n_params, "lr": best.lr, "overlaps": {name: list(overlaps(X)) for name, X in parts.items()},
        }  # fmt: skip

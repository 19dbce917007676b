"""The fact-bits cell: the fewest bits in which a transformer knows a random table of facts, built or trained."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from facthold._util.errors import FactholdError, check_positive, unknown
from facthold._util.keys import derive
from facthold.facts.problem import FactualRecall
from facthold.facts.prompts import SEQUENCE
from facthold.lab.cells import Cell, Result
from facthold.measure.fact_recall import always_right
from facthold.measure.quantise import LADDER, MOST_LEVELS, SEARCH, Grid, Recall, quantise
from facthold.models.transformer import Transformer
from facthold.recipes.builders import BUILDERS, builder
from facthold.studies.bits.bits_used import GOALS, bits_used, summarised
from facthold.studies.constructions.built_size import BuiltSize
from facthold.studies.transformers.fact_capacity import (
    best_run,
    make_problem,
    nested_table,
    racing_members,
    shape_of,
    step_seconds,
)
from facthold.studies.transformers.variants import variant
from facthold.theory.bounds import FACTS_A_PARAMETER
from facthold.theory.limits_facts import counting_bound
from facthold.train import BATCH, Protocol, RecallFacts, fit, protocol
from facthold.train.rounded import OnGrid

TRAINED = "trained"
ATTENTION = ("W_K", "W_Q", "W_V")
FIXED = {
    "attention": ATTENTION, "attention-full": ATTENTION, "values": ATTENTION, "values-ridge": ATTENTION,
    "attention-mlp": (*ATTENTION, "W_O", "mlp.W"), "selected-ridge": (*ATTENTION, "W_O", "mlp.W"),
    "selected-convex": (*ATTENTION, "W_O", "mlp.W"), "selected": (*ATTENTION, "W_O"),
}  # fmt: skip
"""Weights that depend on the embeddings and on which facts are asked, and not on the answers."""
CHOSEN = (4, 16)
"""Prompts of each fact that a grid is chosen by; a fact counts where it is right in all of them."""
JUDGED = 4
"""Fresh prompts of each fact, by which the choice is judged in the same way."""
TOLERANCE = 0.1
"""Relative width at which the search for the smallest construction ends."""
ROOMIER = 1.5
"""Figures give models that are trained on a grid so many times the parameters: they learn fewer facts a parameter."""
CLIP = 2.5
"""Where the grids of training end, in root mean squares of the weights."""


def asked_often(problem: FactualRecall, seed: int) -> Recall:
    """The share of facts that are right in all of some prompts."""

    def ask(what: str, draws: int) -> Callable[[Transformer], float]:
        key = derive(what, seed, draws)
        return lambda model: always_right(model, problem, key=key, draws=draws)

    return Recall([ask("bits", draws) for draws in CHOSEN], ask("judge bits", JUDGED))


@dataclass(frozen=True, kw_only=True)
class FactBits(Cell):
    """The fewest bits at each goal, for models of several sizes that know all (or nearly all) of one table a seed."""

    kind: ClassVar[str] = "fact-bits"

    model: str
    """A construction's name, or 'trained'."""
    S: int
    R: int
    D: int
    d: int = 0
    """Of constructions whose size is m or d_h. Trained models get theirs from ``rooms``."""
    per_head: int = 0
    guess: int = 64
    """Where the search for the smallest construction starts."""
    rooms: tuple[float, ...] = (1.0, 1.4, 2.0)
    """Sizes, as multiples of the smallest construction that recalls all, or of figure 4's parameters a fact."""
    alpha: float = 1.0
    beta: float = 4.0
    H: int = 8
    """Of trained models: H d_h = alpha d and m = beta d."""
    levels: int = 0
    """Trained models only: every weight is on a grid of so many levels during training; 0: rounded afterwards."""
    protocol: str = "transformer-short"
    goals: tuple[float, ...] = GOALS
    seeds: tuple[int, ...] = (0,)

    def __post_init__(self) -> None:
        check_positive(S=self.S, R=self.R, D=self.D, guess=self.guess)
        if self.model != TRAINED and self.model not in BUILDERS:
            raise unknown("model", self.model, (TRAINED, *BUILDERS))
        if self.model == TRAINED and self.d:
            raise ValueError(f"d={self.d}: trained models get their d from rooms; leave it 0")
        if self.levels and (self.model != TRAINED or not 2 <= self.levels <= MOST_LEVELS):
            raise ValueError(f"levels={self.levels}: a grid of 2 to {MOST_LEVELS} levels, for trained models only")
        if not (self.alpha > 0 and self.beta >= 0 and self.H > 0):
            raise ValueError(f"alpha={self.alpha} and H={self.H} must be positive, beta={self.beta} not negative")
        if not self.rooms or not self.seeds or min(self.rooms) <= 0:
            raise ValueError(f"rooms={self.rooms} and seeds={self.seeds}: give some of each, and rooms above 0")
        if not self.goals or not all(0 < goal <= 1 for goal in self.goals):
            raise ValueError(f"goals={self.goals} must be above 0 and at most 1")

    @property
    def training(self) -> Protocol:
        """To the end, also after all is recalled: what is rounded needs margins."""
        return replace(protocol(self.protocol), goal=1.0, futility=None, rule="final", decay=True)

    @property
    def spec(self) -> dict[str, Any]:
        asked = {"search": SEARCH, "prompts": [*CHOSEN, JUDGED], "search_tolerance": TOLERANCE}
        if self.model != TRAINED:
            return super().spec | asked
        way = {"training": self.training.spec, "way": asdict(variant("code")), "batch": BATCH, "clip": CLIP}
        return super().spec | asked | way

    @property
    def label(self) -> str:
        how = f" on {self.levels} levels" if self.levels else ""
        return f"bits of {self.model}{how}, S={self.S} R={self.R} D={self.D}"

    @property
    def cost(self) -> float:
        n = len(self.rooms) * len(self.seeds)
        if self.model != TRAINED:
            return n * (4 + self.S * self.R / 60)
        size = self.trained_size(max(self.rooms))
        step = step_seconds(d=size["d"], Hd_h=self.H * size["d_h"], m=size["m"], S=self.S, R=self.R, A=self.R * self.D)
        return n * len(self.training.lrs) * self.training.steps * step

    def trained_size(self, room: float) -> dict[str, int]:
        """Sizes with about ``room`` times the parameters that figure 4 gives these facts."""
        return shape_of(self.alpha, self.beta, round(room * self.S * self.R / FACTS_A_PARAMETER), self.H)

    def run(self) -> Result:
        points = [point for seed in self.seeds for point in self._points(seed)]
        return summarised(points)

    def _points(self, seed: int) -> list[dict[str, Any]]:
        if self.model == TRAINED:
            made = len(self.training.lrs)
            return [self._point(*self.train(self.trained_size(room), seed), seed, made) for room in self.rooms]
        knob = builder(self.model).knob
        search = BuiltSize(
            builder=self.model, S=self.S, R=self.R, D=self.D, d=self.d, per_head=self.per_head, goal=1.0,
            guess=self.guess, tolerance=TOLERANCE, seeds=(seed,),
        )  # fmt: skip
        found = search.run()
        if found["size"] is None:
            return [self._nothing(seed, found["status"])]
        probes = sum(len(one["probes"]) for one in found["per_seed"])
        points = []
        for size in sorted({round(room * found["size"]) for room in self.rooms}):
            try:
                points.append(self._point(*search.build(size, seed), seed, 1 + probes))
            except (FactholdError, ValueError) as error:  # too large for what d allows
                points.append(self._nothing(seed, f"{knob}={size}: {error}"))
        return points

    def _nothing(self, seed: int, status: str) -> dict[str, Any]:
        return {"facts": self.S * self.R, "seed": seed, "recall": 0.0, "used": [], "tried": 1, "status": status}

    def train(self, size: dict[str, int], seed: int) -> tuple[Transformer, FactualRecall]:
        """The better of the protocol's learning rates."""
        way = variant("code")
        table = nested_table("random", self.S, self.R, self.D, seed)
        problem = make_problem(table, size["d"], seed, way, SEQUENCE)
        shape = (size["H"], size["d_h"], size["m"])
        race = racing_members(RecallFacts.of(problem), *shape, seed, way, self.training, "bits")
        grid = Grid(self.levels, clip=CLIP) if self.levels else None
        if grid:
            race = [member._replace(task=OnGrid(member.task, grid)) for member in race]
        runs = fit(race, self.training)
        best = (best_run(race, runs, "final") or (runs[0], None))[0]
        return (quantise(best.model, grid).model if grid else best.model), problem

    def _point(self, model: Transformer, problem: FactualRecall, seed: int, made: int) -> dict[str, Any]:
        """``made``: models that were made before this one was taken."""
        facts, recall = self.S * self.R, asked_often(problem, seed)
        used, tried = bits_used(
            model, recall, facts,
            lambda wrong: counting_bound(self.S, self.R, self.D, wrong),
            fixed=FIXED.get(self.model, ()), goals=self.goals, ladder=(self.levels,) if self.levels else LADDER,
        )  # fmt: skip
        return {
            "facts": facts, "seed": seed, "recall": recall.judge(model), "used": used,
            "tried": made + tried, "status": "measured", "d": model.d, "H": model.H, "d_h": model.d_h, "m": model.m,
            "n_params": model.n_params,
        }  # fmt: skip

"""The cells behind `facthold plan`: what a model of one size knows of a table, the smallest size that is enough, for
constructions and for training by gradients alone, and which of these searches calibrate the plans."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, ClassVar

from facthold._util.errors import FactholdError
from facthold.construct.dimensions import smallest
from facthold.facts.problem import variant
from facthold.lab import Cell, Result
from facthold.lab.fields import Count, OneOf, Share, Whole
from facthold.measure.capacity import FOUND
from facthold.plan.calibrations import Calibration
from facthold.recipes import fact_recipe, fact_recipes
from facthold.recipes.base import FactRecipe, Question, Sizing
from facthold.recipes.facts import HEADS, train_shape, trained
from facthold.studies.real_facts.base import OneModelCell, recalled
from facthold.studies.real_facts.transfer import TableSize
from facthold.studies.smallest import ConstructionSize, SizeSearch, Trial
from facthold.theory.bounds import FACTS_A_PARAMETER
from facthold.train.protocols import BATCH, PROTOCOLS, Protocol, protocol, step_seconds

FARTHEST = 6  # a search ends at so many times its guess
Method = Annotated[str, OneOf(fact_recipes)]


@dataclass(frozen=True, kw_only=True)
class Held(OneModelCell):
    """The accuracy of the model that a recipe makes at one size. A refusal to make it is a result: none is held."""

    kind: ClassVar[str] = "held"

    method: Method  # the name of the recipe
    d: Count
    size: Count  # of what decides: d, d_h or m
    per_head: Whole = 0
    goal: Share = 0.99  # where training may stop
    seed: int = 0

    @property
    def cost(self) -> float:
        return (6 if "training" in self.spec else 0.5) + self.n_facts / 500

    @property
    def spec(self) -> dict[str, Any]:
        return super().spec | dict(fact_recipe(self.method).spec)

    def run(self) -> Result:
        recipe, table, start = fact_recipe(self.method), self.facts(self.seed), time.perf_counter()
        try:
            made = recipe.make(table, self.d, self.size, goal=self.goal, seed=self.seed, per_head=self.per_head)
        except (ValueError, FactholdError) as error:
            return {"status": "refused", "reason": str(error), "accuracy": 0.0, "n_params": None, "seconds": None}
        accuracy = float(recalled(made, self.seed).mean()) if made.accuracy is None else made.accuracy
        return {
            "status": "made", "reason": None, "accuracy": accuracy, "n_params": made.model.n_params,
            "seconds": time.perf_counter() - start,
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class HeldSize(ConstructionSize):
    """The smallest size of a construction at which each of several tables with the same S, R and D is held.

    With one table a search over sizes finds the luckiest of its draws: d and d_h change all random weights. The size
    at which three tables in a row are held scatters less, and is what a new table can be given.
    """

    kind: ClassVar[str] = "held-size"
    farthest: ClassVar[int] = 8

    method: Method  # the name of the recipe
    tolerance: float = 0.1

    @property
    def searched(self) -> str:
        return fact_recipe(self.method).searched

    @property
    def spec(self) -> dict[str, Any]:
        return super().spec | dict(fact_recipe(self.method).spec)

    @property
    def cost(self) -> float:
        """About five sizes, of which half are left at the first table."""
        return 3 * len(self.seeds) * (2 + self.n_facts / 200)

    def _trial(self, size: int) -> Trial:
        """The table of the first seed says what the model is; tables are asked until one of them is not held."""
        results: list[Result] = []
        for seed in self.seeds:
            results.append(Held.of(self, d=self.d or size, size=size, seed=seed).run())
            if results[-1]["accuracy"] < self.goal:
                break
        about = {name: results[0][name] for name in ("n_params", "seconds")}
        return Trial(min(result["accuracy"] for result in results), about)

    def run(self) -> Result:
        return {"seconds": None} | self.search_size(self._trial)


@dataclass(frozen=True, kw_only=True)
class TrainedSize(SizeSearch):
    """The smallest d at which training reaches the share ``goal`` of a table."""

    kind: ClassVar[str] = "trained-size"

    protocol: Annotated[str, OneOf(PROTOCOLS)] = "transformer-short"
    seed: int = 0

    @property
    def training(self) -> Protocol:
        return replace(protocol(self.protocol), goal=self.goal)

    @property
    def spec(self) -> dict[str, Any]:
        return super().spec | {"training": self.training.spec, "model": asdict(variant("text")), "batch": BATCH}

    @property
    def guess(self) -> int:
        """d / 4 at half of figure 4's facts per parameter."""
        wanted = self.n_facts / (0.5 * FACTS_A_PARAMETER)
        return smallest(lambda units: train_shape(HEADS * units).n_params >= wanted, self.n_facts)

    @property
    def cost(self) -> float:
        """About four probes, each as long as 1.5 full-length runs."""
        return 6 * self.training.steps * step_seconds(train_shape(HEADS * self.guess), self.S, self.R, self.D)

    def run(self) -> Result:
        table = self.facts(self.seed)

        def trial(d: int) -> Trial:
            start = time.perf_counter()
            accuracy = trained(table, d, self.training, self.seed).accuracy
            seconds = time.perf_counter() - start  # of the machine that it ran on, compiling included
            return Trial(accuracy or 0.0, {"n_params": train_shape(d).n_params, "d": d, "seconds": seconds})

        search = self.search(trial, self.guess, ceiling=FARTHEST * self.guess, unit=HEADS)
        return {"facts": len(table), "d": None, "seconds": None, "found": search["status"] == FOUND} | search


WIDE = (  # (S, R, D) where a recipe names no tables: 64 to 1,152 facts, S / R from 1/2 to 48, D from 2 to 32
    (8, 8, 8), (16, 4, 16), (16, 16, 8), (32, 8, 32), (64, 4, 2), (96, 2, 8), (32, 32, 8), (64, 16, 4), (128, 8, 16),
    (24, 48, 4),
)  # fmt: skip
TOLERANCE = 0.1


def cells(names: Sequence[str] | None = None) -> list[tuple[str, float, Cell]]:
    """The recipe, the goal and the cell of each calibration."""
    recipes = [fact_recipe(name) for name in names or fact_recipes()]
    return [(recipe.name, *one) for recipe in recipes if recipe.sizing for one in _searches(recipe, recipe.sizing)]


def _searches(recipe: FactRecipe, sizing: Sizing) -> Iterator[tuple[float, Cell]]:
    for i, (S, R, D) in enumerate(sizing.tables or WIDE):
        for goal in sizing.goals:
            question, seed = Question(S, R, D, goal), i % 2
            if recipe.name == "gated":  # it and training are searched on one table each
                yield goal, TableSize(S=S, R=R, D=D, seed=seed)
            elif recipe.name == "train":
                yield goal, TrainedSize(S=S, R=R, D=D, goal=goal, seed=seed)
            else:
                yield goal, HeldSize(
                    method=recipe.name, S=S, R=R, D=D, d=sizing.d(question), per_head=sizing.per_head, goal=goal,
                    guess=max(3, round(sizing.guess(question))), tolerance=TOLERANCE,
                )  # fmt: skip


def calibration(method: str, goal: float, cell: Cell, result: Mapping[str, Any]) -> Calibration:
    """What a cell has found, by the same names for all kinds of cells."""
    spec = cell.spec
    seeds = tuple(spec["seeds"]) if "seeds" in spec else (spec["seed"],)
    found = result["status"] == FOUND
    size = result["size"] if "size" in result else result[fact_recipe(method).searched]
    return Calibration(
        method, spec["S"], spec["R"], spec["D"], goal, seeds, result["status"], size if found else None,
        result["n_params"] if found else None, result.get("seconds"), cell.kind, cell.key, spec,
    )  # fmt: skip

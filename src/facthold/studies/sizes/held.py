"""The cells behind `facthold plan`: what a model of one size knows of a table, and the smallest size that is enough,
for constructions and for training by gradients alone."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, ClassVar

from facthold._util.errors import FactholdError
from facthold.facts.seeded import variant
from facthold.lab.accounts import Account, of_accuracy
from facthold.lab.cells import Result, TableCell
from facthold.lab.fields import Count, OneOf, Share, Whole
from facthold.measure.capacity import FOUND
from facthold.recipes import fact_recipe, fact_recipes
from facthold.recipes.facts import HEADS, train_shape, trained
from facthold.studies.smallest import ConstructionSize, SizeSearch, Trial
from facthold.theory.bounds import FACTS_A_PARAMETER
from facthold.train.protocols import BATCH, PROTOCOLS, Protocol, protocol, step_seconds

FARTHEST = 6  # a search ends at so many times its guess
Method = Annotated[str, OneOf(fact_recipes)]


@dataclass(frozen=True, kw_only=True)
class Held(TableCell):
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
        return 4 + self.n_facts / 100

    @property
    def spec(self) -> dict[str, Any]:
        return super().spec | dict(fact_recipe(self.method).spec)

    def run(self) -> Result:
        from facthold.models.forward import Forward, table_prompts
        from facthold.models.judge import judge_table

        recipe, table, start = fact_recipe(self.method), self.facts(self.seed), time.perf_counter()
        try:
            model, problem, accuracy = recipe.make(
                table, self.d, self.size, goal=self.goal, seed=self.seed, per_head=self.per_head
            )
        except (ValueError, FactholdError) as error:
            return {"status": "refused", "reason": str(error), "accuracy": 0.0, "n_params": None, "seconds": None}
        if accuracy is None:  # in NumPy: asking once is not worth a compilation
            prompts = table_prompts(problem, seed=self.seed)
            accuracy = float(judge_table(Forward.of(model, problem), problem, prompts).recalled.mean())
        seconds = time.perf_counter() - start
        return {"status": "made", "reason": None, "accuracy": accuracy, "n_params": model.n_params, "seconds": seconds}

    def accounts(self, result: Mapping[str, Any]) -> list[Account] | str:
        if not result["accuracy"]:
            return []
        return [of_accuracy(self.n_facts, self.D, result["accuracy"], result["n_params"])]


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
        accuracies: list[float] = []
        first: Result = {}
        for seed in self.seeds:
            result = Held.of(self, d=self.d or size, size=size, seed=seed).run()
            first = first or result
            accuracies.append(result["accuracy"])
            if accuracies[-1] < self.goal:
                break
        return Trial(min(accuracies), {"n_params": first["n_params"], "seconds": first["seconds"]})

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
        return super().spec | {"training": self.training.spec, "model": asdict(variant("code")), "batch": BATCH}

    @property
    def guess(self) -> int:
        """d / 4 at half of figure 4's facts per parameter."""
        units = 1
        while 0.5 * FACTS_A_PARAMETER * train_shape(HEADS * units).n_params < self.n_facts:
            units += 1
        return units

    @property
    def cost(self) -> float:
        """About four probes, each as long as 1.5 full-length runs."""
        d, H, d_h, m = train_shape(HEADS * self.guess)
        return 6 * self.training.steps * step_seconds(d=d, Hd_h=H * d_h, m=m, S=self.S, R=self.R, A=self.R * self.D)

    def run(self) -> Result:
        table = self.facts(self.seed)

        def trial(d: int) -> Trial:
            start = time.perf_counter()
            accuracy = trained(table, d, self.training, self.seed).accuracy
            seconds = time.perf_counter() - start  # of the machine that it ran on, compiling included
            return Trial(accuracy or 0.0, {"n_params": train_shape(d).n_params, "d": d, "seconds": seconds})

        search = self.search(trial, self.guess, ceiling=FARTHEST * self.guess, unit=HEADS)
        about = {"facts": len(table), "d": None, "seconds": None, "found": search["status"] == FOUND}
        return about | search

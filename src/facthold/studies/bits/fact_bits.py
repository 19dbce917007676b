"""The fact-bits cell: the fewest bits in which a transformer knows a random table of facts, built or trained."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from facthold._util.errors import FactholdError
from facthold._util.keys import derive
from facthold.facts.problem import seeded_recall, variant
from facthold.lab import TableCell
from facthold.lab.fields import Between, Count, Each, OneOf, Positive, Whole
from facthold.measure.grids import MOST_LEVELS, SEARCH, Grid
from facthold.models.sizes import Shape, shape_of
from facthold.recipes import fact_recipe
from facthold.studies.bits.memory_bits import BitsCell, Point, nothing
from facthold.studies.constructions.built import BuiltSize, constructions
from facthold.theory.bounds import FACTS_A_PARAMETER
from facthold.train.protocols import BATCH, PROTOCOLS, Protocol, protocol, step_seconds

if TYPE_CHECKING:
    from facthold.facts.problem import FactualRecall
    from facthold.measure.quantise import Recall
    from facthold.models.transformer import Transformer

TRAINED = "trained"
CHOSEN = (4, 16)  # prompts of each fact that a grid is chosen by; a fact counts where it is right in all of them
JUDGED = 4  # fresh prompts of each fact, by which the choice is judged in the same way
TOLERANCE = 0.1  # relative width at which the search for the smallest construction ends
ROOMIER = 1.5  # models trained on a grid get so many times the parameters: they learn fewer facts per parameter
CLIP = 2.5  # where the grids of training end, in root mean squares of the weights


def asked_often(problem: "FactualRecall", seed: int) -> "Recall":
    """The share of facts that are right in all of some prompts."""
    from facthold.measure.fact_recall import always_right
    from facthold.measure.quantise import Recall

    def ask(what: str, draws: int) -> Callable[..., float]:
        return partial(always_right, problem=problem, key=derive(what, seed, draws), draws=draws)

    return Recall([ask("bits", draws) for draws in CHOSEN], ask("judge bits", JUDGED))


@dataclass(frozen=True, kw_only=True)
class FactBits(TableCell, BitsCell):
    """The fewest bits at each goal, for models of several sizes that know all (or nearly all) of one table per seed."""

    kind: ClassVar[str] = "fact-bits"

    model: Annotated[str, OneOf(lambda: [TRAINED, *constructions()])]  # a construction's name, or 'trained'
    d: Whole = 0  # of constructions whose size is m or d_h. Trained models get theirs from ``rooms``.
    per_head: Whole = 0
    guess: Count = 64  # where the search for the smallest construction starts
    rooms: Annotated[tuple[float, ...], Each(Positive)] = (1.0, 1.4, 2.0)
    """Sizes, as multiples of the smallest construction that recalls all, or of figure 4's parameters per fact."""
    alpha: Positive = 1.0
    beta: Annotated[float, Between(least=0)] = 4.0
    H: Count = 8  # of trained models: H d_h = alpha d and m = beta d
    levels: Whole = 0  # of the grid that trained models are on during training; 0: they are rounded afterwards
    protocol: Annotated[str, OneOf(PROTOCOLS)] = "transformer-short"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model == TRAINED and self.d:
            raise ValueError(f"d={self.d}: trained models get their d from rooms; leave it 0")
        if self.levels and (self.model != TRAINED or not 2 <= self.levels <= MOST_LEVELS):
            raise ValueError(f"levels={self.levels}: a grid of 2 to {MOST_LEVELS} levels, for trained models only")

    @property
    def training(self) -> Protocol:
        """To the end, also after all is recalled: what is rounded needs margins."""
        return replace(protocol(self.protocol), goal=1.0, futility=None, rule="final", decay=True)

    @property
    def spec(self) -> dict[str, Any]:
        asked = {"search": SEARCH, "prompts": [*CHOSEN, JUDGED], "search_tolerance": TOLERANCE}
        if self.model != TRAINED:
            return super().spec | asked
        trained = {"training": self.training.spec, "way": asdict(variant("code")), "batch": BATCH, "clip": CLIP}
        return super().spec | asked | trained

    @property
    def cost(self) -> float:
        n = len(self.rooms) * len(self.seeds)
        if self.model != TRAINED:
            return n * (6 + self.n_facts / 25)
        step = step_seconds(self.trained_shape(max(self.rooms)), self.S, self.R, self.D)
        return n * len(self.training.lrs or (self.training.lr,)) * self.training.steps * step

    def trained_shape(self, room: float) -> Shape:
        """Sizes with about ``room`` times the parameters that figure 4 gives these facts."""
        return shape_of(self.alpha, self.beta, round(room * self.n_facts / FACTS_A_PARAMETER), self.H)

    def outputs(self, facts: int) -> int:
        return self.D

    def points(self, seed: int) -> Iterator[Point]:
        return self._trained(seed) if self.model == TRAINED else self._built(seed)

    def _trained(self, seed: int) -> Iterator[Point]:
        """One model for each room, the better of the protocol's learning rates."""
        from facthold.train.race import train

        grid = Grid(self.levels, clip=CLIP) if self.levels else None
        for shape in map(self.trained_shape, self.rooms):
            problem = seeded_recall(self.facts(seed), shape.d, seed, "code")
            best = train(problem, shape, self.training, seed, rule="final", grid=grid)
            yield self._point(best.model, problem, seed, len(best.runs))

    def _built(self, seed: int) -> Iterator[Point]:
        """The smallest construction that recalls all, and larger ones."""
        search = BuiltSize.of(self, builder=self.model, goal=1.0, tolerance=TOLERANCE, seeds=(seed,))
        found = search.run()
        if found["size"] is None:
            yield nothing(self.n_facts, seed, found["status"])
            return
        probes = sum(len(one["probes"]) for one in found["per_seed"])
        for size in sorted({round(room * found["size"]) for room in self.rooms}):
            try:
                model, problem, *_ = search.build(size, seed)
            except (FactholdError, ValueError) as error:  # too large for what d allows
                yield nothing(self.n_facts, seed, f"{fact_recipe(self.model).size}={size}: {error}")
            else:
                yield self._point(model, problem, seed, 1 + probes)

    def _point(self, model: "Transformer", problem: "FactualRecall", seed: int, made: int) -> Point:
        """``made``: models that were made before this one was taken."""
        recall, fixed = asked_often(problem, seed), () if self.model == TRAINED else fact_recipe(self.model).fixed
        used, tried = self.rounded(model, recall, self.n_facts, fixed=fixed, levels=self.levels)
        return {
            "facts": self.n_facts, "seed": seed, "recall": recall.judge(model), "used": used,
            "tried": made + tried, "status": "measured", "d": model.d, "H": model.H, "d_h": model.d_h, "m": model.m,
            "n_params": model.n_params,
        }  # fmt: skip

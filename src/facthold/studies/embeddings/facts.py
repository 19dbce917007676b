"""Cells of one-layer transformers with fixed or learned embeddings: the smallest dimension for a table of facts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from facthold._util.keys import derive
from facthold._util.padding import geometric
from facthold.facts.problem import MOST_LENGTH
from facthold.lab import Account, TableCell, of_goal
from facthold.lab.fields import Between, Count, Whole
from facthold.models.sizes import Shape
from facthold.studies.embeddings.dimension import (
    COMPILE,
    PROBES,
    ROOM,
    Dimension,
    Several,
    Trained,
    Trial,
    room,
    wider,
)  # fmt: skip

if TYPE_CHECKING:
    from facthold.facts.problem import FactualRecall
    from facthold.facts.table import FactTable
    from facthold.models.embedded import EmbeddedTransformer
    from facthold.train.engine import Member
    from facthold.train.race import Best


@dataclass(frozen=True, kw_only=True)
class FactModel(Trained, TableCell):
    """One-layer transformers with H d_h = d (or the next multiple of H) and m = ``beta`` d, which are asked for facts
    among noise tokens and choose among the answers."""

    S: Several
    R: Count
    D: Several
    H: Count = 2
    beta: Whole = 4
    T: Annotated[int, Between(least=3, most=MOST_LENGTH)] = 8
    n_noise: Count = 8
    batch: Count = 256

    def sizes(self, d: int) -> Shape:
        return Shape(d, self.H, -(-d // self.H), self.beta * d)

    def n_embeddings(self, d: int) -> int:
        """Numbers in the embeddings of all tokens."""
        return (self.S + self.R + self.n_noise + 1 + self.R * self.D) * d

    def seconds(self, S: int, d: int) -> float:
        """Of one run, about, without its compilation."""
        tokens, d = geometric(max(S, ROOM), 4.0) + self.R + self.n_noise, room(d)
        flops = 6.0 * self.batch * (tokens * (d + self.H) + d * (3 * self.beta * d + self.R * self.D))
        return self.steps * (flops / 1e11 + 1e-4)

    def problem(
        self, table: "FactTable", d: int, seed: int, embeddings: str, tokens: str = "tokens"
    ) -> "FactualRecall":
        """A table's prompts, with embeddings of this seed; those of other ``tokens`` are independent of them."""
        from facthold.facts.problem import factual_recall

        key = derive("embedded", tokens, seed, d, embeddings)
        return factual_recall(
            table, d, key=key, n_noise=self.n_noise, T=self.T, embeddings=embeddings, outputs="answers"
        )

    def race(
        self, problem: "FactualRecall", seed: int, trained: str, frozen: "EmbeddedTransformer | None" = None
    ) -> "list[Member]":
        """Models of which the named parts are trained on a problem, from a random start; ``frozen``: a model of S
        subjects of which all is kept but these, for those of the problem."""
        from facthold.models.embedded import roomy
        from facthold.models.transformer import Transformer
        from facthold.train.embedded import RecallWithEmbeddings, training

        d, S = problem.d, problem.table.S
        most, key = geometric(max(S, ROOM), 4.0), derive("embedded", seed, d, self.H, self.beta, trained)
        columns = 0 if frozen else most + self.R + self.n_noise + 1
        wide = replace(problem, phi=wider(problem.phi, room(d)), drawing=None)
        task = RecallWithEmbeddings.of(wide, batch=self.batch, columns=columns, rows=most * self.R)
        initial, larger = (Transformer.init(*self.sizes(size), key=key) for size in (d, room(d)))
        start = task.start(roomy(initial, larger))
        if frozen is not None:
            start = frozen.for_subjects(start.phi[:S], slice(self.S, self.S + problem.n_tokens - S))
        return training(task, start, trained, self.lrs, key=key)


def whole(race: "Sequence[Member]", best: "Best") -> "EmbeddedTransformer":
    """The model of a race that counts, with the parts that were not trained."""
    task: Any = race[0].task
    return task.whole(best.run.model)


@dataclass(frozen=True, kw_only=True)
class FactDimension(FactModel, Dimension):
    """The smallest d of a transformer that recalls S R facts of a random table."""

    kind: ClassVar[str] = "fact-dimension"

    @property
    def guess(self) -> float:
        weights = 4 + 2 * self.beta  # times d^2
        return 1 + math.log(self.S) if self.learned else math.sqrt(15 * self.n_facts / weights)

    @property
    def cost(self) -> float:
        return COMPILE + PROBES * len(self.seeds) * len(self.lrs) * self.seconds(self.S, round(self.guess))

    def trials(self, questions: Sequence[tuple[int, int]]) -> list[Trial]:
        from facthold.train.race import reached

        trained = "all" if self.learned else "weights"
        problems = [self.problem(self.facts(seed), d, seed, self.drawn) for d, seed in questions]
        races = [self.race(problem, seed, trained) for problem, (_, seed) in zip(problems, questions, strict=True)]
        best = self.trained(races, self.goal)
        return [
            Trial(reached(b.run), self._about(d, whole(race, b), b))
            for (d, _), race, b in zip(questions, races, best, strict=True)
        ]

    def _about(self, d: int, model: "EmbeddedTransformer", best: "Best") -> dict[str, Any]:
        from facthold.measure.overlaps import overlaps

        assert model.U is not None
        phi, S, R = model.phi[:, :d], self.S, self.R
        parts = {"subjects": phi[:S], "relations": phi[S : S + R], "answers": model.U[:, :d]}
        return {
            "n_params": self.sizes(d).n_params + (self.n_embeddings(d) if self.learned else 0), "lr": best.lr,
            "overlaps": {name: list(overlaps(rows)) for name, rows in parts.items()},
        }  # fmt: skip

    def accounts(self, result: Mapping[str, Any]) -> list[Account] | str:
        """Of each search that found one: learned embeddings are among its weights."""
        found = [one for one in result["per_seed"] if one["n_params"]]
        return [of_goal(self.n_facts, self.D, self.goal, one["n_params"], len(one["probes"])) for one in found]

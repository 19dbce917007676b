"""The cell of transfer: with all weights frozen, embeddings of new subjects are learnt alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from facthold._util.keys import derive
from facthold.facts.table import FactTable
from facthold.lab import Account, Result, of_accuracy
from facthold.lab.fields import Count
from facthold.studies.embeddings.dimension import COMPILE, START, Several
from facthold.studies.embeddings.facts import FactModel, whole

if TYPE_CHECKING:
    from facthold.models.memory import MLPMemory

ARMS = {
    "transfer": "trained on other subjects, frozen",
    "random MLP": "its MLP replaced by a random one",
    "fixed embeddings": "trained with fixed embeddings, frozen",
    "other answers": "answers of another relation",
    "scratch": "all trained anew",
}
"""What is asked of new subjects. Of all but 'scratch' their embeddings alone are learnt, in as many steps."""
BEFORE = ("before", "before, fixed embeddings")  # recall of the facts that the frozen models were trained on


@dataclass(frozen=True, kw_only=True)
class SubjectTransfer(FactModel):
    """The share of the facts of ``new`` subjects that is recalled where only their embeddings are learnt, by a model
    that was trained on S other subjects and is frozen; and what controls recall.

    'random MLP': the MLP of the frozen model is a random one. 'fixed embeddings': the frozen model was trained with
    embeddings that stay, so that its weights know its facts. 'other answers': the answers of each relation are those of
    the next one, which a selector by relation does not offer. 'scratch': all weights and embeddings are trained on the
    new subjects alone.
    """

    kind: ClassVar[str] = "subject-transfer"

    d: Count
    new: Several = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.beta:
            raise ValueError("beta=0 leaves no MLP to freeze; take at least 1")
        if self.R < 2:
            raise ValueError(f"R={self.R}: 'other answers' are those of another relation; take at least 2")

    @property
    def cost(self) -> float:
        runs = 2 * self.seconds(self.S, self.d) + len(ARMS) * self.seconds(self.new, self.d)
        return 3 * COMPILE + len(self.seeds) * len(self.lrs) * runs

    def run(self) -> Result:
        """By arm: the recall of each seed; 'before' is what the frozen models recall of the facts they were trained on.
        None where all runs of a seed diverged."""
        seeds = [self._arms(seed) for seed in self.seeds]
        return {"recall": {arm: [one[arm] for one in seeds] for arm in seeds[0]}}

    def _arms(self, seed: int) -> dict[str, float | None]:
        import equinox as eqx

        from facthold.train.race import reached

        both = self.facts_of(self.S + self.new, seed)
        old, new = (FactTable.from_matrix(rows, A=both.A) for rows in np.split(both.matrix, [self.S]))
        before = self.problem(old, self.d, seed, START)
        races = [self.race(before, seed, trained) for trained in ("all", "weights")]
        learned, memorised = first = self.trained(races, 1.0)
        model, fixed = whole(races[0], learned), whole(races[1], memorised)
        assert model.weights is not None
        assert model.weights.mlp is not None
        random = eqx.tree_at(lambda one: one.weights.mlp, model, self._random(model.weights.mlp, seed))
        shuffled = FactTable.from_matrix(np.roll(new.matrix, 1, axis=1), A=both.A)
        asked, other = (self.problem(table, self.d, seed, START, "new tokens") for table in (new, shuffled))
        races = [
            self.race(asked, seed, "subjects", model), self.race(asked, seed, "subjects", random),
            self.race(asked, seed, "subjects", fixed), self.race(other, seed, "subjects", model),
            self.race(asked, seed, "all"),
        ]  # fmt: skip
        shares = [reached(best.run) for best in (*first, *self.trained(races, 1.0))]
        return {arm: None if np.isnan(share) else share for arm, share in zip((*BEFORE, *ARMS), shares, strict=True)}

    def _random(self, mlp: "MLPMemory", seed: int) -> "MLPMemory":
        """A random MLP whose layers are as long as those of this one."""
        import jax
        import jax.numpy as jnp

        from facthold.models.embedded import roomy
        from facthold.models.memory import MLPMemory

        drawn = MLPMemory.init(self.d, self.beta * self.d, key=derive("random MLP", seed, self.d, self.beta))
        scaled = lambda new, old: new * jnp.linalg.norm(old) / jnp.linalg.norm(new)  # noqa: E731
        return jax.tree.map(scaled, roomy(drawn, mlp), mlp)

    def facts_of(self, S: int, seed: int) -> FactTable:
        """The table of this seed with so many subjects; that of more begins with that of fewer."""
        from facthold.facts.problem import seeded_table

        return seeded_table("random", S, self.R, self.D, seed)

    def accounts(self, result: Mapping[str, Any]) -> list[Account] | str:
        """Of models that were trained with their embeddings."""
        weights = self.sizes(self.d).n_params + self.n_embeddings(self.d)
        shares = [share for share in result["recall"]["before"] if share is not None]
        return [of_accuracy(self.n_facts, self.D, share, weights, len(self.lrs)) for share in shares]

"""Truncation of a model of facts: which go first as the rank of its matrices falls, rare or frequent ones, those of
relations with few answers or with many; and how many parameters the factors save."""

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from jaxtyping import Float

from facthold._util.keys import derive
from facthold.facts.problem import seeded_recall, variant, zipf
from facthold.facts.table import FactTable
from facthold.lab import Result, TableCell
from facthold.lab.fields import Between, Count, Each, Positive, Tolerance
from facthold.models.sizes import Shape
from facthold.train.protocols import Protocol, protocol, step_seconds

if TYPE_CHECKING:
    from facthold.facts.problem import FactualRecall
    from facthold.models.transformer import Transformer

VARIANT = "code"
CUTS = ("mlp", "mlp.W", "mlp.V", "W_OV")
SHARES = (0.0, 1 / 16, 1 / 8, 3 / 16, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1.0)  # of d, that a rank is
DRAWS = 4  # prompts that ask for each fact
FOURTHS = 4  # subjects by how often they are asked for, the most frequent first


@dataclass(frozen=True, kw_only=True)
class TruncatedFacts(TableCell):
    """A transformer trained on facts that are asked for with p(s, r) ~ s^-alpha_s r^-alpha_r, then truncated.

    Relations 0, 2, 4, ... have D answers each, the others ``few``. What is
    stored for each matrix and rank: recall of each relation in each fourth of the subjects, over DRAWS prompts a fact.
    """

    kind: ClassVar[str] = "truncated-facts"
    counts_no_facts: ClassVar[str] = "relations have different numbers of answers, and recall by rank is measured"

    d: Count
    H: Count = 2
    S: Count = 128
    R: Count = 8
    D: Count = 16
    few: Count = 2
    alpha_s: Annotated[float, Between(least=0)] = 1.0
    alpha_r: Annotated[float, Between(least=0)] = 0.0
    T: Annotated[int, Between(least=3)] = 8
    n_noise: Count = 16
    steps: Count = 4096
    batch: Count = 512
    lr: Positive = 1e-2
    cuts: Annotated[tuple[str, ...], Each()] = CUTS
    shares: Annotated[tuple[float, ...], Each(Tolerance)] = SHARES
    seed: int = 0

    @property
    def sizes(self) -> Shape:
        return Shape(self.d, self.H, self.d // self.H, 4 * self.d)

    @property
    def training(self) -> Protocol:
        changes: dict[str, Any] = {"steps": self.steps, "check_every": self.steps, "goal": 1.0, "futility": None}
        return replace(protocol("transformer-short"), rule="final", decay=True, lr=self.lr, lrs=(), **changes)

    @property
    def spec(self) -> dict[str, Any]:
        return super().spec | {"training": self.training.spec, "model": asdict(variant(VARIANT)), "draws": DRAWS}

    @property
    def cost(self) -> float:
        return 5 + self.steps * step_seconds(self.sizes, self.S, self.R, self.D) / 2

    def table(self) -> FactTable:
        """Every second relation has ``few`` answers instead of D; blocks stay D apart."""
        matrix = self.facts(self.seed).matrix
        within = matrix - self.D * np.arange(self.R, dtype=np.int32)
        within[:, 1::2] %= min(self.few, self.D)
        return FactTable.from_matrix(within + self.D * np.arange(self.R, dtype=np.int32), A=self.R * self.D)

    def run(self) -> Result:
        from facthold.measure.truncate import rank_of_share, truncate
        from facthold.train.engine import fit
        from facthold.train.race import racing
        from facthold.train.tasks import RecallFacts

        table = self.table()
        p = zipf(table, self.alpha_s, self.alpha_r)
        problem = seeded_recall(table, self.d, self.seed, VARIANT, T=self.T, n_noise=self.n_noise, p=p)
        task = RecallFacts.of(problem, batch=self.batch)
        (run,) = fit(racing(task, self.sizes, self.seed, variant(VARIANT), self.training, race=None), self.training)
        if run.status == "diverged":
            return {"status": run.status, "accuracy": None, "truncated": []}
        truncated = []
        for cut in self.cuts:
            for share in self.shares:
                r = rank_of_share(share, self.d)
                found = truncate(run.model, {cut: r})
                recall = self.recall(found.model, problem)
                weighted = float(p @ recall)
                truncated.append({
                    "cut": cut, "r": r, "saved": found.saved, "stored": sum(part.stored for part in found.parts),
                    "recall": float(recall.mean()), "asked": weighted, "by": self.by_group(recall, table).tolist(),
                })  # fmt: skip
        accuracy = float(self.recall(run.model, problem).mean())
        return {"status": run.status, "accuracy": accuracy, "n_params": self.sizes.n_params, "truncated": truncated}

    def recall(self, model: "Transformer", problem: "FactualRecall") -> Float[np.ndarray, " facts"]:
        """Of each fact the share of prompts that are answered right: the same ones for every model."""
        from facthold.measure.fact_recall import fact_margins

        key = derive("asked", self.seed, self.d)
        return (fact_margins(model, problem, key=key, draws=DRAWS) > 0).mean(axis=0)

    def by_group(self, recall: Float[np.ndarray, " facts"], table: FactTable) -> Float[np.ndarray, "fourths R"]:
        """Mean recall of each fourth of the subjects in each relation."""
        fourth = table.subjects * FOURTHS // self.S
        found = np.zeros((FOURTHS, self.R))
        np.add.at(found, (fourth, table.relations), recall)
        counts = np.zeros_like(found)
        np.add.at(counts, (fourth, table.relations), 1)
        return found / counts

"""The sizes that theorems 3 and 4 need where attention is perfect: each head adds what it has for its token, as in
lemma 2, and s' + r' goes into the MLP, as in lemma 3.

What is left out, prompts and the scores of keys and queries, is nearly all of the cost. So many seeds are cheap, and
tables in which S R is what decides.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any, ClassVar

import numpy as np

from facthold._util.keys import derive, fold
from facthold.facts.problem import FactualRecall, seeded_recall
from facthold.lab import Account, Result
from facthold.lab.fields import Count, Seeds, Share, Tolerance, Whole
from facthold.measure.capacity import FOUND, spread
from facthold.studies.constructions.built import share_of
from facthold.studies.smallest import SizeSearch, Trial
from facthold.theory import lemma3
from facthold.theory.limits_facts import no_bound

TABLE = "balanced"  # every answer serves S / D subjects: C(a) does not fluctuate
BUILDER = "attention-mlp"


@dataclass(frozen=True, kw_only=True)
class MLPWidth(SizeSearch):
    """The smallest m at which lemma 3's MLP recalls the share ``goal`` of a balanced table."""

    kind: ClassVar[str] = "mlp-width"
    farthest: ClassVar[float] = 1.6  # times the guess: one MLP of that width is built, and its first neurons are asked

    d: Count
    p: Count = 1
    k: Count = 1  # degrees in s and in r
    share: Share = 1.0  # share of S x R that is in the table
    guess: Count
    asked: Count = 2048  # facts that are asked, at most: a random choice of each seed
    tolerance: Tolerance = 0.02
    seeds: Seeds = (0, 1, 2)

    @property
    def cost(self) -> float:
        """Seconds: the products of the widest one for all facts, and about eight times for those that are asked."""
        m, facts = self.farthest * self.guess, self.share * self.n_facts
        asked = min(self.asked, facts) * (2 * m + self.R * self.D) * self.d
        return len(self.seeds) * (0.5 + 2 * (facts * m * self.d + 8 * asked) / 4e10)

    @property
    def sizes(self) -> lemma3.Table:
        return lemma3.Table(self.S, self.R, self.D, self.d, self.p, self.k, self.share)

    def problem(self, seed: int) -> FactualRecall:
        return seeded_recall(share_of(self.facts(seed, TABLE), self.share, seed), self.d, seed)

    def run(self) -> Result:
        searches: list[Result] = [{"seed": seed} | self._search(seed) for seed in self.seeds]
        statuses = sorted({search["status"] for search in searches} - {FOUND})
        return {
            "status": ", ".join(statuses) or FOUND, "facts": len(self.problem(self.seeds[0]).table),
            **spread("size", [search["size"] for search in searches]),
            "n_params": None if statuses else fmean(search["n_params"] for search in searches), "per_seed": searches,
        }  # fmt: skip

    def _search(self, seed: int) -> Result:
        from facthold.construct.attention_mlp import answering_mlp

        problem, most = self.problem(seed), int(self.farthest * self.guess)
        table, U = problem.table, problem.U
        P, Q, mlp = answering_mlp(problem, most, key=derive("build", seed, BUILDER), p=self.p, k=self.k)
        W, V = np.asarray(mlp.W), np.asarray(mlp.V)
        choice = np.random.default_rng(seed).permutation(len(table))[: self.asked]
        s, r = problem.phi[table.subjects[choice]], problem.phi[table.S + table.relations[choice]]
        x = (s @ P.T @ P + r @ Q.T @ Q).astype(np.float32)
        rows, answers = np.arange(len(choice)), table.answers[choice]

        def trial(m: int) -> Trial:
            scores = (x + mlp.sigma(x @ W[:m].T) @ V[:m] * (most / m)) @ U.T
            right = scores[rows, answers]
            scores[rows, answers] = -np.inf
            return Trial(float((right > scores.max(axis=1)).mean()), {"n_params": 2 * m * self.d, "md": m * self.d})

        return self.search(trial, self.guess, floor=max(1, self.guess // 8), ceiling=most, tolerance=self.tolerance)

    def accounts(self, result: Mapping[str, Any]) -> list[Account] | str:
        return no_bound(TABLE) or super().accounts(result)


@dataclass(frozen=True, kw_only=True)
class HeadWidth(SizeSearch):
    """The smallest d_h at which theorem 3's heads recall the share ``goal`` of a random table; where d is not given,
    the smallest d of heads of full rank."""

    kind: ClassVar[str] = "head-width"

    d: Whole = 0
    per_head: Count = 1
    guess: Count
    tolerance: Tolerance = 0.03
    seeds: Seeds = (0, 1, 2)

    @property
    def cost(self) -> float:
        """Seconds: drawing W_V is most of it, about eight times per seed."""
        d_h, d = self.guess, self.d or self.guess
        heads = -(-self.S // self.per_head) - (-self.R // self.per_head)
        return len(self.seeds) * (0.2 + 8 * (heads * d_h * d * 5e-8 + self.n_facts * (self.R * self.D) * d * 1e-10))

    def run(self) -> Result:
        searches: list[Result] = [
            {"seed": seed}
            | self.search(
                partial(self._try, seed), self.guess, floor=3, ceiling=8 * self.guess, tolerance=self.tolerance
            )
            for seed in self.seeds
        ]
        statuses = sorted({search["status"] for search in searches} - {FOUND})
        return {
            "status": ", ".join(statuses) or FOUND, "facts": self.n_facts,
            **spread("size", [search["size"] for search in searches]),
            "n_params": None if statuses else fmean(search["n_params"] for search in searches), "per_seed": searches,
        }  # fmt: skip

    def _try(self, seed: int, size: int) -> Trial:
        from facthold.construct.attention import partition, projected_memory, sphere_without_EOS

        table, d = self.facts(seed), self.d or size
        problem = seeded_recall(table, d, seed)
        subsets = partition(problem, self.per_head)
        key = derive("build", seed, "attention" if self.d else "attention-full")
        added = np.zeros((table.S + table.R, d))
        for tokens, w in zip(
            subsets, sphere_without_EOS(problem, len(subsets), size, key=fold(key, "values")), strict=True
        ):
            added[tokens] = problem.phi[tokens] @ w.T @ projected_memory(problem, tokens, w)
        by_token, rows = (added @ problem.U.T).astype(np.float32), np.arange(len(table))
        scores = by_token[table.subjects] + by_token[table.S + table.relations]
        right = scores[rows, table.answers]
        scores[rows, table.answers] = -np.inf
        about = {"n_params": 4 * len(subsets) * size * d, "Hd_h": len(subsets) * size, "d": d}
        return Trial(float((right > scores.max(axis=1)).mean()), about)

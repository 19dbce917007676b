"""Transformers that were built, not trained: what one size recalls, what its heads do in a prompt (figure 3), and the
smallest size that is enough."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from facthold._util.keys import derive
from facthold.facts.problem import MOST_LENGTH, SEQUENCE, FactualRecall, seeded_recall
from facthold.facts.table import TABLES, FactTable, random_share
from facthold.lab import FLOAT_BITS, Account, Result, TableCell
from facthold.lab.fields import Between, Count, OneOf, Seeds, Share, Tolerance, Whole
from facthold.measure.capacity import FOUND, spread
from facthold.recipes import fact_recipe, fact_recipes
from facthold.recipes.base import FactRecipe, Made, Sizes
from facthold.studies.smallest import ConstructionSize, Trial
from facthold.theory.limits_facts import no_bound

if TYPE_CHECKING:
    from facthold.models.transformer import Transformer

RIVALS = 6  # outputs that are kept beside the answer: those with the highest scores


def constructions() -> Mapping[str, FactRecipe]:
    """The fact recipes that build a transformer for a given problem, without training."""
    return {name: recipe for name, recipe in fact_recipes().items() if recipe.build is not None}


Construction = Annotated[str, OneOf(constructions)]  # the name of one of them


def built(name: Construction, table: FactTable, seed: int, *, d: int, T: int = SEQUENCE, **sizes: int) -> Made:
    """The transformer that a construction makes for a table, with embeddings of this seed, in the variant 'text'."""
    problem = seeded_recall(table, d, seed, T=T)
    return Made(fact_recipe(name).construct(problem, Sizes(**sizes), seed), problem)


def share_of(table: FactTable, share: float, seed: int) -> FactTable:
    """A random share of a table, of this seed."""
    return table if share == 1 else random_share(table, share, key=derive("share", seed, share))


def ask(made: Made, seed: int, draws: int) -> "tuple[Transformer, np.ndarray]":
    """The model, and the margin of every fact in each of some prompts with fresh noise."""
    from facthold.measure.fact_recall import fact_margins

    return made.model, fact_margins(made.model, made.problem, key=derive("ask", seed), draws=draws)


@dataclass(frozen=True, kw_only=True)
class BuiltCell(TableCell):
    """A construction of one size."""

    builder: Construction
    d: Count
    d_h: Whole = 0
    m: Whole = 0
    per_head: Whole = 0  # these three as in `recipes.base.Sizes`; 0: left to the recipe

    def built(self, seed: int, share: float = 1.0, T: int = SEQUENCE) -> Made:
        """The model of this seed, for its table or a share of it, with the problem that it was built for."""
        table = share_of(self.facts(seed), share, seed)
        return built(self.builder, table, seed, T=T, d=self.d, d_h=self.d_h, m=self.m, per_head=self.per_head)


@dataclass(frozen=True, kw_only=True)
class BuiltRecall(BuiltCell):
    """Does a construction know all of a table, or of a random share of it? Every fact is asked in ``draws`` prompts
    with fresh noise."""

    kind: ClassVar[str] = "built-recall"

    share: Share = 1.0
    draws: Count = 100
    seeds: Seeds = (0, 1, 2, 3, 4)

    @property
    def cost(self) -> float:
        """Mostly asking: the products of the heads and of the MLP for each prompt."""
        prompts = len(self.seeds) * self.share * self.n_facts * self.draws
        Hd_h = max(self.d_h, 1) * 2 * -(-self.S // max(self.per_head, 1))
        return prompts * 2 * (Hd_h * (self.d + 2 * (self.S + self.R)) + 2 * self.m * self.d) / 5e10 + len(self.seeds)

    def run(self) -> Result:
        wrong, margins, sizes = zip(*(self._ask(seed) for seed in self.seeds), strict=True)
        return {
            "wrong": list(wrong), "smallest_margin": list(margins), "facts": round(self.share * self.S) * self.R,
            "n_params": sizes[0], "accuracy": 1 - sum(wrong) / (len(self.seeds) * self.share * self.n_facts),
        }  # fmt: skip

    def _ask(self, seed: int) -> tuple[int, float, int]:
        """Facts that are wrong in at least one prompt, the smallest margin, and the parameters."""
        model, margins = ask(self.built(seed, self.share), seed, self.draws)
        return int((~(margins > 0)).any(axis=0).sum()), float(margins.min()), model.n_params

    def accounts(self, result: Mapping[str, Any]) -> list[Account] | str:
        bits, wrong = FLOAT_BITS * result["n_params"], result["wrong"]
        return [Account(result["facts"], self.D, errors, bits, len(wrong)) for errors in wrong]


@dataclass(frozen=True, kw_only=True)
class BuiltSize(ConstructionSize):
    """The smallest size (the one that decides for the recipe: d, d_h or m) at which enough facts are recalled."""

    kind: ClassVar[str] = "built-size"
    farthest: ClassVar[int] = 32  # where attention does not select, no width of the MLP helps

    builder: Construction
    table_kind: Annotated[str, OneOf(TABLES)] = "random"
    share: Share = 1.0  # share of S x R that is in the table
    draws: Count = 1  # prompts with fresh noise in which each fact is asked
    tolerance: Tolerance = 0.03

    @property
    def searched(self) -> str:
        return fact_recipe(self.builder).size

    @property
    def shape(self) -> str:
        return self.builder

    @property
    def cost(self) -> float:
        """About ten builds per seed, some of them compiled for the first time."""
        return len(self.seeds) * (4 + self.n_facts / 100)

    def table(self, seed: int) -> FactTable:
        return share_of(self.facts(seed, self.table_kind), self.share, seed)

    def build(self, size: int, seed: int) -> Made:
        """The model of this size, and what it should know."""
        return built(
            self.builder, self.table(seed), seed, **{"d": self.d, "per_head": self.per_head, self.searched: size}
        )

    def run(self) -> Result:
        searches: list[Result] = [{"seed": seed} | self.search_size(partial(self._try, seed)) for seed in self.seeds]
        statuses = sorted({search["status"] for search in searches} - {FOUND})
        names = {"n_params": "n_params", "Hd_h": "Hd_h", "md": "md", "smallest_margin": "margin"}
        means = {name: None if statuses else fmean(search[of] for search in searches) for name, of in names.items()}
        return {
            "status": ", ".join(statuses) or FOUND, "facts": len(self.table(self.seeds[0])),
            **spread("size", [search["size"] for search in searches]), **means, "per_seed": searches,
        }  # fmt: skip

    def _try(self, seed: int, size: int) -> Trial:
        model, margins = ask(self.build(size, seed), seed, self.draws)
        recalled = (margins > 0).all(axis=0) if self.goal == 1 else margins > 0
        about = {
            "n_params": model.n_params, "Hd_h": model.H * model.d_h, "md": model.m * model.d, "d": model.d,
            "margin": float(margins.min()),
        }  # fmt: skip
        return Trial(float(recalled.mean()), about)

    def accounts(self, result: Mapping[str, Any]) -> list[Account] | str:
        return no_bound(self.table_kind) or super().accounts(result)


@dataclass(frozen=True, kw_only=True)
class Attended(BuiltCell):
    """One prompt for one fact, through a transformer that was built and not trained."""

    kind: ClassVar[str] = "attended"
    counts_no_facts: ClassVar[str] = "attention in one prompt is measured, not facts"

    T: Annotated[int, Between(least=3, most=MOST_LENGTH)] = 10
    fact: Whole = 0  # which fact is asked, as a row of the table
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fact >= self.n_facts:
            raise ValueError(f"fact={self.fact} must be a row of the table, 0 to {self.n_facts - 1}")

    def run(self) -> Result:
        import jax.numpy as jnp

        from facthold.facts.prompts import Prompts

        model, problem, *_ = self.built(self.seed, T=self.T)
        prompts = Prompts.of(problem.table, T=self.T, n_noise=problem.n_noise)
        tokens = np.asarray(prompts.sequences(jnp.asarray([self.fact]), key=derive("prompt", self.seed)))[0]
        X = jnp.asarray(problem.phi[tokens])[None]
        weights = model.attention(X)
        values = jnp.einsum("hid,ntd->nhti", model.W_V, X)
        added = jnp.einsum("nhti,nht,hid->nhd", values, weights, model.W_O)[0]
        F, U = model(X)[0], jnp.asarray(problem.U)
        scores, answer = np.asarray(U @ F), int(problem.table.answers[self.fact])
        kept = [answer, *(int(y) for y in np.argsort(-scores) if y != answer)][: RIVALS + 1]
        mlp = F - added.sum(axis=0)
        by_part = jnp.concatenate([added, mlp[None]]) if model.mlp is not None else added
        return {
            "status": "done", "accuracy": float(np.argmax(scores) == answer),
            "tokens": [_name(problem, int(z)) for z in tokens],
            "outputs": [_name(problem, int(problem.output_tokens[y])) for y in kept],
            "attention": np.asarray(weights[0]).tolist(),
            "added": np.asarray(by_part @ U[np.array(kept)].T).tolist(),
            "scores": scores[kept].tolist(), "n_params": model.n_params,
        }  # fmt: skip


def _name(problem: FactualRecall, token: int) -> str:
    """A token as figure 3 writes it."""
    for kind, size in (("s", problem.table.S), ("r", problem.table.R), ("n", problem.n_noise)):
        if token < size:
            return f"{kind}{token}"
        token -= size
    return "EOS" if token == 0 else f"a{token - 1}"

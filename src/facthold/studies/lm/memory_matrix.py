"""One attention matrix of a language model as an associative memory: facts read off the weights."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from facthold.lab import Cell, Result
from facthold.lab.fields import Count, Counts, Each
from facthold.lm.fetch import TINY
from facthold.lm.prompts import TEMPLATES
from facthold.studies.lm.base import FETCHED, LmCell, Relation, named
from facthold.studies.lm.layers import layers_of, ranks_of
from facthold.studies.lm.resampling import bits

SEED = 2412_06538  # of the controls
SVD = 0.3  # seconds of one, about


@dataclass(frozen=True, kw_only=True)
class LmMatrix(LmCell):
    """All facts of one relation that can be judged, by the W_OV of every layer and of every head: whole, truncated,
    with random directions, and with answers shuffled."""

    kind: ClassVar[str] = "lm-matrix"

    relation: Relation
    ranks: Counts
    controls: Count = 4  # draws of each control

    @property
    def cost(self) -> float:
        return self.seconds(300) + (0.1 if self.model == TINY else layers_of(self.model) * (1 + self.controls) * SVD)

    def run(self) -> Result:
        import jax
        import jax.numpy as jnp
        import numpy as np

        from facthold.lm.matrices import probed, scrambled
        from facthold.lm.questions import answers, held, questions
        from facthold.measure.truncate import best_ranks

        model, rows = self.opened(), self.facts([self.relation])
        c, asked = model.config, questions(model, rows)
        problem = probed(model, asked, answers(model, rows))
        known = np.array([q.known for q in asked])
        random = np.random.Generator(np.random.Philox(SEED))
        shuffled = [random.permutation(np.asarray(problem.f)) for _ in range(self.controls)]
        scores = problem.outputs.T
        whole, control, shuffles, by_rank, heads = [], [], [], [], []
        for i in range(c.L):
            W = model.ov(i)
            whole.append(bits(problem.recalled(W)))
            said = np.asarray(problem.keys @ W.T @ scores).argmax(1)
            shuffles.append(float(np.mean([said[known] == f[known] for f in shuffled])))
            keys = jax.random.split(jax.random.key(SEED + i), self.controls)
            singular = jnp.linalg.svd(W, compute_uv=False)
            control.append([bits(problem.recalled(scrambled(singular, key=key))[known]) for key in keys])
            cut = best_ranks(W, self.ranks)
            by_rank.append([bits(problem.recalled(jnp.asarray(cut[r][0]))[known]) for r in self.ranks])
            heads.append([bits(problem.recalled(model.ov(i, head=h))[known]) for h in range(c.H)])
        return {
            "accuracy": float(known.mean()),  # of the whole model
            "subjects": [q.fact[0] for q in asked], "answers": [int(f) for f in problem.f],
            "held": bits([held(q.fact[0]) for q in asked]), "known": bits(known),
            "unknown": bits([not q.best for q in asked]), "whole": whole, "random": control, "shuffled": shuffles,
            "by rank": by_rank, "heads": heads,
        }  # fmt: skip


@dataclass(frozen=True)
class Grid:
    """Relations, and the ranks that matrices are truncated to."""

    model: str  # 'tiny', the SHA-256 of a file, or its path
    ranks: Counts
    relations: Annotated[tuple[str, ...], Each(Relation, distinct=True)] = tuple(TEMPLATES)
    controls: Count = 4


PRESETS = {
    "smoke": Grid(model=TINY, ranks=(4, 16, 64, 128), controls=2),
    "quick": Grid(model=FETCHED, ranks=(8, 16, 32, 64, 128, 256, 576)),
    "paper": Grid(model=FETCHED, ranks=(4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 576), controls=16),
}


def cells(grid: Grid) -> list[Cell]:
    model = named(grid.model)
    ranks = ranks_of(model, grid.ranks)
    return [LmMatrix(model=model, relation=r, ranks=ranks, controls=grid.controls) for r in grid.relations]

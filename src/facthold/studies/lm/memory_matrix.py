"""One attention matrix of a language model as an associative memory: facts read off the weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from facthold.lab import Cell, Figure, Result, Values, style
from facthold.lab.fields import Count, Counts, Each
from facthold.lm.fetch import SMOLLM2, TINY
from facthold.lm.prompts import TEMPLATES
from facthold.studies.lm.base import FETCHED, LmCell, named
from facthold.studies.lm.resampling import bits
from facthold.studies.lm.where import LAYERS, Relation

SEED = 2412_06538  # of the controls
SVD = 0.3  # seconds of one, about


@dataclass(frozen=True, kw_only=True)
class LmMatrix(LmCell):
    """All facts of one relation that can be judged, by the W_OV of every layer and of every head: whole, truncated,
    with random directions, and with answers shuffled."""

    kind: ClassVar[str] = "lm-matrix"
    counts_no_facts: ClassVar[str] = "what a language model knows was not put into it here"

    relation: Relation
    ranks: Counts
    controls: Count = 4  # draws of each control

    @property
    def cost(self) -> float:
        return self.seconds(300) + (0.1 if self.model == TINY else LAYERS * (1 + self.controls) * SVD)

    def run(self) -> Result:
        import jax
        import jax.numpy as jnp
        import numpy as np

        from facthold.lm.matrices import probed, scrambled, truncated
        from facthold.lm.questions import answers, held, questions

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
            by_rank.append([bits(problem.recalled(one)[known]) for one in truncated(W, self.ranks)])
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
    return [LmMatrix(model=model, relation=r, ranks=grid.ranks, controls=grid.controls) for r in grid.relations]


def plot(rows: Sequence[Values]) -> "style.Canvas":
    from facthold.studies.lm.memory_view import draw

    return draw(rows)


def says(rows: Sequence[Values]) -> list[str]:
    from facthold.studies.lm.memory_view import lines

    return lines(rows)


FIGURE = Figure(
    "lm-memory", "An attention matrix as an associative memory", "beyond the paper: its discussion",
    f"W_OV of each layer of {SMOLLM2.name}, heads summed (preset smoke: of a made-up model of three layers), applied "
    "to the stream at a country's last token right after layer 0; the answer is the arg max over the relation's "
    "answers. Known facts: first of all tokens in a prompt; unknown ones: not even first of the relation's answers. "
    "The layer is chosen on half of the countries. Controls: random directions with the same singular values, and "
    "shuffled answers.",
    PRESETS, cells, plot, says=says,
)  # fmt: skip

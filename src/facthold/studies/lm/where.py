"""Where a language model reads a fact: the parts of its margin, and what is left of its answers without each part."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from facthold.lab import Cell, Result
from facthold.lab.fields import Between, Each
from facthold.lm.fetch import TINY
from facthold.lm.prompts import TEMPLATES
from facthold.studies.lm.base import FETCHED, LmCell, Relation, named
from facthold.studies.lm.layers import layers_of
from facthold.studies.lm.resampling import bits

Facts = Annotated[int, Between(least=4)]
PLACES = ("attention", "mlp")
HEADS = 9  # of a layer of the fetched model, for a guess at what a cell costs
TOGETHER = 1 / 6  # of the layers are ablated together
POSITIONS = 4  # of a question that are computed again after a change, about, both places together


@dataclass(frozen=True, kw_only=True)
class LmWhere(LmCell):
    """The known facts of one relation, at most so many: the parts of their margins, and answers without each layer's
    attention and MLP, at the subject's last token and at the last token."""

    kind: ClassVar[str] = "lm-where"

    relation: Relation
    facts_each: Facts = 40

    @property
    def cost(self) -> float:
        return self.seconds(250) + self.seconds(self.facts_each * 2 * layers_of(self.model) * POSITIONS / 2, 1)

    def run(self) -> Result:
        import numpy as np

        from facthold.lm.ablation import ANSWERS, RUNNER_UP, later, margins, without_layers
        from facthold.lm.questions import POSITIONS, answers, held, questions

        model, rows = self.opened(), self.facts([self.relation])
        everything = questions(model, rows)
        asked = [q for q in everything if q.known][: self.facts_each]
        self.check_known(len(asked), f"facts of {self.relation}")
        own = np.array([q.answer for q in asked])
        found: Result = {
            "accuracy": float(np.mean([q.known for q in everything])),  # of all facts that can be judged
            "subjects": [q.fact[0] for q in asked], "held": bits([held(q.fact[0]) for q in asked]),
        }  # fmt: skip
        for name, parts in margins(model, asked, answers(model, rows), (ANSWERS, RUNNER_UP)).items():
            found |= {
                f"margin {name}": parts.margin.tolist(), f"embedding {name}": parts.embedding.tolist(),
                f"attention {name}": parts.attentions.sum(1).tolist(), f"mlp {name}": parts.mlps.sum(1).tolist(),
                f"attentions {name}": parts.attentions.mean(0).tolist(), f"mlps {name}": parts.mlps.mean(0).tolist(),
                f"heads {name}": parts.heads.mean(0).tolist(),
            }  # fmt: skip
        for position in POSITIONS:
            run = later(model, asked, position)
            found |= {f"{place} {position}": [bits(row) for row in without_layers(run, own, place)] for place in PLACES}
        return found


@dataclass(frozen=True, kw_only=True)
class LmTogether(LmCell):
    """The known facts of one relation, at most so many: what attention and MLPs add to the margin over the best other
    answer of the relation, and answers without the attention, or the MLPs, of a sixth of all layers in a row, together,
    at the last token."""

    kind: ClassVar[str] = "lm-together"

    relation: Relation
    facts_each: Facts = 40

    @property
    def cost(self) -> float:
        return self.seconds(250) + self.seconds(self.facts_each * layers_of(self.model) * POSITIONS / 2, 1)

    def run(self) -> Result:
        import numpy as np

        from facthold.lm.ablation import BEST_ANSWER, later, margins, without_runs
        from facthold.lm.questions import LAST, answers, held, questions

        model, rows = self.opened(), self.facts([self.relation])
        asked = [q for q in questions(model, rows) if q.known][: self.facts_each]
        self.check_known(len(asked), f"facts of {self.relation}")
        own, L = np.array([q.answer for q in asked]), model.config.L
        width = min(L, max(2, round(L * TOGETHER)))
        parts = margins(model, asked, answers(model, rows), [BEST_ANSWER])[BEST_ANSWER]
        run = later(model, asked, LAST)
        return {
            "subjects": [q.fact[0] for q in asked], "held": bits([held(q.fact[0]) for q in asked]), "width": width,
            f"margin {BEST_ANSWER}": parts.margin.tolist(),
            f"attention {BEST_ANSWER}": parts.attentions.sum(1).tolist(),
            f"mlp {BEST_ANSWER}": parts.mlps.sum(1).tolist(),
            **{f"{place} runs": [bits(row) for row in without_runs(run, own, place, width)] for place in PLACES},
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LmHeads(LmCell):
    """The known facts of one relation, at most so many: answers without each head."""

    kind: ClassVar[str] = "lm-heads"

    relation: Relation
    facts_each: Facts = 40

    @property
    def cost(self) -> float:
        return self.seconds(250) + self.seconds(self.facts_each * HEADS * layers_of(self.model) * POSITIONS / 2, 1)

    def run(self) -> Result:
        import numpy as np

        from facthold.lm.ablation import later, without_heads
        from facthold.lm.questions import POSITIONS, held, questions

        model = self.opened()
        asked = [q for q in questions(model, self.facts([self.relation])) if q.known][: self.facts_each]
        self.check_known(len(asked), f"facts of {self.relation}")
        own = np.array([q.answer for q in asked])
        found: Result = {"subjects": [q.fact[0] for q in asked], "held": bits([held(q.fact[0]) for q in asked])}
        for position in POSITIONS:
            whole = without_heads(later(model, asked, position), own)
            found[f"heads {position}"] = [[bits(head) for head in layer] for layer in whole]
        return found


@dataclass(frozen=True)
class Grid:
    """Relations, and how many of their known facts: for layers, and for heads, which are many."""

    model: str  # 'tiny', the SHA-256 of a file, or its path
    relations: Annotated[tuple[str, ...], Each(Relation, distinct=True)] = tuple(TEMPLATES)
    facts_each: Facts = 40
    facts_heads: Facts = 16


PRESETS = {
    "smoke": Grid(model=TINY),
    "quick": Grid(model=FETCHED),
    "paper": Grid(model=FETCHED, facts_each=250, facts_heads=100),
}


def layer_cells(grid: Grid) -> list[Cell]:
    """What the claims need: all but the heads."""
    return [LmWhere(model=named(grid.model), relation=r, facts_each=grid.facts_each) for r in grid.relations]


def cells(grid: Grid) -> list[Cell]:
    model = named(grid.model)
    together = [LmTogether(model=model, relation=r, facts_each=grid.facts_each) for r in grid.relations]
    heads = [LmHeads(model=model, relation=r, facts_each=grid.facts_heads) for r in grid.relations]
    return [*layer_cells(grid), *heads, *together]

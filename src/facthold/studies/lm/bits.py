"""How many bits of facts a language model holds: of our tables, in all of its weights; in one matrix of it that is read
as a memory; and in a matrix that it was taught. Beside them our own trained models, by the cells of other figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from facthold.lab import Cell, Result
from facthold.lab.fields import Between, Each, OneOf, Repeats
from facthold.lab.figure import PRESETS as NAMES
from facthold.lm.fetch import TINY
from facthold.lm.prompts import TEMPLATES
from facthold.studies.bits import efficiency
from facthold.studies.bits.fact_bits import TRAINED, FactBits
from facthold.studies.bits.memory_bits import ARGMAX, MemoryBits
from facthold.studies.lm import teach
from facthold.studies.lm.base import FETCHED, LmCell, Relation, named
from facthold.studies.lm.knows import TOKENS, Shots
from facthold.studies.lm.layers import layers_at, layers_of
from facthold.studies.lm.memory_matrix import SVD
from facthold.studies.lm.resampling import bits as as_text

REGION = "region"  # what is known of a country where bits of its other relations are counted
WORDINGS = min(len(words) for words in TEMPLATES.values())
FLOAT32 = 32  # bits of a weight that is in no file, or was taught


@dataclass(frozen=True, kw_only=True)
class OfRelation(LmCell):
    """A cell about the facts of one relation that tell something of what weights hold."""

    relation: Relation

    def regions(self, subjects: Sequence[str]) -> list[str]:
        """Where each country is; of regions themselves nothing is known before."""
        known = {} if self.relation == REGION else {s: a for s, _, a in self.facts([REGION])}
        return [known.get(subject, "") for subject in subjects]


@dataclass(frozen=True, kw_only=True)
class LmBits(OfRelation):
    """Bits that the model's prediction of each answer saves, among the answers of its relation: with nothing known of
    the subject but its name (alone), and where its region is known (given)."""

    kind: ClassVar[str] = "lm-bits"

    shots: Shots = 0
    templates: Annotated[int, Between(least=1, most=WORDINGS)] = 1  # wordings whose predictions are averaged
    seed: int = 0  # of the examples

    @property
    def cost(self) -> float:
        return self.seconds(self.templates * 200, TOKENS.get(self.shots, 12 * (1 + self.shots)))

    def run(self) -> Result:
        from facthold.lm.code_length import recall_bits
        from facthold.lm.telling import coded, scores, telling

        model, rows = self.opened(), self.facts([self.relation])
        asked = telling(model, rows)
        z = scores(model, asked, rows, shots=self.shots, templates=self.templates, seed=self.seed)
        alone, given = (asked.table(groups) for groups in (None, self.regions(asked.subjects)))
        found = {"alone": coded(alone, z, asked.half), "given": coded(given, z, asked.half)}
        right = recall_bits(alone, z).right
        return {
            "facts": len(rows), "judged": len(asked.f), "answers": len(asked.tokens), **asked.left_out,
            "accuracy": float(right.mean()) if len(right) else None, "subjects": asked.subjects,
            "held": as_text(asked.half),
        } | found  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LmMatrixBits(OfRelation):
    """The same of W_OV of each layer as an associative memory, where the region is known."""

    kind: ClassVar[str] = "lm-matrix-bits"

    @property
    def cost(self) -> float:
        return self.seconds(40) + (0.1 if self.model == TINY else 5 * layers_of(self.model) * SVD)

    def run(self) -> Result:
        from facthold.lm.telling import by_layer, telling

        model = self.opened()
        asked = telling(model, self.facts([self.relation]))
        found = by_layer(model, asked, asked.table(self.regions(asked.subjects)))
        return {"subjects": asked.subjects, "held": as_text(asked.half), **found}


@dataclass(frozen=True, kw_only=True)
class LmSize(LmCell):
    """How many weights there are, and in how many bits they are stored: of the whole model, and of W_V and W_O of a
    layer, which W_OV is the product of; and how many words answers that are taught are drawn from."""

    kind: ClassVar[str] = "lm-size"

    def run(self) -> Result:
        import math

        model = self.opened()
        shapes, L = model.config.shapes(), model.config.L
        weights = sum(math.prod(shapes[name]) for name in ("W_V", "W_O"))
        return {
            "n_params": model.n_params, "layer_params": weights, "words": len(teach.candidates(self.model, model)),
            **(self._in_file(L) if self.model != TINY else
               {"stored_bits": FLOAT32 * model.n_params, "layer_bits": [FLOAT32 * weights] * L}),
        }  # fmt: skip

    def _in_file(self, L: int) -> Result:
        from facthold.lm.fetch import find_file
        from facthold.lm.gguf import LAYER, UNEMBEDDING, Gguf

        file = Gguf(find_file(self.model))
        whole = sum(file.stored_bits(name) for name in ("E", "g", UNEMBEDDING))
        layers = [{name: file.stored_bits(name, layer) for name in LAYER} for layer in range(L)]
        return {
            "stored_bits": whole + sum(sum(one.values()) for one in layers),
            "layer_bits": [one["W_V"] + one["W_O"] for one in layers],
        }


@dataclass(frozen=True)
class Grid:
    """What a language model is asked for, and which of our own models stand beside it."""

    model: str  # 'tiny', the SHA-256 of a file, or its path
    relations: Annotated[tuple[str, ...], Each(Relation, distinct=True)] = tuple(TEMPLATES)
    templates: Annotated[int, Between(least=1, most=WORDINGS)] = WORDINGS
    shots: Shots = 3
    n_seeds: Repeats = 1  # draws of the examples
    taught: Annotated[int, Between(least=1)] = 2000  # the most facts in one matrix, of those that figure lm-teach has
    preset: Annotated[str, OneOf(NAMES)] = "quick"  # of the figures whose cells are taken
    own: tuple[str, ...] = ("train:mlp-text", TRAINED)  # recipes of figure efficiency


PRESETS = {
    "smoke": Grid(model=TINY, taught=12, preset="smoke", own=("on-grid:linear-2", "values")),
    "quick": Grid(model=FETCHED),
    "paper": Grid(model=FETCHED, n_seeds=5, taught=8000, preset="paper"),
}


def table_cells(grid: Grid) -> list[Cell]:
    """What the claim needs: every relation in its first wording, without examples."""
    return [LmBits(model=named(grid.model), relation=r) for r in grid.relations]


def cells(grid: Grid) -> list[Cell]:
    model, found = named(grid.model), table_cells(grid)
    for r in grid.relations:
        if grid.templates > 1:
            found.append(LmBits(model=model, relation=r, templates=grid.templates))
        found += [LmBits(model=model, relation=r, shots=grid.shots, seed=s) for s in range(grid.n_seeds) if grid.shots]
        found.append(LmMatrixBits(model=model, relation=r))
    lessons = teach.PRESETS[grid.preset]
    taught = max((N for N in lessons.N if grid.taught >= N), default=min(lessons.N))
    layers = layers_at(model, lessons.layers, lessons.shares)
    found += [LmSize(model=model), teach.LmTeach(model=model, N=taught, layers=layers)]
    return [*found, *(cell for cell in efficiency.cells(efficiency.PRESETS[grid.preset]) if _wanted(cell, grid.own))]


def _wanted(cell: Cell, names: Sequence[str]) -> bool:
    """Whether one of our models is named: memories that are read by arg max, and transformers whose weights are rounded
    after training, if they are."""
    if isinstance(cell, MemoryBits):
        return cell.method in names and cell.reading == ARGMAX
    return isinstance(cell, FactBits) and cell.model in names and not cell.levels

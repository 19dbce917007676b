"""Truncation of a language model: matrices of one layer cut to rank r, or dropped (r = 0), as `measure.truncate` cuts
small models; and the lecture's question for it, "Madrid is located in": a fact, or *the*?"""

import hashlib
from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from facthold._util.errors import find
from facthold.facts.table import Row
from facthold.lm.choices import MATRICES
from facthold.lm.knowing import ask_facts, reason_left_out
from facthold.lm.model import Batch, LanguageModel, batches
from facthold.measure.truncate import best_ranks

LOCATED, PROMPT = "located", "{} is located in"
RIVALS = ("the", "a", "an")  # what follows "in" where nothing is known


def full_rank(model: LanguageModel, matrix: str) -> int:
    """The largest rank that what is cut can have."""
    shapes = model.config.shapes()
    return max(min(shapes[name]) for name in find("matrix", matrix, MATRICES))


def truncations(
    model: LanguageModel, layer: int, matrix: str, ranks: Collection[int]
) -> dict[int, LanguageModel]:  # fmt: skip
    """The model with a matrix of a layer cut to each rank; from full rank on it is the model as it was."""
    if not 0 <= layer < model.config.L:
        raise ValueError(f"layer={layer} must be from 0 to {model.config.L - 1}: the model has {model.config.L}")
    full = full_rank(model, matrix)
    for rank in ranks:
        if not 0 <= rank <= full:
            raise ValueError(f"rank={rank} must be from 0 to {full}, the full rank of {matrix}; 0 drops it")
    parts = {name: best_ranks(model.layers[layer][name], ranks) for name in MATRICES[matrix]}
    return {
        rank: model.replaced({(layer, name): jnp.asarray(cut[rank][0]) for name, cut in parts.items()})
        for rank in ranks
    }


def truncated(model: LanguageModel, layer: int, matrix: str, rank: int) -> LanguageModel:
    """The model with one cut."""
    return truncations(model, layer, matrix, [rank])[rank]


def located_facts(model: LanguageModel, rows: Sequence[Row]) -> list[Row]:
    """(capital, 'located', country) for each country whose capital the model knows: at rank 1 after "The capital of X
    is". Left out are facts that say nothing of knowledge. In an order by hashes: every other one is a random half."""
    capitals = [row for row in rows if row[1] == "capital"]
    turned = [(c, LOCATED, s) for s, _, c in capitals if [a for _, _, a in capitals].count(c) == 1]
    first = {country: model.tokeniser.first(country) for _, _, country in turned}
    kept = [fact for fact in turned if not reason_left_out(fact, turned, first.__getitem__)]
    asked = ask_facts(model, [(s, "capital", c) for c, _, s in kept], capitals)
    known = [fact for fact, one in zip(kept, asked, strict=True) if one.rank == 1 and not one.left_out]
    return sorted(known, key=by_hash)


def by_hash(fact: Row) -> bytes:
    """What facts are ordered by where any part of them is to be a random one."""
    return hashlib.sha256(fact[0].encode()).digest()


@dataclass(frozen=True, eq=False)
class Hits:
    """For each fact: whether its first token is before *the*, *a* and *an*; before those and the first tokens of all
    other answers; and first of all tokens."""

    beats: np.ndarray
    fact: np.ndarray
    first: np.ndarray


class Question:
    """Prompts with answers, asked of a model and of what truncation makes of it. Layers before the cut are run once."""

    def __init__(
        self, model: LanguageModel, prompts: Sequence[str], answers: Sequence[str], options: Sequence[str], layer: int
    ) -> None:
        first = model.tokeniser.first
        self.answers = np.array([first(answer) for answer in answers])
        self.rivals = sorted({first(word) for word in RIVALS})
        self.options = sorted({first(name) for name in options})
        self.layer, self.parts = layer, list[tuple[np.ndarray, Batch, jax.Array]]()
        for places, batch in batches([model.encode(prompt) for prompt in prompts]):
            run = model.run(batch, keep=[("stream", layer)], logits=False)
            self.parts.append((places, batch, run["stream", layer]))

    def logits(self, model: LanguageModel) -> Float[np.ndarray, "b V"]:
        """At each prompt's end, in the order of the prompts; the model may differ from its layer on."""
        found = np.empty((len(self.answers), model.config.V), np.float32)
        for places, batch, stream in self.parts:
            found[places] = model.run(batch, start=(self.layer, stream)).logits
        return found

    def first(self, model: LanguageModel) -> np.ndarray:
        """Whether the answer's first token is the first of all."""
        return self.logits(model).argmax(1) == self.answers

    def part(self, which: Sequence[int]) -> "Question":
        """Some of the prompts alone."""
        found = copy(self)
        found.answers = self.answers[list(which)]
        found.parts = []
        for places, batch, stream in self.parts:
            inside = [(which.index(p), i) for i, p in enumerate(places.tolist()) if p in which]
            if inside:
                new, old = (np.array(side) for side in zip(*inside, strict=True))
                found.parts.append((new, Batch(batch.tokens[old], batch.lengths[old]), stream[old]))
        return found

    def hits(self, model: LanguageModel) -> Hits:
        logits = self.logits(model)
        own = logits[np.arange(len(logits)), self.answers]
        beats = own > logits[:, self.rivals].max(1)
        return Hits(beats, beats & (own >= logits[:, self.options].max(1)), logits.argmax(1) == self.answers)

"""Truncation of a language model: matrices of one layer cut to rank r, or dropped (r = 0), as `measure.truncate` cuts
small models; and the lecture's question for it, "Madrid is located in": a fact, or *the*?"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from facthold._util.errors import find
from facthold.facts.table import Row
from facthold.lm.choices import MATRICES
from facthold.lm.from_layer import FromLayer
from facthold.lm.knowing import ask_facts, reason_left_out
from facthold.lm.model import LanguageModel
from facthold.lm.prompts import by_hash
from facthold.lm.tokeniser import Words
from facthold.measure.truncate import best_ranks

LOCATED, PROMPT = "located", "{} is located in"
RIVALS = ("the", "a", "an")  # what follows "in" where nothing is known


def check_cut(words: Words, layer: int | None, matrix: str, ranks: Collection[int]) -> None:
    """What is not in the model, or has no such rank, is refused."""
    words.check_layer(layer)
    full = full_rank(words, matrix)
    for rank in ranks:
        if not 0 <= rank <= full:
            raise ValueError(f"rank={rank} must be from 0 to {full}, the full rank of {matrix}; 0 drops it")


def full_rank(model: Words, matrix: str) -> int:
    """The largest rank that what is cut can have."""
    shapes = model.config.shapes()
    return max(min(shapes[name]) for name in find("matrix", matrix, MATRICES))


def truncations(
    model: LanguageModel, layer: int, matrix: str, ranks: Collection[int]
) -> dict[int, LanguageModel]:  # fmt: skip
    """The model with a matrix of a layer cut to each rank; from full rank on it is the model as it was."""
    check_cut(model, layer, matrix, ranks)
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
    return sorted(known, key=lambda fact: by_hash(fact[0]))


@dataclass(frozen=True, eq=False)
class Hits:
    """For each fact: whether its first token is before *the*, *a* and *an*; before those and the first tokens of all
    other answers; and first of all tokens."""

    beats: np.ndarray
    fact: np.ndarray
    first: np.ndarray


def hits(asked: FromLayer, model: LanguageModel, options: Sequence[str]) -> Hits:
    """What a model, cut or whole, makes of these prompts; ``options`` are all answers that compete."""
    first, logits = model.tokeniser.first, asked.logits(model)
    own = logits[np.arange(len(logits)), asked.answers]
    rivals, others = (sorted({first(word) for word in words}) for words in (RIVALS, options))
    beats = own > logits[:, rivals].max(1)
    return Hits(beats, beats & (own >= logits[:, others].max(1)), logits.argmax(1) == asked.answers)

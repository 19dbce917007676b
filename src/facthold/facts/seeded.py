"""Tables and problems by a seed: what figures, claims and commands measure on."""

from dataclasses import dataclass

import numpy as np

from facthold._util.errors import find
from facthold._util.keys import derive
from facthold.facts.problem import SEQUENCE, FactualRecall, factual_recall
from facthold.facts.table import FactTable, make_table


@dataclass(frozen=True)
class Variant:
    """What (d, H, d_h, m) leave open about task and model, where the paper's text and the authors' code differ."""

    name: str
    scaled: bool  # whether scores are divided by sqrt(d_h)
    outputs: str  # what the arg max and the softmax run over: 'vocabulary' or 'answers'
    bias: bool  # whether the MLP's first layer has a bias
    embeddings: str


VARIANTS = {
    v.name: v
    for v in (
        Variant("code", scaled=True, outputs="answers", bias=True, embeddings="gaussian"),
        Variant("text", scaled=False, outputs="vocabulary", bias=False, embeddings="sphere"),
    )
}


def variant(name: str) -> Variant:
    """The variant with this name."""
    return find("variant", name, VARIANTS)


def seeded_table(kind: str, S: int, R: int, D: int | None, seed: int) -> FactTable:
    """The table of this seed; D=None: as many answers as subjects. For D fixed, that of S + 1 begins with that of S."""
    return make_table(kind, S, R, S if D is None else D, key=derive("facts", seed, kind))


def seeded_recall(
    table: FactTable, d: int, seed: int, variant: str | Variant = "text", *, T: int = SEQUENCE,
    n_noise: int | None = None, p: np.ndarray | None = None,
) -> FactualRecall:  # fmt: skip
    """The table's prompts and embeddings, of this seed and variant. 'text' is the setting of the theorems: spherical
    embeddings, arg max over the whole vocabulary."""
    v = find("variant", variant, VARIANTS) if isinstance(variant, str) else variant
    key = derive("tokens", seed, d, v.embeddings)
    return factual_recall(table, d, key=key, n_noise=n_noise, T=T, p=p, embeddings=v.embeddings, outputs=v.outputs)

"""Where the paper's text and the authors' code differ about the transformer: both, each under its name."""

from dataclasses import dataclass

from facthold._util.errors import unknown


@dataclass(frozen=True)
class Variant:
    """What is left open by (d, H, d_h, m) alone."""

    name: str
    scaled: bool
    """Whether scores are divided by sqrt(d_h)."""
    outputs: str
    """What the arg max and the softmax run over: 'vocabulary' or 'answers'."""
    bias: bool
    """Whether the MLP's first layer has a bias."""
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
    if name not in VARIANTS:
        raise unknown("variant", name, VARIANTS)
    return VARIANTS[name]

"""Layers and ranks of a model, known before it is read: cells are listed where it is not there. Presets name layers by
shares of the depth, so that they are about any model."""

from collections.abc import Sequence
from functools import cache
from typing import Annotated, NamedTuple

from facthold.lab.fields import Between, Each
from facthold.lm.fetch import SMOLLM2, TINY, find_file

Shares = Annotated[tuple[float, ...], Each(Annotated[float, Between(least=0, most=1)], distinct=True)]
"""Layers as shares of all: 0 is the first one. Used where no layers are named."""


def thirtieths(*layers: int) -> tuple[float, ...]:
    """Shares of the depth by what they are of 30 layers, which the fetched model has."""
    return tuple(layer / 30 for layer in layers)


class Sizes(NamedTuple):
    L: int  # layers
    d: int  # of the stream


KNOWN = {TINY: Sizes(3, 128), SMOLLM2.sha256: Sizes(30, 576)}


@cache
def sizes_of(model: str) -> Sizes:
    """Of the model with this name; of a file of one's own as its header says."""
    if model in KNOWN:
        return KNOWN[model]
    from facthold.lm.gguf import Gguf

    config = Gguf(find_file(model)).config
    return Sizes(config.L, config.d)


def layers_of(model: str) -> int:
    return sizes_of(model).L


def layers_at(
    model: str, layers: Sequence[int], shares: Sequence[float], least: int = 0, beyond: int = 0
) -> tuple[int, ...]:
    """The layers that are named, or else those at these shares of the depth. Streams are counted from ``least`` and one
    ``beyond`` the last layer; layers that the model does not have are refused."""
    most = layers_of(model) - 1 + beyond
    if strays := [i for i in layers if not least <= i <= most]:
        raise ValueError(f"layers={strays[0]} must be from {least} to {most}: the model has {layers_of(model)} layers")
    found = layers or [min(max(round(share * layers_of(model)), least), most) for share in shares]
    return tuple(dict.fromkeys(found))


def ranks_of(model: str, ranks: Sequence[int]) -> tuple[int, ...]:
    """Ranks that matrices of this model can have: larger ones are the whole."""
    return tuple(dict.fromkeys(min(rank, sizes_of(model).d) for rank in ranks))

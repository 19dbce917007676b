"""How many layers a model has, known before it is read: cells are listed where it is not there."""

from functools import cache

from facthold.lm.fetch import SMOLLM2, TINY, find_file

KNOWN = {TINY: 3, SMOLLM2.sha256: 30}


@cache
def layers_of(model: str) -> int:
    """Of the model with this name; of a file of one's own as its header says."""
    if model in KNOWN:
        return KNOWN[model]
    from facthold.lm.gguf import Gguf

    return Gguf(find_file(model)).config.L

"""What is kept of a model on the bigram task besides its accuracy: where its heads look, where it is wrong, and its
attention in one sequence, which is the same for all models."""

from typing import Any

import numpy as np

from facthold._util.keys import derive
from facthold.lab import Result
from facthold.studies.context.base import BigramCell

SHOWN = 48  # tokens of the sequence that is shown


def looked(cell: BigramCell, model: Any) -> Result:
    """``looks``, layer by layer (`measure.attending.Looks`), and ``map``: the tokens of the sequence that is shown,
    which of them the context tells, and the attention of each layer from each to those up to it."""
    from facthold.context.bigrams import Bigrams
    from facthold.measure.attending import looks, maps, shown
    from facthold.measure.in_context import BLOCK

    task, about = cell.task(), (cell.K, cell.T, int(cell.random))
    found = looks(model, task, BLOCK, key=derive("looks", cell.seed, *about))
    length = min(SHOWN, cell.T)
    sequence = shown(task, length, key=derive("shown", *about))
    characters = Bigrams.shipped().characters
    drawn = {
        "tokens": [characters[z] for z in np.asarray(sequence.tokens)[0, :length]],
        "told": np.asarray(sequence.counted)[0, :length].tolist(), "layers": maps(model, sequence, length),
    }  # fmt: skip
    return {"looks": [{name: float(share) for name, share in layer._asdict().items()} for layer in found], "map": drawn}


def mistakes(cell: BigramCell, model: Any) -> Result:
    """Outputs that it misses, of those that it is judged on; at how many of these the trigger that is asked about
    stands at position 0 too, and at how many of all."""
    import equinox as eqx

    predict = eqx.filter_jit(lambda model, tokens: model(tokens).argmax(axis=-1))
    wrong = wrong_from_start = from_start = 0
    for sequences in cell.exam().blocks():
        tokens, counted = np.asarray(sequences.tokens), np.asarray(sequences.counted)[:, 1:]
        missed = counted & (np.asarray(predict(model, sequences.tokens))[:, :-1] != tokens[:, 1:])
        at_start = counted & (tokens[:, :-1] == tokens[:, :1])
        wrong, from_start = wrong + int(missed.sum()), from_start + int(at_start.sum())
        wrong_from_start += int((missed & at_start).sum())
    return {"wrong": wrong, "wrong_from_start": wrong_from_start, "from_start": from_start}

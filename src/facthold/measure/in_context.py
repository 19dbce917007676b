"""How well a model predicts outputs in context: on fresh sequences, with its standard error, beside simple rules."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from facthold._util.errors import FactholdError
from facthold._util.keys import fold
from facthold.context.baselines import baselines
from facthold.context.sequences import BigramTask, Sequences

JUDGED = 512  # sequences that a finished model is judged on
BLOCK = 32  # sequences asked at a time


class Accuracy(NamedTuple):
    """The share of outputs that are predicted, its standard error over sequences, and of how many it is."""

    share: float
    error: float
    judged: int


class Exam(NamedTuple):
    """Sequences that a model is judged on, drawn by key a block at a time: the same ones each time they are asked."""

    task: BigramTask
    keys: tuple[PRNGKeyArray, ...]
    block: int = BLOCK

    @classmethod
    def of(cls, task: BigramTask, *, key: PRNGKeyArray, n: int = JUDGED) -> "Exam":
        return cls(task, tuple(fold(key, i) for i in range(n // BLOCK)))

    def blocks(self) -> Iterator[Sequences]:
        draw = eqx.filter_jit(lambda task, key: task.draw(self.block, key=key))
        return (draw(self.task, key) for key in self.keys)

    def rules(self, pi_b: Float[np.ndarray, "N N"]) -> dict[str, float]:
        """The share that rules without induction have right."""
        by_text = jnp.asarray(pi_b, jnp.float32)
        found, told = [], []
        for sequences in self.blocks():
            told.append(int(sequences.counted.sum()))
            found.append({name: float(share) for name, share in baselines(sequences, by_text).items()})
        self._check(sum(told))
        # a block in which nothing is told has no share and no weight
        return {name: float(np.average([np.nan_to_num(r[name]) for r in found], weights=told)) for name in found[0]}

    def accuracy(self, model: Any) -> Accuracy:
        """Of a model that gives logits at all positions."""
        predict = eqx.filter_jit(lambda model, tokens: model(tokens).argmax(axis=-1))
        hits, asked = [], []
        for sequences in self.blocks():
            counted, tokens = np.asarray(sequences.counted)[:, 1:], np.asarray(sequences.tokens)
            right = np.asarray(predict(model, sequences.tokens))[:, :-1] == tokens[:, 1:]
            hits.append((right & counted).sum(axis=1))
            asked.append(counted.sum(axis=1))
        n, of = np.concatenate(hits), np.concatenate(asked)
        self._check(int(of.sum()))
        share = n.sum() / of.sum()
        error = np.sqrt(((n - share * of) ** 2).sum()) / of.sum()  # of a ratio, over sequences
        return Accuracy(float(share), float(error), int(of.sum()))

    def _check(self, told: int) -> None:
        if not told:
            raise FactholdError(
                f"in {len(self.keys) * self.block} sequences of T={self.task.T} tokens no trigger comes twice, so that "
                "the context tells nothing; take a larger T, or triggers that occur more often"
            )

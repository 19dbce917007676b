"""Prompts asked of models that differ from one layer on, as truncation and edits make them: the layers before are run
once for all. (`lm.later` is about a change at one token.)"""

from collections.abc import Sequence
from copy import copy

import jax
import numpy as np
from jaxtyping import Bool, Float

from facthold.lm.model import Batch, LanguageModel, batches


class FromLayer:
    """Prompts with the first tokens of their answers, run up to a layer."""

    def __init__(self, model: LanguageModel, prompts: Sequence[str], answers: Sequence[str], layer: int) -> None:
        self.answers = np.array([model.tokeniser.first(answer) for answer in answers])
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

    def first(self, model: LanguageModel) -> Bool[np.ndarray, "b"]:
        """Whether the answer's first token is the first of all."""
        return self.logits(model).argmax(1) == self.answers

    def part(self, which: Sequence[int]) -> "FromLayer":
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

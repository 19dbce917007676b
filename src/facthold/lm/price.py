"""What a change of a model costs elsewhere: the perplexity of a fixed paragraph."""

import numpy as np

from facthold.lm.model import Batch, LanguageModel
from facthold.lm.text import PARAGRAPH


def text_perplexity(model: LanguageModel) -> float:
    """Of the paragraph of `lm.text`, or of as much of it as the model's context holds."""
    tokens = model.tokeniser.encode(PARAGRAPH)[: model.config.context]
    return float(np.exp(model.losses(Batch.of([tokens])).mean()))

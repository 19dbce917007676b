"""Real embeddings for an added memory: keys are streams at the last token of a name, values are unembeddings."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from facthold.lm.fetch import TINY
from facthold.lm.forward import scale
from facthold.lm.model import LanguageModel, batches
from facthold.lm.prompts import by_hash

BEFORE = "The city of "  # a name at the beginning of a text is another token, as there is no space before it
LONGEST = 30  # letters of a name
RIDGE = 1e-3  # of the mean diagonal, where second moments are inverted


def names_for(model: str) -> list[str]:
    """Names that a model's streams are read at: of cities with an airport, in ASCII; or beginnings of the tiny
    model's words, which are tokens of it. In an order that hashes give."""
    if model == TINY:
        from facthold.lm.tiny import FILLING, ROWS, SUBJECTS

        whole = [*SUBJECTS, *FILLING, *(answer for _, _, answer in ROWS)]
        found = {word[:i] for word in whole for i in range(1, len(word) + 1)}
    else:
        found = {name for name in cities() if 3 < len(name) < LONGEST}
    return sorted(found, key=by_hash)


def cities() -> set[str]:
    """Names of cities with an airport, in ASCII."""
    from facthold.facts.real import AIRPORTS

    return {name for _, _, name in AIRPORTS.facts(["city"]) if name.isascii()}


def streams(model: LanguageModel, names: Sequence[str], layer: int) -> Float[np.ndarray, "n d"]:
    """The stream that ``layer`` reads at the last token of each name, over its root mean square."""
    first = model.first(layer)
    found = np.zeros((len(names), model.config.d), np.float32)
    for places, batch in batches([model.encode(BEFORE + name) for name in names]):
        x = first.run(batch, keep=[("stream", layer)], at=batch.last, logits=False)["stream", layer][:, 0]
        found[places] = x * scale(x, model.config.eps)[:, None]
    return found


def words(model: LanguageModel) -> Int[np.ndarray, " n"]:
    """Tokens that are a whole word, or begin one: a space and letters."""
    texts = [model.tokeniser.decode([token]) for token in range(len(model.U))]
    return np.array([i for i, text in enumerate(texts) if text[:1] == " " and len(text) > 2 and text[1:].isalpha()])


def centred(X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """Directions from the mean of all."""
    return directions(X - X.mean(0))


def directions(X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def participation(X: Float[np.ndarray, "n d"]) -> float:
    """(tr C)^2 / tr C^2 of their second moments C: d, where they go in all directions alike. For unit vectors it is
    1 / E <x, x'>^2, which is what the noise of an outer product is made of."""
    C = X.T.astype(np.float64) @ X / len(X)
    return float(np.trace(C) ** 2 / (C**2).sum())


def whitener(X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "d d"]:
    """C^-1, with a ridge: on either side of an outer product it makes the least squares of the scores."""
    C = X.T.astype(np.float64) @ X / len(X)
    return np.linalg.inv(C + RIDGE * np.trace(C) / len(C) * np.eye(len(C)))


def alike(X: Float[np.ndarray, "n d"], random: np.random.Generator) -> Float[np.ndarray, "n d"]:
    """As many Gaussian vectors with the same mean and covariance: of the same spectrum, and nothing else."""
    mean, (_, s, right) = X.mean(0), np.linalg.svd(X - X.mean(0), full_matrices=False)
    drawn = random.standard_normal((len(X), len(s))) * (s / np.sqrt(len(X)))
    return (mean + drawn @ right).astype(np.float32)

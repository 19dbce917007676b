"""Free prompts: the tokens that a model would go on with."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from facthold.lm.model import LanguageModel, batches
from facthold.lm.tokeniser import Words

if TYPE_CHECKING:
    from facthold.lm.teaching import Taught

TOP = 5


@dataclass(frozen=True)
class Next:
    """A token that may come next: its text, with the space that it may begin with."""

    token: str
    probability: float
    logit: float


@dataclass(frozen=True)
class Continued:
    """A prompt, how many tokens it has, and the best next ones."""

    prompt: str
    tokens: int
    next: tuple[Next, ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def check_top(words: Words, top: int) -> None:
    if not 1 <= top <= words.config.V:
        raise ValueError(f"top={top} must be from 1 to {words.config.V}, the number of tokens")


def check_asked(words: Words, prompts: Sequence[str], top: int) -> tuple[list[str], list[str]]:
    """The prompts that can be asked, and why others cannot; refused is what leaves nothing to ask."""
    check_top(words, top)
    kept, left = list[str](), list[str]()
    for number, prompt in enumerate(prompts, 1):
        try:
            words.encode(prompt)
            kept.append(prompt)
        except ValueError as error:
            if len(prompts) == 1:
                raise
            left.append(f"prompt {number} is left out: {error}")
    if not kept:
        raise ValueError(f"none of the {len(prompts)} prompts can be asked; {left[0]}")
    return kept, left


def ask(
    model: LanguageModel, prompts: Sequence[str], top: int = TOP, *, taught: "Taught | None" = None
) -> list[Continued]:
    """The ``top`` next tokens of each prompt, perhaps with what the model was taught."""
    check_top(model, top)
    tokens = [model.encode(prompt) for prompt in prompts]
    found: dict[int, Continued] = {}
    for places, batch in batches(tokens):
        named = [taught.named(model, prompts[i]) for i in places] if taught else []
        logits = model.run(batch, hooks=taught.hooks(model, batch, named) if taught else None).logits
        for i, row, shares in zip(places, np.asarray(logits), np.asarray(jax.nn.softmax(logits)), strict=True):
            best = np.argsort(-row, kind="stable")[:top]
            nexts = (Next(model.tokeniser.shown(int(t)), float(shares[t]), float(row[t])) for t in best)
            found[int(i)] = Continued(prompts[i], len(tokens[i]), tuple(nexts))
    return [found[i] for i in range(len(prompts))]

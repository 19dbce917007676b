"""Attention matrices of a language model as associative memories: from what stands at a subject right after the first
layer to the answer, with nothing else of the model between. It is the memory probe R(W, W*) of `measure.probes`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from facthold.facts.table import Row
from facthold.lm.forward import scale
from facthold.lm.model import LanguageModel, batches
from facthold.lm.prompts import TEMPLATES
from facthold.measure.recall import right


@dataclass(frozen=True, eq=False)
class Probed:
    """Facts of one relation as a memory would hold them: keys, the outputs that compete, and which one is right."""

    keys: Float[Array, "n d"]
    outputs: Float[Array, "M d"]
    f: Int[Array, "n"]

    def recalled(self, W: Float[Array, "d d"]) -> Bool[np.ndarray, "n"]:
        """Whether f(i) is the arg max over j of u_j^T W e_i."""
        return np.asarray(right(self.keys @ W.T @ self.outputs.T, self.f))


class Asked(Protocol):
    """A fact, and the first token of its answer."""

    @property
    def fact(self) -> Row: ...
    @property
    def answer(self) -> int: ...


def words_before(relation: str) -> str:
    """What stands before a subject in the first template of a relation that does not begin with it: at the beginning of
    a text there is no space before a name, which makes it another token, of which a model knows less."""
    return next(before for words in TEMPLATES[relation] if (before := words.partition("{}")[0]))


def probed(model: LanguageModel, questions: Sequence[Asked], answers: np.ndarray) -> Probed:
    """Keys: the stream at the subject's last token after layer 0, over its root mean square (the gain is in W_OV).
    Outputs: the unembeddings of the relation's answers times the last norm's gain, as logits read them."""
    first = model.first(1)
    found = np.zeros((len(questions), model.config.d), np.float32)
    for places, batch in batches([model.encode(words_before(q.fact[1]) + q.fact[0]) for q in questions]):
        x = first.run(batch, keep=[("stream", 1)], at=batch.last, logits=False)["stream", 1][:, 0]
        found[places] = x * scale(x, model.config.eps)[:, None]
    f = np.searchsorted(answers, [q.answer for q in questions])
    return Probed(jnp.asarray(found), model.U[answers] * model.g, jnp.asarray(f))


def scrambled(s: Float[Array, "d"], *, key: Array) -> Float[Array, "d d"]:
    """A random matrix with these singular values: its directions are uniform on both sides."""
    one, other = (jnp.linalg.qr(jax.random.normal(k, (len(s), len(s))))[0] for k in jax.random.split(key))
    return (one * s) @ other

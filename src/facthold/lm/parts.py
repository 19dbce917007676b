"""The exact decomposition of a margin: what the embedding, each head and each MLP add to it, with the last norm's scale
as it is. It sums to the margin up to rounding; it says nothing of what a part does through later layers."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from facthold.lm.forward import scale
from facthold.lm.model import Batch, LanguageModel, Run


@dataclass(frozen=True, eq=False)
class Parts:
    """What each part adds to a margin, for each prompt of a batch."""

    embedding: Float[np.ndarray, "b"]
    heads: Float[np.ndarray, "b L H"]
    mlps: Float[np.ndarray, "b L"]

    @property
    def attentions(self) -> Float[np.ndarray, "b L"]:
        return self.heads.sum(-1)

    @property
    def margin(self) -> Float[np.ndarray, "b"]:
        """The sum of all parts."""
        return self.embedding + self.heads.sum((1, 2)) + self.mlps.sum(1)


KEPT = ("stream", "heads", "mlp")  # what `run` has to keep, at the last tokens


def kept_run(model: LanguageModel, batch: Batch) -> Run:
    """A run that can be decomposed."""
    return model.run(batch, keep=KEPT, at=batch.last)


def decompose(model: LanguageModel, run: Run, direction: Float[Array, "b d"]) -> Parts:
    """The parts of ``direction`` · (normed stream) at the last token. A direction is a difference of unembeddings, by
    `contrast`: the answer against a rival, or against the mean of several."""
    c = model.config
    read = direction * model.g * scale(run.final, c.eps)[:, None]
    heads = [
        jnp.einsum("bhc,dhc,bd->bh", run["heads", i][:, 0], w["W_O"].reshape(c.d, c.H, c.d_h), read)
        for i, w in enumerate(model.layers)
    ]
    mlps = [(run["mlp", i][:, 0] * read).sum(-1) for i in range(c.L)]
    return Parts(
        np.asarray((run["stream", 0][:, 0] * read).sum(-1)),
        np.stack([np.asarray(h) for h in heads], 1),
        np.stack([np.asarray(one) for one in mlps], 1),
    )


def contrast(model: LanguageModel, answers: np.ndarray, rivals: np.ndarray) -> Float[Array, "b d"]:
    """u_answer - the mean of u_rival: of one token per prompt, [b], or of several, [b, n]."""
    U = model.U
    return U[answers] - U[rivals.reshape(len(answers), -1)].mean(1)

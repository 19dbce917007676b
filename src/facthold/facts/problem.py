"""Factual recall as a problem: a table of facts, prompts that ask for them, and embeddings (sections 4.1 to 4.3)."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from facthold._util.errors import check_one_of, check_positive
from facthold._util.keys import PRNGKeyArray, fold
from facthold.facts.distribution import SEQUENCE, check_distribution, check_length
from facthold.facts.table import FactTable

OUTPUTS = ("vocabulary", "answers")
"""What the arg max runs over: the whole vocabulary (equation 7), or the answers alone (the authors' code)."""


@dataclass(frozen=True, eq=False)
class FactualRecall:
    """Everything about the task but the model: ``fh.factual_recall(table, d=64, key=fh.derive("tokens", 0))``."""

    table: FactTable
    phi: Float[np.ndarray, "V d"]  # embeddings of all tokens: subjects, relations, noise, EOS, answers
    T: int = SEQUENCE
    p: Float[np.ndarray, " facts"] | None = None  # p(s, r), one number a fact; None: uniform
    outputs: str = "vocabulary"

    def __post_init__(self) -> None:
        check_one_of("outputs", self.outputs, OUTPUTS)
        check_length(self.T)
        if self.n_noise < 1:
            raise ValueError(f"{len(self.phi)} embeddings leave n_noise={self.n_noise} noise tokens; take at least 1")
        if self.p is not None:
            object.__setattr__(self, "p", check_distribution(self.p, self.table))

    @property
    def d(self) -> int:
        return self.phi.shape[1]

    @property
    def n_noise(self) -> int:
        return len(self.phi) - self.table.S - self.table.R - self.table.A - 1

    @property
    def n_tokens(self) -> int:
        """Tokens that can stand in a prompt."""
        return len(self.phi) - self.table.A

    @property
    def EOS(self) -> int:
        return self.n_tokens - 1

    @property
    def U(self) -> Float[np.ndarray, "M d"]:
        """Embeddings of what can be predicted, the answers first: row a is the answer a."""
        answers, others = self.phi[self.n_tokens :], self.phi[: self.n_tokens]
        return answers if self.outputs == "answers" else np.concatenate([answers, others])

    @property
    def output_tokens(self) -> Int[np.ndarray, " M"]:
        """The token, as a row of phi, of each row of U."""
        tokens = np.roll(np.arange(len(self.phi)), self.table.A)
        return tokens[: self.table.A] if self.outputs == "answers" else tokens

    @property
    def prompt_phi(self) -> Float[np.ndarray, "tokens d"]:
        """Embeddings of the tokens that can stand in a prompt."""
        return self.phi[: self.n_tokens]


def factual_recall(
    table: FactTable, d: int, *, key: PRNGKeyArray, n_noise: int | None = None, T: int = SEQUENCE,
    p: np.ndarray | None = None, embeddings: str = "sphere", outputs: str = "vocabulary",
) -> FactualRecall:  # fmt: skip
    """The problem for ``table`` with random embeddings: ``fh.factual_recall(table, 32, key=fh.derive("example", 0))``.

    There are as many noise tokens as subjects and relations by default.

    Each kind of token has a stream of its own, so that a larger table keeps the embeddings of a smaller one.
    """
    from facthold.memory.embeddings import embed

    noise = table.S + table.R if n_noise is None else n_noise
    check_positive(n_noise=noise)
    sizes = {"subjects": table.S, "relations": table.R, "noise": noise, "EOS": 1, "answers": table.A}
    if embeddings == "orthogonal":  # these have no streams: the rows of one identity
        phi = np.asarray(embed(embeddings, sum(sizes.values()), d, key=key))
    else:
        phi = np.concatenate([np.asarray(embed(embeddings, n, d, key=fold(key, k))) for k, n in sizes.items()])
    return FactualRecall(table, phi, T, p, outputs)

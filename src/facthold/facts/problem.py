"""Factual recall as a problem: a table of facts, prompts that ask for them, and embeddings (sections 4.1 to 4.3).
Without JAX, as reading and planning need how often a fact is asked, p(s, r), and how long a prompt is, T."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Int

from facthold._util.arguments import checked
from facthold._util.errors import check_one_of, check_positive, find
from facthold._util.keys import PRNGKeyArray, derive, fold
from facthold.facts.table import FactTable, make_table
from facthold.memory import AT_ONCE, draw_embeddings

SEQUENCE = 32  # T of the paper's experiments
MOST_NOISE = 1 << 16  # noise tokens are drawn from 16 bits each
MOST_LENGTH = 1 << 16  # tokens of a prompt at most
NOTHING_FORGOTTEN = np.zeros((0, 3), np.int64)
OUTPUTS = ("vocabulary", "answers")  # the arg max runs over all tokens (equation 7), or the answers (the authors' code)


@dataclass(frozen=True)
class Drawing:
    """How random embeddings were drawn: enough to draw them again, where NumPy's stream is still the same."""

    kind: str
    keys: tuple[tuple[int, int], ...]  # of NumPy's Philox, for each kind of token in the order of phi
    stored: bool = True  # whether a file of them holds their numbers all the same

    def phi(self, sizes: Sequence[int], d: int) -> Float[np.ndarray, "V d"]:
        """So many embeddings of each kind of token. More of them begin with the same ones."""
        streams = zip(sizes, self.keys, strict=True)
        return np.concatenate([draw_embeddings(self.kind, n, d, words) for n, words in streams])


@dataclass(frozen=True, eq=False)
class FactualRecall:
    """Everything about the task but the model: ``fh.factual_recall(table, d=64, key=fh.derive("tokens", 0))``."""

    table: FactTable
    phi: Float[np.ndarray, "V d"]  # embeddings of all tokens: subjects, relations, noise, EOS, answers
    T: int = SEQUENCE
    p: Float[np.ndarray, " facts"] | None = None  # p(s, r), one number a fact; None: uniform
    outputs: str = "vocabulary"
    drawing: Drawing | None = None  # of phi, but for single rows that were changed since; None: not known
    forgotten: Int[np.ndarray, "n 3"] = field(default_factory=lambda: NOTHING_FORGOTTEN)
    """(s, r, a) that are not in the table any more, and are not to be said."""

    def __post_init__(self) -> None:
        check_one_of("outputs", self.outputs, OUTPUTS)
        check_length(self.T)
        if self.n_noise < 1:
            raise ValueError(f"{len(self.phi)} embeddings leave n_noise={self.n_noise} noise tokens; take at least 1")
        if self.p is not None:
            object.__setattr__(self, "p", check_distribution(self.p, self.table))
        most = (self.table.S, self.table.R, self.table.A)
        if self.forgotten.shape[1:] != (3,) or ((self.forgotten < 0) | (self.forgotten >= most)).any():
            raise ValueError(f"forgotten must be rows (s, r, a) below {most}, and has the shape {self.forgotten.shape}")

    @property
    def d(self) -> int:
        return self.phi.shape[1]

    @property
    def n_noise(self) -> int:
        return len(self.phi) - self.table.S - self.table.R - self.table.A - 1

    @property
    def n_embeddings(self) -> int:
        """Numbers in the embeddings."""
        return self.phi.size

    @property
    def sizes(self) -> tuple[int, int, int, int, int]:
        """How many rows of phi are subjects, relations, noise tokens, EOS and answers."""
        return self.table.S, self.table.R, self.n_noise, 1, self.table.A

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


@checked
def factual_recall(
    table: FactTable, d: int, *, key: PRNGKeyArray, n_noise: int | None = None, T: int = SEQUENCE,
    p: np.ndarray | None = None, embeddings: str = "sphere", outputs: str = "vocabulary",
) -> FactualRecall:  # fmt: skip
    """The problem for ``table`` with random embeddings: ``fh.factual_recall(table, 32, key=fh.derive("example", 0))``.

    There are as many noise tokens as subjects and relations by default. Each kind of token has a stream of its own, so
    that a larger table keeps the embeddings of a smaller one.
    """
    from facthold.memory.embeddings import embed, words_of

    noise = table.S + table.R if n_noise is None else n_noise
    check_positive(n_noise=noise, d=d)
    sizes = {"subjects": table.S, "relations": table.R, "noise": noise, "EOS": 1, "answers": table.A}
    if embeddings in AT_ONCE:  # all tokens in one table, as each kind of token by itself would not know of the others
        return FactualRecall(table, np.asarray(embed(embeddings, sum(sizes.values()), d, key=key)), T, p, outputs)
    drawing = Drawing(embeddings, tuple(words_of(fold(key, kind)) for kind in sizes))
    return FactualRecall(table, drawing.phi(list(sizes.values()), d), T, p, outputs, drawing)


def uniform(table: FactTable) -> np.ndarray:
    """p(s, r) the same for every fact of the table."""
    return np.full(len(table), 1 / len(table))


def zipf(table: FactTable, in_s: float = 1.0, in_r: float = 0.0) -> np.ndarray:
    """p(s, r) proportional to (s+1)^-in_s (r+1)^-in_r, as in the authors' code; 0 and 0: uniform."""
    weights = (table.subjects + 1.0) ** -in_s * (table.relations + 1.0) ** -in_r
    return weights / weights.sum()


def check_length(T: int) -> None:
    """Refuse prompts that are too short to ask anything, and those that would be drawn for hours."""
    if T < 3:
        raise ValueError(f"T={T} leaves no room for a subject, a relation and EOS; take T >= 3")
    if T > MOST_LENGTH:
        raise ValueError(f"T={T} is more than {MOST_LENGTH}, the longest prompt")


def check_distribution(weights: Sequence[float] | np.ndarray, table: FactTable) -> np.ndarray:
    """p(s, r) as one number a fact (or an S x R matrix), checked: not negative, with sum 1."""
    p: np.ndarray = np.asarray(weights, float)
    if p.shape == (table.S, table.R) and p.shape != (len(table),):
        if np.any(p[table.matrix < 0] != 0):
            raise ValueError("p(s, r) is above 0 for a pair that is not in the table; set it to 0, or add the fact")
        p = p[table.subjects, table.relations]
    if p.shape != (len(table),):
        raise ValueError(f"p(s, r) must have one number for each of {len(table)} facts, not the shape {p.shape}")
    if not np.isfinite(p).all() or (p < 0).any():
        raise ValueError(f"p(s, r) must not be negative or infinite, and its smallest value is {p.min()}")
    with np.errstate(over="ignore"):
        total = float(p.sum())
    if abs(total - 1) > 1e-6:
        way = "divide it by its sum" if 0 < total < np.inf else "give how often each fact is asked for"
        raise ValueError(f"p(s, r) must sum to 1, and sums to {total:.9g}; {way}")
    return p


@dataclass(frozen=True)
class Variant:
    """What (d, H, d_h, m) leave open about task and model, where the paper's text and the authors' code differ."""

    name: str
    scaled: bool  # whether scores are divided by sqrt(d_h)
    outputs: str  # what the arg max and the softmax run over: 'vocabulary' or 'answers'
    bias: bool  # whether the MLP's first layer has a bias
    embeddings: str


VARIANTS = {
    v.name: v
    for v in (
        Variant("code", scaled=True, outputs="answers", bias=True, embeddings="gaussian"),
        Variant("text", scaled=False, outputs="vocabulary", bias=False, embeddings="sphere"),
        Variant("answers", scaled=False, outputs="answers", bias=False, embeddings="sphere"),  # text, among the answers
    )
}


def variant(name: str) -> Variant:
    """The variant with this name."""
    return find("variant", name, VARIANTS)


def seeded_table(kind: str, S: int, R: int, D: int | None, seed: int) -> FactTable:
    """The table of this seed; D=None: as many answers as subjects. For D fixed, that of S + 1 begins with that of S."""
    return make_table(kind, S, R, S if D is None else D, key=derive("facts", seed, kind))


def seeded_recall(
    table: FactTable, d: int, seed: int, variant: str | Variant = "text", *, T: int = SEQUENCE,
    n_noise: int | None = None, p: np.ndarray | None = None,
) -> FactualRecall:  # fmt: skip
    """The table's prompts and embeddings, of this seed and variant. 'text' is the setting of the theorems: spherical
    embeddings, arg max over the whole vocabulary."""
    v = find("variant", variant, VARIANTS) if isinstance(variant, str) else variant
    key = derive("tokens", seed, d, v.embeddings)
    return factual_recall(table, d, key=key, n_noise=n_noise, T=T, p=p, embeddings=v.embeddings, outputs=v.outputs)

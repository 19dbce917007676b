"""The forward pass of a transformer in NumPy and float64: the same function as `Transformer`, and nothing compiled.

One question is answered before JAX would have compiled it, and edits need features to full precision. Prompts come in
blocks, so that a large table needs no more memory than a small one.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, UInt64
from scipy.special import softmax

from facthold._util.errors import check_range
from facthold.facts.problem import FactualRecall
from facthold.facts.table import FactTable
from facthold.memory.activations import RELU, Activation
from facthold.models.saving import check_finite, to_numpy
from facthold.models.transformer import Transformer

BLOCK = 1 << 20  # numbers in the largest array of a block: few enough to stay in a cache, many enough to share its cost

Tokens = Int[np.ndarray, "n T"]
Indices = Int[np.ndarray, " n"]
Vectors = Float[np.ndarray, "n d"]
Embeddings = Float[np.ndarray, "M d"]


@dataclass(frozen=True, eq=False)
class States:
    """What a transformer computes at the last token of n prompts."""

    heads: Float[np.ndarray, "n H d_h"]
    x: Vectors  # F_MHSA, what the MLP reads (equation 5)
    hidden: Float[np.ndarray, "n m"]  # sigma(W x + b); no columns without an MLP
    F: Vectors

    @property
    def features(self) -> Float[np.ndarray, "n q"]:
        """What the last linear map reads: the neurons, or without an MLP the heads."""
        n, H, d_h = self.heads.shape
        return self.hidden if self.hidden.shape[1] else self.heads.reshape(n, H * d_h)


@dataclass(frozen=True, eq=False)
class Forward:
    """A transformer and the embeddings of its problem, ready to be asked. All weights are float64."""

    keys: Float[np.ndarray, "H d"]  # W_K^T W_Q phi(EOS): a token's score in each head is its product with phi(z)
    W_V: Float[np.ndarray, "H d_h d"]
    W_O: Float[np.ndarray, "H d_h d"]
    W: Float[np.ndarray, "m d"]
    b: Float[np.ndarray, " m"]
    V: Float[np.ndarray, "m d"]
    sigma: Activation
    phi: Float[np.ndarray, "tokens d"]  # embeddings of the tokens that can stand in a prompt, as they are stored
    U: Embeddings
    table: FactTable

    @classmethod
    def of(cls, model: Transformer, problem: FactualRecall) -> "Forward":
        check_finite(to_numpy(model) | {"embeddings": problem.phi})
        W_K, W_Q, W_V, W_O = (np.asarray(W, np.float64) for W in (model.W_K, model.W_Q, model.W_V, model.W_O))
        query = problem.phi[problem.EOS].astype(np.float64)
        keys = np.einsum("hid,hi->hd", W_K, W_Q @ query) * (model.d_h**-0.5 if model.scaled else 1.0)
        mlp, none = model.mlp, np.zeros((0, model.d))
        W, V = (none, none) if mlp is None else (np.asarray(mlp.W, np.float64), np.asarray(mlp.V, np.float64))
        b = np.zeros(len(W)) if mlp is None or mlp.b is None else np.asarray(mlp.b, np.float64)
        sigma = RELU if mlp is None else mlp.sigma
        return cls(keys, W_V, W_O, W, b, V, sigma, problem.prompt_phi, problem.U, problem.table)

    @property
    def last_map(self) -> tuple[str, Float[np.ndarray, "q d"]]:
        """The last linear map, by its name: V, or without an MLP W_O."""
        return ("mlp.V", self.V) if len(self.V) else ("W_O", self.W_O.reshape(-1, self.W_O.shape[2]))

    def states(self, tokens: Tokens) -> States:
        """All that is computed for these prompts, at once."""
        heads = self.heads(tokens)
        W_O = self.W_O.reshape(-1, self.W_O.shape[2])
        x = heads.reshape(-1, len(W_O)) @ W_O
        hidden = self.hidden(x)
        return States(heads, x, hidden, x + hidden @ self.V)

    def hidden(self, x: Vectors) -> Float[np.ndarray, "n m"]:
        return self.sigma(x @ self.W.T + self.b)

    def blocks(self, tokens: Tokens) -> Iterator[tuple[slice, States]]:
        """The states of any number of prompts, a bounded number at a time, each with its place."""
        return ((at, self.states(tokens[at])) for at in self.parts(tokens))

    def parts(self, tokens: Tokens) -> Iterator[slice]:
        """The places of so many prompts at a time that their states are few numbers."""
        H, d_h, d = self.W_O.shape
        return blocks(len(tokens), max(H * max(d_h, tokens.shape[1]), d, len(self.W), 4 * d_h))

    def heads(self, tokens: Tokens) -> Float[np.ndarray, "n H d_h"]:
        """The heads' outputs. A score and a value depend on the token alone, so that each token is looked at once."""
        there, at = np.unique(tokens, return_inverse=True)
        at = at.reshape(tokens.shape)
        phi = self.phi[there].astype(np.float64)
        H, d_h, d = self.W_V.shape
        attention = softmax((phi @ self.keys.T)[at], axis=1)
        values = (phi @ self.W_V.reshape(-1, d).T).reshape(-1, H, d_h)
        heads = np.zeros((len(tokens), H, d_h))
        for t in range(tokens.shape[1]):  # a position at a time: n x T x H x d_h numbers are never held at once
            heads += attention[:, t, :, None] * values[at[:, t]]
        return heads

    def attention(self, tokens: Tokens) -> Float[np.ndarray, "n T H"]:
        """How much each head attends to each position."""
        return softmax(self.phi[tokens].astype(np.float64) @ self.keys.T, axis=1)


def blocks(n: int, width: int, times: int = 1, least: int = 1) -> Iterator[slice]:
    """n rows of ``width`` numbers, so many at a time as fit in ``times`` `BLOCK`, but ``least`` of them; one empty
    slice where n is 0."""
    size = max(least, times * BLOCK // max(width, 1))
    return (slice(i, min(i + size, n)) for i in range(0, max(n, 1), size))


def prompts(problem: FactualRecall, s: Indices, r: Indices, *, noise: int | None = None, seed: int = 0) -> Tokens:
    """A prompt for each (s, r): the two, ``noise`` noise tokens (None: up to T) and EOS, in any order to the model.

    The noise of a question depends on the seed, s and r alone, so that it is the same whatever else is asked.
    """
    k = problem.T - 3 if noise is None else noise
    if k < 0:
        raise ValueError(f"noise={k} must be 0 or more")
    s, r = np.asarray(s, np.int64), np.asarray(r, np.int64)
    table, n = problem.table, len(s)
    check_range("subjects", s, table.S)
    check_range("relations", r, table.R)
    tokens = np.empty((n, k + 3), np.int64)
    tokens[:, 0], tokens[:, 1], tokens[:, -1] = s, table.S + r, problem.EOS
    stream = _mix(_mix(np.array([seed % 2**64], np.uint64)) + (s * table.R + r).astype(np.uint64))
    words = _mix(stream[:, None] + np.arange(k, dtype=np.uint64) * GOLDEN)
    noise_tokens = (words >> np.uint64(32)) * np.uint64(problem.n_noise) >> np.uint64(32)
    tokens[:, 2:-1] = table.S + table.R + noise_tokens
    return tokens


def table_prompts(
    problem: FactualRecall, rows: Indices | slice = slice(None), *, draws: int = 1, seed: int = 0
) -> Int[np.ndarray, "draws facts T"]:
    """Prompts for these facts of the table, or for all of them, each with ``draws`` fresh noises."""
    s, r = problem.table.subjects[rows], problem.table.relations[rows]
    return np.stack([prompts(problem, s, r, seed=seed + i) for i in range(draws)])


def word_tokens(problem: FactualRecall, words: list[str]) -> Int[np.ndarray, " k"]:
    """The noise token that a word stands for: by a hash of it, so that it is the same in every prompt."""
    first, hashes = problem.table.S + problem.table.R, (hashlib.sha256(word.encode()).digest() for word in words)
    return np.array([first + int.from_bytes(h[:8]) % problem.n_noise for h in hashes], np.int64)


GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mix(x: UInt64[np.ndarray, "*n"]) -> UInt64[np.ndarray, "*n"]:
    """A random word for each counter (splitmix64): a generator that starts at every question needs no state."""
    z = x + GOLDEN  # wraps around, as it should
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))

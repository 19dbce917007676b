"""Which head attends to which tokens (section 4.3, lemma 1), and facts in attention alone (theorems 3 and 10, lemma 2).

A head serves a subset of the subjects, or of the relations. It attends to the token of its subset that a prompt
holds, and to EOS where there is none. Its score is beta <v, phi(z)>: above that of EOS for tokens of the subset,
below it for all others that can stand in a prompt.

In theorem 3 the heads of s add phi(a) for each answer a of s, those of r for each answer of r. The answer to (s, r) is
in both sums, and wins where it is the only one.
"""

import math
from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from facthold._util.errors import check_positive
from facthold._util.keys import fold
from facthold.construct.dimensions import tokens_per_head
from facthold.construct.solve import minimise
from facthold.construct.sums import check_intersections, check_sums
from facthold.facts.problem import FactualRecall
from facthold.memory.embeddings import host_generator
from facthold.models.memory import MLPMemory
from facthold.models.transformer import Transformer

LEAK = 1e-6  # attention that all tokens but the right one may take together, where beta is chosen for it
MOST_BETA = 1e4  # where two scores stand in the wrong order no beta helps; this one shows the order as it is
RESIDUAL = 1e-3  # of codes in the residual stream that an MLP reads: their own scores are nothing beside a margin of 1

Tokens = Int[np.ndarray, " _"]
Keys = Float[np.ndarray, "subsets d"]
OneHead = Float[np.ndarray, "d_h d"]
Heads = Float[np.ndarray, "H d_h d"]


def asked_tokens(problem: FactualRecall) -> tuple[Tokens, Tokens]:
    """The subjects and the relations that some fact has, as tokens: no head has to know the others."""
    table = problem.table
    return np.unique(table.subjects), table.S + np.unique(table.relations)


def partition(problem: FactualRecall, size: int) -> list[Tokens]:
    """Subsets of at most ``size`` tokens: ceil(S / size) of subjects, then ceil(R / size) of relations."""
    check_positive(size=size)
    return [part for tokens in asked_tokens(problem) for part in np.array_split(tokens, math.ceil(len(tokens) / size))]


def partition_into(problem: FactualRecall, n: int) -> list[Tokens]:
    """The partition with the smallest subsets among those with at most ``n`` of them."""
    if n < 2:
        raise ValueError(f"H={n} is too few: subjects and relations need a head each, so at least 2")
    S, R = map(len, asked_tokens(problem))
    return partition(problem, tokens_per_head(S, R, n))


def hebbian_keys(problem: FactualRecall, subsets: Sequence[Tokens]) -> Keys:
    """v = sum_z phi(z) + phi(EOS) / 2 over each subset (lemma 1)."""
    phi = problem.phi.astype(np.float64)
    return np.stack([phi[tokens].sum(axis=0) + phi[problem.EOS] / 2 for tokens in subsets])


def separating_keys(problem: FactualRecall, subsets: Sequence[Tokens]) -> Keys:
    """The v that keep both gaps of lemma 1 at 1 or more, by a convex problem: a squared hinge for each gap.

    It does what decorrelated embeddings do for the sum of lemma 1: d may be far smaller, down to where no linear
    score separates the subset.
    """
    phi = problem.prompt_phi.astype(np.float64)
    args = phi - phi[problem.EOS], _signs(problem, subsets)
    # Leave the scale of the start to the embeddings: beta comes on top of it.
    return minimise(_hinge, hebbian_keys(problem, subsets), args, max_iterations=500)


def _signs(problem: FactualRecall, subsets: Sequence[Tokens]) -> Float[np.ndarray, "subsets tokens"]:
    """1 for the tokens of each subset, 0 for EOS, -1 for all others."""
    signs = np.full((len(subsets), problem.n_tokens), -1.0)
    for row, tokens in zip(signs, subsets, strict=True):
        row[tokens] = 1.0
    signs[:, problem.EOS] = 0.0
    return signs


def _hinge(v: Array, beyond: Array, signs: Array) -> Array:
    missing = jax.nn.relu(1.0 - signs * (v @ beyond.T)) * jnp.abs(signs)
    return 0.5 * (missing**2).sum()


def gaps(problem: FactualRecall, keys: Keys, subsets: Sequence[Tokens]) -> Float[np.ndarray, " subsets"]:
    """How far each head's scores are apart, for beta = 1: the smaller of the gaps above and below EOS."""
    scores = keys @ problem.prompt_phi.astype(np.float64).T
    apart = _signs(problem, subsets) * (scores - scores[:, [problem.EOS]])
    return np.delete(apart, problem.EOS, axis=1).min(axis=1)


def beta_for(gap: Float[np.ndarray, " n"], T: int) -> Float[np.ndarray, " n"]:
    """The beta with which T - 1 tokens that lie ``gap`` below the highest take `LEAK` of the attention at most."""
    wanted = math.log((T - 1) / LEAK)
    return np.where(gap * MOST_BETA > wanted, wanted / np.maximum(gap, wanted / MOST_BETA), MOST_BETA)


def reading_rows(problem: FactualRecall, tokens: Tokens, code: Float[np.ndarray, "n d_h"]) -> OneHead:
    """The W_V of least norm with W_V phi(z) = code of z for the tokens of a head, and W_V phi(EOS) = 0."""
    if (n := len(tokens)) >= problem.d:
        raise ValueError(f"a head cannot tell {n} tokens and EOS apart in d={problem.d}; take d > {n}")
    phi = problem.phi[[*tokens, problem.EOS]].astype(np.float64)
    wanted = np.concatenate([code, np.zeros((1, code.shape[1]))])
    return (np.linalg.pinv(phi) @ wanted).T


def attention_only(
    problem: FactualRecall, H: int, d_h: int, *, key: PRNGKeyArray, per_head: int | None = None,
    beta: float | None = None,
) -> Transformer:  # fmt: skip
    """The attention-only transformer of theorem 10, with heads of rank one in keys and of rank d_h in values.

    A head serves ``per_head`` tokens; without it, as few as H heads allow. Departs: beta, "a large constant", is the
    one at which attention outside is `LEAK`, where lemma 1 holds. Heads that no subset needs are zero.
    """
    check_positive(H=H, d_h=d_h)
    check_dimension(problem)
    check_sums(problem.table)
    check_intersections(problem.table)
    subsets = partition_into(problem, H) if per_head is None else partition(problem, per_head)
    if len(subsets) > H:
        raise ValueError(f"H={H} heads of {per_head} tokens each are too few: the partition needs {len(subsets)}")
    W_V = np.stack([*sphere_without_EOS(problem, len(subsets), d_h, key=fold(key, "values"))])
    memory = [projected_memory(problem, tokens, w) for tokens, w in zip(subsets, W_V, strict=True)]
    keys = hebbian_keys(problem, subsets)
    return assemble(problem, subsets, keys, W_V, np.stack(memory), H=H, beta=beta)


def projected_memory(problem: FactualRecall, tokens: Tokens, w: OneHead) -> OneHead:
    """W_O of a head with W_V = w: together d/d_h sum_z sum_{a in A_z} phi(a) phi(z)^T sum_i w_i w_i^T (lemma 2)."""
    table, phi = problem.table, problem.phi.astype(np.float64)
    among = np.zeros((table.S + table.R, table.A))  # whether a is in A_z
    among[table.subjects, table.answers] = 1
    among[table.S + table.relations, table.answers] = 1
    return problem.d / len(w) * (w @ phi[tokens].T) @ (among @ phi[problem.n_tokens :])[tokens]


def sphere_without_EOS(problem: FactualRecall, n: int, d_h: int, *, key: PRNGKeyArray) -> Iterator[OneHead]:
    """w_i uniform on the unit sphere, orthogonal to phi(EOS): a head that attends to EOS then adds nothing. A head at a
    time: all of them may be hundreds of megabytes, and three times as slow."""
    generator, EOS = host_generator(key), problem.phi[problem.EOS].astype(np.float64)
    for _ in range(n):
        w = generator.standard_normal((d_h, problem.d))
        w -= (w @ EOS)[:, None] * EOS / (EOS @ EOS)
        yield w / np.linalg.norm(w, axis=-1, keepdims=True)


def assemble(
    problem: FactualRecall, subsets: Sequence[Tokens], keys: Keys, W_V: Heads, W_O: Heads, *, H: int,
    beta: float | None = None, repeat: int = 1, mlp: MLPMemory | None = None,
) -> Transformer:  # fmt: skip
    """A transformer of H heads; ``repeat`` heads in a row share the keys of one subset.

    W_K^T W_Q = beta v phi(EOS)^T has rank one: the first row of each holds it.
    """
    sharp = beta_for(gaps(problem, keys, subsets), problem.T) if beta is None else np.full(len(keys), beta)
    EOS = problem.phi[problem.EOS].astype(np.float64)
    n, d_h, d = W_V.shape
    W_K, W_Q = np.zeros((2, H, d_h, d))
    W_K[:n, 0] = np.repeat(sharp[:, None] * keys, repeat, axis=0)
    W_Q[:n, 0] = EOS / (EOS @ EOS)  # so that the score is beta <v, phi(z)> for embeddings of any norm
    spare = [(0, H - n), (0, 0), (0, 0)]
    k, q, v, o = (jnp.asarray(W, jnp.float32) for W in (W_K, W_Q, np.pad(W_V, spare), np.pad(W_O, spare)))
    return Transformer(k, q, v, o, mlp)


def check_dimension(problem: FactualRecall, m: int = 1) -> None:
    """Refuse a d in which phi(EOS) and two more directions do not fit, and an MLP without neurons."""
    if m < 1:
        raise ValueError(f"m={m}: the facts are in the MLP, which needs a width of at least 1")
    if problem.d < 3:
        raise ValueError(f"d={problem.d} has no room for phi(EOS), a subject and a relation; take d >= 3")

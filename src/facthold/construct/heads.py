"""Which head attends to which tokens, and the keys and queries that make it so (section 4.3, lemma 1).

A head serves a subset of the subjects, or of the relations. It attends to the token of its subset that a prompt
holds, and to EOS where there is none. Its score is beta <v, phi(z)>: above that of EOS for tokens of the subset,
below it for all others that can stand in a prompt.
"""

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from facthold._util.errors import check_positive
from facthold.construct.solve import minimise
from facthold.facts.problem import FactualRecall

LEAK = 1e-6  # attention that all tokens but the right one may take together, where beta is chosen for it
MOST_BETA = 1e4  # where two scores stand in the wrong order no beta helps; this one shows the order as it is

Tokens = Int[np.ndarray, " _"]
Keys = Float[np.ndarray, "subsets d"]


def asked_tokens(problem: FactualRecall) -> tuple[Tokens, Tokens]:
    """The subjects and the relations that some fact has, as tokens: no head has to know the others."""
    table = problem.table
    return np.unique(table.subjects), table.S + np.unique(table.relations)


def partition(problem: FactualRecall, size: int) -> list[Tokens]:
    """Subsets of at most ``size`` tokens: ceil(S / size) of subjects, then ceil(R / size) of relations."""
    check_positive(size=size)
    return [
        subset for tokens in asked_tokens(problem) for subset in np.array_split(tokens, math.ceil(len(tokens) / size))
    ]


def partition_into(problem: FactualRecall, n: int) -> list[Tokens]:
    """The partition with the smallest subsets among those with at most ``n`` of them."""
    if n < 2:
        raise ValueError(f"H={n} is too few: subjects and relations need a head each, so at least 2")
    sizes = [len(tokens) for tokens in asked_tokens(problem)]
    fitting = (M for M in range(1, max(sizes) + 1) if sum(math.ceil(size / M) for size in sizes) <= n)
    return partition(problem, next(fitting))


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
    signs = np.full((len(subsets), len(phi)), -1.0)
    for i, tokens in enumerate(subsets):
        signs[i, tokens] = 1.0
    signs[:, problem.EOS] = 0.0
    beyond = phi - phi[problem.EOS]
    # Leave the scale of the start to the embeddings: beta comes on top of it.
    return minimise(_hinge, hebbian_keys(problem, subsets), (beyond, signs), max_iterations=500)


def _hinge(v: Array, beyond: Array, signs: Array) -> Array:
    missing = jax.nn.relu(1.0 - signs * (v @ beyond.T)) * jnp.abs(signs)
    return 0.5 * (missing**2).sum()


def gaps(problem: FactualRecall, keys: Keys, subsets: Sequence[Tokens]) -> Float[np.ndarray, " subsets"]:
    """How far each head's scores are apart, for beta = 1: the smaller of the gaps above and below EOS."""
    scores = keys @ problem.prompt_phi.astype(np.float64).T
    at_EOS = scores[:, problem.EOS]
    result = []
    for i, tokens in enumerate(subsets):
        others = np.setdiff1d(np.arange(problem.n_tokens), [*tokens, problem.EOS])
        result.append(min(scores[i, tokens].min() - at_EOS[i], at_EOS[i] - scores[i, others].max()))
    return np.array(result)


def beta_for(gap: Float[np.ndarray, " n"], T: int, leak: float = LEAK) -> Float[np.ndarray, " n"]:
    """The beta with which T - 1 tokens that lie ``gap`` below the highest take ``leak`` of the attention at most."""
    wanted = math.log((T - 1) / leak)
    return np.where(gap * MOST_BETA > wanted, wanted / np.maximum(gap, wanted / MOST_BETA), MOST_BETA)


def reading_rows(
    problem: FactualRecall, tokens: Tokens, code: Float[np.ndarray, "n d_h"]
) -> Float[np.ndarray, "d_h d"]:
    """The W_V of least norm with W_V phi(z) = code of z for the tokens of a head, and W_V phi(EOS) = 0."""
    if len(tokens) >= problem.d:
        raise ValueError(
            f"a head cannot tell {len(tokens)} tokens and EOS apart in d={problem.d}; take d > {len(tokens)}"
        )
    phi = problem.phi[[*tokens, problem.EOS]].astype(np.float64)
    wanted = np.concatenate([code, np.zeros((1, code.shape[1]))])
    return (np.linalg.pinv(phi) @ wanted).T

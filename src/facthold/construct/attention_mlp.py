"""Facts in the MLP, without training (theorems 4 and 11, lemma 3).

Attention brings out the projections s' of phi(s) onto a subspace P and r' of phi(r) onto Q, orthogonal to each
other and to phi(EOS). The MLP is an associative memory from s' + r' to the answer.
"""

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from facthold._util.errors import check_positive
from facthold._util.keys import fold
from facthold.construct.attention import assemble, check_dimension, gaps, hebbian_keys, partition
from facthold.facts.problem import FactualRecall
from facthold.memory.activations import Activation, Polynomial, hermite
from facthold.memory.embeddings import host_generator
from facthold.models.memory import MLPMemory
from facthold.models.transformer import Transformer

SCALE = 100.0  # V times this: about the score of the answer, far above those of s and r in the residual, about 1/2

Matrix = Float[np.ndarray, "_ _"]


def attention_and_mlp(
    problem: FactualRecall, m: int, *, key: PRNGKeyArray, d_h: int | None = None, p: int = 1, k: int = 1,
    sigma: Activation | None = None, per_subset: int | None = None, beta: float | None = None,
) -> Transformer:  # fmt: skip
    """The transformer of theorem 11: ceil(d / d_h) heads per subset of tokens, and an MLP from Hermite tensors.

    The proof takes odd p, k > 2 / epsilon; 1 and 1 work at far smaller m, where d is large against S and R. Departs:
    sigma is h_{p+k} alone where none is given, as the other components that assumption 3 asks for add noise and no
    margin. Without ``per_subset`` it is the largest for which lemma 1 holds.
    """
    d_h = problem.d if d_h is None else d_h
    check_positive(d_h=d_h)
    P, Q, mlp = answering_mlp(problem, m, key=key, p=p, k=k, sigma=sigma)
    repeat = math.ceil(problem.d / d_h)
    subsets = largest_partition(problem) if per_subset is None else partition(problem, per_subset)
    n_subjects = sum(tokens[0] < problem.table.S for tokens in subsets)
    # the rows of P or Q shared out over the heads of a subset, the rest zero: sum_h W_V^T W_V is their projection
    P_h, Q_h = (np.pad(X, [(0, repeat * d_h - len(X)), (0, 0)]).reshape(repeat, d_h, -1) for X in (P, Q))
    W_V = np.concatenate([P_h] * n_subjects + [Q_h] * (len(subsets) - n_subjects))
    keys = hebbian_keys(problem, subsets)
    return assemble(problem, subsets, keys, W_V, W_V, H=len(W_V), beta=beta, repeat=repeat, mlp=mlp)


def answering_mlp(
    problem: FactualRecall, m: int, *, key: PRNGKeyArray, p: int = 1, k: int = 1, sigma: Activation | None = None
) -> tuple[Matrix, Matrix, MLPMemory]:
    """The rows of P and of Q, and the MLP from s' + r' to the answer: all of theorem 11's transformer but its heads.

    The first neurons of a wider one are those of a narrower one, V in proportion to 1 / m.
    """
    check_dimension(problem, m)
    check_positive(p=p, k=k)
    sigma = Polynomial((0.0,) * (p + k) + (1.0,)) if sigma is None else sigma
    if not sigma.coefficient(p + k):
        raise ValueError(
            f"sigma={sigma.name!r} has no Hermite component of degree p + k = {p + k}; take a polynomial of at least "
            f"this degree, or smaller p and k"
        )
    P, Q = two_subspaces(problem, key=fold(key, "subspaces"))
    return P, Q, hermite_tensor_memory(problem, P, Q, m, p, k, sigma, key=fold(key, "MLP"))


def largest_partition(problem: FactualRecall) -> list[np.ndarray]:
    """The partition with the largest subsets for which the scores stand as lemma 1 has them; at worst single tokens."""
    size = max(problem.table.S, problem.table.R)
    while size > 1:
        subsets = partition(problem, size)
        if gaps(problem, hebbian_keys(problem, subsets), subsets).min() > 0:
            return subsets
        size //= 2
    return partition(problem, 1)


def two_subspaces(problem: FactualRecall, *, key: PRNGKeyArray) -> tuple[Matrix, Matrix]:
    """Orthonormal rows of P and of Q, random, orthogonal to each other and to phi(EOS).

    Departs: floor((d - 1) / 2) dimensions each, as two of ceil(d / 2) and phi(EOS) do not fit in d.
    """
    EOS = problem.phi[problem.EOS].astype(np.float64)
    directions = host_generator(key).standard_normal((problem.d, problem.d))
    directions[:, 0] = EOS
    basis = np.linalg.qr(directions)[0].T[1:]
    half = (problem.d - 1) // 2
    return basis[:half], basis[half : 2 * half]


def hermite_tensor_memory(
    problem: FactualRecall, P: Matrix, Q: Matrix, m: int, p: int, k: int, sigma: Activation, *, key: PRNGKeyArray
) -> MLPMemory:
    """v_i = 1/m sum_(s,r) <He_{p+k}(w_i), s'^p x r'^k> phi(a*(s, r)), with w_i ~ N(0, I_d) (lemma 3).

    Departs: divided by the mean margin c_{p+k} sqrt((p+k)!) / 2^(p+k), and multiplied by `SCALE`.
    """
    table, phi = problem.table, problem.phi.astype(np.float64)
    W = host_generator(key).standard_normal((m, problem.d))
    by_s = tensor_contraction(W, phi[: table.S] @ P.T @ P, p)
    by_r = tensor_contraction(W, phi[table.S : table.S + table.R] @ Q.T @ Q, k)
    margin = sigma.coefficient(p + k) * math.sqrt(math.factorial(p + k)) / 2 ** (p + k)
    answers = phi[problem.n_tokens :]
    V = np.zeros((m, problem.d))
    for r in range(table.R):  # never all facts times all neurons at once
        ours = table.relations == r
        weights = by_s[table.subjects[ours]] * by_r[r]
        V += weights.T @ answers[table.answers[ours]]
    return MLPMemory(jnp.asarray(W, jnp.float32), jnp.asarray(V * (SCALE / (m * margin)), jnp.float32), sigma=sigma)


def tensor_contraction(W: Matrix, x: Matrix, degree: int) -> Matrix:
    """<He_k(w_i), x^k> = |x|^k sqrt(k!) h_k(<w_i, x> / |x|), a row for each x (lemma 16, with its factor sqrt(k!)).

    The parts of s and of r are orthogonal, so that the contraction of He_{p+k} with both is the product of two.
    """
    norm = np.linalg.norm(x, axis=1, keepdims=True)
    return norm**degree * math.sqrt(math.factorial(degree)) * hermite(degree, (x / norm) @ W.T)

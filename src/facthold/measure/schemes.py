"""The error of memory schemes on heavy-tailed data: the probability of the tokens that are recalled wrongly, exactly
over all N tokens. Embeddings come in blocks of rows, so that nothing of N x M numbers is ever held."""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from facthold._util.errors import check_scheme
from facthold.memory import AT_ONCE, EMBEDDINGS, check_fits, draw_embeddings, generator

HELD = 1 << 26  # numbers of E that are kept for the second time; where they are more, they are drawn again
BLOCK = 1 << 22  # scores, or numbers of embeddings, that are looked at together

Words = Sequence[int]  # the two words of a key


def scheme_errors(
    q: Float[np.ndarray, "K N"], p: Float[np.ndarray, " N"], f: Int[np.ndarray, " N"], M: int, d: int, *,
    embeddings: str, inputs: Words, outputs: Words,
) -> Float[np.ndarray, "K 2"]:  # fmt: skip
    """sum_z p(z) 1{arg max_y u_y^T W e_z is not f(z)} for W = sum_z q(z) u_{f(z)} e_z^T of each row of q: first over
    the tokens that W holds, those with q(z) above 0, then over all others.

    All rows of q are tried on the same embeddings, which the two keys give. A tie is no recall.
    """
    from scipy.sparse import csr_matrix

    check_scheme(q, p, f, M, d)
    check_fits(embeddings, d, N=len(p), M=M)
    K, N = q.shape
    U = draw_embeddings(embeddings, M, d, outputs)
    sums = np.zeros((K, M, d), np.float32)  # of each output the q-weighted sum of its inputs
    kept: list[tuple[slice, np.ndarray]] = []
    for at, E in _blocks(embeddings, N, d, M, inputs):
        for k in range(K):
            used = np.flatnonzero(q[k, at])
            weights = q[k, at][used].astype(np.float32)
            sums[k] += csr_matrix((weights, (f[at][used], used)), (M, len(E))) @ E
        if N * d <= HELD:
            kept.append((at, E))
    readouts = [(sums[k].T @ U) @ U.T for k in range(K)]  # W^T U^T: scores are E times it
    errors = np.zeros((K, 2))
    for at, E in kept or _blocks(embeddings, N, d, M, inputs):
        for k, readout in enumerate(readouts):
            wrong = p[at] * ~_recalled(E, readout, f[at])
            errors[k] += np.bincount(q[k, at] == 0, wrong, minlength=2)
    return errors


def _recalled(
    E: Float[np.ndarray, "n d"], readout: Float[np.ndarray, "d M"], f: Int[np.ndarray, " n"]
) -> Bool[np.ndarray, " n"]:
    """Which inputs have their largest score at their own output, and there alone: some rows at a time."""
    right, rows = np.empty(len(E), bool), max(1, BLOCK // readout.shape[1])
    for start in range(0, len(E), rows):
        scores = E[start : start + rows] @ readout
        own = np.arange(len(scores)), f[start : start + rows]
        target = scores[own]
        scores[own] = -np.inf
        right[start : start + rows] = target > scores.max(axis=1, initial=-np.inf)
    return right


def stored_errors(
    p: Float[np.ndarray, " k"], f: Int[np.ndarray, " k"], M: int, d: int, n: int, *, words: Words
) -> Float[np.ndarray, " n"]:
    """Estimates of the expected error of a memory that holds k tokens alike (q = 1) and is asked for no other, from n
    draws of all embeddings, N(0, I/d).

    Tokens whose outputs serve as many of them are alike, so that the mean over them stands for each. The error itself
    has the same expectation, but jumps with the most frequent token, which is seldom lost.
    """
    from scipy.sparse import csr_matrix

    draw, k = generator(words), len(p)
    served = np.bincount(f, minlength=M)[f]
    # of each token: the probability of those like it, shared out among them
    sizes, like = np.unique(served, return_inverse=True)
    weights = np.array([p[served == size].mean() for size in sizes])[like]
    together = BLOCK // ((k + M) * max(d, M))  # draws; 0: not even one
    own, errors = (slice(None), np.arange(k), f), []
    one_hot = np.eye(M, dtype=np.float32)[f] if together else csr_matrix((np.ones(k), f, np.arange(k + 1)), (k, M))
    for start in range(0, n, max(1, together)):
        b = min(max(1, together), n - start)
        E, U = (draw.standard_normal((b, size, d), np.float32) for size in (k, M))  # lengths do not move an arg max
        if together:
            scores = E @ (one_hot.T @ E).transpose(0, 2, 1) @ (U @ U.transpose(0, 2, 1))
            target = scores[own].copy()
            scores[own] = -np.inf
            right = target > scores.max(axis=2, initial=-np.inf)
        else:
            right = _recalled(E[0], (one_hot.T @ E[0]).T @ U[0] @ U[0].T, f)[None]
        errors.append(~right @ weights)
    return np.concatenate(errors)


def _blocks(kind: str, N: int, d: int, M: int, words: Words) -> Iterator[tuple[slice, np.ndarray]]:
    """The embeddings of all N inputs, some rows at a time: the same rows as if they were drawn at once."""
    draw, rows = generator(words), max(1, BLOCK // max(M, d))
    if kind in AT_ONCE:
        rows = N
    for start in range(0, N, rows):
        at = slice(start, min(start + rows, N))
        yield at, np.asarray(EMBEDDINGS[kind](at.stop - start, d, draw), np.float32)

"""What a trained W is as a memory scheme: the q(z) in W = sum_z q(z) u_{f(z)} e_z^T + ..., and what it gets wrong.

All of it is read from scores u_y^T W e_z and from the Gram matrices K_E and K_U of the embeddings: W is not needed.
"""

import numpy as np
from jaxtyping import Float, Int

UNIQUE = 1e-9  # share of the largest eigenvalue below which vectors count as dependent
SAME = 1e-5  # what rounding leaves of a q that is zero


def error_of(
    scores: Float[np.ndarray, "*runs N M"], f: Int[np.ndarray, " N"], p: Float[np.ndarray, " N"]
) -> Float[np.ndarray, "*runs"]:
    """sum_z p(z) 1{wrong}, exactly over all N tokens. A tie, or a score that is not a number, is no recall."""
    target = _own(scores, f)[..., None]
    right = ((~(scores < target)).sum(axis=-1) == 1) & np.isfinite(target[..., 0])
    return np.asarray((~right * p).sum(axis=-1))


def realised(
    scores: Float[np.ndarray, "*runs N M"], K_E: Float[np.ndarray, "N N"], K_U: Float[np.ndarray, "M M"],
    f: Int[np.ndarray, " N"],
) -> Float[np.ndarray, "*runs N"]:  # fmt: skip
    """q(z): how much more of u_{f(z)} e_z^T there is in W than of u_y e_z^T for the other outputs y, on average.

    By least squares: the sum of alpha_zy u_y e_z^T that is nearest to W has alpha = K_E^-1 scores K_U^-1, and q is
    alpha at f(z) minus the mean of the others. So a scheme comes back as it is, and so does p from one step on the
    population, which gives p (1 - 1/M) to one output and takes p / M from each other one.

    For d < N these products are dependent and alpha is not unique. There W is compared with the sums of
    q(z) u_{f(z)} e_z^T + r(z) mean_y u_y e_z^T alone, which both of the above are too; nan where q is not unique even
    so, for d below about N / (M - 1).
    """
    M, N = len(K_U), len(f)
    if M < 2:
        raise ValueError(f"M={M}: with one output there is nothing to tell apart; take M of 2 or more")
    scores = np.asarray(scores, np.float64)
    if _independent(K_E) and _independent(K_U):
        alpha = np.linalg.solve(K_E, scores) @ np.linalg.inv(K_U)
        own = _own(alpha, f)
        return own - (alpha.sum(axis=-1) - own) / (M - 1)
    mean = K_U.mean(axis=1)[f]
    gram = np.block([
        [K_E * K_U[np.ix_(f, f)], K_E * mean[:, None]],
        [K_E * mean[None, :], K_E * K_U.mean()],
    ])  # fmt: skip
    values, vectors = np.linalg.eigh(gram)
    there = values > UNIQUE * values[-1]
    if np.abs(vectors[:N, ~there]).max(initial=0.0) > SAME:  # some q adds nothing to W
        return np.full(scores.shape[:-1], np.nan)
    along = np.concatenate([_own(scores, f), scores.mean(axis=-1)], axis=-1)
    return (along @ vectors[:, there] / values[there]) @ vectors[:N, there].T


def _own(scores: Float[np.ndarray, "*runs N M"], f: Int[np.ndarray, " N"]) -> Float[np.ndarray, "*runs N"]:
    return scores[..., np.arange(len(f)), f]


def _independent(gram: Float[np.ndarray, "n n"]) -> bool:
    values = np.linalg.eigvalsh(gram)
    return bool(values[0] > UNIQUE * values[-1])

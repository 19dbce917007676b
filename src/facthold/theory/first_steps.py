"""First gradient steps in closed form (slides): those that make an induction head, and those on noisy inputs.

Three steps, in the setting at the head of `dynamics.three_steps`: N tokens, T positions, one-hot embeddings, all
distributions uniform. The population gradients to first order in the steps before, which is where the softmax still
gives every token 1/N and attention is still even. With m the mean share of the output o among all T tokens, h_s(a) the
share of the trigger among tokens 0..s where it stands at a, and pi_s(a) the probability that token s is o:

- W_OV^2: minus the gradient is E[(1{o = k} - 1/N) share of j];
- W_KQ^2, over the contrast w of W_OV^2: E[sum_s (1{z_s = o} - share of o) (share of j among 0..s)] / (T N);
- W_KQ^1, over w and the contrast v of W_KQ^2: E[(1{z_s = o} - share of o) (1{z_r = q} - share of q among 0..s)] over
  T (s + 1).

The contrast of a matrix is what it says of a right pair more than of wrong ones. By symmetry the first two have only
two values, one for right pairs and one for wrong ones.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float


def induction_contrasts(N: int, T: int, eta: tuple[float, float, float]) -> dict[str, float]:
    """The contrasts of W_OV^2, W_KQ^2 and W_KQ^1 after one step each, of these sizes in this order."""
    w = eta[0] * _output_value(N, T)
    v = eta[1] * w * _key_query(N, T)
    return {"W_OV^2": w, "W_KQ^2": v, "W_KQ^1": eta[2] * w * v * contrast_of_positions(position_gradient(N, T))}


def contrast_of_positions(W: Float[np.ndarray, "T T"]) -> float:
    """Of each position that can hold an output: the one before it, less the mean of the others up to itself."""
    T = len(W)
    return float(np.mean([W[s, s - 1] - np.delete(W[s, : s + 1], s - 1).mean() for s in range(1, T - 1)]))


def _output_value(N: int, T: int) -> float:
    right = (_share_of_output(N, T) - 1 / N) / N  # wrong pairs share minus this: all shares together are 1
    return right * N / (N - 1)


def _share_of_output(N: int, T: int) -> float:
    return (1 + (T - 3) / (N - 1)) / T


def _key_query(N: int, T: int) -> float:
    pi, h = _given_place(N, T)
    right = float(((pi - _share_of_output(N, T)) * h).sum(axis=1).mean()) / (T * N)
    return right * N / (N - 1)


def position_gradient(N: int, T: int) -> Float[np.ndarray, "T T"]:
    """Minus the gradient of W_KQ^1 where W_OV^2 and W_KQ^2 have contrast 1: from position s (rows) to r <= s."""
    pi, h = _given_place(N, T)
    at, s, r = np.arange(T - 2)[:, None, None], np.arange(T)[:, None], np.arange(T)
    is_trigger = (r == at) | (r == T - 1)
    given = (pi[:, :, None] - _share_of_output(N, T)) * (is_trigger - h[:, :, None])
    return np.where(r <= s, given.mean(axis=0) / (s + 1) / T, 0.0)


def _given_place(N: int, T: int) -> tuple[Float[np.ndarray, "places T"], Float[np.ndarray, "places T"]]:
    """pi_s(a) and h_s(a), for each place a of the trigger (rows) and each position s."""
    at, s = np.arange(T - 2)[:, None], np.arange(T)
    pi = np.where(s == at + 1, 1.0, np.where((s == at) | (s == T - 1), 0.0, 1 / (N - 1)))
    return pi, ((s >= at).astype(float) + (s == T - 1)) / (s + 1)


class Moments(NamedTuple):
    """Of u_k^T W_1 (e_y + p_t), over y and t and over draws of the embeddings."""

    right: float  # its mean where k = y
    wrong: float  # and elsewhere
    right_square: float  # the mean of its square
    wrong_square: float

    @property
    def signal(self) -> float:
        return self.right - self.wrong


def noisy_step(N: int, d: int, eta: float = 1.0) -> Moments:
    """One step from zero on x = e_y + p_t with y and t uniform, all embeddings N(0, 1/d): exact at every d.

    W_1 = eta/N sum_k u_k (e_k - mean e)^T: the positions have left it. So the mean is eta/N (1{y = k} - 1/N). With
    A_j = u_k^T u_j and B_j = (e_j - mean e)^T (e_y + p_t) the score is eta/N sum_j A_j B_j, where A and B are
    independent and different A_j uncorrelated: its square has the mean eta^2/N^2 sum_j E[A_j^2] E[B_j^2].
    """
    fourth, some = 1 + 2 / d, 1 / d  # E |u|^4; E (u^T u')^2
    position = (1 - 1 / N) / d
    own = (1 - 1 / N) ** 2 * fourth + (N - 1) / N**2 * some + position  # E B_y^2
    other = (1 - 1 / N) ** 2 * some + fourth / N**2 + (N - 2) / N**2 * some + position
    scale = eta / N
    return Moments(
        scale * (1 - 1 / N), -scale / N,
        scale**2 * (fourth * own + (N - 1) * some * other),
        scale**2 * (fourth * other + some * (own + (N - 2) * other)),
    )  # fmt: skip
